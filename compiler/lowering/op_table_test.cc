// SPDX-License-Identifier: Apache-2.0
// Every opcode x element type x kind of shape, compiled at -O2 and run on the engine, against the
// reference interpreter: the same bits. A cell without a program says why. The interpreter's own
// values are checked against JAX and numpy in compiler/reference and tests/e2e.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "compiler/hir/opcode.h"
#include "compiler/hir/scalar.h"
#include "compiler/hir/text.h"
#include "compiler/testing/random_graph.h"
#include "runtime/base/format.h"

namespace onrt::testing {
namespace {

using Dims = std::vector<int64_t>;

constexpr Dtype kTypes[] = {
#define ONRT_DTYPE(name, text, bytes, nrt, xla) Dtype::k##name,
#include "runtime/base/dtype.def"
#undef ONRT_DTYPE
};

struct ShapeKind {
  const char* name;
  Dims dims;
  bool strided = false;  // operands are reversed slices with gaps
};
const ShapeKind kShapes[] = {
    {"0-d", {}},         {"zero-size", {0, 3}},    {"one", {1}},
    {"odd", {7}},        {"5-d", {2, 1, 3, 1, 2}}, {"strided", {6, 4}, true},
    {"long", {3, 1100}},
};

std::string list(const Dims& values) {
  std::string out;
  for (const int64_t value : values) {
    out += format("{}{}", out.empty() ? "" : ",", value);
  }
  return out;
}

// Writes a graph's text: two operands x and y of one type and shape, then what a cell adds.
class Writer {
 public:
  Writer(Dtype element, const ShapeKind& kind) : type(element), dims(kind.dims) {
    for (int64_t number = 0; number < 2; ++number) {
      Dims whole = dims;
      for (int64_t& dim : whole) {
        dim *= kind.strided ? 2 : 1;
      }
      std::string value =
          add(array(whole), "parameter", {}, format("parameter_number={{{}}}", number));
      if (kind.strided) {
        Dims gaps;
        for (const int64_t dim : whole) {
          gaps.insert(gaps.end(), {0, dim, 2});
        }
        value = add(array(dims), "slice", {value}, format("slice={{{}}}", list(gaps)));
        value = add(array(dims), "reverse", {value}, "dimensions={0}");
      }
      (number == 0 ? x : y) = value;
    }
  }

  std::string array(const Dims& shape) const { return array(type, shape); }
  static std::string array(Dtype dtype, const Dims& shape) {
    return format("{}[{}]", dtype_name(dtype), list(shape));
  }
  std::string add(const std::string& shape, std::string_view opcode,
                  const std::vector<std::string>& operands, const std::string& attributes = "") {
    std::string text;
    for (const std::string& operand : operands) {
      text += (text.empty() ? "" : ", ") + operand;
    }
    lines_.push_back(
        format("{} {}({}){}{}", shape, opcode, text, attributes.empty() ? "" : ", ", attributes));
    return format("%{}", lines_.size() - 1);
  }
  std::string constant(Dtype dtype, const char* value) {
    return add(array(dtype, {}), "constant", {}, format("literal={{{}}}", value));
  }
  // The number of a computation (T, T) -> T that applies `opcode`.
  int64_t called(std::string_view opcode, Dtype result) {
    const std::string scalar = array({});
    called_ += format(
        "%{} \"called\" {{\n  %0 = {} parameter(), parameter_number={{0}}\n  %1 = {} parameter(), "
        "parameter_number={{1}}\n  ROOT %2 = {} {}(%0, %1){}\n}}\n\n",
        ++computations_, scalar, scalar, array(result, {}), opcode,
        opcode == "compare" ? ", direction=\"LT\"" : "");
    return computations_;
  }
  int64_t elements() const {
    int64_t n = 1;
    for (const int64_t dim : dims) {
      n *= dim;
    }
    return n;
  }
  std::string text() const {
    std::string out = "HloModule \"cell\"\n\n" + called_ + "ENTRY %0 \"main\" {\n";
    for (size_t i = 0; i < lines_.size(); ++i) {
      out += format("  {}%{} = {}\n", i + 1 == lines_.size() ? "ROOT " : "", i, lines_[i]);
    }
    return out + "}\n";
  }

  Dtype type;
  Dims dims;
  std::string x;
  std::string y;

 private:
  std::vector<std::string> lines_;
  std::string called_;
  int64_t computations_ = 0;
};

// Adds the cell's operations; gives a reason instead if there is no such program, "" otherwise.
using Cell = std::string (*)(Writer& w);

bool is_number(Dtype dtype) { return dtype != Dtype::kPred; }

std::string unchanged(Writer& w, std::string_view opcode) {
  w.add(w.array(w.dims), opcode, {w.x});
  return "";
}

Dims sequence(size_t rank) {
  Dims made;
  for (size_t d = 0; d < rank; ++d) {
    made.push_back(static_cast<int64_t>(d));
  }
  return made;
}

std::string cell_dot(Writer& w) {
  if (w.dims.empty() || w.type == Dtype::kPred) {
    return "dot needs a dimension to contract, of numbers";
  }
  const auto last = static_cast<int64_t>(w.dims.size() - 1);
  Dims batch = sequence(w.dims.size() - 1);
  Dims result(w.dims.begin(), w.dims.end() - 1);
  w.add(w.array(result), "dot", {w.x, w.y},
        format("lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}, lhs_batch_dims={{{}}}, "
               "rhs_batch_dims={{{}}}",
               last, last, list(batch), list(batch)));
  return "";
}

std::string cell_reduce(Writer& w) {
  const std::string init = w.add(w.array({}), "constant", {}, format("literal={{{}}}", "1"));
  const int64_t called = w.called(is_number(w.type) ? "add" : "or", w.type);
  Dims reduced = sequence(w.dims.size());
  Dims kept;
  if (reduced.size() > 1) {
    reduced.erase(reduced.begin());
    kept.push_back(w.dims[0]);
  }
  w.add(w.array(kept), "reduce", {w.x, init},
        format("dimensions={{{}}}, to_apply={{{}}}", list(reduced), called));
  return "";
}

std::string cell_pad(Writer& w) {
  const std::string value = w.constant(w.type, "1");
  Dims padding;
  Dims padded;
  for (const int64_t dim : w.dims) {
    padding.insert(padding.end(), {1, -1, 2});
    padded.push_back(dim == 0 ? 0 : dim + 2 * (dim - 1));
  }
  if (std::ranges::find(w.dims, 0) != w.dims.end()) {
    return "negative padding of nothing is refused, as XLA does";
  }
  w.add(w.array(padded), "pad", {w.x, value}, format("padding={{{}}}", list(padding)));
  return "";
}

std::string cell_slice(Writer& w) {
  Dims numbers;
  Dims result;
  for (const int64_t dim : w.dims) {
    const int64_t start = dim > 1 ? 1 : 0;
    numbers.insert(numbers.end(), {start, dim, 2});
    result.push_back((dim - start + 1) / 2);
  }
  w.add(w.array(result), "slice", {w.x}, format("slice={{{}}}", list(numbers)));
  return "";
}

std::string cell_dynamic(Writer& w, bool update) {
  std::vector<std::string> operands = {w.x};
  Dims sizes;
  for (const int64_t dim : w.dims) {
    sizes.push_back((dim + 1) / 2);
  }
  if (update) {
    Dims numbers;
    for (const int64_t size : sizes) {
      numbers.insert(numbers.end(), {0, size, 1});
    }
    operands.push_back(
        w.add(w.array(sizes), "slice", {w.y}, format("slice={{{}}}", list(numbers))));
  }
  for (size_t d = 0; d < w.dims.size(); ++d) {
    operands.push_back(w.constant(Dtype::kS32, d % 2 == 0 ? "1" : "-3"));
  }
  if (update) {
    w.add(w.array(w.dims), "dynamic-update-slice", operands);
  } else {
    w.add(w.array(sizes), "dynamic-slice", operands, format("slice_sizes={{{}}}", list(sizes)));
  }
  return "";
}

// Rows 2, 0, 9 (clamped or skipped) of the operand, by its first dimension.
std::string cell_indexed(Writer& w, bool scatter) {
  if (w.dims.empty()) {
    return "an index needs a dimension";
  }
  const std::string indices = w.add("s32[3]", "constant", {}, "literal={2,0,9}");
  Dims row(w.dims.begin() + 1, w.dims.end());
  Dims rows = row;
  rows.insert(rows.begin(), 3);
  Dims offsets = sequence(w.dims.size());
  offsets.erase(offsets.begin());
  const std::string numbers =
      format("offset_dims={{{}}}, collapsed_dims={{0}}, index_map={{0}}, index_vector_dim={{1}}",
             list(offsets));
  if (scatter) {
    const std::string update =
        w.add(w.array(rows), "broadcast", {w.constant(w.type, "1")}, "dimensions={}");
    const int64_t called = w.called(is_number(w.type) ? "add" : "or", w.type);
    w.add(w.array(w.dims), "scatter", {w.x, indices, update},
          format("{}, to_apply={{{}}}", numbers, called));
    return "";
  }
  if (w.dims[0] == 0) {
    return "a slice of one row does not fit into no rows";
  }
  Dims sizes = w.dims;
  sizes[0] = 1;
  w.add(w.array(rows), "gather", {w.x, indices},
        format("{}, slice_sizes={{{}}}", numbers, list(sizes)));
  return "";
}

std::string cell_sort(Writer& w) {
  if (w.dims.empty()) {
    return "sort needs a dimension";
  }
  w.add(w.array(w.dims), "sort", {w.x},
        format("dimensions={{{}}}, is_stable, to_apply={{{}}}", w.dims.size() - 1,
               w.called("compare", Dtype::kPred)));
  return "";
}

const std::map<std::string_view, Cell>& cells() {
  static const std::map<std::string_view, Cell> kCells = {
      {"bitcast-convert",
       [](Writer& w) -> std::string {
         constexpr Dtype kSame[] = {Dtype::kU8, Dtype::kU8, Dtype::kU16, Dtype::kU32, Dtype::kU32};
         if (w.type == Dtype::kPred || dtype_bytes(w.type) > 4) {
           return "pred has no bits of its own; 8 bytes are in the reference values";
         }
         w.add(w.array(kSame[dtype_bytes(w.type)], w.dims), "bitcast-convert", {w.x});
         return "";
       }},
      {"clamp",
       [](Writer& w) -> std::string {
         if (!is_number(w.type)) {
           return "clamp is of numbers";
         }
         w.add(w.array(w.dims), "clamp", {w.constant(w.type, "0"), w.x, w.y});
         return "";
       }},
      {"compare",
       [](Writer& w) -> std::string {
         w.add(w.array(Dtype::kPred, w.dims), "compare", {w.x, w.y}, "direction=\"GE\"");
         return "";
       }},
      {"convert",
       [](Writer& w) -> std::string {
         const Dtype to = w.type == Dtype::kF32 ? Dtype::kS16 : Dtype::kF32;
         w.add(w.array(to, w.dims), "convert", {w.x});
         return "";
       }},
      {"is-finite",
       [](Writer& w) -> std::string {
         if (!is_floating(w.type)) {
           return "is-finite is of floats";
         }
         w.add(w.array(Dtype::kPred, w.dims), "is-finite", {w.x});
         return "";
       }},
      {"reduce-precision",
       [](Writer& w) -> std::string {
         if (!is_floating(w.type)) {
           return "reduce-precision is of floats";
         }
         w.add(w.array(w.dims), "reduce-precision", {w.x}, "exponent_mantissa={5,2}");
         return "";
       }},
      {"select",
       [](Writer& w) -> std::string {
         const std::string p =
             w.add(w.array(Dtype::kPred, w.dims), "compare", {w.x, w.y}, "direction=\"LT\"");
         w.add(w.array(w.dims), "select", {p, w.x, w.y});
         return "";
       }},
      {"constant",
       [](Writer& w) -> std::string {
         w.add(w.array(w.dims), "broadcast", {w.constant(w.type, is_number(w.type) ? "3" : "1")},
               "dimensions={}");
         return "";
       }},
      {"copy", [](Writer& w) { return unchanged(w, "copy"); }},
      {"parameter", [](Writer& w) { return unchanged(w, "copy"); }},
      {"opt-barrier", [](Writer& w) { return unchanged(w, "opt-barrier"); }},
      {"bitcast", [](Writer& w) { return unchanged(w, "bitcast"); }},
      {"tuple",
       [](Writer& w) -> std::string {
         const std::string a = w.array(w.dims);
         w.add(format("({}, {})", a, a), "tuple", {w.y, w.x});
         return "";
       }},
      {"get-tuple-element",
       [](Writer& w) -> std::string {
         const std::string a = w.array(w.dims);
         const std::string pair = w.add(format("({}, {})", a, a), "tuple", {w.y, w.x});
         w.add(a, "get-tuple-element", {pair}, "index={1}");
         return "";
       }},
      {"map",
       [](Writer& w) -> std::string {
         w.add(w.array(w.dims), "map", {w.x, w.y},
               format("dimensions={{{}}}, to_apply={{{}}}", list(sequence(w.dims.size())),
                      w.called(is_number(w.type) ? "maximum" : "and", w.type)));
         return "";
       }},
      {"broadcast",
       [](Writer& w) -> std::string {
         Dims wider = w.dims;
         wider.insert(wider.begin(), 2);
         Dims to = sequence(wider.size());
         to.erase(to.begin());
         w.add(w.array(wider), "broadcast", {w.x}, format("dimensions={{{}}}", list(to)));
         return "";
       }},
      {"concatenate",
       [](Writer& w) -> std::string {
         if (w.dims.empty()) {
           return "concatenate needs a dimension";
         }
         Dims both = w.dims;
         both[0] *= 2;
         w.add(w.array(both), "concatenate", {w.x, w.y}, "dimensions={0}");
         return "";
       }},
      {"iota",
       [](Writer& w) -> std::string {
         if (w.dims.empty() || !is_number(w.type)) {
           return "iota counts along a dimension, in numbers";
         }
         w.add(w.array(w.dims), "iota", {}, format("dimensions={{{}}}", w.dims.size() - 1));
         return "";
       }},
      {"pad", cell_pad},
      {"reshape",
       [](Writer& w) -> std::string {
         w.add(w.array({w.elements(), 1}), "reshape", {w.x});
         return "";
       }},
      {"reverse",
       [](Writer& w) -> std::string {
         w.add(w.array(w.dims), "reverse", {w.x},
               format("dimensions={{{}}}", list(sequence(w.dims.size()))));
         return "";
       }},
      {"slice", cell_slice},
      {"transpose",
       [](Writer& w) -> std::string {
         Dims order = sequence(w.dims.size());
         std::ranges::reverse(order);
         Dims turned = w.dims;
         std::ranges::reverse(turned);
         w.add(w.array(turned), "transpose", {w.x}, format("dimensions={{{}}}", list(order)));
         return "";
       }},
      {"dot", cell_dot},
      {"dynamic-slice", [](Writer& w) { return cell_dynamic(w, false); }},
      {"dynamic-update-slice", [](Writer& w) { return cell_dynamic(w, true); }},
      {"gather", [](Writer& w) { return cell_indexed(w, false); }},
      {"reduce", cell_reduce},
      {"scatter", [](Writer& w) { return cell_indexed(w, true); }},
      {"sort", cell_sort},
  };
  return kCells;
}

// Opcodes whose operands have ranks or types of their own, with the tests that have their cells.
const std::map<std::string_view, std::string_view>& elsewhere() {
  static const std::map<std::string_view, std::string_view> kElsewhere = {
      {"call", "random_graph_test.cc, tests/e2e/test_jax_control.py"},
      {"while", "random_graph_test.cc, tests/e2e/test_jax_control.py"},
      {"conditional", "random_graph_test.cc, tests/e2e/test_jax_control.py"},
      {"rng", "its values depend on the execution: compile_test.cc"},
      {"rng-bit-generator", "states of u64: rng_test.cc, reference values from JAX"},
      {"topk", "tests/e2e/test_jax_sort_window.py"},
      {"custom-call", "AwsNeuronTopK: tests/e2e/test_jax_sort_window.py"},
      {"reduce-window", "tests/e2e/test_jax_sort_window.py, random_graph_test.cc"},
      {"select-and-scatter", "tests/e2e/test_jax_sort_window.py, random_graph_test.cc"},
      {"convolution", "tests/e2e/test_jax_conv.py, random_graph_test.cc"},
      {"batch-norm-training", "tests/e2e/test_jax_conv.py"},
      {"batch-norm-inference", "tests/e2e/test_jax_conv.py"},
      {"batch-norm-grad", "tests/e2e/test_jax_conv.py"},
      {"cholesky", "tests/e2e/test_jax_conv.py"},
      {"triangular-solve", "tests/e2e/test_jax_conv.py"},
  };
  return kElsewhere;
}

Bytes random_bytes(Dtype dtype, size_t size, std::mt19937& random) {
  Bytes made(size);
  for (std::byte& byte : made) {
    byte = static_cast<std::byte>(random() & (dtype == Dtype::kPred ? 1U : 255U));
  }
  return made;
}

// Compiles, runs, compares; returns what is wrong.
std::string run_cell(const std::string& text, std::mt19937& random) {
  auto graph = hir::parse(text);
  if (!graph.ok()) {
    return std::string(graph.status().message());
  }
  RandomCase made{std::move(*graph), {}};
  const hir::Computation& entry = made.graph->computation(hir::kEntry);
  for (const hir::ValueId parameter : entry.parameters) {
    const hir::Shape& shape = made.graph->shape_of(parameter);
    made.inputs.push_back(random_bytes(
        shape.dtype, static_cast<size_t>(shape.element_count) * dtype_bytes(shape.dtype), random));
  }
  const auto expected = interpret_case(made);
  if (!expected.ok()) {
    return std::string(expected.status().message());
  }
  const auto found = run_graph(*made.graph, made.inputs, {2, 2, false});
  return found.ok() ? difference(*made.graph, *expected, *found)
                    : std::string(found.status().message());
}

void check_cell(std::string_view opcode, Writer& writer, const ShapeKind& kind,
                std::mt19937& random) {
  const std::string text = writer.text();
  EXPECT_EQ(run_cell(text, random), "")
      << opcode << " of " << dtype_name(writer.type) << ", " << kind.name << "\n"
      << text;
}

TEST(OpTable, ElementwiseOperationsOfEveryTypeAndShape) {
  std::mt19937 random(1);
  int cells = 0;
#define ONRT_ELEMENTWISE(name, text, operands, scalar)                           \
  for (const Dtype type : kTypes) {                                              \
    const std::vector<Dtype> types(operands, type);                              \
    for (const ShapeKind& kind : kShapes) {                                      \
      if (ncx::scalar_op_typed(ncx::ScalarOp::k##scalar, types, type)) {         \
        Writer w(type, kind);                                                    \
        const std::vector<std::string> both = {w.x, w.y};                        \
        w.add(w.array(w.dims), text, {both.begin(), both.begin() + (operands)}); \
        check_cell(text, w, kind, random);                                       \
        ++cells;                                                                 \
      }                                                                          \
    }                                                                            \
  }
#include "compiler/hir/opcodes.def"
  EXPECT_GT(cells, 1000);
}

TEST(OpTable, OtherOperationsOfEveryTypeAndShape) {
  std::mt19937 random(2);
  for (const auto& [opcode, cell] : cells()) {
    for (const Dtype type : kTypes) {
      for (const ShapeKind& kind : kShapes) {
        Writer w(type, kind);
        if (cell(w).empty()) {
          check_cell(opcode, w, kind, random);
        }
      }
    }
  }
}

TEST(OpTable, HasARowForEveryOpcode) {
#define ONRT_OP(name, text, least, most, function)                  \
  EXPECT_TRUE(cells().contains(text) || elsewhere().contains(text)) \
      << text << ": neither a cell in this table nor a place that has its tests";
#include "compiler/hir/opcodes.def"
}

}  // namespace
}  // namespace onrt::testing
