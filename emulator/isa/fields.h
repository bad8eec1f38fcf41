// SPDX-License-Identifier: Apache-2.0
// The fields of a program in the order of the encoding. One description serves the writer and the
// reader: an archive has number(x), enumeration(x), vector(x, limit, minimum) and text(x).
//
// number(x) is sizeof(x) bytes, little-endian. A vector is a u32 count and its elements. There is
// no padding. The order below *is* the format: a change needs a new kEncodingVersion.
#pragma once

#include "emulator/isa/program.h"

namespace onrt::ncx {

template <class Archive>
void fields(Archive& archive, Extents& extents) {
  archive.rank(extents.rank);
  for (int d = 0; d < extents.rank; ++d) {
    archive.number(extents.dims[d]);
  }
}

template <class Archive>
void fields(Archive& archive, View& view) {
  archive.enumeration(view.space, 3);
  archive.dtype(view.dtype);
  archive.rank(view.rank);
  archive.number(view.slot);
  archive.number(view.offset);
  for (int d = 0; d < view.rank; ++d) {
    archive.number(view.dims[d]);
    archive.number(view.strides[d]);
  }
}

template <class Archive>
void fields(Archive& archive, MicroOp& op) {
  archive.enumeration(op.op, kScalarOps);
  archive.dtype(op.type);
  for (uint16_t& operand : op.operands) {
    archive.number(operand);
  }
  archive.number(op.immediate);
}

template <class Archive>
void fields(Archive& archive, MicroProgram& program) {
  archive.vector(program.ops, kMaxMicroOps);
  archive.vector(program.results, kMaxOutputs);
}

template <class Archive>
void fields(Archive& archive, uint16_t& value) {
  archive.number(value);
}
template <class Archive>
void fields(Archive& archive, uint32_t& value) {
  archive.number(value);
}
template <class Archive>
void fields(Archive& archive, int64_t& value) {
  archive.number(value);
}

template <class Archive>
void fields(Archive& archive, Eltwise& op) {
  fields(archive, op.domain);
  archive.vector(op.inputs, kMaxMicroInputs);
  fields(archive, op.program);
  archive.vector(op.outputs, kMaxOutputs);
}

template <class Archive>
void fields(Archive& archive, Reduce::Accumulator& accumulator) {
  archive.dtype(accumulator.type);
  archive.enumeration(accumulator.combiner, kScalarOps);
  fields(archive, accumulator.init);
}

template <class Archive>
void fields(Archive& archive, Reduce& op) {
  fields(archive, op.domain);
  archive.number(op.reduced);
  archive.vector(op.inputs, kMaxMicroInputs);
  fields(archive, op.prologue);
  archive.vector(op.accumulators, kMaxOutputs);
  fields(archive, op.general);
  archive.vector(op.epilogue_inputs, kMaxMicroInputs);
  fields(archive, op.epilogue);
  archive.vector(op.outputs, kMaxOutputs);
}

template <class Archive>
void fields(Archive& archive, Gemm& op) {
  fields(archive, op.lhs);
  fields(archive, op.rhs);
  archive.dtype(op.type);
  archive.vector(op.epilogue_inputs, kMaxMicroInputs);
  fields(archive, op.epilogue);
  archive.vector(op.outputs, kMaxOutputs);
}

template <class Archive>
void fields(Archive& archive, Conv::Axis& axis) {
  archive.number(axis.stride);
  archive.number(axis.low);
  archive.number(axis.dilation);
  archive.number(axis.base_dilation);
}

template <class Archive>
void fields(Archive& archive, Conv& op) {
  fields(archive, op.input);
  fields(archive, op.kernel);
  archive.vector(op.axes, kMaxRank);
  archive.dtype(op.type);
  archive.vector(op.epilogue_inputs, kMaxMicroInputs);
  fields(archive, op.epilogue);
  archive.vector(op.outputs, kMaxOutputs);
}

template <class Archive>
void fields(Archive& archive, Copy::Piece& piece) {
  fields(archive, piece.source);
  fields(archive, piece.destination);
}

template <class Archive>
void fields(Archive& archive, Copy& op) {
  archive.vector(op.pieces, kMaxCopyPieces);
}

template <class Archive>
void fields(Archive& archive, Gather& op) {
  fields(archive, op.operand);
  fields(archive, op.indices);
  fields(archive, op.output);
  for (auto* dims : {&op.offset_dims, &op.collapsed_slice_dims, &op.start_index_map,
                     &op.operand_batching_dims, &op.start_indices_batching_dims, &op.slice_sizes}) {
    archive.vector(*dims, kMaxRank);
  }
  archive.number(op.index_vector_dim);
}

template <class Archive>
void fields(Archive& archive, Scatter& op) {
  archive.vector(op.outputs, kMaxOutputs);
  fields(archive, op.indices);
  archive.vector(op.updates, kMaxOutputs);
  fields(archive, op.combiner);
  for (auto* dims :
       {&op.update_window_dims, &op.inserted_window_dims, &op.scatter_dims_to_operand_dims,
        &op.input_batching_dims, &op.scatter_indices_batching_dims}) {
    archive.vector(*dims, kMaxRank);
  }
  archive.number(op.index_vector_dim);
}

template <class Archive>
void fields(Archive& archive, DynamicSlice& op) {
  fields(archive, op.source);
  fields(archive, op.destination);
  archive.vector(op.starts, kMaxRank);
}

template <class Archive>
void fields(Archive& archive, DynamicUpdateSlice& op) {
  fields(archive, op.destination);
  fields(archive, op.update);
  archive.vector(op.starts, kMaxRank);
}

template <class Archive>
void fields(Archive& archive, Rng& op) {
  archive.enumeration(op.kind, 5);
  for (View* view : {&op.output, &op.state, &op.state_out, &op.a, &op.b}) {
    fields(archive, *view);
  }
  archive.number(op.seed);
}

template <class Archive>
void fields(Archive& archive, Linalg& op) {
  archive.enumeration(op.kind, 2);
  archive.number(op.unit_diagonal);
  for (View* view : {&op.a, &op.b, &op.output}) {
    fields(archive, *view);
  }
}

template <class Archive>
void fields(Archive& archive, Loop& op) {
  archive.number(op.condition);
  archive.number(op.body);
  fields(archive, op.predicate);
}

template <class Archive>
void fields(Archive& archive, If& op) {
  fields(archive, op.selector);
  archive.vector(op.branches, kMaxBlocks);
}

template <class Archive>
void fields(Archive& archive, Call& op) {
  archive.number(op.block);
}

template <class Archive>
void fields(Archive& archive, Sort& op) {
  archive.vector(op.inputs, kMaxOutputs);
  archive.vector(op.outputs, kMaxOutputs);
  archive.number(op.dimension);
  fields(archive, op.comparator);
}

template <class Archive>
void fields(Archive& archive, WindowDimension& dimension) {
  archive.number(dimension.size);
  archive.number(dimension.stride);
  archive.number(dimension.padding_low);
  archive.number(dimension.window_dilation);
  archive.number(dimension.base_dilation);
}

template <class Archive>
void fields(Archive& archive, ReduceWindow& op) {
  archive.vector(op.inputs, kMaxOutputs);
  archive.vector(op.window, kMaxRank);
  archive.vector(op.accumulators, kMaxOutputs);
  fields(archive, op.general);
  archive.vector(op.outputs, kMaxOutputs);
}

template <class Archive>
void fields(Archive& archive, SelectScatter& op) {
  for (View* view : {&op.operand, &op.source, &op.init, &op.output}) {
    fields(archive, *view);
  }
  archive.vector(op.window, kMaxRank);
  fields(archive, op.select);
  fields(archive, op.scatter);
}

template <class Archive>
void fields(Archive& archive, SemaphoreWait& wait) {
  archive.number(wait.semaphore);
  archive.number(wait.value);
}

template <class Archive>
void fields(Archive& archive, SemaphoreIncrement& increment) {
  archive.number(increment.semaphore);
  archive.number(increment.value);
}

template <class Archive>
void fields(Archive& archive, Instruction& instruction) {
  archive.payload(instruction.payload);
  archive.enumeration(instruction.engine, kEngines);
  archive.number(instruction.name);
  archive.vector(instruction.waits, kMaxSemaphores);
  archive.vector(instruction.increments, kMaxSemaphores);
}

template <class Archive>
void fields(Archive& archive, Block& block) {
  archive.vector(block.instructions, kMaxInstructions);
}

template <class Archive>
void fields(Archive& archive, IoSlot& slot) {
  archive.dtype(slot.dtype);
  archive.enumeration(slot.usage, 2);
  archive.number(slot.bytes);
  archive.vector(slot.dims, kMaxIoRank);
}

template <class Archive>
void fields(Archive& archive, std::string& text) {
  archive.text(text, kMaxNameBytes);
}

// The constants' size and digest are in the header.
template <class Archive>
void fields(Archive& archive, Program& program) {
  archive.number(program.core_version);
  archive.number(program.flags);
  archive.number(program.scratch_bytes);
  archive.number(program.semaphores);
  archive.vector(program.io, kMaxIoSlots);
  archive.vector(program.blocks, kMaxBlocks);
  archive.vector(program.names, kMaxInstructions);
}

}  // namespace onrt::ncx
