// SPDX-License-Identifier: Apache-2.0
#include "emulator/isa/encoding.h"

#include <gtest/gtest.h>

#include <random>

namespace onrt::ncx {
namespace {

View view(Space space, uint16_t slot, Dtype dtype, std::vector<int64_t> dims) {
  View v;
  v.space = space;
  v.slot = slot;
  v.dtype = dtype;
  v.rank = static_cast<uint8_t>(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    v.dims[d] = dims[d];
    v.strides[d] = stride;
    stride *= dims[d];
  }
  return v;
}

// Instructions 12 to 14: sort, reduce-window, select-and-scatter.
void add_ordered(std::vector<Instruction>& main, const View& a, const View& scratch,
                 const View& scalar) {
  Sort sort;
  sort.inputs = {a};
  sort.outputs = {scratch, view(Space::kScratch, 0, Dtype::kS32, {4, 8})};
  sort.outputs[1].offset = 512;
  sort.dimension = 1;
  sort.comparator.ops = {{ScalarOp::kCompareLt, Dtype::kPred, {0, 1, 0}, 0}};
  sort.comparator.results = {2};
  main.push_back({sort, Engine::kPool});

  ReduceWindow windows;
  windows.inputs = {a};
  windows.window = {{2, 2, 0, 1, 1}, {3, 1, 1, 1, 1}};
  windows.accumulators = {{Dtype::kF32, ScalarOp::kMaximum, scalar}};
  windows.outputs = {view(Space::kScratch, 0, Dtype::kF32, {2, 8})};
  main.push_back({windows, Engine::kDve});

  SelectScatter select;
  select.operand = a;
  select.source = view(Space::kScratch, 0, Dtype::kF32, {2, 8});
  select.init = scalar;
  select.output = scratch;
  select.output.offset = 512;
  select.window = windows.window;
  select.select.ops = {{ScalarOp::kCompareGe, Dtype::kPred, {0, 1, 0}, 0}};
  select.select.results = {2};
  select.scatter.ops = {{ScalarOp::kAdd, Dtype::kF32, {0, 1, 0}, 0}};
  select.scatter.results = {2};
  main.push_back({select, Engine::kPool});
}

// One of every instruction, over small views.
Program everything() {
  Program p;
  p.scratch_bytes = 4096;
  p.semaphores = 4;
  p.names = {"main", "add.1", "odd\x01name"};
  p.io = {{Dtype::kF32, {4, 8}, 128},
          {Dtype::kS32, {4}, 16},
          {Dtype::kF32, {4, 8}, 128, SlotUsage::kOutput}};
  const View a = view(Space::kIo, 0, Dtype::kF32, {4, 8});
  const View out = view(Space::kIo, 2, Dtype::kF32, {4, 8});
  const View scratch = view(Space::kScratch, 0, Dtype::kF32, {4, 8});
  const View scalar = view(Space::kConstants, 0, Dtype::kF32, {});
  const View start = view(Space::kIo, 1, Dtype::kS32, {});
  auto& main = p.blocks.emplace_back().instructions;

  Eltwise eltwise;
  eltwise.domain = {2, {4, 8}};
  eltwise.inputs = {a, a};
  eltwise.program.ops = {{ScalarOp::kAdd, Dtype::kF32, {0, 1, 0}, 0},
                         {ScalarOp::kIota, Dtype::kF32, {}, 1},
                         {ScalarOp::kMultiply, Dtype::kF32, {2, 3, 0}, 0}};
  eltwise.program.results = {4};
  eltwise.outputs = {scratch};
  main.push_back({eltwise, Engine::kDve, {}, {{0, 1}}, 1});

  Reduce reduce;
  reduce.domain = {2, {4, 8}};
  reduce.reduced = 1;
  reduce.inputs = {scratch};
  reduce.prologue.results = {0};
  reduce.accumulators = {{Dtype::kF32, ScalarOp::kAdd, scalar}};
  reduce.epilogue.results = {0};
  reduce.outputs = {view(Space::kScratch, 0, Dtype::kF32, {4})};
  reduce.outputs[0].offset = 512;
  main.push_back({reduce, Engine::kPool, {{0, 1}}, {{1, 1}}, 2});

  Gemm gemm;
  gemm.lhs = a;
  gemm.rhs = view(Space::kScratch, 0, Dtype::kF32, {8, 8});
  gemm.epilogue.results = {0};
  gemm.outputs = {out};
  main.push_back({gemm, Engine::kPe, {{1, 1}}, {{2, 1}}, 0});
  main.push_back({Copy{{{a, out}, {scratch, out}}}, Engine::kSp, {{2, 1}}, {{3, 1}}, 0});
  main.push_back({DynamicSlice{a, view(Space::kScratch, 0, Dtype::kF32, {2, 8}), {start, start}},
                  Engine::kSp});
  main.push_back(
      {DynamicUpdateSlice{out, view(Space::kScratch, 0, Dtype::kF32, {2, 8}), {start, start}},
       Engine::kSp});

  Gather gather;  // rows of `a` by the s32[4] input
  gather.operand = a;
  gather.indices = view(Space::kIo, 1, Dtype::kS32, {4});
  gather.output = scratch;
  gather.offset_dims = {1};
  gather.collapsed_slice_dims = {0};
  gather.start_index_map = {0};
  gather.index_vector_dim = 1;
  gather.slice_sizes = {1, 8};
  main.push_back({gather, Engine::kPool});

  Scatter scatter;
  scatter.outputs = {out};
  scatter.indices = gather.indices;
  scatter.updates = {scratch};
  scatter.combiner.ops = {{ScalarOp::kAdd, Dtype::kF32, {0, 1, 0}, 0}};
  scatter.combiner.results = {2};
  scatter.update_window_dims = {1};
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  main.push_back({scatter, Engine::kPool});

  Rng rng;
  rng.kind = RngKind::kUniform;
  rng.output = scratch;
  rng.a = rng.b = scalar;
  rng.seed = 7;
  main.push_back({rng, Engine::kPool});

  const View predicate = view(Space::kScratch, 0, Dtype::kPred, {});
  main.push_back({Loop{1, 2, predicate}, Engine::kSp});
  main.push_back({If{predicate, {1, 2}}, Engine::kSp});
  main.push_back({Call{2}, Engine::kSp});
  add_ordered(main, a, scratch, scalar);
  p.blocks.resize(3);
  p.blocks[2].instructions.push_back({Copy{{{a, scratch}}}, Engine::kSp});
  return p;
}

std::vector<std::byte> constants() { return std::vector<std::byte>(64); }

std::vector<std::byte> encoded(const Program& program) {
  auto code = encode(program, constants());
  EXPECT_TRUE(code.ok()) << code.status().message();
  return std::move(code).value();
}

TEST(Encoding, DecodedProgramEncodesToTheSameBytes) {
  const std::vector<std::byte> code = encoded(everything());
  const auto program = decode(code);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(encoded(*program), code);
  EXPECT_EQ(disassemble(*program), disassemble([] {
              Program p = everything();
              p.constants_bytes = 64;
              return p;
            }()));
}

TEST(Encoding, EveryChangedByteIsRefused) {
  const std::vector<std::byte> code = encoded(everything());
  for (size_t i = 0; i < code.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      std::vector<std::byte> bad = code;
      bad[i] ^= std::byte{1} << bit;
      const auto program = decode(bad);
      ASSERT_FALSE(program.ok()) << "byte " << i;
      EXPECT_TRUE(program.status().code() == NRT_INVALID ||
                  program.status().code() == NRT_UNSUPPORTED_NEFF_VERSION);
      EXPECT_NE(program.status().message().find("offset"), std::string_view::npos);
    }
  }
}

TEST(Encoding, EveryChangedByteOfConstantsIsRefused) {
  const std::vector<std::byte> code = encoded(everything());
  EXPECT_TRUE(check_constants(code, constants()).ok());
  for (size_t i = 0; i < 64; ++i) {
    std::vector<std::byte> bad = constants();
    bad[i] ^= std::byte{4};
    EXPECT_EQ(check_constants(code, bad).code(), NRT_INVALID);
  }
  EXPECT_EQ(check_constants(code, std::vector<std::byte>(63)).code(), NRT_INVALID);
}

TEST(Encoding, EveryTruncationIsRefused) {
  const std::vector<std::byte> code = encoded(everything());
  for (size_t size = 0; size < code.size(); ++size) {
    std::vector<std::byte> bad(code.begin(), code.begin() + static_cast<int64_t>(size));
    seal(bad);  // so that the reader itself has to notice
    ASSERT_FALSE(decode(bad).ok()) << size;
  }
}

// With a right digest a mutant either is refused cleanly or is a program that satisfies every rule.
TEST(Encoding, ResealedMutantsAreRefusedOrVerified) {
  const std::vector<std::byte> code = encoded(everything());
  std::mt19937 random(3);
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::byte> bad = code;
    for (uint32_t i = 0, n = 1 + random() % 3; i < n; ++i) {
      bad[48 + random() % (bad.size() - 48)] =
          static_cast<std::byte>(random() % 4 == 0 ? random() : random() % 10);
    }
    seal(bad);
    const auto program = decode(bad);
    if (program.ok()) {
      ++accepted;
      ASSERT_TRUE(verify(*program).ok());
      ASSERT_EQ(encoded(*program), bad);
    } else {
      ASSERT_FALSE(program.status().message().empty());
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(Encoding, UnknownVersionAndOpcodeAreUnsupported) {
  std::vector<std::byte> code = encoded(everything());
  std::vector<std::byte> newer = code;
  newer[8] = std::byte{99};
  EXPECT_EQ(decode(newer).status().code(), NRT_UNSUPPORTED_NEFF_VERSION);
  Program one;
  one.blocks.emplace_back().instructions.push_back({Copy{}, Engine::kSp});
  std::vector<std::byte> opcode = *encode(one, {});
  // scratch, semaphores, counts of io, blocks, instructions, then the opcode.
  opcode[48 + 4 + 4 + 8 + 4 + 4 + 4 + 4] = std::byte{200};
  seal(opcode);
  EXPECT_EQ(decode(opcode).status().code(), NRT_UNSUPPORTED_NEFF_VERSION);
}

struct Mutation {
  const char* what;  // part of the message
  void (*apply)(Program&);
};

template <class Op>
Op& get(Program& program, size_t index) {
  return std::get<Op>(program.blocks[0].instructions[index].payload);
}

TEST(Verify, NamesInstructionAndRuleThatIsBroken) {
  const Mutation mutations[] = {
      {"core version", [](Program& p) { p.core_version = 5; }},
      {"io slot 0: 124 bytes", [](Program& p) { p.io[0].bytes = 124; }},
      {"io slot 9 of 3", [](Program& p) { get<Eltwise>(p, 0).inputs[0].slot = 9; }},
      {"touches bytes", [](Program& p) { get<Eltwise>(p, 0).inputs[0].offset = 4; }},
      {"touches bytes", [](Program& p) { get<Eltwise>(p, 0).inputs[0].strides[0] = -8; }},
      {"not a multiple", [](Program& p) { get<Eltwise>(p, 0).inputs[1].offset = 2; }},
      {"dims differ", [](Program& p) { get<Eltwise>(p, 0).inputs[0].dims[0] = 3; }},
      {"negative", [](Program& p) { get<Eltwise>(p, 0).domain.dims[0] = -1; }},
      {"overflows", [](Program& p) { get<Eltwise>(p, 0).inputs[0].strides[0] = INT64_MAX / 2; }},
      {"names an element twice", [](Program& p) { get<Eltwise>(p, 0).outputs[0].strides[0] = 0; }},
      {"writes to input", [](Program& p) { get<Eltwise>(p, 0).outputs[0].space = Space::kIo; }},
      {"not defined yet", [](Program& p) { get<Eltwise>(p, 0).program.ops[0].operands[0] = 2; }},
      {"an empty view spans bytes",
       [](Program& p) {
         View& source = get<Copy>(p, 3).pieces[0].source;
         source.dims[0] = 0;
         source.strides[1] = int64_t{1} << 50;
       }},
      {"of dimension 1 overflows",
       [](Program& p) {
         View& source = get<Copy>(p, 3).pieces[0].source;
         source.dims[0] = 0;
         source.strides[1] = INT64_MAX / 2;
       }},
      {"does not take", [](Program& p) { get<Eltwise>(p, 0).program.ops[0].type = Dtype::kS32; }},
      {"counts along dimension",
       [](Program& p) { get<Eltwise>(p, 0).program.ops[1].immediate = 2; }},
      {"result 0 is register 9", [](Program& p) { get<Eltwise>(p, 0).program.results[0] = 9; }},
      {"reduced dimensions", [](Program& p) { get<Reduce>(p, 1).reduced = 3; }},
      {"combines f32 by subtract",
       [](Program& p) { get<Reduce>(p, 1).accumulators[0].combiner = ScalarOp::kSubtract; }},
      {"lhs and rhs", [](Program& p) { get<Gemm>(p, 2).rhs.dims[0] = 7; }},
      {"differ in dims or type", [](Program& p) { get<Copy>(p, 3).pieces[0].source.dims[1] = 7; }},
      {"start indices", [](Program& p) { get<DynamicSlice>(p, 4).starts.pop_back(); }},
      {"does not fit", [](Program& p) { get<DynamicUpdateSlice>(p, 5).update.rank = 1; }},
      {"slice size", [](Program& p) { get<Gather>(p, 6).slice_sizes[0] = 2; }},
      {"index vectors", [](Program& p) { get<Gather>(p, 6).index_vector_dim = 0; }},
      {"window dims", [](Program& p) { get<Scatter>(p, 7).update_window_dims = {2}; }},
      {"block 0 named by block 0", [](Program& p) { get<Loop>(p, 9).body = 0; }},
      {"branches chosen by", [](Program& p) { get<If>(p, 10).branches.pop_back(); }},
      {"0 inputs and 2 outputs", [](Program& p) { get<Sort>(p, 12).inputs.clear(); }},
      {"more than dimension 2 of 2", [](Program& p) { get<Sort>(p, 12).dimension = 2; }},
      {"9 of 8 elements sorted",
       [](Program& p) {
         get<Sort>(p, 12).outputs.pop_back();
         get<Sort>(p, 12).outputs[0].dims[1] = 9;
         get<Sort>(p, 12).outputs[0].strides[0] = 9;
       }},
      {"positions of type f32",
       [](Program& p) { get<Sort>(p, 12).outputs[1].dtype = Dtype::kF32; }},
      {"result 0 is f32 where pred", [](Program& p) { get<Sort>(p, 12).comparator.results = {0}; }},
      {"a window of 1 dimensions for ranks 2 and 2",
       [](Program& p) { get<ReduceWindow>(p, 13).window.pop_back(); }},
      {"window dimension 1: 0 where",
       [](Program& p) { get<ReduceWindow>(p, 13).window[1].stride = 0; }},
      {"window dimension 0: padding",
       [](Program& p) { get<ReduceWindow>(p, 13).window[0].padding_low = INT64_MIN; }},
      {"beyond 2^60",
       [](Program& p) {
         get<ReduceWindow>(p, 13).window[0].size = kMaxWindowNumber;
         get<ReduceWindow>(p, 13).window[0].window_dilation = kMaxWindowNumber;
       }},
      {"steps beyond 2^60",
       [](Program& p) {
         get<ReduceWindow>(p, 13).inputs[0].dims[0] = 1;
         get<ReduceWindow>(p, 13).inputs[0].strides[0] = int64_t{1} << 58;
         get<ReduceWindow>(p, 13).window[0].stride = 8;
       }},
      {"combines f32 by xor",
       [](Program& p) { get<ReduceWindow>(p, 13).accumulators[0].combiner = ScalarOp::kXor; }},
      {"its accumulator s32",
       [](Program& p) { get<ReduceWindow>(p, 13).accumulators[0].type = Dtype::kS32; }},
      {"operand and output differ",
       [](Program& p) { get<SelectScatter>(p, 14).output.dims[0] = 3; }},
      {"scatter: 0 results", [](Program& p) { get<SelectScatter>(p, 14).scatter.results.clear(); }},
      {"semaphore 4 of 4",
       [](Program& p) { p.blocks[0].instructions[0].increments[0].semaphore = 4; }},
      {"name 3 of 3", [](Program& p) { p.blocks[0].instructions[0].name = 3; }},
  };
  for (const Mutation& mutation : mutations) {
    Program program = everything();
    program.constants_bytes = 64;
    ASSERT_TRUE(verify(program).ok()) << verify(program).message();
    mutation.apply(program);
    const Status status = verify(program);
    EXPECT_EQ(status.code(), NRT_INVALID) << mutation.what;
    EXPECT_NE(status.message().find(mutation.what), std::string_view::npos) << status.message();
  }
}

TEST(Verify, LimitsTheDepthOfNestedBlocks) {
  const auto chain = [](uint32_t blocks) {
    Program program;
    program.blocks.resize(blocks);
    for (uint32_t b = 0; b + 1 < blocks; ++b) {
      program.blocks[b].instructions.push_back({Call{b + 1}, Engine::kSp});
    }
    return verify(program);
  };
  EXPECT_TRUE(chain(65).ok());
  EXPECT_NE(chain(66).message().find("more than 64 deep"), std::string_view::npos);
}

TEST(Disassemble, ShowsEnginesSemaphoresAndEscapesNames) {
  const std::string text = disassemble(everything());
  EXPECT_NE(text.find("DVE  ELTWISE [4,8]"), std::string::npos) << text;
  EXPECT_NE(text.find("r2 = f32 add r0 r1"), std::string::npos) << text;
  EXPECT_NE(text.find("wait s1>=1 GEMM"), std::string::npos) << text;
  EXPECT_NE(text.find("# odd\\x01name"), std::string::npos) << text;
}

}  // namespace
}  // namespace onrt::ncx
