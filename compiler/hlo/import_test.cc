// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/hlo/testing/module_builder.h"

namespace onrt::hlo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const opennrt::hlo::Shape kVector = shape_of(NRTCC_F32, {4});
const opennrt::hlo::Shape kScalar = shape_of(NRTCC_F32, {});

const hir::Instruction& root_of(const GraphPtr& graph) {
  return graph->graph[graph->graph.computation(hir::kEntry).root];
}

TEST(HloImport, KeepsOperandsShapeAndOpcode) {
  ModuleBuilder builder;
  const int64_t a = builder.parameter(0, kVector);
  const int64_t b = builder.parameter(1, kVector);
  builder.add("subtract", kVector, {b, a});
  const GraphPtr graph = import_ok(builder.module());
  const hir::Instruction& root = root_of(graph);
  EXPECT_EQ(root.opcode, hir::Opcode::kSubtract);
  ASSERT_EQ(root.operands.size(), 2U);
  EXPECT_EQ(graph->graph[root.operands[0]].ints(hir::AttributeKey::kParameterNumber)[0], 1);
  EXPECT_EQ(graph->graph[root.operands[1]].ints(hir::AttributeKey::kParameterNumber)[0], 0);
}

TEST(HloImport, TakesParametersAndOperandsInAnyPosition) {
  ModuleBuilder builder;
  auto& add = builder.add("add", kVector);
  add.set_id(100);
  builder.parameter(1, kVector);
  builder.parameter(0, kVector);
  const int64_t first = builder.computation().instructions(2).id();
  const int64_t second = builder.computation().instructions(1).id();
  builder.computation().mutable_instructions(0)->add_operand_ids(first);
  builder.computation().mutable_instructions(0)->add_operand_ids(second);
  builder.computation().set_root_id(100);
  EXPECT_EQ(root_of(import_ok(builder.module())).opcode, hir::Opcode::kAdd);
}

TEST(HloImport, ReadsAbsentNumbersAsZero) {
  ModuleBuilder builder;
  auto& parameter = builder.add("parameter", kVector);
  parameter.clear_id();
  builder.computation().clear_root_id();
  builder.computation().clear_id();
  builder.module().clear_entry_computation_id();
  EXPECT_EQ(root_of(import_ok(builder.module())).opcode, hir::Opcode::kParameter);
}

TEST(HloImport, FindsTheEntryByNameWhenItsIdIsAbsent) {
  ModuleBuilder builder;
  builder.parameter(0, kVector);
  builder.start("other", 9);
  builder.parameter(0, kScalar);
  builder.module().clear_entry_computation_id();
  builder.module().set_entry_computation_name("other");
  EXPECT_TRUE(import_ok(builder.module()) != nullptr);
  builder.module().set_entry_computation_name("absent");
  EXPECT_THAT(import_error(builder.module()), HasSubstr("entry computation 'absent'"));
}

TEST(HloImport, SkipsUnknownFields) {
  ModuleBuilder builder;
  builder.parameter(0, kVector);
  // Field 98 of the instruction and field 99 of the module, both length-delimited.
  const std::string instruction =
      builder.computation().instructions(0).SerializeAsString() + "\x92\x06\x03xyz";
  opennrt::hlo::Instruction parsed;
  ASSERT_TRUE(parsed.ParseFromString(instruction));
  *builder.computation().mutable_instructions(0) = parsed;
  const std::string bytes = builder.module().SerializeAsString() +
                            "\x9a\x06\x02"
                            "xy";
  const auto module = parse_module(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(module.ok()) << module.status().message();
  import_ok(*module);
}

TEST(HloImport, RefusesBytesThatAreNoModule) {
  EXPECT_THAT(std::string(parse_module({}).status().message()), HasSubstr("empty"));
  const std::string text = "ENTRY main { }";
  EXPECT_FALSE(parse_module(std::as_bytes(std::span(text))).ok());
}

TEST(HloImport, SaysWhatAFileOfAnotherFormatIs) {
  const auto message_of = [](std::string_view text) {
    return std::string(
        parse_module(std::as_bytes(std::span(text.data(), text.size()))).status().message());
  };
  EXPECT_THAT(message_of("HloModule jit_f, entry_computation_layout={}\n"), HasSubstr("HLO text"));
  EXPECT_THAT(message_of("module @jit_f attributes {}"), HasSubstr("MLIR text"));
  EXPECT_THAT(message_of("ML\xefR\x0d"), HasSubstr("MLIR bytecode"));
  EXPECT_THAT(message_of("ML\xefR\x0d"), HasSubstr("as_serialized_hlo_module_proto()"));
}

TEST(HloImport, NamesAnOpcodeThatDoesNotExist) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, kVector);
  auto& sine = builder.add("sinx", kVector, {x});
  sine.mutable_metadata()->set_file("train.py");
  sine.mutable_metadata()->set_line(42);
  sine.mutable_metadata()->set_op_name("jit(f)/sin");
  EXPECT_THAT(import_error(builder.module()),
              AllOf(HasSubstr("module 'm'"), HasSubstr("computation 'main'"),
                    HasSubstr("instruction 'sinx.2'"), HasSubstr("opcode 'sinx'"),
                    HasSubstr("train.py:42"), HasSubstr("jit(f)/sin")));
}

TEST(HloImport, NamesTheTargetOfACustomCallThatIsNotLowered) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, kVector);
  builder.add("custom-call", kVector, {x}).set_custom_call_target("lapack_ssyevd_ffi");
  EXPECT_THAT(import_error(builder.module()),
              AllOf(HasSubstr("custom-call"), HasSubstr("lapack_ssyevd_ffi")));
}

TEST(HloImport, DropsWhatNoResultNeedsUnlessItHasAnEffect) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, kVector);
  auto& call = builder.add("custom-call", kVector, {x});
  call.set_custom_call_target("unused");
  builder.add("negate", kVector, {x});
  EXPECT_EQ(root_of(import_ok(builder.module())).opcode, hir::Opcode::kNegate);
  builder.computation().mutable_instructions(1)->set_custom_call_has_side_effect(true);
  EXPECT_THAT(import_error(builder.module()), HasSubstr("unused"));
}

TEST(HloImport, LocatesReferencesThatLeadNowhere) {
  ModuleBuilder builder;
  builder.add("negate", kVector, {12345});
  EXPECT_THAT(import_error(builder.module()),
              AllOf(HasSubstr("operand 12345"), HasSubstr("negate.1")));
  builder.computation().mutable_instructions(0)->clear_operand_ids();
  builder.computation().mutable_instructions(0)->add_called_computation_ids(5);
  EXPECT_THAT(import_error(builder.module()), HasSubstr("called computation 5"));
  builder.computation().mutable_instructions(0)->clear_called_computation_ids();
  builder.computation().set_root_id(8);
  EXPECT_THAT(import_error(builder.module()), HasSubstr("root 8"));
}

TEST(HloImport, RefusesCycles) {
  ModuleBuilder builder;
  auto& negate = builder.add("negate", kVector);
  negate.add_operand_ids(negate.id());
  EXPECT_THAT(import_error(builder.module()), HasSubstr("depends on itself"));
  ModuleBuilder calls;
  const int64_t x = calls.parameter(0, kVector);
  calls.add("call", kVector, {x}).add_called_computation_ids(7);
  EXPECT_THAT(import_error(calls.module()), HasSubstr("calls itself"));
}

TEST(HloImport, RefusesIdsThatOccurTwice) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, kVector);
  builder.add("negate", kVector, {x}).set_id(x);
  EXPECT_THAT(import_error(builder.module()), HasSubstr("second instruction has id"));
  ModuleBuilder computations;
  computations.parameter(0, kVector);
  computations.start("again", 7);
  EXPECT_THAT(import_error(computations.module()), HasSubstr("second computation has id 7"));
}

TEST(HloImport, ChecksParameterNumbersOfTheEntry) {
  ModuleBuilder gap;
  const int64_t x = gap.parameter(1, kVector);
  gap.add("negate", kVector, {x});
  EXPECT_THAT(import_error(gap.module()), HasSubstr("parameter"));
  ModuleBuilder twice;
  twice.parameter(0, kVector);
  twice.parameter(0, kVector);
  EXPECT_THAT(import_error(twice.module()), HasSubstr("parameter"));
  ModuleBuilder huge;
  huge.parameter(int64_t{1} << 40, kVector);
  EXPECT_THAT(import_error(huge.module()), HasSubstr("parameter"));
}

TEST(HloImport, RefusesAParameterThatIsNotRowMajor) {
  ModuleBuilder builder;
  opennrt::hlo::Shape shape = shape_of(NRTCC_F32, {2, 3});
  shape.mutable_layout()->add_minor_to_major(1);
  shape.mutable_layout()->add_minor_to_major(0);
  builder.parameter(0, shape);
  import_ok(builder.module());
  builder.computation().mutable_instructions(0)->mutable_shape()->mutable_layout()->Clear();
  builder.computation()
      .mutable_instructions(0)
      ->mutable_shape()
      ->mutable_layout()
      ->add_minor_to_major(0);
  EXPECT_THAT(import_error(builder.module()), HasSubstr("layout"));
  builder.computation()
      .mutable_instructions(0)
      ->mutable_shape()
      ->mutable_layout()
      ->add_minor_to_major(1);
  EXPECT_THAT(import_error(builder.module()), HasSubstr("row-major"));
}

TEST(HloImport, IgnoresTheLayoutOfAResult) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, shape_of(NRTCC_F32, {2, 3}));
  opennrt::hlo::Shape shape = shape_of(NRTCC_F32, {3, 2});
  shape.mutable_layout()->add_minor_to_major(0);
  shape.mutable_layout()->add_minor_to_major(1);
  auto& transpose = builder.add("transpose", shape, {x});
  transpose.add_dimensions(1);
  transpose.add_dimensions(0);
  *builder.module().mutable_host_program_shape()->mutable_result() = shape;
  EXPECT_EQ(root_of(import_ok(builder.module())).opcode, hir::Opcode::kTranspose);
}

TEST(HloImport, TakesTensorNamesFromFrontendAttributes) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, kVector);
  auto* pair =
      builder.computation().mutable_instructions(0)->mutable_frontend_attributes()->add_map();
  pair->set_key("neff_input_names");
  pair->set_value("weight.must_alias_input");
  auto& tuple = builder.add("tuple", shape_of(NRTCC_TUPLE, {}), {x, x});
  *tuple.mutable_shape()->add_tuple_shapes() = kVector;
  *tuple.mutable_shape()->add_tuple_shapes() = kVector;
  pair = tuple.mutable_frontend_attributes()->add_map();
  pair->set_key("neff_output_names");
  pair->set_value("output0,weight");
  const GraphPtr graph = import_ok(builder.module());
  EXPECT_EQ(graph->graph.input_names().at(0), "weight.must_alias_input");
  EXPECT_EQ(graph->graph.output_names().at(1), "weight");
  pair->set_value("output0");
  EXPECT_THAT(import_error(builder.module()), HasSubstr("1 names for 2 results"));
}

TEST(HloImport, KeepsAliases) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, kVector);
  builder.add("negate", kVector, {x});
  auto* alias = builder.module().mutable_input_output_alias()->add_entries();
  const GraphPtr graph = import_ok(builder.module());
  ASSERT_EQ(graph->graph.aliases().size(), 1U);
  EXPECT_EQ(graph->graph.aliases()[0].output, 0);
  EXPECT_EQ(graph->graph.aliases()[0].parameter, 0);
  alias->set_parameter_number(-1);
  EXPECT_THAT(import_error(builder.module()), HasSubstr("input_output_alias"));
  alias->set_parameter_number(0);
  alias->add_output_shape_index(0);
  EXPECT_THAT(import_error(builder.module()), HasSubstr("input_output_alias"));
}

TEST(HloImport, CallsComputationsOfAnyDepth) {
  // Far more levels than a stack of C++ frames would take.
  constexpr int64_t kLevels = 20000;
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, kVector);
  builder.add("call", kVector, {x}).add_called_computation_ids(8);
  for (int64_t id = 8; id < 8 + kLevels; ++id) {
    builder.start("level", id);
    const int64_t y = builder.parameter(0, kVector);
    builder.add("call", kVector, {y}).add_called_computation_ids(id + 1);
  }
  builder.start("last", 8 + kLevels);
  builder.parameter(0, kVector);
  const auto graph = import_module(builder.module());
  // Either taken or refused for its depth, never a crash.
  EXPECT_TRUE(graph.ok() || !graph.status().message().empty());
}

TEST(HloImport, RefusesShapesThatCannotBe) {
  ModuleBuilder negative;
  negative.parameter(0, shape_of(NRTCC_F32, {2, -1}));
  EXPECT_THAT(import_error(negative.module()), HasSubstr("negative"));
  ModuleBuilder overflow;
  overflow.parameter(0, shape_of(NRTCC_F32, {int64_t{1} << 40, 0, int64_t{1} << 40}));
  EXPECT_THAT(import_error(overflow.module()), HasSubstr("64 bits"));
  ModuleBuilder complex_type;
  complex_type.parameter(0, shape_of(static_cast<nrtcc_dtype_t>(15), {2}));
  EXPECT_THAT(import_error(complex_type.module()), HasSubstr("c64"));
  ModuleBuilder dynamic;
  dynamic.parameter(0, kVector);
  dynamic.computation().mutable_instructions(0)->mutable_shape()->add_is_dynamic_dimension(true);
  EXPECT_THAT(import_error(dynamic.module()), HasSubstr("dynamic"));
  ModuleBuilder tuple;
  tuple.parameter(0, shape_of(NRTCC_TUPLE, {}));
  EXPECT_THAT(import_error(tuple.module()), HasSubstr("tuple"));
}

TEST(HloImport, PassesAttributesOfAReduce) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, shape_of(NRTCC_F32, {2, 3}));
  auto& zero = builder.add("constant", kScalar);
  *zero.mutable_literal()->mutable_shape() = kScalar;
  zero.mutable_literal()->add_f32s(0);
  const int64_t zero_id = zero.id();
  auto& reduce = builder.add("reduce", shape_of(NRTCC_F32, {2}), {x, zero_id});
  reduce.add_dimensions(1);
  reduce.add_called_computation_ids(9);
  builder.start("sum", 9);
  const int64_t a = builder.parameter(0, kScalar);
  const int64_t b = builder.parameter(1, kScalar);
  builder.add("add", kScalar, {a, b});
  const GraphPtr graph = import_ok(builder.module());
  const hir::Instruction& root = root_of(graph);
  EXPECT_EQ(root.opcode, hir::Opcode::kReduce);
  EXPECT_EQ(root.ints(hir::AttributeKey::kDimensions)[0], 1);
  const auto called = static_cast<hir::ComputationId>(root.ints(hir::AttributeKey::kCalled)[0]);
  EXPECT_EQ(graph->graph.computation(called).name, "sum");
}

opennrt::hlo::Shape pair_of(const opennrt::hlo::Shape& a, const opennrt::hlo::Shape& b) {
  opennrt::hlo::Shape shape = shape_of(NRTCC_TUPLE, {});
  *shape.add_tuple_shapes() = a;
  *shape.add_tuple_shapes() = b;
  return shape;
}

// main: while over (f32[], f32[4]) with body 9 ("step") and condition 8 ("goes_on").
struct LoopModule {
  LoopModule() {
    const int64_t a = builder.parameter(0, kScalar);
    const int64_t b = builder.parameter(1, kVector);
    auto& state = builder.add("tuple", pair_of(kScalar, kVector), {a, b});
    auto& loop = builder.add("while", pair_of(kScalar, kVector), {state.id()});
    loop.add_called_computation_ids(9);  // HLO lists the body first
    loop.add_called_computation_ids(8);
    builder.start("goes_on", 8);
    add_element(builder.parameter(0, pair_of(kScalar, kVector)), 0, kScalar);
    auto& compare = builder.add("compare", shape_of(NRTCC_PRED, {}), {last(), last()});
    compare.set_comparison_direction("LT");
    builder.start("step", 9);
    builder.parameter(0, pair_of(kScalar, kVector));
  }

  void add_element(int64_t tuple, int64_t index, const opennrt::hlo::Shape& shape) {
    builder.add("get-tuple-element", shape, {tuple}).set_tuple_index(index);
  }
  int64_t last() {
    return builder.computation().instructions(builder.computation().instructions_size() - 1).id();
  }
  opennrt::hlo::Computation& computation(int i) {
    return *builder.module().mutable_computations(i);
  }
  opennrt::hlo::Instruction& loop() { return *computation(0).mutable_instructions(3); }

  ModuleBuilder builder;
};

TEST(HloImport, TakesALoop) {
  LoopModule module;
  const GraphPtr graph = import_ok(module.builder.module());
  const hir::Instruction& root = root_of(graph);
  EXPECT_EQ(root.opcode, hir::Opcode::kWhile);
  const auto called = root.ints(hir::AttributeKey::kCalled);
  ASSERT_EQ(called.size(), 2U);
  EXPECT_EQ(graph->graph.computation(static_cast<hir::ComputationId>(called[0])).name, "goes_on");
  EXPECT_EQ(graph->graph.computation(static_cast<hir::ComputationId>(called[1])).name, "step");
}

TEST(HloImport, LocatesWhatIsWrongWithALoop) {
  LoopModule one;
  one.loop().mutable_called_computation_ids()->RemoveLast();
  EXPECT_THAT(import_error(one.builder.module()),
              AllOf(HasSubstr("while.4"), HasSubstr("expected 2 integers, found 1")));
  LoopModule missing;
  missing.loop().set_called_computation_ids(0, 77);
  EXPECT_THAT(import_error(missing.builder.module()),
              AllOf(HasSubstr("while.4"), HasSubstr("called computation 77 is not in the module")));
  LoopModule swapped;
  swapped.loop().set_called_computation_ids(0, 8);
  swapped.loop().set_called_computation_ids(1, 9);
  EXPECT_THAT(import_error(swapped.builder.module()),
              AllOf(HasSubstr("computation 'step', root: expected pred[]"), HasSubstr("while.4")));
  LoopModule shape;
  *shape.computation(2).mutable_instructions(0)->mutable_shape() = kScalar;
  EXPECT_THAT(import_error(shape.builder.module()),
              HasSubstr("computation 'step', parameter 0: expected (f32[], f32[4]), found f32[]"));
  LoopModule result;
  *result.loop().mutable_shape() = kVector;
  EXPECT_THAT(import_error(result.builder.module()), HasSubstr("found f32[4]"));
}

TEST(HloImport, RefusesALoopThatRunsItself) {
  LoopModule module;
  module.builder.add("while", pair_of(kScalar, kVector), {module.last()});
  module.computation(2).mutable_instructions(1)->add_called_computation_ids(9);
  module.computation(2).mutable_instructions(1)->add_called_computation_ids(8);
  EXPECT_THAT(import_error(module.builder.module()),
              AllOf(HasSubstr("computation 'step'"), HasSubstr("calls itself")));
}

TEST(HloImport, TakesBranchesInTheirOrder) {
  ModuleBuilder builder;
  const int64_t which = builder.parameter(0, shape_of(NRTCC_S32, {}));
  const int64_t x = builder.parameter(1, kVector);
  auto& chosen = builder.add("conditional", kVector, {which, x, x, x});
  for (const int64_t id : {9, 8, 9}) {
    chosen.add_called_computation_ids(id);
  }
  builder.start("negative", 8);
  builder.add("negate", kVector, {builder.parameter(0, kVector)});
  builder.start("same", 9);
  builder.parameter(0, kVector);
  const GraphPtr graph = import_ok(builder.module());
  const auto called = root_of(graph).ints(hir::AttributeKey::kCalled);
  ASSERT_EQ(called.size(), 3U);
  EXPECT_EQ(graph->graph.computation(static_cast<hir::ComputationId>(called[1])).name, "negative");
  auto& broken = *builder.module().mutable_computations(0)->mutable_instructions(2);
  broken.mutable_called_computation_ids()->RemoveLast();
  EXPECT_THAT(import_error(builder.module()),
              AllOf(HasSubstr("conditional.3"), HasSubstr("expected 3 integers, found 2")));
}

TEST(HloImport, RefusesLoopsNestedWithoutEnd) {
  ModuleBuilder builder;
  const auto add_loop = [&](int64_t body) {
    auto& loop = builder.add("while", kVector, {builder.parameter(0, kVector)});
    loop.add_called_computation_ids(body);
    loop.add_called_computation_ids(8);
  };
  add_loop(9);
  builder.start("never", 8);
  builder.parameter(0, kVector);
  auto& no = builder.add("constant", shape_of(NRTCC_PRED, {}));
  *no.mutable_literal()->mutable_shape() = shape_of(NRTCC_PRED, {});
  no.mutable_literal()->add_preds(false);
  for (int64_t id = 9; id < 200; ++id) {
    builder.start("level", id);
    add_loop(id + 1);
  }
  builder.start("last", 200);
  builder.parameter(0, kVector);
  EXPECT_THAT(import_error(builder.module()), HasSubstr("calls are nested deeper than 64 levels"));
}

}  // namespace
}  // namespace onrt::hlo
