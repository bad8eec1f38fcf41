// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/api/fixture.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace onrt::api_test {
namespace {

// What the user of this terminal has set must not reach a test.
void forget_settings() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if (name.rfind("NEURON_", 0) == 0 ||
        (name.rfind("OPENNRT_", 0) == 0 && name != "OPENNRT_TEST")) {
      names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    unsetenv(name.c_str());
  }
}

std::filesystem::path make_folder() {
  std::string pattern = testing::TempDir() + "onrt_api_XXXXXX";
  const char* made = mkdtemp(pattern.data());
  return made != nullptr ? made : "";
}

size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator begin(folder);
  return static_cast<size_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

}  // namespace

testing::AssertionResult same_status(const char* /*expected_text*/, const char* call_text,
                                     NRT_STATUS expected, NRT_STATUS found) {
  if (expected == found) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << call_text << "\n  returned " << nrt_get_status_as_str(found) << " (" << found
         << "), expected " << nrt_get_status_as_str(expected)
         << "\n  last error: " << onrt_last_error();
}

void ApiTest::SetUp() {
  folder_ = make_folder();
  ASSERT_FALSE(folder_.empty());
  forget_settings();
  setenv("OPENNRT_EMULATE", "trn2.3xlarge", 1);
  setenv("OPENNRT_MACHINE_DIR", folder_.c_str(), 1);
  setenv("NEURON_RT_LOG_LEVEL", "ERROR", 1);
}

void ApiTest::TearDown() {
  nrt_close();
  std::error_code ignored;  // the next run uses another folder anyway
  std::filesystem::remove_all(folder_, ignored);
}

void OpenApiTest::SetUp() {
  ApiTest::SetUp();
  ASSERT_OK(init());
}

NRT_STATUS init() { return nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""); }

Tensor make_tensor(uint64_t size, int vnc, const char* name) {
  nrt_tensor_t* tensor = nullptr;
  EXPECT_OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc, size, name, &tensor));
  return Tensor(tensor);
}

Tensor make_host_tensor(uint64_t size, nrt_tensor_placement_t placement, const char* name) {
  nrt_tensor_t* tensor = nullptr;
  EXPECT_OK(nrt_tensor_allocate(placement, -1, size, name, &tensor));
  return Tensor(tensor);
}

Tensor make_slice(const Tensor& source, uint64_t offset, uint64_t size) {
  nrt_tensor_t* slice = nullptr;
  EXPECT_OK(nrt_tensor_allocate_slice(source.get(), offset, size, "slice", &slice));
  return Tensor(slice);
}

TensorSet make_set(const std::vector<std::pair<std::string, nrt_tensor_t*>>& tensors) {
  nrt_tensor_set_t* set = nullptr;
  EXPECT_OK(nrt_allocate_tensor_set(&set));
  for (const auto& [name, tensor] : tensors) {
    EXPECT_OK(nrt_add_tensor_to_tensor_set(set, name.c_str(), tensor));
  }
  return TensorSet(set);
}

Model load(const std::vector<uint8_t>& neff, int vnc) {
  nrt_model_t* model = nullptr;
  EXPECT_OK(nrt_load(neff.data(), neff.size(), vnc, -1, &model));
  return Model(model);
}

uint64_t bytes_used(uint32_t vnc) {
  nrt_vnc_memory_stats_t stats = {};
  size_t written = 0;
  EXPECT_OK(nrt_get_vnc_memory_stats(vnc, &stats, sizeof(stats), &written));
  return stats.bytes_used;
}

size_t descriptor_count() { return entries_of("/proc/self/fd"); }
size_t thread_count() { return entries_of("/proc/self/task"); }

uint64_t resident_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#else
  uint64_t all = 0;
  uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
#endif
}

}  // namespace onrt::api_test
