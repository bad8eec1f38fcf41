// SPDX-License-Identifier: Apache-2.0
#include "opennrt/nrtcc.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "runtime/neff/neff.h"

namespace {

nrtcc_status_t parameter(nrtcc_graph_t* graph, int64_t number, const nrtcc_shape_t& shape,
                         nrtcc_value_t* value) {
  const nrtcc_attr_t attribute = {NRTCC_ATTR_PARAMETER_NUMBER, 1, &number, nullptr, 0};
  return nrtcc_op(graph, 0, nrtcc_opcode("parameter"), nullptr, 0, &shape, &attribute, 1, value);
}

TEST(NrtccApi, BuildsPrintsAndParsesAGraph) {
  nrtcc_graph_t* graph = nullptr;
  ASSERT_EQ(nrtcc_graph_create("sum", &graph), NRTCC_OK);
  const int64_t dims[] = {2, 3};
  const nrtcc_shape_t shape = {NRTCC_F32, 2, dims, nullptr};
  nrtcc_value_t x[2];
  ASSERT_EQ(parameter(graph, 0, shape, &x[0]), NRTCC_OK) << nrtcc_last_error();
  ASSERT_EQ(parameter(graph, 1, shape, &x[1]), NRTCC_OK) << nrtcc_last_error();
  nrtcc_value_t sum = -1;
  ASSERT_EQ(nrtcc_op(graph, 0, nrtcc_opcode("add"), x, 2, &shape, nullptr, 0, &sum), NRTCC_OK);
  ASSERT_EQ(nrtcc_set_root(graph, 0, sum), NRTCC_OK);
  ASSERT_EQ(nrtcc_set_input_name(graph, 0, "left"), NRTCC_OK);
  char* text = nullptr;
  ASSERT_EQ(nrtcc_print(graph, &text), NRTCC_OK);
  nrtcc_graph_t* again = nullptr;
  ASSERT_EQ(nrtcc_parse(text, std::string_view(text).size(), &again), NRTCC_OK);
  char* second = nullptr;
  ASSERT_EQ(nrtcc_print(again, &second), NRTCC_OK);
  EXPECT_STREQ(text, second);
  nrtcc_free(text);
  nrtcc_free(second);
  nrtcc_graph_destroy(graph);
  nrtcc_graph_destroy(again);
}

TEST(NrtccApi, SaysWhatIsWrong) {
  nrtcc_graph_t* graph = nullptr;
  ASSERT_EQ(nrtcc_graph_create("m", &graph), NRTCC_OK);
  const int64_t dims[] = {2};
  const int64_t other_dims[] = {3};
  const nrtcc_shape_t shape = {NRTCC_F32, 1, dims, nullptr};
  const nrtcc_shape_t other = {NRTCC_F32, 1, other_dims, nullptr};
  nrtcc_value_t x = -1;
  nrtcc_value_t y = -7;
  ASSERT_EQ(parameter(graph, 0, shape, &x), NRTCC_OK);
  EXPECT_EQ(nrtcc_op(graph, 0, nrtcc_opcode("negate"), &x, 1, &other, nullptr, 0, &y),
            NRTCC_INVALID);
  EXPECT_STREQ(nrtcc_last_error(),
               "instruction 'negate.1' (negate): shape: expected f32[2], found f32[3]");
  EXPECT_EQ(y, -7);
  EXPECT_EQ(nrtcc_op(graph, 0, nrtcc_opcode("fft"), &x, 1, &shape, nullptr, 0, &y),
            NRTCC_UNSUPPORTED);
  const nrtcc_attr_t target = {NRTCC_ATTR_TARGET, 0, nullptr, "my_kernel", 9};
  EXPECT_EQ(nrtcc_op(graph, 0, nrtcc_opcode("custom-call"), &x, 1, &shape, &target, 1, &y),
            NRTCC_UNSUPPORTED);
  EXPECT_NE(std::string_view(nrtcc_last_error()).find("target 'my_kernel'"),
            std::string_view::npos);
  EXPECT_EQ(nrtcc_op(graph, 0, 9999, &x, 1, &shape, nullptr, 0, &y), NRTCC_INVALID);
  EXPECT_EQ(nrtcc_op(graph, 0, nrtcc_opcode("negate"), nullptr, 1, &shape, nullptr, 0, &y),
            NRTCC_INVALID);
  EXPECT_EQ(nrtcc_op(nullptr, 0, 0, &x, 1, &shape, nullptr, 0, &y), NRTCC_INVALID);
  EXPECT_EQ(nrtcc_opcode("nonsense"), -1);
  EXPECT_EQ(nrtcc_opcode_name(-1), nullptr);
  nrtcc_graph_destroy(graph);
  nrtcc_graph_destroy(nullptr);
}

// A graph from its text; the test fails if there is none.
nrtcc_graph_t* parsed(std::string_view text) {
  nrtcc_graph_t* graph = nullptr;
  EXPECT_EQ(nrtcc_parse(text.data(), text.size(), &graph), NRTCC_OK) << nrtcc_last_error();
  return graph;
}

constexpr std::string_view kDouble = R"(HloModule "double"
ENTRY %0 "main" {
  %0 = f64[3] parameter(), parameter_number={0}
  %1 = f64[3] add(%0, %0)
  %2 = f64[0] constant(), literal={}
  ROOT %3 = (f64[3], f64[0], f64[3]) tuple(%1, %2, %0)
}
)";

TEST(NrtccApi, InterpretsAGraph) {
  nrtcc_graph_t* graph = parsed(kDouble);
  const double input[] = {1, 2.5, -3};
  double sum[3] = {};
  double same[3] = {};
  const void* const inputs[] = {input};
  void* const outputs[] = {sum, nullptr, same};
  ASSERT_EQ(nrtcc_interpret(graph, inputs, 1, outputs, 3), NRTCC_OK) << nrtcc_last_error();
  EXPECT_EQ(sum[1], 5);
  EXPECT_EQ(same[2], -3);
  EXPECT_EQ(nrtcc_interpret(graph, inputs, 1, outputs, 2), NRTCC_INVALID);
  EXPECT_STREQ(nrtcc_last_error(), "outputs: expected 3, one per array of the root, found 2");
  EXPECT_EQ(nrtcc_interpret(graph, nullptr, 1, outputs, 3), NRTCC_INVALID);
  void* const missing[] = {nullptr, nullptr, same};
  EXPECT_EQ(nrtcc_interpret(graph, inputs, 1, missing, 3), NRTCC_INVALID);
  EXPECT_STREQ(nrtcc_last_error(), "outputs[0] is NULL");
  nrtcc_graph_destroy(graph);
}

TEST(NrtccApi, CompilesToANeffAndWarnsOfDoubles) {
  nrtcc_graph_t* graph = parsed(kDouble);
  uint8_t* neff = nullptr;
  size_t size = 0;
  ASSERT_EQ(nrtcc_compile(graph, nullptr, &neff, &size), NRTCC_OK) << nrtcc_last_error();
  EXPECT_STREQ(nrtcc_last_warnings(),
               "instruction 'add.1' (add): f64 is stored as f64 and computed in f32 precision\n");
  const auto read = onrt::read_neff({reinterpret_cast<const std::byte*>(neff), size},
                                    onrt::NeffHashCheck::kRequire);
  ASSERT_TRUE(read.ok()) << read.status().message();
  ASSERT_EQ(read->tensors.size(), 3U);  // the output without elements is absent
  EXPECT_EQ(read->tensors[1].name, "output0");
  EXPECT_EQ(read->tensors[2].name, "output2");
  EXPECT_EQ(read->architecture, "trn2");
  nrtcc_free(neff);
  nrtcc_graph_destroy(graph);
}

TEST(NrtccApi, ChecksOptions) {
  nrtcc_graph_t* graph = parsed(kDouble);
  uint8_t* neff = nullptr;
  size_t size = 0;
  const nrtcc_options_t good = {sizeof(good), "trn1", 1, 0, 1, 1, NRTCC_BF16, nullptr};
  ASSERT_EQ(nrtcc_compile(graph, &good, &neff, &size), NRTCC_OK) << nrtcc_last_error();
  nrtcc_free(neff);
  const auto refuse = [&](nrtcc_options_t options, nrtcc_status_t status, const char* text) {
    EXPECT_EQ(nrtcc_compile(graph, &options, &neff, &size), status);
    EXPECT_NE(std::string_view(nrtcc_last_error()).find(text), std::string_view::npos)
        << nrtcc_last_error();
  };
  nrtcc_options_t bad = good;
  bad.target = "gpu";
  refuse(bad, NRTCC_UNSUPPORTED, "target 'gpu': expected trn1");
  bad = good;
  bad.lnc = 3;
  refuse(bad, NRTCC_INVALID, "option lnc: expected 0, 1 or 2, found 3");
  bad = good;
  bad.optimization = 4;
  refuse(bad, NRTCC_INVALID, "option optimization: expected -1 to 3, found 4");
  bad = good;
  bad.auto_cast = 2;
  refuse(bad, NRTCC_UNSUPPORTED, "auto_cast: 2 (all) is not supported");
  bad = good;
  bad.auto_cast_type = NRTCC_S8;
  refuse(bad, NRTCC_UNSUPPORTED, "auto_cast_type");
  bad = good;
  bad.struct_size = 0;
  refuse(bad, NRTCC_INVALID, "struct_size");
  bad = good;
  bad.dump_dir = "/no/such/folder";
  refuse(bad, NRTCC_INVALID, "/no/such/folder/1-hir.txt");
  // A caller with a shorter struct: the fields that it doesn't have keep their defaults.
  bad = good;
  bad.struct_size = offsetof(nrtcc_options_t, lnc);
  bad.lnc = 99;
  ASSERT_EQ(nrtcc_compile(graph, &bad, &neff, &size), NRTCC_OK) << nrtcc_last_error();
  nrtcc_free(neff);
  nrtcc_graph_destroy(graph);
}

TEST(NrtccApi, AutoCastRoundsTheOperandsOfDots) {
  nrtcc_graph_t* graph = parsed(R"(HloModule "dot"
ENTRY %0 "main" {
  %0 = f32[4,8] parameter(), parameter_number={0}
  %1 = f32[8,4] parameter(), parameter_number={1}
  ROOT %2 = f32[4,4] dot(%0, %1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)");
  const std::string folder = ::testing::TempDir();
  const nrtcc_options_t options = {sizeof(options), "trn2", 1, 2, 0, 1, NRTCC_BF16, folder.c_str()};
  uint8_t* neff = nullptr;
  size_t size = 0;
  ASSERT_EQ(nrtcc_compile(graph, &options, &neff, &size), NRTCC_OK) << nrtcc_last_error();
  std::ifstream file(folder + "/2-flat.txt");
  const std::string flat{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(flat.find("bf16[4,8] convert(%0)"), std::string::npos) << flat;
  EXPECT_NE(flat.find("f32[4,4] dot(%2, %3)"), std::string::npos) << flat;
  nrtcc_free(neff);
  nrtcc_graph_destroy(graph);
}

TEST(NrtccApi, RefusesAGraphWithoutRoot) {
  nrtcc_graph_t* graph = nullptr;
  ASSERT_EQ(nrtcc_graph_create("empty", &graph), NRTCC_OK);
  uint8_t* neff = nullptr;
  size_t size = 0;
  EXPECT_EQ(nrtcc_compile(graph, nullptr, &neff, &size), NRTCC_INVALID);
  EXPECT_STREQ(nrtcc_last_error(), "computation 0 ('main') has no root");
  EXPECT_EQ(neff, nullptr);
  nrtcc_graph_destroy(graph);
}

}  // namespace
