// SPDX-License-Identifier: Apache-2.0
// Bits from jax.lax.rng_bit_generator (jaxlib 0.10.2, CPU) with key = uint32[1, 2, 3, 4]; moments
// of the distributions from their definition.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "emulator/exec/testing/oracle.h"

namespace onrt {
namespace {

using ncx::Program;
using ncx::RngKind;

struct Bits {
  std::vector<uint64_t> state;
  std::vector<uint64_t> values;
};

Bits draw_bits(RngKind kind, Dtype dtype, std::vector<int64_t> dims,
               std::vector<uint64_t> state = {0x200000001, 0x400000003}) {
  Program program;
  const int64_t words[] = {static_cast<int64_t>(state.size())};
  int64_t count = 1;
  for (const int64_t dim : dims) {
    count *= dim;
  }
  const uint64_t width = dtype_bytes(dtype);
  program.io = {{Dtype::kU64, {words[0]}, state.size() * 8},
                {Dtype::kU64, {words[0]}, state.size() * 8, ncx::SlotUsage::kOutput},
                {dtype, dims, static_cast<uint64_t>(count) * width, ncx::SlotUsage::kOutput}};
  ncx::Rng op;
  op.kind = kind;
  op.state = testing::dense(ncx::Space::kIo, 0, Dtype::kU64, words);
  op.state_out = testing::dense(ncx::Space::kIo, 1, Dtype::kU64, words);
  op.output = testing::dense(ncx::Space::kIo, 2, dtype, dims);
  program.blocks.emplace_back().instructions.push_back({op});
  testing::Memory memory = testing::make_memory(program);
  std::memcpy(memory.io[0].data(), state.data(), state.size() * 8);
  const Status status = testing::run_engine(program, memory, {});
  EXPECT_TRUE(status.ok()) << status.message();
  Bits bits;
  bits.state.resize(state.size());
  std::memcpy(bits.state.data(), memory.io[1].data(), state.size() * 8);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t value = 0;
    std::memcpy(&value, memory.io[2].data() + static_cast<uint64_t>(i) * width, width);
    bits.values.push_back(value);
  }
  return bits;
}

TEST(Rng, PhiloxBitsAreThoseOfJax) {
  const Bits words = draw_bits(RngKind::kPhilox, Dtype::kU32, {3, 4});
  EXPECT_EQ(words.values, (std::vector<uint64_t>{0x1e8fe864, 0x4d5e0bd7, 0x4b87c9be, 0x2d689201,
                                                 0x5273487b, 0x61c05696, 0xa4486574, 0x806fd7ef,
                                                 0x9a2c32b7, 0xcf31be40, 0x6b188310, 0x12a6eb29}));
  EXPECT_EQ(words.state, (std::vector<uint64_t>{0x200000001, 0x400000006}));
  EXPECT_EQ(draw_bits(RngKind::kPhilox, Dtype::kU64, {3}).values,
            (std::vector<uint64_t>{0x4d5e0bd71e8fe864, 0x2d6892014b87c9be, 0x61c056965273487b}));
  EXPECT_EQ(draw_bits(RngKind::kPhilox, Dtype::kU8, {2, 3}).values,
            (std::vector<uint64_t>{0x64, 0xd7, 0xbe, 0x01, 0x7b, 0x96}));
}

TEST(Rng, ThreefryBitsAreThoseOfJax) {
  const Bits words = draw_bits(RngKind::kThreeFry, Dtype::kU32, {5});
  EXPECT_EQ(words.values,
            (std::vector<uint64_t>{0x5df433ec, 0x8617198e, 0x2c24a8a8, 0x9094fa5e, 0x91386643}));
  EXPECT_EQ(words.state, (std::vector<uint64_t>{0x200000001, 0x400000006}));
  EXPECT_EQ(draw_bits(RngKind::kThreeFry, Dtype::kU64, {3}).values,
            (std::vector<uint64_t>{0x8617198e5df433ec, 0x9094fa5e2c24a8a8, 0x5949191991386643}));
  EXPECT_EQ(draw_bits(RngKind::kThreeFry, Dtype::kU8, {2, 3}).values,
            (std::vector<uint64_t>{0xec, 0xa8, 0x43, 0x8e, 0x5e, 0x19}));
}

// Where JAX puts the words, found by matching its output against the Threefry blocks of counters
// 3, 4, ...: {block, word} in row-major order of the shape.
TEST(Rng, ThreefrySplitsTheFirstEvenOrTheLongestDimension) {
  const std::vector<uint64_t> line = draw_bits(RngKind::kThreeFry, Dtype::kU32, {36}).values;
  const auto check = [&](std::vector<int64_t> dims, std::vector<std::pair<int, int>> places) {
    const std::vector<uint64_t> got = draw_bits(RngKind::kThreeFry, Dtype::kU32, dims).values;
    for (size_t i = 0; i < places.size(); ++i) {
      EXPECT_EQ(got[i], line[static_cast<size_t>(places[i].first * 2 + places[i].second)]) << i;
    }
  };
  check({4, 2}, {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 0}, {3, 0}, {2, 1}, {3, 1}});
  check({3, 5}, {{0, 0},
                 {0, 1},
                 {1, 0},
                 {1, 1},
                 {2, 0},
                 {3, 0},
                 {3, 1},
                 {4, 0},
                 {4, 1},
                 {5, 0},
                 {6, 0},
                 {6, 1},
                 {7, 0},
                 {7, 1},
                 {8, 0}});
  check({2, 3}, {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}});
}

std::vector<float> draw(RngKind kind, Dtype dtype, float a, float b, int64_t count,
                        uint64_t seed = 1) {
  Program program;
  const int64_t dims[] = {count};
  const uint64_t width = dtype_bytes(dtype);
  program.io = {{dtype, {}, width},
                {dtype, {}, width},
                {dtype, {count}, static_cast<uint64_t>(count) * width, ncx::SlotUsage::kOutput}};
  ncx::Rng op;
  op.kind = kind;
  op.seed = seed;
  op.a = testing::dense(ncx::Space::kIo, 0, dtype, {});
  op.b = testing::dense(ncx::Space::kIo, 1, dtype, {});
  op.output = testing::dense(ncx::Space::kIo, 2, dtype, dims);
  program.blocks.emplace_back().instructions.push_back({op});
  testing::Memory memory = testing::make_memory(program);
  std::memcpy(memory.io[0].data(), &a, 4);
  std::memcpy(memory.io[1].data(), &b, 4);
  const Status status = testing::run_engine(program, memory, {});
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<float> values(static_cast<size_t>(count));
  std::memcpy(values.data(), memory.io[2].data(), values.size() * 4);
  return values;
}

TEST(Rng, UniformAndNormalHaveTheirMoments) {
  const auto uniform = draw(RngKind::kUniform, Dtype::kF32, -1.0f, 3.0f, 100000);
  double sum = 0;
  for (const float x : uniform) {
    ASSERT_GE(x, -1.0f);
    ASSERT_LT(x, 3.0f);
    sum += x;
  }
  EXPECT_NEAR(sum / 1e5, 1.0, 0.02);
  const auto normal = draw(RngKind::kNormal, Dtype::kF32, 2.0f, 3.0f, 100000);
  double mean = 0;
  double square = 0;
  for (const float x : normal) {
    mean += x;
    square += (x - 2.0) * (x - 2.0);
  }
  EXPECT_NEAR(mean / 1e5, 2.0, 0.05);
  EXPECT_NEAR(std::sqrt(square / 1e5), 3.0, 0.05);
  EXPECT_NE(draw(RngKind::kUniform, Dtype::kF32, 0, 1, 8, 1),
            draw(RngKind::kUniform, Dtype::kF32, 0, 1, 8, 2));
}

}  // namespace
}  // namespace onrt
