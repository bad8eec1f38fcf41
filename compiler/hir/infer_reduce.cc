// SPDX-License-Identifier: Apache-2.0
// Shapes of reduce, dot and the random number generators.
#include <algorithm>
#include <array>
#include <vector>

#include "compiler/hir/infer.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

std::vector<int64_t> dims_without(const Shape& shape, std::span<const int64_t> left_out) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (std::ranges::find(left_out, static_cast<int64_t>(i)) == left_out.end()) {
      dims.push_back(shape.dims[i]);
    }
  }
  return dims;
}

// Contracting or batch dimensions of both sides of a dot: pairs of equal size.
Status require_pairs(const InferContext& context, std::string_view what,
                     std::span<const int64_t> lhs, std::span<const int64_t> rhs) {
  if (lhs.size() != rhs.size()) {
    return context.wrong(format("{} dimensions: expected as many on both sides, found {} and {}",
                                what, dims_text(lhs), dims_text(rhs)));
  }
  for (size_t i = 0; i < lhs.size(); ++i) {
    const int64_t left = context.operand(0).dims[static_cast<size_t>(lhs[i])];
    const int64_t right = context.operand(1).dims[static_cast<size_t>(rhs[i])];
    if (left != right) {
      return context.wrong(format("{} dimensions {} and {}: expected equal sizes, found {} and {}",
                                  what, lhs[i], rhs[i], left, right));
    }
  }
  return ok_status();
}

}  // namespace

Result<ShapeId> infer_fold(const InferContext& context, std::span<const int64_t> result_dims) {
  const size_t n = context.operand_count() / 2;
  const Shape& first = context.operand(0);
  std::vector<ShapeId> scalars(2 * n);
  std::vector<ShapeId> results(n);
  for (size_t i = 0; i < n; ++i) {
    const Shape& array = context.operand(i);
    if (!std::ranges::equal(array.dims, first.dims)) {
      return context.wrong(format("operand {}: expected dimensions {}, found {}", i,
                                  dims_text(first.dims), context.text(context.operand_id(i))));
    }
    ONRT_ASSIGN_OR_RETURN(scalars[i], context.array(array.dtype, {}));
    scalars[n + i] = scalars[i];
    if (context.operand_id(n + i) != scalars[i]) {
      return context.wrong(format("operand {}: expected {} as initial value, found {}", n + i,
                                  context.text(scalars[i]),
                                  context.text(context.operand_id(n + i))));
    }
    ONRT_ASSIGN_OR_RETURN(results[i], context.array(array.dtype, result_dims));
  }
  ONRT_ASSIGN_OR_RETURN(const Computation* callee, context.callee());
  ONRT_ASSIGN_OR_RETURN(const ShapeId scalar_result, context.one_or_tuple({scalars.data(), n}));
  ONRT_RETURN_IF_ERROR(context.require_signature(*callee, scalars, scalar_result));
  return context.one_or_tuple(results);
}

Result<ShapeId> infer_reduce(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  if (context.operand_count() % 2 != 0) {
    return context.wrong(format("expected as many initial values as arrays, found {} operands",
                                context.operand_count()));
  }
  const Shape& first = context.operand(0);
  ONRT_ASSIGN_OR_RETURN(const auto reduced,
                        context.dimensions(AttributeKey::kDimensions, first.rank()));
  return infer_fold(context, dims_without(first, reduced));
}

// Result dims: batch, free dims of lhs, free dims of rhs. The element type is the caller's choice
// among the kinds of the operands' type: accumulation is in f32 or in the integer type.
Result<ShapeId> infer_dot(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& lhs = context.operand(0);
  const Shape& rhs = context.operand(1);
  const bool floats = is_floating(lhs.dtype) && is_floating(rhs.dtype);
  const bool integers = is_integer(lhs.dtype) && is_integer(rhs.dtype);
  if (!floats && !integers) {
    return context.wrong(format("expected two floating or two integer operands, found {} and {}",
                                context.text(context.operand_id(0)),
                                context.text(context.operand_id(1))));
  }
  ONRT_ASSIGN_OR_RETURN(const auto lhs_batch,
                        context.dimensions(AttributeKey::kLhsBatch, lhs.rank()));
  ONRT_ASSIGN_OR_RETURN(const auto rhs_batch,
                        context.dimensions(AttributeKey::kRhsBatch, rhs.rank()));
  ONRT_ASSIGN_OR_RETURN(const auto lhs_contracting,
                        context.dimensions(AttributeKey::kLhsContracting, lhs.rank()));
  ONRT_ASSIGN_OR_RETURN(const auto rhs_contracting,
                        context.dimensions(AttributeKey::kRhsContracting, rhs.rank()));
  ONRT_RETURN_IF_ERROR(require_pairs(context, "batch", lhs_batch, rhs_batch));
  ONRT_RETURN_IF_ERROR(require_pairs(context, "contracting", lhs_contracting, rhs_contracting));
  std::vector<int64_t> dims;
  for (const int64_t dim : lhs_batch) {
    dims.push_back(lhs.dims[static_cast<size_t>(dim)]);
  }
  for (const bool left : {true, false}) {
    std::vector<int64_t> used(left ? lhs_batch.begin() : rhs_batch.begin(),
                              left ? lhs_batch.end() : rhs_batch.end());
    const auto contracting = left ? lhs_contracting : rhs_contracting;
    for (const int64_t dim : contracting) {
      if (std::ranges::find(used, dim) != used.end()) {
        return context.wrong(
            format("dimension {} of operand {} is both batch and contracting", dim, left ? 0 : 1));
      }
      used.push_back(dim);
    }
    const std::vector<int64_t> free = dims_without(left ? lhs : rhs, used);
    dims.insert(dims.end(), free.begin(), free.end());
  }
  const Shape& given = context.given();
  const bool fits =
      given.is_array() && (floats ? is_floating(given.dtype) : is_integer(given.dtype));
  return context.array(fits ? given.dtype : lhs.dtype, dims);
}

// Operands: a and b of the result's type; [a, b) of a uniform distribution, or mean and deviation.
Result<ShapeId> infer_rng(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& shape = context.given();
  ONRT_ASSIGN_OR_RETURN(const auto kind, context.exactly(AttributeKey::kRngDistribution, 1));
  if (kind[0] != 1 && kind[0] != 2) {
    return context.wrong(
        format("attribute distribution: expected 1 (uniform) or 2 (normal), found "
               "{}",
               kind[0]));
  }
  if (!shape.is_array() || (kind[0] == 2 && !is_floating(shape.dtype))) {
    return context.wrong(format("shape: expected an array of {}, found {}",
                                kind[0] == 2 ? "floats" : "numbers",
                                context.text(context.given_id())));
  }
  ONRT_ASSIGN_OR_RETURN(const ShapeId scalar, context.array(shape.dtype, {}));
  for (size_t i = 0; i < 2; ++i) {
    if (context.operand_id(i) != scalar) {
      return context.wrong(format("operand {}: expected {}, found {}", i, context.text(scalar),
                                  context.text(context.operand_id(i))));
    }
  }
  return context.given_id();
}

// State u64[2] (three-fry) or u64[2] or u64[3] (philox, default) -> (new state, bits).
Result<ShapeId> infer_rng_bit_generator(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  ONRT_ASSIGN_OR_RETURN(const auto algorithm, context.exactly(AttributeKey::kRngAlgorithm, 1));
  if (algorithm[0] < 0 || algorithm[0] > 2) {
    return context.wrong(
        format("attribute algorithm: expected 0 (default), 1 (three-fry) or 2 "
               "(philox), found {}",
               algorithm[0]));
  }
  const Shape& state = context.operand(0);
  const bool three = algorithm[0] != 1;
  if (state.dtype != Dtype::kU64 || state.rank() != 1 ||
      (state.dims[0] != 2 && !(three && state.dims[0] == 3))) {
    return context.wrong(format("operand 0: expected a state u64[2]{}, found {}",
                                three ? " or u64[3]" : "", context.text(context.operand_id(0))));
  }
  const Shape& given = context.given();
  if (!given.is_tuple() || given.elements.size() != 2 ||
      !context.shapes()[given.elements[1]].is_array() ||
      !is_integer(context.shapes()[given.elements[1]].dtype)) {
    return context.wrong(
        format("shape: expected a tuple of the state and an array of integers, "
               "found {}",
               context.text(context.given_id())));
  }
  const std::array<ShapeId, 2> elements = {context.operand_id(0), given.elements[1]};
  return context.shapes().tuple(elements);
}

}  // namespace onrt::hir
