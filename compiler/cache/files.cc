// SPDX-License-Identifier: Apache-2.0
#include "compiler/cache/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <system_error>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cache {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

bool is_trusted_owner(uid_t owner) { return owner == ::geteuid() || owner == 0; }

// Who may write in the folder decides what this process loads.
Status check_folder(int folder, const std::string& name) {
  struct stat info{};
  if (::fstat(folder, &info) != 0) {
    return errno_status(format("'{}'", name), errno);
  }
  if (!is_trusted_owner(info.st_uid)) {
    return Status(NRT_INVALID, format("'{}' belongs to user {}; expected user {} or root", name,
                                      info.st_uid, ::geteuid()));
  }
  if ((info.st_mode & S_IWOTH) != 0) {
    return Status(NRT_INVALID, format("'{}' can be written by everybody (mode {:o}); expected a "
                                      "folder that only its owner or group writes",
                                      name, info.st_mode & 07777U));
  }
  return ok_status();
}

Status make_parents(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES) {
      return errno_status(format("'{}' cannot be made", part), errno);
    }
  }
  return ok_status();
}

}  // namespace

Status errno_status(std::string text, int error) {
  return Status(NRT_FAILURE, text + ": " + std::generic_category().message(error));
}

Result<std::string> path_of_url(std::string_view url) {
  constexpr std::string_view kFile = "file://";
  std::string_view path = url;
  if (url.starts_with(kFile)) {
    path = url.substr(kFile.size());
    if (!path.starts_with('/')) {
      return Status(NRT_INVALID, format("'{}': expected file:// and an absolute path", url));
    }
  } else if (const size_t colon = url.find("://"); colon != std::string_view::npos) {
    return Status(NRT_INVALID, format("'{}': caches at {}:// are not supported; expected a folder",
                                      url, url.substr(0, colon)));
  }
  while (path.size() > 1 && path.ends_with('/')) {
    path.remove_suffix(1);
  }
  if (path.empty() || path.find('\0') != std::string_view::npos) {
    return Status(NRT_INVALID, format("'{}': expected the name of a folder", url));
  }
  return std::string(path);
}

Result<UniqueFd> open_trusted_folder(const std::string& path, Absent absent) {
  // Without a slash at its end, so that lstat() sees a link.
  struct stat link{};
  if (::lstat(path.c_str(), &link) != 0) {
    if (errno != ENOENT || absent == Absent::kIsAnError) {
      return errno_status(format("'{}'", path), errno);
    }
    ONRT_RETURN_IF_ERROR(make_parents(path));
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return errno_status(format("'{}' cannot be made", path), errno);
    }
    if (::lstat(path.c_str(), &link) != 0) {
      return errno_status(format("'{}'", path), errno);
    }
  }
  if (S_ISLNK(link.st_mode) && !is_trusted_owner(link.st_uid)) {
    return Status(NRT_INVALID, format("'{}' is a link of user {}; expected user {} or root", path,
                                      link.st_uid, ::geteuid()));
  }
  UniqueFd folder(open_file(path, kFolderFlags | (S_ISLNK(link.st_mode) ? 0 : O_NOFOLLOW)));
  if (!folder.valid()) {
    return errno_status(format("'{}'", path), errno);
  }
  ONRT_RETURN_IF_ERROR(check_folder(folder.get(), path));
  return folder;
}

Result<UniqueFd> open_folder_at(int parent, const std::string& name, Absent absent) {
  UniqueFd folder(open_file_at(parent, name, kFolderFlags | O_NOFOLLOW));
  if (!folder.valid() && errno == ENOENT && absent == Absent::kIsMade) {
    // The file creation mask and the folder's own bits decide about the group; others never write.
    if (::mkdirat(parent, name.c_str(), 0775) != 0 && errno != EEXIST) {
      return errno_status(format("'{}' cannot be made", name), errno);
    }
    folder = open_file_at(parent, name, kFolderFlags | O_NOFOLLOW);
  }
  if (!folder.valid()) {
    return errno_status(format("'{}'", name), errno);
  }
  ONRT_RETURN_IF_ERROR(check_folder(folder.get(), name));
  return folder;
}

Result<std::vector<std::byte>> read_file_at(int folder, const char* name, size_t limit) {
  // O_NONBLOCK: a pipe in the place of a file must not hold us up.
  const UniqueFd file(open_file_at(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info{};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) {
    return errno_status(name, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return Status(NRT_INVALID, format("{}: expected a regular file", name));
  }
  if (static_cast<uint64_t>(info.st_size) > limit) {
    return Status(NRT_INVALID,
                  format("{}: expected at most {} bytes, found {}", name, limit, info.st_size));
  }
  std::vector<std::byte> bytes;
  try {
    bytes.resize(static_cast<size_t>(info.st_size));
  } catch (const std::bad_alloc&) {  // the compiler may still have enough
    return Status(NRT_RESOURCE, format("{}: no memory for {} bytes", name, info.st_size));
  }
  for (size_t used = 0; used < bytes.size();) {
    const ssize_t count = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return errno_status(name, errno);
    }
    if (count == 0) {
      bytes.resize(used);  // cut short meanwhile
    }
    used += static_cast<size_t>(count);
  }
  return bytes;
}

Status write_file_at(int folder, const char* name, std::span<const std::byte> bytes) {
  ONRT_RETURN_IF_ERROR(check_file_size_limit(bytes.size(), name));
  const UniqueFd file(
      open_file_at(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0664));
  if (!file.valid()) {
    return errno_status(name, errno);
  }
  return write_fully(file.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()})
             ? ok_status()
             : errno_status(name, errno);
}

Result<std::vector<std::string>> names_in(int folder) {
  UniqueFd own(open_file_at(folder, ".", kFolderFlags));
  if (!own.valid()) {
    return errno_status("list", errno);
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(own.get()), &::closedir);
  if (stream == nullptr) {
    return errno_status("list", errno);
  }
  static_cast<void>(own.release());  // the stream's now
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* row = ::readdir(stream.get());  // NOLINT(concurrency-mt-unsafe): stream is ours
    if (row == nullptr) {
      break;
    }
    const std::string_view name = row->d_name;
    if (name != "." && name != "..") {
      names.emplace_back(name);
    }
  }
  if (errno != 0) {
    return errno_status("list", errno);
  }
  std::ranges::sort(names);
  return names;
}

Status remove_at(int parent, const std::string& name) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) {
    return ok_status();
  }
  if (errno != EISDIR && errno != EPERM) {
    return errno_status(format("'{}' cannot be removed", name), errno);
  }
  const UniqueFd folder(open_file_at(parent, name, kFolderFlags | O_NOFOLLOW));
  if (!folder.valid()) {
    return errno == ENOENT ? ok_status()
                           : errno_status(format("'{}' cannot be removed", name), errno);
  }
  ONRT_ASSIGN_OR_RETURN(const std::vector<std::string> inside, names_in(folder.get()));
  for (const std::string& file : inside) {
    if (::unlinkat(folder.get(), file.c_str(), 0) != 0 && errno != ENOENT) {
      return errno_status(format("'{}/{}' cannot be removed", name, file), errno);
    }
  }
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return errno_status(format("'{}' cannot be removed", name), errno);
  }
  return ok_status();
}

}  // namespace onrt::cache
