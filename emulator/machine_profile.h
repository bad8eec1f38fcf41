// SPDX-License-Identifier: Apache-2.0
// Instance types: data files (emulator/machines/*.json, embedded in the library) that say what an
// emulated machine looks like. OPENNRT_MACHINE_FILE adds more at run time.
//
// One type is a JSON object:
//   instance_type              "trn2.48xlarge"
//   sources                    where each figure is from (array of text)
//   architecture               "v2" (trn1, inf2), "v3" (trn2) or "v4" (trn3)
//   neuroncore_version         "v2", "v3", "v4"
//   device_count               0..256
//   physical_cores_per_device  1..16
//   default_logical_core_size, max_logical_core_size   physical cores per logical one
//   hbm_per_device             stacks, 1..8; a divisor of physical_cores_per_device
//   hbm_mib                    size of one stack
//   hbm_base                   physical address of each stack, "0x4000000000"
//   dma_engines, queues_per_engine
//   links                      {"kind": "none" | "chain" | "ring" | "torus" | "switch",
//                               "rows", "columns" (torus), "gib_per_second"}
//   host                       {"vcpus", "memory_gib", "efa"}
//   devices                    {"bdf", "numa_node", "cpu_affinity"} for each device; made up when
//                              absent
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/driver/driver.h"

namespace onrt::emu {

struct InstanceProfile {
  MachineInfo info;  // name is empty, logical_core_size is the default
  int dma_engines = 0;
  int queues_per_engine = 0;
};

// Untrusted text: one type or an array of types. NRT_INVALID that names the type, the key, what was
// expected and what was found.
Result<std::vector<InstanceProfile>> parse_profiles(std::string_view json);

// Names of the embedded types, in alphabetical order.
std::vector<std::string> embedded_instance_types();

// The type called `name`: of OPENNRT_MACHINE_FILE if that has it, else embedded. NRT_INVALID with
// all known names when there is none.
Result<InstanceProfile> find_profile(const Context& context, std::string_view name);

}  // namespace onrt::emu
