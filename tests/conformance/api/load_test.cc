// SPDX-License-Identifier: Apache-2.0
// nrt_load(), nrt_unload() and what a model says about itself. NEFFs are damaged at offsets of the
// public header: runtime/neff/neff_format.h.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/conformance/api/fixture.h"
#include "tests/conformance/api/neff.h"

namespace onrt::api_test {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Bytes = std::vector<uint8_t>;

constexpr size_t kHeaderBytes = 1024;
constexpr size_t kDataSizeAt = 0x10;
constexpr size_t kMajorAt = 0x18;
constexpr size_t kFeaturesAt = 0x220;

NRT_STATUS try_load(const Bytes& neff, nrt_model_t** model, int vnc = 0) {
  return nrt_load(neff.data(), neff.size(), vnc, -1, model);
}

Bytes with_byte(Bytes neff, size_t at, uint8_t value) {
  neff.at(at) = value;
  return neff;
}

Bytes with_u64(Bytes neff, size_t at, uint64_t value) {
  std::memcpy(neff.data() + at, &value, sizeof(value));
  return neff;
}

Bytes cut(Bytes neff, size_t size) {
  neff.resize(size);
  return neff;
}

// Statuses that a damaged file may get; anything else, a signal or a hang is a fault.
const auto kAnyRefusal = AnyOf(NRT_FAILURE, NRT_INVALID, NRT_LOAD_NOT_ENOUGH_NC,
                               NRT_UNSUPPORTED_NEFF_VERSION, NRT_RESOURCE);

class LoadBadInputs : public OpenApiTest {
 protected:
  void SetUp() override {
    OpenApiTest::SetUp();
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    nrt_close();
    ASSERT_OK(init());
    good_ = add_neff(16);
    used_ = bytes_used();
  }
  void TearDown() override {
    EXPECT_EQ(bytes_used(), used_) << "a refused load left memory behind";
    OpenApiTest::TearDown();
  }

  // Refused with `status` and a text that has `part`; the model pointer stays as it was.
  void refused(NRT_STATUS status, const char* part, const Bytes& neff, int vnc = 0) {
    nrt_model_t* const before = reinterpret_cast<nrt_model_t*>(0x4711);
    nrt_model_t* model = before;
    EXPECT_FAILS(status, part, try_load(neff, &model, vnc));
    EXPECT_EQ(model, before);
  }

  Bytes good_;
  uint64_t used_ = 0;
};

TEST_F(LoadBadInputs, NoBytesOrNoPlaceForTheModel) {
  nrt_model_t* model = nullptr;
  EXPECT_STATUS(NRT_INVALID, nrt_load(nullptr, 10, 0, -1, &model));
  EXPECT_STATUS(NRT_INVALID, nrt_load(good_.data(), 0, 0, -1, &model));
  EXPECT_STATUS(NRT_INVALID, nrt_load(good_.data(), good_.size(), 0, -1, nullptr));
  EXPECT_STATUS(NRT_INVALID, nrt_unload(nullptr));
  EXPECT_EQ(model, nullptr);
}

TEST_F(LoadBadInputs, CoreThatIsNotOurs) {
  refused(NRT_INVALID, "99", good_, 99);
  refused(NRT_INVALID, "-2", good_, -2);
}

TEST_F(LoadBadInputs, HeaderAndPayloadThatDisagree) {
  for (size_t size : {size_t{1}, size_t{100}, kHeaderBytes - 1, kHeaderBytes, good_.size() - 1}) {
    refused(NRT_INVALID, "", cut(good_, size));
  }
  refused(NRT_INVALID, "", with_u64(good_, kDataSizeAt, good_.size() * 2));
  refused(NRT_INVALID, "", with_u64(good_, kDataSizeAt, ~uint64_t{0}));
}

TEST_F(LoadBadInputs, PayloadThatIsNoArchiveOrNoJson) {
  Bytes garbage = good_;
  std::fill(garbage.begin() + kHeaderBytes, garbage.end(), 0xAB);
  refused(NRT_INVALID, "", garbage);

  const std::string name = "opennrt.json";
  const auto header = std::search(good_.begin(), good_.end(), name.begin(), name.end());
  ASSERT_NE(header, good_.end());
  const auto start = static_cast<size_t>(header - good_.begin()) + 512;  // behind the tar header
  ASSERT_EQ(good_.at(start), '{');
  refused(NRT_INVALID, "opennrt.json", with_byte(good_, start, 'x'));
}

// sdk#820, #1259: the message has what was found and what is supported.
TEST_F(LoadBadInputs, VersionOrFeatureThatIsNotKnown) {
  refused(NRT_UNSUPPORTED_NEFF_VERSION, "99", with_u64(good_, kMajorAt, 99));
  EXPECT_THAT(onrt_last_error(), HasSubstr("2"));
  refused(NRT_UNSUPPORTED_NEFF_VERSION, "0x10000000000",
          with_u64(good_, kFeaturesAt, uint64_t{1} << 40));
  EXPECT_THAT(onrt_last_error(), HasSubstr("0x0"));
}

// A NEFF of the vendor's compiler has no member of ours.
TEST_F(LoadBadInputs, NeffOfAnotherCompiler) {
  Bytes foreign = good_;
  std::memcpy(foreign.data() + 0x28, "2.21.1.0+abcdef", 16);
  const std::string name = "opennrt.json";
  const auto header = std::search(foreign.begin(), foreign.end(), name.begin(), name.end());
  ASSERT_NE(header, foreign.end());
  nrt_model_t* model = nullptr;
  EXPECT_THAT(try_load(foreign, &model), AnyOf(NRT_INVALID, NRT_UNSUPPORTED_NEFF_VERSION));
}

TEST_F(LoadBadInputs, WrongHashWhenItIsToBeChecked) {
  // The last block of a tar is padding: nothing but the hash can notice.
  const Bytes damaged = with_byte(good_, good_.size() - 1, 1);
  nrt_close();
  setenv("NEURON_RT_VALIDATE_HASH", "TRUE", 1);
  ASSERT_OK(init());
  refused(NRT_INVALID, "hash", damaged);
  EXPECT_NE(load(good_), nullptr);
}

// H07 (sdk#742): a file cut short by a race in a cache.
TEST_F(LoadBadInputs, EveryTruncation) {
  for (size_t size = 0; size < good_.size(); size += good_.size() / 150 + 1) {
    refused(NRT_INVALID, "", cut(good_, size));
  }
}

// H07: what loads in spite of a flipped bit must also run or fail politely.
TEST_F(LoadBadInputs, FlippedBits) {
  nrt_close();
  setenv("NEURON_RT_EXEC_TIMEOUT", "2", 1);
  ASSERT_OK(init());
  const std::vector<float> ones(16, 1);
  const Tensor a = make_tensor_of(ones);
  const Tensor b = make_tensor_of(ones);
  const Tensor sum = make_tensor(64);
  const TensorSet inputs = make_set({{"input0", a.get()}, {"input1", b.get()}});
  const TensorSet outputs = make_set({{"output0", sum.get()}});
  used_ = bytes_used();
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const size_t limit = round % 2 == 0 ? kHeaderBytes : good_.size();
    Bytes damaged = good_;
    damaged[random() % limit] ^= static_cast<uint8_t>(1u << (random() % 8));
    nrt_model_t* model = nullptr;
    const NRT_STATUS status = try_load(damaged, &model);
    if (status == NRT_SUCCESS) {
      nrt_execute(model, inputs.get(), outputs.get());
      EXPECT_OK(nrt_unload(model));
    } else {
      EXPECT_THAT(status, kAnyRefusal) << "seed 1, round " << round << onrt_last_error();
    }
  }
  EXPECT_EQ(bytes_used(), used_);
  nrt_close();
  ASSERT_OK(init());
  used_ = bytes_used();
}

TEST_F(LoadBadInputs, FlippedBitsWithTheHashChecked) {
  nrt_close();
  setenv("NEURON_RT_VALIDATE_HASH", "TRUE", 1);
  ASSERT_OK(init());
  std::mt19937 random(2);
  for (int round = 0; round < 400; ++round) {
    Bytes damaged = good_;
    const size_t at = random() % good_.size();
    damaged[at] ^= static_cast<uint8_t>(1u << (random() % 8));
    nrt_model_t* model = nullptr;
    EXPECT_THAT(try_load(damaged, &model), kAnyRefusal) << "seed 2, byte " << at;
  }
}

using Load = OpenApiTest;

TEST_F(Load, NeedsTheBytesNoLonger) {
  const Bytes neff = add_neff(4, {.compress = true});
  const size_t size = (neff.size() + 4095) / 4096 * 4096;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memcpy(memory, neff.data(), neff.size());
  nrt_model_t* loaded = nullptr;
  ASSERT_OK(nrt_load(memory, neff.size(), -1, -1, &loaded));
  const Model model(loaded);
  std::memset(memory, 0xFF, size);
  munmap(memory, size);

  const Tensor a = make_tensor_of<float>({1, 2, 3, 4});
  const Tensor b = make_tensor_of<float>({10, 20, 30, 40});
  const Tensor sum = make_tensor(16);
  const TensorSet inputs = make_set({{"input0", a.get()}, {"input1", b.get()}});
  const TensorSet outputs = make_set({{"output0", sum.get()}});
  ASSERT_OK(nrt_execute(model.get(), inputs.get(), outputs.get()));
  EXPECT_THAT(read<float>(sum, 4), ElementsAre(11, 22, 33, 44));
}

// Minus one takes the first core without a model.
TEST_F(Load, TakesTheFirstFreeCore) {
  const Bytes neff = add_neff(4);
  std::vector<Model> models;
  for (uint32_t expected = 0; expected < kCores; ++expected) {
    models.push_back(load(neff, -1));
    nrt_model_info_t info = {};
    size_t written = 0;
    EXPECT_OK(nrt_get_model_info(models.back().get(), &info, sizeof(info), &written));
    EXPECT_EQ(written, sizeof(info));
    EXPECT_EQ(info.vnc, expected);
    uint32_t count = 0;
    EXPECT_OK(nrt_get_model_vnc_count(models.back().get(), &count));
    EXPECT_EQ(count, 1u);
  }
}

// H06 (sdk#625): memory must come back with every unload.
TEST_F(Load, AndUnloadLeaveNothingBehind) {
  const Bytes neff = add_neff(256);
  uint64_t used = 0;
  uint64_t resident = 0;
  size_t descriptors = 0;
  for (int round = 0; round < 300; ++round) {
    nrt_model_t* model = nullptr;
    ASSERT_OK(try_load(neff, &model));
    ASSERT_OK(nrt_unload(model));
    if (round == 20) {
      used = bytes_used();
      resident = resident_bytes();
      descriptors = descriptor_count();
    }
  }
  EXPECT_EQ(bytes_used(), used);
  EXPECT_EQ(descriptor_count(), descriptors);
  EXPECT_LT(resident_bytes(), resident + (1u << 20));
}

TEST_F(Load, UnloadedModelIsRefused) {
  nrt_model_t* model = nullptr;
  ASSERT_OK(try_load(add_neff(4), &model));
  ASSERT_OK(nrt_unload(model));
  EXPECT_STATUS(NRT_INVALID_HANDLE, nrt_unload(model));
  const TensorSet nothing = make_set({});
  EXPECT_STATUS(NRT_INVALID_HANDLE, nrt_execute(model, nothing.get(), nothing.get()));
}

using TensorInfo = OpenApiTest;

TEST_F(TensorInfo, ListsInputsByNumberThenOutputs) {
  const Model model = load(compile(R"(HloModule "info"
input_name(1) "weights"
output_name(0) "loss"

ENTRY %0 "main" {
  %0 = f32[2,3] parameter(), parameter_number={0}
  %1 = bf16[4] parameter(), parameter_number={1}
  %2 = s32[] parameter(), parameter_number={2}
  %3 = f32[2,3] add(%0, %0)
  %4 = bf16[4] add(%1, %1)
  %5 = s32[] add(%2, %2)
  ROOT %6 = (f32[2,3], bf16[4], s32[]) tuple(%3, %4, %5)
}
)"));
  nrt_tensor_info_array_t* info = nullptr;
  ASSERT_OK(nrt_get_model_tensor_info(model.get(), &info));
  struct Row {
    const char* name;
    nrt_tensor_usage_t usage;
    size_t size;
    nrt_dtype_t dtype;
    std::vector<uint32_t> shape;
  };
  const Row rows[] = {{"input0", NRT_TENSOR_USAGE_INPUT, 24, NRT_DTYPE_FLOAT32, {2, 3}},
                      {"weights", NRT_TENSOR_USAGE_INPUT, 8, NRT_DTYPE_BFLOAT16, {4}},
                      {"input2", NRT_TENSOR_USAGE_INPUT, 4, NRT_DTYPE_INT32, {}},
                      {"loss", NRT_TENSOR_USAGE_OUTPUT, 24, NRT_DTYPE_FLOAT32, {2, 3}},
                      {"output1", NRT_TENSOR_USAGE_OUTPUT, 8, NRT_DTYPE_BFLOAT16, {4}},
                      {"output2", NRT_TENSOR_USAGE_OUTPUT, 4, NRT_DTYPE_INT32, {}}};
  ASSERT_EQ(info->tensor_count, std::size(rows));
  for (size_t i = 0; i < std::size(rows); ++i) {
    const nrt_tensor_info_t& found = info->tensor_array[i];
    EXPECT_STREQ(found.name, rows[i].name);
    EXPECT_EQ(found.usage, rows[i].usage) << found.name;
    EXPECT_EQ(found.size, rows[i].size) << found.name;
    EXPECT_EQ(found.dtype, rows[i].dtype) << found.name;
    EXPECT_EQ(std::vector<uint32_t>(found.shape, found.shape + found.ndim), rows[i].shape)
        << found.name;
  }
  EXPECT_OK(nrt_free_model_tensor_info(info));
}

TEST_F(TensorInfo, NullArgumentsAreRefused) {
  const Model model = load(add_neff(4));
  nrt_tensor_info_array_t* info = nullptr;
  EXPECT_STATUS(NRT_INVALID, nrt_get_model_tensor_info(model.get(), nullptr));
  EXPECT_NE(nrt_get_model_tensor_info(nullptr, &info), NRT_SUCCESS);
  EXPECT_EQ(info, nullptr);
  EXPECT_STATUS(NRT_INVALID, nrt_free_model_tensor_info(nullptr));
}

}  // namespace
}  // namespace onrt::api_test
