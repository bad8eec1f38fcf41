// SPDX-License-Identifier: Apache-2.0
// Modules of a million instructions end with a program or with an error that says what is too much.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/hlo/testing/module_builder.h"

namespace onrt::hlo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const opennrt::hlo::Shape kVector = shape_of(NRTCC_F32, {4});
const opennrt::hlo::Shape kMatrix = shape_of(NRTCC_F32, {2, 2});

nrtcc_status_t compile(const opennrt::hlo::Module& module) {
  const GraphPtr graph = import_ok(module);
  uint8_t* neff = nullptr;
  size_t size = 0;
  const nrtcc_status_t status = nrtcc_compile(graph.get(), nullptr, &neff, &size);
  nrtcc_free(neff);
  return status;
}

// Each operation needs the one before.
ModuleBuilder chain_of(int64_t operations) {
  ModuleBuilder builder;
  const int64_t a = builder.parameter(0, kVector);
  int64_t x = a;
  for (int64_t i = 0; i < operations; ++i) {
    x = i % 2 == 0 ? builder.add("add", kVector, {x, a}).id()
                   : builder.add("negate", kVector, {x}).id();
  }
  return builder;
}

// Products that become one instruction each.
ModuleBuilder products_of(int64_t operations) {
  ModuleBuilder builder;
  const int64_t a = builder.parameter(0, kMatrix);
  int64_t x = a;
  for (int64_t i = 0; i < operations; ++i) {
    auto& dot = builder.add("dot", kMatrix, {x, a});
    dot.mutable_dot_dimensions()->add_lhs_contracting(1);
    dot.mutable_dot_dimensions()->add_rhs_contracting(0);
    x = dot.id();
  }
  return builder;
}

#ifdef ONRT_SLOW_TEST

TEST(LargeModule, AMillionInstructionsMakeAProgram) {
  EXPECT_EQ(compile(chain_of(1000000).module()), NRTCC_OK) << nrtcc_last_error();
}

TEST(LargeModule, MoreInstructionsThanAProgramHasAreRefused) {
  EXPECT_EQ(compile(products_of((1 << 20) + 1).module()), NRTCC_UNSUPPORTED);
  EXPECT_THAT(nrtcc_last_error(), AllOf(HasSubstr("graph 'm'"), HasSubstr("1048577 instructions"),
                                        HasSubstr("at most 1048576")));
}

#else

TEST(LargeModule, LongChainsMakeAProgram) {
  EXPECT_EQ(compile(chain_of(20000).module()), NRTCC_OK) << nrtcc_last_error();
  EXPECT_EQ(compile(products_of(5000).module()), NRTCC_OK) << nrtcc_last_error();
}

// Each weight's new value is in the weight's memory, which is decided for all of them in one walk
// over the kernels, not in one each.
TEST(LargeModule, ManyAliasedResultsMakeAProgram) {
  constexpr int64_t kWeights = 4000;
  ModuleBuilder builder;
  opennrt::hlo::Shape result = shape_of(NRTCC_TUPLE, {});
  std::vector<int64_t> made;
  for (int64_t i = 0; i < kWeights; ++i) {
    const int64_t weight = builder.parameter(i, kVector);
    made.push_back(builder.add("multiply", kVector, {weight, weight}).id());
    *result.add_tuple_shapes() = kVector;
    auto* alias = builder.module().mutable_input_output_alias()->add_entries();
    alias->add_output_shape_index(i);
    alias->set_parameter_number(i);
  }
  auto& root = builder.add("tuple", result);
  for (const int64_t id : made) {
    root.add_operand_ids(id);
  }
  EXPECT_EQ(compile(builder.module()), NRTCC_OK) << nrtcc_last_error();
}

// Arrays that are cut into slices, in layers: cutting one segment after another rebuilt the whole
// program each time.
TEST(LargeModule, ManyLargeArraysMakeAProgram) {
  const opennrt::hlo::Shape large = shape_of(NRTCC_F32, {1024, 512});
  const opennrt::hlo::Shape square = shape_of(NRTCC_F32, {512, 512});
  ModuleBuilder builder;
  int64_t x = builder.parameter(0, large);
  const int64_t weight = builder.parameter(1, square);
  for (int i = 0; i < 400; ++i) {
    auto& dot = builder.add("dot", large, {x, weight});
    dot.mutable_dot_dimensions()->add_lhs_contracting(1);
    dot.mutable_dot_dimensions()->add_rhs_contracting(0);
    const int64_t product = dot.id();
    x = builder.add("add", large, {product, x}).id();
    x = builder.add("tanh", large, {x}).id();
  }
  EXPECT_EQ(compile(builder.module()), NRTCC_OK) << nrtcc_last_error();
}

#endif

}  // namespace
}  // namespace onrt::hlo
