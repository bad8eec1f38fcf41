// SPDX-License-Identifier: Apache-2.0
// Shape rules: expected texts follow from the XLA operation semantics document.
#include "compiler/hir/infer.h"

#include <gtest/gtest.h>

#include <string>

#include "compiler/hir/text.h"

namespace onrt::hir {
namespace {

struct Case {
  std::string_view line;   // of the entry, after the parameters below
  std::string_view error;  // part of the message; empty: accepted
};

constexpr std::string_view kBefore = R"(HloModule "m"
%1 "add" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = f32[] add(%0, %1)
}
%2 "condition" {
  %0 = (s32[], f32[2,3]) parameter(), parameter_number={0}
  ROOT %1 = pred[] constant(), literal={0}
}
%3 "body" {
  %0 = (s32[], f32[2,3]) parameter(), parameter_number={0}
  ROOT %1 = (s32[], f32[2,3]) copy(%0)
}
%4 "first" {
  %0 = (s32[], f32[2,3]) parameter(), parameter_number={0}
  ROOT %1 = s32[] get-tuple-element(%0), index={0}
}
%5 "same" {
  ROOT %0 = s32[] parameter(), parameter_number={0}
}
%6 "no parameter" {
  ROOT %0 = s32[] constant(), literal={0}
}
%7 "before" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] parameter(), parameter_number={1}
  ROOT %2 = pred[] compare(%0, %1), direction="LT"
}
ENTRY %0 "main" {
  %0 = f32[2,3] parameter(), parameter_number={0}
  %1 = f32[3,4] parameter(), parameter_number={1}
  %2 = s32[5] parameter(), parameter_number={2}
  %3 = f32[] parameter(), parameter_number={3}
  %4 = pred[2,3] parameter(), parameter_number={4}
  %5 = s32[] parameter(), parameter_number={5}
  %6 = u64[2] parameter(), parameter_number={6}
  %7 = s32[5,1] parameter(), parameter_number={7}
  %8 = f32[5,3] parameter(), parameter_number={8}
  %9 = bf16[2,3] parameter(), parameter_number={9}
  %10 = pred[] parameter(), parameter_number={10}
  %11 = (s32[], f32[2,3]) tuple(%5, %0)
  %12 = )";

const Case kCases[] = {
    {"f32[2,3] add(%0, %0)", ""},
    {"f32[3,2] add(%0, %0)", "'add.26' (add): shape: expected f32[2,3], found f32[3,2]"},
    {"f32[2,3] add(%0, %1)",
     "operand 1: expected f32[2,3], the shape of operand 0, found f32[3,4]"},
    {"f32[2,3] add(%0)", "expected 2 operands, found 1"},
    {"f32[2,3] and(%0, %0)", "element type f32 is not one it takes"},
    {"s32[5] tanh(%2)", "element type s32 is not one it takes"},
    {"f32[2,3] select(%4, %0, %0)", ""},
    {"f32[2,3] select(%0, %0, %0)", "operand 0: expected element type pred"},
    {"f32[2,3] clamp(%3, %0, %3)", ""},
    {"f32[2,3] clamp(%1, %0, %3)", "operand 0: expected dimensions [2,3] or a scalar"},
    {"pred[2,3] compare(%0, %0), direction=\"LT\"", ""},
    {"pred[2,3] compare(%0, %0), direction=\"LESS\"", "attribute direction"},
    {"s32[2,3] convert(%0)", ""},
    {"s32[3,2] convert(%0)", "expected s32[2,3], found s32[3,2]"},
    {"u8[2,3,4] bitcast-convert(%0)", ""},
    {"u64[2,3] bitcast-convert(%0)", "expected a last dimension of 2"},
    {"f32[6] reshape(%0)", ""},
    {"f32[7] reshape(%0)", "expected 6 elements"},
    {"f32[2,4,3] broadcast(%0), dimensions={0,2}", ""},
    {"f32[2,4,3] broadcast(%0), dimensions={0,1}",
     "dimension 1 of the result: expected 3, found 4"},
    {"f32[3,2] transpose(%0), dimensions={1,0}", ""},
    {"f32[3,2] transpose(%0), dimensions={1,1}", "expected distinct dimensions in [0, 2)"},
    {"f32[2,3] reverse(%0), dimensions={1}", ""},
    {"f32[1,2] slice(%0), slice={0,1,1,0,3,2}", ""},
    {"f32[1,2] slice(%0), slice={0,1,1,0,4,2}", "dimension 1: expected 0 <= start <= limit <= 3"},
    {"f32[3,6] pad(%0, %3), padding={0,1,0,-1,2,1}", ""},
    {"f32[0,3] pad(%0, %3), padding={-1,-2,0,0,0,0}", "dimension 0: padding low -1, high -2"},
    {"f32[4,3] concatenate(%0, %0), dimensions={0}", ""},
    {"f32[4,3] concatenate(%0, %1), dimensions={0}", "operand 1: expected f32[2,3] but for"},
    {"s32[4,3] iota(), dimensions={1}", ""},
    {"s32[4,3] iota(), dimensions={2}", "expected distinct dimensions in [0, 2)"},
    {"f32[2,4] dot(%0, %1), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""},
    {"f32[2,4] dot(%0, %1), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
     "contracting dimensions 0 and 0: expected equal sizes, found 2 and 3"},
    {"f32[3] reduce(%0, %3), dimensions={0}, to_apply={1}", ""},
    {"f32[2] reduce(%0, %3), dimensions={0}, to_apply={1}", "expected f32[3], found f32[2]"},
    {"bf16[3] reduce(%9, %3), dimensions={0}, to_apply={1}", "expected bf16[] as initial value"},
    {"f32[3] reduce(%0, %3), dimensions={0}, to_apply={9}", "expected another one of (0, 8)"},
    {"f32[1,2] dynamic-slice(%0, %5, %5), slice_sizes={1,2}", ""},
    {"f32[1,4] dynamic-slice(%0, %5, %5), slice_sizes={1,4}", "expected at most 3, found 4"},
    {"f32[2,3] dynamic-update-slice(%0, %0, %5, %5)", ""},
    {"f32[2,3] dynamic-update-slice(%0, %1, %5, %5)", "expected an update that fits f32[2,3]"},
    {"f32[5,3] gather(%0, %7), offset_dims={1}, collapsed_dims={0}, index_map={0}, "
     "index_vector_dim={1}, slice_sizes={1,3}",
     ""},
    {"f32[5,3] gather(%0, %7), offset_dims={1}, collapsed_dims={0}, index_map={0,1}, "
     "index_vector_dim={1}, slice_sizes={1,3}",
     "attribute index_map: expected 1 dimensions"},
    {"f32[2,3] scatter(%0, %7, %8), offset_dims={1}, collapsed_dims={0}, index_map={0}, "
     "index_vector_dim={1}, to_apply={1}",
     ""},
    {"f32[2,3] scatter(%0, %7, %1), offset_dims={1}, collapsed_dims={0}, index_map={0}, "
     "index_vector_dim={1}, to_apply={1}",
     "window dimension 0: expected at most 3, found 4"},
    {"(u64[2], u32[7]) rng-bit-generator(%6), algorithm={1}", ""},
    {"(u64[2], u32[7]) rng-bit-generator(%2), algorithm={1}", "expected a state u64[2]"},
    {"f32[9] rng(%3, %3), distribution={1}", ""},
    {"f32[9] rng(%3, %3), distribution={3}", "expected 1 (uniform) or 2 (normal), found 3"},
    {"f32[2,3] sort(%0), dimensions={1}, is_stable, to_apply={7}", ""},
    {"f32[2,3] sort(%0), dimensions={2}, to_apply={7}", "expected distinct dimensions in [0, 2)"},
    {"f32[2,3] sort(%0), dimensions={0}, to_apply={1}",
     "computation 'add', root: expected pred[], found f32[]"},
    {"(f32[2,3], pred[2,3]) sort(%0, %4), dimensions={0}, to_apply={7}",
     "computation 'before': expected 4 parameters, found 2"},
    {"(f32[2,3], s32[5]) sort(%0, %2), dimensions={0}, to_apply={7}",
     "operand 1: expected dimensions [2,3], found s32[5]"},
    {"f32[] sort(%3), dimensions={0}, to_apply={7}", "expected distinct dimensions in [0, 0)"},
    {"(f32[2,2], s32[2,2]) topk(%0), k={2}, largest", ""},
    {"(f32[2,2], s32[2,2]) topk(%0), k={4}", "k: expected 0 to 3, the last dimension, found 4"},
    {"(f32[2,2], s32[2,2]) topk(%0)", "attribute k: expected 1 integers, found 0"},
    {"(f32[1], s32[1]) topk(%3), k={1}", "expected at least one dimension, found f32[]"},
    {"(f32[2,2], u32[2,2]) custom-call(%0), custom_call_target=\"AwsNeuronTopK\", "
     "backend_config=\"2\"",
     ""},
    {"(f32[2,2], u32[2,2]) custom-call(%0), custom_call_target=\"AwsNeuronTopK\", "
     "backend_config=\"two\"",
     "attribute backend_config: expected k as a decimal number, found 'two'"},
    {"f32[2,3] custom-call(%0), custom_call_target=\"Frobnicate\"",
     "target 'Frobnicate' is not supported; the only one is AwsNeuronTopK"},
    {"f32[1,2] reduce-window(%0, %3), window={2,1,0,0,1,1,0,2,1,0,0,1,1,0}, to_apply={1}", ""},
    {"f32[1,3] reduce-window(%0, %3), window={2,1,0,0,1,1,0,2,1,0,0,1,1,0}, to_apply={1}",
     "expected f32[1,2], found f32[1,3]"},
    {"f32[3,0] reduce-window(%0, %3), window={1,1,1,0,1,1,0,5,1,0,1,1,1,0}, to_apply={1}", ""},
    {"f32[2,3] reduce-window(%0, %3), window={1,1,0,0,1,1,0}, to_apply={1}",
     "attribute window: expected 14 integers, found 7"},
    {"f32[2,3] reduce-window(%0, %3), window={1,1,0,0,1,1,0,0,1,0,0,1,1,0}, to_apply={1}",
     "attribute window, dimension 1: expected size in [1, 2^40], found 0"},
    {"f32[2,3] reduce-window(%0, %3), window={1,1,0,0,1,1,0,1,1,0,0,1,1,1}, to_apply={1}",
     "expected no reversal"},
    {"f32[2,3] reduce-window(%0, %5), window={1,1,0,0,1,1,0,1,1,0,0,1,1,0}, to_apply={1}",
     "operand 1: expected f32[] as initial value, found s32[]"},
    {"f32[2,3] select-and-scatter(%0, %0, %3), window={1,1,0,0,1,1,0,1,1,0,0,1,1,0}, "
     "to_apply={7,1}",
     ""},
    {"f32[2,3] select-and-scatter(%0, %0, %3), window={1,1,0,0,1,1,0,2,1,0,0,1,1,0}, "
     "to_apply={7,1}",
     "operand 1: expected f32[2,2], found f32[2,3]"},
    {"f32[2,3] select-and-scatter(%0, %0, %3), window={1,1,0,0,1,1,0,1,1,0,0,1,1,0}, "
     "to_apply={1,1}",
     "computation 'add', root: expected pred[], found f32[]"},
    {"f32[] call(%3, %3), to_apply={1}", ""},
    {"f32[] call(%3), to_apply={1}", "computation 'add': expected 1 parameters, found 2"},
    {"(f32[2,3], s32[]) tuple(%0, %5)", ""},
    {"f32[] get-tuple-element(%0), index={0}", "operand 0: expected a tuple, found f32[2,3]"},
    {"(s32[], f32[2,3]) while(%11), to_apply={2,3}", ""},
    {"(s32[], f32[2,3]) while(%11), to_apply={3}",
     "attribute to_apply: expected 2 integers, found 1"},
    {"(s32[], f32[2,3]) while(%11), to_apply={3,3}",
     "computation 'body', root: expected pred[], found (s32[], f32[2,3])"},
    {"(s32[], f32[2,3]) while(%11), to_apply={2,4}",
     "computation 'first', root: expected (s32[], f32[2,3]), found s32[]"},
    {"s32[] while(%5), to_apply={2,5}",
     "computation 'condition', parameter 0: expected s32[], found (s32[], f32[2,3])"},
    {"s32[] while(%5), to_apply={6,5}", "computation 'no parameter': expected 1 parameters"},
    {"f32[2,3] while(%11), to_apply={2,3}", "expected (s32[], f32[2,3]), found f32[2,3]"},
    {"s32[] conditional(%10, %11, %5), to_apply={4,5}", ""},
    {"s32[] conditional(%5, %11), to_apply={4}", ""},
    {"s32[] conditional(%5, %5, %11, %5), to_apply={5,4,5}", ""},
    {"s32[] conditional(%10, %5, %5, %5), to_apply={5,5,5}",
     "expected 2 branches of a choice by pred[], found 3"},
    {"s32[] conditional(%3, %5, %5), to_apply={5,5}",
     "operand 0: expected pred[] or s32[], found f32[]"},
    {"s32[] conditional(%2, %5, %5), to_apply={5,5}",
     "operand 0: expected pred[] or s32[], found s32[5]"},
    {"s32[] conditional(%10, %5, %5), to_apply={5}",
     "attribute to_apply: expected 2 integers, found 1"},
    {"s32[] conditional(%10, %11, %5), to_apply={4,4}",
     "computation 'first', parameter 0: expected s32[], found (s32[], f32[2,3])"},
    {"s32[] conditional(%10, %5, %11), to_apply={5,3}",
     "computation 'body', root: expected s32[], found (s32[], f32[2,3])"},
    {"s32[] conditional(%5), to_apply={}", "expected at least 2 operands, found 1"},
};

TEST(ShapeInference, ChecksTheCallersShape) {
  for (const Case& c : kCases) {
    const std::string text = std::string(kBefore) + std::string(c.line) + "\n}\n";
    const auto graph = parse(text);
    const std::string_view message = graph.status().message();
    if (c.error.empty()) {
      EXPECT_TRUE(graph.ok()) << c.line << ": " << message;
    } else {
      EXPECT_NE(message.find(c.error), std::string_view::npos) << c.line << ": " << message;
    }
  }
}

TEST(OpcodeTable, RefusesEveryOpcodeThatItDoesNotSupportByName) {
  int refused = 0;
  for (int i = 0; i < kOpcodes; ++i) {
    const OpcodeInfo& info = opcode_info(static_cast<Opcode>(i));
    EXPECT_EQ(find_opcode(info.name), i);
    if (info.refusal.empty()) {
      continue;
    }
    ++refused;
    Graph graph("m");
    Candidate candidate;
    candidate.opcode = static_cast<Opcode>(i);
    candidate.shape = graph.shapes().token();
    const Status status = graph.append(candidate).status();
    EXPECT_EQ(status.code(), NRT_UNSUPPORTED_NEFF_VERSION);
    EXPECT_NE(status.message().find("'" + std::string(info.name) + "' is not supported: "),
              std::string_view::npos)
        << status.message();
  }
  // 136 opcodes in xla/hlo/ir/hlo_opcode.h of openxla/xla at 0725a3a9.
  EXPECT_EQ(kOpcodes, 136);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(find_opcode("frobnicate"), -1);
}

TEST(OpcodeTable, ElementwiseRowsAgreeWithTheScalarTable) {
  for (int i = 0; i < kOpcodes; ++i) {
    const OpcodeInfo& info = opcode_info(static_cast<Opcode>(i));
    if (info.elementwise) {
      EXPECT_EQ(ncx::scalar_op_info(info.scalar).arity, info.least_operands) << info.name;
      EXPECT_EQ(ncx::scalar_op_info(info.scalar).name, info.name);
    }
  }
}

TEST(Graph, ACalledComputationIsClosed) {
  Graph graph("m");
  const auto callee = graph.add_computation("f");
  const auto scalar = graph.shapes().array(Dtype::kF32, {});
  const int64_t zero = 0;
  const Attribute number{AttributeKey::kParameterNumber, {&zero, 1}, {}};
  Candidate parameter{*callee, Opcode::kParameter, {}, *scalar, {&number, 1}};
  const auto value = graph.append(parameter);
  ASSERT_TRUE(value.ok()) << value.status().message();
  const int64_t id = *callee;
  const Attribute called{AttributeKey::kCalled, {&id, 1}, {}};
  parameter.computation = kEntry;
  const auto entry_value = graph.append(parameter);
  Candidate call{kEntry, Opcode::kCall, {&*entry_value, 1}, *scalar, {&called, 1}};
  EXPECT_NE(graph.append(call).status().message().find("has no root yet"), std::string_view::npos);
  ASSERT_TRUE(graph.set_root(*callee, *value).ok());
  ASSERT_TRUE(graph.append(call).ok());
  const Candidate late{*callee, Opcode::kNegate, {&*value, 1}, *scalar, {}};
  EXPECT_NE(graph.append(late).status().message().find("is called already"),
            std::string_view::npos);
  EXPECT_FALSE(graph.set_root(*callee, *value).ok());
}

TEST(Graph, VerifyNamesWhatIsMissing) {
  const auto graph = parse(
      "HloModule \"m\"\nENTRY %0 \"main\" {\n"
      "%0 = f32[2] parameter(), parameter_number={1}\n}\n");
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(verify(**graph).message(), "computation 0 ('main') has no root");
  ASSERT_TRUE((*graph)->set_root(kEntry, 0).ok());
  EXPECT_EQ(verify(**graph).message(), "computation 0 ('main'): parameter 0 of 2 is missing");
}

}  // namespace
}  // namespace onrt::hir
