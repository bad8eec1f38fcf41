// SPDX-License-Identifier: Apache-2.0
// Memory, disk and compiler together; threads, processes and what may go wrong on the disk.
#include "compiler/cache/compile_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <thread>

#include "compiler/cache/testing/folder.h"

namespace onrt::cache {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

CacheOptions on_disk(const std::string& folder) {
  CacheOptions options;
  options.folder = folder;
  return options;
}

struct Got {
  Origin origin = Origin::kCompiled;
  std::string remarks;
  bool is_right = false;
  std::string failure;
};

Got get(CompileCache& cache, uint8_t number, const std::function<void()>& meanwhile = {}) {
  const auto outcome = cache.get(test_key(number), {}, [&]() -> Result<Program> {
    if (meanwhile) {
      meanwhile();
    }
    return test_program(number);
  });
  if (!outcome.ok()) {
    return {{}, {}, false, std::string(outcome.status().message())};
  }
  return {outcome->origin, outcome->remarks, outcome->program->neff == test_program(number).neff,
          ""};
}

TEST(CompileCache, LooksInMemoryThenOnDiskThenCompiles) {
  const TestFolder folder;
  CompileCache cache(on_disk(folder.path()));
  EXPECT_EQ(get(cache, 1).origin, Origin::kCompiled);
  EXPECT_EQ(get(cache, 1).origin, Origin::kMemory);
  CompileCache next(on_disk(folder.path()));
  const Got got = get(next, 1);
  EXPECT_EQ(got.origin, Origin::kDisk);
  EXPECT_TRUE(got.is_right);
  EXPECT_EQ(get(next, 1).origin, Origin::kMemory);
  EXPECT_EQ(next.counters().disk_hits, 1u);
  EXPECT_EQ(next.counters().compiled, 0u);
  EXPECT_EQ(cache.counters().stored, 1u);
  EXPECT_TRUE(cache.uses_disk());
}

TEST(CompileCache, WithoutFolderUsesNoDisk) {
  CompileCache cache({});
  EXPECT_EQ(get(cache, 1).origin, Origin::kCompiled);
  EXPECT_EQ(get(cache, 1).origin, Origin::kMemory);
  EXPECT_FALSE(cache.uses_disk());
  EXPECT_EQ(cache.disk_problem(), "");
}

TEST(CompileCache, KeepsNoFailure) {
  const TestFolder folder;
  CompileCache cache(on_disk(folder.path()));
  const auto failed = cache.get(test_key(1), {}, []() -> Result<Program> {
    return Status(NRT_INVALID, "opcode 'x' is not supported");
  });
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().message(), "opcode 'x' is not supported");
  EXPECT_EQ(folder.tree().size(), 1u);  // the compiler's folder alone
  EXPECT_EQ(get(cache, 1).origin, Origin::kCompiled);
  EXPECT_EQ(cache.counters().failed, 1u);
}

TEST(CompileCache, RenewingCompilesAndReplaces) {
  const TestFolder folder;
  CompileCache cache(on_disk(folder.path()));
  get(cache, 1);
  const auto renewed =
      cache.renew(test_key(1), {}, []() -> Result<Program> { return test_program(2); });
  ASSERT_TRUE(renewed.ok());
  EXPECT_EQ(renewed->origin, Origin::kCompiled);
  for (int i = 0; i < 2; ++i) {
    CompileCache next(on_disk(folder.path()));
    const auto got = (i == 0 ? cache : next).get(test_key(1), {}, []() -> Result<Program> {
      return Status(NRT_FAILURE, "not needed");
    });
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got->program->neff, test_program(2).neff);
  }
}

TEST(CompileCache, DamageIsToldAndRepaired) {
  const TestFolder folder;
  CompileCache first(on_disk(folder.path()));
  get(first, 1);
  write_text(folder.find("model.neff"), "nonsense");
  CompileCache cache(on_disk(folder.path()));
  const Got got = get(cache, 1);
  EXPECT_EQ(got.origin, Origin::kCompiled);
  EXPECT_TRUE(got.is_right);
  EXPECT_THAT(got.remarks, AllOf(HasSubstr("damaged"), HasSubstr("found 8")));
  EXPECT_EQ(cache.counters().damaged, 1u);
  CompileCache next(on_disk(folder.path()));
  EXPECT_EQ(get(next, 1).origin, Origin::kDisk);
}

TEST(CompileCache, EightThreadsOfOneKeyCompileOnce) {
  const TestFolder folder;
  CompileCache cache(on_disk(folder.path()));
  std::atomic<int> compilations{0};
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { right += get(cache, 1, [&] { ++compilations; }).is_right ? 1 : 0; });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(compilations, 1);
  EXPECT_EQ(right, 8);
}

// The child compiles until the parent waits for it: the parent's first look was a miss.
TEST(CompileCache, TwoProcessesCompileOnce) {
  const TestFolder folder;
  const std::string started = folder.path("started");
  const std::string cache_folder = folder.path("cache");
  const pid_t child = start_child([&] {
    CompileCache cache(on_disk(cache_folder));
    const Got got = get(cache, 1, [&] {
      write_text(started, "");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    });
    return got.origin == Origin::kCompiled && got.remarks.empty() ? 0 : 1;
  });
  while (!std::filesystem::exists(started)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CompileCache cache(on_disk(cache_folder));
  const Got got = get(cache, 1);
  EXPECT_EQ(got.origin, Origin::kDisk);
  EXPECT_TRUE(got.is_right);
  EXPECT_EQ(wait_for(child), 0);
}

TEST(CompileCache, FourProcessesOfManyKeysCompileEachOnce) {
  const TestFolder folder;
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(start_child([&, i] {
      CompileCache cache(on_disk(folder.path("cache")));
      for (int j = 0; j < 24; ++j) {
        const auto number = static_cast<uint8_t>((j + i * 6) % 24);
        const Got got = get(cache, number, [&] {
          std::ofstream(folder.path("log"), std::ios::app) << "x" << std::flush;
        });
        if (!got.is_right || !got.remarks.empty()) {
          return 1;
        }
      }
      return 0;
    }));
  }
  for (const pid_t child : children) {
    EXPECT_EQ(wait_for(child), 0);
  }
  EXPECT_EQ(std::filesystem::file_size(folder.path("log")), 24u);
}

// Killed while it compiles and at every step of writing the entry.
TEST(CompileCache, AfterAKilledProcessTheNextCompilesAndNothingIsLeft) {
  for (const std::string step :
       {"compile", "locked", "made", "neff", "done", "removed", "renamed"}) {
    SCOPED_TRACE(step);
    const TestFolder folder;
    const auto die = [] { ::kill(::getpid(), SIGKILL); };
    const pid_t child = start_child([&] {
      CacheOptions options = on_disk(folder.path());
      options.disk.at_step = [&](std::string_view at) {
        if (at == step) {
          die();
        }
      };
      CompileCache cache(options);
      get(cache, 1, [&] {
        if (step == "compile") {
          die();
        }
      });
      return 0;
    });
    ASSERT_EQ(wait_for(child), 1000 + SIGKILL);
    CompileCache cache(on_disk(folder.path()));
    const Got got = get(cache, 1);
    EXPECT_EQ(got.origin, step == "renamed" ? Origin::kDisk : Origin::kCompiled);
    EXPECT_TRUE(got.is_right);
    EXPECT_EQ(got.remarks, "");
    ASSERT_TRUE(cache.disk()->list().ok());  // looks at locks of the dead as well
    EXPECT_EQ(folder.tree().size(), 6u);
  }
}

// Nobody asks for the dead process's entry again.
TEST(CompileCache, ListingRemovesWhatTheDeadLeft) {
  const TestFolder folder;
  const pid_t child = start_child([&] {
    CacheOptions options = on_disk(folder.path());
    options.disk.at_step = [&](std::string_view at) {
      if (at == "neff") {
        ::kill(::getpid(), SIGKILL);
      }
    };
    CompileCache cache(options);
    get(cache, 1);
    return 0;
  });
  ASSERT_EQ(wait_for(child), 1000 + SIGKILL);
  EXPECT_EQ(folder.tree().size(), 4u);
  const auto cache = DiskCache::open(folder.path(), {});
  ASSERT_TRUE((*cache)->list().ok());
  EXPECT_EQ(folder.tree().size(), 1u);
}

// The holder dies while the other waits.
TEST(CompileCache, TheWaiterTakesOver) {
  const TestFolder folder;
  const std::string started = folder.path("started");
  const pid_t child = start_child([&] {
    CompileCache cache(on_disk(folder.path("cache")));
    get(cache, 1, [&] {
      write_text(started, "");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      ::kill(::getpid(), SIGKILL);
    });
    return 0;
  });
  while (!std::filesystem::exists(started)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CompileCache cache(on_disk(folder.path("cache")));
  EXPECT_EQ(get(cache, 1).origin, Origin::kCompiled);
  EXPECT_EQ(wait_for(child), 1000 + SIGKILL);
  EXPECT_EQ(cache.counters().stored, 1u);
}

TEST(CompileCache, PatienceEnds) {
  const TestFolder folder;
  const auto holder = DiskCache::open(folder.path(), {});
  const auto lock = (*holder)->lock(test_key(1));
  ASSERT_TRUE(lock.ok());
  CacheOptions options = on_disk(folder.path());
  options.disk.patience = std::chrono::milliseconds(5);
  CompileCache cache(options);
  const Got got = get(cache, 1);
  EXPECT_EQ(got.origin, Origin::kCompiled);
  EXPECT_THAT(got.remarks, HasSubstr("locked by another process"));
  EXPECT_TRUE(cache.uses_disk());
}

// Waiting for a thread that fork() did not take along would never end.
TEST(CompileCache, AForkedChildDoesNotWaitForItsParentsThreads) {
  CompileCache cache({});
  int status = -1;
  get(cache, 1,
      [&] { status = wait_for(start_child([&] { return get(cache, 1).is_right ? 0 : 1; })); });
  EXPECT_EQ(status, 0);
}

TEST(CompileCache, AnUnusableFolderIsToldOnce) {
  const TestFolder folder;
  write_text(folder.path("file"), "");
  for (const std::string& url : {folder.path("file"), std::string("s3://bucket/cache")}) {
    CompileCache cache(on_disk(url));
    EXPECT_FALSE(cache.uses_disk());
    EXPECT_THAT(cache.disk_problem(), HasSubstr(url));
    const Got got = get(cache, 1);
    EXPECT_TRUE(got.is_right);
    EXPECT_THAT(got.remarks, AllOf(HasSubstr(url), HasSubstr("compiling without it")));
    EXPECT_EQ(get(cache, 2).remarks, "");
  }
}

// Above `ulimit -f` the kernel would end the process.
TEST(CompileCache, AFileSizeLimitIsToldAndKillsNobody) {
  const TestFolder folder;
  const int status = wait_for(start_child([&] {
    const rlimit limit = {4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) {
      return 1;
    }
    CompileCache cache(on_disk(folder.path()));
    const auto outcome =
        cache.get(test_key(1), {}, []() -> Result<Program> { return test_program(1, 5000); });
    return outcome.ok() && outcome->remarks.find("without it") != std::string::npos ? 0 : 2;
  }));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(folder.tree().size(), 1u);
}

// A user and mount namespace of its own for this process; same user and group.
bool enter_own_mounts() {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return false;
  }
  write_text("/proc/self/uid_map", user + " " + user + " 1");
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/gid_map", group + " " + group + " 1");
  return true;
}

constexpr int kNotAllowed = 77;

TEST(CompileCacheDisk, AFullDiskIsToldOnceAndLeavesNothing) {
  const TestFolder folder;
  const int status = wait_for(start_child([&] {
    if (!enter_own_mounts() ||
        ::mount("none", folder.path().c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) {
      return kNotAllowed;
    }
    CompileCache cache(on_disk(folder.path("cache")));
    if (!get(cache, 1).remarks.empty()) {
      return 1;
    }
    const auto before = folder.tree();
    const auto outcome =
        cache.get(test_key(2), {}, []() -> Result<Program> { return test_program(2, 1 << 20); });
    if (!outcome.ok() || outcome->program->neff.size() != 1 << 20 ||
        outcome->remarks.find("No space left") == std::string::npos ||
        outcome->remarks.find(folder.path("cache")) == std::string::npos) {
      return 2;
    }
    if (folder.tree() != before || !get(cache, 3).remarks.empty() || folder.tree() != before) {
      return 3;
    }
    // What is there is still used.
    CompileCache next(on_disk(folder.path("cache")));
    return get(next, 1).origin == Origin::kDisk ? 0 : 4;
  }));
  if (status == kNotAllowed) {
    GTEST_SKIP() << "user namespaces with mounts are not allowed here";
  }
  EXPECT_EQ(status, 0);
}

TEST(CompileCacheDisk, AReadOnlyFolderGivesHits) {
  const TestFolder folder;
  const int status = wait_for(start_child([&] {
    if (!enter_own_mounts() ||
        ::mount("none", folder.path().c_str(), "tmpfs", 0, "size=1m,mode=0700") != 0) {
      return kNotAllowed;
    }
    {
      CompileCache cache(on_disk(folder.path("cache")));
      get(cache, 1);
    }
    if (::mount("none", folder.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") != 0) {
      return kNotAllowed;
    }
    CompileCache cache(on_disk(folder.path("cache")));
    const Got hit = get(cache, 1);
    if (hit.origin != Origin::kDisk || !hit.remarks.empty()) {
      return 1;
    }
    const Got miss = get(cache, 2);
    if (!miss.is_right || miss.remarks.find("Read-only file system") == std::string::npos) {
      return 2;
    }
    CompileCache absent(on_disk(folder.path("absent")));
    return get(absent, 1).remarks.find("Read-only") != std::string::npos &&
                   get(cache, 3).remarks.empty()
               ? 0
               : 3;
  }));
  if (status == kNotAllowed) {
    GTEST_SKIP() << "user namespaces with mounts are not allowed here";
  }
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace onrt::cache
