// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <vector>

namespace onrt {
namespace {

TEST(ThreadPool, RunsEveryChunkExactlyOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (size_t chunks : {0u, 1u, 2u, 7u, 1000u}) {
      std::vector<std::atomic<int>> calls(chunks);
      pool.parallel_for(chunks, [&](size_t chunk, int) { calls[chunk].fetch_add(1); });
      for (size_t i = 0; i < chunks; ++i) {
        EXPECT_EQ(calls[i].load(), 1) << threads << " threads, chunk " << i;
      }
    }
  }
}

TEST(ThreadPool, ResultsOfChunksAreVisibleToTheCaller) {
  ThreadPool pool(3);
  std::vector<uint64_t> values(64);
  for (uint64_t round = 0; round < 2000; ++round) {
    pool.parallel_for(values.size(), [&](size_t chunk, int) { values[chunk] = round + chunk; });
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), uint64_t{0}), round * 64 + 63 * 32);
  }
}

TEST(ThreadPool, LanesThatRunTogetherDiffer) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> users(4);
  std::atomic<int> clashes{0};
  pool.parallel_for(2000, [&](size_t, int lane) {
    ASSERT_GE(lane, 0);
    ASSERT_LT(lane, 4);
    clashes += users[static_cast<size_t>(lane)].fetch_add(1) != 0 ? 1 : 0;
    users[static_cast<size_t>(lane)].fetch_sub(1);
  });
  EXPECT_EQ(clashes.load(), 0);
}

TEST(ThreadPool, NestedCallRunsInlineOnTheSameThread) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  pool.parallel_for(4, [&](size_t, int) {
    const auto thread = std::this_thread::get_id();
    pool.parallel_for(8, [&](size_t, int lane) {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      EXPECT_EQ(lane, 0);
      ++calls;
    });
  });
  EXPECT_EQ(calls.load(), 32);
}

TEST(ThreadPool, SeveralThreadsMaySubmitAtOnce) {
  ThreadPool pool(2);
  std::atomic<uint64_t> sum{0};
  std::vector<std::thread> submitters;
  for (int i = 0; i < 20; ++i) {
    submitters.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        pool.parallel_for(9, [&](size_t chunk, int) { sum += chunk; });
      }
    });
  }
  for (std::thread& submitter : submitters) {
    submitter.join();
  }
  EXPECT_EQ(sum.load(), 20u * 50u * 36u);
}

TEST(ThreadPool, SleepingWorkersWakeForTheNextJob) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // longer than a worker spins
    std::atomic<int> calls{0};
    pool.parallel_for(16, [&](size_t, int) { ++calls; });
    EXPECT_EQ(calls.load(), 16);
  }
}

TEST(ThreadPool, ForkedChildRunsChunksItselfAndEndsCleanly) {
  auto pool = std::make_unique<ThreadPool>(3);
  std::atomic<int> calls{0};
  pool->parallel_for(10, [&](size_t, int) { ++calls; });
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a hang ends the child with a signal
    std::atomic<int> in_child{0};
    pool->parallel_for(10, [&](size_t, int) { ++in_child; });
    pool.reset();
    _exit(in_child.load() == 10 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  pool->parallel_for(10, [&](size_t, int) { ++calls; });
  EXPECT_EQ(calls.load(), 20);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need address space
// std::thread's constructor throws where the system refuses a thread.
TEST(ThreadPool, RunsWithTheThreadsThatTheSystemAllows) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    const ThreadPool warm(1);
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 1;  // no stack for another thread
    setrlimit(RLIMIT_AS, &limit);
    ThreadPool pool(200);  // more than the stacks that the C library has kept
    std::atomic<int> calls{0};
    pool.parallel_for(10, [&](size_t, int) { ++calls; });
    _exit(pool.threads() < 200 && calls.load() == 10 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

TEST(ThreadCount, SettingWinsAndMustBeANumber) {
  EXPECT_EQ(choose_thread_count("3", "8").value(), 3);
  EXPECT_EQ(choose_thread_count("1024", "").value(), 1024);
  for (const char* bad : {"0", "-1", "two", "1025", "3 ", "99999999999"}) {
    const auto result = choose_thread_count(bad, "");
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_EQ(result.status().code(), NRT_INVALID);
    EXPECT_NE(result.status().message().find(bad), std::string_view::npos);
  }
}

TEST(ThreadCount, LocalRanksShareTheProcessorsAndEachGetsOne) {
  const int all = choose_thread_count("", "").value();
  EXPECT_GE(all, 1);
  EXPECT_EQ(choose_thread_count("", "1").value(), all);
  EXPECT_EQ(choose_thread_count("", "100000").value(), 1);
  EXPECT_EQ(choose_thread_count("", "nonsense").value(), all);
}

}  // namespace
}  // namespace onrt
