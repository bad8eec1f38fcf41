// SPDX-License-Identifier: Apache-2.0
// Modules that are small as files and without end when they are compiled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/hlo/testing/module_builder.h"

namespace onrt::hlo {
namespace {

using ::testing::HasSubstr;

const opennrt::hlo::Shape kScalar = shape_of(NRTCC_F32, {});

nrtcc_status_t compile(const opennrt::hlo::Module& module) {
  const GraphPtr graph = import_ok(module);
  uint8_t* neff = nullptr;
  size_t size = 0;
  const nrtcc_status_t status = nrtcc_compile(graph.get(), nullptr, &neff, &size);
  nrtcc_free(neff);
  return status;
}

// Computations 8, 9, ...: each calls the next one `calls` times; the last gives its parameter back.
void add_levels(ModuleBuilder& builder, int64_t levels, int calls) {
  for (int64_t id = 8; id < 8 + levels; ++id) {
    builder.start("level" + std::to_string(id), id);
    int64_t x = builder.parameter(0, kScalar);
    for (int i = 0; i < calls && id + 1 < 8 + levels; ++i) {
      auto& call = builder.add("call", kScalar, {x});
      call.add_called_computation_ids(id + 1);
      x = call.id();
    }
  }
}

TEST(CompileLimits, RefusesCallsThatMultiplyWithoutEnd) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, kScalar);
  builder.add("call", kScalar, {x}).add_called_computation_ids(8);
  add_levels(builder, 60, 2);
  EXPECT_EQ(compile(builder.module()), NRTCC_NO_MEMORY);
  EXPECT_THAT(nrtcc_last_error(), HasSubstr("are inlined by calls"));
}

TEST(CompileLimits, TakesCallsOfAnyRealDepth) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, kScalar);
  builder.add("call", kScalar, {x}).add_called_computation_ids(8);
  add_levels(builder, 50, 1);
  EXPECT_EQ(compile(builder.module()), NRTCC_OK) << nrtcc_last_error();
}

// Computations 9, 10, ...: each is a loop whose body is the next; 8 is every condition.
void add_loops(ModuleBuilder& builder, int64_t levels) {
  builder.start("never", 8);
  builder.parameter(0, kScalar);
  auto& no = builder.add("constant", shape_of(NRTCC_PRED, {}));
  *no.mutable_literal()->mutable_shape() = shape_of(NRTCC_PRED, {});
  no.mutable_literal()->add_preds(false);
  for (int64_t id = 9; id <= 9 + levels; ++id) {
    builder.start("level" + std::to_string(id), id);
    const int64_t x = builder.parameter(0, kScalar);
    auto& negate = builder.add("negate", kScalar, {x});
    if (id < 9 + levels) {
      auto& loop = builder.add("while", kScalar, {negate.id()});
      loop.add_called_computation_ids(id + 1);
      loop.add_called_computation_ids(8);
    }
  }
}

TEST(CompileLimits, TakesLoopsOfAnyRealDepth) {
  ModuleBuilder builder;
  const int64_t x = builder.parameter(0, kScalar);
  auto& loop = builder.add("while", kScalar, {x});
  loop.add_called_computation_ids(9);
  loop.add_called_computation_ids(8);
  add_loops(builder, 60);
  EXPECT_EQ(compile(builder.module()), NRTCC_OK) << nrtcc_last_error();
}

TEST(CompileLimits, RefusesMoreLoopsThanAProgramHasBlocks) {
  ModuleBuilder builder;
  int64_t x = builder.parameter(0, kScalar);
  for (int i = 0; i < 2100; ++i) {
    auto& loop = builder.add("while", kScalar, {x});
    loop.add_called_computation_ids(9);
    loop.add_called_computation_ids(8);
    x = loop.id();
  }
  add_loops(builder, 0);
  EXPECT_EQ(compile(builder.module()), NRTCC_UNSUPPORTED);
  EXPECT_THAT(nrtcc_last_error(), HasSubstr("loops and branches make 4201 blocks"));
}

}  // namespace
}  // namespace onrt::hlo
