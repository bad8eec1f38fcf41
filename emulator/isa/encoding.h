// SPDX-License-Identifier: Apache-2.0
// The bytes of an NCX program. Layout: docs in encoding.cc, above the tables it reads and writes.
//
// The code section starts with a magic, a version, its own size, the size and digest of the
// constants and a digest of the rest of the code: one changed byte anywhere is found at load.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/isa/program.h"
#include "runtime/base/status.h"

namespace onrt::ncx {

inline constexpr uint32_t kEncodingVersion = 1;

// The code section of `program`; sets the constants' size and digest from `constants`.
// Deterministic. Errors: NRT_INVALID if the program breaks a limit or rule of verify().
Result<std::vector<std::byte>> encode(const Program& program, std::span<const std::byte> constants);

// Reads hostile bytes. The program is verified. Errors: NRT_INVALID with the offset of the fault;
// NRT_UNSUPPORTED_NEFF_VERSION for a version or opcode this build does not know.
Result<Program> decode(std::span<const std::byte> code);

// Writes the size and digest of the code into its header: for tests and fuzzers that change bytes.
void seal(std::span<std::byte> code);

// NRT_INVALID if `constants` are not those that encode() saw.
Status check_constants(std::span<const std::byte> code, std::span<const std::byte> constants);

// Rules of the format: every view inside its space and of rank <= kMaxRank, products of dims
// within 2^62, micro-programs well typed, semaphores in range, names and blocks in range, nested
// blocks acyclic. The message names the instruction. Deadlock is found by the scheduler.
Status verify(const Program& program);

// "PE", "ACT", "POOL", "DVE", "SP": names of the vendor's documentation.
std::string_view engine_name(Engine engine);

// Text, one instruction a line, for people and golden tests.
std::string disassemble(const Program& program);

}  // namespace onrt::ncx
