// SPDX-License-Identifier: Apache-2.0
// The lowering table: aten operation -> HLO. A row is a name and a function that appends HLO
// operations to a graph and returns the results; everything else (keys, caches, views, aliases,
// outputs, in-place and out= variants) is done by the caller for all rows alike. No torch header is
// needed here, so that a new operation compiles in a second. How to add one:
// docs/howto/add-torch-op.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "python/torch_neuronx/csrc/graph.h"

namespace tnx {

// Thrown by a lowering for what it leaves to the CPU, such as an element type.
class Unsupported : public Error {
 public:
  using Error::Error;
};

// A number given as an argument. `known`: part of the program's key, so a lowering may look at it;
// the others are inputs of the program.
struct Number {
  enum class Kind { kBool, kInt, kFloat } kind = Kind::kFloat;
  double value = 0;
  int64_t integer = 0;
  bool known = false;
};

struct None {};

// One argument of the operation's schema.
using Arg = std::variant<None, Value, std::vector<std::optional<Value>>, Number, Dims,
                         std::vector<Number>, std::string, bool>;

// Type and dims of a result, as torch's meta kernels say.
struct Meta {
  Type type = kF32;
  Dims dims;
};

// An operation to lower: arguments by position in the functional schema.
class Call {
 public:
  Call(std::string name, std::vector<Arg> args, std::vector<Meta> outs)
      : name_(std::move(name)), args_(std::move(args)), outs_(std::move(outs)) {}

  const std::string& name() const { return name_; }
  size_t size() const { return args_.size(); }
  const std::vector<Meta>& outs() const { return outs_; }
  const Meta& out(size_t i = 0) const { return outs_[i]; }

  bool has(size_t i) const { return i < args_.size() && !std::holds_alternative<None>(args_[i]); }
  const Value& tensor(size_t i) const;
  bool is_tensor(size_t i) const { return std::holds_alternative<Value>(args_[i]); }
  bool is_number(size_t i) const { return std::holds_alternative<Number>(args_[i]); }
  std::vector<Value> tensors(size_t i) const;  // no gaps
  const std::vector<std::optional<Value>>& optional_tensors(size_t i) const;
  bool flag(size_t i) const;
  int64_t integer(size_t i) const;
  int64_t integer_or(size_t i, int64_t other) const { return has(i) ? integer(i) : other; }
  double number(size_t i) const;  // known ones only
  const Dims& ints(size_t i) const;
  const std::string& text(size_t i) const;
  const Number& scalar_info(size_t i) const;

  // A number as a 0-d value of `type`: a constant if it is known, else an input of the program.
  Value scalar(Graph& g, size_t i, Type type) const;
  Value scalar_at(Graph& g, size_t i, size_t element, Type type) const;  // of a list of numbers
  size_t scalar_count(size_t i) const { return std::get<std::vector<Number>>(args_[i]).size(); }
  // A tensor converted to `type`, or a number as a 0-d value.
  Value operand(Graph& g, size_t i, Type type) const;

  // The call of row `name` that this call of a list operation makes for element e of its lists:
  // of tensors and of numbers. What is no list is for all.
  Call element(const std::string& name, size_t e) const;

  // The program notes if `bad`, a 0-d pred, is true: the next call that waits for the device raises
  // `text`, in which "{}" stands for `value`, a 0-d s64.
  void check(Graph& g, const Value& bad, const std::string& text, bool index = false,
             const std::optional<Value>& value = std::nullopt) const;
  // Elements of `index` are from `low` to `high`, that one not included.
  void check_range(Graph& g, const Value& index, int64_t low, int64_t high, const std::string& text,
                   bool raises_index_error = true) const;
  // Each element of a dimension of size n, counted from its front or from its end.
  void check_index(Graph& g, const Value& index, int64_t dim, int64_t n,
                   bool raises_index_error = true) const;
  struct Check {
    Value bad;
    Value value;
    std::string text;
    bool index = false;
  };
  const std::vector<Check>& checks() const { return checks_; }

  // For rows that draw random numbers: u64[2], key and counter of the generator.
  const Value& random_state() const { return *random_state_; }
  // Random bits of u32 or u64; once a program, since the state is the same. The generator's counter
  // moves on by what is drawn here.
  Value random_bits(Graph& g, Type type, const Dims& dims) const;
  uint64_t drawn() const { return drawn_; }
  void set_random_state(Value state) { random_state_ = std::move(state); }
  void set_scalar_inputs(const Value& floats, const Value& ints) {
    floats_ = floats;
    ints_ = ints;
  }
  // Where number i (element e of a list) is in the inputs; set by the caller.
  void place_scalar(size_t i, size_t element, int64_t at) { places_[{i, element}] = at; }

 private:
  Value runtime(Graph& g, size_t i, size_t element, const Number& number, Type type) const;

  std::string name_;
  std::vector<Arg> args_;
  std::vector<Meta> outs_;
  mutable std::vector<Check> checks_;
  std::optional<Value> random_state_;
  mutable uint64_t drawn_ = 0;  // words of 32 bits
  std::optional<Value> floats_;
  std::optional<Value> ints_;
  std::map<std::pair<size_t, size_t>, int64_t> places_;
};

using Lower = std::vector<Value> (*)(Graph& g, const Call& call);

// What the caller must know of a row.
struct Row {
  Lower lower = nullptr;
  // Positions of numbers (Scalar or float arguments) that the lowering wants to look at.
  std::vector<int> known;
  // Positions of whole numbers that are inputs of the program while they have at most 31 bits.
  std::vector<int> changing{};
  // Throws for numbers that torch refuses: called each time with the first tensor's type and the
  // numbers that are inputs of the program. (What is in the key torch's meta kernel checks.)
  void (*verify)(Type type, const std::vector<Number>& numbers) = nullptr;
  bool random = false;  // draws from the generator
  // Elements that a call draws, per element of the result: the counter moves on by that.
  int draws = 1;
  // The results' shapes are those of the values returned: there is no meta kernel.
  bool own_shapes = false;
  // Positions of tensors that are written beside the results, whatever the schema says (running
  // statistics). Their new values follow the results; Value{} leaves one as it is, and one that is
  // not given is left out.
  std::vector<int> writes{};
  bool own_device_indices = false;  // CPU tensors among the arguments are moved, as for indices
  // Position of a list of indices: masks in it become whole numbers before the call is parsed.
  int index_list = -1;
  // With own_shapes: arguments one of which, if its channels come last in memory, makes those of
  // the results come last.
  std::vector<int> format_like;
};

// The name as in the dispatcher, without "aten::": "add.Tensor", "relu". Each name once.
void add_row(std::string_view name, Row row);
const Row* find_row(std::string_view name);
std::vector<std::string> row_names();

// Registers rows when the library is loaded:
//   TNX_LOWER("relu", { return {g.max(call.tensor(0), g.like(call.tensor(0), 0))}; });
#define TNX_CONCAT_(a, b) a##b
#define TNX_CONCAT(a, b) TNX_CONCAT_(a, b)
#define TNX_LOWER_ROW(name, row, ...)                                                  \
  static std::vector<Value> TNX_CONCAT(lower_, __LINE__)(Graph & g, const Call& call); \
  [[maybe_unused]] static const bool TNX_CONCAT(added_, __LINE__) = [] {               \
    Row r = row;                                                                       \
    r.lower = TNX_CONCAT(lower_, __LINE__);                                            \
    add_row(name, std::move(r));                                                       \
    return true;                                                                       \
  }();                                                                                 \
  static std::vector<Value> TNX_CONCAT(lower_, __LINE__)([[maybe_unused]] Graph & g,   \
                                                         const Call& call) __VA_ARGS__
#define TNX_LOWER(name, ...) TNX_LOWER_ROW(name, Row{}, __VA_ARGS__)

// ---- helpers of many rows ----

// Type in which the first result is computed.
inline Type result_compute(const Call& call) { return compute_type(call.out().type); }

// Dims as positions from 0: negative ones count from the end; none given means all.
Dims all_dims(const Value& x);
Dims wrap_dims(const Value& x, const Dims& dims, bool empty_means_all = true);
int64_t wrap_dim(int64_t dim, int64_t rank);
// Number of elements that a reduction over dims joins.
int64_t reduced_count(const Value& x, const Dims& dims);

}  // namespace tnx
