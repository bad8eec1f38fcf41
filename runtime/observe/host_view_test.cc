// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/host_view.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "emulator/machine_profile.h"

namespace onrt::observe {
namespace {

emu::MachineSnapshot machine(const char* type) {
  Context context{Settings::from_strings({}), nullptr};
  auto profile = emu::find_profile(context, type);
  EXPECT_TRUE(profile.ok()) << profile.status().message();
  emu::MachineSnapshot snapshot;
  snapshot.info = profile->info;
  return snapshot;
}

TEST(HostView, CoreIdsFollowTheLogicalCoreSize) {
  // trn2.3xlarge has 8 physical cores: 4 logical ones at LNC 2 (SDK documentation, "Logical
  // NeuronCore configuration").
  const auto snapshot = machine("trn2.3xlarge");
  const HostView two = view_of(snapshot, 2, {});
  ASSERT_EQ(two.devices.size(), 1u);
  EXPECT_EQ(two.devices[0].core_ids, (std::vector<int>{0, 1, 2, 3}));
  const HostView one = view_of(snapshot, 1, {});
  EXPECT_EQ(one.devices[0].core_ids.size(), 8u);
}

TEST(HostView, AProcessIsShownOnTheDevicesWhoseCoresItHolds) {
  auto snapshot = machine("trn2.48xlarge");
  emu::ProcessSnapshot process;
  process.pid = 42;
  process.command = "python train.py";
  process.runtime_version = "2.35.0";
  process.physical_cores = {6, 7, 8, 9};  // the last core of device 0, the first of device 1
  snapshot.processes.push_back(process);
  const HostView view = view_of(snapshot, 2, {{7, "neuron-ls -a", "NA"}});
  ASSERT_EQ(view.devices[0].processes.size(), 2u);
  EXPECT_EQ(view.devices[0].processes[0].pid, 42);
  EXPECT_EQ(view.devices[0].processes[1].runtime_version, "NA");
  EXPECT_EQ(view.devices[1].processes.size(), 2u);
  EXPECT_EQ(view.devices[2].processes.size(), 1u);
}

TEST(HostView, AProcessOfAnotherPidNamespaceIsShownByItsTag) {
  auto snapshot = machine("trn1.2xlarge");
  emu::ProcessSnapshot process;
  process.tag = "pod-7";
  process.physical_cores = {0};
  snapshot.processes.push_back(process);
  EXPECT_EQ(view_of(snapshot, 1, {}).devices[0].processes[0].command, "pod-7");
}

TEST(HostView, CoreSizeComesFromTheEnvironmentAndIsChecked) {
  const auto trn2 = machine("trn2.48xlarge").info;
  const auto trn1 = machine("trn1.2xlarge").info;
  const auto size = [](const MachineInfo& info, const std::string& text) {
    return chosen_core_size(Settings::from_strings({"NEURON_LOGICAL_NC_CONFIG=" + text}), info);
  };
  EXPECT_EQ(*chosen_core_size(Settings::from_strings({}), trn2), 2);
  EXPECT_EQ(*size(trn2, "1"), 1);
  for (const char* bad : {"0", "3", "x", "2x", "-1", "99999999999"}) {
    const auto result = size(trn2, bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_NE(result.status().message().find(bad), std::string_view::npos);
  }
  EXPECT_FALSE(size(trn1, "2").ok());
}

TEST(Onlookers, AreOnlyToolsThatLookAtDevices) {
  for (const ProcessView& view : find_onlookers()) {
    EXPECT_EQ(view.runtime_version, "NA");
    EXPECT_NE(view.pid, getpid());  // this test is not one of them
  }
}

}  // namespace
}  // namespace onrt::observe
