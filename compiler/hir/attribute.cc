// SPDX-License-Identifier: Apache-2.0
#include "compiler/hir/attribute.h"

#include <array>

namespace onrt::hir {
namespace {

constexpr AttributeInfo kTable[] = {
#define ONRT_ATTRIBUTE(name, text, number, payload) \
  {AttributeKey::k##name, text, Payload::k##payload},
#include "compiler/hir/attributes.def"
#undef ONRT_ATTRIBUTE
};

}  // namespace

std::span<const AttributeInfo> attribute_table() { return kTable; }

const AttributeInfo* find_attribute(int32_t number) {
  for (const AttributeInfo& info : kTable) {
    if (static_cast<int32_t>(info.key) == number) {
      return &info;
    }
  }
  return nullptr;
}

const AttributeInfo* find_attribute(std::string_view name) {
  for (const AttributeInfo& info : kTable) {
    if (info.name == name) {
      return &info;
    }
  }
  return nullptr;
}

}  // namespace onrt::hir
