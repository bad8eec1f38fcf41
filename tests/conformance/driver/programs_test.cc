// SPDX-License-Identifier: Apache-2.0
// Programs: load, start, notification, errors.
#include <cstring>
#include <thread>

#include "emulator/isa/encoding.h"
#include "tests/conformance/driver/fixture.h"

namespace onrt::conformance {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;
constexpr auto kForever = std::chrono::steady_clock::time_point::max();

ncx::View vector_of(ncx::Space space, uint16_t slot, int64_t length) {
  ncx::View view;
  view.space = space;
  view.slot = slot;
  view.rank = 1;
  view.dims[0] = length;
  view.strides[0] = 1;
  return view;
}

// output = input + constants, f32[length].
std::vector<std::byte> add_program(int64_t length, std::span<const std::byte> constants) {
  ncx::Eltwise add;
  add.domain.rank = 1;
  add.domain.dims[0] = length;
  add.inputs = {vector_of(ncx::Space::kIo, 0, length),
                vector_of(ncx::Space::kConstants, 0, length)};
  ncx::MicroOp op;
  op.op = ncx::ScalarOp::kAdd;
  op.type = Dtype::kF32;
  op.operands = {0, 1, 0};
  add.program.ops = {op};
  add.program.results = {2};
  add.outputs = {vector_of(ncx::Space::kIo, 1, length)};
  ncx::Program program;
  const auto bytes = static_cast<uint64_t>(length) * 4;
  program.io = {{Dtype::kF32, {length}, bytes, ncx::SlotUsage::kInput},
                {Dtype::kF32, {length}, bytes, ncx::SlotUsage::kOutput}};
  program.names = {"add"};
  ncx::Instruction instruction;
  instruction.payload = add;
  program.blocks.resize(1);
  program.blocks[0].instructions = {instruction};
  auto code = ncx::encode(program, constants);
  EXPECT_TRUE(code.ok()) << code.status().message();
  return std::move(code).value();
}

class DriverPrograms : public DriverTest {
 protected:
  // One claimed core with memory: code at 0, constants at 64 KiB, input at 128 KiB, output at 192.
  struct Core {
    std::unique_ptr<Machine> machine;
    HbmExtent extent;
    std::byte* memory = nullptr;
    ProgramImage image;
    std::array<DeviceAddress, 2> io{};
    std::array<uint64_t, 2> io_bytes{};

    float* floats(size_t offset) { return reinterpret_cast<float*>(memory + offset); }
    ProgramStart start(uint64_t sequence) const {
      ProgramStart start;
      start.io = io;
      start.io_bytes = io_bytes;
      start.sequence = sequence;
      return start;
    }
  };
  static constexpr int kCore = 4;  // of ND 1
  static constexpr int64_t kLength = 1000;

  Core make_core(int notifications) {
    Core core;
    core.machine = open();
    EXPECT_TRUE(core.machine->claim_cores({kCore, 1}).ok());
    EXPECT_TRUE(
        core.machine->create_notification_queue(kCore, NotificationType::kNotify, notifications)
            .ok());
    const HbmId hbm = core.machine->hbm_of_core(kCore).value();
    core.extent = core.machine->allocate_extent(hbm, kMiB, 4096).value();
    core.memory = core.machine->map(hbm, core.extent.address, kMiB).value();
    std::vector<float> constants(kLength);
    for (size_t i = 0; i < constants.size(); ++i) {
      constants[i] = static_cast<float>(i);
      core.floats(128 << 10)[i] = 0.5F;
    }
    const auto code = add_program(kLength, std::as_bytes(std::span(constants)));
    std::memcpy(core.memory, code.data(), code.size());
    std::memcpy(core.memory + (64 << 10), constants.data(), kLength * 4);
    core.image = {hbm,         core.extent.address,
                  code.size(), core.extent.address + (64 << 10),
                  kLength * 4, "add"};
    core.io = {core.extent.address + (128 << 10), core.extent.address + (192 << 10)};
    core.io_bytes = {kLength * 4, kLength * 4};
    return core;
  }
};

TEST_P(DriverPrograms, AStartedProgramComputesAndNotifies) {
  if (!can(Capability::kPrograms)) {
    return;
  }
  Core core = make_core(8);
  const auto info = core.machine->program_load(kCore, core.image);
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info->io_slots, 2u);
  EXPECT_GT(info->device_ns, 0u);
  const DeviceCounters before = core.machine->counters(1).value();
  uint64_t clock = 0;
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    ASSERT_TRUE(core.machine->program_start(kCore, info->id, core.start(sequence)).ok());
    Notification note;
    ASSERT_TRUE(
        core.machine->wait_notification(kCore, NotificationType::kNotify, kForever, &note).ok());
    EXPECT_EQ(note.status, NRT_SUCCESS);
    EXPECT_EQ(note.program, info->id);
    EXPECT_EQ(note.sequence, sequence);
    EXPECT_GE(note.device_start_ns, clock);
    EXPECT_GT(note.device_end_ns, note.device_start_ns);
    clock = note.device_end_ns;
  }
  for (int i = 0; i < kLength; ++i) {
    ASSERT_EQ(core.floats(192 << 10)[i], static_cast<float>(i) + 0.5F);
  }
  EXPECT_EQ(core.machine->counters(1)->programs_started - before.programs_started, 3u);
  ASSERT_TRUE(core.machine->program_unload(kCore, info->id).ok());
  EXPECT_EQ(core.machine->program_unload(kCore, info->id).code(), NRT_INVALID_HANDLE);
  EXPECT_EQ(core.machine->program_start(kCore, info->id, core.start(4)).code(), NRT_INVALID_HANDLE);
}

TEST_P(DriverPrograms, DamagedCodeIsRefused) {
  if (!can(Capability::kPrograms)) {
    return;
  }
  Core core = make_core(8);
  for (uint64_t at = 0; at < core.image.code_size; at += 7) {
    core.memory[at] ^= std::byte{0x10};
    const Status status = core.machine->program_load(kCore, core.image).status();
    EXPECT_TRUE(status.code() == NRT_INVALID || status.code() == NRT_UNSUPPORTED_NEFF_VERSION)
        << "byte " << at << ": " << status.message();
    core.memory[at] ^= std::byte{0x10};
  }
  core.memory[64 << 10] ^= std::byte{1};  // a constant
  EXPECT_EQ(core.machine->program_load(kCore, core.image).status().code(), NRT_INVALID);
}

TEST_P(DriverPrograms, ImagesOutsideOwnMemoryAreRefused) {
  if (!can(Capability::kPrograms)) {
    return;
  }
  Core core = make_core(8);
  ProgramImage image = core.image;
  image.code = core.extent.address + kMiB - 16;
  EXPECT_EQ(core.machine->program_load(kCore, image).status().code(), NRT_INVALID);
  image = core.image;
  image.code_size = ~0ULL;
  EXPECT_EQ(core.machine->program_load(kCore, image).status().code(), NRT_INVALID);
  image = core.image;
  image.hbm = {0, 0};
  EXPECT_EQ(core.machine->program_load(kCore, image).status().code(), NRT_INVALID);
  EXPECT_EQ(core.machine->program_load(kCore + 1, core.image).status().code(), NRT_INVALID);
}

TEST_P(DriverPrograms, BadTensorsAreRefusedBeforeTheStart) {
  if (!can(Capability::kPrograms)) {
    return;
  }
  Core core = make_core(8);
  const ProgramId id = core.machine->program_load(kCore, core.image)->id;
  ProgramStart start = core.start(1);
  start.io = start.io.first(1);
  EXPECT_EQ(core.machine->program_start(kCore, id, start).code(), NRT_EXEC_BAD_INPUT);
  core.io_bytes[1] = kLength * 4 - 1;
  const Status small = core.machine->program_start(kCore, id, core.start(1));
  EXPECT_EQ(small.code(), NRT_EXEC_BAD_INPUT);
  EXPECT_THAT(std::string(small.message()), HasSubstr("tensor 1"));
  core.io_bytes[1] = kLength * 4;
  core.io[0] = core.extent.address + kMiB - 8;
  EXPECT_EQ(core.machine->program_start(kCore, id, core.start(1)).code(), NRT_INVALID);
  Notification note;
  EXPECT_FALSE(core.machine->poll_notification(kCore, NotificationType::kNotify, &note).value());
}

TEST_P(DriverPrograms, AnExpiredDeadlineEndsWithTimeout) {
  if (!can(Capability::kPrograms)) {
    return;
  }
  Core core = make_core(8);
  const ProgramId id = core.machine->program_load(kCore, core.image)->id;
  ProgramStart start = core.start(9);
  start.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  ASSERT_TRUE(core.machine->program_start(kCore, id, start).ok());
  Notification note;
  ASSERT_TRUE(core.machine->poll_notification(kCore, NotificationType::kNotify, &note).value());
  EXPECT_EQ(note.status, NRT_TIMEOUT);
  EXPECT_EQ(note.sequence, 9u);
}

TEST_P(DriverPrograms, AFullNotificationQueueOverflows) {
  if (!can(Capability::kPrograms)) {
    return;
  }
  Core core = make_core(2);
  const ProgramId id = core.machine->program_load(kCore, core.image)->id;
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    ASSERT_TRUE(core.machine->program_start(kCore, id, core.start(sequence)).ok());
  }
  Notification note;
  const auto poll = [&] {
    return core.machine->poll_notification(kCore, NotificationType::kNotify, &note);
  };
  EXPECT_EQ(poll().status().code(), NRT_EXEC_SW_NQ_OVERFLOW);
  EXPECT_TRUE(poll().value());
  EXPECT_EQ(note.sequence, 1u);
  EXPECT_TRUE(poll().value());
  EXPECT_EQ(note.sequence, 2u);
  EXPECT_FALSE(poll().value());
}

TEST_P(DriverPrograms, ThreadsTakeTurnsOnACore) {
  if (!can(Capability::kPrograms)) {
    return;
  }
  Core core = make_core(256);
  const ProgramId id = core.machine->program_load(kCore, core.image)->id;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const auto sequence = static_cast<uint64_t>(t * 20 + i);
        if (!core.machine->program_start(kCore, id, core.start(sequence)).ok()) {
          ++failures;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failures, 0);
  // Runs of one core follow each other on its device clock.
  Notification note;
  uint64_t clock = 0;
  for (int i = 0; i < 80; ++i) {
    ASSERT_TRUE(core.machine->poll_notification(kCore, NotificationType::kNotify, &note).value());
    EXPECT_GE(note.device_end_ns, note.device_start_ns);
    clock = std::max(clock, note.device_end_ns);
  }
  EXPECT_FALSE(core.machine->poll_notification(kCore, NotificationType::kNotify, &note).value());
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverPrograms, ::testing::ValuesIn(backends()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace onrt::conformance
