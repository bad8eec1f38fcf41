// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/flat.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

std::string text_of(Ref ref) {
  return format("%{}{}", ref.node, ref.result != 0 ? format("#{}", ref.result) : "");
}

std::string joined(std::span<const Ref> refs) {
  std::string out;
  for (const Ref ref : refs) {
    out += (out.empty() ? "" : ", ") + text_of(ref);
  }
  return out;
}

std::string line_of(const Node& node, size_t number) {
  std::string out = format("%{} =", number);
  for (const Type& type : node.results) {
    out += format(" {}{}", dtype_name(type.dtype), dims_text(type.dims));
  }
  out += format(" {}({})", opcode_name(node.opcode), joined(node.operands));
  for (const Attribute& attribute : node.attributes) {
    if (!attribute.ints.empty() && node.regions.empty()) {
      out += format(" {}={}", find_attribute(static_cast<int32_t>(attribute.key))->name,
                    dims_text(attribute.ints));
    }
  }
  return out + "\n";
}

std::string_view name_of(RegionKind kind) {
  return kind == RegionKind::kCondition ? "condition"
         : kind == RegionKind::kBody    ? "body"
                                        : "branch";
}

}  // namespace

void Flat::append_region(int32_t number, size_t depth, std::string& out) const {
  const std::string indent(2 * depth, ' ');
  for (const int32_t index : region(number).order) {
    const Node& node = (*this)[index];
    if (node.opcode == Opcode::kParameter && number != 0) {
      continue;  // in the line of the region
    }
    out += indent + line_of(node, static_cast<size_t>(index));
    for (const int32_t owned : node.regions) {
      out += format("{}  {}({}):\n", indent, name_of(region(owned).kind),
                    joined(region(owned).parameters));
      append_region(owned, depth + 2, out);  // regions are at most kMaxCallDepth deep
      out += format("{}    gives {}\n", indent, joined(region(owned).results));
    }
  }
}

std::string Flat::text() const {
  std::string out;
  append_region(0, 0, out);
  out += "outputs:";
  for (const Ref output : outputs_) {
    out += " " + text_of(output);
  }
  return out + "\n";
}

}  // namespace onrt::hir
