// SPDX-License-Identifier: Apache-2.0
// The interpreter against testdata/values.txt: small programs with the results of JAX's CPU backend
// and numpy (testdata/make_values/).
#include "compiler/reference/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "compiler/hir/text.h"

namespace onrt::reference {
namespace {

struct Case {
  std::string name;
  double tolerance = 0;  // of a float, relative; 0: the same bits, any NaN for a NaN
  std::string text;
  std::vector<std::vector<std::byte>> inputs;
  Tensors outputs;
};

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> made;
  for (size_t i = 0; text != "-" && i + 1 < text.size(); i += 2) {
    made.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return made;
}

std::vector<Case> read_cases() {
  std::ifstream file(ONRT_VALUES_FILE);
  std::vector<Case> cases;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "case") {
      words >> cases.emplace_back().name >> cases.back().tolerance;
    } else if (first == "input") {
      std::string hex;
      words >> hex;
      cases.back().inputs.push_back(from_hex(hex));
    } else if (first == "output") {
      std::string dtype;
      std::string hex;
      words >> dtype >> hex;
      cases.back().outputs.push_back({find_dtype(dtype)->dtype, {}, from_hex(hex)});
    } else if (first != "end") {
      cases.back().text += line + "\n";
    }
  }
  return cases;
}

double to_double(Dtype dtype, const std::byte* at) {
  double wide = 0;
  switch (dtype) {
    case Dtype::kF64:
      std::memcpy(&wide, at, sizeof(wide));
      return wide;
    default:
      return std::bit_cast<float>(static_cast<uint32_t>(ncx::load_boxed(dtype, at)));
  }
}

bool close(const Tensor& expected, const Tensor& found, double tolerance, size_t at) {
  const size_t bytes = dtype_bytes(expected.dtype);
  if (std::memcmp(expected.data.data() + at, found.data.data() + at, bytes) == 0) {
    return true;
  }
  if (!is_floating(expected.dtype)) {
    return false;
  }
  const double a = to_double(expected.dtype, expected.data.data() + at);
  const double b = to_double(expected.dtype, found.data.data() + at);
  double largest = 0;
  for (size_t i = 0; i < expected.data.size(); i += bytes) {
    const double value = std::fabs(to_double(expected.dtype, expected.data.data() + i));
    largest = std::isfinite(value) ? std::max(largest, value) : largest;
  }
  return (std::isnan(a) && std::isnan(b)) ||
         (tolerance > 0 && std::fabs(a - b) <= tolerance * std::max(std::fabs(a), largest / 100));
}

TEST(Interpreter, GivesTheValuesOfJaxAndNumpy) {
  const std::vector<Case> cases = read_cases();
  ASSERT_GT(cases.size(), 100U);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const auto graph = hir::parse(c.text);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    std::vector<Tensors> arguments;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const hir::ValueId parameter = (*graph)->computation(hir::kEntry).parameters[i];
      arguments.push_back(make_tensors(**graph, (**graph)[parameter].shape));
      ASSERT_EQ(arguments[i][0].data.size(), c.inputs[i].size());
      arguments[i][0].data = c.inputs[i];
    }
    const auto results = interpret(**graph, hir::kEntry, arguments);
    ASSERT_TRUE(results.ok()) << results.status().message();
    ASSERT_EQ(results->size(), c.outputs.size());
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const Tensor& expected = c.outputs[i];
      const Tensor& found = results->at(i);
      ASSERT_EQ(found.dtype, expected.dtype);
      ASSERT_EQ(found.data.size(), expected.data.size());
      const size_t bytes = dtype_bytes(expected.dtype);
      for (size_t at = 0; at < expected.data.size(); at += bytes) {
        EXPECT_TRUE(close(expected, found, c.tolerance, at))
            << "output " << i << ", element " << at / bytes << ": expected "
            << hir::element_text(expected.dtype, expected.data.data() + at) << ", found "
            << hir::element_text(found.dtype, found.data.data() + at);
      }
    }
  }
}

TEST(Interpreter, CallsMapsAndTuples) {
  const auto graph = hir::parse(R"(HloModule "m"
%1 "square_plus_one" {
  %0 = f32[] parameter(), parameter_number={0}
  %1 = f32[] constant(), literal={1}
  %2 = f32[] multiply(%0, %0)
  ROOT %3 = f32[] add(%2, %1)
}
%2 "swap" {
  %0 = (f32[3], f32[]) parameter(), parameter_number={0}
  %1 = f32[] get-tuple-element(%0), index={1}
  %2 = f32[3] get-tuple-element(%0), index={0}
  ROOT %3 = (f32[], f32[3]) tuple(%1, %2)
}
ENTRY %0 "main" {
  %0 = f32[3] parameter(), parameter_number={0}
  %1 = f32[3] map(%0), dimensions={0}, to_apply={1}
  %2 = f32[] constant(), literal={4}
  %3 = f32[] call(%2), to_apply={1}
  %4 = (f32[3], f32[]) tuple(%1, %3)
  %5 = (f32[3], f32[]) opt-barrier(%4)
  ROOT %6 = (f32[], f32[3]) call(%5), to_apply={2}
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const float input[] = {1, 2, -3};
  Tensor x{Dtype::kF32, {3}, {}};
  x.data.assign(reinterpret_cast<const std::byte*>(input),
                reinterpret_cast<const std::byte*>(input + 3));
  const std::vector<Tensors> arguments = {{x}};
  const auto results = interpret(**graph, hir::kEntry, arguments);
  ASSERT_TRUE(results.ok()) << results.status().message();
  EXPECT_EQ(hir::element_text(Dtype::kF32, results->at(0).at(0)), "17");
  EXPECT_EQ(hir::element_text(Dtype::kF32, results->at(1).at(0)), "2");
  EXPECT_EQ(hir::element_text(Dtype::kF32, results->at(1).at(1)), "5");
  EXPECT_EQ(hir::element_text(Dtype::kF32, results->at(1).at(2)), "10");
}

// Two loops, one in the other, that never end.
TEST(Interpreter, StopsWhenItsBudgetOfTurnsIsUsedUp) {
  const auto graph = hir::parse(R"(HloModule "m"
%1 "always" {
  %0 = s32[] parameter(), parameter_number={0}
  ROOT %1 = pred[] constant(), literal={1}
}
%2 "same" {
  ROOT %0 = s32[] parameter(), parameter_number={0}
}
%3 "inner" {
  %0 = s32[] parameter(), parameter_number={0}
  ROOT %1 = s32[] while(%0), to_apply={1,2}, name="inner loop"
}
ENTRY %0 "main" {
  %0 = s32[] constant(), literal={0}
  ROOT %1 = s32[] while(%0), to_apply={1,3}, name="outer loop"
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  Budget budget{100};
  const auto result = interpret(**graph, hir::kEntry, {}, &budget);
  EXPECT_EQ(result.status().code(), NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_EQ(result.status().message(),
            "instruction 'outer loop' (while): instruction 'inner loop' (while): the interpreter's "
            "budget of loop turns is used up");
}

}  // namespace
}  // namespace onrt::reference
