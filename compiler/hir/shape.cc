// SPDX-License-Identifier: Apache-2.0
#include "compiler/hir/shape.h"

#include <algorithm>

#include "compiler/hir/status.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdULL;
}

bool same(const Shape& a, const Shape& b) {
  return a.kind == b.kind && a.dtype == b.dtype && std::ranges::equal(a.dims, b.dims) &&
         std::ranges::equal(a.elements, b.elements);
}

}  // namespace

std::string dims_text(std::span<const int64_t> dims) {
  std::string out = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    out += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  }
  return out + "]";
}

ShapeId ShapeTable::find_or_add(uint64_t hash, const Shape& shape) {
  const auto range = by_hash_.equal_range(hash);
  for (auto it = range.first; it != range.second; ++it) {
    if (same((*this)[it->second], shape)) {
      return it->second;
    }
  }
  Shape& made = arena_.allocate<Shape>(1)[0];
  made = shape;
  made.dims = arena_.copy(shape.dims);
  made.elements = arena_.copy(shape.elements);
  const auto id = static_cast<ShapeId>(shapes_.size());
  shapes_.push_back(&made);
  by_hash_.emplace(hash, id);
  return id;
}

Result<ShapeId> ShapeTable::array(Dtype dtype, std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return invalid(format("array shape: rank {} is above the limit of {}", dims.size(), kMaxRank));
  }
  Shape shape;
  shape.dtype = dtype;
  shape.dims = dims;
  uint64_t hash = mix(1, static_cast<uint64_t>(dtype));
  int64_t bytes = dtype_bytes(dtype);
  bool empty = false;
  bool overflow = false;
  for (const int64_t dim : dims) {
    if (dim < 0) {
      return invalid(format("array shape {}{}: dimension {} is negative", dtype_name(dtype),
                            dims_text(dims), dim));
    }
    empty = empty || dim == 0;
    overflow = __builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes) || overflow ||
               bytes > kMaxArrayBytes;
    if (overflow) {
      bytes = kMaxArrayBytes;
    }
    hash = mix(hash, static_cast<uint64_t>(dim));
  }
  if (overflow) {
    return too_large(format("array shape {}{}: above the limit of {} bytes", dtype_name(dtype),
                            dims_text(dims), kMaxArrayBytes));
  }
  shape.byte_size = empty ? 0 : bytes;
  shape.element_count = shape.byte_size / dtype_bytes(dtype);
  return find_or_add(hash, shape);
}

Result<ShapeId> ShapeTable::tuple(std::span<const ShapeId> elements) {
  if (elements.size() > kMaxTupleElements) {
    return invalid(format("tuple shape: {} elements are above the limit of {}", elements.size(),
                          kMaxTupleElements));
  }
  Shape shape;
  shape.kind = ShapeKind::kTuple;
  shape.elements = elements;
  uint64_t hash = mix(2, elements.size());
  for (const ShapeId element : elements) {
    shape.depth = std::max(shape.depth, (*this)[element].depth);
    hash = mix(hash, static_cast<uint64_t>(element));
  }
  if (++shape.depth > kMaxTupleDepth) {
    return invalid(format("tuple shape: nested deeper than {} levels", kMaxTupleDepth));
  }
  return find_or_add(hash, shape);
}

ShapeId ShapeTable::token() {
  Shape shape;
  shape.kind = ShapeKind::kToken;
  return find_or_add(3, shape);
}

void ShapeTable::append_text(ShapeId id, std::string& out) const {
  const Shape& shape = (*this)[id];
  if (shape.kind == ShapeKind::kToken) {
    out += "token[]";
    return;
  }
  if (shape.kind == ShapeKind::kArray) {
    out += dtype_name(shape.dtype);
    out += dims_text(shape.dims);
    return;
  }
  out += "(";
  for (size_t i = 0; i < shape.elements.size(); ++i) {
    out += i == 0 ? "" : ", ";
    append_text(shape.elements[i], out);  // depth is at most kMaxTupleDepth
  }
  out += ")";
}

std::string ShapeTable::text(ShapeId id) const {
  std::string out;
  append_text(id, out);
  return out;
}

}  // namespace onrt::hir
