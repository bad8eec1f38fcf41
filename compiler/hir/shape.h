// SPDX-License-Identifier: Apache-2.0
// Shapes of values: arrays, tuples and tokens, interned so that equal shapes have equal ids.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/hir/arena.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

namespace onrt::hir {

using ShapeId = int32_t;

inline constexpr size_t kMaxRank = 32;
inline constexpr size_t kMaxTupleDepth = 16;
inline constexpr size_t kMaxTupleElements = 1U << 16;
// Largest array: 2^40 bytes, far above the memory of one device.
inline constexpr int64_t kMaxArrayBytes = int64_t{1} << 40;

enum class ShapeKind : uint8_t { kArray, kTuple, kToken };

struct Shape {
  ShapeKind kind = ShapeKind::kArray;
  Dtype dtype = Dtype::kF32;          // arrays
  uint8_t depth = 0;                  // tuples: levels of nesting
  std::span<const int64_t> dims;      // arrays
  std::span<const ShapeId> elements;  // tuples
  int64_t element_count = 0;          // arrays: product of dims
  int64_t byte_size = 0;              // arrays: of the dense row-major form

  bool is_array() const { return kind == ShapeKind::kArray; }
  bool is_tuple() const { return kind == ShapeKind::kTuple; }
  bool is_scalar() const { return is_array() && dims.empty(); }
  size_t rank() const { return dims.size(); }
};

// Thread-compatible. References to shapes stay valid as long as the table.
class ShapeTable {
 public:
  // Errors: invalid for a negative dimension or a rank above kMaxRank; too_large above
  // kMaxArrayBytes.
  Result<ShapeId> array(Dtype dtype, std::span<const int64_t> dims);
  Result<ShapeId> tuple(std::span<const ShapeId> elements);
  ShapeId token();

  const Shape& operator[](ShapeId id) const { return *shapes_[static_cast<size_t>(id)]; }
  size_t size() const { return shapes_.size(); }

  // "f32[2,3]", "(f32[], s32[4])", "token[]".
  std::string text(ShapeId id) const;

 private:
  ShapeId find_or_add(uint64_t hash, const Shape& shape);
  void append_text(ShapeId id, std::string& out) const;

  Arena arena_;
  std::vector<const Shape*> shapes_;
  std::unordered_multimap<uint64_t, ShapeId> by_hash_;
};

std::string dims_text(std::span<const int64_t> dims);  // "[2,3]"

}  // namespace onrt::hir
