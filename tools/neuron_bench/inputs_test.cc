// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_bench/inputs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tools/common/file.h"

namespace onrt::tools {
namespace {

class Inputs : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("onrt_inputs_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string put(const std::string& name, const std::vector<std::byte>& bytes) {
    const std::string path = (folder_ / name).string();
    EXPECT_TRUE(write_file(path, bytes).ok());
    return path;
  }

  std::string failure(const std::vector<std::string>& words) {
    const auto result = read_inputs(words, tensors_);
    return result.ok() ? "" : std::string(result.status().message());
  }

  std::filesystem::path folder_;
  const std::vector<TensorInfo> tensors_ = {
      {"x", true, 24, NRT_DTYPE_FLOAT32, {2, 3}},
      {"mask", true, 3, NRT_DTYPE_UINT8, {3}},
      {"y", false, 24, NRT_DTYPE_FLOAT32, {2, 3}},
  };
  const Array x_ = {"<f4", {2, 3}, std::vector<std::byte>(24, std::byte{1})};
  const Array mask_ = {"|b1", {3}, std::vector<std::byte>(3, std::byte{1})};
};

TEST_F(Inputs, ArePlacedByPositionNameAndArchive) {
  const std::string x = put("x.npy", make_npy(x_));
  const std::string mask = put("m.npy", make_npy(mask_));
  const std::string both = put("both.npz", make_npz({{"mask", mask_}, {"x", x_}}));
  for (const auto& words : std::vector<std::vector<std::string>>{
           {x, mask}, {"mask=" + mask, x}, {both}, {"x=" + x, mask}}) {
    const auto inputs = read_inputs(words, tensors_);
    ASSERT_TRUE(inputs.ok()) << inputs.status().message();
    ASSERT_EQ(inputs->size(), 2u);
    for (const Input& input : *inputs) {
      EXPECT_EQ(input.array.type, input.tensor == 0 ? "<f4" : "|b1");
    }
  }
  EXPECT_TRUE(read_inputs({}, tensors_)->empty());
}

TEST_F(Inputs, MistakesNameFileInputExpectedAndFound) {
  const std::string x = put("x.npy", make_npy(x_));
  const std::string mask = put("m.npy", make_npy(mask_));
  EXPECT_NE(failure({mask}).find("m.npy: input 'x': expected <f4[2,3] of 24 bytes, found |b1[3] of "
                                 "3 bytes"),
            std::string::npos);
  EXPECT_NE(failure({"z=" + x}).find("no input 'z'; it has x, mask"), std::string::npos);
  EXPECT_NE(failure({"y=" + x}).find("no input 'y'"), std::string::npos);
  EXPECT_NE(failure({x, "x=" + x}).find("has a file already"), std::string::npos);
  EXPECT_NE(failure({x, mask, x}).find("only 2 inputs"), std::string::npos);
  EXPECT_NE(failure({"missing.npy"}).find("cannot read 'missing.npy': No such file"),
            std::string::npos);
  EXPECT_NE(failure({put("bad.npy", {})}).find("magic"), std::string::npos);
  Array wide = x_;
  wide.type = "<i4";
  EXPECT_NE(failure({put("i.npy", make_npy(wide))}).find("found <i4[2,3]"), std::string::npos);
}

TEST_F(Inputs, EveryNamedTypeOfTheInterfaceHasANumpyType) {
  for (const nrt_dtype_t dtype :
       {NRT_DTYPE_FLOAT16, NRT_DTYPE_BFLOAT16, NRT_DTYPE_FLOAT32, NRT_DTYPE_UINT8, NRT_DTYPE_UINT16,
        NRT_DTYPE_UINT32, NRT_DTYPE_UINT64, NRT_DTYPE_INT8, NRT_DTYPE_INT16, NRT_DTYPE_INT32,
        NRT_DTYPE_INT64, NRT_DTYPE_FP8_E4}) {
    EXPECT_NE(numpy_type(dtype), "") << dtype;
  }
  EXPECT_EQ(numpy_type(NRT_DTYPE_UNKNOWN), "");
}

}  // namespace
}  // namespace onrt::tools
