// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr int kAttempts = 100;

std::string reason(int error) { return std::generic_category().message(error); }

// Reads at most kMostSecret + 1 bytes.
Result<std::vector<std::byte>> read_some(int fd, std::string_view what) {
  std::vector<std::byte> bytes(kMostSecret + 1);
  const bool has_start = ::lseek(fd, 0, SEEK_CUR) >= 0;
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got =
        has_start ? ::pread(fd, bytes.data() + size, bytes.size() - size, static_cast<off_t>(size))
                  : ::read(fd, bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return Status(NRT_INVALID, format("{}: {}", what, reason(errno)));
    }
    if (got == 0) {
      break;
    }
    size += static_cast<size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

Result<HmacKey> key_of(const std::vector<std::byte>& bytes, std::string_view what) {
  if (bytes.size() < kLeastSecret || bytes.size() > kMostSecret) {
    return Status(NRT_INVALID, format("{}: expected {} to {} bytes, found {}{}", what, kLeastSecret,
                                      kMostSecret, bytes.size() > kMostSecret ? "more than " : "",
                                      std::min(bytes.size(), kMostSecret)));
  }
  return HmacKey(bytes);
}

Status check_owner(const struct stat& status, std::string_view what) {
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return Status(NRT_INVALID, format("{}: expected a file of user {}, found one of user {}", what,
                                      ::geteuid(), status.st_uid));
  }
  if ((status.st_mode & 077) != 0) {
    return Status(NRT_INVALID, format("{}: expected permissions 0600, found {:04o}: others could "
                                      "read or write it",
                                      what, status.st_mode & 07777));
  }
  return ok_status();
}

// Gives the file a random content and its name, unless somebody else was first.
Status make_local_secret(int folder) {
  ONRT_ASSIGN_OR_RETURN(const Nonce secret, random_nonce());
  ONRT_ASSIGN_OR_RETURN(const Nonce suffix, random_nonce());
  const auto digits = std::as_bytes(std::span(suffix)).first(8);
  const std::string temporary = format(
      "cc.secret.{}", to_hex({reinterpret_cast<const uint8_t*>(digits.data()), digits.size()}));
  UniqueFd fd =
      open_file_at(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (!fd.valid()) {
    return Status(NRT_FAILURE, format("cc.secret: {}", reason(errno)));
  }
  const bool written =
      ::fchmod(fd.get(), 0600) == 0 &&
      write_fully(fd.get(), {reinterpret_cast<const char*>(secret.data()), secret.size()});
  // link(2) fails when the name is taken: the first one wins, and it is whole.
  const bool linked =
      written &&
      (::linkat(folder, temporary.c_str(), folder, kLocalSecretName, 0) == 0 || errno == EEXIST);
  const int error = errno;
  ::unlinkat(folder, temporary.c_str(), 0);
  return linked ? ok_status() : Status(NRT_FAILURE, format("cc.secret: {}", reason(error)));
}

}  // namespace

Result<HmacKey> secret_from_file(const std::string& path) {
  const std::string what = format("NRT_COMM_SECRET_FILE '{}'", path);
  const UniqueFd fd = open_file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (!fd.valid()) {
    return Status(NRT_INVALID, format("{}: {}", what, reason(errno)));
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Status(NRT_INVALID, format("{}: expected a regular file", what));
  }
  ONRT_RETURN_IF_ERROR(check_owner(status, what));
  ONRT_ASSIGN_OR_RETURN(const auto bytes, read_some(fd.get(), what));
  return key_of(bytes, what);
}

Result<HmacKey> secret_from_fd(int fd) {
  const std::string what = format("NRT_COMM_SECRET_FD {}", fd);
  ONRT_ASSIGN_OR_RETURN(const auto bytes, read_some(fd, what));
  return key_of(bytes, what);
}

Result<UniqueFd> open_private_folder(const std::string& path) {
  if (path.empty() || path.front() != '/') {
    return Status(NRT_INVALID, format("folder '{}': expected an absolute path", path));
  }
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      const int error = errno;
      if (::access(part.c_str(), F_OK) != 0) {
        return Status(NRT_FAILURE, format("folder '{}': {}", part, reason(error)));
      }
    }
    if (end == std::string::npos) {
      break;
    }
  }
  UniqueFd fd = open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status{};
  if (!fd.valid() || ::fstat(fd.get(), &status) != 0) {
    return Status(NRT_FAILURE, format("folder '{}': {}", path, reason(errno)));
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & 022) != 0) {
    return Status(NRT_INVALID,
                  format("folder '{}': expected one of user {} that others can't write to, found "
                         "user {} and permissions {:04o}",
                         path, ::geteuid(), status.st_uid, status.st_mode & 07777));
  }
  return fd;
}

Result<HmacKey> local_secret(int folder) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const UniqueFd fd =
        open_file_at(folder, kLocalSecretName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (!fd.valid()) {
      if (errno != ENOENT) {
        return Status(NRT_FAILURE, format("cc.secret: {}", reason(errno)));
      }
      ONRT_RETURN_IF_ERROR(make_local_secret(folder));
      continue;
    }
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
      return Status(NRT_INVALID, "cc.secret: expected a regular file");
    }
    ONRT_RETURN_IF_ERROR(check_owner(status, "cc.secret"));
    ONRT_ASSIGN_OR_RETURN(const auto bytes, read_some(fd.get(), "cc.secret"));
    return key_of(bytes, "cc.secret");
  }
  return Status(NRT_FAILURE, "cc.secret: it vanishes as often as it is made");
}

}  // namespace onrt::cc
