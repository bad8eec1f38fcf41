// SPDX-License-Identifier: Apache-2.0
#include "compiler/cache/entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace onrt::cache {
namespace {

using ::testing::HasSubstr;

EntryInfo sample() {
  EntryInfo info;
  info.key = std::string(64, 'a') + "+" + std::string(64, '0');
  info.compiler = "2.35.0+opennrt-0123456789ab";
  info.graph = "jit_step \"x\"\n";
  info.warnings = "add.7: f64 is computed in f32\n";
  info.sha256 = std::string(64, '7');
  info.neff_bytes = 1234;
  info.created = 1796061600;
  info.compile_us = 815;
  return info;
}

std::string refusal(const std::string& text) {
  const auto info = read_entry_info(text);
  EXPECT_FALSE(info.ok()) << text;
  return std::string(info.status().message());
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = write_entry_info(sample());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(EntryInfo, RoundTrips) {
  const auto info = read_entry_info(write_entry_info(sample()));
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info->key, sample().key);
  EXPECT_EQ(info->compiler, sample().compiler);
  EXPECT_EQ(info->graph, sample().graph);
  EXPECT_EQ(info->warnings, sample().warnings);
  EXPECT_EQ(info->sha256, sample().sha256);
  EXPECT_EQ(info->neff_bytes, 1234u);
  EXPECT_EQ(info->created, 1796061600);
  EXPECT_EQ(info->compile_us, 815);
}

TEST(EntryInfo, NamesWhatIsWrong) {
  EXPECT_THAT(refusal(changed("\"format\": 1", "\"format\": 2")), HasSubstr("format"));
  EXPECT_THAT(refusal(changed("aa+00", "aa-00")), HasSubstr("key"));
  EXPECT_THAT(refusal(changed("777", "77g")), HasSubstr("sha256"));
  EXPECT_THAT(refusal(changed("777", "77")), HasSubstr("sha256"));
  EXPECT_THAT(refusal(changed("\"neff_bytes\": 1234", "\"neff_bytes\": -1")),
              HasSubstr("neff_bytes"));
  EXPECT_THAT(refusal(changed("815", "\"x\"")), HasSubstr("compile_us"));
  EXPECT_THAT(refusal(changed("\"warnings\"", "\"remarks\"")), HasSubstr("warnings"));
  EXPECT_THAT(refusal(std::string(kMostDoneBytes + 1, ' ')), HasSubstr("expected at most"));
}

// An empty model.done is what the vendor's cache has.
TEST(EntryInfo, RefusesEveryPartOfIt) {
  const std::string text = write_entry_info(sample());
  for (size_t size = 0; size + 2 < text.size(); ++size) {
    EXPECT_FALSE(read_entry_info(text.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace onrt::cache
