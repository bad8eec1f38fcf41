// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/cache/testing/folder.h"
#include "opennrt/nrtcc.h"

namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::string_view kDot = R"(HloModule "dot"
ENTRY %0 "main" {
  %0 = f32[4,8] parameter(), parameter_number={0}
  %1 = f32[8,4] parameter(), parameter_number={1}
  ROOT %2 = f32[4,4] dot(%0, %1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";

nrtcc_graph_t* parsed(std::string_view text) {
  nrtcc_graph_t* graph = nullptr;
  EXPECT_EQ(nrtcc_parse(text.data(), text.size(), &graph), NRTCC_OK) << nrtcc_last_error();
  return graph;
}

nrtcc_options_t defaults() {
  return {sizeof(nrtcc_options_t), "trn2", 0, -1, 0, 0, NRTCC_BF16, nullptr};
}

std::string key_of(const nrtcc_graph_t* graph, const nrtcc_options_t* options) {
  char* text = nullptr;
  EXPECT_EQ(nrtcc_cache_key(graph, options, &text), NRTCC_OK) << nrtcc_last_error();
  std::string made = text;
  nrtcc_free(text);
  return made;
}

struct Got {
  nrtcc_status_t status;
  nrtcc_origin_t origin = NRTCC_COMPILED;
  std::vector<uint8_t> neff;
};
Got get(nrtcc_cache_t* cache, const nrtcc_graph_t* graph, const nrtcc_options_t* options) {
  Got got;
  uint8_t* neff = nullptr;
  size_t size = 0;
  got.status = nrtcc_compile_cached(cache, graph, options, &neff, &size, &got.origin);
  if (got.status == NRTCC_OK) {
    got.neff.assign(neff, neff + size);
    nrtcc_free(neff);
  }
  return got;
}

nrtcc_cache_stats_t stats_of(const nrtcc_cache_t* cache) {
  nrtcc_cache_stats_t stats;
  stats.struct_size = sizeof(stats);
  EXPECT_EQ(nrtcc_cache_stats(cache, &stats), NRTCC_OK);
  return stats;
}

TEST(NrtccCache, GivesTheCompilersBytesFromMemoryAndDisk) {
  const onrt::cache::TestFolder folder;
  nrtcc_graph_t* graph = parsed(kDot);
  const Got plain = get(nullptr, graph, nullptr);
  ASSERT_EQ(plain.status, NRTCC_OK);
  EXPECT_EQ(plain.origin, NRTCC_COMPILED);
  const nrtcc_cache_options_t options = {sizeof(options), folder.path().c_str(), 0, 0, 0};
  for (const nrtcc_origin_t expected : {NRTCC_COMPILED, NRTCC_FROM_DISK}) {
    nrtcc_cache_t* cache = nullptr;
    ASSERT_EQ(nrtcc_cache_open(&options, &cache), NRTCC_OK);
    for (const nrtcc_origin_t origin : {expected, NRTCC_FROM_MEMORY}) {
      const Got got = get(cache, graph, nullptr);
      EXPECT_EQ(got.origin, origin);
      EXPECT_EQ(got.neff, plain.neff);
      EXPECT_STREQ(nrtcc_last_warnings(), "");
    }
    EXPECT_EQ(stats_of(cache).memory_hits, 1u);
    EXPECT_EQ(stats_of(cache).disk_used, 1);
    nrtcc_cache_close(cache);
  }
  nrtcc_graph_destroy(graph);
}

// Everything that changes the program changes the key; how a default is spelled does not.
TEST(NrtccCache, EveryOptionCounts) {
  nrtcc_graph_t* graph = parsed(kDot);
  const auto with = [&](auto change) {
    nrtcc_options_t options = defaults();
    change(options);
    return key_of(graph, &options);
  };
  const std::vector<std::string> keys = {
      with([](auto&) {}),
      with([](auto& options) { options.target = "trn1"; }),
      with([](auto& options) { options.target = "trn1n"; }),
      with([](auto& options) { options.target = "inf2"; }),
      with([](auto& options) { options.target = "trn3"; }),
      with([](auto& options) { options.lnc = 1; }),
      with([](auto& options) { options.optimization = 0; }),
      with([](auto& options) { options.optimization = 1; }),
      with([](auto& options) { options.optimization = 3; }),
      with([](auto& options) { options.compress = 1; }),
      with([](auto& options) { options.auto_cast = 1; }),
      with([](auto& options) {
        options.auto_cast = 1;
        options.auto_cast_type = NRTCC_F16;
      }),
  };
  EXPECT_THAT(std::set<std::string>(keys.begin(), keys.end()), SizeIs(keys.size()));
  EXPECT_EQ(with([](auto& options) { options.lnc = 2; }), keys[0]);
  EXPECT_EQ(with([](auto& options) { options.optimization = 2; }), keys[0]);
  EXPECT_EQ(with([](auto& options) { options.target = nullptr; }), keys[0]);
  EXPECT_EQ(with([](auto& options) { options.dump_dir = "/tmp"; }), keys[0]);
  EXPECT_EQ(with([](auto& options) { options.auto_cast_type = NRTCC_F16; }), keys[0]);
  EXPECT_EQ(key_of(graph, nullptr), keys[0]);
  EXPECT_EQ(keys[0].size(), 129u);
  nrtcc_graph_destroy(graph);
}

TEST(NrtccCache, WarningsComeWithTheProgram) {
  const onrt::cache::TestFolder folder;
  nrtcc_graph_t* graph = parsed(R"(HloModule "m"
ENTRY %0 "main" {
  %0 = f64[4] parameter(), parameter_number={0}
  ROOT %1 = f64[4] negate(%0)
}
)");
  const nrtcc_cache_options_t options = {sizeof(options), folder.path().c_str(), 0, 0, 0};
  for (int i = 0; i < 2; ++i) {
    nrtcc_cache_t* cache = nullptr;
    ASSERT_EQ(nrtcc_cache_open(&options, &cache), NRTCC_OK);
    for (int j = 0; j < 2; ++j) {
      ASSERT_EQ(get(cache, graph, nullptr).status, NRTCC_OK);
      EXPECT_THAT(nrtcc_last_warnings(), HasSubstr("f64 is stored as f64")) << i << j;
    }
    nrtcc_cache_close(cache);
  }
  nrtcc_graph_destroy(graph);
}

TEST(NrtccCache, KeepsNoFailure) {
  nrtcc_graph_t* graph = parsed(kDot);
  nrtcc_cache_t* cache = nullptr;
  ASSERT_EQ(nrtcc_cache_open(nullptr, &cache), NRTCC_OK);
  nrtcc_options_t options = defaults();
  options.target = "trn9";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(get(cache, graph, &options).status, NRTCC_UNSUPPORTED);
    EXPECT_THAT(nrtcc_last_error(), HasSubstr("trn9"));
  }
  EXPECT_EQ(stats_of(cache).failed, 2u);
  EXPECT_EQ(stats_of(cache).memory_programs, 0u);
  EXPECT_EQ(stats_of(cache).disk_used, 0);
  nrtcc_graph_t* empty = nullptr;
  ASSERT_EQ(nrtcc_graph_create("empty", &empty), NRTCC_OK);
  EXPECT_EQ(get(cache, empty, nullptr).status, NRTCC_INVALID);
  EXPECT_STREQ(nrtcc_last_error(), "computation 0 ('main') has no root");
  nrtcc_graph_destroy(empty);
  nrtcc_cache_close(cache);
  nrtcc_graph_destroy(graph);
}

TEST(NrtccCache, DumpsEvenIfTheProgramIsThere) {
  const onrt::cache::TestFolder folder;
  nrtcc_graph_t* graph = parsed(kDot);
  nrtcc_cache_t* cache = nullptr;
  ASSERT_EQ(nrtcc_cache_open(nullptr, &cache), NRTCC_OK);
  ASSERT_EQ(get(cache, graph, nullptr).status, NRTCC_OK);
  nrtcc_options_t options = defaults();
  options.dump_dir = folder.path().c_str();
  EXPECT_EQ(get(cache, graph, &options).origin, NRTCC_COMPILED);
  EXPECT_THAT(folder.tree(), SizeIs(3));
  EXPECT_EQ(get(cache, graph, nullptr).origin, NRTCC_FROM_MEMORY);
  nrtcc_cache_close(cache);
  nrtcc_graph_destroy(graph);
}

TEST(NrtccCache, SaysWhyItsFolderIsNotUsed) {
  nrtcc_graph_t* graph = parsed(kDot);
  const nrtcc_cache_options_t options = {sizeof(options), "s3://bucket/neffs", 0, 0, 0};
  nrtcc_cache_t* cache = nullptr;
  ASSERT_EQ(nrtcc_cache_open(&options, &cache), NRTCC_OK);
  char* problem = nullptr;
  ASSERT_EQ(nrtcc_cache_problem(cache, &problem), NRTCC_OK);
  EXPECT_THAT(problem, HasSubstr("s3://bucket/neffs"));
  nrtcc_free(problem);
  EXPECT_EQ(get(cache, graph, nullptr).status, NRTCC_OK);
  EXPECT_THAT(nrtcc_last_warnings(), HasSubstr("s3://bucket/neffs"));
  EXPECT_EQ(get(cache, graph, nullptr).status, NRTCC_OK);
  EXPECT_STREQ(nrtcc_last_warnings(), "");
  nrtcc_cache_close(cache);
  nrtcc_graph_destroy(graph);
}

TEST(NrtccCache, ChecksItsArguments) {
  nrtcc_graph_t* graph = parsed(kDot);
  nrtcc_cache_t* cache = nullptr;
  EXPECT_EQ(nrtcc_cache_open(nullptr, nullptr), NRTCC_INVALID);
  nrtcc_cache_options_t options = {sizeof(options), nullptr, 0, 0, 0};
  for (int64_t nrtcc_cache_options_t::* field :
       {&nrtcc_cache_options_t::disk_bytes, &nrtcc_cache_options_t::memory_bytes,
        &nrtcc_cache_options_t::memory_programs}) {
    nrtcc_cache_options_t bad = options;
    bad.*field = -2;
    EXPECT_EQ(nrtcc_cache_open(&bad, &cache), NRTCC_INVALID);
    EXPECT_THAT(nrtcc_last_error(), HasSubstr("found -2"));
  }
  options.struct_size = 0;
  EXPECT_EQ(nrtcc_cache_open(&options, &cache), NRTCC_INVALID);
  EXPECT_EQ(cache, nullptr);
  // A caller with a shorter struct.
  options.struct_size = offsetof(nrtcc_cache_options_t, disk_bytes);
  options.disk_bytes = -7;
  ASSERT_EQ(nrtcc_cache_open(&options, &cache), NRTCC_OK);
  uint8_t* neff = nullptr;
  size_t size = 0;
  EXPECT_EQ(nrtcc_compile_cached(cache, nullptr, nullptr, &neff, &size, nullptr), NRTCC_INVALID);
  EXPECT_EQ(nrtcc_compile_cached(cache, graph, nullptr, nullptr, &size, nullptr), NRTCC_INVALID);
  EXPECT_EQ(nrtcc_compile_cached(cache, graph, nullptr, &neff, nullptr, nullptr), NRTCC_INVALID);
  EXPECT_EQ(nrtcc_compile_cached(cache, graph, nullptr, &neff, &size, nullptr), NRTCC_OK);
  nrtcc_free(neff);
  EXPECT_EQ(nrtcc_cache_stats(cache, nullptr), NRTCC_INVALID);
  EXPECT_EQ(nrtcc_cache_problem(cache, nullptr), NRTCC_INVALID);
  EXPECT_EQ(nrtcc_cache_key(graph, nullptr, nullptr), NRTCC_INVALID);
  // Only the fields that the caller has are written.
  nrtcc_cache_stats_t stats;
  std::memset(&stats, 0x55, sizeof(stats));
  stats.struct_size = offsetof(nrtcc_cache_stats_t, memory_waits);
  EXPECT_EQ(nrtcc_cache_stats(cache, &stats), NRTCC_OK);
  EXPECT_EQ(stats.memory_hits, 0u);
  EXPECT_EQ(stats.memory_waits, 0x5555555555555555u);
  nrtcc_cache_close(cache);
  nrtcc_cache_close(nullptr);
  EXPECT_EQ(nrtcc_cache_stats(nullptr, &stats), NRTCC_INVALID);
  nrtcc_graph_destroy(graph);
}

}  // namespace
