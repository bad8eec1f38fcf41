// SPDX-License-Identifier: Apache-2.0
// Attributes of instructions: attributes.def as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace onrt::hir {

enum class AttributeKey : uint8_t {
#define ONRT_ATTRIBUTE(name, text, number, payload) k##name = number,
#include "compiler/hir/attributes.def"
#undef ONRT_ATTRIBUTE
};

enum class Payload : uint8_t { kInts, kText, kBytes, kFlag };

struct AttributeInfo {
  AttributeKey key;
  std::string_view name;
  Payload payload;
};

std::span<const AttributeInfo> attribute_table();
// Null if there is none.
const AttributeInfo* find_attribute(int32_t number);
const AttributeInfo* find_attribute(std::string_view name);

struct Attribute {
  AttributeKey key;
  std::span<const int64_t> ints;    // Ints
  std::span<const std::byte> data;  // Text, Bytes

  std::string_view text() const {
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }
};

// Null if the key is absent.
inline const Attribute* find(std::span<const Attribute> attributes, AttributeKey key) {
  for (const Attribute& attribute : attributes) {
    if (attribute.key == key) {
      return &attribute;
    }
  }
  return nullptr;
}

}  // namespace onrt::hir
