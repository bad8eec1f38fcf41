// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/status.h"

#include <gtest/gtest.h>

#include "runtime/base/dtype.h"
#include "runtime/base/format.h"

namespace onrt {
namespace {

TEST(Status, SuccessIsOnePointerAndHasNoMessage) {
  static_assert(sizeof(Status) == sizeof(void*));
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), NRT_SUCCESS);
  EXPECT_EQ(status.message(), "");
  EXPECT_TRUE(Status(NRT_SUCCESS, "ignored").ok());
}

TEST(Status, AnnotatePutsContextBeforeAFailureOnly) {
  Status status = Status(NRT_INVALID, "size 0").annotate("tensor 'x'").annotate("batch 2");
  EXPECT_EQ(status.code(), NRT_INVALID);
  EXPECT_EQ(status.message(), "batch 2: tensor 'x': size 0");
  EXPECT_TRUE(ok_status().annotate("context").ok());
}

TEST(Status, CopiesAreIndependent) {
  const Status original(NRT_TIMEOUT, "late");
  Status copy = original;
  copy = std::move(copy).annotate("core 0");
  EXPECT_EQ(original.message(), "late");
  EXPECT_EQ(copy.message(), "core 0: late");
}

Result<int> half(int value) {
  if (value % 2 != 0) {
    return Status(NRT_INVALID, format("{} is odd", value));
  }
  return value / 2;
}

Result<int> quarter(int value) {
  ONRT_ASSIGN_OR_RETURN(const int once, half(value));
  return half(once);
}

TEST(Result, HoldsAValueOrTheReason) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).status().message(), "3 is odd");
  EXPECT_EQ(quarter(5).status().message(), "5 is odd");
}

TEST(Result, MadeFromASuccessIsAnInternalError) {
  const Result<int> result = ok_status();
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), NRT_FAILURE);
}

TEST(Format, BytesHaveABinaryUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(64 << 20), "64 MiB");
}

// NRT codes: nrt_dtype_t of the public nrt.h. XLA numbers: PrimitiveType of xla_data.proto.
TEST(Dtype, CodesAreThoseOfTheirSources) {
  struct Row {
    Dtype dtype;
    const char* name;
    uint32_t bytes;
    uint32_t nrt;
    int xla;
  };
  for (const Row& row : {Row{Dtype::kF32, "f32", 4, 0xA, 11}, Row{Dtype::kBF16, "bf16", 2, 6, 16},
                         Row{Dtype::kF16, "f16", 2, 7, 10}, Row{Dtype::kS32, "s32", 4, 8, 4},
                         Row{Dtype::kU32, "u32", 4, 9, 8}, Row{Dtype::kS64, "s64", 8, 0xC, 5},
                         Row{Dtype::kU64, "u64", 8, 1, 9}, Row{Dtype::kS8, "s8", 1, 2, 2},
                         Row{Dtype::kU8, "u8", 1, 3, 6}, Row{Dtype::kS16, "s16", 2, 4, 3},
                         Row{Dtype::kU16, "u16", 2, 5, 7}, Row{Dtype::kPred, "pred", 1, 3, 1}}) {
    EXPECT_EQ(dtype_name(row.dtype), row.name);
    EXPECT_EQ(dtype_bytes(row.dtype), row.bytes) << row.name;
    EXPECT_EQ(dtype_info(row.dtype).nrt_code, row.nrt) << row.name;
    EXPECT_EQ(static_cast<int>(row.dtype), row.xla) << row.name;
    EXPECT_EQ(find_dtype(row.name)->dtype, row.dtype);
  }
}

TEST(Dtype, UnknownNumbersAndNamesAreNull) {
  for (const uint32_t number : {0U, 13U, 63U, 64U, 255U, 0xFFFFFFFFU}) {
    EXPECT_EQ(find_dtype(number), nullptr) << number;
  }
  EXPECT_EQ(find_dtype("c64"), nullptr);
  EXPECT_EQ(find_dtype(""), nullptr);
}

TEST(Dtype, EachTypeIsOfOneKind) {
  for (uint32_t number = 0; number < 64; ++number) {
    if (const DtypeInfo* info = find_dtype(number)) {
      const int kinds = static_cast<int>(is_floating(info->dtype)) +
                        static_cast<int>(is_signed_integer(info->dtype)) +
                        static_cast<int>(is_unsigned_integer(info->dtype)) +
                        static_cast<int>(info->dtype == Dtype::kPred);
      EXPECT_EQ(kinds, 1) << info->name;
    }
  }
}

}  // namespace
}  // namespace onrt
