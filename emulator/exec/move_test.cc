// SPDX-License-Identifier: Apache-2.0
// Copies, gathers, scatters and dynamic slices against the plain loops of the oracle.
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/exec/testing/oracle.h"
#include "emulator/exec/testing/random_program.h"

namespace onrt {
namespace {

using ncx::Program;
using ncx::ScalarOp;
using testing::Memory;
using testing::ProgramBuilder;

std::vector<int64_t> random_dims(ProgramBuilder& builder, uint32_t rank, uint32_t most) {
  std::vector<int64_t> dims;
  for (uint32_t d = 0; d < rank; ++d) {
    dims.push_back(1 + builder.below(most));
  }
  return dims;
}

Memory random_memory(const Program& program, std::mt19937& random) {
  Memory memory = testing::make_memory(program);
  for (size_t i = 0; i < program.io.size(); ++i) {
    testing::randomise(memory.io[i], program.io[i].dtype, random);
  }
  return memory;
}

TEST(Copy, RandomViewsEqualTheOracle) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    ProgramBuilder builder(random);
    Program program;
    ncx::Copy op;
    for (uint32_t i = 0, n = 1 + builder.below(2); i < n; ++i) {
      const uint32_t rank = builder.below(5);
      const auto dims = random_dims(builder, rank, rank <= 2 ? 120 : 12);
      const Dtype dtype = builder.any_type();
      op.pieces.push_back({builder.view(program, dtype, dims, ncx::SlotUsage::kInput),
                           builder.view(program, dtype, dims, ncx::SlotUsage::kOutput)});
    }
    program.blocks.emplace_back().instructions.push_back({op});
    ASSERT_EQ(testing::compare_with_oracle(program, random), "") << "round " << round;
  }
}

TEST(DynamicSlice, ClampsStartsAndEqualsTheOracle) {
  std::mt19937 random(12);
  for (int round = 0; round < 100; ++round) {
    ProgramBuilder builder(random);
    Program program;
    const uint32_t rank = builder.below(5);
    const auto whole = random_dims(builder, rank, 12);
    std::vector<int64_t> window;
    for (const int64_t dim : whole) {
      window.push_back(1 + builder.below(static_cast<uint32_t>(dim)));
    }
    const Dtype dtype = builder.any_type();
    const bool update = builder.below(2) == 0;
    const auto big = builder.view(program, dtype, whole,
                                  update ? ncx::SlotUsage::kOutput : ncx::SlotUsage::kInput);
    const auto small = builder.view(program, dtype, window,
                                    update ? ncx::SlotUsage::kInput : ncx::SlotUsage::kOutput);
    const Dtype index = builder.any_integer();
    std::vector<ncx::View> starts;
    for (uint32_t d = 0; d < rank; ++d) {
      starts.push_back(builder.view(program, index, {}, ncx::SlotUsage::kInput));
    }
    ncx::Instruction instruction;
    if (update) {
      instruction.payload = ncx::DynamicUpdateSlice{big, small, starts};
    } else {
      instruction.payload = ncx::DynamicSlice{big, small, starts};
    }
    program.blocks.emplace_back().instructions.push_back(instruction);
    ASSERT_EQ(testing::compare_with_oracle(program, random), "") << "round " << round;
  }
}

// Dimension numbers of a gather or scatter with consistent shapes.
struct Indexing {
  std::vector<int64_t> whole, indices, result, window_dims, removed, map, whole_batch,
      indices_batch, slice_sizes;
  int64_t vector_dim = 0;
};

// Random numbers made from the definition: batch dims of indices, a vector dim, a window.
Indexing random_indexing(ProgramBuilder& builder) {
  Indexing x;
  const uint32_t rank = 1 + builder.below(4);
  x.whole = random_dims(builder, rank, 7);
  std::vector<int64_t> batch = random_dims(builder, builder.below(3), 6);
  for (uint32_t d = 0; d < rank; ++d) {
    const auto dim = static_cast<int64_t>(d);
    switch (builder.below(4)) {
      case 0:  // a batching dimension, if the indices have one more
        if (x.indices_batch.size() < batch.size()) {
          const auto at = static_cast<int64_t>(x.indices_batch.size());
          batch[static_cast<size_t>(at)] = x.whole[d];
          x.whole_batch.push_back(dim);
          x.indices_batch.push_back(at);
          x.slice_sizes.push_back(1);
          break;
        }
        [[fallthrough]];
      case 1:  // indexed, one element
        x.map.push_back(dim);
        x.removed.push_back(dim);
        x.slice_sizes.push_back(1);
        break;
      case 2:  // indexed, a window
        x.map.push_back(dim);
        x.slice_sizes.push_back(1 + builder.below(static_cast<uint32_t>(x.whole[d])));
        break;
      default:  // whole dimension
        x.slice_sizes.push_back(x.whole[d]);
    }
  }
  if (x.map.size() > 1 && builder.below(2) == 0) {
    std::swap(x.map.front(), x.map.back());
  }
  x.indices = batch;
  x.vector_dim = static_cast<int64_t>(batch.size());
  if (x.map.size() != 1 || builder.below(2) == 0) {
    x.vector_dim = x.indices_batch.empty() ? builder.below(static_cast<uint32_t>(batch.size()) + 1)
                                           : static_cast<int64_t>(batch.size());
    x.indices.insert(x.indices.begin() + x.vector_dim, static_cast<int64_t>(x.map.size()));
  }
  // The result: window dims at random places among the batch dims.
  std::vector<int64_t> window;
  for (uint32_t d = 0; d < rank; ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (std::find(x.removed.begin(), x.removed.end(), dim) == x.removed.end() &&
        std::find(x.whole_batch.begin(), x.whole_batch.end(), dim) == x.whole_batch.end()) {
      window.push_back(x.slice_sizes[d]);
    }
  }
  size_t w = 0;
  size_t b = 0;
  while (w < window.size() || b < batch.size()) {
    if (b == batch.size() || (w < window.size() && builder.below(2) == 0)) {
      x.window_dims.push_back(static_cast<int64_t>(x.result.size()));
      x.result.push_back(window[w++]);
    } else {
      x.result.push_back(batch[b++]);
    }
  }
  return x;
}

// Small indices, some out of bounds.
void randomise_indices(std::vector<std::byte>& bytes, Dtype dtype, std::mt19937& random) {
  const size_t width = dtype_bytes(dtype);
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    const int64_t value = random() % 16 == 0 ? static_cast<int64_t>(random()) - (1 << 30)
                                             : static_cast<int64_t>(random() % 9) - 1;
    std::memcpy(bytes.data() + at, &value, width);
  }
}

TEST(Gather, RandomDimensionNumbersEqualTheDefinition) {
  std::mt19937 random(13);
  for (int round = 0; round < 120; ++round) {
    ProgramBuilder builder(random);
    const Indexing x = random_indexing(builder);
    Program program;
    ncx::Gather op;
    const Dtype dtype = builder.any_type();
    op.operand = builder.view(program, dtype, x.whole, ncx::SlotUsage::kInput);
    op.indices = builder.view(program, builder.any_integer(), x.indices, ncx::SlotUsage::kInput);
    op.output = builder.view(program, dtype, x.result, ncx::SlotUsage::kOutput);
    op.offset_dims = x.window_dims;
    op.collapsed_slice_dims = x.removed;
    op.start_index_map = x.map;
    op.operand_batching_dims = x.whole_batch;
    op.start_indices_batching_dims = x.indices_batch;
    op.index_vector_dim = x.vector_dim;
    op.slice_sizes = x.slice_sizes;
    program.blocks.emplace_back().instructions.push_back({op});
    Memory memory = random_memory(program, random);
    randomise_indices(memory.io[1], op.indices.dtype, random);
    ASSERT_EQ(testing::compare_with_oracle(program, memory), "") << "round " << round;
  }
}

TEST(Scatter, RandomDimensionNumbersEqualTheDefinition) {
  std::mt19937 random(14);
  for (int round = 0; round < 120; ++round) {
    ProgramBuilder builder(random);
    const Indexing x = random_indexing(builder);
    Program program;
    ncx::Scatter op;
    const uint32_t arrays = 1 + builder.below(2);
    std::vector<Dtype> types;
    for (uint32_t a = 0; a < arrays; ++a) {
      types.push_back(builder.below(2) == 0 ? Dtype::kF32 : builder.any_type());
      op.outputs.push_back(builder.view(program, types[a], x.whole, ncx::SlotUsage::kOutput));
      op.updates.push_back(builder.view(program, types[a], x.result, ncx::SlotUsage::kInput));
    }
    op.indices = builder.view(program, builder.any_integer(), x.indices, ncx::SlotUsage::kInput);
    for (uint32_t a = 0; a < arrays; ++a) {
      if (builder.below(3) == 0) {  // the update replaces
        op.combiner.results.push_back(static_cast<uint16_t>(arrays + a));
        continue;
      }
      op.combiner.results.push_back(static_cast<uint16_t>(2 * arrays + op.combiner.ops.size()));
      op.combiner.ops.push_back({builder.below(2) == 0 ? ScalarOp::kAdd : ScalarOp::kMaximum,
                                 types[a],
                                 {static_cast<uint16_t>(a), static_cast<uint16_t>(arrays + a), 0},
                                 0});
    }
    op.update_window_dims = x.window_dims;
    op.inserted_window_dims = x.removed;
    op.scatter_dims_to_operand_dims = x.map;
    op.input_batching_dims = x.whole_batch;
    op.scatter_indices_batching_dims = x.indices_batch;
    op.index_vector_dim = x.vector_dim;
    program.blocks.emplace_back().instructions.push_back({op});
    Memory memory = random_memory(program, random);
    randomise_indices(memory.io[op.indices.slot], op.indices.dtype, random);
    ASSERT_EQ(testing::compare_with_oracle(program, memory), "") << "round " << round;
  }
}

TEST(Gather, SingleElementsEqualTheDefinition) {
  std::mt19937 random(16);
  for (int round = 0; round < 60; ++round) {
    ProgramBuilder builder(random);
    const Dtype dtype = builder.any_type();
    Program program;
    const int64_t whole[] = {3, 5};
    const int64_t vectors = 1 + builder.below(3000);
    const int64_t indices[] = {vectors, 2};
    ncx::Gather op;
    op.operand = builder.view(program, dtype, whole, ncx::SlotUsage::kInput);
    op.indices = builder.view(program, builder.any_integer(), indices, ncx::SlotUsage::kInput);
    op.output = builder.view(program, dtype, {&vectors, 1}, ncx::SlotUsage::kOutput);
    op.collapsed_slice_dims = {0, 1};
    op.start_index_map = {1, 0};
    op.index_vector_dim = 1;
    op.slice_sizes = {1, 1};
    program.blocks.emplace_back().instructions.push_back({op});
    Memory memory = random_memory(program, random);
    randomise_indices(memory.io[1], op.indices.dtype, random);
    ASSERT_EQ(testing::compare_with_oracle(program, memory), "") << "round " << round;
  }
}

// As torch.gather makes them: one index for each element, rows apart.
TEST(Gather, SingleElementsOfRowsEqualTheDefinition) {
  std::mt19937 random(17);
  for (int round = 0; round < 60; ++round) {
    ProgramBuilder builder(random);
    const Dtype dtype = builder.any_type();
    Program program;
    const int64_t rows = 1 + builder.below(40);
    const int64_t length = 1 + builder.below(70);
    const int64_t count = 1 + builder.below(50);
    const int64_t whole[] = {rows, length};
    const int64_t picked[] = {rows, count};
    ncx::Gather op;
    op.operand = builder.view(program, dtype, whole, ncx::SlotUsage::kInput);
    op.indices = builder.view(program, builder.any_integer(), picked, ncx::SlotUsage::kInput);
    op.output = builder.view(program, dtype, picked, ncx::SlotUsage::kOutput);
    op.collapsed_slice_dims = {1};
    op.start_index_map = {1};
    op.operand_batching_dims = {0};
    op.start_indices_batching_dims = {0};
    op.index_vector_dim = 2;
    op.slice_sizes = {1, 1};
    program.blocks.emplace_back().instructions.push_back({op});
    Memory memory = random_memory(program, random);
    randomise_indices(memory.io[1], op.indices.dtype, random);
    ASSERT_EQ(testing::compare_with_oracle(program, memory), "") << "round " << round;
  }
}

// Windows of one element take a path of their own (element_scatter.h).
TEST(Scatter, SingleElementsAreCombinedInOrder) {
  std::mt19937 random(15);
  constexpr ScalarOp kCombiners[] = {ScalarOp::kConstant, ScalarOp::kAdd,     ScalarOp::kMultiply,
                                     ScalarOp::kMaximum,  ScalarOp::kMinimum, ScalarOp::kSubtract};
  constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kS32, Dtype::kU32,
                              Dtype::kS64, Dtype::kU64, Dtype::kBF16};
  for (const Dtype dtype : kTypes) {
    for (const ScalarOp combiner : kCombiners) {
      ProgramBuilder builder(random);
      Program program;
      ncx::Scatter op;
      const int64_t whole[] = {3, 5};
      const int64_t updates[] = {4, 500};
      const int64_t indices[] = {4, 500, 2};
      op.outputs = {builder.view(program, dtype, whole, ncx::SlotUsage::kOutput)};
      op.updates = {builder.view(program, dtype, updates, ncx::SlotUsage::kInput)};
      op.indices = builder.view(program, builder.any_integer(), indices, ncx::SlotUsage::kInput);
      if (combiner == ScalarOp::kConstant) {
        op.combiner.results = {1};
      } else {
        op.combiner.ops = {{combiner, dtype, {0, 1, 0}, 0}};
        op.combiner.results = {2};
      }
      op.inserted_window_dims = {0, 1};
      op.scatter_dims_to_operand_dims = {1, 0};
      op.index_vector_dim = 2;
      program.blocks.emplace_back().instructions.push_back({op});
      Memory memory = random_memory(program, random);
      randomise_indices(memory.io[op.indices.slot], op.indices.dtype, random);
      ASSERT_EQ(testing::compare_with_oracle(program, memory), "");
    }
  }
}

}  // namespace
}  // namespace onrt
