// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/host_view.h"

#include <unistd.h>

#include <chrono>
#include <thread>

#include "runtime/base/format.h"

namespace onrt::observe {
namespace {

Status check_backend(const Settings& settings) {
  const std::string_view backend = settings.text(Setting::kBackend);
  const bool device_file = ::access("/dev/neuron0", F_OK) == 0;
  if (backend == "null") {
    return Status(NRT_FAILURE, "OPENNRT_BACKEND=null has no devices");
  }
  if (backend == "kernel" && !device_file) {
    return Status(NRT_FAILURE, "OPENNRT_BACKEND=kernel, but there is no /dev/neuron0");
  }
  if (backend == "kernel" || (device_file && backend == "auto")) {
    return Status(NRT_FAILURE,
                  "/dev/neuron0 is there, but this release reads emulated machines only; use the "
                  "neuron-ls of the vendor's tools, or set OPENNRT_BACKEND=emulator");
  }
  return ok_status();
}

// A machine that another process makes or repairs right now is readable a moment later.
Result<emu::MachineSnapshot> read_patiently(const Context& context) {
  constexpr int kTries = 20;
  constexpr std::chrono::milliseconds kPause(10);
  const std::string_view type = context.settings.text(Setting::kEmulate);
  auto snapshot = emu::read_selected_machine(context);
  for (int i = 1; i < kTries && !snapshot.ok() && !type.empty() && type != "none" &&
                  snapshot.status().code() == NRT_FAILURE;
       ++i) {
    std::this_thread::sleep_for(kPause);
    snapshot = emu::read_selected_machine(context);
  }
  return snapshot;
}

}  // namespace

Result<emu::MachineSnapshot> observe_machine(const Context& context) {
  ONRT_RETURN_IF_ERROR(check_backend(context.settings));
  ONRT_ASSIGN_OR_RETURN(emu::MachineSnapshot snapshot, read_patiently(context));
  if (snapshot.info.devices.empty()) {
    return Status(NRT_FAILURE,
                  format("the machine '{}' has no devices", snapshot.info.instance_type));
  }
  ONRT_ASSIGN_OR_RETURN(snapshot.info.logical_core_size,
                        chosen_core_size(context.settings, snapshot.info));
  return snapshot;
}

Result<HostView> observe_host(const Context& context, ProcessFilter filter) {
  ONRT_ASSIGN_OR_RETURN(const emu::MachineSnapshot snapshot, observe_machine(context));
  return view_of(snapshot, snapshot.info.logical_core_size,
                 filter == ProcessFilter::kAll ? find_onlookers() : std::vector<ProcessView>());
}

Status check_emulated_machine(const Context& context) {
  // The lock is held for microseconds at a time; longer is a stopped process.
  return emu::check_selected_machine(context, std::chrono::milliseconds(1000));
}

std::vector<emu::MachineEntry> existing_machines(const Context& context) {
  return emu::list_machines(context);
}

}  // namespace onrt::observe
