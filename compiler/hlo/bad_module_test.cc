// SPDX-License-Identifier: Apache-2.0
// What can be wrong with a module, one row a kind: it is refused, and the error says where and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/hlo/location.h"
#include "compiler/hlo/testing/module_builder.h"

namespace onrt::hlo {
namespace {

using ::testing::HasSubstr;

const opennrt::hlo::Shape kScalar = shape_of(NRTCC_F32, {});
const opennrt::hlo::Shape kVector = shape_of(NRTCC_F32, {4});
const opennrt::hlo::Shape kMatrix = shape_of(NRTCC_F32, {2, 3});
const opennrt::hlo::Shape kPredicate = shape_of(NRTCC_PRED, {});
const opennrt::hlo::Shape kIndex = shape_of(NRTCC_S32, {});

opennrt::hlo::Shape tuple_of(std::initializer_list<opennrt::hlo::Shape> elements) {
  opennrt::hlo::Shape shape = shape_of(NRTCC_TUPLE, {});
  for (const auto& element : elements) {
    *shape.add_tuple_shapes() = element;
  }
  return shape;
}

struct Row {
  const char* what;
  void (*build)(ModuleBuilder&);
  std::vector<const char*> words;  // all of them are in the error
};

opennrt::hlo::Instruction& add_called(ModuleBuilder& b, const char* opcode,
                                      const opennrt::hlo::Shape& shape,
                                      std::initializer_list<int64_t> operands,
                                      std::initializer_list<int64_t> called) {
  auto& made = b.add(opcode, shape, operands);
  for (const int64_t id : called) {
    made.add_called_computation_ids(id);
  }
  return made;
}

// A computation of two scalars.
void add_sum(ModuleBuilder& b, int64_t id, const opennrt::hlo::Shape& shape) {
  b.start("sum", id);
  const int64_t x = b.parameter(0, shape);
  b.add("add", shape, {x, b.parameter(1, shape)});
}

void add_identity(ModuleBuilder& b, const char* name, int64_t id,
                  const opennrt::hlo::Shape& shape) {
  b.start(name, id);
  b.parameter(0, shape);
}

const Row kRows[] = {
    // ---- operands ----
    {"an operation lacks an operand",
     [](ModuleBuilder& b) { b.add("add", kVector, {b.parameter(0, kVector)}); },
     {"'add.2'", "expected 2 operands, found 1"}},
    {"an operation has one too many",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kVector);
       b.add("negate", kVector, {x, x});
     },
     {"'negate.2'", "expected 1 operands, found 2"}},
    {"an operand is of another computation",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kVector);
       add_called(b, "call", kVector, {x}, {8});
       b.start("inner", 8);
       b.add("negate", kVector, {x});
     },
     {"computation 'inner'", "'negate.1'", "is not in this computation"}},
    {"operations need each other in a ring",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kVector);
       auto& first = b.add("add", kVector, {x});
       const int64_t id = first.id();
       auto& second = b.add("negate", kVector, {id});
       b.computation().mutable_instructions(1)->add_operand_ids(second.id());
     },
     {"computation 'main'", "depends on itself"}},
    {"a tuple where an array belongs",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kVector);
       const int64_t pair = b.add("tuple", tuple_of({kVector, kVector}), {x, x}).id();
       b.add("negate", kVector, {pair});
     },
     {"'negate.3'", "expected an array, found (f32[4], f32[4])"}},
    {"an element that the tuple lacks",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kVector);
       const int64_t one = b.add("tuple", tuple_of({kVector}), {x}).id();
       b.add("get-tuple-element", kVector, {one}).set_tuple_index(1);
     },
     {"'get-tuple-element.3'", "index", "found 1"}},
    {"an element of an array",
     [](ModuleBuilder& b) { b.add("get-tuple-element", kVector, {b.parameter(0, kVector)}); },
     {"'get-tuple-element.2'", "expected a tuple, found f32[4]"}},
    // ---- shapes, one operation of each class ----
    {"elementwise: operands differ",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kVector);
       b.add("add", kVector, {x, b.parameter(1, kMatrix)});
     },
     {"'add.3'", "operand 1", "f32[2,3]"}},
    {"elementwise: the result differs",
     [](ModuleBuilder& b) { b.add("negate", kMatrix, {b.parameter(0, kVector)}); },
     {"'negate.2'", "expected f32[4], found f32[2,3]"}},
    {"elementwise: a type it does not take",
     [](ModuleBuilder& b) {
       b.add("tanh", shape_of(NRTCC_S32, {4}), {b.parameter(0, shape_of(NRTCC_S32, {4}))});
     },
     {"'tanh.2'", "element type s32"}},
    {"reshape: other count of elements",
     [](ModuleBuilder& b) { b.add("reshape", kMatrix, {b.parameter(0, kVector)}); },
     {"'reshape.2'", "f32[2,3]"}},
    {"broadcast: a dimension that is not there",
     [](ModuleBuilder& b) {
       b.add("broadcast", kMatrix, {b.parameter(0, shape_of(NRTCC_F32, {3}))}).add_dimensions(2);
     },
     {"'broadcast.2'", "dimensions", "[2]"}},
    {"transpose: not an order",
     [](ModuleBuilder& b) {
       auto& made = b.add("transpose", kMatrix, {b.parameter(0, kMatrix)});
       made.add_dimensions(1);
       made.add_dimensions(1);
     },
     {"'transpose.2'", "dimensions", "[1,1]"}},
    {"slice: beyond the end",
     [](ModuleBuilder& b) {
       auto* slice = b.add("slice", kVector, {b.parameter(0, kVector)}).add_slice_dimensions();
       slice->set_start(1);
       slice->set_limit(5);
       slice->set_stride(1);
     },
     {"'slice.2'", "5"}},
    {"slice: for too few dimensions",
     [](ModuleBuilder& b) { b.add("slice", kMatrix, {b.parameter(0, kMatrix)}); },
     {"'slice.2'", "expected 6 integers, found 0"}},
    {"pad: for too many dimensions",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kVector);
       auto& made = b.add("pad", kVector, {x, b.parameter(1, kScalar)});
       made.mutable_padding_config()->add_dimensions();
       made.mutable_padding_config()->add_dimensions();
     },
     {"'pad.3'", "expected 3 integers, found 6"}},
    {"concatenate: other sizes beside the dimension",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kMatrix);
       const int64_t y = b.parameter(1, shape_of(NRTCC_F32, {3, 3}));
       b.add("concatenate", shape_of(NRTCC_F32, {2, 6}), {x, y}).add_dimensions(1);
     },
     {"'concatenate.3'", "operand 1", "f32[3,3]"}},
    {"iota: along no dimension",
     [](ModuleBuilder& b) { b.add("iota", kVector, {}).add_dimensions(1); },
     {"'iota.1'", "dimension"}},
    {"dot: contracted sizes differ",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kMatrix);
       auto& made = b.add("dot", shape_of(NRTCC_F32, {2, 3}), {x, x});
       made.mutable_dot_dimensions()->add_lhs_contracting(1);
       made.mutable_dot_dimensions()->add_rhs_contracting(0);
     },
     {"'dot.2'", "3", "2"}},
    {"convolution: no dimension numbers",
     [](ModuleBuilder& b) {
       const auto image = shape_of(NRTCC_F32, {1, 1, 4, 4});
       const int64_t x = b.parameter(0, image);
       b.add("convolution", image, {x, x});
     },
     {"'convolution.2'"}},
    {"gather: slice sizes of another rank",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kMatrix);
       const int64_t at = b.parameter(1, shape_of(NRTCC_S32, {1}));
       auto& made = b.add("gather", shape_of(NRTCC_F32, {3}), {x, at});
       made.mutable_gather_dimensions()->add_start_index_map(0);
       made.add_gather_slice_sizes(1);
     },
     {"'gather.3'"}},
    {"dynamic-slice: a start is missing",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kMatrix);
       auto& made = b.add("dynamic-slice", kMatrix, {x, b.parameter(1, kIndex)});
       made.add_dynamic_slice_sizes(2);
       made.add_dynamic_slice_sizes(3);
     },
     {"'dynamic-slice.3'"}},
    {"reduce: the computation takes other types",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kVector);
       add_called(b, "reduce", kScalar, {x, b.parameter(1, kScalar)}, {9}).add_dimensions(0);
       add_sum(b, 9, kIndex);
     },
     {"'reduce.3'", "computation 'sum'", "s32[]"}},
    {"reduce-window: a window of no size",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kVector);
       auto& made = add_called(b, "reduce-window", kVector, {x, b.parameter(1, kScalar)}, {9});
       made.mutable_window()->add_dimensions();
       add_sum(b, 9, kScalar);
     },
     {"'reduce-window.3'", "window"}},
    {"sort: along a dimension that is not there",
     [](ModuleBuilder& b) {
       add_called(b, "sort", kVector, {b.parameter(0, kVector)}, {9}).add_dimensions(1);
       b.start("less", 9);
       const int64_t x = b.parameter(0, kScalar);
       b.add("compare", kPredicate, {x, b.parameter(1, kScalar)}).set_comparison_direction("LT");
     },
     {"'sort.2'", "dimension"}},
    {"constant: fewer elements than its shape",
     [](ModuleBuilder& b) {
       auto& made = b.add("constant", kVector);
       *made.mutable_literal()->mutable_shape() = kVector;
       made.mutable_literal()->add_f32s(1);
     },
     {"'constant.1'", "needs 16 bytes", "found 4"}},
    // ---- sizes ----
    {"more elements than 64 bits count",
     [](ModuleBuilder& b) {
       b.parameter(0, shape_of(NRTCC_F32, {int64_t{1} << 40, int64_t{1} << 40}));
     },
     {"'parameter.1'", "64 bits"}},
    {"more bytes than any device has",
     [](ModuleBuilder& b) { b.parameter(0, shape_of(NRTCC_F32, {int64_t{1} << 40})); },
     {"limit of 1099511627776 bytes"}},
    {"more dimensions than an array has",
     [](ModuleBuilder& b) {
       opennrt::hlo::Shape shape = kVector;
       for (int i = 0; i < 40; ++i) {
         shape.add_dimensions(1);
       }
       b.parameter(0, shape);
     },
     {"'parameter.1'", "rank 41"}},
    // ---- computations ----
    {"while: the body gives another shape",
     [](ModuleBuilder& b) {
       add_called(b, "while", kScalar, {b.parameter(0, kScalar)}, {9, 8});
       b.start("body", 9);
       b.parameter(0, kScalar);
       b.add("iota", kVector).add_dimensions(0);
       b.start("condition", 8);
       const int64_t x = b.parameter(0, kScalar);
       b.add("compare", kPredicate, {x, x}).set_comparison_direction("LT");
     },
     {"'while.2'", "computation 'body'", "root: expected f32[], found f32[4]"}},
    {"while: the condition gives no truth value",
     [](ModuleBuilder& b) {
       add_called(b, "while", kScalar, {b.parameter(0, kScalar)}, {9, 8});
       add_identity(b, "body", 9, kScalar);
       add_identity(b, "condition", 8, kScalar);
     },
     {"'while.2'", "computation 'condition'", "expected pred[], found f32[]"}},
    {"while: no computations",
     [](ModuleBuilder& b) { b.add("while", kScalar, {b.parameter(0, kScalar)}); },
     {"'while.2'", "expected 2"}},
    {"conditional: branches of different results",
     [](ModuleBuilder& b) {
       const int64_t which = b.parameter(0, kPredicate);
       const int64_t x = b.parameter(1, kScalar);
       add_called(b, "conditional", kScalar, {which, x, x}, {8, 9});
       add_identity(b, "yes", 8, kScalar);
       b.start("no", 9);
       b.parameter(0, kScalar);
       b.add("iota", kVector).add_dimensions(0);
     },
     {"'conditional.3'", "computation 'no'", "found f32[4]"}},
    {"conditional: a branch takes another shape",
     [](ModuleBuilder& b) {
       const int64_t which = b.parameter(0, kPredicate);
       const int64_t x = b.parameter(1, kScalar);
       add_called(b, "conditional", kScalar, {which, x, x}, {8, 9});
       add_identity(b, "yes", 8, kScalar);
       b.start("no", 9);
       b.parameter(0, kVector);
       b.add("constant", kScalar).mutable_literal()->add_f32s(0);
       *b.computation().mutable_instructions(1)->mutable_literal()->mutable_shape() = kScalar;
     },
     {"'conditional.3'", "computation 'no', parameter 0"}},
    {"call: too few arguments",
     [](ModuleBuilder& b) {
       add_called(b, "call", kScalar, {b.parameter(0, kScalar)}, {9});
       add_sum(b, 9, kScalar);
     },
     {"'call.2'", "computation 'sum'", "expected 1 parameters, found 2"}},
    {"two computations call each other",
     [](ModuleBuilder& b) {
       add_called(b, "call", kScalar, {b.parameter(0, kScalar)}, {8});
       b.start("ping", 8);
       add_called(b, "call", kScalar, {b.parameter(0, kScalar)}, {9});
       b.start("pong", 9);
       add_called(b, "call", kScalar, {b.parameter(0, kScalar)}, {8});
     },
     {"calls itself"}},
    {"a called computation lacks a parameter",
     [](ModuleBuilder& b) {
       const int64_t x = b.parameter(0, kScalar);
       add_called(b, "call", kScalar, {x, x}, {9});
       add_identity(b, "second", 9, kScalar);
       b.computation().mutable_instructions(0)->set_parameter_number(1);
     },
     {"'call.2'", "computation", "'second'", "parameter 0"}},
    {"a computation without instructions",
     [](ModuleBuilder& b) {
       add_called(b, "call", kScalar, {b.parameter(0, kScalar)}, {9});
       b.start("empty", 9);
     },
     {"computation 'empty'", "root"}},
};

TEST(BadModule, EveryKindIsRefusedWithItsPlace) {
  for (const Row& row : kRows) {
    ModuleBuilder builder;
    row.build(builder);
    const auto graph = import_module(builder.module());
    if (graph.ok()) {
      ADD_FAILURE() << row.what << ": taken";
      continue;
    }
    const std::string message(graph.status().message());
    for (const char* words : row.words) {
      EXPECT_THAT(message, HasSubstr(words)) << row.what;
    }
    EXPECT_THAT(message, HasSubstr("module 'm'")) << row.what;
  }
}

// The first bytes of a module are no module, or one that lacks something.
TEST(BadModule, EveryTruncationEnds) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, kScalar);
  add_called(builder, "while", kScalar, {x}, {9, 8});
  add_identity(builder, "body", 9, kScalar);
  add_identity(builder, "condition", 8, kScalar);
  const std::string bytes = builder.module().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto module = parse_module(std::as_bytes(std::span(bytes.data(), size)));
    const auto graph = module.ok() ? import_module(*module) : Result<GraphPtr>(malformed("bytes"));
    EXPECT_FALSE(graph.ok()) << size;
    EXPECT_FALSE((module.ok() ? graph.status() : module.status()).message().empty()) << size;
  }
}

// Protobuf's own limit of nesting, or ours, ends it; no stack does.
TEST(BadModule, TuplesInTuplesEnd) {
  opennrt::hlo::Shape shape = kScalar;
  for (int i = 0; i < 60; ++i) {
    shape = tuple_of({shape});
  }
  ModuleBuilder builder;
  builder.parameter(0, shape);
  EXPECT_FALSE(import_module(builder.module()).ok());
  for (int i = 0; i < 400; ++i) {
    shape = tuple_of({shape});
  }
  *builder.computation().mutable_instructions(0)->mutable_shape() = shape;
  const std::string bytes = builder.module().SerializeAsString();
  EXPECT_FALSE(parse_module(std::as_bytes(std::span(bytes))).ok());
}

}  // namespace
}  // namespace onrt::hlo
