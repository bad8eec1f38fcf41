// SPDX-License-Identifier: Apache-2.0
// Convolution of 1 to 3 spatial dimensions and its derivatives. Three forms cover all: a window
// over the larger array (the convolution; the input's gradient of a transposed one), its transpose,
// and the gradient of the kernel.
#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {
namespace {

struct Geometry {
  Dims stride;
  Dims padding;
  Dims dilation;
  int64_t groups = 1;
};

Dims spatial(const Value& x) { return Dims(x.dims.begin() + 2, x.dims.end()); }

ConvDims numbered(const Dims& input, const Dims& kernel, const Dims& output, size_t rank) {
  ConvDims dims{input, kernel, output};
  for (size_t i = 0; i < rank; ++i) {
    for (Dims* list : {&dims.input, &dims.kernel, &dims.output}) {
      list->push_back(static_cast<int64_t>(i + 2));
    }
  }
  return dims;
}

// x [n, groups * c, ..] with a kernel [o, c, ..]: [n, o, sizes..].
Value direct(Graph& g, const Value& x, const Value& kernel, const Geometry& geometry,
             const Dims& sizes, Type type) {
  std::vector<Window> window;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Window w;
    w.size = kernel.dims[i + 2];
    w.stride = geometry.stride[i];
    w.dilation = geometry.dilation[i];
    w.low = geometry.padding[i];
    w.high = (sizes[i] - 1) * w.stride + (w.size - 1) * w.dilation + 1 - x.dims[i + 2] - w.low;
    window.push_back(w);
  }
  return g.conv(x, kernel, numbered({0, 1}, {1, 0}, {0, 1}, sizes.size()), window, geometry.groups,
                1, type);
}

// y [n, groups * o, ..] with a kernel [groups * o, c, ..]: [n, groups * c, sizes..].
Value transposed(Graph& g, const Value& y, const Value& kernel, const Geometry& geometry,
                 const Dims& sizes, Type type) {
  const int64_t groups = geometry.groups;
  const int64_t o = kernel.dims[0] / groups;
  const int64_t c = kernel.dims[1];
  Dims split = {groups, o, c};
  Dims joined = {o, groups * c};
  Dims order = {1, 0, 2};
  for (size_t i = 0; i < sizes.size(); ++i) {
    split.push_back(kernel.dims[i + 2]);
    joined.push_back(kernel.dims[i + 2]);
    order.push_back(static_cast<int64_t>(i + 3));
  }
  const Value turned = g.reshape(g.transpose(g.reshape(kernel, split), order), joined);
  std::vector<Window> window;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Window w;
    w.size = kernel.dims[i + 2];
    w.dilation = geometry.dilation[i];
    w.base_dilation = geometry.stride[i];
    w.reversed = true;
    const int64_t extent = (w.size - 1) * w.dilation + 1;
    w.low = extent - 1 - geometry.padding[i];
    w.high = sizes[i] - 1 + extent - ((y.dims[i + 2] - 1) * w.base_dilation + 1) - w.low;
    window.push_back(w);
  }
  return g.conv(y, turned, numbered({0, 1}, {0, 1}, {0, 1}, sizes.size()), window, groups, 1, type);
}

// Of direct(x, kernel) = y: [o, c, sizes..] from x and the gradient of y.
Value of_kernel(Graph& g, const Value& x, const Value& y, const Geometry& geometry,
                const Dims& sizes, Type type) {
  std::vector<Window> window;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Window w;
    w.size = y.dims[i + 2];
    w.stride = geometry.dilation[i];
    w.dilation = geometry.stride[i];
    w.low = geometry.padding[i];
    w.high = (sizes[i] - 1) * w.stride + (w.size - 1) * w.dilation + 1 - x.dims[i + 2] - w.low;
    window.push_back(w);
  }
  return g.conv(x, y, numbered({1, 0}, {0, 1}, {1, 0}, sizes.size()), window, 1, geometry.groups,
                type);
}

Value product_operand(Graph& g, const Value& x) { return x.type == kF64 ? g.convert(x, kF32) : x; }

Geometry geometry_of(const Call& call, size_t stride, size_t groups) {
  return {call.ints(stride), call.ints(stride + 1), call.ints(stride + 2), call.integer(groups)};
}

// Type of the sums: whole numbers are added exactly.
Type sum_type(const Value& x) { return is_float(x.type) ? kF32 : x.type; }

Value with_bias(Graph& g, const Value& y, const Value& bias) {
  return g.add(y, g.broadcast(g.convert(bias, y.type), y.dims, {1}));
}

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
std::vector<Value> convolution(Graph& g, const Call& call) {
  const Type type = call.tensor(0).type;
  const Value x = product_operand(g, call.tensor(0));
  const Value kernel = product_operand(g, call.tensor(1));
  const Geometry geometry = geometry_of(call, 3, 8);
  const bool turned = call.flag(6);
  Dims sizes;
  for (size_t i = 0; i + 2 < x.dims.size(); ++i) {
    const int64_t extent = (kernel.dims[i + 2] - 1) * geometry.dilation[i] + 1;
    const int64_t n = x.dims[i + 2];
    sizes.push_back(turned ? (n - 1) * geometry.stride[i] - 2 * geometry.padding[i] + extent +
                                 call.ints(7)[i]
                           : (n + 2 * geometry.padding[i] - extent) / geometry.stride[i] + 1);
  }
  Value y = turned ? transposed(g, x, kernel, geometry, sizes, sum_type(x))
                   : direct(g, x, kernel, geometry, sizes, sum_type(x));
  if (call.has(2)) {
    y = with_bias(g, y, call.tensor(2));
  }
  return {g.convert(y, type)};
}

// grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups,
// output_mask
std::vector<Value> convolution_backward(Graph& g, const Call& call) {
  const Value grad = product_operand(g, call.tensor(0));
  const Value x = product_operand(g, call.tensor(1));
  const Value kernel = product_operand(g, call.tensor(2));
  const Geometry geometry = geometry_of(call, 3, 8);
  const bool turned = call.flag(6);
  const Dims& wanted = call.ints(9);
  std::vector<Value> results(3);
  if (wanted[0] != 0) {
    results[0] = turned ? direct(g, grad, kernel, geometry, spatial(x), kF32)
                        : transposed(g, grad, kernel, geometry, spatial(x), kF32);
    results[0] = g.convert(results[0], call.tensor(1).type);
  }
  if (wanted[1] != 0) {
    results[1] = turned ? of_kernel(g, grad, x, geometry, spatial(kernel), kF32)
                        : of_kernel(g, x, grad, geometry, spatial(kernel), kF32);
    results[1] = g.convert(results[1], call.tensor(2).type);
  }
  if (wanted[2] != 0) {
    Dims dims = all_dims(grad);
    dims.erase(dims.begin() + 1);
    results[2] = g.convert(g.sum(g.convert(grad, kF32), dims), call.tensor(0).type);
  }
  return results;
}

}  // namespace

TNX_LOWER_ROW("convolution_overrideable", (Row{.own_shapes = true, .format_like = {0, 1}}),
              { return convolution(g, call); })
TNX_LOWER_ROW("convolution_backward_overrideable", (Row{.own_shapes = true, .format_like = {1, 2}}),
              { return convolution_backward(g, call); })

}  // namespace tnx
