// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/simd_level.h"

#include <gtest/gtest.h>

namespace onrt {
namespace {

TEST(SimdLevel, DetectedLevelRunsHereAndIsCompiled) {
  const SimdLevel level = detect_simd_level();
  EXPECT_TRUE(simd_level_runs_here(level));
  bool compiled = false;
  for (SimdLevel candidate : compiled_simd_levels()) {
    compiled = compiled || candidate == level;
  }
  EXPECT_TRUE(compiled);
}

TEST(SimdLevel, PlainRunsEverywhere) {
  EXPECT_TRUE(simd_level_runs_here(SimdLevel::kPlain));
  EXPECT_EQ(choose_simd_level("plain").value(), SimdLevel::kPlain);
}

TEST(SimdLevel, EmptyTextMeansDetected) {
  EXPECT_EQ(choose_simd_level("").value(), detect_simd_level());
}

TEST(SimdLevel, UnknownOrForeignNameIsRefusedWithTheUsableOnes) {
#if defined(__x86_64__)
  const char* foreign = "neon";
#else
  const char* foreign = "avx512";
#endif
  for (const char* text : {"avx9", "AVX2", foreign}) {
    const auto result = choose_simd_level(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().code(), NRT_INVALID);
    EXPECT_NE(result.status().message().find("plain"), std::string_view::npos);
    EXPECT_NE(result.status().message().find(text), std::string_view::npos);
  }
}

}  // namespace
}  // namespace onrt
