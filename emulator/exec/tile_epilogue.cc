// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/tile_epilogue.h"

#include "emulator/exec/tile_io.h"

namespace onrt {
namespace {

constexpr size_t kMaxLocations = ncx::kMaxMicroInputs + 2 * ncx::kMaxMicroOps;

}  // namespace

TileEpilogue::TileEpilogue(Dtype type, const std::vector<ncx::View>& inputs,
                           const ncx::MicroProgram& program, const std::vector<ncx::View>& outputs,
                           const KernelTable& kernels)
    : type_(type), inputs_(inputs), program_(program), outputs_(outputs), kernels_(kernels) {
  for (const ncx::MicroOp& op : program.ops) {
    if (op.op == ncx::ScalarOp::kIota) {
      iota_dims_.push_back(op.immediate);
    }
  }
  std::vector<Dtype> types = {type};
  const bool external[ncx::kMaxMicroInputs + 1] = {true};
  const bool constant[ncx::kMaxMicroInputs + 1] = {};
  const bool none[ncx::kMaxOutputs] = {};
  for (const ncx::View& view : inputs) {
    types.push_back(view.dtype);
  }
  plan_ = plan_micro(
      program, {types, {external, types.size()}, {constant, types.size()}, {none, outputs.size()}},
      kernels);
}

std::vector<Strides> TileEpilogue::strides() const {
  std::vector<Strides> made;
  for (const ncx::View& view : inputs_) {
    made.push_back(view.strides);
  }
  for (const uint64_t dim : iota_dims_) {
    made.emplace_back()[dim] = 1;
  }
  for (const ncx::View& view : outputs_) {
    made.push_back(view.strides);
  }
  return made;
}

bool TileEpilogue::run(const ExecContext& context, const Tile& tile) const {
  std::byte* arena = thread_arena(static_cast<size_t>(plan_.buffers + 2) * kBufferStride);
  if (arena == nullptr) {
    return false;
  }
  void* pointers[kMaxLocations];
  place_buffers(plan_, arena, pointers);
  place_constants(plan_, pointers, static_cast<size_t>(kBlock));
  std::byte* dense = arena + static_cast<size_t>(plan_.buffers) * kBufferStride;
  const int64_t columns = std::min(tile.columns, kBlock);
  const int64_t rows = columns == tile.columns ? std::max<int64_t>(1, kBlock / columns) : 1;
  for (int64_t r = 0; r < tile.rows; r += rows) {
    for (int64_t c = 0; c < tile.columns; c += columns) {
      run_block(context, tile,
                {r, std::min(rows, tile.rows - r), c, std::min(columns, tile.columns - c)},
                pointers, dense);
    }
  }
  return true;
}

void TileEpilogue::run_block(const ExecContext& context, const Tile& tile, const Block& block,
                             void** pointers, std::byte* dense) const {
  const int64_t width = register_bytes(ncx::register_class(type_));
  std::byte* values = tile.values + (block.row * tile.row_stride + block.column) * width;
  if (block.rows > 1 && tile.row_stride != block.columns) {
    for (int64_t r = 0; r < block.rows; ++r) {
      std::copy_n(values + r * tile.row_stride * width, block.columns * width,
                  dense + r * block.columns * width);
    }
    values = dense;
  }
  TileCursor cursor(tile.outer, tile.inner);
  cursor.seek(tile.row + block.row, block.rows, tile.column + block.column, block.columns);
  if (const OpKernel settle = kernels_.settle[static_cast<size_t>(type_)];
      settle != nullptr && !tile.rounded) {
    settle(values, values, nullptr, nullptr, cursor.size(), 0);
  }
  pointers[plan_.inputs[0]] = values;
  size_t view = 0;
  const auto at = [&](const ncx::View& v) {
    return context.at(v) + tile.bases[view] * static_cast<int64_t>(dtype_bytes(v.dtype));
  };
  for (size_t i = 0; i < inputs_.size(); ++i, ++view) {
    cursor.load(view, at(inputs_[i]), kernels_, inputs_[i].dtype, pointers[plan_.inputs[i + 1]]);
  }
  auto* positions = reinterpret_cast<int64_t*>(dense + kBufferStride);
  for (const MicroIota& iota : plan_.iotas) {
    size_t number = inputs_.size();
    while (iota_dims_[number - inputs_.size()] != iota.dimension) {
      ++number;
    }
    cursor.count(number, positions);
    for (size_t i = 0; i < cursor.size(); ++i) {
      positions[i] += tile.bases[number];
    }
    iota.convert(pointers[iota.location], positions, nullptr, nullptr, cursor.size(), 0);
  }
  view += iota_dims_.size();
  run_steps(plan_, pointers, cursor.size());
  for (size_t i = 0; i < outputs_.size(); ++i, ++view) {
    cursor.store(view, at(outputs_[i]), kernels_, outputs_[i].dtype, pointers[plan_.results[i]]);
  }
}

}  // namespace onrt
