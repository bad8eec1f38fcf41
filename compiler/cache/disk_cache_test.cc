// SPDX-License-Identifier: Apache-2.0
#include "compiler/cache/disk_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "compiler/cache/testing/folder.h"
#include "runtime/base/format.h"

namespace onrt::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<DiskCache> opened(const std::string& url, DiskOptions options = {}) {
  auto cache = DiskCache::open(url, std::move(options));
  EXPECT_TRUE(cache.ok()) << cache.status().message();
  return cache.ok() ? std::move(cache).value() : nullptr;
}

std::string refusal(const std::string& url) {
  const auto cache = DiskCache::open(url, {});
  EXPECT_FALSE(cache.ok()) << url;
  return std::string(cache.status().message());
}

Status store(DiskCache& cache, uint8_t number, size_t size = 100) {
  ONRT_ASSIGN_OR_RETURN(const EntryLock lock, cache.lock(test_key(number)));
  return cache.store(lock, test_key(number), test_program(number, size),
                     {"graph", {"--target=trn2"}, std::chrono::microseconds(5)});
}

bool holds(const DiskCache& cache, uint8_t number) {
  return cache.find(test_key(number)).program.has_value();
}

TEST(DiskCache, HasTheVendorsLayout) {
  const TestFolder folder;
  const auto cache = opened(folder.path(), {.compiler = "2.35.0+opennrt-aa"});
  ASSERT_TRUE(store(*cache, 0xab).ok());
  const std::string version = "neuronxcc-2.35.0+opennrt-aa";
  const std::string entry = version + "/MODULE_abababababababababababababababab+00000000";
  EXPECT_THAT(folder.tree(),
              ElementsAre(version, entry, entry + "/compile_flags.json", entry + "/model.done",
                          entry + "/model.hits", entry + "/model.neff"));
}

TEST(DiskCache, GivesBackWhatWasStored) {
  const TestFolder folder;
  const auto cache = opened(folder.path("not/there/yet"));
  EXPECT_FALSE(holds(*cache, 1));
  Program program = test_program(1, 100000);
  program.warnings = "line 1\nline \"2\"\n";
  {
    const auto lock = cache->lock(test_key(1));
    ASSERT_TRUE(lock.ok());
    ASSERT_TRUE(cache->store(*lock, test_key(1), program, {}).ok());
  }
  const auto again = opened("file://" + folder.path("not/there/yet/"));
  const DiskCache::Found found = again->find(test_key(1));
  ASSERT_TRUE(found.program.has_value());
  EXPECT_EQ(found.program->neff, program.neff);
  EXPECT_EQ(found.program->warnings, program.warnings);
  EXPECT_FALSE(holds(*again, 2));
}

TEST(DiskCache, AnotherCompilerFindsNothing) {
  const TestFolder folder;
  ASSERT_TRUE(store(*opened(folder.path(), {.compiler = "1+opennrt-a"}), 1).ok());
  EXPECT_FALSE(holds(*opened(folder.path(), {.compiler = "1+opennrt-b"}), 1));
}

TEST(DiskCache, ListsSizesHitsAndFlags) {
  const TestFolder folder;
  const auto cache = opened(folder.path());
  ASSERT_TRUE(store(*cache, 1, 5000).ok());
  ASSERT_TRUE(store(*cache, 2).ok());
  EXPECT_TRUE(holds(*cache, 1) && holds(*cache, 1));  // now used last
  const auto list = cache->list();
  ASSERT_TRUE(list.ok()) << list.status().message();
  ASSERT_EQ(list->size(), 2u);
  const DiskEntry& entry = (*list)[0];
  EXPECT_EQ(entry.name, entry_name(test_key(1)));
  EXPECT_EQ(entry.damage, "");
  EXPECT_EQ(entry.info.graph, "graph");
  EXPECT_EQ(entry.info.neff_bytes, 5000u);
  EXPECT_EQ(entry.info.compile_us, 5);
  EXPECT_EQ(entry.bytes, 5u * 4096);  // blocks: NEFF 2, done, flags, hits
  EXPECT_EQ(entry.hits, 2u);
  EXPECT_THAT(entry.flags, ElementsAre("--target=trn2"));
  EXPECT_EQ((*list)[1].hits, 0u);
}

TEST(DiskCache, EveryKindOfDamageIsAMissThatSaysWhy) {
  struct Case {
    std::string file;
    std::function<void(const std::string&)> harm;
    std::string reason;
  };
  const Case cases[] = {
      {"model.neff", [](auto& path) { std::filesystem::remove(path); }, "No such file"},
      {"model.neff", [](auto& path) { std::filesystem::resize_file(path, 99); }, "99"},
      {"model.neff", [](auto& path) { std::filesystem::resize_file(path, 0); }, "expected 100"},
      {"model.neff", [](auto& path) { std::filesystem::resize_file(path, uint64_t{1} << 40); },
       "at most 100"},
      {"model.neff", [](auto& path) { write_text(path, std::string(100, 'x')); }, "SHA-256"},
      {"model.neff",
       [](auto& path) {
         std::filesystem::remove(path);
         std::filesystem::create_symlink("/etc/passwd", path);
       },
       "model.neff"},
      {"model.neff",
       [](auto& path) {
         std::filesystem::remove(path);
         ::mkfifo(path.c_str(), 0600);
       },
       "regular file"},
      {"model.done", [](auto& path) { std::filesystem::remove(path); }, "model.done"},
      {"model.done", [](auto& path) { std::filesystem::resize_file(path, 0); }, "model.done"},
      {"model.done", [](auto& path) { std::filesystem::resize_file(path, 100); }, "model.done"},
      {"model.done", [](auto& path) { std::filesystem::resize_file(path, 2 << 20); }, "at most"},
  };
  for (const Case& each : cases) {
    const TestFolder folder;
    const auto cache = opened(folder.path());
    ASSERT_TRUE(store(*cache, 1).ok());
    each.harm(folder.find(each.file));
    const DiskCache::Found found = cache->find(test_key(1));
    EXPECT_FALSE(found.program.has_value()) << each.reason;
    EXPECT_THAT(found.damage, HasSubstr(each.reason));
    ASSERT_TRUE(store(*cache, 1).ok());  // in its place
    EXPECT_TRUE(holds(*cache, 1)) << each.reason;
    EXPECT_EQ(folder.tree().size(), 6u);
  }
}

// Names are cut: two keys may have one name, never one entry.
TEST(DiskCache, AnEntryOfAnotherKeyIsNotTaken) {
  const TestFolder folder;
  const auto cache = opened(folder.path());
  ASSERT_TRUE(store(*cache, 1).ok());
  Key other = test_key(1);
  other.graph[31] ^= 1;
  ASSERT_EQ(entry_name(other), entry_name(test_key(1)));
  EXPECT_THAT(cache->find(other).damage, HasSubstr("another key"));
}

TEST(DiskCache, RemovesWhatWasUsedLongestAgoAboveItsLimit) {
  const TestFolder folder;
  // An entry of 100 bytes takes three blocks of 4096, and one more when it has been used.
  const auto cache = opened(folder.path(), {.limit_bytes = 26 * 4096});
  for (uint8_t number = 1; number <= 8; ++number) {
    ASSERT_TRUE(store(*cache, number).ok());
    EXPECT_TRUE(holds(*cache, 1));  // stays in use
  }
  EXPECT_EQ(cache->evictions(), 0u);
  ASSERT_TRUE(store(*cache, 9).ok());
  EXPECT_EQ(cache->evictions(), 2u);  // down to 7/8
  for (const uint8_t number : {1, 4, 5, 6, 7, 8, 9}) {
    EXPECT_TRUE(holds(*cache, number)) << int{number};
  }
  EXPECT_FALSE(holds(*cache, 2) || holds(*cache, 3));
}

TEST(DiskCache, EvictsEntriesOfOlderCompilersAndLeavesTheVendors) {
  const TestFolder folder;
  const std::string vendors = folder.path("neuronxcc-2.15.128.0+56dc5a86/MODULE_0b06+39f12043");
  std::filesystem::create_directories(vendors);
  write_text(vendors + "/model.neff", std::string(100000, 'v'));
  ASSERT_TRUE(store(*opened(folder.path(), {.compiler = "1+opennrt-a"}), 1).ok());
  const auto cache = opened(folder.path(), {.limit_bytes = 12288, .compiler = "2+opennrt-b"});
  ASSERT_TRUE(store(*cache, 2).ok());
  EXPECT_EQ(cache->evictions(), 1u);
  EXPECT_TRUE(holds(*cache, 2));
  const auto cleared = cache->clear();
  ASSERT_TRUE(cleared.ok());
  EXPECT_EQ(cleared->entries, 1u);
  EXPECT_EQ(cleared->bytes, 4u * 4096);
  EXPECT_THAT(folder.tree(),
              ElementsAre("neuronxcc-2.15.128.0+56dc5a86",
                          "neuronxcc-2.15.128.0+56dc5a86/MODULE_0b06+39f12043",
                          "neuronxcc-2.15.128.0+56dc5a86/MODULE_0b06+39f12043/model.neff"));
}

TEST(DiskCache, AProgramAboveTheLimitIsNotKept) {
  const TestFolder folder;
  const auto cache = opened(folder.path(), {.limit_bytes = 1000});
  ASSERT_TRUE(store(*cache, 1, 1001).ok());
  EXPECT_FALSE(holds(*cache, 1));
}

TEST(DiskCache, TheLimitComesFromTheEnvironment) {
  ::unsetenv("OPENNRT_COMPILE_CACHE_SIZE");
  EXPECT_EQ(*disk_limit_of_environment(), uint64_t{4} << 30);
  ::setenv("OPENNRT_COMPILE_CACHE_SIZE", "10M", 1);
  EXPECT_EQ(*disk_limit_of_environment(), uint64_t{10} << 20);
  ::setenv("OPENNRT_COMPILE_CACHE_SIZE", "0", 1);
  EXPECT_EQ(*disk_limit_of_environment(), kNoLimit);
  ::setenv("OPENNRT_COMPILE_CACHE_SIZE", "plenty", 1);
  EXPECT_THAT(std::string(disk_limit_of_environment().status().message()), HasSubstr("plenty"));
  ::unsetenv("OPENNRT_COMPILE_CACHE_SIZE");
}

TEST(DiskCache, ClearingLeavesWhatIsBeingCompiled) {
  const TestFolder folder;
  const auto cache = opened(folder.path());
  ASSERT_TRUE(store(*cache, 1).ok());
  ASSERT_TRUE(store(*cache, 2).ok());
  const auto lock = cache->lock(test_key(2));
  ASSERT_TRUE(lock.ok());
  const auto cleared = cache->clear();
  ASSERT_TRUE(cleared.ok());
  EXPECT_EQ(cleared->entries, 1u);
  EXPECT_EQ(cleared->busy, 1u);
  EXPECT_TRUE(holds(*cache, 2));
}

TEST(DiskCache, TheFolderMayGoAndComeBack) {
  const TestFolder folder;
  const auto cache = opened(folder.path("cache"));
  ASSERT_TRUE(store(*cache, 1).ok());
  std::filesystem::remove_all(folder.path("cache"));
  EXPECT_FALSE(holds(*cache, 1));
  ASSERT_TRUE(store(*cache, 1).ok());
  EXPECT_TRUE(holds(*cache, 1));
}

TEST(DiskCacheFolder, RefusesBucketsAndOtherUrls) {
  EXPECT_THAT(refusal("s3://bucket/cache"),
              AllOf(HasSubstr("s3://bucket/cache"), HasSubstr("not supported")));
  EXPECT_THAT(refusal("gs://bucket"), HasSubstr("not supported"));
  EXPECT_THAT(refusal("file://relative"), HasSubstr("absolute"));
  EXPECT_THAT(refusal(""), HasSubstr("name of a folder"));
}

TEST(DiskCacheFolder, RefusesAFile) {
  const TestFolder folder;
  write_text(folder.path("file"), "");
  EXPECT_THAT(refusal(folder.path("file")), HasSubstr("Not a directory"));
  EXPECT_THAT(refusal(folder.path("file/cache")), HasSubstr(folder.path("file")));
}

TEST(DiskCacheFolder, RefusesWhatEverybodyMayWrite) {
  const TestFolder folder;
  ::chmod(folder.path().c_str(), 01777);
  EXPECT_THAT(refusal(folder.path()), AllOf(HasSubstr(folder.path()), HasSubstr("everybody")));
  ::chmod(folder.path().c_str(), 0775);
  const auto cache = opened(folder.path());
  ASSERT_TRUE(store(*cache, 1).ok());
  ::chmod(folder.path("neuronxcc-" + std::string(compiler_id())).c_str(), 0777);
  EXPECT_FALSE(holds(*cache, 1));
  EXPECT_THAT(std::string(cache->lock(test_key(2)).status().message()), HasSubstr("everybody"));
}

TEST(DiskCacheFolder, MakesNothingThatOthersMayWrite) {
  const TestFolder folder;
  const mode_t mask = ::umask(0);
  const auto cache = opened(folder.path("a/cache"));
  EXPECT_TRUE(store(*cache, 1).ok());
  ::umask(mask);
  for (const std::string& name : folder.tree()) {
    struct stat info{};
    ASSERT_EQ(::lstat(folder.path(name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & S_IWOTH, 0u) << name;
  }
}

TEST(DiskCacheFolder, RefusesAnotherUsersFolderAndLink) {
  constexpr uid_t kStranger = 12345;
  const TestFolder folder;
  std::filesystem::create_directory(folder.path("theirs"));
  std::filesystem::create_directory(folder.path("ours"));
  std::filesystem::create_symlink(folder.path("ours"), folder.path("link"));
  std::filesystem::create_symlink(folder.path("ours"), folder.path("our_link"));
  if (::chown(folder.path("theirs").c_str(), kStranger, static_cast<gid_t>(-1)) != 0 ||
      ::lchown(folder.path("link").c_str(), kStranger, static_cast<gid_t>(-1)) != 0) {
    GTEST_SKIP() << "only root can give a folder to another user";
  }
  EXPECT_THAT(refusal(folder.path("theirs")),
              AllOf(HasSubstr(folder.path("theirs")), HasSubstr("belongs to user 12345")));
  EXPECT_THAT(refusal(folder.path("link")), HasSubstr("is a link of user 12345"));
  EXPECT_NE(opened(folder.path("our_link")), nullptr);
}

// Somebody who may write in the folder has put links where ours would be.
TEST(DiskCacheFolder, FollowsNoLinksBelowTheFolder) {
  const TestFolder folder;
  const TestFolder victim;
  const auto cache = opened(folder.path());
  std::filesystem::create_symlink(victim.path(),
                                  folder.path("neuronxcc-" + std::string(compiler_id())));
  EXPECT_FALSE(store(*cache, 1).ok());
  std::filesystem::remove(folder.path("neuronxcc-" + std::string(compiler_id())));
  ASSERT_TRUE(store(*cache, 1).ok());
  const std::string version = folder.path("neuronxcc-" + std::string(compiler_id()));
  std::filesystem::remove_all(version + "/" + entry_name(test_key(1)));
  std::filesystem::create_symlink(victim.path(), version + "/" + entry_name(test_key(1)));
  std::filesystem::create_symlink(victim.path(),
                                  version + "/" + temporary_name(entry_name(test_key(2))));
  std::filesystem::create_symlink(victim.path("lock"),
                                  version + "/" + lock_file_name(entry_name(test_key(3))));
  EXPECT_FALSE(holds(*cache, 1));
  EXPECT_TRUE(store(*cache, 1).ok());
  EXPECT_TRUE(store(*cache, 2).ok());
  EXPECT_FALSE(store(*cache, 3).ok());
  EXPECT_TRUE(holds(*cache, 1) && holds(*cache, 2));
  EXPECT_THAT(victim.tree(), ElementsAre());
}

TEST(EntryLock, IsExclusiveAndLeavesNoFile) {
  const TestFolder folder;
  const UniqueFd fd(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY));
  {
    const auto held = EntryLock::take(fd.get(), "MODULE_a", std::chrono::milliseconds(0));
    ASSERT_TRUE(held.ok());
    const auto other = EntryLock::take(fd.get(), "MODULE_a", std::chrono::milliseconds(3));
    ASSERT_FALSE(other.ok());
    EXPECT_EQ(other.status().code(), NRT_TIMEOUT);
    EXPECT_TRUE(EntryLock::take(fd.get(), "MODULE_b", std::chrono::milliseconds(0)).ok());
  }
  EXPECT_THAT(folder.tree(), ElementsAre());
  EXPECT_TRUE(EntryLock::take(fd.get(), "MODULE_a", std::chrono::milliseconds(0)).ok());
}

}  // namespace
}  // namespace onrt::cache
