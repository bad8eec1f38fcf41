// SPDX-License-Identifier: Apache-2.0
// What the conformance tests of the C API share: an emulated machine per test, owners of handles,
// and expectations that print status names and the library's last-error text.
//
// The machine is a trn2.3xlarge: one device, four logical cores of two physical ones, an HBM of
// 24 GiB for each.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nrt/nrt.h"
#include "nrt/nrt_experimental.h"
#include "opennrt/opennrt.h"

#define EXPECT_STATUS(expected, call) \
  EXPECT_PRED_FORMAT2(::onrt::api_test::same_status, static_cast<NRT_STATUS>(expected), call)
#define EXPECT_OK(call) EXPECT_STATUS(NRT_SUCCESS, call)
#define ASSERT_OK(call) ASSERT_PRED_FORMAT2(::onrt::api_test::same_status, NRT_SUCCESS, call)
// The call fails with this status and its text has `part` in it.
#define EXPECT_FAILS(expected, part, call)                      \
  do {                                                          \
    EXPECT_STATUS(expected, call);                              \
    EXPECT_THAT(onrt_last_error(), ::testing::HasSubstr(part)); \
  } while (false)

namespace onrt::api_test {

testing::AssertionResult same_status(const char* expected_text, const char* call_text,
                                     NRT_STATUS expected, NRT_STATUS found);

inline constexpr uint32_t kCores = 4;
inline constexpr uint64_t kHbmBytes = 24ull << 30;

// Not initialised: the test calls nrt_init() when it wants. The runtime is closed and the machine
// removed afterwards.
class ApiTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

// With the runtime open.
class OpenApiTest : public ApiTest {
 protected:
  void SetUp() override;
};

NRT_STATUS init();

struct FreeTensor {
  void operator()(nrt_tensor_t* tensor) const { nrt_tensor_free(&tensor); }
};
using Tensor = std::unique_ptr<nrt_tensor_t, FreeTensor>;

struct FreeSet {
  void operator()(nrt_tensor_set_t* set) const { nrt_destroy_tensor_set(&set); }
};
using TensorSet = std::unique_ptr<nrt_tensor_set_t, FreeSet>;

struct FreeModel {
  void operator()(nrt_model_t* model) const { EXPECT_OK(nrt_unload(model)); }
};
using Model = std::unique_ptr<nrt_model_t, FreeModel>;

// These report a failure of the call as one of the test and then return an empty owner.
Tensor make_tensor(uint64_t size, int vnc = 0, const char* name = "t");
Tensor make_host_tensor(uint64_t size, nrt_tensor_placement_t placement, const char* name = "t");
Tensor make_slice(const Tensor& source, uint64_t offset, uint64_t size);
TensorSet make_set(const std::vector<std::pair<std::string, nrt_tensor_t*>>& tensors);
Model load(const std::vector<uint8_t>& neff, int vnc = 0);

template <class T>
Tensor make_tensor_of(const std::vector<T>& values, int vnc = 0, const char* name = "t") {
  Tensor tensor = make_tensor(values.size() * sizeof(T), vnc, name);
  EXPECT_OK(nrt_tensor_write(tensor.get(), values.data(), 0, values.size() * sizeof(T)));
  return tensor;
}

template <class T>
std::vector<T> read(const Tensor& tensor, size_t count, uint64_t offset = 0) {
  std::vector<T> values(count);
  EXPECT_OK(nrt_tensor_read(tensor.get(), values.data(), offset, count * sizeof(T)));
  return values;
}

uint64_t bytes_used(uint32_t vnc = 0);

// Open descriptors and threads of this process.
size_t descriptor_count();
size_t thread_count();
// Resident memory in bytes; 0 where a sanitizer makes it meaningless.
uint64_t resident_bytes();

}  // namespace onrt::api_test
