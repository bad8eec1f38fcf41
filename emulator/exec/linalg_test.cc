// SPDX-License-Identifier: Apache-2.0
// Linalg instructions against the oracle, which follows the order that isa/program.h lays down.
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/exec/testing/oracle.h"
#include "emulator/exec/testing/random_program.h"

namespace onrt {
namespace {

using ncx::Program;
using testing::ProgramBuilder;

Program random_program(std::mt19937& random) {
  ProgramBuilder builder(random);
  Program program;
  ncx::Linalg op;
  op.kind = builder.below(2) == 0 ? ncx::LinalgKind::kCholesky : ncx::LinalgKind::kTriangularSolve;
  op.unit_diagonal = static_cast<uint8_t>(builder.below(2));
  std::vector<int64_t> square;
  for (uint32_t d = 0, n = builder.below(3); d < n; ++d) {
    square.push_back(1 + builder.below(4));
  }
  const int64_t n = 1 + builder.below(12);
  square.insert(square.end(), {n, n});
  std::vector<int64_t> wide = square;
  wide.back() = builder.below(6) == 0 ? 150 : 1 + builder.below(9);
  op.a = builder.view(program, builder.any_float(), square, ncx::SlotUsage::kInput);
  if (op.kind == ncx::LinalgKind::kCholesky) {
    op.output = builder.view(program, builder.any_float(), square, ncx::SlotUsage::kOutput);
  } else {
    op.b = builder.view(program, builder.any_float(), wide, ncx::SlotUsage::kInput);
    op.output = builder.view(program, builder.any_float(), wide, ncx::SlotUsage::kOutput);
  }
  program.blocks.emplace_back().instructions.push_back({op});
  return program;
}

TEST(Linalg, RandomProgramsEqualTheOracle) {
  const uint32_t seed = 5;
  std::mt19937 random(seed);
  for (int round = 0; round < 150; ++round) {
    const Program program = random_program(random);
    ASSERT_EQ(testing::compare_with_oracle(program, random), "")
        << "seed " << seed << " round " << round;
  }
}

std::vector<float> run(ncx::Linalg op, const std::vector<float>& a, const std::vector<float>& b,
                       const std::vector<int64_t>& dims) {
  Program program;
  const auto view = [&](const std::vector<int64_t>& shape, ncx::SlotUsage usage) {
    uint64_t bytes = 4;
    for (const int64_t dim : shape) {
      bytes *= static_cast<uint64_t>(dim);
    }
    program.io.push_back({Dtype::kF32, shape, bytes, usage});
    return testing::dense(ncx::Space::kIo, static_cast<uint16_t>(program.io.size() - 1),
                          Dtype::kF32, shape);
  };
  op.a = view({3, 3}, ncx::SlotUsage::kInput);
  op.b = view(dims, ncx::SlotUsage::kInput);
  op.output = view(dims, ncx::SlotUsage::kOutput);
  program.blocks.emplace_back().instructions.push_back({op});
  testing::Memory memory = testing::make_memory(program);
  std::memcpy(memory.io[0].data(), a.data(), a.size() * 4);
  std::memcpy(memory.io[1].data(), b.data(), b.size() * 4);
  EXPECT_TRUE(testing::run_engine(program, memory, {nullptr, detect_simd_level()}).ok());
  std::vector<float> out(b.size());
  std::memcpy(out.data(), memory.io[2].data(), out.size() * 4);
  return out;
}

// By hand: [[2,0,0],[6,1,0],[-8,5,3]] times its transpose is [[4,12,-16],[12,37,-43],[-16,-43,98]].
TEST(Linalg, FactorsAMatrixOfWholeNumbers) {
  const std::vector<float> a = {4, 0, 0, 12, 37, 0, -16, -43, 98};
  const std::vector<float> l = {2, 0, 0, 6, 1, 0, -8, 5, 3};
  EXPECT_EQ(run({ncx::LinalgKind::kCholesky, 0, {}, {}, {}}, a, a, {3, 3}), l);
}

// By hand, with the same triangle: l (1, 2, 3) = (2, 8, 11).
TEST(Linalg, SolvesASystemOfWholeNumbers) {
  const std::vector<float> l = {2, 9, 9, 6, 1, 9, -8, 5, 3};
  const std::vector<float> x = {1, 2, 3};
  EXPECT_EQ(run({ncx::LinalgKind::kTriangularSolve, 0, {}, {}, {}}, l, {2, 8, 11}, {3, 1}), x);
}

}  // namespace
}  // namespace onrt
