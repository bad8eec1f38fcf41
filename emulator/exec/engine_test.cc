// SPDX-License-Identifier: Apache-2.0
// Loading and running whole programs: order, control flow, deadlines, bad bindings.
#include "emulator/exec/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "emulator/exec/testing/oracle.h"
#include "emulator/isa/encoding.h"

namespace onrt {
namespace {

using ncx::Engine;
using ncx::Program;
using ncx::ScalarOp;
using ncx::Space;
using testing::dense;

const int64_t kDims[] = {4};

// out = op(a, b) over four elements.
ncx::Eltwise binary(ScalarOp op, const ncx::View& a, const ncx::View& b, const ncx::View& out) {
  ncx::Eltwise eltwise;
  eltwise.domain.rank = out.rank;
  eltwise.domain.dims = out.dims;
  eltwise.inputs = {a, b};
  const bool compares = ncx::scalar_op_info(op).result == ncx::ResultRule::kPred;
  eltwise.program.ops = {{op, compares ? Dtype::kPred : a.dtype, {0, 1, 0}, 0}};
  eltwise.program.results = {2};
  eltwise.outputs = {out};
  return eltwise;
}

ncx::View io(uint16_t slot, Dtype dtype = Dtype::kF32) {
  return dense(Space::kIo, slot, dtype, kDims);
}

Program add_program() {
  Program program;
  program.names = {"add.3"};
  program.io = {{Dtype::kF32, {4}, 16},
                {Dtype::kF32, {4}, 16},
                {Dtype::kF32, {4}, 16, ncx::SlotUsage::kOutput}};
  program.blocks.emplace_back().instructions.push_back(
      {binary(ScalarOp::kAdd, io(0), io(1), io(2))});
  return program;
}

std::unique_ptr<EngineProgram> load(const Program& program,
                                    std::span<const std::byte> constants = {}) {
  auto code = ncx::encode(program, constants);
  EXPECT_TRUE(code.ok()) << code.status().message();
  auto loaded = EngineProgram::load(*code, constants);
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return std::move(loaded).value();
}

struct Buffers {
  std::vector<std::byte*> io;
  std::vector<uint64_t> bytes;
  std::vector<uint64_t> scratch = std::vector<uint64_t>(64);

  void add(void* data, uint64_t size) {
    io.push_back(static_cast<std::byte*>(data));
    bytes.push_back(size);
  }
  EngineBinding binding() {
    EngineBinding binding;
    binding.io = io;
    binding.io_bytes = bytes;
    binding.scratch = reinterpret_cast<std::byte*>(scratch.data());
    binding.scratch_bytes = scratch.size() * 8;
    return binding;
  }
};

TEST(Engine, AddsTwoTensors) {
  const auto program = load(add_program());
  float a[4] = {1, 2, 3, 4};
  float b[4] = {10, 20, 30, 40};
  float out[4] = {};
  Buffers buffers;
  buffers.add(a, 16);
  buffers.add(b, 16);
  buffers.add(out, 16);
  const auto ns = program->execute(buffers.binding(), {});
  ASSERT_TRUE(ns.ok()) << ns.status().message();
  EXPECT_EQ(*ns, program->timeline().device_ns);
  EXPECT_THAT(out, ::testing::ElementsAre(11, 22, 33, 44));
}

TEST(Engine, OutputMayBeTheInputBuffer) {
  const auto program = load(add_program());
  float a[4] = {1, 2, 3, 4};
  float b[4] = {10, 20, 30, 40};
  Buffers buffers;
  buffers.add(a, 16);
  buffers.add(b, 16);
  buffers.add(a, 16);
  ASSERT_TRUE(program->execute(buffers.binding(), {}).ok());
  EXPECT_THAT(a, ::testing::ElementsAre(11, 22, 33, 44));
}

TEST(Engine, TensorsAtOddAddressesGiveTheSameResult) {
  const auto program = load(add_program());
  const float a[4] = {1, 2, 3, 4};
  const float b[4] = {10, 20, 30, 40};
  std::byte memory[64] = {};
  std::memcpy(memory + 1, a, 16);
  std::memcpy(memory + 18, b, 16);
  Buffers buffers;
  buffers.add(memory + 1, 16);
  buffers.add(memory + 18, 16);
  buffers.add(memory + 1, 16);  // in place, too
  ASSERT_TRUE(program->execute(buffers.binding(), {}).ok());
  float out[4];
  std::memcpy(out, memory + 1, 16);
  EXPECT_THAT(out, ::testing::ElementsAre(11, 22, 33, 44));
}

TEST(Engine, NamesTheSlotThatIsMissingOrTooSmall) {
  const auto program = load(add_program());
  float data[4] = {};
  Buffers buffers;
  buffers.add(data, 16);
  buffers.add(data, 12);
  EXPECT_EQ(program->execute(buffers.binding(), {}).status().code(), NRT_EXEC_BAD_INPUT);
  buffers.add(data, 16);
  const auto small = program->execute(buffers.binding(), {});
  EXPECT_EQ(small.status().code(), NRT_EXEC_BAD_INPUT);
  EXPECT_NE(small.status().message().find("io slot 1 (input): 16 bytes expected, 12 bound"),
            std::string_view::npos)
      << small.status().message();
}

TEST(Engine, LoadRefusesDamagedCodeAndConstants) {
  Program program = add_program();
  const std::vector<std::byte> constants(64, std::byte{1});
  auto code = *ncx::encode(program, constants);
  std::vector<std::byte> bad = constants;
  bad[5] = std::byte{2};
  EXPECT_EQ(EngineProgram::load(code, bad).status().code(), NRT_INVALID);
  code[code.size() / 2] ^= std::byte{1};
  EXPECT_EQ(EngineProgram::load(code, constants).status().code(), NRT_INVALID);
}

// while (counter < limit) { counter += 1; total += counter } with counter and total in scratch.
Program loop_program() {
  Program program;
  program.scratch_bytes = 256;
  program.io = {{Dtype::kS32, {}, 4}, {Dtype::kS32, {}, 4, ncx::SlotUsage::kOutput}};
  const auto scalar = [](uint64_t offset, Dtype dtype = Dtype::kS32) {
    return dense(Space::kScratch, 0, dtype, {}, offset);
  };
  const ncx::View counter = scalar(0);
  const ncx::View total = scalar(4);
  const ncx::View predicate = scalar(8, Dtype::kPred);
  const ncx::View limit = dense(Space::kIo, 0, Dtype::kS32, {});
  const ncx::View out = dense(Space::kIo, 1, Dtype::kS32, {});
  ncx::Eltwise zero;
  zero.program.ops = {{ScalarOp::kConstant, Dtype::kS32, {}, 0}};
  zero.program.results = {0, 0};
  zero.outputs = {counter, total};
  ncx::Eltwise increment;
  increment.inputs = {counter};
  increment.program.ops = {{ScalarOp::kConstant, Dtype::kS32, {}, 1},
                           {ScalarOp::kAdd, Dtype::kS32, {0, 1, 0}, 0}};
  increment.program.results = {2};
  increment.outputs = {counter};
  program.blocks.resize(3);
  program.blocks[0].instructions = {{zero, Engine::kDve, {}, {{0, 1}}},
                                    {ncx::Loop{1, 2, predicate}, Engine::kSp, {{0, 1}}, {{1, 1}}},
                                    {ncx::Copy{{{total, out}}}, Engine::kSp, {{1, 1}}, {}}};
  program.semaphores = 2;
  program.blocks[1].instructions = {
      {binary(ScalarOp::kCompareLt, counter, limit, predicate), Engine::kDve}};
  program.blocks[2].instructions = {{increment, Engine::kDve},
                                    {binary(ScalarOp::kAdd, total, counter, total), Engine::kDve}};
  return program;
}

TEST(Engine, WhileLoopRunsUntilItsPredicateIsFalse) {
  const auto program = load(loop_program());
  uint64_t before = 0;
  for (const int32_t limit : {0, 1, 10, 100}) {
    int32_t in = limit;
    int32_t out = -1;
    Buffers buffers;
    buffers.add(&in, 4);
    buffers.add(&out, 4);
    const auto ns = program->execute(buffers.binding(), {});
    ASSERT_TRUE(ns.ok()) << ns.status().message();
    EXPECT_EQ(out, limit * (limit + 1) / 2);
    EXPECT_GT(*ns, before);  // device time counts the iterations
    before = *ns;
  }
}

TEST(Engine, EndlessLoopStopsAtItsDeadlineAndOnAbort) {
  Program program = loop_program();
  program.blocks[2].instructions.clear();  // the counter never grows
  const auto loaded = load(program);
  int32_t in = 1;
  int32_t out = 0;
  Buffers buffers;
  buffers.add(&in, 4);
  buffers.add(&out, 4);
  EngineRun run;
  run.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
  EXPECT_EQ(loaded->execute(buffers.binding(), run).status().code(), NRT_TIMEOUT);
  std::atomic<bool> abort{false};
  EngineRun aborted;
  aborted.abort = &abort;
  std::thread stopper([&] { abort.store(true); });
  EXPECT_EQ(loaded->execute(buffers.binding(), aborted).status().code(), NRT_FAILURE);
  stopper.join();
}

// Nothing in memory bounds the number of windows: the source repeats one element.
TEST(Engine, EndlessWindowsInThePaddingStopAtTheirDeadline) {
  const int64_t four[] = {4};
  const int64_t many[] = {int64_t{1} << 40};
  Program program;
  program.io = {{Dtype::kF32, {4}, 16},
                {Dtype::kF32, {}, 4},
                {Dtype::kF32, {4}, 16, ncx::SlotUsage::kOutput}};
  ncx::SelectScatter op;
  op.operand = dense(Space::kIo, 0, Dtype::kF32, four);
  op.init = dense(Space::kIo, 1, Dtype::kF32, {});
  op.source = dense(Space::kIo, 1, Dtype::kF32, many);
  op.source.strides[0] = 0;
  op.output = dense(Space::kIo, 2, Dtype::kF32, four);
  op.window = {ncx::WindowDimension{}};
  op.select.ops = {{ScalarOp::kCompareGe, Dtype::kPred, {0, 1, 0}, 0}};
  op.select.results = {2};
  op.scatter.ops = {{ScalarOp::kAdd, Dtype::kF32, {0, 1, 0}, 0}};
  op.scatter.results = {2};
  program.blocks.resize(1);
  program.blocks[0].instructions = {{op, Engine::kPool}};
  const auto loaded = load(program);
  float operand[4] = {1, 2, 3, 4};
  float one = 1;
  float out[4] = {};
  Buffers buffers;
  buffers.add(operand, 16);
  buffers.add(&one, 4);
  buffers.add(out, 16);
  EngineRun run;
  run.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
  EXPECT_EQ(loaded->execute(buffers.binding(), run).status().code(), NRT_TIMEOUT);
}

TEST(Engine, ConditionalChoosesItsBranch) {
  Program program;
  program.io = {{Dtype::kS32, {}, 4},
                {Dtype::kF32, {4}, 16},
                {Dtype::kF32, {4}, 16},
                {Dtype::kF32, {4}, 16, ncx::SlotUsage::kOutput}};
  program.blocks.resize(3);
  program.blocks[0].instructions = {
      {ncx::If{dense(Space::kIo, 0, Dtype::kS32, {}), {1, 2}}, Engine::kSp}};
  program.blocks[1].instructions = {{binary(ScalarOp::kAdd, io(1), io(2), io(3))}};
  program.blocks[2].instructions = {{binary(ScalarOp::kMultiply, io(1), io(2), io(3))}};
  const auto loaded = load(program);
  for (const auto& [selector, want] : {std::pair{0, 5.0f}, {1, 6.0f}, {7, 6.0f}, {-1, 6.0f}}) {
    int32_t in = selector;
    float a[4] = {2, 2, 2, 2};
    float b[4] = {3, 3, 3, 3};
    float out[4] = {};
    Buffers buffers;
    buffers.add(&in, 4);
    buffers.add(a, 16);
    buffers.add(b, 16);
    buffers.add(out, 16);
    ASSERT_TRUE(loaded->execute(buffers.binding(), {}).ok());
    EXPECT_EQ(out[3], want) << selector;
  }
}

}  // namespace
}  // namespace onrt
