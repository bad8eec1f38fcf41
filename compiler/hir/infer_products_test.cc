// SPDX-License-Identifier: Apache-2.0
// Shape rules of convolution, linear algebra and batch normalisation: expected texts follow from
// the XLA operation semantics document.
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
ENTRY %0 "main" {
  %0 = f32[2,3] parameter(), parameter_number={0}
  %1 = f32[3,4] parameter(), parameter_number={1}
  %2 = f32[2,3,4] parameter(), parameter_number={2}
  %3 = f32[5,3,2] parameter(), parameter_number={3}
  %4 = f32[7,3,3] parameter(), parameter_number={4}
  %5 = f32[7,3,2] parameter(), parameter_number={5}
  %6 = f32[3] parameter(), parameter_number={6}
  %7 = f32[] parameter(), parameter_number={7}
  %8 = s32[3,4] parameter(), parameter_number={8}
  %9 = )";

const Case kCases[] = {
    {"f32[2,4] convolution(%0, %1), conv_dims={0,1,0,1,0,1}, window={}, groups={1,1}", ""},
    {"f32[2,4] convolution(%0, %1), conv_dims={0,1,0,0,0,1}, window={}, groups={1,1}",
     "expected each of the 2 dimensions of the kernel once, found [0,0]"},
    {"f32[2,4] convolution(%0, %1), conv_dims={0,1,0,1}, window={}, groups={1,1}",
     "attribute conv_dims"},
    {"f32[2,4] convolution(%0, %7), conv_dims={0,1,0,1,0,1}, window={}, groups={1,1}",
     "expected two operands of the same rank of at least 2"},
    {"f32[2,4] convolution(%0, %8), conv_dims={0,1,0,1,0,1}, window={}, groups={1,1}",
     "expected two floating or two integer operands"},
    {"f32[2,4] convolution(%0, %1), conv_dims={1,0,0,1,0,1}, window={}, groups={1,1}",
     "input features: expected the kernel's 3 times 1 groups, found 2"},
    {"f32[2,4] convolution(%0, %1), conv_dims={0,1,0,1,0,1}, window={}, groups={2,2}",
     "expected positive counts of which one is 1"},
    {"f32[2,4] convolution(%0, %1), conv_dims={0,1,0,1,0,1}, window={}, groups={1,3}",
     "output features: expected a multiple of 3 groups, found 4"},
    {"f32[2,5,6] convolution(%2, %3), conv_dims={0,1,2,1,0,2,0,1,2}, window={2,1,1,2,1,1,0}, "
     "groups={1,1}",
     ""},
    {"f32[2,5,3] convolution(%2, %3), conv_dims={0,1,2,1,0,2,0,1,2}, window={2,2,1,2,1,1,0}, "
     "groups={1,1}",
     ""},
    {"f32[2,5,6] convolution(%2, %3), conv_dims={0,1,2,1,0,2,0,1,2}, window={2,0,1,2,1,1,0}, "
     "groups={1,1}",
     "axis 0: expected a stride from 1 to 2^31 - 1, found 0"},
    {"f32[2,5,6] convolution(%2, %3), conv_dims={0,1,2,1,0,2,0,1,2}, window={3,1,1,2,1,1,0}, "
     "groups={1,1}",
     "axis 0: expected the kernel's size 2 as window size, found 3"},
    {"f32[2,5,6] convolution(%2, %3), conv_dims={0,1,2,1,0,2,0,1,2}, window={2,1,1,1,1,1,0}, "
     "groups={1,1}",
     "shape: expected f32[2,5,5], found f32[2,5,6]"},
    {"f32[7,3,3] cholesky(%4), triangle={1}", ""},
    {"f32[7,3,3] cholesky(%4), triangle={2}", "expected 0 or 1, found 2"},
    {"f32[2,3] cholesky(%0), triangle={1}", "expected square matrices of floats, found f32[2,3]"},
    {"f32[7,3,2] triangular-solve(%4, %5), triangle={1,1,0,1}", ""},
    {"f32[7,3,2] triangular-solve(%4, %5), triangle={0,1,0,1}",
     "operand 1: expected rows of the system f32[7,3,3], found f32[7,3,2]"},
    {"f32[7,3,2] triangular-solve(%4, %5), triangle={1,1,0,0}", "1, 2 or 3 as transposition"},
    {"f32[2,3] batch-norm-inference(%0, %6, %6, %6, %6), dimensions={1}, "
     "epsilon=\"\\x00\\x00\\x00\\x00\"",
     ""},
    {"f32[2,3] batch-norm-inference(%0, %6, %6, %6, %6), dimensions={0}, "
     "epsilon=\"\\x00\\x00\\x00\\x00\"",
     "operand 1: expected f32[2], found f32[3]"},
    {"(f32[2,3], f32[3], f32[3]) batch-norm-training(%0, %6, %6), dimensions={1}, epsilon=\"x\"",
     "attribute epsilon: expected 4 bytes"},
    {"(f32[2,3], f32[3], f32[3]) batch-norm-grad(%0, %6, %6, %6, %1), dimensions={1}, "
     "epsilon=\"\\x00\\x00\\x00\\x00\"",
     "operand 4: expected f32[2,3], found f32[3,4]"},
};

TEST(InferProducts, AcceptsAndRefusesAsXlaDoes) {
  for (const Case& c : kCases) {
    const auto graph = parse(std::string(kBefore) + std::string(c.line) + "\n}\n");
    const std::string_view message = graph.ok() ? "" : graph.status().message();
    EXPECT_EQ(graph.ok(), c.error.empty()) << c.line << ": " << message;
    EXPECT_NE(message.find(c.error), std::string_view::npos) << c.line << ": " << message;
    if (graph.ok()) {
      const auto again = parse(print(**graph));
      ASSERT_TRUE(again.ok()) << c.line;
      EXPECT_EQ(print(**again), print(**graph));
    }
  }
}

}  // namespace
}  // namespace onrt::hir
