// SPDX-License-Identifier: Apache-2.0
// Tensors: allocation, bounds, slices, attached buffers, host view, sets.
#include <algorithm>
#include <cstring>

#include "tests/conformance/api/fixture.h"
#include "tests/conformance/api/neff.h"

namespace onrt::api_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

using TensorAllocate = OpenApiTest;

TEST_F(TensorAllocate, WorksInEveryPlacementAndWithoutAName) {
  nrt_tensor_t* device = nullptr;
  EXPECT_OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 3, 100, nullptr, &device));
  EXPECT_EQ(nrt_tensor_get_size(device), 100u);
  nrt_tensor_free(&device);
  EXPECT_EQ(device, nullptr);
  nrt_tensor_free(&device);
  nrt_tensor_free(nullptr);
  for (nrt_tensor_placement_t placement :
       {NRT_TENSOR_PLACEMENT_HOST, NRT_TENSOR_PLACEMENT_VIRTUAL}) {
    const Tensor host = make_host_tensor(100, placement);
    const std::vector<char> letters(100, 'x');
    EXPECT_OK(nrt_tensor_write(host.get(), letters.data(), 0, letters.size()));
    EXPECT_EQ(read<char>(host, 100), letters);
    EXPECT_NE(nrt_tensor_get_va(host.get()), nullptr);
  }
}

TEST_F(TensorAllocate, RefusesWhatMakesNoSense) {
  nrt_tensor_t* const before = reinterpret_cast<nrt_tensor_t*>(0x4711);
  nrt_tensor_t* tensor = before;
  const auto device = NRT_TENSOR_PLACEMENT_DEVICE;
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_allocate(device, 0, 0, "empty", &tensor));
  EXPECT_FAILS(NRT_INVALID, "4", nrt_tensor_allocate(device, 4, 64, "t", &tensor));
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_allocate(device, -1, 64, "t", &tensor));
  EXPECT_STATUS(NRT_INVALID,
                nrt_tensor_allocate(static_cast<nrt_tensor_placement_t>(9), 0, 64, "t", &tensor));
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_allocate(device, 0, 64, "t", nullptr));
  EXPECT_STATUS(NRT_RESOURCE, nrt_tensor_allocate(device, 0, SIZE_MAX, "t", &tensor));
  EXPECT_STATUS(NRT_RESOURCE, nrt_tensor_allocate(device, 0, kHbmBytes + 1, "t", &tensor));
  EXPECT_EQ(tensor, before);
  EXPECT_EQ(nrt_tensor_get_size(nullptr), 0u);
}

TEST_F(TensorAllocate, FreedTensorIsRefused) {
  nrt_tensor_t* tensor = nullptr;
  ASSERT_OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &tensor));
  nrt_tensor_t* stale = tensor;
  nrt_tensor_free(&tensor);
  char byte = 0;
  EXPECT_STATUS(NRT_INVALID_HANDLE, nrt_tensor_read(stale, &byte, 0, 1));
}

using TensorBounds = OpenApiTest;

TEST_F(TensorBounds, AreCheckedWithoutOverflow) {
  const std::vector<uint8_t> before(64, 7);
  const Tensor tensor = make_tensor_of(before, 0, "bounded");
  std::vector<uint8_t> buffer(128, 9);
  struct Row {
    uint64_t offset;
    uint64_t size;
  };
  const Row rows[] = {{64, 1},       {0, 65},       {63, 2},        {SIZE_MAX, 1},
                      {SIZE_MAX, 2}, {1, SIZE_MAX}, {65, SIZE_MAX}, {SIZE_MAX, SIZE_MAX}};
  for (const Row& row : rows) {
    EXPECT_FAILS(NRT_INVALID, "bounded",
                 nrt_tensor_read(tensor.get(), buffer.data(), row.offset, row.size));
    EXPECT_STATUS(NRT_INVALID, nrt_tensor_write(tensor.get(), buffer.data(), row.offset, row.size));
    EXPECT_STATUS(NRT_INVALID, nrt_tensor_memset(tensor.get(), row.offset, 1, row.size));
    nrt_tensor_t* slice = nullptr;
    EXPECT_STATUS(NRT_INVALID,
                  nrt_tensor_allocate_slice(tensor.get(), row.offset, row.size, "slice", &slice));
    EXPECT_EQ(slice, nullptr);
  }
  EXPECT_EQ(read<uint8_t>(tensor, 64), before);
  EXPECT_THAT(buffer, Each(9));
}

TEST_F(TensorBounds, LastByteAndEmptyRangeAreInside) {
  const Tensor tensor = make_tensor_of(std::vector<uint8_t>(64, 7));
  const uint8_t value = 8;
  EXPECT_OK(nrt_tensor_write(tensor.get(), &value, 63, 1));
  EXPECT_THAT(read<uint8_t>(tensor, 2, 62), ElementsAre(7, 8));
  EXPECT_OK(nrt_tensor_write(tensor.get(), &value, 64, 0));
  uint8_t nothing = 5;
  EXPECT_OK(nrt_tensor_read(tensor.get(), &nothing, 64, 0));
  EXPECT_EQ(nothing, 5);
}

TEST_F(TensorBounds, NullArgumentsAreRefused) {
  const Tensor tensor = make_tensor(64);
  char byte = 0;
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_read(tensor.get(), nullptr, 0, 1));
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_write(tensor.get(), nullptr, 0, 1));
  EXPECT_NE(nrt_tensor_read(nullptr, &byte, 0, 1), NRT_SUCCESS);
  EXPECT_NE(nrt_tensor_write(nullptr, &byte, 0, 1), NRT_SUCCESS);
}

TEST_F(TensorBounds, MemsetSetsTheLowByteOfTheRange) {
  const Tensor tensor = make_tensor_of(std::vector<uint8_t>(8, 1));
  EXPECT_OK(nrt_tensor_memset(tensor.get(), 2, 0x1AB, 3));
  EXPECT_THAT(read<uint8_t>(tensor, 8), ElementsAre(1, 1, 0xAB, 0xAB, 0xAB, 1, 1, 1));
}

using BigTensor = OpenApiTest;

// sdk#1164: offsets above 4 GiB.
TEST_F(BigTensor, HasItsBytesWhereTheyWereWritten) {
  constexpr uint64_t kSize = 5ull << 30;
  constexpr uint64_t kFar = (4ull << 30) + 1;
  const Tensor tensor = make_tensor(kSize);
  const std::vector<uint8_t> near_bytes = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<uint8_t> far_bytes = {11, 12, 13, 14, 15, 16, 17, 18};
  EXPECT_OK(nrt_tensor_write(tensor.get(), near_bytes.data(), 1, near_bytes.size()));
  EXPECT_OK(nrt_tensor_write(tensor.get(), far_bytes.data(), kFar, far_bytes.size()));
  EXPECT_EQ(read<uint8_t>(tensor, 8, 1), near_bytes);
  EXPECT_EQ(read<uint8_t>(tensor, 8, kFar), far_bytes);
  const Tensor slice = make_slice(tensor, kFar, 4);
  EXPECT_THAT(read<uint8_t>(slice, 4), ElementsAre(11, 12, 13, 14));
  EXPECT_EQ(nrt_tensor_get_size(tensor.get()), kSize);
}

using SliceLifetime = OpenApiTest;

// H05 (nkipy#23).
TEST_F(SliceLifetime, SliceKeepsTheStorageOfAFreedParent) {
  const uint64_t start = bytes_used();
  nrt_tensor_t* parent = nullptr;
  ASSERT_OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "p", &parent));
  char text[64] = "hello";
  ASSERT_OK(nrt_tensor_write(parent, text, 0, sizeof(text)));
  nrt_tensor_t* slice = nullptr;
  ASSERT_OK(nrt_tensor_allocate_slice(parent, 2, 16, "s", &slice));
  nrt_tensor_t* inner = nullptr;
  ASSERT_OK(nrt_tensor_allocate_slice(slice, 1, 4, "inner", &inner));
  nrt_tensor_free(&parent);
  nrt_tensor_free(&slice);
  EXPECT_GT(bytes_used(), start);
  char read_back[3] = {};
  EXPECT_OK(nrt_tensor_read(inner, read_back, 0, 2));
  EXPECT_STREQ(read_back, "lo");
  nrt_tensor_free(&inner);
  EXPECT_EQ(bytes_used(), start);
}

TEST_F(SliceLifetime, WritesGoThroughBothWays) {
  const Tensor parent = make_tensor_of<float>({1, 2, 3, 4});
  const Tensor slice = make_slice(parent, 4, 8);
  EXPECT_EQ(nrt_tensor_get_size(slice.get()), 8u);
  const float values[2] = {20, 30};
  EXPECT_OK(nrt_tensor_write(slice.get(), values, 0, sizeof(values)));
  EXPECT_THAT(read<float>(parent, 4), ElementsAre(1, 20, 30, 4));
  nrt_tensor_device_allocation_info_t whole = {};
  nrt_tensor_device_allocation_info_t part = {};
  EXPECT_OK(nrt_tensor_get_device_allocation_info(parent.get(), &whole));
  EXPECT_OK(nrt_tensor_get_device_allocation_info(slice.get(), &part));
  EXPECT_EQ(part.physical_address, whole.physical_address + 4);
}

using AttachBuffer = OpenApiTest;

TEST_F(AttachBuffer, IsTheCallersMemory) {
  std::vector<float> memory = {1, 2, 3, 4};
  nrt_tensor_t* created = nullptr;
  ASSERT_OK(nrt_tensor_allocate_empty("attached", &created));
  Tensor tensor(created);
  EXPECT_EQ(nrt_tensor_get_size(tensor.get()), 0u);
  char byte = 0;
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_read(tensor.get(), &byte, 0, 1));
  ASSERT_OK(nrt_tensor_attach_buffer(tensor.get(), memory.data(), 16));
  EXPECT_EQ(nrt_tensor_get_size(tensor.get()), 16u);
  EXPECT_EQ(nrt_tensor_get_va(tensor.get()), memory.data());
  EXPECT_THAT(read<float>(tensor, 4), ElementsAre(1, 2, 3, 4));
  memory[0] = 9;

  const Model model = load(add_neff(4));
  const Tensor other = make_tensor_of<float>({10, 20, 30, 40});
  std::vector<float> result(4);
  nrt_tensor_t* output = nullptr;
  ASSERT_OK(nrt_tensor_allocate_empty("result", &output));
  const Tensor sum(output);
  ASSERT_OK(nrt_tensor_attach_buffer(sum.get(), result.data(), 16));
  const TensorSet inputs = make_set({{"input0", tensor.get()}, {"input1", other.get()}});
  const TensorSet outputs = make_set({{"output0", sum.get()}});
  ASSERT_OK(nrt_execute(model.get(), inputs.get(), outputs.get()));
  EXPECT_THAT(result, ElementsAre(19, 22, 33, 44));

  tensor.reset();
  EXPECT_EQ(memory[1], 2) << "freeing the tensor leaves the buffer alone";
}

TEST_F(AttachBuffer, ReleasesStorageThatTheTensorOwned) {
  const uint64_t start = bytes_used();
  const Tensor tensor = make_tensor(1 << 20);
  EXPECT_GE(bytes_used(), start + (1 << 20));
  std::vector<char> memory(64);
  ASSERT_OK(nrt_tensor_attach_buffer(tensor.get(), memory.data(), memory.size()));
  EXPECT_EQ(bytes_used(), start);
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_attach_buffer(tensor.get(), nullptr, 64));
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_attach_buffer(tensor.get(), memory.data(), 0));
  EXPECT_FAILS(NRT_INVALID, "beyond the end of the address space",
               nrt_tensor_attach_buffer(tensor.get(), memory.data(), SIZE_MAX));
  EXPECT_EQ(nrt_tensor_get_size(tensor.get()), memory.size());
}

// Names come from models and users; a line of a log is no place for them to end.
TEST_F(AttachBuffer, ControlCharactersOfANameStayOutOfMessages) {
  nrt_tensor_t* raw = nullptr;
  ASSERT_OK(nrt_tensor_allocate_empty("a\n2026-Jan-01 ERROR forged\x1b[31m", &raw));
  const Tensor tensor(raw);
  testing::internal::CaptureStderr();
  char byte = 0;
  EXPECT_FAILS(NRT_INVALID, "'a\\x0a2026-Jan-01 ERROR forged\\x1b[31m'",
               nrt_tensor_read(tensor.get(), &byte, 0, 1));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

using ForeignHandle = OpenApiTest;

TEST_F(ForeignHandle, PointersThatAreNoHandlesAreRefusedWithoutATouch) {
  char byte = 0;
  std::vector<char> own(1 << 16);
  const Tensor tensor = make_tensor(64);
  const auto inside = reinterpret_cast<uintptr_t>(tensor.get()) + 64;
  for (const uintptr_t address : {uintptr_t{8}, uintptr_t{0x1000}, UINTPTR_MAX - 63, inside,
                                  reinterpret_cast<uintptr_t>(own.data()) & ~uintptr_t{63}}) {
    auto* wrong = reinterpret_cast<nrt_tensor_t*>(address);
    EXPECT_STATUS(NRT_INVALID_HANDLE, nrt_tensor_read(wrong, &byte, 0, 1));
    nrt_tensor_free(&wrong);
    EXPECT_STATUS(NRT_INVALID_HANDLE, nrt_unload(reinterpret_cast<nrt_model_t*>(address)));
    auto* set = reinterpret_cast<nrt_tensor_set_t*>(address);
    EXPECT_STATUS(NRT_INVALID_HANDLE,
                  nrt_execute(reinterpret_cast<nrt_model_t*>(address), set, set));
    nrt_destroy_tensor_set(&set);
  }
  // More handles than one chunk has, all of them known.
  std::vector<Tensor> many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back(make_host_tensor(16, NRT_TENSOR_PLACEMENT_HOST));
  }
  for (const Tensor& one : many) {
    EXPECT_EQ(nrt_tensor_get_size(one.get()), 16u);
  }
}

TEST_F(AttachBuffer, EmptyTensorCanBeFreed) {
  nrt_tensor_t* tensor = nullptr;
  ASSERT_OK(nrt_tensor_allocate_empty(nullptr, &tensor));
  EXPECT_EQ(nrt_tensor_get_va(tensor), nullptr);
  nrt_tensor_free(&tensor);
  EXPECT_EQ(tensor, nullptr);
}

using HostView = OpenApiTest;

// libfabric reads through the mapping and writes with nrt_memcpy_to_device().
TEST_F(HostView, ShowsTheTensorAndTakesWrites) {
  const Tensor tensor = make_tensor_of<float>({1, 2, 3, 4});
  auto* view = static_cast<float*>(nrt_tensor_get_va(tensor.get()));
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view[2], 3);
  const float value = 30;
  EXPECT_OK(nrt_memcpy_to_device(view + 2, &value, sizeof(value)));
  EXPECT_THAT(read<float>(tensor, 4), ElementsAre(1, 2, 30, 4));
  const Tensor slice = make_slice(tensor, 4, 8);
  EXPECT_EQ(nrt_tensor_get_va(slice.get()), view + 1);
  EXPECT_EQ(nrt_tensor_get_va(nullptr), nullptr);
  float elsewhere = 0;
  EXPECT_STATUS(NRT_INVALID, nrt_memcpy_to_device(&elsewhere, &value, sizeof(value)));
}

using TensorSetRules = OpenApiTest;

TEST_F(TensorSetRules, AddingAnExistingNameReplaces) {
  const Tensor first = make_tensor(64);
  const Tensor second = make_tensor(64);
  const TensorSet set = make_set({{"x", first.get()}});
  EXPECT_OK(nrt_add_tensor_to_tensor_set(set.get(), "x", second.get()));
  nrt_tensor_t* found = nullptr;
  EXPECT_OK(nrt_get_tensor_from_tensor_set(set.get(), "x", &found));
  EXPECT_EQ(found, second.get());
}

TEST_F(TensorSetRules, MissingNameLeavesThePointerAlone) {
  const TensorSet set = make_set({});
  nrt_tensor_t* found = reinterpret_cast<nrt_tensor_t*>(0x4711);
  EXPECT_FAILS(NRT_FAILURE, "nowhere",
               nrt_get_tensor_from_tensor_set(set.get(), "nowhere", &found));
  EXPECT_EQ(found, reinterpret_cast<nrt_tensor_t*>(0x4711));
}

TEST_F(TensorSetRules, DestroyClearsThePointerAndKeepsTheTensors) {
  const Tensor tensor = make_tensor_of<float>({1});
  nrt_tensor_set_t* set = make_set({{"x", tensor.get()}}).release();
  nrt_destroy_tensor_set(&set);
  EXPECT_EQ(set, nullptr);
  nrt_destroy_tensor_set(&set);
  nrt_destroy_tensor_set(nullptr);
  EXPECT_THAT(read<float>(tensor, 1), ElementsAre(1));
}

TEST_F(TensorSetRules, TensorMayBeFreedBeforeTheSet) {
  Tensor tensor = make_tensor(64);
  TensorSet set = make_set({{"x", tensor.get()}});
  tensor.reset();
  set.reset();
}

TEST_F(TensorSetRules, NullArgumentsAreRefused) {
  const Tensor tensor = make_tensor(64);
  const TensorSet set = make_set({});
  nrt_tensor_t* found = nullptr;
  EXPECT_STATUS(NRT_INVALID, nrt_allocate_tensor_set(nullptr));
  EXPECT_STATUS(NRT_INVALID, nrt_add_tensor_to_tensor_set(set.get(), nullptr, tensor.get()));
  EXPECT_NE(nrt_add_tensor_to_tensor_set(nullptr, "x", tensor.get()), NRT_SUCCESS);
  EXPECT_NE(nrt_add_tensor_to_tensor_set(set.get(), "x", nullptr), NRT_SUCCESS);
  EXPECT_STATUS(NRT_INVALID, nrt_get_tensor_from_tensor_set(set.get(), "x", nullptr));
  EXPECT_STATUS(NRT_INVALID, nrt_get_tensor_from_tensor_set(set.get(), nullptr, &found));
}

}  // namespace
}  // namespace onrt::api_test
