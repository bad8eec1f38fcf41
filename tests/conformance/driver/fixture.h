// SPDX-License-Identifier: Apache-2.0
// Fixture of the Driver conformance suite: one machine of its own per test, opened through a row of
// driver_table().
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/driver/fault_driver.h"
#include "runtime/driver/registry.h"

namespace onrt::conformance {

// What a row can't do, with the reason; the suite asks `can()` before it uses a group.
enum class Capability : uint8_t { kCores, kMemory, kDma, kSync, kNotify, kPrograms, kProcesses };

struct Backend {
  std::string name;            // test parameter
  std::string driver;          // row of driver_table()
  bool behind_faults = false;  // decorated with a plan that never fires
  std::vector<std::pair<Capability, std::string>> missing;
};

// Every registered row, and the emulator behind the fault decorator.
std::vector<Backend> backends();

// A folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class DriverTest : public ::testing::TestWithParam<Backend> {
 protected:
  // Box of the suite: 2 devices x 4 cores, 2 stacks of 1 GiB.
  void SetUp() override;

  Context make_context(std::vector<std::string> more = {}) const;
  // A session of this process; fails the test when it can't be opened.
  std::unique_ptr<Machine> open(MachineRequest request = {});
  // Skips with the backend's reason when it lacks `capability`.
  bool can(Capability capability);

  // Runs `body` in a forked child that has not used the machine before; its exit status.
  static int in_child(const std::function<int()>& body);
  // Starts one; the caller waits or kills.
  static pid_t start_child(const std::function<int()>& body);
  static int wait_child(pid_t child);

  TemporaryFolder folder_;
  std::string machine_file_;
  Context context_;
  std::unique_ptr<Driver> driver_;
};

}  // namespace onrt::conformance
