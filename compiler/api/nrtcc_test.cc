// SPDX-License-Identifier: Apache-2.0
#include "opennrt/nrtcc.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

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
  EXPECT_EQ(nrtcc_op(graph, 0, nrtcc_opcode("sort"), &x, 1, &shape, nullptr, 0, &y),
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

}  // namespace
