// SPDX-License-Identifier: Apache-2.0
// Expected paths: SDK documentation, "Neuron Sysfs User Guide" (the tree of files), with the status
// names of driver 2.24.
#include "runtime/observe/sysfs_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "emulator/machine_profile.h"

namespace onrt::observe {
namespace {

emu::MachineSnapshot machine(const char* type) {
  const Context context{Settings::from_strings({}), nullptr};
  auto profile = emu::find_profile(context, type);
  EXPECT_TRUE(profile.ok());
  emu::MachineSnapshot snapshot;
  snapshot.info = profile->info;
  snapshot.cores.resize(
      static_cast<size_t>(snapshot.info.device_count * snapshot.info.physical_cores_per_device));
  snapshot.devices.resize(static_cast<size_t>(snapshot.info.device_count));
  return snapshot;
}

std::map<std::string, std::string> texts(const emu::MachineSnapshot& snapshot) {
  std::map<std::string, std::string> all;
  for (const SysfsFile& file : sysfs_files(snapshot.info)) {
    EXPECT_TRUE(all.emplace(file.path, sysfs_text(file, snapshot)).second) << file.path;
  }
  return all;
}

TEST(SysfsTree, HoldsTheDocumentedFiles) {
  const auto all = texts(machine("trn1.2xlarge"));
  const std::string device = "devices/virtual/neuron_device/neuron0/";
  EXPECT_EQ(all.at(device + "core_count"), "2");
  EXPECT_EQ(all.at(device + "info/notify_delay"), "-1\n");
  EXPECT_EQ(all.at(device + "info/architecture/arch_type"), "NDv2\n");
  EXPECT_EQ(all.at(device + "info/architecture/instance_type"), "Trn1\n");
  EXPECT_EQ(all.at(device + "info/architecture/device_name"), "Trainium1\n");
  EXPECT_EQ(all.at(device + "info/serial_number").size(), 17u);
  EXPECT_EQ(all.at(device + "reset"), "1\n");
  EXPECT_EQ(all.at(device + "neuron_core1/info/architecture/arch_type"), "NCv2\n");
  for (const char* counter :
       {"stats/status/success", "stats/status/exec_bad_input", "stats/status/hw_error",
        "stats/status/resource_nc_error", "stats/status/unsupported_neff_version",
        "stats/status/failure", "stats/status/invalid_error", "stats/status/oob_error",
        "stats/status/generic_error", "stats/status/resource_error", "stats/status/timeout",
        "stats/other_info/flop_count", "stats/other_info/inference_count",
        "stats/other_info/model_load_count", "stats/other_info/reset_fail_count",
        "stats/other_info/reset_req_count", "stats/other_info/nc_time_in_use"}) {
    for (const char* part : {"/total", "/present"}) {
      EXPECT_EQ(all.at(device + "neuron_core0/" + counter + part), "0\n") << counter;
    }
  }
  for (const char* memory : {"collectives", "constants", "dma_rings", "driver_memory", "model_code",
                             "model_shared_scratchpad", "nonshared_scratchpad", "notifications",
                             "runtime_memory", "tensors", "uncategorized"}) {
    for (const char* part : {"/total", "/present", "/peak"}) {
      EXPECT_TRUE(
          all.contains(device + "neuron_core0/stats/memory_usage/device_mem/" + memory + part));
    }
  }
  EXPECT_TRUE(all.contains(device + "stats/memory_usage/host_mem/tensors/peak"));
  EXPECT_TRUE(all.at(device + "stats/power/utilization").starts_with("POWER_STATUS_NO_DATA,"));
  EXPECT_EQ(all.at("devices/virtual/dmi/id/product_name"), "trn1.2xlarge\n");
  EXPECT_FALSE(all.contains(device + "neuron_core0/stats/tensor_engine/pe_cntrs"));
}

TEST(SysfsTree, NeighboursAreListedInTheOrderOfTheTorus) {
  const auto all = texts(machine("trn1.32xlarge"));
  EXPECT_EQ(all.at("devices/virtual/neuron_device/neuron0/connected_devices"), "12, 3, 4, 1\n");
}

TEST(SysfsTree, CountersShowThePresentOwnerAndAllOwners) {
  auto snapshot = machine("trn2.3xlarge");
  auto& core = snapshot.cores[2];
  core.counters[static_cast<size_t>(CoreCounter::kCompleted)] = 3;
  core.counters_of_all_owners[static_cast<size_t>(CoreCounter::kCompleted)] = 10;
  core.counters_of_all_owners[static_cast<size_t>(CoreCounter::kMultiplyAccumulates)] = 50;
  core.busy_ns = 9'000'999;
  core.bytes[static_cast<size_t>(MemoryCategory::kTensors)] = 4096;
  core.last_change[static_cast<size_t>(MemoryCategory::kTensors)] = -512;
  const auto all = texts(snapshot);
  const std::string stats = "devices/virtual/neuron_device/neuron0/neuron_core2/stats/";
  EXPECT_EQ(all.at(stats + "status/success/total"), "10\n");
  EXPECT_EQ(all.at(stats + "status/success/present"), "3\n");
  EXPECT_EQ(all.at(stats + "other_info/flop_count/total"), "100\n");  // two for each MAC
  EXPECT_EQ(all.at(stats + "other_info/nc_time_in_use/total"), "9000\n");
  EXPECT_EQ(all.at(stats + "memory_usage/device_mem/total"), "4096\n");
  EXPECT_EQ(all.at(stats + "memory_usage/device_mem/tensors/present"), "512\n");
  EXPECT_TRUE(all.contains(stats + "tensor_engine/pe_cntrs"));
}

TEST(SysfsTree, AClearedCounterCountsFromThere) {
  const auto snapshot = machine("trn1.2xlarge");
  SysfsFile file;
  file.kind = SysfsKind::kCounter;
  file.number = [](const emu::MachineSnapshot&) { return uint64_t{12}; };
  EXPECT_EQ(sysfs_text(file, snapshot, 10), "2\n");
  EXPECT_EQ(sysfs_text(file, snapshot, 20), "0\n");
}

TEST(SysfsTree, EveryInstanceTypeHasATreeOfDistinctFiles) {
  for (const char* type : {"inf2.xlarge", "inf2.24xlarge", "inf2.48xlarge", "trn1n.32xlarge",
                           "trn2.48xlarge", "trn2u.48xlarge", "trn3-gen1"}) {
    const auto snapshot = machine(type);
    const auto files = sysfs_files(snapshot.info);
    std::set<std::string> paths;
    for (const SysfsFile& file : files) {
      paths.insert(file.path);
    }
    EXPECT_EQ(paths.size(), files.size()) << type;
    EXPECT_EQ(sysfs_links(snapshot.info).size(), static_cast<size_t>(snapshot.info.device_count));
  }
}

}  // namespace
}  // namespace onrt::observe
