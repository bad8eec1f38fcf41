// SPDX-License-Identifier: Apache-2.0
// Device memory: statistics, categories, and what happens when it runs out.
#include "tests/conformance/api/fixture.h"
#include "tests/conformance/api/neff.h"

namespace onrt::api_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using MemoryStats = OpenApiTest;

TEST_F(MemoryStats, FillWhatTheCallersStructHolds) {
  struct Larger {
    nrt_vnc_memory_stats_t known;
    uint64_t unknown;
  };
  Larger stats = {{1, 2}, 3};
  size_t written = 0;
  EXPECT_OK(nrt_get_vnc_memory_stats(0, &stats.known, sizeof(stats), &written));
  EXPECT_EQ(written, sizeof(stats.known));
  EXPECT_EQ(stats.unknown, 3u);
  EXPECT_GT(stats.known.bytes_limit, 0u);
  EXPECT_LE(stats.known.bytes_limit, kHbmBytes);

  nrt_vnc_memory_stats_t shorter = {1, 2};
  EXPECT_OK(nrt_get_vnc_memory_stats(0, &shorter, sizeof(size_t), &written));
  EXPECT_EQ(written, sizeof(size_t));
  EXPECT_EQ(shorter.bytes_used, stats.known.bytes_used);
  EXPECT_EQ(shorter.bytes_limit, 2u);

  EXPECT_STATUS(NRT_INVALID, nrt_get_vnc_memory_stats(0, nullptr, 16, &written));
  EXPECT_STATUS(NRT_INVALID, nrt_get_vnc_memory_stats(99, &shorter, 16, &written));
}

TEST_F(MemoryStats, FollowAllocations) {
  nrt_vnc_memory_stats_t before = {};
  nrt_vnc_memory_stats_t after = {};
  size_t written = 0;
  EXPECT_OK(nrt_get_vnc_memory_stats(1, &before, sizeof(before), &written));
  const uint64_t other = bytes_used(2);
  Tensor tensor = make_tensor(10 << 20, 1);
  EXPECT_OK(nrt_get_vnc_memory_stats(1, &after, sizeof(after), &written));
  EXPECT_GE(after.bytes_used, before.bytes_used + (10 << 20));
  EXPECT_EQ(after.bytes_limit, before.bytes_limit);
  EXPECT_EQ(bytes_used(2), other) << "another core's memory";
  tensor.reset();
  EXPECT_EQ(bytes_used(1), before.bytes_used);
}

TEST_F(MemoryStats, CategoriesAddUpToWhatIsUsed) {
  const Model model = load(add_neff(1000));
  const Tensor tensor = make_tensor(1 << 20);
  size_t count = 0;
  EXPECT_STATUS(NRT_RESOURCE, onrt_get_memory_categories(0, nullptr, &count));
  ASSERT_GT(count, 0u);
  std::vector<onrt_memory_category_t> rows(count);
  ASSERT_OK(onrt_get_memory_categories(0, rows.data(), &count));
  uint64_t sum = 0;
  uint64_t tensors = 0;
  uint64_t code = 0;
  for (const onrt_memory_category_t& row : rows) {
    sum += row.bytes;
    tensors += std::string(row.name) == "tensors" ? row.bytes : 0;
    code += std::string(row.name) == "model code" ? row.bytes : 0;
  }
  EXPECT_EQ(sum, bytes_used());
  EXPECT_GE(tensors, 1u << 20);
  EXPECT_GT(code, 0u);
}

using OutOfMemory = OpenApiTest;

// H04 (sdk#1014, vllm#12443).
TEST_F(OutOfMemory, IsExplainedAndLeavesNothingBehind) {
  constexpr uint64_t kSize = 64ull << 20;
  const uint64_t start = bytes_used();
  std::vector<Tensor> tensors;
  NRT_STATUS status = NRT_SUCCESS;
  nrt_tensor_t* tensor = nullptr;
  testing::internal::CaptureStderr();
  while (status == NRT_SUCCESS && tensors.size() < 1000) {
    tensor = nullptr;
    status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, kSize, "weight", &tensor);
    if (status == NRT_SUCCESS) {
      tensors.emplace_back(tensor);
    }
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_STATUS(NRT_RESOURCE, status);
  EXPECT_EQ(tensor, nullptr);
  EXPECT_GE(tensors.size(), 300u) << "of 384 that a 24 GiB HBM could hold";
  EXPECT_GE(bytes_used() - start, tensors.size() * kSize);
  // Requested size, what for, where, and the table by category.
  EXPECT_THAT(log,
              AllOf(HasSubstr("67108864"), HasSubstr("usage: tensors"), HasSubstr("ND 0:NC 0")));
  EXPECT_THAT(log, AllOf(HasSubstr("Tensors"), HasSubstr("DMA Rings"), HasSubstr("Runtime"),
                         HasSubstr("TOTAL")));
  EXPECT_THAT(onrt_last_error(), HasSubstr("weight"));
  tensors.clear();
  EXPECT_EQ(bytes_used(), start);
  make_tensor(kSize);
}

}  // namespace
}  // namespace onrt::api_test
