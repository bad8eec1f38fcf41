// SPDX-License-Identifier: Apache-2.0
// NCX code: decode, verify and, if the program is small, load and execute it. The digest is put
// right first, so that mutations reach the reader. Nothing may crash or touch memory outside the
// bound buffers; what decodes must encode to the same bytes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "emulator/exec/engine.h"
#include "emulator/isa/encoding.h"
#include "emulator/isa/views.h"

namespace {

constexpr uint64_t kMostBytes = 1 << 16;
constexpr int64_t kMostElements = 1 << 16;

// Elements that an instruction walks over, capped.
int64_t size_of(const onrt::ncx::View& view) {
  int64_t n = 1;
  for (int d = 0; d < view.rank; ++d) {
    n = std::min(kMostElements + 1,
                 n * std::min(kMostElements + 1, view.dims[static_cast<size_t>(d)]));
  }
  return n;
}

bool is_small(const onrt::ncx::Program& program) {
  // Each is capped before it is added: a sum of sizes near 2^64 would wrap to a small one.
  uint64_t bytes = std::min(program.scratch_bytes, kMostBytes + 1) +
                   std::min(program.constants_bytes, kMostBytes + 1);
  for (const auto& slot : program.io) {
    bytes += std::min(slot.bytes, kMostBytes + 1);
    if (bytes > kMostBytes) {
      return false;
    }
  }
  int64_t work = 0;
  for (const auto& block : program.blocks) {
    for (const auto& instruction : block.instructions) {
      int64_t largest = 1;
      int64_t second = 1;
      onrt::ncx::for_each_view(instruction.payload, [&](const onrt::ncx::View& view) {
        const int64_t n = size_of(view);
        second = std::max(second, std::min(n, largest));
        largest = std::max(largest, n);
      });
      const bool product = std::holds_alternative<onrt::ncx::Gemm>(instruction.payload) ||
                           std::holds_alternative<onrt::ncx::Conv>(instruction.payload) ||
                           std::holds_alternative<onrt::ncx::Linalg>(instruction.payload);
      work += product ? largest * second : largest;
      if (work > 4 * kMostElements) {
        return false;
      }
    }
  }
  return bytes <= kMostBytes && program.blocks.size() <= 16;
}

void execute(const onrt::ncx::Program& program, const std::vector<std::byte>& code,
             const std::vector<std::byte>& constants) {
  const auto loaded = onrt::EngineProgram::load(code, constants);
  if (!loaded.ok()) {
    return;  // a deadlock
  }
  // Buffers of exactly the promised size: address sanitizer sees a byte too much.
  std::vector<std::vector<uint64_t>> storage;
  std::vector<std::byte*> io;
  std::vector<uint64_t> bytes;
  for (const auto& slot : program.io) {
    io.push_back(static_cast<std::byte*>(std::calloc(1, std::max<uint64_t>(slot.bytes, 1))));
    bytes.push_back(slot.bytes);
  }
  auto* scratch = static_cast<std::byte*>(std::calloc(1, program.scratch_bytes + 1));
  onrt::EngineBinding binding;
  binding.io = io;
  binding.io_bytes = bytes;
  binding.constants = constants.data();
  binding.scratch = scratch;
  binding.scratch_bytes = program.scratch_bytes;
  onrt::EngineRun run;
  run.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  const auto ns = loaded.value()->execute(binding, run);
  static_cast<void>(ns);
  for (std::byte* buffer : io) {
    std::free(buffer);
  }
  std::free(scratch);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> code(bytes, bytes + size);
  onrt::ncx::seal(code);
  const auto program = onrt::ncx::decode(code);
  if (!program.ok() || !is_small(*program)) {
    return 0;
  }
  onrt::ncx::disassemble(*program);
  const std::vector<std::byte> constants(program->constants_bytes);
  const auto again = onrt::ncx::encode(*program, constants);
  // The bytes after the header: the digest of the constants differs.
  if (!again.ok() || again->size() != code.size() ||
      !std::equal(again->begin() + 48, again->end(), code.begin() + 48)) {
    std::fprintf(stderr, "a decoded program does not encode to the same bytes\n");
    std::abort();
  }
  execute(*program, *again, constants);
  return 0;
}
