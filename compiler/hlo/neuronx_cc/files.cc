// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/neuronx_cc/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "runtime/base/format.h"
#include "runtime/base/unique_fd.h"

namespace onrt::cc {
namespace {

Status failure(const char* what, const std::string& path) {
  const int error = errno;
  return Status(NRT_FAILURE,
                format("cannot {} '{}': {}", what, path, std::generic_category().message(error)));
}

Status write_all(int file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return failure("write", path);
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return ok_status();
}

// The file creation mask, which mkostemp() does not apply.
mode_t creation_mask() {
  const mode_t mask = umask(0);
  umask(mask);
  return mask;
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (!file.valid() || fstat(file.get(), &info) != 0) {
    return failure("open", path);
  }
  std::string text;
  size_t used = 0;
  while (true) {
    constexpr size_t kBlock = 65536;
    const auto whole = S_ISREG(info.st_mode) ? static_cast<size_t>(info.st_size) + 1 : 0;
    text.resize(std::max(used + kBlock, whole));
    const ssize_t count = read(file.get(), text.data() + used, text.size() - used);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return failure("read", path);
    }
    used += static_cast<size_t>(count);
    if (count == 0) {
      text.resize(used);
      return text;
    }
  }
}

void remove_output(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
    unlink(path.c_str());
  }
}

bool is_same_file(const std::string& a, const std::string& b) {
  struct stat first{};
  struct stat second{};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  struct stat info{};
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    return !file.valid() ? failure("open", path) : write_all(file.get(), bytes, path);
  }
  std::string temporary = path + ".XXXXXX";
  const UniqueFd file(mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) {
    return failure("create", path);
  }
  Status status = write_all(file.get(), bytes, path);
  if (status.ok() && fchmod(file.get(), 0666 & ~creation_mask()) != 0) {
    status = failure("set the mode of", path);
  }
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = failure("write", path);
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
  }
  return status;
}

}  // namespace onrt::cc
