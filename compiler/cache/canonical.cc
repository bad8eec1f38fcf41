// SPDX-License-Identifier: Apache-2.0
#include "compiler/cache/canonical.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/base/digest.h"
#include "runtime/base/format.h"

namespace onrt::cache {
namespace {

using hir::Attribute;
using hir::AttributeKey;
using hir::Computation;
using hir::ComputationId;
using hir::Graph;
using hir::Instruction;
using hir::Shape;
using hir::ShapeId;
using hir::ValueId;

// Digest of a sequence of numbers and texts; texts carry their length, so that no two sequences
// give the same bytes. Numbers are little endian on every host that is supported.
class Writer {
 public:
  Writer() { buffer_.reserve(kFlushBytes); }

  void number(int64_t value) { append(std::as_bytes(std::span(&value, 1))); }
  void bytes(std::span<const std::byte> data) {
    number(static_cast<int64_t>(data.size()));
    append(data);
  }
  void text(std::string_view value) { bytes(std::as_bytes(std::span(value))); }
  void numbers(std::span<const int64_t> values) {
    number(static_cast<int64_t>(values.size()));
    append(std::as_bytes(values));
  }
  Digest finish() {
    digest_.update(buffer_);
    return digest_.finish();
  }

 private:
  static constexpr size_t kFlushBytes = 4096;

  void append(std::span<const std::byte> data) {
    if (buffer_.size() + data.size() > kFlushBytes) {
      digest_.update(buffer_);
      buffer_.clear();
      if (data.size() > kFlushBytes) {
        digest_.update(data);
        return;
      }
    }
    buffer_.insert(buffer_.end(), data.begin(), data.end());
  }

  Sha256 digest_;
  std::vector<std::byte> buffer_;
};

// One digest a computation: parameters by number, then what the root needs, operands first.
class Canonical {
 public:
  explicit Canonical(const Graph& graph)
      : graph_(graph), callees_(graph.computation_count()), number_(graph.size(), kNotSeen) {}

  Result<Digest> entry() {
    Writer writer;
    ONRT_RETURN_IF_ERROR(add_computation(hir::kEntry, writer));
    add_signature(writer);
    return writer.finish();
  }

 private:
  static constexpr int64_t kNotSeen = -1;
  static constexpr int64_t kOpen = -2;  // its operands are being written

  // Callees are complete before a call, hence the recursion ends after hir::kMaxCallDepth levels.
  Result<Digest> callee(ComputationId id) {
    std::optional<Digest>& known = callees_[static_cast<size_t>(id)];
    if (!known) {
      Writer writer;
      ONRT_RETURN_IF_ERROR(add_computation(id, writer));
      known = writer.finish();
    }
    return *known;
  }

  Status add_computation(ComputationId id, Writer& writer) {
    const Computation& computation = graph_.computation(id);
    if (computation.root < 0 || std::ranges::count(computation.parameters, -1) > 0) {
      return hir::verify(graph_);
    }
    int64_t next = 0;
    writer.number(static_cast<int64_t>(computation.parameters.size()));
    for (const ValueId parameter : computation.parameters) {
      add_shape(graph_[parameter].shape, writer);
      number_[static_cast<size_t>(parameter)] = next++;
    }
    std::vector<ValueId> stack = {computation.root};
    while (!stack.empty()) {
      const ValueId value = stack.back();
      int64_t& number = number_[static_cast<size_t>(value)];
      if (number == kNotSeen) {
        number = kOpen;
        const auto operands = graph_[value].operands;
        for (size_t i = operands.size(); i-- > 0;) {
          if (number_[static_cast<size_t>(operands[i])] == kNotSeen) {
            stack.push_back(operands[i]);
          }
        }
        continue;
      }
      stack.pop_back();
      if (number == kOpen) {
        ONRT_RETURN_IF_ERROR(add_instruction(graph_[value], writer));
        number = next++;
      }
    }
    writer.number(number_[static_cast<size_t>(computation.root)]);
    return ok_status();
  }

  Status add_instruction(const Instruction& instruction, Writer& writer) {
    writer.number(static_cast<int64_t>(instruction.opcode));
    add_shape(instruction.shape, writer);
    writer.number(static_cast<int64_t>(instruction.operands.size()));
    for (const ValueId operand : instruction.operands) {
      writer.number(number_[static_cast<size_t>(operand)]);
    }
    sorted_.clear();
    for (const Attribute& attribute : instruction.attributes) {
      if (attribute.key != AttributeKey::kName && attribute.key != AttributeKey::kSource) {
        sorted_.push_back(&attribute);
      }
    }
    std::ranges::sort(sorted_, {}, &Attribute::key);
    writer.number(static_cast<int64_t>(sorted_.size()));
    const Attribute* called = nullptr;
    for (const Attribute* attribute : sorted_) {
      writer.number(static_cast<int64_t>(attribute->key));
      if (attribute->key == AttributeKey::kCalled) {
        called = attribute;
        writer.number(static_cast<int64_t>(attribute->ints.size()));
      } else {
        writer.numbers(attribute->ints);
        writer.bytes(attribute->data);
      }
    }
    return called != nullptr ? add_callees(*called, writer) : ok_status();
  }

  Status add_callees(const Attribute& called, Writer& writer) {
    for (const int64_t id : called.ints) {
      ONRT_ASSIGN_OR_RETURN(const Digest digest, callee(static_cast<ComputationId>(id)));
      writer.bytes(std::as_bytes(std::span(digest)));
    }
    return ok_status();
  }

  void add_shape(ShapeId id, Writer& writer) {
    const Shape& shape = graph_.shapes()[id];
    writer.number(static_cast<int64_t>(shape.kind));
    if (shape.is_array()) {
      writer.number(static_cast<int64_t>(shape.dtype));
      writer.numbers(shape.dims);
    } else {
      writer.bytes(std::as_bytes(std::span(tuple_digest(id))));
    }
  }

  // A tuple's elements may be tuples that share elements; written out they could be without end.
  const Digest& tuple_digest(ShapeId id) {
    const auto known = tuples_.find(id);
    if (known != tuples_.end()) {
      return known->second;
    }
    Writer writer;
    for (const ShapeId element : graph_.shapes()[id].elements) {
      add_shape(element, writer);
    }
    return tuples_.emplace(id, writer.finish()).first->second;
  }

  // A name that is not given is the default, whether or not it was spelled out.
  static void add_names(const std::vector<std::string>& names, std::string_view other, size_t count,
                        Writer& writer) {
    count = std::max(count, names.size());
    writer.number(static_cast<int64_t>(count));
    for (size_t i = 0; i < count; ++i) {
      if (i < names.size() && !names[i].empty() && names[i] != format("{}{}", other, i)) {
        writer.number(static_cast<int64_t>(i));
        writer.text(names[i]);
      }
    }
    writer.number(-1);
  }

  void add_signature(Writer& writer) const {
    const Computation& entry = graph_.computation(hir::kEntry);
    const Shape& root = graph_.shape_of(entry.root);
    add_names(graph_.input_names(), "input", entry.parameters.size(), writer);
    add_names(graph_.output_names(), "output", root.is_tuple() ? root.elements.size() : 1, writer);
    std::vector<hir::Alias> aliases = graph_.aliases();
    std::ranges::sort(aliases, {}, &hir::Alias::output);
    writer.number(static_cast<int64_t>(aliases.size()));
    for (const hir::Alias& alias : aliases) {
      writer.number(alias.output);
      writer.number(alias.parameter);
    }
  }

  const Graph& graph_;
  std::vector<std::optional<Digest>> callees_;
  std::unordered_map<ShapeId, Digest> tuples_;
  std::vector<int64_t> number_;  // of a value in its computation, or kNotSeen, kOpen
  std::vector<const Attribute*> sorted_;
};

}  // namespace

Result<Digest> digest_of(const hir::Graph& graph) { return Canonical(graph).entry(); }

}  // namespace onrt::cache
