// SPDX-License-Identifier: Apache-2.0
// Calls in the wrong state. A program of its own: the state before nrt_init() exists once a
// process.
#include "tests/conformance/api/fixture.h"

namespace onrt::api_test {
namespace {

using ::testing::HasSubstr;

// Every function that needs an open runtime. State comes first: arguments are not looked at.
struct Call {
  const char* name;
  NRT_STATUS (*call)();
};

int32_t g_untouched;  // what output parameters point to in the wrong state

template <class T>
T* out() {
  return reinterpret_cast<T*>(&g_untouched);
}

const Call kCalls[] = {
    {"nrt_load", [] { return nrt_load("x", 1, 0, -1, out<nrt_model_t*>()); }},
    {"nrt_load_collectives",
     [] { return nrt_load_collectives("x", 1, 0, -1, 0, 1, out<nrt_model_t*>()); }},
    {"nrt_unload", [] { return nrt_unload(nullptr); }},
    {"nrt_get_model_nc_count", [] { return nrt_get_model_nc_count(nullptr, nullptr); }},
    {"nrt_get_model_vnc_count", [] { return nrt_get_model_vnc_count(nullptr, nullptr); }},
    {"nrt_get_model_info", [] { return nrt_get_model_info(nullptr, nullptr, 0, nullptr); }},
    {"nrt_get_model_instance_count", [] { return nrt_get_model_instance_count(nullptr, nullptr); }},
    {"nrt_get_model_tensor_info", [] { return nrt_get_model_tensor_info(nullptr, nullptr); }},
    {"nrt_execute", [] { return nrt_execute(nullptr, nullptr, nullptr); }},
    {"nrt_execute_repeat", [] { return nrt_execute_repeat(nullptr, nullptr, nullptr, 1); }},
    {"nrt_tensor_allocate",
     [] {
       return nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", out<nrt_tensor_t*>());
     }},
    {"nrt_tensor_read", [] { return nrt_tensor_read(nullptr, nullptr, 0, 1); }},
    {"nrt_tensor_write", [] { return nrt_tensor_write(nullptr, nullptr, 0, 1); }},
    {"nrt_tensor_copy", [] { return nrt_tensor_copy(nullptr, 0, nullptr, 0, 1); }},
    {"nrt_tensor_memset", [] { return nrt_tensor_memset(nullptr, 0, 0, 1); }},
    {"nrt_tensor_read_batch", [] { return nrt_tensor_read_batch(nullptr, 1, false); }},
    {"nrt_tensor_write_batch", [] { return nrt_tensor_write_batch(nullptr, 1, false); }},
    {"nrt_tensor_get_device_allocation_info",
     [] { return nrt_tensor_get_device_allocation_info(nullptr, nullptr); }},
    {"nrt_get_vnc_memory_stats", [] { return nrt_get_vnc_memory_stats(0, nullptr, 16, nullptr); }},
    {"nrt_get_instance_info",
     [] { return nrt_get_instance_info(out<nrt_instance_info_t>(), sizeof(nrt_instance_info_t)); }},
    {"nrt_memcpy_to_device", [] { return nrt_memcpy_to_device(nullptr, nullptr, 1); }},
};

using StateMachine = ApiTest;

TEST_F(StateMachine, CallsBeforeInitAndAfterCloseAreRefused) {
  setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
  g_untouched = 4711;
  for (const Call& c : kCalls) {
    EXPECT_EQ(c.call(), NRT_UNINITIALIZED) << c.name << ": " << onrt_last_error();
    EXPECT_THAT(onrt_last_error(), HasSubstr("nrt_init"));
  }
  ASSERT_OK(init());
  nrt_close();
  for (const Call& c : kCalls) {
    EXPECT_EQ(c.call(), NRT_CLOSED) << c.name << ": " << onrt_last_error();
    EXPECT_THAT(onrt_last_error(), HasSubstr("nrt_close"));
  }
  EXPECT_EQ(g_untouched, 4711);
}

}  // namespace
}  // namespace onrt::api_test
