// SPDX-License-Identifier: Apache-2.0
#include "emulator/machine_admin.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "emulator/machine_file.h"
#include "emulator/machine_place.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::emu {
namespace {

constexpr std::chrono::milliseconds kLockTimeout{10000};

// A machine that this process has locked and that no process uses.
struct LockedMachine {
  UniqueFd folder;
  RecordLocks locks;
};

Result<LockedMachine> lock_unused(const std::string& directory, const Sharing& sharing) {
  LockedMachine machine;
  ONRT_ASSIGN_OR_RETURN(machine.folder, open_folder(directory, sharing));
  UniqueFd locks = open_file_at(machine.folder.get(), "locks",
                                O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, sharing.file_mode());
  struct stat status{};
  if (!locks.valid() || ::fstat(locks.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    // A folder, a link, a pipe: no process can be a member.
    return machine;
  }
  machine.locks = RecordLocks(std::move(locks));
  ONRT_RETURN_IF_ERROR(machine.locks.lock(kMachineLockByte, kLockTimeout));
  std::string pids;
  for (int slot = 0; slot < kMaxProcesses; ++slot) {
    if (const auto pid = machine.locks.holder(kSlotLockBytes + slot, 1)) {
      pids += format("{}{}", pids.empty() ? "" : ", ", *pid);
    }
  }
  if (!pids.empty()) {
    return Status(NRT_RESOURCE, format("{} is in use by pid {}", directory, pids));
  }
  return machine;
}

bool is_machine_file(std::string_view name) {
  return name == "control" || name == "locks" ||
         (name.starts_with("nd") && name.find(".hbm") != std::string_view::npos);
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  DIR* folder = ::opendir(directory.c_str());
  if (folder == nullptr) {
    return names;
  }
  while (const dirent* entry = ::readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): own stream
    if (const std::string_view name(entry->d_name); name != "." && name != "..") {
      names.emplace_back(name);
    }
  }
  ::closedir(folder);
  return names;
}

Status remove_file(const LockedMachine& machine, const std::string& name) {
  bool removed = ::unlinkat(machine.folder.get(), name.c_str(), 0) == 0 || errno == ENOENT;
  if (!removed && (errno == EISDIR || errno == EPERM)) {
    removed = ::unlinkat(machine.folder.get(), name.c_str(), AT_REMOVEDIR) == 0;
  }
  if (!removed) {
    return Status(NRT_FAILURE, format("removing {}: {}", name, std::strerror(errno)));
  }
  return ok_status();
}

}  // namespace

Result<std::string> create_machine(const Context& context) {
  ONRT_ASSIGN_OR_RETURN(const InstanceProfile profile,
                        find_profile(context, context.settings.text(Setting::kEmulate)));
  ONRT_ASSIGN_OR_RETURN(const MachinePlace place,
                        machine_place(context, profile.info.instance_type));
  AttachOptions options;
  options.logical_core_size = profile.info.logical_core_size;
  ONRT_RETURN_IF_ERROR(MachineFile::attach(context, place, profile, options).status());
  return place.directory;
}

Status reset_machine(const Context& context, const std::string& directory) {
  ONRT_ASSIGN_OR_RETURN(const Sharing sharing, sharing_of(context));
  ONRT_ASSIGN_OR_RETURN(const LockedMachine machine, lock_unused(directory, sharing));
  ONRT_ASSIGN_OR_RETURN(UniqueFd file,
                        open_machine_file(machine.folder.get(), "control", O_RDWR, sharing));
  struct stat status{};
  ControlHeader header{};
  if (::fstat(file.get(), &status) != 0 ||
      ::pread(file.get(), &header, sizeof(header), 0) != sizeof(header)) {
    return Status(NRT_FAILURE, format("{}: the control file can't be read", directory));
  }
  ONRT_RETURN_IF_ERROR(check_header(header, static_cast<uint64_t>(status.st_size)));
  std::vector<DeviceRecord> devices(kMaxDevices);
  ProfileRecord record{};
  const auto size = static_cast<ssize_t>(devices.size() * sizeof(DeviceRecord));
  if (::pread(file.get(), &record, sizeof(record), offsetof(ControlFile, profile)) !=
          static_cast<ssize_t>(sizeof(record)) ||
      ::pread(file.get(), devices.data(), static_cast<size_t>(size),
              offsetof(ControlFile, devices)) != size) {
    return Status(NRT_FAILURE, format("{}: the control file can't be read", directory));
  }
  ONRT_ASSIGN_OR_RETURN(const InstanceProfile profile, load_profile(record, devices.data()));
  ONRT_ASSIGN_OR_RETURN(const BackingLimit backing, backing_limit(context, machine.folder.get()));
  const ControlMapping::Creation creation{profile, backing.bytes, directory, false};
  CrashPlan crash;
  ONRT_ASSIGN_OR_RETURN(ControlMapping control,
                        ControlMapping::open(std::move(file), creation, crash));
  return control.create(creation, crash);
}

Status remove_machine(const Context& context, const std::string& directory) {
  ONRT_ASSIGN_OR_RETURN(const Sharing sharing, sharing_of(context));
  ONRT_ASSIGN_OR_RETURN(const LockedMachine machine, lock_unused(directory, sharing));
  const std::vector<std::string> names = names_in(directory);
  for (const std::string& name : names) {
    if (!is_machine_file(name)) {
      return Status(NRT_FAILURE, format("{} holds '{}', which is no file of a machine: nothing is "
                                        "removed",
                                        directory, name));
    }
  }
  // The lock file last: a process that waits for it looks again when it is gone.
  for (const std::string& name : names) {
    if (name != "locks") {
      ONRT_RETURN_IF_ERROR(remove_file(machine, name));
    }
  }
  ONRT_RETURN_IF_ERROR(remove_file(machine, "locks"));
  if (::rmdir(directory.c_str()) != 0 && errno != ENOENT) {
    return Status(NRT_FAILURE, format("removing {}: {}", directory, std::strerror(errno)));
  }
  return ok_status();
}

}  // namespace onrt::emu
