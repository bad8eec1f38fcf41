// SPDX-License-Identifier: Apache-2.0
#include "tools/common/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "runtime/base/format.h"
#include "runtime/base/unique_fd.h"

namespace onrt::tools {
namespace {

Status failure(const char* what, const std::string& path, int error) {
  return Status(NRT_FAILURE,
                format("cannot {} '{}': {}", what, path, std::generic_category().message(error)));
}

Status write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      return failure("write", path, errno);
    }
    bytes = bytes.subspan(count > 0 ? static_cast<size_t>(count) : 0);
  }
  return ok_status();
}

}  // namespace

Result<std::vector<std::byte>> read_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return failure("read", path, errno);
  }
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) {
    return failure("read", path, errno);
  }
  // One more than its size, so that the usual file ends within the first round.
  std::vector<std::byte> bytes(static_cast<size_t>(info.st_size) + 1);
  size_t size = 0;
  for (;;) {
    const ssize_t count = ::read(fd.get(), bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return failure("read", path, errno);
    }
    if (count == 0) {
      break;
    }
    size += static_cast<size_t>(count);
    if (size == bytes.size()) {
      bytes.resize(2 * size);
    }
  }
  bytes.resize(size);
  return bytes;
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::string temporary = path + ".XXXXXX";
  const UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) {
    return failure("write", path, errno);
  }
  Status status = write_all(fd.get(), bytes, path);
  if (status.ok() &&
      (::fchmod(fd.get(), 0644) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0)) {
    status = failure("write", path, errno);
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
  }
  return status;
}

bool print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return true;
  }
  std::fprintf(stderr, "cannot write to standard output: %s\n",
               std::generic_category().message(errno).c_str());
  return false;
}

}  // namespace onrt::tools
