// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/testing/oracle.h"

#include <cmath>
#include <cstring>

#include "emulator/isa/encoding.h"
#include "emulator/isa/reduce_order.h"
#include "emulator/isa/scalar_value.h"

namespace onrt::testing {
namespace {

using ncx::Boxed;
using ncx::View;

std::byte* element(const View& view, Memory& memory, const int64_t* index) {
  int64_t at = 0;
  for (int d = 0; d < view.rank; ++d) {
    at += index[d] * view.strides[static_cast<size_t>(d)];
  }
  return memory.at(view) + at * static_cast<int64_t>(dtype_bytes(view.dtype));
}

Boxed load(const View& view, Memory& memory, const int64_t* index) {
  return ncx::load_boxed(view.dtype, element(view, memory, index));
}

std::vector<Dtype> types_of(std::span<const View> views) {
  std::vector<Dtype> types;
  for (const View& view : views) {
    types.push_back(view.dtype);
  }
  return types;
}

// Results of a micro-program for the given inputs.
std::vector<Boxed> apply(const ncx::MicroProgram& program, std::vector<Dtype> types,
                         std::vector<Boxed> inputs, const int64_t* index) {
  std::vector<Boxed> registers = std::move(inputs);
  registers.resize(types.size() + program.ops.size());
  ncx::run_micro_program(program, types, registers.data(), index);
  std::vector<Boxed> results;
  for (const uint16_t reg : program.results) {
    results.push_back(registers[reg]);
  }
  return results;
}

void run(const ncx::Eltwise& op, Memory& memory) {
  // All results first: an output may be an input.
  std::vector<std::vector<Boxed>> all;
  const std::span<const int64_t> dims(op.domain.dims.data(), op.domain.rank);
  for_each_index(dims, [&](const int64_t* index) {
    std::vector<Boxed> inputs;
    for (const View& view : op.inputs) {
      inputs.push_back(load(view, memory, index));
    }
    all.push_back(apply(op.program, types_of(op.inputs), inputs, index));
  });
  size_t at = 0;
  for_each_index(dims, [&](const int64_t* index) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      ncx::store_boxed(op.outputs[i].dtype, all[at][i], element(op.outputs[i], memory, index));
    }
    ++at;
  });
}

void run(const ncx::Copy& op, Memory& memory) {
  for (const auto& piece : op.pieces) {
    const std::span<const int64_t> dims(piece.source.dims.data(), piece.source.rank);
    for_each_index(dims, [&](const int64_t* index) {
      std::memcpy(element(piece.destination, memory, index), element(piece.source, memory, index),
                  dtype_bytes(piece.source.dtype));
    });
  }
}

template <class Op>
void run(const Op&, Memory&) {
  std::abort();  // the oracle does not have this instruction
}

float random_float(std::mt19937& random) {
  switch (random() % 24) {
    case 0:
      return 0.0f;
    case 1:
      return -0.0f;
    case 2:
      return INFINITY;
    case 3:
      return -INFINITY;
    case 4:
      return NAN;
    case 5:
      return std::uniform_real_distribution<float>(-1e6f, 1e6f)(random);
    case 6:
      return 1e-40f * static_cast<float>(random() % 100);
    case 7:
      return static_cast<float>(static_cast<int>(random() % 21) - 10);
    default:
      return std::normal_distribution<float>(0.0f, 2.0f)(random);
  }
}

}  // namespace

std::byte* Memory::at(const View& view) {
  switch (view.space) {
    case ncx::Space::kIo:
      return io[view.slot].data() + view.offset;
    case ncx::Space::kScratch:
      return scratch.data() + view.offset;
    default:
      return constants.data() + view.offset;
  }
}

Memory make_memory(const ncx::Program& program) {
  Memory memory;
  for (const ncx::IoSlot& slot : program.io) {
    memory.io.emplace_back(slot.bytes);
  }
  memory.constants.resize(program.constants_bytes);
  memory.scratch.resize(program.scratch_bytes);
  return memory;
}

void randomise(std::span<std::byte> bytes, Dtype dtype, std::mt19937& random) {
  const size_t width = dtype_bytes(dtype);
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    Boxed value = 0;
    if (is_floating(dtype)) {
      const float f = random_float(random);
      uint32_t bits = 0;
      std::memcpy(&bits, &f, sizeof(bits));
      value = ncx::settle_boxed(dtype, bits);
    } else {
      value = random() % 3 == 0
                  ? random() % 16 - 8
                  : (static_cast<uint64_t>(random()) << 32 | random()) >> random() % 60;
    }
    ncx::store_boxed(dtype, value, bytes.data() + at);
  }
}

void run_oracle(const ncx::Program& program, Memory& memory) {
  for (const ncx::Instruction& instruction : program.blocks[0].instructions) {
    std::visit([&](const auto& op) { run(op, memory); }, instruction.payload);
  }
}

Status run_engine(const ncx::Program& program, Memory& memory, const EngineSetup& setup) {
  ONRT_ASSIGN_OR_RETURN(const auto code, ncx::encode(program, memory.constants));
  ONRT_ASSIGN_OR_RETURN(const auto loaded, EngineProgram::load(code, memory.constants, setup.simd));
  std::vector<std::byte*> io;
  std::vector<uint64_t> io_bytes;
  for (auto& slot : memory.io) {
    io.push_back(slot.data());
    io_bytes.push_back(slot.size());
  }
  EngineBinding binding;
  binding.io = io;
  binding.io_bytes = io_bytes;
  binding.constants = memory.constants.data();
  binding.scratch = memory.scratch.data();
  binding.scratch_bytes = memory.scratch.size();
  EngineRun run;
  run.pool = setup.pool;
  return loaded->execute(binding, run).status();
}

std::vector<std::byte> elements(const View& view, Memory& memory) {
  std::vector<std::byte> out;
  const size_t width = dtype_bytes(view.dtype);
  for_each_index({view.dims.data(), view.rank}, [&](const int64_t* index) {
    const std::byte* at = element(view, memory, index);
    uint64_t bits = 0;
    std::memcpy(&bits, at, width);
    if (is_floating(view.dtype)) {
      const auto value = static_cast<uint32_t>(ncx::load_boxed(view.dtype, at));
      if ((value & 0x7fffffffu) > 0x7f800000u) {
        ncx::store_boxed(view.dtype, 0x7fc00000u, &bits);
      }
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
    out.insert(out.end(), bytes, bytes + width);
  });
  return out;
}

View dense(ncx::Space space, uint16_t slot, Dtype dtype, std::span<const int64_t> dims,
           uint64_t offset) {
  View view;
  view.space = space;
  view.slot = slot;
  view.dtype = dtype;
  view.offset = offset;
  view.rank = static_cast<uint8_t>(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    view.dims[d] = dims[d];
    view.strides[d] = stride;
    stride *= dims[d];
  }
  return view;
}

}  // namespace onrt::testing
