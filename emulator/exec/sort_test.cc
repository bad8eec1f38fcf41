// SPDX-License-Identifier: Apache-2.0
// Sorts against std::stable_sort by hand-written rules, and against the oracle's plain merges.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "emulator/exec/row_order.h"
#include "emulator/exec/sort_keys.h"
#include "emulator/exec/testing/oracle.h"
#include "emulator/exec/testing/random_program.h"
#include "emulator/isa/scalar_value.h"
#include "emulator/isa/sort_order.h"

namespace onrt {
namespace {

using ncx::MicroOp;
using ncx::MicroProgram;
using ncx::Program;
using ncx::ScalarOp;
using testing::Memory;
using testing::ProgramBuilder;

// Comparator registers of one array: 0 and 1.
MicroProgram compare(ScalarOp op) { return {{{op, Dtype::kPred, {0, 1, 0}, 0}}, {2}}; }

// What jnp.sort makes: NaNs alike, zeros alike, then the total order.
MicroProgram jax_comparator(Dtype type, uint16_t left, uint16_t right, uint16_t inputs) {
  MicroProgram program;
  const auto add = [&](MicroOp op) {
    program.ops.push_back(op);
    return static_cast<uint16_t>(inputs + program.ops.size() - 1);
  };
  uint64_t nan = 0;
  ncx::store_boxed(type, 0x7fc00000u, &nan);
  const uint16_t nan_reg = add({ScalarOp::kConstant, type, {}, nan});
  const uint16_t zero = add({ScalarOp::kConstant, type, {}, 0});
  uint16_t made[2];
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const uint16_t x = side == 0 ? left : right;
    const uint16_t is_nan = add({ScalarOp::kCompareNe, Dtype::kPred, {x, x, 0}, 0});
    const uint16_t is_zero = add({ScalarOp::kCompareEq, Dtype::kPred, {x, zero, 0}, 0});
    const uint16_t a = add({ScalarOp::kSelect, type, {is_zero, zero, x}, 0});
    made[side] = add({ScalarOp::kSelect, type, {is_nan, nan_reg, a}, 0});
  }
  program.results = {add({ScalarOp::kCompareTotalLt, Dtype::kPred, {made[0], made[1], 0}, 0})};
  return program;
}

// One row through the engine.
template <class T>
std::vector<T> sort_row(const std::vector<T>& values, Dtype dtype, const MicroProgram& comparator,
                        std::vector<uint32_t>* positions = nullptr) {
  const auto n = static_cast<int64_t>(values.size());
  const int64_t dims[] = {n};
  Program program;
  const uint64_t bytes = values.size() * sizeof(T);
  program.io = {{dtype, {n}, bytes, ncx::SlotUsage::kInput},
                {dtype, {n}, bytes, ncx::SlotUsage::kOutput},
                {Dtype::kU32, {n}, values.size() * 4, ncx::SlotUsage::kOutput}};
  ncx::Sort op;
  op.inputs = {testing::dense(ncx::Space::kIo, 0, dtype, dims)};
  op.outputs = {testing::dense(ncx::Space::kIo, 1, dtype, dims),
                testing::dense(ncx::Space::kIo, 2, Dtype::kU32, dims)};
  op.comparator = comparator;
  program.blocks.emplace_back().instructions.push_back({op});
  Memory memory = testing::make_memory(program);
  std::memcpy(memory.io[0].data(), values.data(), bytes);
  const Status status = testing::run_engine(program, memory, {});
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<T> sorted(values.size());
  std::memcpy(sorted.data(), memory.io[1].data(), bytes);
  if (positions != nullptr) {
    positions->resize(values.size());
    std::memcpy(positions->data(), memory.io[2].data(), values.size() * 4);
  }
  return sorted;
}

TEST(Sort, OrdersZerosAndNansAsJaxDoes) {
  // Hand-made: NaNs last, -0 and +0 equal and therefore in their order.
  const std::vector<float> x = {NAN, 3, -0.0f, INFINITY, 0.0f, -1, -NAN, -INFINITY, -0.0f, 2};
  std::vector<uint32_t> positions;
  sort_row(x, Dtype::kF32, jax_comparator(Dtype::kF32, 0, 1, 2), &positions);
  EXPECT_EQ(positions, (std::vector<uint32_t>{7, 5, 2, 4, 8, 9, 1, 3, 0, 6}));
}

TEST(Sort, LongRowsEqualStableSort) {
  std::mt19937 random(3);
  for (const size_t n : {2u, 100u, 1023u, 1024u, 5000u, 70001u}) {
    std::vector<int32_t> x(n);
    for (int32_t& value : x) {
      value = static_cast<int32_t>(random()) >> (random() % 32);
    }
    std::vector<uint32_t> want(n);
    std::iota(want.begin(), want.end(), 0u);
    std::stable_sort(want.begin(), want.end(), [&](uint32_t a, uint32_t b) { return x[a] > x[b]; });
    std::vector<uint32_t> positions;
    sort_row(x, Dtype::kS32, compare(ScalarOp::kCompareGt), &positions);
    EXPECT_EQ(positions, want) << n;
  }
}

TEST(Sort, SixtyFourBitKeysEqualStableSort) {
  std::mt19937_64 random(4);
  std::vector<int64_t> x(3000);
  for (int64_t& value : x) {
    value = static_cast<int64_t>(random()) >> (random() % 64);
  }
  std::vector<int64_t> want = x;
  std::stable_sort(want.begin(), want.end());
  EXPECT_EQ(sort_row(x, Dtype::kS64, compare(ScalarOp::kCompareLt)), want);
}

// `<` knows no place for NaN, `<=` is no strict order, a constant is nonsense: the result is that
// of the canonical merges and a permutation.
TEST(Sort, AComparatorWithoutAnOrderGivesAPermutation) {
  std::mt19937 random(5);
  std::vector<float> x(3001);
  for (float& value : x) {
    value = random() % 5 == 0 ? NAN : static_cast<float>(random() % 100);
  }
  MicroProgram always;
  always.ops = {{ScalarOp::kConstant, Dtype::kPred, {}, 1}};
  always.results = {2};
  for (const MicroProgram& comparator :
       {compare(ScalarOp::kCompareLt), compare(ScalarOp::kCompareLe), compare(ScalarOp::kCompareNe),
        always}) {
    std::vector<uint32_t> positions;
    sort_row(x, Dtype::kF32, comparator, &positions);
    std::sort(positions.begin(), positions.end());
    for (uint32_t i = 0; i < positions.size(); ++i) {
      ASSERT_EQ(positions[i], i);
    }
  }
}

TEST(SortKeys, RecognisesKeysAndTheirDirections) {
  const Dtype types[] = {Dtype::kF32};
  const auto jax = find_sort_keys(jax_comparator(Dtype::kF32, 0, 1, 2), types);
  ASSERT_EQ(jax.size(), 1u);
  EXPECT_TRUE(jax[0].total);
  EXPECT_FALSE(jax[0].descending);
  EXPECT_EQ(jax[0].value.ops.size(), 6u);
  EXPECT_TRUE(find_sort_keys(compare(ScalarOp::kCompareGt), types)[0].descending);
  MicroProgram swapped = compare(ScalarOp::kCompareGt);
  swapped.ops[0].operands = {1, 0, 0};
  EXPECT_FALSE(find_sort_keys(swapped, types)[0].descending);
  EXPECT_TRUE(find_sort_keys(compare(ScalarOp::kCompareLe), types).empty());
  MicroProgram uneven;  // |a| < b
  uneven.ops = {{ScalarOp::kAbs, Dtype::kF32, {0, 0, 0}, 0},
                {ScalarOp::kCompareLt, Dtype::kPred, {2, 1, 0}, 0}};
  uneven.results = {3};
  EXPECT_TRUE(find_sort_keys(uneven, types).empty());
}

// or(k0 < , and(k0 =, k1 >)) over arrays of these types.
MicroProgram two_keys(ScalarOp equal) {
  MicroProgram program;
  program.ops = {{ScalarOp::kCompareLt, Dtype::kPred, {0, 1, 0}, 0},
                 {equal, Dtype::kPred, {0, 1, 0}, 0},
                 {ScalarOp::kCompareGt, Dtype::kPred, {2, 3, 0}, 0},
                 {ScalarOp::kAnd, Dtype::kPred, {5, 6, 0}, 0},
                 {ScalarOp::kOr, Dtype::kPred, {7, 4, 0}, 0}};
  program.results = {8};
  return program;
}

TEST(SortKeys, RecognisesLexicographicOrders) {
  const Dtype types[] = {Dtype::kS32, Dtype::kU8};
  const auto keys = find_sort_keys(two_keys(ScalarOp::kCompareEq), types);
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].type, Dtype::kS32);
  EXPECT_FALSE(keys[0].descending);
  EXPECT_EQ(keys[1].type, Dtype::kU8);
  EXPECT_TRUE(keys[1].descending);
  EXPECT_EQ(keys[1].inputs, (std::vector<bool>{false, true}));
  EXPECT_TRUE(find_sort_keys(two_keys(ScalarOp::kCompareNe), types).empty());
}

// A random comparator: keys of several forms, or any program that gives a pred.
MicroProgram random_comparator(ProgramBuilder& builder, const std::vector<Dtype>& types) {
  const auto inputs = static_cast<uint16_t>(2 * types.size());
  const auto key = static_cast<uint16_t>(builder.below(static_cast<uint32_t>(types.size())));
  const auto left = static_cast<uint16_t>(2 * key);
  const auto right = static_cast<uint16_t>(left + 1);
  if (is_floating(types[key]) && builder.below(3) == 0) {
    return jax_comparator(types[key], left, right, inputs);
  }
  constexpr ScalarOp kPlain[] = {ScalarOp::kCompareLt, ScalarOp::kCompareGt, ScalarOp::kCompareLe};
  constexpr ScalarOp kTotal[] = {ScalarOp::kCompareTotalLt, ScalarOp::kCompareTotalGt};
  const bool total = is_floating(types[key]) && builder.below(2) == 0;
  MicroProgram program;
  if (types.size() == 2 && builder.below(2) == 0) {
    return two_keys(builder.below(3) == 0 ? ScalarOp::kCompareLe : ScalarOp::kCompareEq);
  }
  program.ops = {{total ? kTotal[builder.below(2)] : kPlain[builder.below(3)],
                  Dtype::kPred,
                  {left, right, 0},
                  0}};
  program.results = {inputs};
  return program;
}

TEST(Sort, RandomSortsEqualTheOracle) {
  std::mt19937 random(6);
  for (int round = 0; round < 150; ++round) {
    ProgramBuilder builder(random);
    Program program;
    const uint32_t rank = 1 + builder.below(4);
    std::vector<int64_t> dims;
    for (uint32_t d = 0; d < rank; ++d) {
      dims.push_back(1 + builder.below(rank == 1 ? 300 : 12));
    }
    ncx::Sort op;
    op.dimension = static_cast<uint8_t>(builder.below(rank));
    std::vector<int64_t> kept = dims;
    if (builder.below(3) == 0) {
      int64_t& length = kept[op.dimension];
      length = 1 + builder.below(static_cast<uint32_t>(length));
    }
    std::vector<Dtype> types;
    for (uint32_t i = 0, n = 1 + builder.below(3); i < n; ++i) {
      types.push_back(builder.any_type());
      op.inputs.push_back(builder.view(program, types[i], dims, ncx::SlotUsage::kInput));
      op.outputs.push_back(builder.view(program, types[i], kept, ncx::SlotUsage::kOutput));
    }
    if (builder.below(2) == 0) {
      op.outputs.push_back(builder.view(program, Dtype::kU32, kept, ncx::SlotUsage::kOutput));
    }
    op.comparator = random_comparator(builder, types);
    program.blocks.emplace_back().instructions.push_back({op, ncx::Engine::kPool});
    ASSERT_EQ(testing::compare_with_oracle(program, random), "") << "round " << round;
  }
}

TEST(RowOrder, KeepsOnlyTheFirstElements) {
  std::mt19937 random(7);
  std::vector<uint32_t> word(4000);
  for (uint32_t& value : word) {
    value = random() % 1000;
  }
  std::vector<uint32_t> want(word.size());
  std::iota(want.begin(), want.end(), 0u);
  std::stable_sort(want.begin(), want.end(),
                   [&](uint32_t a, uint32_t b) { return word[a] < word[b]; });
  std::vector<uint64_t> items(word.size());
  std::vector<uint64_t> spare(word.size());
  std::vector<uint32_t> next(word.size());
  std::vector<uint32_t> order(word.size());
  const uint32_t* const words[] = {word.data()};
  for (const int64_t kept :
       {int64_t{1}, int64_t{7}, int64_t{64}, int64_t{499}, int64_t{501}, int64_t{4000}}) {
    order_by_words(words, 4000, kept, {items.data(), spare.data(), next.data()}, order.data());
    EXPECT_TRUE(std::equal(order.begin(), order.begin() + kept, want.begin())) << kept;
  }
}

// By hand: the right one of two is first only if it must be.
TEST(SortOrder, MergesRunsFromTheLeft) {
  int x[] = {5, 1, 4, 2, 3};
  int spare[5];
  ncx::sort_in_order(x, spare, 5, [](int a, int b) { return a < b; });
  EXPECT_TRUE(std::is_sorted(x, x + 5));
  int y[] = {1, 2, 3, 4, 5};
  ncx::sort_in_order(y, spare, 5, [](int, int) { return true; });  // (21)(43) -> 4321 -> 54321
  const int want[] = {5, 4, 3, 2, 1};
  EXPECT_TRUE(std::equal(y, y + 5, want));
}

}  // namespace
}  // namespace onrt
