// SPDX-License-Identifier: Apache-2.0
#include "emulator/testing.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace onrt::emu::testing {
namespace {

constexpr const char* kBox = R"({"instance_type": "box", "architecture": "v3",
  "neuroncore_version": "v3", "device_count": 2, "physical_cores_per_device": 4,
  "default_logical_core_size": 1, "max_logical_core_size": 2, "hbm_per_device": 2,
  "hbm_mib": 256, "hbm_base": ["0x0", "0x4000000000"], "dma_engines": 4,
  "queues_per_engine": 16, "links": {"kind": "chain"}})";

}  // namespace

TestMachine::TestMachine() {
  // Memory where there is some: punching and filling holes on a disk is slow.
  const bool memory = std::filesystem::space("/dev/shm").available > (1U << 30);
  folder_ = memory ? "/dev/shm/opennrt-test-XXXXXX"
                   : (std::filesystem::temp_directory_path() / "opennrt-test-XXXXXX").string();
  if (::mkdtemp(folder_.data()) == nullptr) {
    std::abort();
  }
  std::ofstream(folder_ + "/box.json") << kBox;
}

TestMachine::~TestMachine() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

std::string TestMachine::directory() const {
  return folder_ + "/machines/box.v" + std::to_string(kLayoutVersion);
}

Context TestMachine::context(std::vector<std::string> more) const {
  more.push_back("OPENNRT_EMULATE=box");
  more.push_back("OPENNRT_MACHINE_FILE=" + folder_ + "/box.json");
  more.push_back("OPENNRT_MACHINE_DIR=" + folder_ + "/machines");
  Context context;
  context.settings = Settings::from_strings(more);
  context.log = std::make_unique<Logger>(context.settings);
  return context;
}

Result<std::shared_ptr<MachineFile>> TestMachine::attach(const Context& context) const {
  ONRT_ASSIGN_OR_RETURN(const InstanceProfile profile, find_profile(context, "box"));
  ONRT_ASSIGN_OR_RETURN(const MachinePlace place, machine_place(context, "box"));
  return MachineFile::attach(context, place, profile, AttachOptions{1, "2.35.0"});
}

std::vector<std::string> TestMachine::files() const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory(), error)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

pid_t start_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int status = body();
    ::_exit(status);
  }
  return child;
}

int wait_child(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) {
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int in_child(const std::function<int()>& body) { return wait_child(start_child(body)); }

}  // namespace onrt::emu::testing
