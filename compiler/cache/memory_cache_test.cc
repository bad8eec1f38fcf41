// SPDX-License-Identifier: Apache-2.0
#include "compiler/cache/memory_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

namespace onrt::cache {
namespace {

Key key(uint8_t number) {
  Key made;
  made.graph[31] = number;  // the part that the hash leaves out
  return made;
}

ProgramPtr program(size_t bytes) {
  return std::make_shared<const Program>(Program{std::vector<std::byte>(bytes), ""});
}

// True if the program was in the cache; it is afterwards.
bool was_kept(MemoryCache& cache, uint8_t number, size_t bytes = 10) {
  const auto got = cache.get(key(number), [&] { return Result<ProgramPtr>(program(bytes)); });
  EXPECT_TRUE(got.ok());
  return got->was_kept;
}

TEST(MemoryCache, ForgetsWhatWasUsedLongestAgo) {
  MemoryCache cache({.entries = 3, .bytes = 1000});
  for (const uint8_t number : {1, 2, 3}) {
    EXPECT_FALSE(was_kept(cache, number));
  }
  EXPECT_TRUE(was_kept(cache, 1));
  EXPECT_FALSE(was_kept(cache, 4));  // instead of 2
  EXPECT_TRUE(was_kept(cache, 1));
  EXPECT_TRUE(was_kept(cache, 3));
  EXPECT_TRUE(was_kept(cache, 4));
  EXPECT_FALSE(was_kept(cache, 2));
  EXPECT_EQ(cache.counters().entries, 3u);
  EXPECT_EQ(cache.counters().evictions, 2u);
  EXPECT_EQ(cache.counters().hits, 4u);
}

TEST(MemoryCache, KeepsItsLimitOfBytes) {
  MemoryCache cache({.entries = 100, .bytes = 100});
  was_kept(cache, 1, 40);
  was_kept(cache, 2, 40);
  EXPECT_EQ(cache.counters().bytes, 80u);
  was_kept(cache, 3, 40);
  EXPECT_EQ(cache.counters().bytes, 80u);
  EXPECT_FALSE(was_kept(cache, 4, 101));  // never fits, and pushes nothing out
  EXPECT_FALSE(was_kept(cache, 4, 101));
  EXPECT_TRUE(was_kept(cache, 2));
  EXPECT_TRUE(was_kept(cache, 3));
  cache.put(key(3), program(60));
  EXPECT_EQ(cache.counters().bytes, 100u);
}

TEST(MemoryCache, WithoutRoomKeepsNothing) {
  MemoryCache cache({.entries = 10, .bytes = 0});
  EXPECT_FALSE(was_kept(cache, 1));
  EXPECT_FALSE(was_kept(cache, 1));
  EXPECT_EQ(cache.counters().entries, 0u);
}

// Nobody may finish before all have begun: the compilation waits until the others wait for it.
TEST(MemoryCache, EightThreadsCompileOnce) {
  MemoryCache cache({});
  std::atomic<int> compilations{0};
  std::atomic<int> begun{0};
  std::vector<std::thread> threads;
  std::vector<ProgramPtr> programs(8);
  for (auto& slot : programs) {
    threads.emplace_back([&] {
      ++begun;
      const auto got = cache.get(key(1), [&]() -> Result<ProgramPtr> {
        ++compilations;
        while (begun < 8) {
          std::this_thread::yield();
        }
        return program(10);
      });
      slot = got.ok() ? got->program : nullptr;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(compilations, 1);
  for (const ProgramPtr& each : programs) {
    EXPECT_EQ(each, programs[0]);
  }
  EXPECT_EQ(cache.counters().hits, 7u);
}

TEST(MemoryCache, WaitersGetTheFailureAndTheNextTriesAgain) {
  MemoryCache cache({});
  std::atomic<bool> is_open{false};
  std::atomic<bool> is_compiling{false};
  const auto fail = [&]() -> Result<ProgramPtr> {
    is_compiling = true;
    while (!is_open) {
      std::this_thread::yield();
    }
    return Status(NRT_INVALID, "no such opcode");
  };
  std::vector<std::thread> threads;
  std::vector<std::string> messages(4);
  for (auto& message : messages) {
    threads.emplace_back([&] { message = cache.get(key(1), fail).status().message(); });
  }
  while (!is_compiling) {
    std::this_thread::yield();
  }
  is_open = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& message : messages) {
    EXPECT_EQ(message, "no such opcode");
  }
  EXPECT_FALSE(was_kept(cache, 1));
  EXPECT_TRUE(was_kept(cache, 1));
}

TEST(MemoryCache, OtherKeysDoNotWait) {
  MemoryCache cache({});
  const auto got = cache.get(key(1), [&]() -> Result<ProgramPtr> {
    std::thread([&] { EXPECT_FALSE(was_kept(cache, 2)); }).join();
    return program(10);
  });
  EXPECT_TRUE(got.ok());
}

TEST(MemoryCache, AnExceptionPassesAndLeavesNobodyWaiting) {
  MemoryCache cache({});
  EXPECT_THROW(
      static_cast<void>(cache.get(key(1), []() -> Result<ProgramPtr> { throw std::bad_alloc(); })),
      std::bad_alloc);
  EXPECT_FALSE(was_kept(cache, 1));
}

}  // namespace
}  // namespace onrt::cache
