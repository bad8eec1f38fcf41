// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/literal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "compiler/hlo/testing/module_builder.h"
#include "runtime/base/dtype.h"

namespace onrt::hlo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> counting_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i + 1);
  }
  return bytes;
}

TEST(HloLiteral, ReadsBackEveryElementType) {
  for (const uint32_t type :
       {NRTCC_S8, NRTCC_S16, NRTCC_S32, NRTCC_S64, NRTCC_U8, NRTCC_U16, NRTCC_U32, NRTCC_U64,
        NRTCC_F16, NRTCC_BF16, NRTCC_F32, NRTCC_F64, NRTCC_F8E5M2, NRTCC_F8E4M3FN, NRTCC_F8E4M3}) {
    const opennrt::hlo::Shape shape = shape_of(static_cast<nrtcc_dtype_t>(type), {3, 2});
    const std::vector<std::byte> bytes = counting_bytes(6 * find_dtype(type)->bytes);
    opennrt::hlo::Literal literal;
    ASSERT_TRUE(write_literal(bytes, shape, literal).ok());
    opennrt::hlo::Literal parsed;
    ASSERT_TRUE(parsed.ParseFromString(literal.SerializeAsString()));
    const auto read = read_literal(parsed, shape);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_TRUE(std::ranges::equal(read->data, bytes)) << find_dtype(type)->name;
  }
}

TEST(HloLiteral, ReadsTruthValuesAsBytes) {
  opennrt::hlo::Literal literal;
  *literal.mutable_shape() = shape_of(NRTCC_PRED, {3});
  for (const bool value : {true, false, true}) {
    literal.add_preds(value);
  }
  const auto read = read_literal(literal, literal.shape());
  ASSERT_TRUE(read.ok());
  EXPECT_THAT(read->data, ElementsAre(std::byte{1}, std::byte{0}, std::byte{1}));
}

TEST(HloLiteral, TakesElementsThatAreNotPacked) {
  // s32s (field 4) as two separate varints: 5 and -1.
  opennrt::hlo::Literal literal;
  *literal.mutable_shape() = shape_of(NRTCC_S32, {2});
  const std::string bytes = literal.SerializeAsString() +
                            std::string("\x20\x05\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13);
  opennrt::hlo::Literal parsed;
  ASSERT_TRUE(parsed.ParseFromString(bytes));
  const auto read = read_literal(parsed, literal.shape());
  ASSERT_TRUE(read.ok());
  std::vector<int32_t> values(2);
  std::memcpy(values.data(), read->data.data(), 8);
  EXPECT_THAT(values, ElementsAre(5, -1));
}

TEST(HloLiteral, BringsAColumnMajorLiteralIntoRowMajorOrder) {
  opennrt::hlo::Literal literal;
  *literal.mutable_shape() = shape_of(NRTCC_S32, {2, 3});
  literal.mutable_shape()->mutable_layout()->add_minor_to_major(0);
  literal.mutable_shape()->mutable_layout()->add_minor_to_major(1);
  // [[1, 2, 3], [4, 5, 6]] column by column.
  for (const int32_t value : {1, 4, 2, 5, 3, 6}) {
    literal.add_s32s(value);
  }
  const auto read = read_literal(literal, shape_of(NRTCC_S32, {2, 3}));
  ASSERT_TRUE(read.ok());
  std::vector<int32_t> values(6);
  std::memcpy(values.data(), read->data.data(), 24);
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(HloLiteral, RefusesAWrongNumberOfElements) {
  opennrt::hlo::Literal literal;
  *literal.mutable_shape() = shape_of(NRTCC_F32, {2});
  literal.add_f32s(1);
  EXPECT_THAT(std::string(read_literal(literal, literal.shape()).status().message()),
              HasSubstr("needs 8 bytes of elements, found 4"));
}

TEST(HloLiteral, RefusesAShapeThatDiffersFromTheInstructions) {
  opennrt::hlo::Literal literal;
  *literal.mutable_shape() = shape_of(NRTCC_F32, {2});
  EXPECT_THAT(std::string(read_literal(literal, shape_of(NRTCC_F32, {1, 2})).status().message()),
              HasSubstr("literal has shape f32[2], the instruction has f32[1,2]"));
}

}  // namespace
}  // namespace onrt::hlo
