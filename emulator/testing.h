// SPDX-License-Identifier: Apache-2.0
// For tests of the machine directory: a folder of its own, an instance type "box", children.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "emulator/machine_file.h"

namespace onrt::emu::testing {

// 2 devices x 4 cores, 2 stacks of 256 MiB. Removed at the end.
class TestMachine {
 public:
  TestMachine();
  ~TestMachine();
  TestMachine(const TestMachine&) = delete;
  TestMachine& operator=(const TestMachine&) = delete;

  const std::string& folder() const { return folder_; }
  std::string directory() const;  // of the machine
  Context context(std::vector<std::string> more = {}) const;
  Result<std::shared_ptr<MachineFile>> attach(const Context& context) const;
  // Names of the files in the machine's folder, sorted.
  std::vector<std::string> files() const;

 private:
  std::string folder_;
};

// Runs `body` in a forked child; exit status, or 128 + signal.
int in_child(const std::function<int()>& body);
pid_t start_child(const std::function<int()>& body);
int wait_child(pid_t child);

inline std::string failure_of(const Status& status) { return std::string(status.message()); }

}  // namespace onrt::emu::testing
