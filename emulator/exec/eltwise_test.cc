// SPDX-License-Identifier: Apache-2.0
// Random elementwise instructions against the scalar reference (emulator/isa/scalar_value.h), which
// scalar_ops_test.cc in turn compares with libm and with tables from JAX.
#include <gtest/gtest.h>

#include "emulator/exec/testing/oracle.h"
#include "emulator/exec/testing/random_program.h"

namespace onrt {
namespace {

using ncx::Eltwise;
using ncx::Program;
using testing::Memory;
using testing::ProgramBuilder;

Program random_program(std::mt19937& random) {
  ProgramBuilder builder(random);
  Program program;
  Eltwise op;
  op.domain.rank = static_cast<uint8_t>(builder.below(5));
  std::vector<int64_t> dims;
  int64_t elements = 1;
  for (int d = 0; d < op.domain.rank; ++d) {
    const int64_t most = elements > 200 ? 3 : (builder.below(8) == 0 ? 1500 : 24);
    dims.push_back(1 + builder.below(static_cast<uint32_t>(most)));
    op.domain.dims[static_cast<size_t>(d)] = dims.back();
    elements *= dims.back();
  }
  std::vector<Dtype> types;
  const Dtype favourite = builder.any_type();
  for (uint32_t i = 0, n = 1 + builder.below(4); i < n; ++i) {
    const Dtype dtype = builder.below(3) == 0 ? builder.any_type() : favourite;
    op.inputs.push_back(builder.view(program, dtype, dims, ncx::SlotUsage::kInput));
    types.push_back(dtype);
  }
  for (uint32_t i = 0, n = builder.below(200); i < n && op.program.ops.size() < 20; ++i) {
    builder.add_op(op.program, types, op.domain.rank);
  }
  for (uint32_t i = 0, n = 1 + builder.below(3); i < n; ++i) {
    const auto last = static_cast<uint32_t>(types.size());
    const uint32_t reg = last - 1 - builder.below(std::min(last, 4u));
    op.program.results.push_back(static_cast<uint16_t>(reg));
    op.outputs.push_back(builder.view(program, types[reg], dims, ncx::SlotUsage::kOutput));
  }
  ncx::Instruction instruction;
  instruction.payload = op;
  program.blocks.emplace_back().instructions.push_back(instruction);
  return program;
}

TEST(Eltwise, RandomProgramsEqualTheScalarReference) {
  const uint32_t seed = 20261130;
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    const Program program = random_program(random);
    ASSERT_EQ(testing::compare_with_oracle(program, random), "")
        << "seed " << seed << " round " << round;
  }
}

// Program of one instruction on `inputs` arrays of one type; the last op is the result.
Program program_of(Dtype dtype, size_t inputs, std::vector<ncx::MicroOp> ops) {
  constexpr int64_t kElements = 1100;  // more than a block, and a part of a vector
  Program program;
  Eltwise op;
  const int64_t dims[] = {kElements};
  op.domain = {1, {kElements}};
  const Dtype result = ops.back().type;
  for (size_t i = 0; i < inputs; ++i) {
    program.io.push_back({dtype, {kElements}, uint64_t{kElements} * dtype_bytes(dtype)});
    op.inputs.push_back(testing::dense(ncx::Space::kIo, static_cast<uint16_t>(i), dtype, dims));
  }
  program.io.push_back(
      {result, {kElements}, uint64_t{kElements} * dtype_bytes(result), ncx::SlotUsage::kOutput});
  op.outputs = {testing::dense(ncx::Space::kIo, static_cast<uint16_t>(inputs), result, dims)};
  op.program.results = {static_cast<uint16_t>(inputs + ops.size() - 1)};
  op.program.ops = std::move(ops);
  program.blocks.emplace_back().instructions.push_back({op});
  return program;
}

using ncx::ScalarOp;

TEST(Eltwise, PairsOfOpsEqualTheScalarReference) {
  std::mt19937 random(5);
  const ScalarOp ops[] = {ScalarOp::kAdd, ScalarOp::kSubtract, ScalarOp::kMultiply};
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64, Dtype::kBF16, Dtype::kS32, Dtype::kU32,
                            Dtype::kU8, Dtype::kS64}) {
    for (const ScalarOp inner : ops) {
      for (const ScalarOp outer : ops) {
        const Program first =
            program_of(dtype, 3, {{inner, dtype, {0, 1, 0}, 0}, {outer, dtype, {3, 2, 0}, 0}});
        const Program second =
            program_of(dtype, 3, {{inner, dtype, {0, 1, 0}, 0}, {outer, dtype, {2, 3, 0}, 0}});
        // The inner value is needed twice.
        const Program twice = program_of(dtype, 3,
                                         {{inner, dtype, {0, 1, 0}, 0},
                                          {outer, dtype, {3, 2, 0}, 0},
                                          {ScalarOp::kAdd, dtype, {4, 3, 0}, 0}});
        for (const Program* program : {&first, &second, &twice}) {
          ASSERT_EQ(testing::compare_with_oracle(*program, random), "")
              << dtype_name(dtype) << " " << ncx::scalar_op_info(inner).name << " "
              << ncx::scalar_op_info(outer).name;
        }
      }
    }
  }
}

TEST(Eltwise, SelectionByAComparisonWithAConstantEqualsTheScalarReference) {
  std::mt19937 random(6);
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF16, Dtype::kS32, Dtype::kU32, Dtype::kS8,
                            Dtype::kPred, Dtype::kU64}) {
    for (int number = 0; number < 6; ++number) {
      const auto compare = static_cast<ScalarOp>(static_cast<int>(ScalarOp::kCompareEq) + number);
      for (const uint16_t constant_first : {0, 1}) {
        std::vector<ncx::MicroOp> ops = {{ScalarOp::kConstant, dtype, {}, 1},
                                         {compare, Dtype::kPred, {0, 3, 0}, 0},
                                         {ScalarOp::kSelect, dtype, {4, 1, 2}, 0}};
        if (constant_first != 0) {
          ops[1].operands = {3, 0, 0};
        }
        ASSERT_EQ(testing::compare_with_oracle(program_of(dtype, 3, ops), random), "")
            << dtype_name(dtype) << " " << ncx::scalar_op_info(compare).name << constant_first;
      }
    }
  }
}

TEST(Eltwise, APredThatDiffersFromAConstantEqualsTheScalarReference) {
  std::mt19937 random(10);
  for (const uint64_t constant : {0, 1, 255}) {
    for (const ScalarOp compare : {ScalarOp::kCompareNe, ScalarOp::kCompareEq}) {
      const Program program = program_of(Dtype::kPred, 2,
                                         {{ScalarOp::kConstant, Dtype::kPred, {}, constant},
                                          {compare, Dtype::kPred, {0, 2, 0}, 0},
                                          {ScalarOp::kAnd, Dtype::kPred, {3, 1, 0}, 0}});
      ASSERT_EQ(testing::compare_with_oracle(program, random), "") << constant;
    }
  }
}

TEST(Eltwise, RotationsEqualTheScalarReference) {
  std::mt19937 random(7);
  for (const Dtype dtype : {Dtype::kU32, Dtype::kS32, Dtype::kU8, Dtype::kU64}) {
    for (const auto& [left, right] :
         {std::pair<uint64_t, uint64_t>{13, 19}, {5, 5}, {0, 31}, {31, 0}, {32, 1}, {1, 40}}) {
      std::vector<ncx::MicroOp> ops = {{ScalarOp::kConstant, dtype, {}, left},
                                       {ScalarOp::kConstant, dtype, {}, right},
                                       {ScalarOp::kShiftLeft, dtype, {0, 2, 0}, 0},
                                       {ScalarOp::kShiftRightLogical, dtype, {0, 3, 0}, 0},
                                       {ScalarOp::kOr, dtype, {5, 4, 0}, 0}};
      ASSERT_EQ(testing::compare_with_oracle(program_of(dtype, 2, ops), random), "")
          << dtype_name(dtype) << " " << left << " " << right;
      ops.push_back({ScalarOp::kXor, dtype, {1, 6, 0}, 0});
      ASSERT_EQ(testing::compare_with_oracle(program_of(dtype, 2, ops), random), "")
          << dtype_name(dtype) << " " << left << " " << right << " and exclusive or";
    }
  }
}

TEST(Eltwise, RotationsByAValueEqualTheScalarReference) {
  std::mt19937 random(8);
  for (const uint64_t mask : {0x1f, 0x3f, 0xff}) {  // counts below 32, and larger ones
    std::vector<ncx::MicroOp> ops = {{ScalarOp::kConstant, Dtype::kU32, {}, mask},
                                     {ScalarOp::kAnd, Dtype::kU32, {1, 3, 0}, 0},
                                     {ScalarOp::kConstant, Dtype::kU32, {}, 32},
                                     {ScalarOp::kSubtract, Dtype::kU32, {5, 4, 0}, 0},
                                     {ScalarOp::kShiftLeft, Dtype::kU32, {0, 4, 0}, 0},
                                     {ScalarOp::kShiftRightLogical, Dtype::kU32, {0, 6, 0}, 0},
                                     {ScalarOp::kOr, Dtype::kU32, {7, 8, 0}, 0}};
    ASSERT_EQ(testing::compare_with_oracle(program_of(Dtype::kU32, 3, ops), random), "") << mask;
    ops.push_back({ScalarOp::kXor, Dtype::kU32, {9, 2, 0}, 0});
    ASSERT_EQ(testing::compare_with_oracle(program_of(Dtype::kU32, 3, ops), random), "") << mask;
  }
}

TEST(Eltwise, DivisionsOfIntegersEqualTheScalarReference) {
  std::mt19937 random(9);
  for (const Dtype dtype : {Dtype::kS32, Dtype::kU32, Dtype::kS8, Dtype::kU8, Dtype::kS16,
                            Dtype::kU16, Dtype::kS64, Dtype::kU64}) {
    for (const ScalarOp op : {ScalarOp::kDivide, ScalarOp::kRemainder}) {
      for (const uint64_t by :
           {0u, 1u, 2u, 3u, 7u, 8u, 100u, 105u, 127u, 128u, 255u, 0x4000u, 0xffffu, 0x10001u,
            0x40000000u, 0x7fffffffu, 0x80000000u, 0xffffffffu, 0xfffffffdu}) {
        ASSERT_EQ(testing::compare_with_oracle(
                      program_of(dtype, 1,
                                 {{ScalarOp::kConstant, dtype, {}, by}, {op, dtype, {0, 1, 0}, 0}}),
                      random),
                  "")
            << dtype_name(dtype) << " " << ncx::scalar_op_info(op).name << " by " << by;
      }
      ASSERT_EQ(
          testing::compare_with_oracle(program_of(dtype, 2, {{op, dtype, {0, 1, 0}, 0}}), random),
          "")
          << dtype_name(dtype) << " " << ncx::scalar_op_info(op).name;
    }
  }
}

// Large enough for squares of two loops; sizes that are no multiples of a square, types that lie in
// memory as registers do and types that don't.
TEST(Eltwise, TransposedOperandsEqualTheScalarReference) {
  std::mt19937 random(3);
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kS64}) {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{70, 130}, {64, 96}, {9, 1000}}) {
      Program program;
      Eltwise op;
      const int64_t dims[] = {2, rows, columns};
      op.domain = {3, {2, rows, columns}};
      const uint64_t bytes = static_cast<uint64_t>(2 * rows * columns) * dtype_bytes(dtype);
      program.io = {{dtype, {2, rows, columns}, bytes},
                    {dtype, {2, rows, columns}, bytes},
                    {dtype, {2, rows, columns}, bytes, ncx::SlotUsage::kOutput}};
      const ncx::View plain = testing::dense(ncx::Space::kIo, 0, dtype, dims);
      ncx::View transposed = testing::dense(ncx::Space::kIo, 1, dtype, dims);
      transposed.strides = {rows * columns, 1, rows};
      op.inputs = {plain, transposed};
      op.program.ops = {{ncx::ScalarOp::kIota, dtype, {}, 1},
                        {ncx::ScalarOp::kAdd, dtype, {0, 1, 0}, 0},
                        {ncx::ScalarOp::kSubtract, dtype, {3, 2, 0}, 0}};
      op.program.results = {4};
      op.outputs = {testing::dense(ncx::Space::kIo, 2, dtype, dims)};
      program.blocks.emplace_back().instructions.push_back({op});
      ASSERT_EQ(testing::compare_with_oracle(program, random), "") << rows << " x " << columns;
    }
  }
}

}  // namespace
}  // namespace onrt
