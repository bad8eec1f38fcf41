// SPDX-License-Identifier: Apache-2.0
// Counts, dims, types and numbers of sorts and windowed instructions.
#include <algorithm>
#include <span>

#include "emulator/isa/verify_parts.h"
#include "runtime/base/format.h"

namespace onrt::ncx {
namespace {

Status invalid(std::string message) { return Status(NRT_INVALID, std::move(message)); }

// Dims agree, but for dimension `but`.
bool dims_agree(const View& a, const View& b, int but) {
  bool agree = a.rank == b.rank;
  for (int d = 0; agree && d < a.rank; ++d) {
    const auto dim = static_cast<size_t>(d);
    agree = d == but || a.dims[dim] == b.dims[dim];
  }
  return agree;
}

Status verify_same_dims(std::span<const View> views, std::string_view what) {
  for (size_t i = 1; i < views.size(); ++i) {
    if (!same_dims(views[i], views[0])) {
      return invalid(format("{} {}: its dims differ from those of {} 0", what, i, what));
    }
  }
  return ok_status();
}

// The highest place a dimension names, so that positions never overflow.
bool places_fit(const WindowDimension& w, int64_t operand, int64_t windows) {
  int64_t last = 0;
  int64_t inside = 0;
  int64_t reach = 0;
  return !__builtin_mul_overflow(windows, w.stride, &last) &&
         !__builtin_mul_overflow(w.size, w.window_dilation, &inside) &&
         !__builtin_mul_overflow(operand, w.base_dilation, &reach) && last <= kMaxElements / 4 &&
         inside <= kMaxElements / 4 && reach <= kMaxElements / 4;
}

Status verify_window(std::span<const WindowDimension> window, const View& operand,
                     const View& windows) {
  if (operand.rank != windows.rank || window.size() != operand.rank) {
    return invalid(format("a window of {} dimensions for ranks {} and {}", window.size(),
                          operand.rank, windows.rank));
  }
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDimension& w = window[d];
    for (const int64_t number : {w.size, w.stride, w.window_dilation, w.base_dilation}) {
      if (number < 1 || number > kMaxWindowNumber) {
        return invalid(format("window dimension {}: {} where 1 to 2^40 is expected", d, number));
      }
    }
    if (w.padding_low < -kMaxWindowNumber || w.padding_low > kMaxWindowNumber ||
        !places_fit(w, operand.dims[d], windows.dims[d])) {
      return invalid(format("window dimension {}: padding, or places beyond 2^60", d));
    }
  }
  return ok_status();
}

// Steps from element to element of a window and from window to window, in elements of memory: what
// executors multiply must not overflow, even for a dimension in which there is nowhere to go.
Status verify_steps(std::span<const WindowDimension> window, const View& view) {
  for (size_t d = 0; d < window.size(); ++d) {
    int64_t step = 0;
    if (__builtin_mul_overflow(std::max(window[d].stride, window[d].window_dilation),
                               view.strides[d], &step) ||
        step < -kMaxElements / 4 || step > kMaxElements / 4) {
      return invalid(format("window dimension {}: steps beyond 2^60", d));
    }
  }
  return ok_status();
}

}  // namespace

Status verify_sort(const Sort& op) {
  const size_t n = op.inputs.size();
  const size_t outputs = op.outputs.size();
  if (n == 0 || 2 * n > static_cast<size_t>(kMaxMicroInputs) ||
      (outputs != n && outputs != n + 1)) {
    return invalid(
        format("{} inputs and {} outputs where 1 to {} and as many, or one more, are "
               "expected",
               n, outputs, kMaxMicroInputs / 2));
  }
  ONRT_RETURN_IF_ERROR(verify_same_dims(op.inputs, "input"));
  ONRT_RETURN_IF_ERROR(verify_same_dims(op.outputs, "output"));
  const View& input = op.inputs[0];
  const View& output = op.outputs[0];
  if (op.dimension >= input.rank || !dims_agree(input, output, op.dimension)) {
    return invalid(format("outputs differ from the inputs in more than dimension {} of {}",
                          op.dimension, input.rank));
  }
  const int64_t length = input.dims[op.dimension];
  if (length > kMaxSortLength || output.dims[op.dimension] > length) {
    return invalid(format("{} of {} elements sorted where at most {} are allowed",
                          output.dims[op.dimension], length, kMaxSortLength));
  }
  // A row takes memory while it is sorted, so it must not be long by repetition alone.
  constexpr int64_t kLongRow = 1 << 20;
  const auto repeats = [&](const View& view) { return view.strides[op.dimension] == 0; };
  if (length > kLongRow && std::ranges::all_of(op.inputs, repeats)) {
    return invalid(format("{} elements are sorted that are all the same one", length));
  }
  for (size_t i = 0; i < n; ++i) {
    if (op.outputs[i].dtype != op.inputs[i].dtype) {
      return invalid(format("output {} is {} and its input {}", i, dtype_name(op.outputs[i].dtype),
                            dtype_name(op.inputs[i].dtype)));
    }
  }
  if (outputs > n && op.outputs[n].dtype != Dtype::kS32 && op.outputs[n].dtype != Dtype::kU32) {
    return invalid(format("positions of type {}", dtype_name(op.outputs[n].dtype)));
  }
  return ok_status();
}

Status verify_reduce_window(const ReduceWindow& op) {
  const size_t n = op.inputs.size();
  if (n == 0 || n > static_cast<size_t>(kMaxOutputs) || op.outputs.size() != n ||
      op.accumulators.size() != n) {
    return invalid(
        format("{} inputs, {} accumulators and {} outputs where 1 to {} of each are "
               "expected",
               n, op.accumulators.size(), op.outputs.size(), kMaxOutputs));
  }
  ONRT_RETURN_IF_ERROR(verify_same_dims(op.inputs, "input"));
  ONRT_RETURN_IF_ERROR(verify_same_dims(op.outputs, "output"));
  for (size_t i = 0; i < n; ++i) {
    const Reduce::Accumulator& accumulator = op.accumulators[i];
    const Dtype type = op.inputs[i].dtype;
    if (accumulator.type != type || accumulator.init.dtype != type || op.outputs[i].dtype != type) {
      return invalid(format("input {} is {}, its accumulator {}, initial value {}, output {}", i,
                            dtype_name(type), dtype_name(accumulator.type),
                            dtype_name(accumulator.init.dtype), dtype_name(op.outputs[i].dtype)));
    }
    if (op.general.results.empty() && !is_combiner(accumulator.combiner, type)) {
      return invalid(format("accumulator {} combines {} by {}", i, dtype_name(type),
                            scalar_op_info(accumulator.combiner).name));
    }
  }
  ONRT_RETURN_IF_ERROR(verify_window(op.window, op.inputs[0], op.outputs[0]));
  for (const View& input : op.inputs) {
    ONRT_RETURN_IF_ERROR(verify_steps(op.window, input));
  }
  return ok_status();
}

Status verify_select_scatter(const SelectScatter& op) {
  if (!same_dims(op.operand, op.output)) {
    return invalid("operand and output differ in dims");
  }
  const Dtype type = op.operand.dtype;
  if (op.source.dtype != type || op.init.dtype != type || op.output.dtype != type) {
    return invalid(format("operand is {}, source {}, initial value {}, output {}", dtype_name(type),
                          dtype_name(op.source.dtype), dtype_name(op.init.dtype),
                          dtype_name(op.output.dtype)));
  }
  ONRT_RETURN_IF_ERROR(verify_window(op.window, op.operand, op.source));
  ONRT_RETURN_IF_ERROR(verify_steps(op.window, op.operand));
  return verify_steps(op.window, op.output);
}

}  // namespace onrt::ncx
