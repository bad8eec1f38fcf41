// SPDX-License-Identifier: Apache-2.0
// Expected keys: SDK documentation, neuron-monitor user guide, "The JSON output format".
#include "tools/neuron_monitor/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace onrt::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kSecond = 1'000'000'000;
const MonitorClock::time_point kStart{};

// A trn2 with one device of 8 cores, logical size 2; a process on logical core 1.
emu::MachineSnapshot machine(uint64_t at_ns, const std::string& tag = "trainer") {
  emu::MachineSnapshot snapshot;
  snapshot.read_at_ns = at_ns;
  snapshot.info.instance_type = "trn2.3xlarge";
  snapshot.info.instance_id = "i-0123";
  snapshot.info.device_count = 1;
  snapshot.info.physical_cores_per_device = 8;
  snapshot.info.logical_core_size = 2;
  snapshot.info.neuroncore_version = "v3";
  snapshot.info.hbm_per_device = 4;
  snapshot.info.hbm_bytes = 24ULL << 30;
  snapshot.cores.resize(8);
  snapshot.devices.resize(1);
  emu::ProcessSnapshot process;
  process.pid = 42;
  process.tag = tag;
  process.generation = 1;
  process.logical_core_size = 2;
  process.physical_cores = {2, 3};
  emu::ModelSnapshot model;
  model.model = 1001;
  model.name = "net";
  model.core = 1;
  model.code_bytes = 100;
  model.constants_bytes = 20;
  process.models.push_back(model);
  snapshot.cores[2].owner = snapshot.cores[3].owner = 0;
  snapshot.cores[2].bytes[static_cast<size_t>(MemoryCategory::kTensors)] = 4096;
  snapshot.cores[2].owner_busy_ns = at_ns / 2;
  snapshot.cores[3].owner_busy_ns = at_ns / 2;
  snapshot.processes.push_back(process);
  return snapshot;
}

struct Bench {
  Result<emu::MachineSnapshot> now = machine(kSecond);
  int looks = 0;

  MonitorSources sources() {
    MonitorSources sources;
    sources.machine = [this] {
      ++looks;
      return now;
    };
    sources.host_times = [] {
      observe::HostTimes times;
      times.each.emplace_back(0, observe::CpuTimes{});
      return Result<observe::HostTimes>(times);
    };
    sources.memory = [] { return Result<observe::MemoryInfo>({100, 40, 10, 1}); };
    sources.load = [](int) { return observe::ProcessLoad{0, 0, 5000}; };
    return sources;
  }
};

std::vector<std::string> keys(const JsonValue& object) {
  std::vector<std::string> names;
  names.reserve(object.members().size());
  for (const auto& [key, value] : object.members()) {
    names.push_back(key);
  }
  return names;
}

JsonValue parsed(const std::string& text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value.ok()) << value.status().message() << "\n" << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  return value.ok() ? *value : JsonValue();
}

const JsonValue& at(const JsonValue& value, std::initializer_list<std::string_view> path) {
  const JsonValue* found = &value;
  for (const std::string_view key : path) {
    found = found->type() == JsonType::kArray ? found->items().data() : found->find(key);
    if (found == nullptr) {
      ADD_FAILURE() << "no " << key;
      return value;
    }
  }
  return *found;
}

TEST(MonitorReport, HasTheDocumentedKeysInTheirOrder) {
  Bench bench;
  Monitor monitor(default_config(), bench.sources(), kStart);
  const JsonValue report = parsed(monitor.report(kStart));
  EXPECT_THAT(keys(report), ElementsAre("neuron_runtime_data", "system_data", "instance_info",
                                        "neuron_hardware_info"));
  const JsonValue& process = at(report, {"neuron_runtime_data", "0"});
  EXPECT_THAT(keys(process),
              ElementsAre("pid", "address", "neuron_runtime_tag", "error", "report"));
  EXPECT_EQ(at(process, {"neuron_runtime_tag"}).string(), "trainer");
  EXPECT_THAT(keys(at(process, {"report"})),
              ElementsAre("neuroncore_counters", "execution_stats", "memory_used",
                          "neuron_runtime_vcpu_usage"));
  EXPECT_THAT(keys(at(report, {"system_data"})),
              ElementsAre("neuron_hw_counters", "vcpu_usage", "memory_info"));
  EXPECT_THAT(keys(at(report, {"instance_info"})),
              ElementsAre("instance_name", "instance_id", "instance_type",
                          "instance_availability_zone", "instance_availability_zone_id",
                          "instance_region", "ami_id", "subnet_id", "error"));
  EXPECT_THAT(keys(at(report, {"neuron_hardware_info"})),
              ElementsAre("neuron_device_type", "neuron_device_version", "neuroncore_version",
                          "neuron_device_count", "neuron_device_memory_size",
                          "neuroncore_per_device_count", "logical_neuroncore_config", "error"));
  EXPECT_EQ(at(report, {"neuron_hardware_info", "neuroncore_version"}).string(), "v3d");
  EXPECT_EQ(at(report, {"neuron_hardware_info", "neuron_device_memory_size"}).integer(),
            103079215104);
  EXPECT_EQ(at(report, {"system_data", "memory_info", "memory_used_bytes"}).integer(), 40);
}

TEST(MonitorReport, UtilisationIsOfThePeriodBetweenTwoReports) {
  Bench bench;
  Monitor monitor(default_config(), bench.sources(), kStart);
  monitor.report(kStart);
  bench.now = machine(6 * kSecond);
  const JsonValue report = parsed(monitor.report(kStart + seconds(5)));
  const JsonValue& counters =
      at(report, {"neuron_runtime_data", "0", "report", "neuroncore_counters"});
  EXPECT_EQ(at(counters, {"period"}).real(), 5);
  const JsonValue& core = at(counters, {"neuroncores_in_use", "1"});
  EXPECT_EQ(at(core, {"neuroncore_utilization"}).real(), 50);
  EXPECT_THAT(keys(at(core, {"v3d"})), ElementsAre("nc_v3.2", "nc_v3.3"));
}

// Found by tools_fuzz: more than 64 bits a second, from a forged counter, is no number of JSON.
TEST(MonitorReport, OperationsASecondStayAWholeNumber) {
  Bench bench;
  Monitor monitor(default_config(), bench.sources(), kStart);
  static_cast<void>(monitor.report(kStart));
  bench.now = machine(kSecond + 1);
  bench.now->cores[2].counters[static_cast<size_t>(CoreCounter::kMultiplyAccumulates)] =
      emu::kMostOperations;
  const std::string report = monitor.report(kStart + seconds(5));
  EXPECT_TRUE(parse_json(report).ok()) << report;
  EXPECT_THAT(report, HasSubstr("\"flops\":1000000000000000000,"));
}

TEST(MonitorReport, MemoryCategoriesAddUpToTheTotals) {
  Bench bench;
  Monitor monitor(default_config(), bench.sources(), kStart);
  const JsonValue report = parsed(monitor.report(kStart));
  const JsonValue& used = at(report, {"neuron_runtime_data", "0", "report", "memory_used"});
  EXPECT_THAT(keys(used),
              ElementsAre("period", "neuron_runtime_used_bytes", "loaded_models", "error"));
  const JsonValue& bytes = at(used, {"neuron_runtime_used_bytes"});
  const auto sum = [](const JsonValue& object) {
    int64_t total = 0;
    for (const auto& [key, value] : object.members()) {
      total += value.integer();
    }
    return total;
  };
  EXPECT_EQ(at(bytes, {"neuron_device"}).integer(), 4096);
  EXPECT_EQ(sum(at(bytes, {"usage_breakdown", "neuroncore_memory_usage", "1"})), 4096);
  EXPECT_EQ(at(bytes, {"host"}).integer(), 5000);
  EXPECT_EQ(sum(at(bytes, {"usage_breakdown", "host"})), 5000);
  const JsonValue& model = at(used, {"loaded_models", "0"});
  EXPECT_THAT(keys(model), ElementsAre("name", "uuid", "model_id", "is_running", "subgraphs"));
  EXPECT_EQ(at(model, {"subgraphs", "sg_00", "memory_used_bytes", "neuron_device"}).integer(), 120);
  EXPECT_EQ(at(model, {"subgraphs", "sg_00", "neuroncore_index"}).integer(), 1);
}

TEST(MonitorReport, AGroupIsCollectedWhenItsPeriodHasPassedAndKeptUntilThen) {
  Bench bench;
  auto config = parse_config(R"({"period": "1s",
      "neuron_runtimes": [{"metrics": [{"type": "neuroncore_counters", "period": "3s"}]}],
      "system_metrics": [{"type": "memory_info"}]})");
  ASSERT_TRUE(config.ok());
  Monitor monitor(*config, bench.sources(), kStart);
  EXPECT_EQ(monitor.next_due(), kStart);
  monitor.report(kStart);
  EXPECT_EQ(monitor.next_due(), kStart + seconds(1));
  bench.now = machine(3 * kSecond);
  const JsonValue second = parsed(monitor.report(kStart + milliseconds(1002)));
  EXPECT_EQ(at(second, {"system_data", "memory_info", "period"}).real(), 1.002);
  EXPECT_EQ(
      at(second, {"neuron_runtime_data", "0", "report", "neuroncore_counters", "period"}).real(),
      0);
  // On the grid again, and what was missed is left out.
  EXPECT_EQ(monitor.next_due(), kStart + seconds(2));
  monitor.report(kStart + milliseconds(4500));
  EXPECT_EQ(monitor.next_due(), kStart + seconds(5));
}

TEST(MonitorReport, OnlyProcessesWhoseTagFitsAreShown) {
  Bench bench;
  auto config = parse_config(R"({"neuron_runtimes": [
      {"tag_filter": "^other", "metrics": [{"type": "memory_used"}]}]})");
  Monitor monitor(*config, bench.sources(), kStart);
  EXPECT_TRUE(at(parsed(monitor.report(kStart)), {"neuron_runtime_data"}).items().empty());
  bench.now = machine(kSecond, "other-7");
  EXPECT_EQ(at(parsed(monitor.report(kStart + seconds(1))), {"neuron_runtime_data"}).items().size(),
            1u);
}

TEST(MonitorReport, WithoutADeviceTheRestIsThereAndTheErrorSaysWhy) {
  Bench bench;
  bench.now = Status(NRT_FAILURE, "no Neuron device");
  Monitor monitor(default_config(), bench.sources(), kStart);
  const JsonValue report = parsed(monitor.report(kStart));
  EXPECT_TRUE(at(report, {"neuron_runtime_data"}).items().empty());
  const JsonValue& counters = at(report, {"system_data", "neuron_hw_counters"});
  EXPECT_EQ(at(counters, {"neuron_devices"}).type(), JsonType::kNull);
  EXPECT_EQ(at(counters, {"error"}).string(), "no Neuron device");
  EXPECT_EQ(at(report, {"neuron_hardware_info", "error"}).string(), "no Neuron device");
  EXPECT_EQ(at(report, {"system_data", "memory_info", "error"}).string(), "");
}

TEST(MonitorReport, AProcessThatEndedIsGoneAtOnce) {
  Bench bench;
  Monitor monitor(default_config(), bench.sources(), kStart);
  monitor.report(kStart);
  bench.now->processes.clear();
  for (emu::CoreSnapshot& core : bench.now->cores) {
    core.owner = -1;
  }
  EXPECT_TRUE(
      at(parsed(monitor.report(kStart + seconds(1))), {"neuron_runtime_data"}).items().empty());
}

}  // namespace
}  // namespace onrt::tools
