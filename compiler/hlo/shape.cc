// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/shape.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "compiler/hlo/location.h"
#include "runtime/base/dtype.h"
#include "runtime/base/format.h"

namespace onrt::hlo {
namespace {

constexpr int kLargestRank = 32;
constexpr int kLargestTuple = 65536;

// Names of the PrimitiveType numbers that are no element type of ours (xla_data.proto).
constexpr std::array<std::pair<uint32_t, std::string_view>, 13> kOtherTypes = {{
    {13, "tuple"},
    {14, "opaque"},
    {15, "c64"},
    {17, "token"},
    {18, "c128"},
    {21, "s4"},
    {22, "u4"},
    {23, "f8e4m3b11fnuz"},
    {24, "f8e5m2fnuz"},
    {25, "f8e4m3fnuz"},
    {29, "f8e3m4"},
    {32, "f4e2m1fn"},
    {33, "f8e8m0fnu"},
}};

std::string type_text(uint32_t number) {
  if (const DtypeInfo* info = find_dtype(number)) {
    return std::string(info->name);
  }
  for (const auto& [other, name] : kOtherTypes) {
    if (other == number) {
      return std::string(name);
    }
  }
  return format("type{}", number);
}

Status check_layout(const opennrt::hlo::Shape& shape) {
  const auto& order = shape.layout().minor_to_major();
  if (order.empty()) {
    return ok_status();
  }
  std::array<bool, kLargestRank> seen{};
  for (const int64_t dimension : order) {
    if (order.size() != shape.dimensions_size() || dimension < 0 ||
        dimension >= shape.dimensions_size() || seen[static_cast<size_t>(dimension)]) {
      return malformed(format("layout of {} does not list each dimension once", shape_text(shape)));
    }
    seen[static_cast<size_t>(dimension)] = true;
  }
  return ok_status();
}

Status check_array(const opennrt::hlo::Shape& shape) {
  if (shape.dimensions_size() > kLargestRank) {
    return malformed(format("rank {} is above {}", shape.dimensions_size(), kLargestRank));
  }
  const int64_t bytes = element_bytes(shape);
  if (bytes == 0) {
    return unsupported(format("element type {} is not supported", type_text(shape.element_type())));
  }
  int64_t size = bytes;
  for (const int64_t dimension : shape.dimensions()) {
    if (dimension < 0) {
      return malformed(format("shape {} has a negative dimension", shape_text(shape)));
    }
    if (__builtin_mul_overflow(size, std::max<int64_t>(dimension, 1), &size)) {
      return malformed(format("size of shape {} does not fit in 64 bits", shape_text(shape)));
    }
  }
  for (const bool dynamic : shape.is_dynamic_dimension()) {
    if (dynamic) {
      return unsupported(format("shape {} has a dynamic dimension", shape_text(shape)));
    }
  }
  return check_layout(shape);
}

}  // namespace

int64_t element_count(const opennrt::hlo::Shape& shape) {
  int64_t count = 1;
  for (const int64_t dimension : shape.dimensions()) {
    count *= dimension;
  }
  return count;
}

int64_t element_bytes(const opennrt::hlo::Shape& shape) {
  const DtypeInfo* info = find_dtype(shape.element_type());
  return info == nullptr ? 0 : info->bytes;
}

bool is_row_major(const opennrt::hlo::Shape& shape) {
  int64_t expected = shape.dimensions_size();
  const auto& order = shape.layout().minor_to_major();
  return std::all_of(order.begin(), order.end(),
                     [&](int64_t dimension) { return dimension == --expected; });
}

std::string shape_text(const opennrt::hlo::Shape& shape) {
  constexpr int kMostShown = 40;
  std::string text;
  if (shape.element_type() == NRTCC_TUPLE) {
    for (int i = 0; i < std::min(shape.tuple_shapes_size(), kMostShown); ++i) {
      text += (i == 0 ? "" : ", ") + shape_text(shape.tuple_shapes(i));
    }
    return "(" + text + (shape.tuple_shapes_size() > kMostShown ? ", ...)" : ")");
  }
  for (int i = 0; i < std::min(shape.dimensions_size(), kMostShown); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(shape.dimensions(i));
  }
  return type_text(shape.element_type()) + "[" + text + "]";
}

Result<ShapeView> ShapeView::create(const opennrt::hlo::Shape& shape) {
  ShapeView view;
  ONRT_RETURN_IF_ERROR(view.fill(shape, view.root_));
  return view;
}

// Depth is bounded by the parser's limit on nested messages.
Status ShapeView::fill(const opennrt::hlo::Shape& shape, nrtcc_shape_t& out) {
  if (shape.element_type() == NRTCC_TOKEN) {
    out.dtype = NRTCC_TOKEN;
    return ok_status();
  }
  if (shape.element_type() != NRTCC_TUPLE) {
    ONRT_RETURN_IF_ERROR(check_array(shape));
    out.dtype = static_cast<nrtcc_dtype_t>(shape.element_type());
    out.rank = shape.dimensions_size();
    out.dims = shape.dimensions().data();
    return ok_status();
  }
  if (shape.tuple_shapes_size() > kLargestTuple) {
    return malformed(format("tuple of {} elements is above the limit of {}",
                            shape.tuple_shapes_size(), kLargestTuple));
  }
  elements_.emplace_back(static_cast<size_t>(shape.tuple_shapes_size()));
  std::vector<nrtcc_shape_t>& elements = elements_.back();
  for (int i = 0; i < shape.tuple_shapes_size(); ++i) {
    ONRT_RETURN_IF_ERROR(fill(shape.tuple_shapes(i), elements[static_cast<size_t>(i)]));
  }
  out.dtype = NRTCC_TUPLE;
  out.rank = shape.tuple_shapes_size();
  out.elements = elements.data();
  return ok_status();
}

}  // namespace onrt::hlo
