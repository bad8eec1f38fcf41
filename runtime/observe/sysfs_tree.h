// SPDX-License-Identifier: Apache-2.0
// The files that the vendor's kernel driver shows below /sys, made from a snapshot of the machine.
// Names and meanings: SDK documentation, "Neuron Sysfs User Guide", and the public kernel driver
// (GPL; names only). "present" of a counter is what the core's present owner counted; "total" is
// since the machine was made.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emulator/machine_snapshot.h"

namespace onrt::observe {

enum class SysfsKind : uint8_t {
  kText,         // never changes, or as the snapshot says
  kCounter,      // a number; writing anything sets it to 0
  kNotifyDelay,  // "-1" or "0": whether poll() wakes for the device's files
  kReset,        // writing resets the device when nobody uses it
};

struct SysfsFile {
  std::string path;  // below /sys, without a slash before
  unsigned mode = 0444;
  SysfsKind kind = SysfsKind::kText;
  int device = -1;
  std::function<std::string(const emu::MachineSnapshot&)> text;  // of other kinds than kCounter
  std::function<uint64_t(const emu::MachineSnapshot&)> number;   // of kCounter
};

// All files of the machine, sorted by path.
std::vector<SysfsFile> sysfs_files(const MachineInfo& info);
// Symbolic links: path below /sys, target.
std::vector<std::pair<std::string, std::string>> sysfs_links(const MachineInfo& info);

// What a read of the file gives. `cleared`: the number when it was last cleared.
std::string sysfs_text(const SysfsFile& file, const emu::MachineSnapshot& snapshot,
                       uint64_t cleared = 0);

// The directory of the devices, below /sys.
inline constexpr const char* kSysfsDevices = "devices/virtual/neuron_device";

}  // namespace onrt::observe
