// SPDX-License-Identifier: Apache-2.0
// Operations that move elements: views where strides can say it, copies where not.
#include <algorithm>

#include "compiler/hir/status.h"
#include "compiler/lowering/lowerer.h"
#include "runtime/base/format.h"

namespace onrt::lowering {
namespace {

using hir::AttributeKey;

// The result as dense memory with the operand's elements in another shape or type.
Status retype(Lowerer& lowerer, const Node& node, int32_t index) {
  const Window from = lowerer.dense(node.operands[0], node);
  const bool copied = from.buffer != lowerer.window(node.operands[0]).buffer;
  Window made = dense_window(from.buffer, node.results[0].dtype, node.results[0].dims);
  made.offset = from.offset;
  if (copied) {
    lowerer.set_window({index, 0}, made, lowerer.last_kernel());
  } else {
    lowerer.set_view({index, 0}, made, node.operands[0]);
  }
  return ok_status();
}

// The part of the operand that lands in the result, and where; one dimension of a pad.
struct PadRange {
  int64_t source_begin = 0;
  int64_t source_end = 0;
  int64_t destination_begin = 0;
};

PadRange pad_range(int64_t size, int64_t result, int64_t low, int64_t interior) {
  const int64_t step = interior + 1;
  PadRange range;
  // Element i lands at low + i * step.
  range.source_begin = low >= 0 ? 0 : std::min(size, (-low + step - 1) / step);
  const int64_t room = result - 1 - low;  // low + i * step <= result - 1
  range.source_end = room < 0 ? 0 : std::min(size, room / step + 1);
  range.source_end = std::max(range.source_end, range.source_begin);
  range.destination_begin = low + range.source_begin * step;
  return range;
}

}  // namespace

Status lower_reshape(Lowerer& lowerer, const Node& node, int32_t index) {
  if (lowerer.splat({index, 0})) {
    return ok_status();
  }
  const Window from = lowerer.window(node.operands[0]);
  if (const auto made = reshape(from, node.results[0].dims)) {
    lowerer.set_view({index, 0}, *made, node.operands[0]);
    return ok_status();
  }
  return retype(lowerer, node, index);
}

Status lower_bitcast(Lowerer& lowerer, const Node& node, int32_t index) {
  return lowerer.type(node.operands[0]).dtype == node.results[0].dtype
             ? lower_reshape(lowerer, node, index)
             : lower_bitcast_convert(lowerer, node, index);
}

// Bits stay where they are: a view. Between types whose registers have the bits of memory it can
// also be one operation of a fused computation; registers of other floats are f32 and would lose
// the payload of a NaN, and half of an f64.
Status lower_bitcast_convert(Lowerer& lowerer, const Node& node, int32_t index) {
  const Dtype from = lowerer.type(node.operands[0]).dtype;
  const Dtype to = node.results[0].dtype;
  const auto has_bits = [](Dtype dtype) { return !is_floating(dtype) || dtype == Dtype::kF32; };
  if (node.opcode == hir::Opcode::kBitcastConvert && dtype_bytes(from) == dtype_bytes(to) &&
      has_bits(from) && has_bits(to)) {
    return lower_scalar_operation(lowerer, node, index);
  }
  return retype(lowerer, node, index);
}

Status lower_broadcast(Lowerer& lowerer, const Node& node, int32_t index) {
  if (lowerer.splat({index, 0})) {
    return ok_status();
  }
  const Window from = lowerer.window(node.operands[0]);
  lowerer.set_view({index, 0},
                   broadcast(from, node.results[0].dims, node.ints(AttributeKey::kDimensions)),
                   node.operands[0]);
  return ok_status();
}

Status lower_transpose(Lowerer& lowerer, const Node& node, int32_t index) {
  const Window from = lowerer.window(node.operands[0]);
  lowerer.set_view({index, 0}, permute(from, node.ints(AttributeKey::kDimensions)),
                   node.operands[0]);
  return ok_status();
}

Status lower_slice(Lowerer& lowerer, const Node& node, int32_t index) {
  const Window from = lowerer.window(node.operands[0]);
  lowerer.set_view({index, 0}, slice(from, node.ints(AttributeKey::kSlice)), node.operands[0]);
  return ok_status();
}

Status lower_reverse(Lowerer& lowerer, const Node& node, int32_t index) {
  const Window from = lowerer.window(node.operands[0]);
  lowerer.set_view({index, 0}, reverse(from, node.ints(AttributeKey::kDimensions)),
                   node.operands[0]);
  return ok_status();
}

Status lower_concatenate(Lowerer& lowerer, const Node& node, int32_t index) {
  const auto axis = static_cast<size_t>(node.ints(AttributeKey::kDimensions)[0]);
  const Window made = lowerer.new_buffer(node.results[0]);
  std::vector<CopyPiece> pieces;
  int64_t begin = 0;
  for (const Ref operand : node.operands) {
    const Type& type = lowerer.type(operand);
    if (type.elements > 0) {
      Window destination = made;
      destination.dims = Dims(type.dims);
      destination.offset = begin * made.strides[axis] * dtype_bytes(made.dtype);
      pieces.push_back({lowerer.window(operand), destination});
    }
    begin += type.dims[axis];
  }
  const int32_t kernel = lowerer.add_kernel(KernelKind::kCopy, node);
  lowerer.kernel(kernel).pieces = std::move(pieces);
  lowerer.set_window({index, 0}, made, kernel);
  return ok_status();
}

Status lower_pad(Lowerer& lowerer, const Node& node, int32_t index) {
  const auto padding = node.ints(AttributeKey::kPadding);
  const Type& from = lowerer.type(node.operands[0]);
  const Window made = lowerer.new_buffer(node.results[0]);
  const Window fill = broadcast(lowerer.window(node.operands[1]), made.dims, {});
  std::vector<int64_t> source_slice;
  Window destination = made;
  for (size_t d = 0; d < from.dims.size(); ++d) {
    const int64_t interior = padding[3 * d + 2];
    const PadRange range = pad_range(from.dims[d], made.dims[d], padding[3 * d], interior);
    source_slice.insert(source_slice.end(), {range.source_begin, range.source_end, 1});
    destination.dims[d] = range.source_end - range.source_begin;
    destination.offset += range.destination_begin * made.strides[d] * dtype_bytes(made.dtype);
    destination.strides[d] = made.strides[d] * (destination.dims[d] < 2 ? 1 : interior + 1);
  }
  std::vector<CopyPiece> pieces = {{fill, made}};
  if (element_count(destination.dims) > 0) {
    pieces.push_back({slice(lowerer.window(node.operands[0]), source_slice), destination});
  }
  const int32_t kernel = lowerer.add_kernel(KernelKind::kCopy, node);
  lowerer.kernel(kernel).pieces = std::move(pieces);
  lowerer.set_window({index, 0}, made, kernel);
  return ok_status();
}

}  // namespace onrt::lowering
