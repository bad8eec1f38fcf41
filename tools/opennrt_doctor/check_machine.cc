// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/format.h"
#include "runtime/driver/registry.h"
#include "runtime/observe/host_view.h"
#include "tools/opennrt_doctor/findings.h"

namespace onrt::tools {
namespace {

std::string owner_of(const std::string& folder) {
  struct stat info = {};
  if (::stat(folder.c_str(), &info) != 0) {
    return "unknown";
  }
  return format("uid {}, mode {:o}", info.st_uid, info.st_mode & 07777U);
}

Findings describe(const observe::HostView& host) {
  const MachineInfo& info = host.machine;
  Findings found;
  const auto add = [&](const char* name, std::string value) {
    found.push_back({"machine", name, std::move(value), Level::kOk});
  };
  add("instance type", info.instance_type);
  add("devices", format("{} with {} logical cores each (logical core size {})", info.device_count,
                        info.logical_cores_per_device(), info.logical_core_size));
  add("HBM", format("{} a device",
                    format_bytes(static_cast<uint64_t>(info.hbm_per_device) * info.hbm_bytes)));
  add("folder",
      host.directory.empty() ? "not created yet; the first nrt_init() does it" : host.directory);
  if (host.directory.empty()) {
    return found;
  }
  add("owner", owner_of(host.directory));
  add("processes", std::to_string(host.process_count));
  const bool full = host.committed_bytes >= host.committed_limit;
  found.push_back({"machine", "HBM backing",
                   format("{} of {} in use", format_bytes(host.committed_bytes),
                          format_bytes(host.committed_limit)),
                   full ? Level::kNote : Level::kOk,
                   full ? "free tensors or raise OPENNRT_EMU_HBM_BACKING" : ""});
  return found;
}

}  // namespace

Findings check_machine(const Context& context) {
  Findings found;
  const auto host = observe::observe_host(context, observe::ProcessFilter::kRuntime);
  const auto choice = choose_driver(context);
  const bool emulated = choice.ok() && choice->driver->name() == "emulator";
  if (host.ok()) {
    found = describe(*host);
  } else {
    found.push_back({"machine", "selected", "none: " + std::string(host.status().message()),
                     emulated ? Level::kProblem : Level::kNote,
                     emulated
                         ? "nrt_init() would fail: repair or remove it (opennrt-machine rm), or "
                           "choose another OPENNRT_MACHINE or OPENNRT_MACHINE_DIR"
                         : ""});
  }
  if (const Status usable =
          emulated && host.ok() ? observe::check_emulated_machine(context) : ok_status();
      !usable.ok()) {
    found.push_back({"machine", "usable", "no: " + std::string(usable.message()), Level::kProblem,
                     "nrt_init() would fail"});
  }
  for (const emu::MachineEntry& entry : observe::existing_machines(context)) {
    const bool own = entry.uid == static_cast<int>(geteuid());
    found.push_back({"machine", "exists",
                     format("{} in {}{}", entry.name, entry.directory,
                            own ? "" : format(" (of uid {})", entry.uid)),
                     Level::kOk});
  }
  return found;
}

}  // namespace onrt::tools
