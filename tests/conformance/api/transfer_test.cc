// SPDX-License-Identifier: Apache-2.0
// Copies between tensors and batches of transfers.
#include <numeric>

#include "tests/conformance/api/fixture.h"

namespace onrt::api_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<uint8_t> counting(size_t size) {
  std::vector<uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  return bytes;
}

using CopyRules = OpenApiTest;

TEST_F(CopyRules, CopiesBetweenOffsetsOnOneCore) {
  const Tensor source = make_tensor_of<float>({1, 2, 3, 4});
  const Tensor target = make_tensor_of<float>({0, 0, 0, 0});
  EXPECT_OK(nrt_tensor_copy(source.get(), 4, target.get(), 8, 8));
  EXPECT_THAT(read<float>(target, 4), ElementsAre(0, 0, 2, 3));
}

TEST_F(CopyRules, CopiesBetweenHostAndDevice) {
  const Tensor device = make_tensor_of<float>({1, 2, 3, 4});
  const Tensor host = make_host_tensor(16, NRT_TENSOR_PLACEMENT_VIRTUAL);
  EXPECT_OK(nrt_tensor_copy(device.get(), 0, host.get(), 0, 16));
  EXPECT_THAT(read<float>(host, 4), ElementsAre(1, 2, 3, 4));
  const Tensor back = make_tensor(16);
  EXPECT_OK(nrt_tensor_copy(host.get(), 0, back.get(), 0, 16));
  EXPECT_THAT(read<float>(back, 4), ElementsAre(1, 2, 3, 4));
}

// Larger than the 64 KiB of one DMA descriptor, with ends that are not aligned.
TEST_F(CopyRules, CopiesLargeUnalignedRanges) {
  constexpr size_t kSize = 300 * 1024 + 7;
  const std::vector<uint8_t> bytes = counting(kSize);
  const Tensor source = make_tensor_of(bytes);
  const Tensor target = make_tensor(kSize + 11);
  EXPECT_OK(nrt_tensor_copy(source.get(), 3, target.get(), 11, kSize - 3));
  EXPECT_EQ(read<uint8_t>(target, kSize - 3, 11),
            std::vector<uint8_t>(bytes.begin() + 3, bytes.end()));
}

// Every core of this machine has an HBM of its own.
TEST_F(CopyRules, RefusesAnotherHbmAndNamesBoth) {
  const Tensor source = make_tensor_of<float>({1, 2}, 0, "here");
  const Tensor target = make_tensor_of<float>({5, 6}, 1, "there");
  EXPECT_FAILS(NRT_INVALID, "here", nrt_tensor_copy(source.get(), 0, target.get(), 0, 8));
  EXPECT_THAT(onrt_last_error(), AllOf(HasSubstr("there"), HasSubstr("HBM")));
  EXPECT_THAT(read<float>(target, 2), ElementsAre(5, 6));
}

TEST_F(CopyRules, ChecksBothRanges) {
  const Tensor source = make_tensor_of(std::vector<uint8_t>(64, 1));
  const Tensor target = make_tensor_of(std::vector<uint8_t>(32, 2));
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_copy(source.get(), 0, target.get(), 0, 33));
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_copy(source.get(), 60, target.get(), 0, 5));
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_copy(source.get(), SIZE_MAX, target.get(), 0, 2));
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_copy(source.get(), 0, target.get(), SIZE_MAX, 2));
  EXPECT_THAT(read<uint8_t>(target, 32), Each(2));
}

// Upstream leaves overlapping ranges undefined; here they are refused or copied as by memmove().
TEST_F(CopyRules, OverlapIsRefusedOrRight) {
  const std::vector<uint8_t> before = counting(200);
  const Tensor tensor = make_tensor_of(before);
  const NRT_STATUS status = nrt_tensor_copy(tensor.get(), 0, tensor.get(), 10, 150);
  std::vector<uint8_t> expected = before;
  if (status == NRT_SUCCESS) {
    std::copy(before.begin(), before.begin() + 150, expected.begin() + 10);
  } else {
    EXPECT_STATUS(NRT_INVALID, status);
  }
  EXPECT_EQ(read<uint8_t>(tensor, 200), expected);
}

// "Host tensor writes go through DMA rings": the device's counters show it.
TEST_F(CopyRules, TransfersAreDmaOfTheDevice) {
  onrt_device_counters_t before = {};
  onrt_device_counters_t after = {};
  size_t written = 0;
  const Tensor tensor = make_tensor(1 << 20);
  const std::vector<uint8_t> bytes = counting(1 << 20);
  ASSERT_OK(onrt_get_device_counters(0, &before, sizeof(before), &written));
  EXPECT_EQ(written, sizeof(before));
  ASSERT_OK(nrt_tensor_write(tensor.get(), bytes.data(), 0, bytes.size()));
  ASSERT_OK(onrt_get_device_counters(0, &after, sizeof(after), &written));
  // 1 MiB in descriptors of at most 64 KiB.
  EXPECT_GE(after.dma_descriptors - before.dma_descriptors, 16u);
  EXPECT_EQ(after.dma_bytes - before.dma_bytes, bytes.size());
}

using BatchOps = OpenApiTest;

TEST_F(BatchOps, MixedBatchesEqualSingleTransfers) {
  const Tensor device = make_tensor_of(std::vector<uint8_t>(100, 0));
  const Tensor other_core = make_tensor_of(std::vector<uint8_t>(100, 0), 1);
  const Tensor host = make_host_tensor(100, NRT_TENSOR_PLACEMENT_HOST);
  std::vector<uint8_t> bytes = counting(60);
  for (bool unsafe : {false, true}) {
    const nrt_tensor_batch_op_t first[] = {{0, 10, bytes.data()}, {50, 20, bytes.data() + 10}};
    const nrt_tensor_batch_op_t second[] = {{99, 1, bytes.data() + 30}};
    const nrt_tensor_batch_op_t third[] = {{5, 25, bytes.data() + 31}};
    const nrt_tensor_batch_t batches[] = {
        {device.get(), first, 2}, {other_core.get(), second, 1}, {host.get(), third, 1}};
    ASSERT_OK(nrt_tensor_write_batch(batches, 3, unsafe));
    EXPECT_THAT(read<uint8_t>(device, 3, 49), ElementsAre(0, 10, 11));
    EXPECT_THAT(read<uint8_t>(other_core, 1, 99), ElementsAre(30));
    EXPECT_THAT(read<uint8_t>(host, 2, 28), ElementsAre(54, 55));

    std::vector<uint8_t> back(60, 0xFF);
    const nrt_tensor_batch_op_t read_first[] = {{0, 10, back.data()}, {50, 20, back.data() + 10}};
    const nrt_tensor_batch_op_t read_second[] = {{99, 1, back.data() + 30}};
    const nrt_tensor_batch_op_t read_third[] = {{5, 25, back.data() + 31}};
    const nrt_tensor_batch_t reads[] = {{device.get(), read_first, 2},
                                        {other_core.get(), read_second, 1},
                                        {host.get(), read_third, 1}};
    ASSERT_OK(nrt_tensor_read_batch(reads, 3, unsafe));
    for (size_t i = 0; i < 56; ++i) {
      EXPECT_EQ(back[i], bytes[i]) << i;
    }
    for (uint8_t& byte : bytes) {
      byte = static_cast<uint8_t>(byte ^ 0);
    }
  }
}

TEST_F(BatchOps, BadEntryMeansThatNothingIsDone) {
  const Tensor tensor = make_tensor_of(std::vector<uint8_t>(64, 1));
  std::vector<uint8_t> bytes(64, 2);
  const nrt_tensor_batch_op_t good[] = {{0, 8, bytes.data()}};
  const nrt_tensor_batch_op_t past_the_end[] = {{0, 8, bytes.data()}, {60, 8, bytes.data()}};
  const nrt_tensor_batch_op_t no_buffer[] = {{0, 8, nullptr}};
  const nrt_tensor_batch_t bad[][2] = {
      {{tensor.get(), good, 1}, {tensor.get(), past_the_end, 2}},
      {{tensor.get(), good, 1}, {tensor.get(), no_buffer, 1}},
      {{tensor.get(), good, 1}, {tensor.get(), nullptr, 1}},
      {{tensor.get(), good, 1}, {nullptr, good, 1}},
  };
  for (const auto& batches : bad) {
    EXPECT_THAT(nrt_tensor_write_batch(batches, 2, false), AnyOf(NRT_INVALID, NRT_INVALID_HANDLE));
    EXPECT_THAT(read<uint8_t>(tensor, 64), Each(1));
    EXPECT_THAT(nrt_tensor_read_batch(batches, 2, false), AnyOf(NRT_INVALID, NRT_INVALID_HANDLE));
    EXPECT_THAT(bytes, Each(2));
  }
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_write_batch(nullptr, 1, false));
  EXPECT_OK(nrt_tensor_write_batch(bad[0], 0, false));
}

}  // namespace
}  // namespace onrt::api_test
