// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/tensor.h"

#include <numeric>

#include "runtime/core/tensor_set.h"
#include "runtime/core/testing/core_fixture.h"

namespace onrt::testing {
namespace {

using ::testing::ElementsAre;

class TensorTest : public CoreTest {
 protected:
  explicit TensorTest(int devices = 1, int cores = 2, int stacks = 2)
      : CoreTest(devices, cores, stacks) {}

  Tensor* bytes(uint64_t size, int vnc = 0) {
    auto made = Tensor::allocate(*session_, TensorPlacement::kDevice, vnc, size, "b");
    EXPECT_TRUE(made.ok()) << made.status().message();
    return *made;
  }
};

// Two logical cores share one stack, as with NEURON_LOGICAL_NC_CONFIG=1 on trn2.
class SharedStackTest : public TensorTest {
 protected:
  SharedStackTest() : TensorTest(1, 2, 1) {}
};

constexpr uint64_t kGiB = 1ULL << 30;

TEST_F(TensorTest, RefusesSizeZeroAndUnknownCores) {
  open();
  for (const TensorPlacement placement :
       {TensorPlacement::kDevice, TensorPlacement::kHost, TensorPlacement::kVirtual}) {
    EXPECT_STATUS(Tensor::allocate(*session_, placement, 0, 0, "t").status(), NRT_INVALID,
                  "tensor 't': size 0");
  }
  for (const int vnc : {-1, 2, 1000}) {
    EXPECT_STATUS(Tensor::allocate(*session_, TensorPlacement::kDevice, vnc, 8, nullptr).status(),
                  NRT_INVALID, format("vnc {}: expected 0 to 1", vnc));
  }
}

TEST_F(TensorTest, BoundsAreCheckedWithoutOverflowAndNothingIsWritten) {
  open();
  Tensor* t = tensor({1, 2});
  float buffer[2] = {8, 9};
  struct Range {
    uint64_t offset;
    uint64_t size;
  };
  for (const Range& range : {Range{0, 9}, Range{8, 1}, Range{9, 0}, Range{UINT64_MAX, 2},
                             Range{1, UINT64_MAX}, Range{UINT64_MAX, UINT64_MAX}}) {
    EXPECT_EQ(write_tensor(*session_, *t, buffer, range.offset, range.size).code(), NRT_INVALID);
    EXPECT_EQ(read_tensor(*session_, *t, buffer, range.offset, range.size).code(), NRT_INVALID);
    EXPECT_EQ(fill_tensor(*session_, *t, range.offset, 0, range.size).code(), NRT_INVALID);
    EXPECT_EQ(copy_tensor(*session_, *t, range.offset, *t, 0, range.size).code(), NRT_INVALID);
    EXPECT_EQ(Tensor::slice(*t, range.offset, range.size, "s").status().code(), NRT_INVALID);
  }
  EXPECT_STATUS(write_tensor(*session_, *t, nullptr, 0, 8), NRT_INVALID, "NULL buffer");
  EXPECT_TRUE(write_tensor(*session_, *t, nullptr, 8, 0).ok());
  EXPECT_THAT(values(*t), ElementsAre(1, 2));
  free_tensor(t);
}

// Symptom of a public report: data beyond 4 GiB went to the wrong place.
TEST_F(TensorTest, OffsetsBeyondFourGigabytesWork) {
  open();
  Tensor* t = bytes(5 * kGiB);
  const uint64_t offset = 4 * kGiB + 1;
  const std::string text = "beyond";
  ASSERT_OK(fill_tensor(*session_, *t, 1, 'x', 6));
  ASSERT_OK(write_tensor(*session_, *t, text.data(), offset, text.size()));
  std::string found(6, ' ');
  ASSERT_OK(read_tensor(*session_, *t, found.data(), offset, 6));
  EXPECT_EQ(found, text);
  ASSERT_OK(read_tensor(*session_, *t, found.data(), 1, 6));
  EXPECT_EQ(found, "xxxxxx");
  free_tensor(t);
}

TEST_F(TensorTest, LargeTransfersGoInDescriptorsOfAtMost64KiB) {
  open();
  constexpr uint64_t kBytes = (40 << 20) + 5;
  Tensor* t = bytes(kBytes);
  std::vector<uint8_t> data(kBytes);
  std::iota(data.begin(), data.end(), 0);
  const uint64_t before = board_->counters.dma_descriptors;
  ASSERT_OK(write_tensor(*session_, *t, data.data(), 0, kBytes));
  EXPECT_EQ(board_->counters.dma_descriptors - before, (kBytes + 65535) / 65536);
  std::vector<uint8_t> found(kBytes);
  ASSERT_OK(read_tensor(*session_, *t, found.data(), 0, kBytes));
  EXPECT_EQ(found, data);
  free_tensor(t);
}

TEST_F(TensorTest, NothingIsBackedUntilItIsTouched) {
  open();
  Tensor* t = bytes(8 * kGiB);
  EXPECT_EQ(board_->commits, 0U);
  ASSERT_OK(fill_tensor(*session_, *t, 3 * kGiB, 1, 1));
  EXPECT_EQ(board_->commits, 1U);
  ASSERT_OK(fill_tensor(*session_, *t, 3 * kGiB, 1, 4096));
  EXPECT_EQ(board_->commits, 1U);
  EXPECT_EQ(board_->stacks[0].committed.size(), 512U);  // one step of 2 MiB
  free_tensor(t);
}

TEST_F(TensorTest, SliceKeepsTheStorageOfItsParent) {
  open();
  const uint64_t before = used();
  Tensor* parent = tensor({0, 1, 2, 3, 4, 5});
  Tensor* slice = *Tensor::slice(*parent, 4, 16, "slice");
  Tensor* inner = *Tensor::slice(*slice, 8, 8, nullptr);
  EXPECT_FALSE(Tensor::slice(*slice, 8, 9, nullptr).ok());
  free_tensor(parent);
  free_tensor(slice);
  EXPECT_THAT(values(*inner), ElementsAre(3, 4));
  EXPECT_GT(used(), before);
  free_tensor(inner);
  EXPECT_EQ(used(), before);
}

TEST_F(TensorTest, AttachReplacesStorageAndLeavesTheBufferToTheCaller) {
  open();
  const uint64_t before = used();
  float buffer[3] = {1, 2, 3};
  Tensor* t = tensor({9});
  ASSERT_OK(t->attach(buffer, 12));
  EXPECT_EQ(used(), before);
  EXPECT_THAT(values(*t), ElementsAre(1, 2, 3));
  ASSERT_OK(fill_tensor(*session_, *t, 4, 0, 4));
  EXPECT_EQ(buffer[1], 0);
  EXPECT_STATUS(t->attach(nullptr, 12), NRT_INVALID, "NULL");
  EXPECT_STATUS(t->attach(buffer, 0), NRT_INVALID, "0 bytes");
  free_tensor(t);
  EXPECT_EQ(buffer[2], 3);
  Tensor* empty = Tensor::allocate_empty(nullptr);
  EXPECT_STATUS(read_tensor(*session_, *empty, buffer, 0, 0), NRT_INVALID, "is empty");
  EXPECT_STATUS(Tensor::slice(*empty, 0, 1, nullptr).status(), NRT_INVALID, "no storage");
  EXPECT_FALSE(empty->host_address(*session_).ok());
  free_tensor(empty);
}

TEST_F(TensorTest, HostAndVirtualPlacementsAreHostMemory) {
  open();
  for (const TensorPlacement placement : {TensorPlacement::kHost, TensorPlacement::kVirtual}) {
    Tensor* t = tensor({1, 2}, -1, "h", placement);
    EXPECT_EQ(*static_cast<float*>(*t->host_address(*session_)), 1);
    EXPECT_THAT(values(*t), ElementsAre(1, 2));
    free_tensor(t);
  }
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(
      Tensor::allocate(*session_, TensorPlacement::kVirtual, -1, UINT64_MAX, "t").status().code(),
      NRT_RESOURCE);
}

TEST_F(TensorTest, CopyNeedsTheSameHbmAndRangesThatDoNotOverlap) {
  open();
  Tensor* a = tensor({1, 2, 3, 4});
  Tensor* b = tensor({0, 0, 0, 0}, 0, "near");
  Tensor* far = tensor({0, 0}, 1, "far");
  Tensor* host = tensor({7, 8}, -1, "host", TensorPlacement::kHost);
  ASSERT_OK(copy_tensor(*session_, *a, 4, *b, 8, 8));
  EXPECT_THAT(values(*b), ElementsAre(0, 0, 2, 3));
  ASSERT_OK(copy_tensor(*session_, *a, 0, *a, 8, 8));
  EXPECT_THAT(values(*a), ElementsAre(1, 2, 1, 2));
  EXPECT_STATUS(copy_tensor(*session_, *a, 0, *a, 4, 8), NRT_INVALID, "overlap");
  EXPECT_STATUS(copy_tensor(*session_, *a, 0, *far, 0, 8), NRT_INVALID,
                "on device 0 HBM 0 to tensor 'far' on device 0 HBM 1");
  ASSERT_OK(copy_tensor(*session_, *host, 0, *far, 0, 8));
  EXPECT_THAT(values(*far), ElementsAre(7, 8));
  ASSERT_OK(copy_tensor(*session_, *b, 8, *host, 0, 8));
  EXPECT_THAT(values(*host), ElementsAre(2, 3));
  for (Tensor* t : {a, b, far, host}) {
    free_tensor(t);
  }
}

TEST_F(SharedStackTest, CoresOfOneStackMayCopyAndAreAccountedApart) {
  open();
  Tensor* a = tensor({1, 2}, 0);
  Tensor* b = tensor({0, 0}, 1);
  ASSERT_OK(copy_tensor(*session_, *a, 0, *b, 0, 8));
  EXPECT_THAT(values(*b), ElementsAre(1, 2));
  EXPECT_EQ(used(0), 64U);
  EXPECT_EQ(used(1), 64U);
  free_tensor(a);
  EXPECT_EQ(used(0), 0U);
  EXPECT_EQ(used(1), 64U);
  free_tensor(b);
}

TEST_F(TensorTest, BatchesEqualSinglesAndABadEntryChangesNothing) {
  open();
  Tensor* a = tensor({1, 2});
  Tensor* b = tensor({3, 4}, 1);
  float x = 10;
  float y = 20;
  std::vector<TensorTransfer> batch = {{a, 4, 4, &x}, {b, 0, 4, &y}};
  ASSERT_OK(write_batch(*session_, batch, Blocking::kWait));
  EXPECT_THAT(values(*a), ElementsAre(1, 10));
  EXPECT_THAT(values(*b), ElementsAre(20, 4));
  x = 77;
  batch.push_back({a, 8, 4, &y});
  EXPECT_STATUS(write_batch(*session_, batch, Blocking::kWait), NRT_INVALID,
                "operation 2 of the batch");
  EXPECT_THAT(values(*a), ElementsAre(1, 10));
  batch.pop_back();
  ASSERT_OK(read_batch(*session_, batch, Blocking::kUnsafe));
  EXPECT_EQ(x, 10);
  ASSERT_OK(read_batch(*session_, {}, Blocking::kWait));
  free_tensor(a);
  free_tensor(b);
}

TEST_F(TensorTest, HostAddressOfADeviceTensorIsTheTensor) {
  open();
  Tensor* parent = tensor({1, 2, 3});
  Tensor* slice = *Tensor::slice(*parent, 4, 8, "s");
  auto* view = static_cast<float*>(*slice->host_address(*session_));
  EXPECT_EQ(view[0], 2);
  view[1] = 30;
  EXPECT_THAT(values(*parent), ElementsAre(1, 2, 30));
  const auto start = reinterpret_cast<uint64_t>(view);
  EXPECT_EQ(session_->views().find(start, 8)->second, 4U);
  EXPECT_FALSE(session_->views().find(start, 9).ok());
  EXPECT_FALSE(session_->views().find(start - 5, 1).ok());
  free_tensor(parent);
  free_tensor(slice);
  EXPECT_FALSE(session_->views().find(start, 1).ok());
}

TEST_F(TensorTest, ATensorOfAClosedSessionIsOnlyGoodForFreeing) {
  open();
  Tensor* t = tensor({1, 2});
  Tensor* slice = *Tensor::slice(*t, 0, 4, "s");
  close();
  free_tensor(slice);
  open();
  float x = 0;
  EXPECT_STATUS(read_tensor(*session_, *t, &x, 0, 4), NRT_INVALID_HANDLE, "before nrt_close()");
  const uint64_t before = used();
  free_tensor(t);
  EXPECT_EQ(used(), before);
}

// The shape of a public report: fill the core, then everything must come back.
TEST_F(TensorTest, FillingTheCoreGivesResourceAndEverythingComesBack) {
  open();
  const uint64_t start = used();
  std::vector<Tensor*> tensors;
  constexpr uint64_t kSize = 64 << 20;
  auto made = Tensor::allocate(*session_, TensorPlacement::kDevice, 0, kSize, "w");
  while (made.ok()) {
    tensors.push_back(*made);
    made = Tensor::allocate(*session_, TensorPlacement::kDevice, 0, kSize, "w");
  }
  EXPECT_STATUS(
      made.status(), NRT_RESOURCE,
      "tensor 'w': Failed to allocate 64.000MB (67108864 bytes) (usage: tensors) on ND 0:NC "
      "0");
  EXPECT_EQ(tensors.size(), 384U);  // 24 GiB
  EXPECT_GE(used() - start, tensors.size() * kSize);
  for (Tensor* t : tensors) {
    free_tensor(t);
  }
  EXPECT_EQ(used(), start);
  free_tensor(bytes(kSize));
}

TEST_F(TensorTest, SetsReplaceByNameAndNoticeFreedTensors) {
  open();
  TensorSet set;
  Tensor* a = tensor({1});
  Tensor* b = tensor({2});
  EXPECT_STATUS(set.get("x").status(), NRT_FAILURE, "no tensor 'x'");
  set.add("x", a);
  EXPECT_EQ(*set.get("x"), a);
  set.add("x", b);
  EXPECT_EQ(*set.get("x"), b);
  free_tensor(b);
  EXPECT_STATUS(set.get("x").status(), NRT_INVALID_HANDLE, "was freed");
  free_tensor(a);
}

TEST(Handles, StaleAndForeignPointersAreRecognised) {
  Tensor* t = Tensor::allocate_empty("t");
  void* handle = HandleTable<Tensor>::handle_of(t);
  EXPECT_EQ(HandleTable<Tensor>::find(handle), t);
  EXPECT_EQ(HandleTable<TensorSet>::find(handle), nullptr);
  EXPECT_EQ(HandleTable<Tensor>::find(nullptr), nullptr);
  EXPECT_EQ(HandleTable<Tensor>::find(static_cast<char*>(handle) + 1), nullptr);
  alignas(64) const char zeros[64] = {};
  EXPECT_EQ(HandleTable<Tensor>::find(zeros), nullptr);
  free_tensor(t);
  EXPECT_EQ(HandleTable<Tensor>::find(handle), nullptr);
}

}  // namespace
}  // namespace onrt::testing
