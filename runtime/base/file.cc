// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "runtime/base/format.h"

namespace onrt {
namespace {

Status failure(const char* what, const std::string& path, int error) {
  return Status(NRT_FAILURE,
                format("cannot {} '{}': {}", what, path, std::generic_category().message(error)));
}

Status too_large(const std::string& path, uint64_t most) {
  return Status(NRT_FAILURE,
                format("cannot read '{}': it is larger than {}", path, format_bytes(most)));
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What a chain of symbolic links leads to; its end need not exist. Nothing for a loop.
std::optional<std::string> end_of_links(std::string path) {
  for (int links = 0; links < 40; ++links) {
    char target[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof(target));
    if (length < 0 || static_cast<size_t>(length) == sizeof(target)) {
      return path;
    }
    const std::string_view text(target, static_cast<size_t>(length));
    const size_t slash = path.rfind('/');
    const bool relative = !text.starts_with('/') && slash != std::string::npos;
    path = relative ? path.substr(0, slash + 1) + std::string(text) : std::string(text);
  }
  return std::nullopt;
}

// A new file beside `path`, with permissions as umask leaves them, which mkostemp() doesn't know.
UniqueFd make_beside(const std::string& path, std::string* name) {
  static std::atomic<unsigned> count{0};
  for (int attempt = 0; attempt < 1000; ++attempt) {
    *name = format("{}.{}-{}.tmp", path, ::getpid(), count.fetch_add(1));
    UniqueFd fd = open_file(*name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd.valid() || errno != EEXIST) {
      return fd;
    }
  }
  return UniqueFd();
}

Status replace_file(const std::string& path, std::span<const std::byte> bytes,
                    const struct stat* replaced) {
  ONRT_RETURN_IF_ERROR(check_file_size_limit(bytes.size(), format("'{}'", path)));
  std::string temporary;
  const UniqueFd fd = make_beside(path, &temporary);
  if (!fd.valid()) {
    return failure("write", path, errno);
  }
  bool done = write_fully(fd.get(), text_of(bytes));
  if (done && replaced != nullptr) {
    // Somebody else's file stays theirs where this user may give files away.
    static_cast<void>(!::fchown(fd.get(), replaced->st_uid, replaced->st_gid));
    done = ::fchmod(fd.get(), replaced->st_mode & 0777) == 0;
  }
  done = done && ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!done) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return failure("write", path, error);
  }
  return ok_status();
}

// Grows as data comes: neither a pipe nor a file in /proc knows its size.
Result<std::vector<std::byte>> read_all(int fd, const struct stat& info, const std::string& path,
                                        uint64_t most) {
  constexpr uint64_t kBlock = 65536;
  const uint64_t known = S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0;
  std::vector<std::byte> bytes(std::max(known + 1, kBlock));
  size_t size = 0;
  for (;;) {
    const ssize_t count = ::read(fd, bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno != EINTR) {
      return failure("read", path, errno);
    }
    if (count == 0) {
      bytes.resize(size);
      return bytes;
    }
    size += count > 0 ? static_cast<size_t>(count) : 0;
    if (size > most) {
      return too_large(path, most);
    }
    if (size == bytes.size()) {
      bytes.resize(2 * size);
    }
  }
}

}  // namespace

UniqueFd above_standard_streams(UniqueFd fd) {
  if (!fd.valid() || fd.get() > STDERR_FILENO) {
    return fd;
  }
  return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

UniqueFd open_file_at(int folder, const std::string& path, int flags, mode_t mode) {
  UniqueFd fd(::openat(folder, path.c_str(), flags | O_CLOEXEC, mode));
  return above_standard_streams(std::move(fd));
}

UniqueFd open_file(const std::string& path, int flags, mode_t mode) {
  return open_file_at(AT_FDCWD, path, flags, mode);
}

bool write_fully(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno != EINTR) {
      return false;
    }
    text.remove_prefix(count > 0 ? static_cast<size_t>(count) : 0);
  }
  return true;
}

Status check_file_size_limit(uint64_t bytes, std::string_view what) {
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      bytes <= limit.rlim_cur) {
    return ok_status();
  }
  return Status(NRT_RESOURCE,
                format("{} needs {} bytes, and the limit for a file is {} (ulimit -f)", what, bytes,
                       static_cast<uint64_t>(limit.rlim_cur)));
}

Result<std::vector<std::byte>> read_file(const std::string& path, uint64_t most) {
  const UniqueFd fd = open_file(path, O_RDONLY);
  struct stat info{};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    return failure("read", path, errno);
  }
  if (S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) > most) {
    return too_large(path, most);
  }
  try {
    return read_all(fd.get(), info, path, most);
  } catch (const std::bad_alloc&) {
    return failure("read", path, ENOMEM);
  }
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  struct stat info{};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {
    const UniqueFd fd = open_file(path, O_WRONLY);
    const bool written = fd.valid() && write_fully(fd.get(), text_of(bytes));
    return written ? ok_status() : failure("write", path, errno);
  }
  const auto end = end_of_links(path);
  if (!end) {
    return failure("write", path, ELOOP);
  }
  return replace_file(*end, bytes, exists ? &info : nullptr);
}

}  // namespace onrt
