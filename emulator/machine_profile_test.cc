// SPDX-License-Identifier: Apache-2.0
#include "emulator/machine_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace onrt::emu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Context context_of(const std::vector<std::string>& variables) {
  Context context;
  context.settings = Settings::from_strings(variables);
  context.log = std::make_unique<Logger>(context.settings);
  return context;
}

InstanceProfile profile_of(std::string_view name) {
  auto profile = find_profile(context_of({}), name);
  EXPECT_TRUE(profile.ok()) << profile.status().message();
  return profile.ok() ? std::move(profile).value() : InstanceProfile();
}

// A valid type of one device, with `from` replaced by `to`.
std::string altered(const std::string& from, const std::string& to) {
  std::string text = R"({"instance_type": "box", "architecture": "v3", "neuroncore_version": "v3",
    "device_count": 1, "physical_cores_per_device": 4, "default_logical_core_size": 1,
    "max_logical_core_size": 2, "hbm_per_device": 2, "hbm_mib": 1024,
    "hbm_base": ["0x0", "0x4000000000"], "dma_engines": 4, "queues_per_engine": 16,
    "links": {"kind": "none"}})";
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(MachineProfile, EveryEmbeddedTypeParses) {
  const auto names = embedded_instance_types();
  EXPECT_THAT(names, ElementsAre("inf2.24xlarge", "inf2.48xlarge", "inf2.8xlarge", "inf2.xlarge",
                                 "trn1.2xlarge", "trn1.32xlarge", "trn1n.32xlarge", "trn2.3xlarge",
                                 "trn2.48xlarge", "trn2u.48xlarge", "trn3-gen1", "trn3-gen2"));
  for (const std::string& name : names) {
    EXPECT_EQ(profile_of(name).info.instance_type, name);
  }
}

// Values: the table of instance types of the vendor's documentation (devices, logical cores, GiB).
TEST(MachineProfile, CountsAreThoseOfTheInstanceTypes) {
  struct Row {
    const char* name;
    int devices;
    int logical_cores;
    uint64_t device_gib;
  };
  for (const Row& row : {Row{"trn1.2xlarge", 1, 2, 32}, Row{"trn1.32xlarge", 16, 32, 32},
                         Row{"inf2.24xlarge", 6, 12, 32}, Row{"inf2.48xlarge", 12, 24, 32},
                         Row{"trn2.3xlarge", 1, 4, 96}, Row{"trn2.48xlarge", 16, 64, 96},
                         Row{"trn3-gen1", 64, 256, 144}, Row{"trn3-gen2", 144, 576, 144}}) {
    const MachineInfo info = profile_of(row.name).info;
    EXPECT_EQ(info.device_count, row.devices) << row.name;
    EXPECT_EQ(info.logical_cores(), row.logical_cores) << row.name;
    EXPECT_EQ(info.hbm_bytes * static_cast<uint64_t>(info.hbm_per_device), row.device_gib << 30)
        << row.name;
  }
}

// Rows of the neuron-ls tables in the vendor's documentation.
TEST(MachineProfile, NeighboursAreThoseOfThePublishedTables) {
  const MachineInfo trn2 = profile_of("trn2.48xlarge").info;
  EXPECT_THAT(trn2.devices[0].connected_devices, ElementsAre(12, 3, 4, 1));
  EXPECT_THAT(trn2.devices[7].connected_devices, ElementsAre(3, 6, 11, 4));
  EXPECT_THAT(trn2.devices[15].connected_devices, ElementsAre(11, 14, 3, 12));
  EXPECT_EQ(trn2.devices[12].pci_bdf, "0000:f8:00.0");
  EXPECT_EQ(trn2.devices[12].numa_node, 1);
  const MachineInfo ring = profile_of("inf2.48xlarge").info;
  EXPECT_THAT(ring.devices[0].connected_devices, ElementsAre(11, 1));
  EXPECT_THAT(ring.devices[11].connected_devices, ElementsAre(10, 0));
  const MachineInfo chain = profile_of("inf2.24xlarge").info;
  EXPECT_THAT(chain.devices[0].connected_devices, ElementsAre(1));
  EXPECT_THAT(chain.devices[5].connected_devices, ElementsAre(4));
  EXPECT_THAT(profile_of("trn1.2xlarge").info.devices[0].connected_devices, IsEmpty());
  EXPECT_EQ(profile_of("trn1.32xlarge").info.devices[2].pci_bdf, "0000:a0:1c.0");
}

TEST(MachineProfile, UnknownTypeNamesTheKnownOnes) {
  const auto profile = find_profile(context_of({}), "trn9");
  ASSERT_FALSE(profile.ok());
  EXPECT_EQ(profile.status().code(), NRT_INVALID);
  EXPECT_THAT(std::string(profile.status().message()),
              AllOf(HasSubstr("'trn9'"), HasSubstr("trn2.48xlarge")));
}

TEST(MachineProfile, DevicesMayBeAbsentAndAreInvented) {
  const auto profiles = parse_profiles(altered("\"device_count\": 1", "\"device_count\": 2"));
  ASSERT_TRUE(profiles.ok()) << profiles.status().message();
  EXPECT_EQ(profiles->front().info.devices[1].pci_bdf, "0000:11:00.0");
  EXPECT_NE(profiles->front().info.devices[0].serial_number,
            profiles->front().info.devices[1].serial_number);
}

TEST(MachineProfile, NoDevicesAtAllIsPossible) {
  const auto profiles = parse_profiles(altered("\"device_count\": 1", "\"device_count\": 0"));
  ASSERT_TRUE(profiles.ok()) << profiles.status().message();
  EXPECT_EQ(profiles->front().info.logical_cores(), 0);
}

TEST(MachineProfile, BadFilesNameTheKey) {
  struct Row {
    const char* from;
    const char* to;
    const char* expected;
  };
  for (const Row& row :
       {Row{"\"device_count\": 1", "\"device_count\": 257", "device_count"},
        Row{"\"device_count\": 1", "\"device_count\": -1", "device_count"},
        Row{"\"device_count\": 1,", "", "device_count"},
        Row{"\"physical_cores_per_device\": 4", "\"physical_cores_per_device\": 17",
            "physical_cores_per_device"},
        Row{"\"max_logical_core_size\": 2", "\"max_logical_core_size\": 3", "must divide"},
        Row{"\"hbm_per_device\": 2", "\"hbm_per_device\": 3", "must divide"},
        Row{"\"hbm_mib\": 1024", "\"hbm_mib\": 1", "hbm_mib"},
        Row{"[\"0x0\", \"0x4000000000\"]", "[\"0x0\"]", "expected 2 addresses"},
        Row{"0x4000000000", "0x200000", "overlaps"},
        Row{"0x4000000000", "0x4000000001", "multiple of 2 MiB"},
        Row{"0x4000000000", "zero", "hexadecimal"},
        Row{"\"v3\", \"neuron", "\"v7\", \"neuron", "expected v2, v3 or v4"},
        Row{"\"box\"", "\"../x\"", "file name"}, Row{"\"none\"", "\"star\"", "expected kind"},
        Row{"{\"kind\": \"none\"}", "{\"kind\": \"torus\", \"rows\": 2, \"columns\": 2}", "torus"},
        Row{"\"instance_type\"", "\"instance_typo\"", "instance_typo"},
        Row{"{\"instance_type\"", "{{\"instance_type\"", ""}}) {
    const auto profiles = parse_profiles(altered(row.from, row.to));
    ASSERT_FALSE(profiles.ok()) << row.to;
    EXPECT_EQ(profiles.status().code(), NRT_INVALID);
    EXPECT_THAT(std::string(profiles.status().message()), HasSubstr(row.expected));
  }
}

}  // namespace
}  // namespace onrt::emu
