// SPDX-License-Identifier: Apache-2.0
#include "emulator/machine_place.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "emulator/fork_watch.h"
#include "emulator/machine_layout.h"
#include "emulator/process_info.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::emu {
namespace {

constexpr uint64_t kUsefulRootBytes = 1ULL << 30;
constexpr size_t kLongestName = 100;
// linux/magic.h; that header does not compile beside sys/mount.h everywhere.
constexpr long kTmpfsMagic = 0x01021994;

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read only
  return value == nullptr ? std::string() : std::string(value);
}

// Size of the file system of an existing folder; 0 when there is none.
uint64_t file_system_bytes(const std::string& folder) {
  struct statvfs status{};
  if (::statvfs(folder.c_str(), &status) != 0) {
    return 0;
  }
  return static_cast<uint64_t>(status.f_blocks) * status.f_frsize;
}

std::string temporary_folder() {
  const std::string folder = environment("TMPDIR");
  return folder.empty() ? "/tmp" : folder;
}

std::string own_folder_in(const std::string& parent) {
  return format("{}/opennrt-{}", parent, ::geteuid());
}

struct Root {
  std::string path;
  std::string note;
};

Root default_root() {
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  if (!runtime.empty() && file_system_bytes(runtime) >= kUsefulRootBytes) {
    return {runtime + "/opennrt", ""};
  }
  if (file_system_bytes("/dev/shm") >= kUsefulRootBytes) {
    return {own_folder_in("/dev/shm"), ""};
  }
  Root root{own_folder_in(temporary_folder()), ""};
  root.note = format(
      "/dev/shm holds only {}: the emulated machine is kept in {}, which is slower "
      "on a disk",
      format_bytes(file_system_bytes("/dev/shm")), root.path);
  return root;
}

// Half of what the file system, and for tmpfs the memory, has free.
uint64_t default_committed_limit(int folder) {
  struct statfs status{};
  if (::fstatfs(folder, &status) != 0) {
    return 1ULL << 30;
  }
  uint64_t free = static_cast<uint64_t>(status.f_bavail) * static_cast<uint64_t>(status.f_bsize);
  if (status.f_type == kTmpfsMagic) {
    free = std::min(free, available_memory());
  }
  return free / 2;
}

// A relative OPENNRT_MACHINE_DIR means what it meant at its first use in this process, also after
// chdir(): else nrt_init() after nrt_close() would make a second machine.
std::string absolute_folder(const std::string& path) {
  if (path.empty() || path.front() == '/') {
    return path;
  }
  ProcessMachines& machines = process_machines();
  const MutexLock lock(machines.folders_mutex);
  std::string& absolute = machines.folders[path];
  if (absolute.empty()) {
    char here[PATH_MAX];
    absolute = ::getcwd(here, sizeof(here)) == nullptr ? path : std::string(here) + "/" + path;
  }
  return absolute;
}

Status check_name(std::string_view name) {
  const bool good = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
  if (!good || name.empty() || name.size() > kLongestName || name.starts_with(".")) {
    return Status(NRT_INVALID, format("machine name '{}': expected 1 to {} letters, digits, '.', "
                                      "'-' or '_', not starting with '.'",
                                      name, kLongestName));
  }
  return ok_status();
}

}  // namespace

std::vector<std::string> paths_in(const std::string& parent, std::string_view prefix) {
  std::vector<std::string> found;
  DIR* folder = ::opendir(parent.c_str());
  if (folder == nullptr) {
    return found;
  }
  while (const dirent* entry = ::readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): own stream
    const std::string_view name(entry->d_name);
    if (name.starts_with(prefix) && name != "." && name != "..") {
      found.push_back(parent + "/" + entry->d_name);
    }
  }
  ::closedir(folder);
  std::sort(found.begin(), found.end());
  return found;
}

Result<MachinePlace> machine_place(const Context& context, std::string_view instance_type) {
  MachinePlace place;
  place.name = std::string(context.settings.text(Setting::kMachine));
  if (place.name.empty()) {
    place.name = std::string(instance_type);
  }
  const bool named = context.settings.is_set(Setting::kMachine);
  Status checked = check_name(place.name);
  if (!checked.ok()) {
    return named ? std::move(checked).annotate("OPENNRT_MACHINE") : checked;
  }
  place.root = absolute_folder(std::string(context.settings.text(Setting::kMachineDir)));
  place.root_was_chosen = !place.root.empty();
  if (place.root.empty()) {
    Root root = default_root();
    place.root = std::move(root.path);
    place.note = std::move(root.note);
  }
  place.directory = format("{}/{}.v{}", place.root, place.name, kLayoutVersion);
  return place;
}

std::vector<std::string> reader_roots(const Context& context) {
  const std::string chosen =
      absolute_folder(std::string(context.settings.text(Setting::kMachineDir)));
  if (!chosen.empty()) {
    return {chosen};
  }
  std::vector<std::string> roots;
  const auto add = [&](const std::string& root) {
    struct stat status{};
    if (::stat(root.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
        std::find(roots.begin(), roots.end(), root) == roots.end()) {
      roots.push_back(root);
    }
  };
  if (const std::string runtime = environment("XDG_RUNTIME_DIR"); !runtime.empty()) {
    add(runtime + "/opennrt");
  }
  add(format("/run/user/{}/opennrt", ::geteuid()));
  add(own_folder_in("/dev/shm"));
  add(own_folder_in(temporary_folder()));
  if (::geteuid() == 0) {
    for (const std::string& parent : {std::string("/dev/shm"), temporary_folder()}) {
      for (const std::string& root : paths_in(parent, "opennrt-")) {
        add(root);
      }
    }
    for (const std::string& user : paths_in("/run/user", "")) {
      add(user + "/opennrt");
    }
  }
  return roots;
}

int machine_version_of(std::string_view folder) {
  const size_t dot = folder.rfind(".v");
  if (dot == std::string_view::npos || dot == 0) {
    return 0;
  }
  const std::string_view digits = folder.substr(dot + 2);
  int version = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  return error == std::errc() && end == digits.data() + digits.size() ? version : 0;
}

std::optional<std::string> machine_name_of(std::string_view folder) {
  if (machine_version_of(folder) != static_cast<int>(kLayoutVersion)) {
    return std::nullopt;
  }
  return std::string(folder.substr(0, folder.rfind(".v")));
}

Result<Sharing> sharing_of(const Context& context) {
  Sharing sharing;
  const std::string name(context.settings.text(Setting::kMachineGroup));
  if (name.empty()) {
    return sharing;
  }
  std::vector<char> buffer(16384);
  group entry{};
  group* found = nullptr;
  if (::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return Status(NRT_INVALID, format("OPENNRT_MACHINE_GROUP='{}': no such group", name));
  }
  sharing.group = entry.gr_gid;
  return sharing;
}

Status check_trusted(const struct stat& status, const Sharing& sharing, std::string_view what) {
  const bool shared = sharing.group && status.st_gid == *sharing.group;
  if (status.st_uid != ::geteuid() && !shared) {
    return Status(NRT_FAILURE, format("{} belongs to user {}, not to user {}: it is not used "
                                      "(OPENNRT_MACHINE_GROUP shares a machine)",
                                      what, status.st_uid, ::geteuid()));
  }
  const mode_t others = status.st_mode & (shared ? 0007 : 0077);
  if (others != 0) {
    return Status(NRT_FAILURE, format("{} has mode {:o}: other users could change it, so it is not "
                                      "used",
                                      what, status.st_mode & 07777));
  }
  return ok_status();
}

Status make_folders(const std::string& path, const Sharing& sharing) {
  std::string refusal;  // of the last folder that could not be made
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), sharing.directory_mode() & 0777) == 0) {
      if (sharing.group && ::chown(part.c_str(), static_cast<uid_t>(-1), *sharing.group) != 0) {
        return Status(NRT_FAILURE,
                      format("{}: giving it to the machine group: {}", part, std::strerror(errno)));
      }
      if (::chmod(part.c_str(), sharing.directory_mode()) != 0) {
        return Status(NRT_FAILURE, format("{}: {}", part, std::strerror(errno)));
      }
    } else if (errno != EEXIST) {
      refusal = format("making the folder {}: {}", part, std::strerror(errno));
      if (errno != EROFS && errno != EACCES) {
        return Status(NRT_FAILURE, refusal);
      }
    }
    if (end == std::string::npos) {
      break;
    }
  }
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) {
    return ok_status();  // A parent that could not be made was there already.
  }
  return Status(NRT_FAILURE, refusal.empty()
                                 ? format("making the folder {}: {}", path, std::strerror(errno))
                                 : refusal);
}

Result<BackingLimit> backing_limit(const Context& context, int folder) {
  const std::string_view backing = context.settings.text(Setting::kEmuHbmBacking);
  if (backing.empty()) {
    return BackingLimit{default_committed_limit(folder), false};
  }
  const auto bytes = parse_bytes(backing);
  if (!bytes) {
    return Status(NRT_INVALID,
                  format("OPENNRT_EMU_HBM_BACKING='{}': expected a size such as 8GiB", backing));
  }
  return BackingLimit{*bytes, true};
}

namespace {

bool exists(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0;
}

Status check_root(const MachinePlace& place, const Sharing& sharing) {
  const Status opened = open_folder(place.root, sharing).status();
  if (opened.ok()) {
    return opened;
  }
  return Status(opened.code(), format("{}; if another user made it, set OPENNRT_MACHINE_DIR to a "
                                      "folder of yours",
                                      opened.message()));
}

// `name` in the machine's folder, if it is there, without opening it: closing the lock file would
// drop the locks of a process that has the machine open.
Status check_present_file(int folder, const char* name, const Sharing& sharing) {
  struct stat status{};
  if (::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return ok_status();
  }
  if (!S_ISREG(status.st_mode) || status.st_nlink > 1) {
    return Status(NRT_FAILURE, format("machine file {} is not a plain file with one name", name));
  }
  ONRT_RETURN_IF_ERROR(check_trusted(status, sharing, format("machine file {}", name)));
  if (::faccessat(folder, name, R_OK | W_OK, AT_EACCESS) != 0) {
    return Status(NRT_FAILURE, format("machine file {}: {}", name, std::strerror(errno)));
  }
  return ok_status();
}

}  // namespace

Result<UniqueFd> make_machine_folder(const MachinePlace& place, const Sharing& sharing) {
  if (!place.root_was_chosen) {
    const Status made = make_folders(place.root, sharing);
    if (!made.ok() && !exists(place.root)) {
      return made;
    }
    ONRT_RETURN_IF_ERROR(check_root(place, sharing));
  }
  ONRT_RETURN_IF_ERROR(make_folders(place.directory, sharing));
  return open_folder(place.directory, sharing);
}

Status check_machine_folder(const MachinePlace& place, const Sharing& sharing) {
  if (!place.root_was_chosen && exists(place.root)) {
    ONRT_RETURN_IF_ERROR(check_root(place, sharing));
  }
  if (!exists(place.directory)) {
    std::string parent = place.root;
    while (!exists(parent) && parent.rfind('/') != 0 && parent.rfind('/') != std::string::npos) {
      parent.resize(parent.rfind('/'));
    }
    if (::faccessat(AT_FDCWD, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0 && exists(parent)) {
      return Status(NRT_FAILURE, format("making the folder {} in {}: {}", place.directory, parent,
                                        std::strerror(errno)));
    }
    return ok_status();
  }
  ONRT_ASSIGN_OR_RETURN(const UniqueFd folder, open_folder(place.directory, sharing));
  for (const char* name : {"locks", "control"}) {
    ONRT_RETURN_IF_ERROR(check_present_file(folder.get(), name, sharing));
  }
  return ok_status();
}

Result<UniqueFd> open_folder(const std::string& path, const Sharing& sharing) {
  UniqueFd fd = open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd.valid()) {
    const char* why = errno == ELOOP || errno == ENOTDIR ? "not a folder, or a symbolic link"
                                                         : std::strerror(errno);
    return Status(NRT_FAILURE, format("machine folder {}: {}", path, why));
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) {
    return Status(NRT_FAILURE, format("machine folder {}: {}", path, std::strerror(errno)));
  }
  ONRT_RETURN_IF_ERROR(check_trusted(status, sharing, format("machine folder {}", path)));
  return fd;
}

Result<UniqueFd> open_machine_file(int folder, const std::string& name, int flags,
                                   const Sharing& sharing) {
  UniqueFd fd = open_file_at(folder, name, flags | O_NOFOLLOW | O_NONBLOCK, sharing.file_mode());
  if (!fd.valid()) {
    const char* why = errno == ELOOP ? "is a symbolic link" : std::strerror(errno);
    return Status(errno == ENOSPC || errno == EMFILE ? NRT_RESOURCE : NRT_FAILURE,
                  format("machine file {}: {}", name, why));
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) {
    return Status(NRT_FAILURE, format("machine file {}: {}", name, std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode) || status.st_nlink > 1) {
    return Status(NRT_FAILURE, format("machine file {} is not a plain file with one name", name));
  }
  if ((flags & O_CREAT) != 0 && status.st_uid == ::geteuid() && status.st_size == 0) {
    // A new file: umask may have taken permissions of its owner or, behind a setgid folder, its
    // group. Adds only, so that what others may do is still seen below.
    const mode_t wanted = (status.st_mode & 07777) | sharing.file_mode();
    if (wanted != (status.st_mode & 07777) &&
        (::fchmod(fd.get(), wanted) != 0 || ::fstat(fd.get(), &status) != 0)) {
      return Status(NRT_FAILURE, format("machine file {}: {}", name, std::strerror(errno)));
    }
  }
  ONRT_RETURN_IF_ERROR(check_trusted(status, sharing, format("machine file {}", name)));
  return fd;
}

}  // namespace onrt::emu
