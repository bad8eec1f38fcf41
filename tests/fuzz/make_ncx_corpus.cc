// SPDX-License-Identifier: Apache-2.0
// Writes random small programs as seeds for ncx_fuzz:
//   make_ncx_corpus FOLDER
#include <cstdio>
#include <fstream>

#include "emulator/exec/testing/oracle.h"
#include "emulator/exec/testing/random_program.h"
#include "emulator/isa/encoding.h"

namespace onrt {
namespace {

using ncx::Program;
using ncx::SlotUsage;
using testing::ProgramBuilder;

constexpr std::array<int64_t, 2> kDims = {6, 5};
constexpr std::array<int64_t, 1> kRow = {6};

ncx::Payload eltwise(ProgramBuilder& builder, Program& program) {
  ncx::Eltwise op;
  op.domain = {2, {6, 5}};
  std::vector<Dtype> types = {builder.any_type(), builder.any_type()};
  for (const Dtype type : types) {
    op.inputs.push_back(builder.view(program, type, kDims, SlotUsage::kInput));
  }
  builder.add_ops(op.program, types, 2, 8);
  op.program.results = {static_cast<uint16_t>(types.size() - 1)};
  op.outputs = {builder.view(program, types.back(), kDims, SlotUsage::kOutput)};
  return op;
}

ncx::Payload reduce(ProgramBuilder& builder, Program& program) {
  ncx::Reduce op;
  op.domain = {2, {6, 5}};
  op.reduced = 1;
  std::vector<Dtype> types = {builder.any_float()};
  op.inputs = {builder.view(program, types[0], kDims, SlotUsage::kInput)};
  builder.add_ops(op.prologue, types, 2, 3);
  op.prologue.results = {0};
  op.accumulators = {
      {types[0], ncx::ScalarOp::kAdd, builder.view(program, types[0], {}, SlotUsage::kInput)}};
  op.epilogue.results = {0};
  op.outputs = {builder.view(program, types[0], kRow, SlotUsage::kOutput)};
  return op;
}

ncx::Payload gemm(ProgramBuilder& builder, Program& program) {
  ncx::Gemm op;
  op.type = builder.any_float();
  const int64_t right[] = {5, 4};
  const int64_t out[] = {6, 4};
  op.lhs = builder.view(program, builder.any_float(), kDims, SlotUsage::kInput);
  op.rhs = builder.view(program, builder.any_float(), right, SlotUsage::kInput);
  std::vector<Dtype> types = {op.type};
  builder.add_ops(op.epilogue, types, 2, 3);
  op.epilogue.results = {static_cast<uint16_t>(types.size() - 1)};
  op.outputs = {builder.view(program, types.back(), out, SlotUsage::kOutput)};
  return op;
}

ncx::Payload convolution(ProgramBuilder& builder, Program& program) {
  ncx::Conv op;
  op.type = builder.any_float();
  const int64_t input[] = {2, 1, 3, 5};
  const int64_t kernel[] = {2, 3, 4, 2};
  const int64_t out[] = {2, 1, 4, 7};
  op.input = builder.view(program, builder.any_float(), input, SlotUsage::kInput);
  op.kernel = builder.view(program, builder.any_float(), kernel, SlotUsage::kInput);
  op.axes = {{1 + builder.below(2), 1, 1 + builder.below(2), 1 + builder.below(3)}};
  std::vector<Dtype> types = {op.type};
  builder.add_ops(op.epilogue, types, 4, 3);
  op.epilogue.results = {static_cast<uint16_t>(types.size() - 1)};
  op.outputs = {builder.view(program, types.back(), out, SlotUsage::kOutput)};
  return op;
}

ncx::Payload linear_algebra(ProgramBuilder& builder, Program& program) {
  ncx::Linalg op;
  const int64_t square[] = {2, 4, 4};
  const int64_t wide[] = {2, 4, 3};
  op.kind = builder.below(2) == 0 ? ncx::LinalgKind::kCholesky : ncx::LinalgKind::kTriangularSolve;
  const bool solve = op.kind == ncx::LinalgKind::kTriangularSolve;
  op.a = builder.view(program, builder.any_float(), square, SlotUsage::kInput);
  if (solve) {
    op.b = builder.view(program, builder.any_float(), wide, SlotUsage::kInput);
  }
  op.output = builder.view(program, builder.any_float(),
                           solve ? std::span<const int64_t>(wide) : square, SlotUsage::kOutput);
  return op;
}

ncx::Payload move(ProgramBuilder& builder, Program& program, uint32_t kind) {
  const Dtype type = builder.any_type();
  const int64_t indices[] = {6, 1};
  const ncx::View in = builder.view(program, type, kDims, SlotUsage::kInput);
  const ncx::View out = builder.view(program, type, kDims, SlotUsage::kOutput);
  const ncx::View at = builder.view(program, builder.any_integer(), indices, SlotUsage::kInput);
  const ncx::View start = builder.view(program, Dtype::kS32, {}, SlotUsage::kInput);
  switch (kind) {
    case 0:
      return ncx::Copy{{{in, out}}};
    case 1:
      return ncx::DynamicSlice{in, out, {start, start}};
    case 2:
      return ncx::DynamicUpdateSlice{out, in, {start, start}};
    case 3:
      return ncx::Gather{in, at, out, {1}, {0}, {0}, {}, {}, 1, {1, 5}};
    case 4: {
      ncx::Scatter op;
      op.outputs = {out};
      op.indices = at;
      op.updates = {in};
      op.combiner.ops = {{ncx::ScalarOp::kMaximum, type, {0, 1, 0}, 0}};
      op.combiner.results = {2};
      op.update_window_dims = {1};
      op.inserted_window_dims = {0};
      op.scatter_dims_to_operand_dims = {0};
      op.index_vector_dim = 1;
      return op;
    }
    default: {
      ncx::Rng op;
      op.kind = ncx::RngKind::kUniform;
      op.output = builder.view(program, Dtype::kF32, kDims, SlotUsage::kOutput);
      op.a = op.b = builder.view(program, Dtype::kF32, {}, SlotUsage::kInput);
      return op;
    }
  }
}

ncx::Payload sort(ProgramBuilder& builder, Program& program) {
  ncx::Sort op;
  const Dtype type = builder.any_type();
  op.inputs = {builder.view(program, type, kDims, SlotUsage::kInput)};
  op.outputs = {builder.view(program, type, kDims, SlotUsage::kOutput),
                builder.view(program, Dtype::kU32, kDims, SlotUsage::kOutput)};
  op.dimension = static_cast<uint8_t>(builder.below(2));
  const ncx::ScalarOp compare =
      builder.below(2) == 0 ? ncx::ScalarOp::kCompareLt : ncx::ScalarOp::kCompareLe;
  op.comparator = {{{compare, Dtype::kPred, {0, 1, 0}, 0}}, {2}};
  return op;
}

// 3 x 5 windows of 2 x 3 with padding, or running folds.
std::vector<ncx::WindowDimension> window(ProgramBuilder& builder) {
  if (builder.below(2) == 0) {
    return {{2, 2, 0, 1, 1}, {3, 1, 1, 1, 1}};
  }
  return {{6, 1, 5, 1, 1}, {}};
}

ncx::Payload reduce_window(ProgramBuilder& builder, Program& program) {
  ncx::ReduceWindow op;
  const Dtype type = builder.any_float();
  op.window = window(builder);
  const int64_t windows[] = {op.window[0].size == 2 ? 3 : 6, 5};
  op.inputs = {builder.view(program, type, kDims, SlotUsage::kInput)};
  op.accumulators = {
      {type, ncx::ScalarOp::kMaximum, builder.view(program, type, {}, SlotUsage::kInput)}};
  if (builder.below(2) == 0) {
    op.general = {{{ncx::ScalarOp::kAdd, type, {0, 1, 0}, 0}}, {2}};
  }
  op.outputs = {builder.view(program, type, windows, SlotUsage::kOutput)};
  return op;
}

ncx::Payload select_scatter(ProgramBuilder& builder, Program& program) {
  ncx::SelectScatter op;
  const Dtype type = builder.any_type();
  op.window = {{2, 2, 0, 1, 1}, {3, 1, 1, 1, 1}};
  const int64_t windows[] = {3, 5};
  op.operand = builder.view(program, type, kDims, SlotUsage::kInput);
  op.source = builder.view(program, type, windows, SlotUsage::kInput);
  op.init = builder.view(program, type, {}, SlotUsage::kInput);
  op.output = builder.view(program, type, kDims, SlotUsage::kOutput);
  op.select = {{{ncx::ScalarOp::kCompareGe, Dtype::kPred, {0, 1, 0}, 0}}, {2}};
  op.scatter = {{{ncx::ScalarOp::kMaximum, type, {0, 1, 0}, 0}}, {2}};
  return op;
}

int write_corpus(const std::string& folder) {
  std::mt19937 random(1);
  for (uint32_t i = 0; i < 56; ++i) {
    ProgramBuilder builder(random);
    Program program;
    program.semaphores = 2;
    program.names = {"seed"};
    program.blocks.resize(1);
    const ncx::Payload payload = i >= 52      ? select_scatter(builder, program)
                                 : i >= 48    ? reduce_window(builder, program)
                                 : i >= 44    ? sort(builder, program)
                                 : i >= 40    ? linear_algebra(builder, program)
                                 : i >= 36    ? convolution(builder, program)
                                 : i % 9 == 0 ? eltwise(builder, program)
                                 : i % 9 == 1 ? reduce(builder, program)
                                 : i % 9 == 2 ? gemm(builder, program)
                                              : move(builder, program, i % 9 - 3);
    program.blocks[0].instructions = {{payload, ncx::Engine::kDve, {}, {{0, 1}}},
                                      {payload, ncx::Engine::kPool, {{0, 1}}, {}}};
    if (i % 9 == 8) {
      program.blocks.resize(2);
      program.blocks[1] = program.blocks[0];
      program.blocks[0].instructions = {{ncx::Call{1}, ncx::Engine::kSp}};
    }
    const auto code = ncx::encode(program, {});
    if (!code.ok()) {
      std::fprintf(stderr, "%s\n", std::string(code.status().message()).c_str());
      return 1;
    }
    std::ofstream file(folder + "/seed" + std::to_string(i), std::ios::binary);
    file.write(reinterpret_cast<const char*>(code->data()),
               static_cast<std::streamsize>(code->size()));
  }
  return 0;
}

}  // namespace
}  // namespace onrt

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_ncx_corpus FOLDER\n");
    return 2;
  }
  return onrt::write_corpus(argv[1]);
}
