// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/driver/fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace onrt::conformance {
namespace {

constexpr const char* kBox = R"({"instance_type": "box", "architecture": "v3",
  "neuroncore_version": "v3", "device_count": 2, "physical_cores_per_device": 4,
  "default_logical_core_size": 1, "max_logical_core_size": 2, "hbm_per_device": 2,
  "hbm_mib": 1024, "hbm_base": ["0x0", "0x4000000000"], "dma_engines": 4,
  "queues_per_engine": 16, "links": {"kind": "chain"}})";

std::vector<std::pair<Capability, std::string>> missing_of(std::string_view driver) {
  if (driver == "null") {
    std::vector<std::pair<Capability, std::string>> missing;
    for (const Capability capability :
         {Capability::kCores, Capability::kMemory, Capability::kDma, Capability::kSync,
          Capability::kNotify, Capability::kPrograms, Capability::kProcesses}) {
      missing.emplace_back(capability, "the null backend has no devices");
    }
    return missing;
  }
  return {};
}

}  // namespace

std::vector<Backend> backends() {
  std::vector<Backend> all;
  for (const DriverRow& row : driver_table()) {
    all.push_back({std::string(row.name), std::string(row.name), false, missing_of(row.name)});
  }
  all.push_back({"emulator_behind_faults", "emulator", true, {}});
  return all;
}

TemporaryFolder::TemporaryFolder() {
  std::string name =
      (std::filesystem::temp_directory_path() / "opennrt-conformance-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    std::abort();
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

void DriverTest::SetUp() {
  machine_file_ = folder_.path() + "/box.json";
  std::ofstream(machine_file_) << kBox;
  context_ = make_context();
  for (const DriverRow& row : driver_table()) {
    if (row.name == GetParam().driver) {
      driver_ = row.factory();
    }
  }
  ASSERT_NE(driver_, nullptr);
  if (GetParam().behind_faults) {
    driver_ = make_fault_driver(std::move(driver_),
                                FaultPlan::parse("dma@1000000=1203;program@1000000=5").value());
  }
}

Context DriverTest::make_context(std::vector<std::string> more) const {
  more.push_back("OPENNRT_EMULATE=box");
  more.push_back("OPENNRT_MACHINE_FILE=" + machine_file_);
  more.push_back("OPENNRT_MACHINE_DIR=" + folder_.path());
  more.push_back("OPENNRT_BACKEND=" + GetParam().driver);
  Context context;
  context.settings = Settings::from_strings(more);
  context.log = std::make_unique<Logger>(context.settings);
  return context;
}

std::unique_ptr<Machine> DriverTest::open(MachineRequest request) {
  auto machine = driver_->open(context_, request);
  EXPECT_TRUE(machine.ok()) << machine.status().message();
  return machine.ok() ? std::move(machine).value() : nullptr;
}

bool DriverTest::can(Capability capability) {
  for (const auto& [missing, reason] : GetParam().missing) {
    if (missing == capability) {
      [&] { GTEST_SKIP() << GetParam().name << ": " << reason; }();
      return false;
    }
  }
  return true;
}

pid_t DriverTest::start_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int status = body();
    ::_exit(status);
  }
  return child;
}

int DriverTest::wait_child(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) {
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int DriverTest::in_child(const std::function<int()>& body) { return wait_child(start_child(body)); }

}  // namespace onrt::conformance
