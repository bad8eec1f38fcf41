// SPDX-License-Identifier: Apache-2.0
// The emulator's row in the registry of backends.
#include <unistd.h>

#include "emulator/emulated_machine.h"
#include "emulator/exec/simd_level.h"
#include "emulator/fork_watch.h"
#include "emulator/machine_place.h"
#include "emulator/machine_snapshot.h"
#include "runtime/base/format.h"

namespace onrt {
namespace emu {
namespace {

// An emulated device must never be mistaken for a real one: one line per process.
void announce(const MachinePlace& place, const MachineInfo& info) {
  if (process_machines().announced.exchange(true)) {
    return;
  }
  std::string text =
      format("opennrt: emulating {} in this process (machine {}); no Trainium device is used\n",
             info.instance_type, place.directory);
  if (!place.note.empty()) {
    text += format("opennrt: {}\n", place.note);
  }
  // Standard error may be closed: then there is nobody to tell.
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
}

Status apply_core_size(int wanted, MachineInfo* info) {
  if (wanted == 0) {
    return ok_status();
  }
  if (wanted < 0 || wanted > info->max_logical_core_size ||
      info->max_logical_core_size % wanted != 0) {
    return Status(
        NRT_INVALID,
        format("logical core size {}: {} allows 1{}", wanted, info->instance_type,
               info->max_logical_core_size > 1 ? format(" to {}", info->max_logical_core_size)
                                               : std::string()));
  }
  info->logical_core_size = wanted;
  return ok_status();
}

// Looks without joining: counts, owners, usage.
class ObservedMachine : public Machine {
 public:
  explicit ObservedMachine(MachineSnapshot snapshot, MachineInfo info)
      : snapshot_(std::move(snapshot)), info_(std::move(info)) {}

  const MachineInfo& info() const override { return info_; }

  Result<std::vector<CoreOwner>> core_owners() override {
    std::vector<CoreOwner> owners;
    for (size_t i = 0; i < snapshot_.cores.size(); ++i) {
      const int owner = snapshot_.cores[i].owner;
      const int core = static_cast<int>(i) / info_.logical_core_size;
      if (owner >= 0 && (owners.empty() || owners.back().core != core)) {
        const ProcessSnapshot& process = snapshot_.processes[static_cast<size_t>(owner)];
        owners.push_back({core, process.pid, process.command});
      }
    }
    return owners;
  }

  Result<HbmUsage> hbm_usage(HbmId hbm) override {
    const int index = hbm.device * info_.hbm_per_device + hbm.stack;
    if (hbm.device < 0 || hbm.device >= info_.device_count || hbm.stack < 0 ||
        hbm.stack >= info_.hbm_per_device) {
      return Status(NRT_INVALID, format("HBM {} of ND {} does not exist", hbm.stack, hbm.device));
    }
    return snapshot_.hbm[static_cast<size_t>(index)];
  }

  Result<DeviceCounters> counters(int device) override {
    if (device < 0 || device >= info_.device_count) {
      return Status(NRT_INVALID,
                    format("device {}: the machine has {}", device, info_.device_count));
    }
    return snapshot_.devices[static_cast<size_t>(device)];
  }

 private:
  const MachineSnapshot snapshot_;
  const MachineInfo info_;
};

class EmulatedDriver : public Driver {
 public:
  std::string_view name() const override { return "emulator"; }

  Status probe(const Context& context) const override {
    const std::string_view type = context.settings.text(Setting::kEmulate);
    if (type.empty()) {
      return Status(NRT_FAILURE, "OPENNRT_EMULATE is not set");
    }
    if (type == "none") {
      return Status(NRT_FAILURE, "OPENNRT_EMULATE=none");
    }
    return find_profile(context, type).status().annotate(format("OPENNRT_EMULATE='{}'", type));
  }

  Result<std::unique_ptr<Machine>> open(const Context& context,
                                        const MachineRequest& request) const override {
    ONRT_RETURN_IF_ERROR(probe(context));
    ONRT_ASSIGN_OR_RETURN(InstanceProfile profile,
                          find_profile(context, context.settings.text(Setting::kEmulate)));
    ONRT_RETURN_IF_ERROR(apply_core_size(request.logical_core_size, &profile.info));
    if (!request.attach) {
      ONRT_ASSIGN_OR_RETURN(MachineSnapshot snapshot, read_selected_machine(context));
      if (snapshot.info.instance_type != profile.info.instance_type) {
        return Status(NRT_FAILURE, format("machine '{}' is a {}, wanted {}", snapshot.info.name,
                                          snapshot.info.instance_type, profile.info.instance_type));
      }
      MachineInfo info = snapshot.info;
      ONRT_RETURN_IF_ERROR(apply_core_size(request.logical_core_size, &info));
      return std::unique_ptr<Machine>(
          std::make_unique<ObservedMachine>(std::move(snapshot), std::move(info)));
    }
    ONRT_ASSIGN_OR_RETURN(const MachinePlace place,
                          machine_place(context, profile.info.instance_type));
    // A level that this host can't run fails here rather than at the first nrt_load().
    ONRT_RETURN_IF_ERROR(choose_simd_level(context.settings.text(Setting::kEmuSimd)).status());
    AttachOptions options;
    options.logical_core_size = profile.info.logical_core_size;
    options.runtime_version = request.runtime_version;
    ONRT_ASSIGN_OR_RETURN(auto file, MachineFile::attach(context, place, profile, options));
    announce(place, profile.info);
    MachineInfo info = file->profile().info;
    info.logical_core_size = profile.info.logical_core_size;
    return std::unique_ptr<Machine>(
        std::make_unique<EmulatedMachine>(context, std::move(file), std::move(info)));
  }
};

}  // namespace
}  // namespace emu

std::unique_ptr<Driver> make_emulated_driver() { return std::make_unique<emu::EmulatedDriver>(); }

}  // namespace onrt
