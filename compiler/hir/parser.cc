// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <deque>
#include <vector>

#include "compiler/hir/status.h"
#include "compiler/hir/text.h"
#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

// Characters with a line count. Spaces and line ends separate; "//" starts a comment.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }

  bool accept(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) {
      return false;
    }
    if (is_word(token.back()) && at_ + token.size() < text_.size() &&
        is_word(text_[at_ + token.size()])) {
      return false;
    }
    at_ += token.size();
    return true;
  }

  Status expect(std::string_view token) {
    return accept(token) ? ok_status() : wrong(format("expected '{}'", token));
  }

  // Letters, digits, '_' and '-'.
  std::string_view word() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  // Up to a separator of a list: for numbers of any form.
  std::string_view item() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '}' && text_[at_] != ' ' &&
           text_[at_] != '\n') {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  Result<int64_t> integer() {
    skip_space();
    int64_t value = 0;
    const auto result = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (result.ec != std::errc()) {
      return wrong("expected an integer of 64 bits");
    }
    at_ = static_cast<size_t>(result.ptr - text_.data());
    return value;
  }

  Result<std::string> string() {
    ONRT_RETURN_IF_ERROR(expect("\""));
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
      if (text_[at_] != '\\') {
        out += text_[at_++];
        continue;
      }
      ONRT_RETURN_IF_ERROR(escape(out));
    }
    ONRT_RETURN_IF_ERROR(expect("\""));
    return out;
  }

  Status wrong(std::string_view text) const {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<int64_t>(at_), '\n');
    const size_t end = std::min({text_.find('\n', at_), text_.size(), at_ + 20});
    std::string found(text_.substr(at_, end - at_));
    return invalid(format("line {}: {}, found {}", line, text,
                          found.empty() ? "the end of the line" : quoted(found)));
  }

  size_t line() const {
    return 1 + static_cast<size_t>(
                   std::count(text_.begin(), text_.begin() + static_cast<int64_t>(at_), '\n'));
  }

 private:
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  }

  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++at_;
      } else if (text_.substr(at_).starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  Status escape(std::string& out) {
    const std::string_view rest = text_.substr(at_ + 1);
    if (rest.starts_with('"') || rest.starts_with('\\')) {
      out += rest[0];
      at_ += 2;
      return ok_status();
    }
    unsigned value = 0;
    if (!rest.starts_with('x') || rest.size() < 3 ||
        std::from_chars(rest.data() + 1, rest.data() + 3, value, 16).ptr != rest.data() + 3) {
      return wrong("expected an escape \\\", \\\\ or \\xHH");
    }
    out += static_cast<char>(value);
    at_ += 4;
    return ok_status();
  }

  std::string_view text_;
  size_t at_ = 0;
};

class Parser {
 public:
  Parser(Graph& graph, std::string_view text)
      : scanner_(text), size_(text.size()), graph_(&graph) {}

  Status run() {
    ONRT_RETURN_IF_ERROR(scanner_.expect("HloModule"));
    ONRT_ASSIGN_OR_RETURN(const std::string name, scanner_.string());
    graph_->rename(name);
    while (!scanner_.at_end()) {
      ONRT_RETURN_IF_ERROR(top_level());
    }
    return ok_status();
  }

 private:
  Status top_level() {
    if (scanner_.accept("input_name")) {
      return name_line(true);
    }
    if (scanner_.accept("output_name")) {
      return name_line(false);
    }
    if (scanner_.accept("alias")) {
      ONRT_RETURN_IF_ERROR(scanner_.expect("("));
      ONRT_ASSIGN_OR_RETURN(const int32_t output, small_integer());
      ONRT_RETURN_IF_ERROR(scanner_.expect(","));
      ONRT_ASSIGN_OR_RETURN(const int32_t parameter, small_integer());
      ONRT_RETURN_IF_ERROR(scanner_.expect(")"));
      return here(graph_->set_alias(output, parameter));
    }
    return computation();
  }

  Status name_line(bool input) {
    ONRT_RETURN_IF_ERROR(scanner_.expect("("));
    ONRT_ASSIGN_OR_RETURN(const int32_t index, small_integer());
    ONRT_RETURN_IF_ERROR(scanner_.expect(")"));
    ONRT_ASSIGN_OR_RETURN(const std::string name, scanner_.string());
    return here(input ? graph_->set_input_name(index, name) : graph_->set_output_name(index, name));
  }

  Result<int32_t> small_integer() {
    ONRT_ASSIGN_OR_RETURN(const int64_t value, scanner_.integer());
    if (value < INT32_MIN || value > INT32_MAX) {
      return scanner_.wrong(format("integer {} is out of range", value));
    }
    return static_cast<int32_t>(value);
  }

  Status computation() {
    const bool entry = scanner_.accept("ENTRY");
    ONRT_RETURN_IF_ERROR(scanner_.expect("%"));
    ONRT_ASSIGN_OR_RETURN(const int32_t id, small_integer());
    ONRT_ASSIGN_OR_RETURN(const std::string name, scanner_.string());
    // The numbers of a text of n bytes are below n: a hostile one can't make memory out of nothing.
    if (id < 0 || static_cast<size_t>(id) >= size_ || entry != (id == kEntry)) {
      return scanner_.wrong(format("computation number {} is out of place", id));
    }
    if (seen_.size() <= static_cast<size_t>(id)) {
      seen_.resize(static_cast<size_t>(id) + 1, false);
    }
    if (seen_[static_cast<size_t>(id)]) {
      return scanner_.wrong(format("computation {} is there already", id));
    }
    seen_[static_cast<size_t>(id)] = true;
    while (graph_->computation_count() <= static_cast<size_t>(id)) {
      ONRT_RETURN_IF_ERROR(here(graph_->add_computation({}).status()));
    }
    graph_->rename_computation(id, name);
    ONRT_RETURN_IF_ERROR(scanner_.expect("{"));
    values_.clear();
    ValueId root = -1;
    while (!scanner_.accept("}")) {
      const bool is_root = scanner_.accept("ROOT");
      ONRT_ASSIGN_OR_RETURN(const ValueId value, instruction(id));
      root = is_root ? value : root;
    }
    return root < 0 ? ok_status() : here(graph_->set_root(id, root));
  }

  Result<ValueId> instruction(ComputationId computation) {
    ONRT_RETURN_IF_ERROR(scanner_.expect("%"));
    ONRT_ASSIGN_OR_RETURN(const int64_t number, scanner_.integer());
    if (number != static_cast<int64_t>(values_.size())) {
      return scanner_.wrong(format("expected value %{}, found %{}", values_.size(), number));
    }
    ONRT_RETURN_IF_ERROR(scanner_.expect("="));
    Candidate candidate;
    candidate.computation = computation;
    ONRT_ASSIGN_OR_RETURN(candidate.shape, shape(0));
    const std::string_view name = scanner_.word();
    const int opcode = find_opcode(name);
    if (opcode < 0) {
      return scanner_.wrong(format("'{}' is no opcode", name));
    }
    candidate.opcode = static_cast<Opcode>(opcode);
    ONRT_ASSIGN_OR_RETURN(const std::vector<ValueId> operands, operand_list());
    candidate.operands = operands;
    ints_.clear();
    bytes_.clear();
    std::vector<Attribute> attributes;
    while (scanner_.accept(",")) {
      ONRT_ASSIGN_OR_RETURN(const Attribute made, attribute(candidate));
      for (const Attribute& other : attributes) {
        if (other.key == made.key) {
          return scanner_.wrong("attribute given twice");
        }
      }
      attributes.push_back(made);
    }
    candidate.attributes = attributes;
    Result<ValueId> value = graph_->append(candidate);
    if (!value.ok()) {
      return here(std::move(value).status());
    }
    values_.push_back(*value);
    return value;
  }

  Result<std::vector<ValueId>> operand_list() {
    std::vector<ValueId> operands;
    ONRT_RETURN_IF_ERROR(scanner_.expect("("));
    while (!scanner_.accept(")")) {
      if (!operands.empty()) {
        ONRT_RETURN_IF_ERROR(scanner_.expect(","));
      }
      ONRT_RETURN_IF_ERROR(scanner_.expect("%"));
      ONRT_ASSIGN_OR_RETURN(const int64_t number, scanner_.integer());
      if (number < 0 || static_cast<size_t>(number) >= values_.size()) {
        return scanner_.wrong(format("operand %{} is not an earlier value", number));
      }
      operands.push_back(values_[static_cast<size_t>(number)]);
    }
    return operands;
  }

  Result<ShapeId> shape(size_t depth) {
    if (depth > kMaxTupleDepth) {
      return scanner_.wrong(format("tuples are nested deeper than {} levels", kMaxTupleDepth));
    }
    if (scanner_.accept("(")) {
      std::vector<ShapeId> elements;
      while (!scanner_.accept(")")) {
        if (!elements.empty()) {
          ONRT_RETURN_IF_ERROR(scanner_.expect(","));
        }
        ONRT_ASSIGN_OR_RETURN(const ShapeId element, shape(depth + 1));
        elements.push_back(element);
      }
      return here(graph_->shapes().tuple(elements));
    }
    const std::string_view name = scanner_.word();
    const bool token = name == "token";
    const DtypeInfo* info = find_dtype(name);
    if (info == nullptr && !token) {
      return scanner_.wrong(format("'{}' is no element type", name));
    }
    std::vector<int64_t> dims;
    ONRT_RETURN_IF_ERROR(scanner_.expect("["));
    while (!scanner_.accept("]")) {
      if (!dims.empty()) {
        ONRT_RETURN_IF_ERROR(scanner_.expect(","));
      }
      ONRT_ASSIGN_OR_RETURN(const int64_t dim, scanner_.integer());
      dims.push_back(dim);
    }
    if (token) {
      return dims.empty() ? Result<ShapeId>(graph_->shapes().token())
                          : scanner_.wrong("a token has no dimensions");
    }
    return here(graph_->shapes().array(info->dtype, dims));
  }

  Result<Attribute> attribute(const Candidate& candidate) {
    const std::string_view name = scanner_.word();
    const AttributeInfo* info = find_attribute(name);
    if (info == nullptr) {
      return scanner_.wrong(format("'{}' is no attribute", name));
    }
    Attribute made{info->key, {}, {}};
    if (info->payload == Payload::kFlag) {
      return made;
    }
    ONRT_RETURN_IF_ERROR(scanner_.expect("="));
    if (info->payload == Payload::kInts) {
      ONRT_ASSIGN_OR_RETURN(made.ints, int_list());
    } else if (info->key == AttributeKey::kLiteral && candidate.opcode == Opcode::kConstant) {
      ONRT_ASSIGN_OR_RETURN(made.data, literal(candidate));
    } else {
      ONRT_ASSIGN_OR_RETURN(const std::string text, scanner_.string());
      const auto* begin = reinterpret_cast<const std::byte*>(text.data());
      made.data = bytes_.emplace_back(begin, begin + text.size());
    }
    return made;
  }

  Result<std::span<const int64_t>> int_list() {
    std::vector<int64_t>& list = ints_.emplace_back();
    ONRT_RETURN_IF_ERROR(scanner_.expect("{"));
    while (!scanner_.accept("}")) {
      if (!list.empty()) {
        ONRT_RETURN_IF_ERROR(scanner_.expect(","));
      }
      ONRT_ASSIGN_OR_RETURN(const int64_t value, scanner_.integer());
      list.push_back(value);
    }
    return std::span<const int64_t>(list);
  }

  Result<std::span<const std::byte>> literal(const Candidate& candidate) {
    const Shape& of = graph_->shapes()[candidate.shape];
    if (!of.is_array()) {
      return scanner_.wrong("a literal needs an array shape");
    }
    std::vector<std::byte>& data = bytes_.emplace_back();
    const size_t bytes = dtype_bytes(of.dtype);
    ONRT_RETURN_IF_ERROR(scanner_.expect("{"));
    while (!scanner_.accept("}")) {
      if (!data.empty()) {
        ONRT_RETURN_IF_ERROR(scanner_.expect(","));
      }
      data.resize(data.size() + bytes);
      const std::string_view item = scanner_.item();
      if (!parse_element(of.dtype, item, data.data() + data.size() - bytes)) {
        return scanner_.wrong(format("'{}' is no element of type {}", item, dtype_name(of.dtype)));
      }
    }
    return std::span<const std::byte>(data);
  }

  Status here(Status status) const {
    return status.ok() ? std::move(status)
                       : std::move(status).annotate(format("line {}", scanner_.line()));
  }
  Result<ShapeId> here(Result<ShapeId> result) const {
    return result.ok() ? std::move(result) : here(std::move(result).status());
  }

  Scanner scanner_;
  size_t size_;
  Graph* graph_;                           // Borrowed from the caller of parse_into()
  std::vector<bool> seen_;                 // computations, by number
  std::vector<ValueId> values_;            // of the current computation
  std::deque<std::vector<int64_t>> ints_;  // of the current operation
  std::deque<std::vector<std::byte>> bytes_;
};

}  // namespace

Status parse_into(Graph& graph, std::string_view text) { return Parser(graph, text).run(); }

Result<std::unique_ptr<Graph>> parse(std::string_view text) {
  auto graph = std::make_unique<Graph>("");
  ONRT_RETURN_IF_ERROR(parse_into(*graph, text));
  return graph;
}

}  // namespace onrt::hir
