// SPDX-License-Identifier: Apache-2.0
// Which cores a process gets: visibility settings, exclusive ownership, logical core size.
#include <chrono>
#include <thread>

#include "tests/conformance/api/child.h"
#include "tests/conformance/api/fixture.h"
#include "tests/conformance/api/neff.h"

namespace onrt::api_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

using VisibleCores = ApiTest;

// H01 (ROCm/hip#3001): a malformed value must not expose every device. Count before init, init and
// count after init agree.
TEST_F(VisibleCores, AreThoseOfAWellFormedValue) {
  struct Row {
    const char* value;
    uint32_t count;
  };
  // An empty value is as good as none.
  const Row rows[] = {{"", 4},  {"2", 1},   {"0-3", 4},    {"0,1", 2},
                      {"3", 1}, {"1-2", 2}, {"0,1,2,3", 4}};
  for (const Row& row : rows) {
    setenv("NEURON_RT_VISIBLE_CORES", row.value, 1);
    uint32_t before = 0;
    uint32_t after = 0;
    EXPECT_OK(nrt_get_visible_vnc_count(&before));
    EXPECT_OK(init());
    EXPECT_OK(nrt_get_visible_vnc_count(&after));
    EXPECT_EQ(before, row.count) << "'" << row.value << "'";
    EXPECT_EQ(after, row.count) << "'" << row.value << "'";
    nrt_close();
  }
}

TEST_F(VisibleCores, MalformedValueIsRefusedAndNamed) {
  for (const char* value : {"2-1", "0-", "x", "99", "-1", "0,0", "0 1", "3-4", "1,0", "0,2", ",",
                            "0-1-2", "0x1", "4294967296", "18446744073709551616"}) {
    setenv("NEURON_RT_VISIBLE_CORES", value, 1);
    uint32_t count = 77;
    EXPECT_STATUS(NRT_INVALID, nrt_get_visible_vnc_count(&count)) << value;
    EXPECT_EQ(count, 77u) << value;
    EXPECT_STATUS(NRT_INVALID, init()) << value;
    EXPECT_THAT(onrt_last_error(), AllOf(HasSubstr("NEURON_RT_VISIBLE_CORES"), HasSubstr(value)));
    EXPECT_OK(nrt_get_total_vnc_count(&count));
    EXPECT_EQ(count, kCores);
  }
}

TEST_F(VisibleCores, NumCoresTakesTheFirstFreeOnes) {
  setenv("NEURON_RT_NUM_CORES", "2", 1);
  uint32_t count = 0;
  EXPECT_OK(nrt_get_visible_vnc_count(&count));
  EXPECT_EQ(count, 2u);
  ASSERT_OK(init());
  // nixl#1913: a second process finds the other two.
  EXPECT_EQ(count_in_another_process().line, "pre 0:2 init 0 post 2");
}

TEST_F(VisibleCores, NumCoresIsCheckedToo) {
  for (const char* value : {"-1", "5", "x", "1.5"}) {
    setenv("NEURON_RT_NUM_CORES", value, 1);
    EXPECT_NE(init(), NRT_SUCCESS) << value;
    EXPECT_THAT(onrt_last_error(), AllOf(HasSubstr("NEURON_RT_NUM_CORES"), HasSubstr(value)));
    nrt_close();
  }
}

TEST_F(VisibleCores, WinOverNumCores) {
  setenv("NEURON_RT_VISIBLE_CORES", "1-3", 1);
  setenv("NEURON_RT_NUM_CORES", "1", 1);
  ASSERT_OK(init());
  uint32_t count = 0;
  EXPECT_OK(nrt_get_visible_vnc_count(&count));
  EXPECT_EQ(count, 3u);
}

// Core 2 of the machine is core 0 of the process: its memory is the third HBM.
TEST_F(VisibleCores, AreNumberedFromTheFirstOneOwned) {
  setenv("NEURON_RT_VISIBLE_CORES", "2-3", 1);
  ASSERT_OK(init());
  const Tensor first = make_tensor(64, 0);
  const Tensor second = make_tensor(64, 1);
  nrt_tensor_device_allocation_info_t info = {};
  EXPECT_OK(nrt_tensor_get_device_allocation_info(first.get(), &info));
  EXPECT_EQ(info.hbm_index, 2);
  EXPECT_GE(info.size, 64u);
  EXPECT_GE(info.physical_address, 0x800000000000u);  // base of the third HBM of trn2
  EXPECT_OK(nrt_tensor_get_device_allocation_info(second.get(), &info));
  EXPECT_EQ(info.hbm_index, 3);
  nrt_tensor_t* none = nullptr;
  EXPECT_STATUS(NRT_INVALID,
                nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 2, 64, "none", &none));
}

using ExclusiveCores = ApiTest;

TEST_F(ExclusiveCores, OverlapIsRefusedWithTheOwnersNumber) {
  setenv("NEURON_RT_VISIBLE_CORES", "1", 1);
  Child owner("hold");
  ASSERT_EQ(owner.read_line(), "ready");
  EXPECT_STATUS(NRT_RESOURCE, init());
  EXPECT_THAT(onrt_last_error(),
              AllOf(HasSubstr("NeuronCore(s) not available - Requested:nc1-nc1 Available:0"),
                    HasSubstr(std::to_string(owner.pid()))));
  setenv("NEURON_RT_VISIBLE_CORES", "2-3", 1);
  EXPECT_OK(init());
  nrt_close();
  setenv("NEURON_RT_VISIBLE_CORES", "0-1", 1);
  EXPECT_STATUS(NRT_RESOURCE, init());
}

// H02 (sdk#1338, #298): cores of a killed process come back by themselves.
TEST_F(ExclusiveCores, ComeBackWhenTheirOwnerIsKilled) {
  setenv("NEURON_RT_VISIBLE_CORES", "0", 1);
  for (int round = 0; round < 50; ++round) {
    Child owner("hold");
    ASSERT_EQ(owner.read_line(), "ready");
    const ChildResult refused = count_in_another_process();
    EXPECT_EQ(refused.exit_status, 1);
    EXPECT_THAT(refused.errors, AllOf(HasSubstr("Requested:nc0-nc0"), HasSubstr("Available:0")));
    owner.kill();
    EXPECT_EQ(owner.wait(), -SIGKILL);
    const ChildResult next = count_in_another_process();
    ASSERT_EQ(next.exit_status, 0) << "round " << round << ": " << next.errors;
  }
}

using LncConfig = ApiTest;

// H03, last line: with two physical cores to a logical one there are half as many.
TEST_F(LncConfig, DecidesHowManyCoresThereAre) {
  for (const auto& [value, count] : {std::pair("1", 8u), std::pair("2", 4u)}) {
    setenv("NEURON_LOGICAL_NC_CONFIG", value, 1);
    uint32_t total = 0;
    uint32_t visible = 0;
    EXPECT_OK(nrt_get_total_vnc_count(&total));
    EXPECT_OK(init());
    EXPECT_OK(nrt_get_visible_vnc_count(&visible));
    nrt_close();
    EXPECT_EQ(total, count);
    EXPECT_EQ(visible, count);
  }
  unsetenv("NEURON_LOGICAL_NC_CONFIG");
  setenv("NEURON_RT_VIRTUAL_CORE_SIZE", "1", 1);  // the older name
  uint32_t total = 0;
  EXPECT_OK(nrt_get_total_vnc_count(&total));
  EXPECT_EQ(total, 8u);
}

TEST_F(LncConfig, OtherSizesAreRefused) {
  for (const char* value : {"3", "0", "-1", "x", "1 2"}) {
    setenv("NEURON_LOGICAL_NC_CONFIG", value, 1);
    EXPECT_STATUS(NRT_INVALID, init()) << value;
    EXPECT_THAT(onrt_last_error(), AllOf(HasSubstr("NEURON_LOGICAL_NC_CONFIG"), HasSubstr(value)));
  }
}

// sdk#1352, nixl#1994: a NEFF for the other size.
TEST_F(LncConfig, NeffOfAnotherSizeIsRefusedWithBothValues) {
  ASSERT_OK(init());
  const std::vector<uint8_t> neff = add_neff(4, {.lnc = 1});
  nrt_model_t* model = nullptr;
  EXPECT_THAT(nrt_load(neff.data(), neff.size(), 0, -1, &model),
              AnyOf(NRT_INVALID, NRT_UNSUPPORTED_NEFF_VERSION));
  EXPECT_EQ(model, nullptr);
  EXPECT_THAT(onrt_last_error(), AllOf(HasSubstr("size 1"), HasSubstr("size 2"),
                                       HasSubstr("NEURON_LOGICAL_NC_CONFIG")));
  nrt_close();
  setenv("NEURON_LOGICAL_NC_CONFIG", "1", 1);
  ASSERT_OK(init());
  EXPECT_NE(load(neff), nullptr);
}

}  // namespace
}  // namespace onrt::api_test
