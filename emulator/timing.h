// SPDX-License-Identifier: Apache-2.0
// Device time: what one instruction would take on a NeuronCore. A model from published figures, not
// cycle accurate; every constant carries its source (timing.cc) and can be listed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "emulator/isa/program.h"

namespace onrt {

struct TimingConstant {
  std::string_view name;
  double value = 0;
  std::string_view unit;
  std::string_view source;
};

enum class TimingKey : uint8_t {
  kTensorGhz,
  kVectorGhz,
  kScalarGhz,
  kGpsimdGhz,
  kSyncGhz,
  kDmaBytesPerNs,
  kDmaStartNs,
  kDmaSmallestDescriptor,
  kPartitions,
  kMatmulRows,
  kMatmulColumns,
  kMatmulF32Passes,
  kMatmulF8Speedup,
  kLeastCycles,
  kIssueCycles,
  kPoolStartCycles,
  kTileElements,
  kTopKCycles,
  kMergeCycles,
};
inline constexpr int kTimingKeys = 19;

// Constants of one generation of the core. Indexed by TimingKey.
class TimingModel {
 public:
  // core_version: 2, 3 or 4.
  static const TimingModel& of(uint32_t core_version);

  explicit TimingModel(uint32_t core_version);
  double operator[](TimingKey key) const { return constants_[static_cast<size_t>(key)].value; }
  std::span<const TimingConstant> constants() const { return constants_; }
  double ghz(ncx::Engine engine) const;

 private:
  TimingConstant constants_[kTimingKeys];
};

struct InstructionCost {
  double engine_ns = 0;  // the engine computes
  double dma_ns = 0;     // the DMA engines move data, at the same time
  uint64_t dma_bytes = 0;
  double flops = 0;  // a multiply-accumulate is two, a scalar operation on an element one
};

// By virtual tiling: the macro instruction is cut into the tiles that a kernel would use. Control
// flow costs only its issue; the scheduler adds the nested blocks.
InstructionCost cost_of(const ncx::Instruction& instruction, const TimingModel& model);

}  // namespace onrt
