// SPDX-License-Identifier: Apache-2.0
// Conv instructions (padding, strides, dilations, groups, views, epilogues) against the sums of the
// oracle, which follow isa/reduce_order.h term by term.
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/exec/conv_geometry.h"
#include "emulator/exec/testing/oracle.h"
#include "emulator/exec/testing/random_program.h"

namespace onrt {
namespace {

using ncx::Program;
using testing::ProgramBuilder;
using Dims = std::vector<int64_t>;

struct Sizes {
  int64_t groups, batch, features, results;
  Dims in, window, out;
  std::vector<ncx::Conv::Axis> axes;
};

// Outputs may lie anywhere: there need not be an input that they meet.
void add_axis(ProgramBuilder& builder, Sizes& sizes, int64_t most) {
  const auto up_to = [&](int64_t limit) { return 1 + builder.below(static_cast<uint32_t>(limit)); };
  ncx::Conv::Axis axis;
  axis.stride = builder.below(3) == 0 ? up_to(3) : 1;
  axis.dilation = builder.below(3) == 0 ? up_to(3) : 1;
  axis.base_dilation = builder.below(3) == 0 ? up_to(4) : 1;
  axis.low = static_cast<int64_t>(builder.below(7)) - 3;
  sizes.axes.push_back(axis);
  sizes.in.push_back(builder.below(20) == 0 ? 0 : up_to(most));
  sizes.window.push_back(builder.below(20) == 0 ? 0 : up_to(4));
  sizes.out.push_back(up_to(most));
}

Sizes random_sizes(ProgramBuilder& builder) {
  Sizes sizes;
  const auto one_of = [&](std::initializer_list<int64_t> values) {
    return values.begin()[builder.below(static_cast<uint32_t>(values.size()))];
  };
  sizes.groups = one_of({1, 1, 1, 2, 5, 9, 33});
  sizes.batch = one_of({1, 2, 3});
  sizes.features = one_of({1, 2, 3, 8, 17});
  sizes.results = one_of({1, 2, 7, 16, 19});
  const uint32_t axes = builder.below(4);
  for (uint32_t d = 0; d < axes; ++d) {
    add_axis(builder, sizes, axes == 1 ? 24 : axes == 2 ? 9 : 4);
  }
  return sizes;
}

Dims joined(std::initializer_list<int64_t> first, const Dims& rest) {
  Dims dims(first);
  dims.insert(dims.end(), rest.begin(), rest.end());
  return dims;
}

// A dense view whose dimension `inner` has stride 1.
ncx::View with_inner(ProgramBuilder& builder, Program& program, Dtype dtype, const Dims& dims,
                     size_t inner, ncx::SlotUsage usage) {
  if (inner >= dims.size()) {
    return builder.view(program, dtype, dims, usage);
  }
  ncx::View view = builder.view(program, dtype, dims, usage);
  ncx::IoSlot& slot = program.io.back();
  int64_t stride = dims[inner];
  view.offset = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    view.strides[d] = d == inner ? 1 : stride;
    stride *= d == inner ? 1 : std::max<int64_t>(dims[d], 1);
  }
  slot.dims = {std::max<int64_t>(stride, 1)};
  slot.bytes = static_cast<uint64_t>(slot.dims[0]) * dtype_bytes(dtype);
  return view;
}

Program make_program(ProgramBuilder& builder, const Sizes& sizes) {
  Program program;
  ncx::Conv op;
  op.axes = sizes.axes;
  const bool floating = builder.below(4) != 0;
  const bool plain = builder.below(2) == 0;
  const auto type = [&] {
    return !floating ? builder.any_integer() : plain ? Dtype::kF32 : builder.any_float();
  };
  op.type = type();
  const Dims in = joined({sizes.groups, sizes.batch, sizes.features}, sizes.in);
  const Dims kernel = joined({sizes.groups, sizes.features, sizes.results}, sizes.window);
  const Dims out = joined({sizes.groups, sizes.batch, sizes.results}, sizes.out);
  // What runs along vectors: batch, features, the last axis, or anything.
  const size_t inner = std::array<size_t, 4>{1, 2, in.size() - 1, in.size()}[builder.below(4)];
  op.input = with_inner(builder, program, type(), in, inner, ncx::SlotUsage::kInput);
  op.kernel = builder.view(program, type(), kernel, ncx::SlotUsage::kInput);
  std::vector<Dtype> types = {op.type};
  if (builder.below(2) == 0) {
    for (uint32_t i = 0, count = builder.below(3); i < count; ++i) {
      types.push_back(builder.below(2) == 0 ? op.type : builder.any_type());
      op.epilogue_inputs.push_back(
          builder.view(program, types.back(), out, ncx::SlotUsage::kInput));
    }
    builder.add_ops(op.epilogue, types, static_cast<int>(out.size()), 5);
  }
  for (uint32_t i = 0, count = 1 + builder.below(2); i < count; ++i) {
    const auto reg = static_cast<uint16_t>(i == 0 ? types.size() - 1 : 0);
    op.epilogue.results.push_back(reg);
    op.outputs.push_back(with_inner(builder, program, types[reg], out,
                                    builder.below(2) == 0 ? inner : out.size(),
                                    ncx::SlotUsage::kOutput));
  }
  program.blocks.emplace_back().instructions.push_back({op});
  return program;
}

TEST(Conv, RandomProgramsEqualTheOracle) {
  const uint32_t seed = 7;
  std::mt19937 random(seed);
  for (int round = 0; round < 160; ++round) {
    ProgramBuilder builder(random);
    const Program program = make_program(builder, random_sizes(builder));
    ASSERT_EQ(testing::compare_with_oracle(program, random), "")
        << "seed " << seed << " round " << round;
  }
}

// Sizes that are cut into several blocks of terms, tiles and items.
TEST(Conv, LargeProgramsEqualTheOracle) {
  const uint32_t seed = 8;
  std::mt19937 random(seed);
  const Sizes all[] = {
      {1, 2, 33, 40, {13, 12}, {3, 3}, {13, 12}, {{1, 1, 1, 1}, {1, 1, 1, 1}}},
      {1, 40, 3, 18, {9, 9}, {9, 9}, {3, 3}, {{1, 1, 1, 1}, {1, 1, 1, 1}}},
      {1, 1, 70, 6, {40}, {5}, {80}, {{1, 4, 1, 2}}},
      {150, 2, 1, 2, {7, 6}, {3, 3}, {7, 6}, {{1, 1, 1, 1}, {1, 1, 1, 1}}},
      {20, 1, 3, 1, {14, 14}, {12, 12}, {3, 3}, {{1, 0, 1, 1}, {1, 0, 1, 1}}},
      {3, 1, 1, 1, {30, 31}, {5, 3}, {30, 31}, {{1, 2, 1, 1}, {1, 1, 1, 1}}},
      // Strided, and its gradients, where features may lie far apart.
      {1, 2, 32, 16, {15, 14}, {3, 3}, {8, 7}, {{2, 1, 1, 1}, {2, 1, 1, 1}}},
      {1, 2, 16, 32, {8, 7}, {3, 3}, {15, 14}, {{1, 1, 1, 2}, {1, 1, 1, 2}}},
      {2, 8, 4, 12, {14, 14}, {7, 7}, {3, 3}, {{1, 1, 2, 1}, {1, 1, 2, 1}}},
  };
  for (size_t round = 0; round < 3 * std::size(all); ++round) {
    ProgramBuilder builder(random);
    const Program program = make_program(builder, all[round % std::size(all)]);
    ASSERT_EQ(testing::compare_with_oracle(program, random), "")
        << "seed " << seed << " round " << round;
  }
}

// Each output belongs to one phase, whose kernel positions are those that meet no hole.
TEST(Conv, PhasesMeetNoHoles) {
  for (int64_t base = 1; base < 7; ++base) {
    for (int64_t stride = 1; stride < 5; ++stride) {
      for (int64_t dilation = 1; dilation < 5; ++dilation) {
        const ncx::Conv::Axis axis{stride, 3 - base, dilation, base};
        std::vector<int> seen(10, 0);
        for (const ConvAxisPhase& p : conv_axis_phases(axis, 4, 5, 10)) {
          for (int64_t i = 0; i < p.out; ++i) {
            const int64_t o = p.out_first + i * p.out_step;
            ++seen[static_cast<size_t>(o)];
            int64_t j = 0;
            for (int64_t w = 0; w < 5; ++w) {
              const int64_t at = o * stride + w * dilation - axis.low;
              if (at % base == 0) {
                EXPECT_LT(j, p.size);
                EXPECT_EQ(p.kernel_first + j * p.kernel_step, w);
                EXPECT_EQ(i * p.stride + j * p.dilation - p.low, at / base);
                ++j;
              }
            }
            EXPECT_EQ(j, p.size);
          }
        }
        EXPECT_EQ(seen, std::vector<int>(10, 1));
      }
    }
  }
}

// numpy: numpy.correlate([1, 2, 3, 4], [10, 1, 100], 'same') == [210, 321, 432, 43], and the same
// with every second element of the result.
TEST(Conv, MatchesNumpyOnAShortSignal) {
  Program program;
  ncx::Conv op;
  const auto view = [&](const Dims& dims, ncx::SlotUsage usage) {
    ncx::View made = testing::dense(ncx::Space::kIo, 0, Dtype::kF32, dims);
    made.slot = static_cast<uint16_t>(program.io.size());
    program.io.push_back({Dtype::kF32, dims, static_cast<uint64_t>(dims.back()) * 4, usage});
    return made;
  };
  op.input = view({1, 1, 1, 4}, ncx::SlotUsage::kInput);
  op.kernel = view({1, 1, 1, 3}, ncx::SlotUsage::kInput);
  op.axes = {{2, 1, 1, 1}};
  op.epilogue.results = {0};
  op.outputs = {view({1, 1, 1, 2}, ncx::SlotUsage::kOutput)};
  program.blocks.emplace_back().instructions.push_back({op});
  testing::Memory memory = testing::make_memory(program);
  const float x[] = {1, 2, 3, 4};
  const float w[] = {10, 1, 100};
  std::memcpy(memory.io[0].data(), x, sizeof x);
  std::memcpy(memory.io[1].data(), w, sizeof w);
  ASSERT_TRUE(testing::run_engine(program, memory, {nullptr, detect_simd_level()}).ok());
  float y[2];
  std::memcpy(y, memory.io[2].data(), sizeof y);
  EXPECT_EQ(y[0], 1 * 1 + 2 * 100);
  EXPECT_EQ(y[1], 2 * 10 + 3 * 1 + 4 * 100);
}

}  // namespace
}  // namespace onrt
