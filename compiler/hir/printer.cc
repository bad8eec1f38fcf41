// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "compiler/hir/text.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

void append_ints(std::span<const int64_t> ints, std::string& out) {
  out += "{";
  for (size_t i = 0; i < ints.size(); ++i) {
    out += (i == 0 ? "" : ",") + std::to_string(ints[i]);
  }
  out += "}";
}

void append_literal(const Shape& shape, std::span<const std::byte> data, std::string& out) {
  const size_t bytes = dtype_bytes(shape.dtype);
  out += "{";
  for (size_t at = 0; at + bytes <= data.size(); at += bytes) {
    out += at == 0 ? "" : ",";
    out += element_text(shape.dtype, data.data() + at);
  }
  out += "}";
}

// Computations in an order in which every callee comes before its callers: closed ones as they
// were closed, then open ones, the entry last.
std::vector<ComputationId> print_order(const Graph& graph) {
  std::vector<ComputationId> order(graph.computation_count());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<ComputationId>(i);
  }
  const auto key = [&](ComputationId id) {
    const int32_t closed = graph.computation(id).closed;
    return id == kEntry  ? int64_t{1} << 62
           : closed >= 0 ? int64_t{closed}
                         : (int64_t{1} << 40) + id;
  };
  std::ranges::sort(order, {}, key);
  return order;
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph), local_(graph.size()) {}

  std::string run() {
    out_ = "HloModule " + quoted(graph_.name()) + "\n";
    append_names("input_name", graph_.input_names());
    append_names("output_name", graph_.output_names());
    for (const Alias& alias : graph_.aliases()) {
      out_ += format("alias({}, {})\n", alias.output, alias.parameter);
    }
    for (const ComputationId id : print_order(graph_)) {
      append_computation(id);
    }
    return std::move(out_);
  }

 private:
  void append_names(std::string_view what, const std::vector<std::string>& names) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (!names[i].empty()) {
        out_ += format("{}({}) {}\n", what, i, quoted(names[i]));
      }
    }
  }

  void append_computation(ComputationId id) {
    const Computation& computation = graph_.computation(id);
    out_ += id == kEntry ? std::string("\nENTRY ") : std::string("\n");
    out_ += format("%{} {} {{\n", id, quoted(computation.name));
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      local_[static_cast<size_t>(computation.instructions[i])] = i;
      append_instruction(computation.instructions[i],
                         computation.instructions[i] == computation.root);
    }
    out_ += "}\n";
  }

  void append_instruction(ValueId value, bool root) {
    const Instruction& instruction = graph_[value];
    out_ += root ? "  ROOT %" : "  %";
    out_ += std::to_string(local_[static_cast<size_t>(value)]) + " = ";
    out_ += graph_.shapes().text(instruction.shape);
    out_ += " ";
    out_ += opcode_name(instruction.opcode);
    out_ += "(";
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      out_ += i == 0 ? "%" : ", %";
      out_ += std::to_string(local_[static_cast<size_t>(instruction.operands[i])]);
    }
    out_ += ")";
    for (const Attribute& attribute : instruction.attributes) {
      append_attribute(instruction, attribute);
    }
    out_ += "\n";
  }

  void append_attribute(const Instruction& instruction, const Attribute& attribute) {
    const AttributeInfo& info = *find_attribute(static_cast<int32_t>(attribute.key));
    out_ += ", ";
    out_ += info.name;
    if (info.payload == Payload::kFlag) {
      return;
    }
    out_ += "=";
    if (info.payload == Payload::kInts) {
      append_ints(attribute.ints, out_);
    } else if (attribute.key == AttributeKey::kLiteral && instruction.opcode == Opcode::kConstant) {
      append_literal(graph_.shapes()[instruction.shape], attribute.data, out_);
    } else {
      out_ += quoted(attribute.text());
    }
  }

  const Graph& graph_;
  std::vector<size_t> local_;  // number in its computation, by value
  std::string out_;
};

}  // namespace

std::string quoted(std::string_view bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e) {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      if (c == '"' || c == '\\') {
        out += '\\';
      }
      out += c;
    }
  }
  return out + "\"";
}

std::string print(const Graph& graph) { return Printer(graph).run(); }

}  // namespace onrt::hir
