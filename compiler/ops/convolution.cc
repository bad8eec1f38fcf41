// SPDX-License-Identifier: Apache-2.0
// convolution: the sum over kernel positions and input features, in the order of
// emulator/isa/reduce_order.h.
#include "compiler/ops/convolution.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "compiler/hir/infer.h"
#include "compiler/hir/status.h"
#include "compiler/lowering/lowerer.h"
#include "compiler/reference/interpreter.h"
#include "emulator/isa/reduce_order.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

constexpr int64_t kMostStep = int64_t{1} << 31;
constexpr int64_t kMostPositions = int64_t{1} << 29;  // along an axis
constexpr std::array<std::string_view, 3> kArrays = {"input", "kernel", "output"};

// A permutation of the dimensions of an array of rank `rank` for input, kernel and output.
Status check_dims(const InferContext& context, size_t rank) {
  ONRT_ASSIGN_OR_RETURN(const auto dims, context.exactly(AttributeKey::kConvDims, 3 * rank));
  for (size_t array = 0; array < 3; ++array) {
    std::vector<bool> seen(rank, false);
    for (const int64_t dim : dims.subspan(array * rank, rank)) {
      if (dim < 0 || dim >= static_cast<int64_t>(rank) || seen[static_cast<size_t>(dim)]) {
        return context.wrong(format(
            "attribute conv_dims: expected each of the {} dimensions of the {} once, found {}",
            rank, kArrays[array], dims_text(dims.subspan(array * rank, rank))));
      }
      seen[static_cast<size_t>(dim)] = true;
    }
  }
  return ok_status();
}

Status check_window(const InferContext& context, size_t axes) {
  ONRT_ASSIGN_OR_RETURN(const auto window, context.exactly(AttributeKey::kWindow, 7 * axes));
  for (size_t i = 0; i < axes; ++i) {
    const auto axis = window.subspan(7 * i, 7);
    for (const size_t step : {1, 4, 5}) {
      if (axis[step] < 1 || axis[step] >= kMostStep) {
        return context.wrong(format("axis {}: expected a {} from 1 to 2^31 - 1, found {}", i,
                                    step == 1   ? "stride"
                                    : step == 4 ? "window dilation"
                                                : "base dilation",
                                    axis[step]));
      }
    }
    for (const size_t padding : {2, 3}) {
      if (axis[padding] <= -kMostStep || axis[padding] >= kMostStep) {
        return context.wrong(format(
            "axis {}: expected a padding above -2^31 and below 2^31, found {}", i, axis[padding]));
      }
    }
    if (axis[0] < 0 || axis[0] > kMostPositions) {
      return context.wrong(
          format("axis {}: expected a window size from 0 to 2^29, found {}", i, axis[0]));
    }
  }
  return ok_status();
}

Status check_groups(const InferContext& context, const Convolution& conv) {
  const Shape& input = context.operand(0);
  const Shape& kernel = context.operand(1);
  if (conv.feature_groups() < 1 || conv.batch_groups() < 1 ||
      (conv.feature_groups() > 1 && conv.batch_groups() > 1)) {
    return context.wrong(format(
        "attribute groups: expected positive counts of which one is 1, found {} groups of features "
        "and {} of the batch",
        conv.feature_groups(), conv.batch_groups()));
  }
  const int64_t batch = input.dims[static_cast<size_t>(conv.input().first)];
  const int64_t features = input.dims[static_cast<size_t>(conv.input().second)];
  const int64_t kernel_features = kernel.dims[static_cast<size_t>(conv.kernel().first)];
  const int64_t results = kernel.dims[static_cast<size_t>(conv.kernel().second)];
  if (kernel_features > (int64_t{1} << 31) || kernel_features * conv.feature_groups() != features) {
    return context.wrong(
        format("input features: expected the kernel's {} times {} groups, found {}",
               kernel_features, conv.feature_groups(), features));
  }
  if (results % conv.groups() != 0) {
    return context.wrong(format("output features: expected a multiple of {} groups, found {}",
                                conv.groups(), results));
  }
  if (batch % conv.batch_groups() != 0) {
    return context.wrong(
        format("batch: expected a multiple of {} groups, found {}", conv.batch_groups(), batch));
  }
  return ok_status();
}

}  // namespace

// Operands: input, kernel. The element type is the caller's choice as for dot.
Result<ShapeId> infer_convolution(const InferContext& context) {
  ONRT_RETURN_IF_ERROR(context.require_arrays());
  const Shape& input = context.operand(0);
  const Shape& kernel = context.operand(1);
  if (input.rank() < 2 || kernel.rank() != input.rank()) {
    return context.wrong(
        format("expected two operands of the same rank of at least 2, found {} and {}",
               context.text(context.operand_id(0)), context.text(context.operand_id(1))));
  }
  const bool floats = is_floating(input.dtype) && is_floating(kernel.dtype);
  const bool integers = is_integer(input.dtype) && is_integer(kernel.dtype);
  if (!floats && !integers) {
    return context.wrong(format("expected two floating or two integer operands, found {} and {}",
                                context.text(context.operand_id(0)),
                                context.text(context.operand_id(1))));
  }
  ONRT_RETURN_IF_ERROR(check_dims(context, input.rank()));
  ONRT_RETURN_IF_ERROR(check_window(context, input.rank() - 2));
  ONRT_RETURN_IF_ERROR(context.exactly(AttributeKey::kGroups, 2).status());
  const Convolution conv(context.candidate().attributes);
  ONRT_RETURN_IF_ERROR(check_groups(context, conv));
  std::vector<int64_t> dims(input.rank());
  dims[static_cast<size_t>(conv.output().first)] =
      input.dims[static_cast<size_t>(conv.input().first)] / conv.batch_groups();
  dims[static_cast<size_t>(conv.output().second)] =
      kernel.dims[static_cast<size_t>(conv.kernel().second)];
  for (size_t i = 0; i < conv.axes(); ++i) {
    const WindowAxis axis = conv.axis(i);
    const int64_t in = input.dims[static_cast<size_t>(conv.input().spatial[i])];
    const int64_t size = kernel.dims[static_cast<size_t>(conv.kernel().spatial[i])];
    if (size != axis.size) {
      return context.wrong(format("axis {}: expected the kernel's size {} as window size, found {}",
                                  i, size, axis.size));
    }
    if (in > kMostPositions || axis.positions(in) > kMostPositions) {
      return context.wrong(format("axis {}: expected at most 2^29 positions, found {} and {}", i,
                                  in, in > kMostPositions ? 0 : axis.positions(in)));
    }
    dims[static_cast<size_t>(conv.output().spatial[i])] = axis.positions(in);
  }
  const Shape& given = context.given();
  const bool fits =
      given.is_array() && (floats ? is_floating(given.dtype) : is_integer(given.dtype));
  return context.array(fits ? given.dtype : input.dtype, dims);
}

}  // namespace onrt::hir

namespace onrt::reference {
namespace {

using hir::Convolution;
using ncx::Boxed;

// Sums terms as a dot's k.
class DotSum {
 public:
  explicit DotSum(Dtype type) : type_(type) {}
  void add(Boxed a, Boxed b) {
    if (!is_floating(type_)) {
      integer_ += a * b;
      return;
    }
    if (k_ % ncx::kDotBlock == 0 && k_ > 0) {
      total_ = k_ == ncx::kDotBlock ? block_ : total_ + block_;
      block_ = 0;
    }
    block_ = std::fma(std::bit_cast<float>(static_cast<uint32_t>(a)),
                      std::bit_cast<float>(static_cast<uint32_t>(b)), block_);
    ++k_;
  }
  Boxed value() const {
    const float total = k_ <= ncx::kDotBlock ? block_ : total_ + block_;
    return ncx::settle_boxed(type_, is_floating(type_) ? std::bit_cast<uint32_t>(total) : integer_);
  }

 private:
  Dtype type_;
  int64_t k_ = 0;
  float total_ = 0;
  float block_ = 0;
  uint64_t integer_ = 0;
};

}  // namespace

Status evaluate_convolution(Operation& operation) {
  const Tensor& input = operation.operand(0);
  const Tensor& kernel = operation.operand(1);
  Tensor& result = operation.result();
  const Convolution conv(operation.attributes);
  const auto at = [](Index& index, int64_t dim) -> int64_t& {
    return index[static_cast<size_t>(dim)];
  };
  Index window;
  for (size_t i = 0; i < conv.axes(); ++i) {
    window.push_back(conv.axis(i).size);
  }
  const int64_t features = kernel.dims[static_cast<size_t>(conv.kernel().first)];
  const int64_t results = kernel.dims[static_cast<size_t>(conv.kernel().second)] / conv.groups();
  const int64_t batch = input.dims[static_cast<size_t>(conv.input().first)] / conv.batch_groups();
  for_each_index(result.dims, [&](const Index& index, int64_t position) {
    Index left(input.dims.size());
    Index right(kernel.dims.size());
    const int64_t feature = index[static_cast<size_t>(conv.output().second)];
    const int64_t group = feature / results;
    at(right, conv.kernel().second) = feature;
    at(left, conv.input().first) = index[static_cast<size_t>(conv.output().first)] +
                                   (conv.batch_groups() > 1 ? group * batch : 0);
    DotSum sum(result.dtype);
    for_each_index(window, [&](const Index& w, int64_t) {
      bool inside = true;
      bool hole = false;
      for (size_t i = 0; i < w.size(); ++i) {
        const hir::WindowAxis axis = conv.axis(i);
        const int64_t c = index[static_cast<size_t>(conv.output().spatial[i])] * axis.stride +
                          w[i] * axis.dilation - axis.low;
        hole = hole || c % axis.base_dilation != 0;
        at(left, conv.input().spatial[i]) = c / axis.base_dilation;
        inside = inside && c >= 0 &&
                 c / axis.base_dilation < input.dims[static_cast<size_t>(conv.input().spatial[i])];
        at(right, conv.kernel().spatial[i]) = axis.reversed ? axis.size - 1 - w[i] : w[i];
      }
      for (int64_t f = 0; f < features && !hole; ++f) {
        at(left, conv.input().second) = f + (conv.feature_groups() > 1 ? group * features : 0);
        at(right, conv.kernel().first) = f;
        sum.add(inside ? input.get(input.position(left)) : 0, kernel.get(kernel.position(right)));
      }
    });
    result.set(position, sum.value());
  });
  return ok_status();
}

}  // namespace onrt::reference

namespace onrt::lowering {
namespace {

using hir::Convolution;
using hir::ConvolutionDims;

// Dimensions in the order first, second, spatial.
Window ordered(const Window& window, const ConvolutionDims& dims) {
  Dims order{dims.first, dims.second};
  for (const int64_t dim : dims.spatial) {
    order.push_back(dim);
  }
  return permute(window, order);
}

// Dimension `dim` becomes (groups, rest), with the groups first of all. Without `split`, a new
// dimension of size 1 comes first.
Window split_groups(const Window& window, bool split, size_t dim, int64_t groups) {
  const int64_t size = split ? window.dims[dim] / groups : 0;
  Window made{window.buffer, window.dtype, window.offset, {}, {}};
  made.dims.push_back(split ? groups : 1);
  made.strides.push_back(split ? window.strides[dim] * size : 0);
  for (size_t d = 0; d < window.dims.size(); ++d) {
    made.dims.push_back(split && d == dim ? size : window.dims[d]);
    made.strides.push_back(window.strides[d]);
  }
  return made;
}

// True if the dimensions are first, second (or last, if `second_last`), spatial in order.
bool in_order(const ConvolutionDims& dims, bool second_last) {
  const auto axes = static_cast<int64_t>(dims.spatial.size());
  bool right = dims.first == 0 && dims.second == (second_last ? axes + 1 : 1);
  for (int64_t i = 0; i < axes; ++i) {
    right = right && dims.spatial[static_cast<size_t>(i)] == i + (second_last ? 1 : 2);
  }
  return right;
}

// Window of one position without padding: the elements of the input that it meets.
std::optional<Window> met_elements(const Convolution& conv, const Window& input,
                                   const Type& result) {
  Window met = input;
  for (size_t i = 0; i < conv.axes(); ++i) {
    const hir::WindowAxis axis = conv.axis(i);
    const int64_t out = result.dims[static_cast<size_t>(conv.output().spatial[i])];
    if (axis.size != 1 || axis.low != 0 || axis.base_dilation != 1 ||
        (out - 1) * axis.stride >= input.dims[2 + i]) {
      return std::nullopt;
    }
    met.dims[2 + i] = out;
    met.strides[2 + i] *= out == 1 ? 1 : axis.stride;
  }
  return met;
}

// A matrix product, if that is all there is to the convolution: the same sums. `input` and `kernel`
// have the order first, second, spatial.
std::optional<Kernel> as_product(const Convolution& conv, const Type& result, const Window& input,
                                 const Window& kernel) {
  const std::optional<Window> met = met_elements(conv, input, result);
  if (!met || conv.groups() != 1) {
    return std::nullopt;
  }
  const size_t axes = conv.axes();
  const Run one{1, 1};
  Kernel made;
  made.kind = KernelKind::kGemm;
  if (in_order(conv.output(), true)) {  // [positions, features] = [positions, c] x [c, features]
    Dims order{0};
    for (size_t i = 0; i < axes; ++i) {
      order.push_back(static_cast<int64_t>(2 + i));
    }
    order.push_back(1);
    const Window rows = permute(*met, order);
    if (!can_merge(rows, 0, axes + 1)) {
      return std::nullopt;
    }
    const Run lhs_runs[] = {{0, axes + 1}, {axes + 1, 1}};
    const Run rhs_runs[] = {{0, 1}, one};
    made.lhs = merge(rows, lhs_runs);
    made.rhs = merge(kernel, rhs_runs);
    made.runs = {{0, axes + 1}, {axes + 1, 1}};
    return made;
  }
  if (!in_order(conv.output(), false) || !can_merge(*met, 2, axes)) {
    return std::nullopt;
  }
  // [batch, features, positions] = [batch, features, c] x [batch, c, positions]
  const Run rhs_runs[] = {{0, 1}, one, {2, axes}};
  made.rhs = merge(*met, rhs_runs);
  made.lhs = made.rhs;
  made.lhs.buffer = kernel.buffer;
  made.lhs.dtype = kernel.dtype;
  made.lhs.offset = kernel.offset;
  made.lhs.dims = Dims{input.dims[0], kernel.dims[1], kernel.dims[0]};
  made.lhs.strides = Dims{0, kernel.strides[1], kernel.strides[0]};
  made.runs = {{0, 1}, one, {2, axes}};
  return made;
}

}  // namespace

Window conv_output_window(const Window& window, const hir::Convolution& conv) {
  return split_groups(ordered(window, conv.output()), true, 1, conv.groups());
}

Status lower_convolution(Lowerer& lowerer, const Node& node, int32_t index) {
  const Convolution conv(node.attributes);
  const Type& result = node.results[0];
  if (conv.axes() + 3 > static_cast<size_t>(ncx::kMaxRank)) {
    return hir::unsupported(format("{}: expected at most {} spatial dimensions, found {}",
                                   lowerer.flat().describe(node), ncx::kMaxRank - 3, conv.axes()));
  }
  Window input = ordered(lowerer.window(without_widening(lowerer, node.operands[0])), conv.input());
  Window kernel =
      ordered(lowerer.window(without_widening(lowerer, node.operands[1])), conv.kernel());
  if (element_count(kernel.dims) == 0) {  // a sum of nothing
    const Window zero = lowerer.constant(result.dtype, 0);
    lowerer.set_window({index, 0}, broadcast(zero, result.dims, {}), -1);
    return ok_status();
  }
  for (size_t i = 0; i < conv.axes(); ++i) {
    if (conv.axis(i).reversed) {
      const int64_t dim[] = {static_cast<int64_t>(2 + i)};
      kernel = reverse(kernel, dim);
    }
  }
  Kernel made;
  if (auto product = as_product(conv, result, input, kernel)) {
    made = std::move(*product);
  } else {
    made.kind = KernelKind::kConv;
    made.lhs =
        split_groups(input, conv.groups() > 1, conv.batch_groups() > 1 ? 0 : 1, conv.groups());
    made.rhs = split_groups(kernel, true, 1, conv.groups());
  }
  made.origin = node.origin;
  made.attributes = node.attributes.data();
  made.attribute_count = node.attributes.size();
  made.dims = Dims(result.dims);
  made.tail.heads.push_back(result.dtype);
  const int32_t number = lowerer.add_kernel(made.kind, node);
  lowerer.kernel(number) = std::move(made);
  lowerer.set_register({index, 0}, number, {Reg::List::kHead, 0});
  return ok_status();
}

}  // namespace onrt::lowering
