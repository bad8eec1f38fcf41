// SPDX-License-Identifier: Apache-2.0
// Golden tests. Expected values are restated by hand from the AWS Neuron SDK documentation:
//   page A  tools/neuron-sys-tools/neuron-ls.rst, commit 539a73c5 (16-device trn2, LNC 2)
//   page B  neuron-runtime/guides/nrt-developer-guide.rst, commit 81ce03ae (trn1.32xlarge)
// Page B prints short PCI addresses; newer tools print them with the domain "0000:" in front.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "emulator/machine_profile.h"
#include "runtime/base/json.h"
#include "tools/neuron_ls/views.h"

namespace onrt::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

observe::HostView host(const std::string& type, int logical_core_size = 0) {
  Context context{Settings::from_strings({}), nullptr};
  const auto profile = emu::find_profile(context, type);
  EXPECT_TRUE(profile.ok()) << profile.status().message();
  emu::MachineSnapshot snapshot;
  snapshot.info = profile->info;
  const int size =
      logical_core_size != 0 ? logical_core_size : snapshot.info.default_logical_core_size;
  return observe::view_of(snapshot, size, {});
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

// Cells of a table row, without the space around them.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const size_t first = cell.find_first_not_of(' ');
    const size_t last = cell.find_last_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

// Page A: device, core ids, connected devices, PCI address, CPU affinity, NUMA node.
struct Trn2Row {
  const char* cores;
  const char* connected;
  const char* bdf;
  const char* affinity;
  const char* numa;
};
constexpr const char* kNode1 = "48-95,144-191";
constexpr const char* kNode0 = "0-47,96-143";
constexpr Trn2Row kTrn2Rows[] = {
    {"0-3", "12, 3, 4, 1", "0000:cc:00.0", kNode1, "1"},
    {"4-7", "13, 0, 5, 2", "0000:b5:00.0", kNode1, "1"},
    {"8-11", "14, 1, 6, 3", "0000:b6:00.0", kNode1, "1"},
    {"12-15", "15, 2, 7, 0", "0000:cb:00.0", kNode1, "1"},
    {"16-19", "0, 7, 8, 5", "0000:6f:00.0", kNode0, "0"},
    {"20-23", "1, 4, 9, 6", "0000:58:00.0", kNode0, "0"},
    {"24-27", "2, 5, 10, 7", "0000:59:00.0", kNode0, "0"},
    {"28-31", "3, 6, 11, 4", "0000:6e:00.0", kNode0, "0"},
    {"32-35", "4, 11, 12, 9", "0000:9b:00.0", kNode0, "0"},
    {"36-39", "5, 8, 13, 10", "0000:84:00.0", kNode0, "0"},
    {"40-43", "6, 9, 14, 11", "0000:85:00.0", kNode0, "0"},
    {"44-47", "7, 10, 15, 8", "0000:9a:00.0", kNode0, "0"},
    {"48-51", "8, 15, 0, 13", "0000:f8:00.0", kNode1, "1"},
    {"52-55", "9, 12, 1, 14", "0000:e1:00.0", kNode1, "1"},
    {"56-59", "10, 13, 2, 15", "0000:e2:00.0", kNode1, "1"},
    {"60-63", "11, 14, 3, 12", "0000:f7:00.0", kNode1, "1"},
};

TEST(NeuronLs, TableOfTrn2HasTheDocumentedRows) {
  const auto lines = lines_of(table_view(host("trn2.48xlarge"), kCommandWidth));
  ASSERT_EQ(lines.size(), 24u);
  EXPECT_EQ(lines[0], "instance-type: trn2.48xlarge");
  EXPECT_THAT(lines[1], HasSubstr("instance-id: "));
  EXPECT_EQ(lines[2], "logical-neuroncore-config: 2");
  EXPECT_THAT(cells_of(lines[4]), ElementsAre("NEURON", "NEURON", "NEURON", "NEURON", "CONNECTED",
                                              "PCI", "CPU", "NUMA"));
  EXPECT_THAT(cells_of(lines[5]), ElementsAre("DEVICE", "CORES", "CORE IDS", "MEMORY", "DEVICES",
                                              "BDF", "AFFINITY", "NODE"));
  for (size_t i = 0; i < 16; ++i) {
    const Trn2Row& row = kTrn2Rows[i];
    EXPECT_THAT(cells_of(lines[7 + i]),
                ElementsAre(std::to_string(i), "4", row.cores, "96 GB", row.connected, row.bdf,
                            row.affinity, row.numa));
  }
  // Widths and centring of page A.
  EXPECT_EQ(lines[3],
            "+--------+--------+----------+--------+---------------+--------------+---------------+"
            "------+");
  EXPECT_EQ(lines[4],
            "| NEURON | NEURON |  NEURON  | NEURON |   CONNECTED   |     PCI      |      CPU      |"
            " NUMA |");
  EXPECT_EQ(lines[7],
            "| 0      | 4      | 0-3      | 96 GB  | 12, 3, 4, 1   | 0000:cc:00.0 | 48-95,144-191 |"
            " 1    |");
  EXPECT_EQ(lines[23], lines[3]);
}

TEST(NeuronLs, TableOfTrn1HasTheDocumentedLinksAndAddresses) {
  // Page B, first rows.
  struct Row {
    const char* connected;
    const char* bdf;
  };
  constexpr Row kRows[] = {{"12, 3, 4, 1", "0000:10:1c.0"}, {"13, 0, 5, 2", "0000:10:1d.0"},
                           {"14, 1, 6, 3", "0000:a0:1c.0"}, {"15, 2, 7, 0", "0000:a0:1d.0"},
                           {"0, 7, 8, 5", "0000:20:1b.0"},  {"1, 4, 9, 6", "0000:20:1c.0"}};
  const auto lines = lines_of(table_view(host("trn1.32xlarge"), kCommandWidth));
  ASSERT_EQ(lines.size(), 23u);  // no logical-neuroncore-config before trn2
  EXPECT_THAT(lines[2], HasSubstr("+--"));
  for (size_t i = 0; i < std::size(kRows); ++i) {
    const auto cells = cells_of(lines[6 + i]);
    EXPECT_EQ(cells[1], "2");
    EXPECT_EQ(cells[3], "32 GB");
    EXPECT_EQ(cells[4], kRows[i].connected);
    EXPECT_EQ(cells[5], kRows[i].bdf);
  }
}

void add_process(observe::HostView& view, int pid, const std::string& command,
                 const std::string& version) {
  for (auto& device : view.devices) {
    device.processes.push_back({pid, command, version});
  }
}

const char* const kLongCommand =
    "neuron-bench exec --run-as-cc-neff --warmup none --fixed-instance-count 64 --enable-only-"
    "latency";

TEST(NeuronLs, ProcessesGetPidCommandAndVersionAndSeveralOfThemRules) {
  // Page A: with --show-all-procs a rule follows each device, and cells of the device are empty in
  // its further rows. Commands are cut to 40 characters, with --wide to 80.
  auto view = host("trn2.48xlarge");
  add_process(view, 268911, kLongCommand, "2.0.0");
  auto lines = lines_of(table_view(view, kCommandWidth));
  EXPECT_THAT(cells_of(lines[4]), ElementsAre("NEURON", "NEURON", "NEURON", "NEURON", "CONNECTED",
                                              "PCI", "PID", "COMMAND", "RUNTIME", "CPU", "NUMA"));
  EXPECT_EQ(cells_of(lines[7])[6], "268911");
  EXPECT_EQ(cells_of(lines[7])[7], "neuron-bench exec --run-as-cc-neff --...");
  EXPECT_EQ(cells_of(lines[7])[8], "2.0.0");
  ASSERT_EQ(lines.size(), 24u);
  lines = lines_of(table_view(view, kWideCommandWidth));
  EXPECT_EQ(cells_of(lines[7])[7],
            "neuron-bench exec --run-as-cc-neff --warmup none --fixed-instance-count 64 --...");
  add_process(view, 269192, "neuron-ls --show-all-procs", "NA");
  lines = lines_of(table_view(view, kCommandWidth));
  ASSERT_EQ(lines.size(), 7u + 16 * 3);
  EXPECT_THAT(cells_of(lines[8]), ElementsAre("", "", "", "", "", "", "269192",
                                              "neuron-ls --show-all-procs", "NA", "", ""));
  EXPECT_EQ(lines[9], lines[3]);
}

TEST(NeuronLs, WithoutAnyVisibleCommandThatColumnIsDropped) {
  auto view = host("trn1.2xlarge");
  add_process(view, 0, "", "2.35.0");
  const auto lines = lines_of(table_view(view, kCommandWidth));
  EXPECT_THAT(cells_of(lines[3]), ElementsAre("NEURON", "NEURON", "NEURON", "NEURON", "PCI", "PID",
                                              "RUNTIME", "CPU", "NUMA"));
}

TEST(NeuronLs, ControlCharactersOfACommandDoNotReachTheTerminal) {
  auto view = host("trn1.2xlarge");
  add_process(view, 1, "evil\x1b[2J\n| x", "2.35.0");
  EXPECT_EQ(table_view(view, kCommandWidth).find('\x1b'), std::string::npos);
  const auto json = parse_json(json_view(view));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->items()[0].find("neuron_processes")->items()[0].find("command")->string(),
            "evil\x1b[2J\n| x");
}

TEST(NeuronLs, JsonHasTheDocumentedKeysInOrder) {
  // Page A, output of `neuron-ls -j`: device 0 with the process that runs on it.
  auto view = host("trn2.48xlarge");
  add_process(view, 113985, kLongCommand, "2.0.0");
  const std::string text = json_view(view);
  EXPECT_TRUE(text.starts_with(R"([
    {
        "neuron_device": 0,
        "bdf": "0000:cc:00.0",
        "cpu_affinity": "48-95,144-191",
        "numa_node": "1",
        "connected_to": [
            12,
            3,
            4,
            1
        ],
        "nc_count": 4,
        "logical_neuroncore_config": 2,
        "memory_size": 103079215104,
        "neuroncore_ids": [
            0,
            1,
            2,
            3
        ],
        "neuron_processes": [
            {
                "pid": 113985,
                "command": "neuron-bench exec --run-as-cc-neff --...",
                "neuron_runtime_version": "2.0.0"
            }
        ]
    },
)")) << text.substr(0, 900);
  EXPECT_TRUE(text.ends_with("\n]"));
  const auto json = parse_json(text);
  ASSERT_TRUE(json.ok());
  ASSERT_EQ(json->items().size(), 16u);
  EXPECT_EQ(json->items()[15].find("neuroncore_ids")->items()[3].integer(), 63);
}

TEST(NeuronLs, JsonOfASingleTrn1DeviceIsAsCapturedOnHardware) {
  // Captured output quoted in lablup/all-smi#417: connected_to is null, numa_node is text, there is
  // no logical_neuroncore_config, and no newline at the end.
  const std::string text = json_view(host("trn1.2xlarge"));
  const auto json = parse_json(text);
  ASSERT_TRUE(json.ok());
  const JsonValue& device = json->items()[0];
  std::vector<std::string> keys;
  for (const auto& member : device.members()) {
    keys.push_back(member.first);
  }
  EXPECT_THAT(keys, ElementsAre("neuron_device", "bdf", "cpu_affinity", "numa_node", "connected_to",
                                "nc_count", "memory_size", "neuroncore_ids", "neuron_processes"));
  EXPECT_EQ(device.find("connected_to")->type(), JsonType::kNull);
  EXPECT_EQ(device.find("numa_node")->type(), JsonType::kString);
  EXPECT_EQ(device.find("memory_size")->integer(), int64_t{32} << 30);
  EXPECT_THAT(text, HasSubstr("\"neuron_processes\": []"));
  EXPECT_NE(text.back(), '\n');
}

TEST(NeuronLs, TopologyOfATorusIsDrawnAsDocumented) {
  // Page A, `neuron-ls --topology`, without the indentation of the page.
  // "$" marks ends of lines that have spaces before them.
  std::string expected = R"(

Neuron Device Topology
      *        *        *        *      $
      │        │        │        │      $
      ▼        ▼        ▼        ▼      $
*––►[ 0 ]◄––►[ 1 ]◄––►[ 2 ]◄––►[ 3 ]◄––*
      ▲        ▲        ▲        ▲      $
      │        │        │        │      $
      ▼        ▼        ▼        ▼      $
*––►[ 4 ]◄––►[ 5 ]◄––►[ 6 ]◄––►[ 7 ]◄––*
      ▲        ▲        ▲        ▲      $
      │        │        │        │      $
      ▼        ▼        ▼        ▼      $
*––►[ 8 ]◄––►[ 9 ]◄––►[10 ]◄––►[11 ]◄––*
      ▲        ▲        ▲        ▲      $
      │        │        │        │      $
      ▼        ▼        ▼        ▼      $
*––►[12 ]◄––►[13 ]◄––►[14 ]◄––►[15 ]◄––*
      ▲        ▲        ▲        ▲      $
      │        │        │        │      $
      *        *        *        *      $

Legend:

        *––► = Wrap-around link
)";
  std::erase(expected, '$');
  EXPECT_EQ(topology_view(host("trn2.48xlarge")), expected);
}

TEST(NeuronLs, TopologyOfAChainHasNoWrapAroundAndOfARingHas) {
  const std::string chain = topology_view(host("inf2.24xlarge"));
  EXPECT_THAT(chain, HasSubstr("    [ 0 ]◄––►[ 1 ]◄––►[ 2 ]◄––►[ 3 ]◄––►[ 4 ]◄––►[ 5 ]    \n"));
  EXPECT_EQ(chain.find("Legend"), std::string::npos);
  const std::string ring = topology_view(host("inf2.48xlarge"));
  EXPECT_THAT(ring, HasSubstr("*––►[ 0 ]◄––►"));
  EXPECT_THAT(ring, HasSubstr("◄––►[11 ]◄––*\n"));
}

TEST(NeuronLs, EveryInstanceTypeHasAllThreeViews) {
  for (const std::string& type : emu::embedded_instance_types()) {
    const auto view = host(type);
    const auto json = parse_json(json_view(view));
    ASSERT_TRUE(json.ok()) << type;
    EXPECT_EQ(json->items().size(), view.devices.size());
    EXPECT_THAT(table_view(view, kCommandWidth), HasSubstr("instance-type: " + type + "\n"));
    const std::string topology = topology_view(view);
    EXPECT_THAT(topology, HasSubstr("[ 0 ]")) << type;
    const auto last = std::to_string(view.devices.size() - 1);
    EXPECT_THAT(topology, HasSubstr(last)) << type;
    int core = 0;  // ids count through the whole host
    for (const auto& device : view.devices) {
      for (const int id : device.core_ids) {
        EXPECT_EQ(id, core++) << type;
      }
    }
  }
}

}  // namespace
}  // namespace onrt::tools
