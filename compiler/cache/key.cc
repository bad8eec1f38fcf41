// SPDX-License-Identifier: Apache-2.0
#include "compiler/cache/key.h"

#include <cstring>
#include <span>

#include "runtime/base/digest.h"

namespace onrt::cache {

size_t KeyHash::operator()(const Key& key) const {
  uint64_t graph = 0;
  uint64_t flags = 0;
  std::memcpy(&graph, key.graph.data(), sizeof(graph));
  std::memcpy(&flags, key.flags.data(), sizeof(flags));
  return static_cast<size_t>(graph ^ flags);
}

std::string entry_name(const Key& key) {
  return "MODULE_" + to_hex(std::span(key.graph).first(16)) + "+" +
         to_hex(std::span(key.flags).first(4));
}

std::string key_text(const Key& key) { return to_hex(key.graph) + "+" + to_hex(key.flags); }

std::string_view compiler_id() {
  return ONRT_VERSION_TEXT "+opennrt-"
#include "compiler/cache/source_id.inc"
      ;
}

}  // namespace onrt::cache
