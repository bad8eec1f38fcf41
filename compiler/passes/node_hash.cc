// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/node_hash.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace onrt::hir {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdULL;
}

bool is_debug(AttributeKey key) {
  return key == AttributeKey::kName || key == AttributeKey::kSource;
}

bool same_type(const Type& a, const Type& b) {
  return a.dtype == b.dtype && std::ranges::equal(a.dims, b.dims);
}

// True if every attribute of `a` that matters is in `b` with the same payload.
bool covered(std::span<const Attribute> a, std::span<const Attribute> b) {
  for (const Attribute& attribute : a) {
    const Attribute* other = find(b, attribute.key);
    if (!is_debug(attribute.key) &&
        (other == nullptr || !std::ranges::equal(attribute.ints, other->ints) ||
         attribute.text() != other->text())) {
      return false;
    }
  }
  return true;
}

}  // namespace

uint64_t hash_node(const Node& node) {
  uint64_t hash = mix(static_cast<uint64_t>(node.opcode), node.operands.size());
  for (const Ref& operand : node.operands) {
    hash = mix(hash,
               static_cast<uint64_t>(operand.node) << 16 | static_cast<uint64_t>(operand.result));
  }
  for (const Type& type : node.results) {
    hash = mix(hash, static_cast<uint64_t>(type.dtype));
    for (const int64_t dim : type.dims) {
      hash = mix(hash, static_cast<uint64_t>(dim));
    }
  }
  for (const Attribute& attribute : node.attributes) {
    if (is_debug(attribute.key)) {
      continue;
    }
    hash = mix(hash, static_cast<uint64_t>(attribute.key));
    for (const int64_t value : attribute.ints) {
      hash = mix(hash, static_cast<uint64_t>(value));
    }
    hash = mix(hash, std::hash<std::string_view>()(attribute.text()));
  }
  return hash;
}

bool same_node(const Node& a, const Node& b) {
  return a.opcode == b.opcode && std::ranges::equal(a.operands, b.operands) &&
         std::ranges::equal(a.results, b.results, same_type) &&
         covered(a.attributes, b.attributes) && covered(b.attributes, a.attributes);
}

}  // namespace onrt::hir
