// SPDX-License-Identifier: Apache-2.0
// The epilogue of instructions that compute sums tile by tile: rounds the sums to their type, runs
// the micro-program and stores its results.
#pragma once

#include <vector>

#include "emulator/exec/executor.h"
#include "emulator/exec/layout.h"
#include "emulator/exec/micro_plan.h"

namespace onrt {

// The most views that an epilogue touches.
constexpr size_t kMaxTileViews = ncx::kMaxMicroInputs + ncx::kMaxOutputs + ncx::kMaxMicroOps;

// Immutable after construction; run() is thread-safe.
class TileEpilogue {
 public:
  // The program's register 0 is the sum, of type `type`; then come `inputs`. Borrowed: all
  // arguments outlive the object.
  TileEpilogue(Dtype type, const std::vector<ncx::View>& inputs, const ncx::MicroProgram& program,
               const std::vector<ncx::View>& outputs, const KernelTable& kernels);

  // Strides of all that a tile touches (inputs, iotas, outputs), by view number; rank is that of
  // the outputs. Nests and bases that are given to run() have these views.
  std::vector<Strides> strides() const;

  struct Tile {
    const LoopNest& outer;  // of the rows of `values`
    const LoopNest& inner;  // of its columns
    const int64_t* bases;   // by view: elements before element (0, 0) of the nests
    int64_t row = 0;
    int64_t rows = 0;
    int64_t column = 0;
    int64_t columns = 0;
    std::byte* values = nullptr;  // registers, [rows][row_stride]; overwritten unless rounded
    int64_t row_stride = 0;
    bool rounded = false;  // the sums are values of their type already
  };
  // False if there is no memory for buffers.
  bool run(const ExecContext& context, const Tile& tile) const;

 private:
  struct Block {
    int64_t row, rows, column, columns;
  };
  void run_block(const ExecContext& context, const Tile& tile, const Block& block, void** pointers,
                 std::byte* dense) const;

  Dtype type_;
  const std::vector<ncx::View>& inputs_;
  const ncx::MicroProgram& program_;
  const std::vector<ncx::View>& outputs_;
  const KernelTable& kernels_;
  std::vector<uint64_t> iota_dims_;
  MicroPlan plan_;
};

}  // namespace onrt
