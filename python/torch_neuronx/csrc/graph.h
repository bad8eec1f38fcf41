// SPDX-License-Identifier: Apache-2.0
// A graph of HLO operations under construction: nrtcc's C API with shapes inferred, so that
// lowerings read like formulas. Shapes are static. All functions throw Error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "python/torch_neuronx/csrc/libraries.h"

namespace tnx {

using Dims = std::vector<int64_t>;
using Type = nrtcc_dtype_t;

inline constexpr Type kPred = NRTCC_PRED;
inline constexpr Type kS8 = NRTCC_S8;
inline constexpr Type kS16 = NRTCC_S16;
inline constexpr Type kS32 = NRTCC_S32;
inline constexpr Type kS64 = NRTCC_S64;
inline constexpr Type kU8 = NRTCC_U8;
inline constexpr Type kU16 = NRTCC_U16;
inline constexpr Type kU32 = NRTCC_U32;
inline constexpr Type kU64 = NRTCC_U64;
inline constexpr Type kF16 = NRTCC_F16;
inline constexpr Type kBF16 = NRTCC_BF16;
inline constexpr Type kF32 = NRTCC_F32;
inline constexpr Type kF64 = NRTCC_F64;

bool is_float(Type type);
bool is_signed_integer(Type type);
bool is_integer(Type type);  // neither pred nor float
int64_t bytes_of(Type type);
const char* name_of(Type type);
// Type in which a sum or a transcendental of `type` is computed: f32 for 8- and 16-bit floats.
Type compute_type(Type type);

int64_t count_of(const Dims& dims);

// Result of an operation: an array.
struct Value {
  nrtcc_value_t id = -1;
  nrtcc_computation_t computation = 0;
  Type type = kF32;
  Dims dims;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t count() const { return count_of(dims); }
};

// An HLO window dimension, of convolutions and reduce-windows.
struct Window {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t low = 0;  // padding; negative leaves elements out
  int64_t high = 0;
  int64_t dilation = 1;       // of the window
  int64_t base_dilation = 1;  // of the operand
  bool reversed = false;

  int64_t outputs(int64_t operand) const;  // how many windows there are
};

// Where a convolution finds its dimensions: batch, feature and spatial ones of the input; input
// feature, output feature and spatial ones of the kernel; batch, feature and spatial ones of the
// output.
struct ConvDims {
  Dims input;
  Dims kernel;
  Dims output;
};

class Graph {
 public:
  explicit Graph(const std::string& name);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const nrtcc_graph_t* handle() const { return graph_; }
  int parameters() const { return parameters_; }
  std::string text() const;

  // ---- leaves ----
  Value parameter(Type type, const Dims& dims);
  Value constant(Type type, double value);  // 0-d
  Value integer(Type type, int64_t value);  // 0-d; exact for 64 bits
  Value full(Type type, const Dims& dims, double value);
  Value zeros(Type type, const Dims& dims) { return full(type, dims, 0); }
  Value like(const Value& x, double value) { return full(x.type, x.dims, value); }
  Value iota(Type type, const Dims& dims, int64_t dim);
  Value literal(Type type, const Dims& dims, const void* data, size_t bytes);
  // Lowest (-inf) or highest (+inf) value of a type, 0-d.
  Value lowest(Type type);
  Value highest(Type type);

  // ---- shape ----
  Value convert(const Value& x, Type type);
  Value bitcast(const Value& x, Type type);  // of the same width
  Value reshape(const Value& x, const Dims& dims);
  Value broadcast(const Value& x, const Dims& dims, const Dims& map);
  Value expand(const Value& x, const Dims& dims);  // as in NumPy: aligned to the right
  Value transpose(const Value& x, const Dims& order);
  Value swap(const Value& x, int64_t a, int64_t b);
  Value slice(const Value& x, const Dims& start, const Dims& limit, const Dims& stride = {});
  Value narrow(const Value& x, int64_t dim, int64_t start, int64_t length, int64_t step = 1);
  Value pad(const Value& x, const Value& value, const Dims& low, const Dims& high,
            const Dims& interior = {});
  Value concat(const std::vector<Value>& parts, int64_t dim);
  Value reverse(const Value& x, const Dims& dims);
  Value unsqueeze(const Value& x, int64_t dim);
  Value squeeze(const Value& x, int64_t dim);

  // ---- element by element; operands of a binary operation are expanded to one shape ----
  Value unary(const char* opcode, const Value& x);
  Value binary(const char* opcode, const Value& a, const Value& b);
  Value compare(const char* direction, const Value& a, const Value& b);
  Value select(const Value& condition, const Value& yes, const Value& no);
  Value is_finite(const Value& x);
  Value add(const Value& a, const Value& b) { return binary("add", a, b); }
  Value sub(const Value& a, const Value& b) { return binary("subtract", a, b); }
  Value mul(const Value& a, const Value& b) { return binary("multiply", a, b); }
  Value div(const Value& a, const Value& b) { return binary("divide", a, b); }
  Value max(const Value& a, const Value& b) { return binary("maximum", a, b); }
  Value min(const Value& a, const Value& b) { return binary("minimum", a, b); }
  Value neg(const Value& x) { return unary("negate", x); }
  Value exp(const Value& x) { return unary("exponential", x); }
  Value log(const Value& x) { return unary("log", x); }
  Value sqrt(const Value& x) { return unary("sqrt", x); }
  Value rsqrt(const Value& x) { return unary("rsqrt", x); }
  Value tanh(const Value& x) { return unary("tanh", x); }
  Value sigmoid(const Value& x) { return unary("logistic", x); }
  Value logical_not(const Value& x) { return unary("not", x); }
  Value is_nan(const Value& x) { return compare("NE", x, x); }

  // ---- reductions: "add", "multiply", "maximum", "minimum", "and", "or" ----
  Value reduce(const char* opcode, const Value& x, const Dims& dims, bool keep = false);
  Value sum(const Value& x, const Dims& dims, bool keep = false) {
    return reduce("add", x, dims, keep);
  }
  // Value and s64 position of the first largest (smallest) element; NaN wins, as in torch.
  std::pair<Value, Value> extreme(bool largest, const Value& x, int64_t dim, bool keep = false);
  Value reduce_window(const char* opcode, const Value& x, const Value& init,
                      const std::vector<Window>& window);
  // Adds `source` to the first largest element of each window.
  Value select_and_scatter_max(const Value& operand, const std::vector<Window>& window,
                               const Value& source, const Value& init);

  // ---- matrices ----
  Value dot(const Value& a, const Value& b, const Dims& a_contract, const Dims& b_contract,
            const Dims& a_batch, const Dims& b_batch, Type type);
  Value matmul(const Value& a, const Value& b,
               Type type);  // [.., m, k] x [.., k, n], equal batches
  Value conv(const Value& input, const Value& kernel, const ConvDims& dims,
             const std::vector<Window>& window, int64_t groups, int64_t batch_groups, Type type);
  Value triangular_solve(const Value& a, const Value& b, bool left, bool lower, bool unit,
                         bool transposed);

  // ---- indices ----
  struct GatherDims {
    Dims offset;     // dimensions of the result that come from the slice (scatter: of the updates)
    Dims collapsed;  // dimensions of the operand that the result has not
    Dims index_map;  // dimensions of the operand that the index vector's elements are for
    int64_t index_vector = 0;
    Dims operand_batching;
    Dims indices_batching;
  };
  Value gather(const Value& operand, const Value& indices, const GatherDims& dims,
               const Dims& slice_sizes);
  // `opcode` of how an update joins an element: "add", "multiply", "maximum", "minimum"; "" sets.
  Value scatter(const char* opcode, const Value& operand, const Value& indices,
                const Value& updates, const GatherDims& dims);
  // result[.., i, ..] = x[.., index[.., i, ..], ..] along dim; both of one rank, as torch.gather.
  Value take_along(const Value& x, const Value& index, int64_t dim);
  // Elements of x along dim at the positions of a 1-d index.
  Value index_select(const Value& x, const Value& index, int64_t dim);
  Value dynamic_slice(const Value& x, const std::vector<Value>& starts, const Dims& sizes);
  Value dynamic_update(const Value& x, const Value& update, const std::vector<Value>& starts);

  // ---- order ----
  // Sorts all operands by `before(a, b)` of the first one's elements; stable.
  std::vector<Value> sort(const std::vector<Value>& operands, int64_t dim, bool descending);

  // The first k of each row of the last dimension in order, and their s32 positions. Floats in
  // total order (-0 before 0, NaN by their signs), equal elements by position.
  std::pair<Value, Value> topk(const Value& x, int64_t k, bool largest);

  // ---- random bits: Philox 4x32-10 from a state u64[2] of key and counter ----
  Value random_bits(const Value& state, Type type, const Dims& dims);

  // Calls `body` with the parameters of a new computation; its result is the root.
  nrtcc_computation_t computation(const std::vector<std::pair<Type, Dims>>& parameters,
                                  const std::function<Value(const std::vector<Value>&)>& body);
  std::vector<Value> while_loop(
      const std::vector<Value>& state,
      const std::function<Value(const std::vector<Value>&)>& condition,
      const std::function<std::vector<Value>(const std::vector<Value>&)>& body);

  // The results, in order; aliases[i] is the parameter whose memory result i takes, or -1.
  void finish(const std::vector<Value>& results, const std::vector<int>& aliases);

 private:
  class Attributes;
  Value op(const char* opcode, const std::vector<Value>& operands, Type type, const Dims& dims,
           const Attributes& attributes);
  Value op(const char* opcode, const std::vector<Value>& operands, Type type, const Dims& dims);
  std::vector<Value> op_many(const char* opcode, const std::vector<Value>& operands,
                             const std::vector<std::pair<Type, Dims>>& results,
                             const Attributes& attributes);
  Value parameter_of(nrtcc_computation_t computation, int number, Type type, const Dims& dims);
  nrtcc_computation_t combiner(const std::string& opcode, Type type);

  nrtcc_graph_t* graph_ = nullptr;
  int parameters_ = 0;
  nrtcc_computation_t current_ = 0;
  std::map<std::pair<std::string, Type>, nrtcc_computation_t> combiners_;
};

}  // namespace tnx
