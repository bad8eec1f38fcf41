// SPDX-License-Identifier: Apache-2.0
// The in-memory form of a NEFF that OpenNRT wrote: what the compiler hands to the writer and what
// the reader hands to the loader. The container layout is in neff_format.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace onrt {

enum class TensorUsage : uint8_t { kInput = 0, kOutput = 1 };

// One row of the model's tensor table; its position in NeffPackage::tensors is its io slot.
struct NeffTensor {
  std::string name;  // unique among the tensors of the same usage; at most 255 bytes
  TensorUsage usage = TensorUsage::kInput;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> dims;
  uint64_t size_bytes = 0;
  int alias_of = -1;  // outputs: slot of the input that may be the same buffer; -1: none
};

// The program of one logical core. `program` holds code followed by constants; only emulator/isa
// knows what the bytes mean.
struct NeffSubgraph {
  std::string name;  // "sg00"
  std::vector<std::byte> program;
  uint64_t code_bytes = 0;        // program[0, code_bytes)
  uint64_t constants_offset = 0;  // multiple of 64; constants are program[constants_offset, end)
  uint64_t scratch_bytes = 0;     // HBM scratch that one execution needs
};

struct NeffPackage {
  std::string name;          // of the HLO module
  std::string architecture;  // "trn1", "trn2", "trn3"
  uint32_t lnc_size = 1;
  std::string compiler_version;
  std::array<uint8_t, 16> uuid{};
  std::vector<NeffTensor> tensors;  // inputs by parameter number, then outputs
  std::vector<NeffSubgraph> subgraphs;
};

}  // namespace onrt
