// SPDX-License-Identifier: Apache-2.0
// Compiled programs in a folder that processes share:
//   <folder>/neuronxcc-<compiler>/MODULE_<graph>+<flags>/...   (entry.h)
// An entry appears by one rename and is used only if its digest is right, so neither a process that
// dies nor a full disk leaves one that is trusted. Entries of other programs in the same folder are
// left alone.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/cache/entry.h"
#include "compiler/cache/files.h"
#include "compiler/cache/key.h"
#include "compiler/cache/lock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace onrt::cache {

inline constexpr std::string_view kDefaultFolder = "/var/tmp/neuron-compile-cache";
inline constexpr uint64_t kNoLimit = ~uint64_t{0};

// OPENNRT_COMPILE_CACHE_SIZE of this process. NRT_INVALID for what is no size.
Result<uint64_t> disk_limit_of_environment();

struct DiskOptions {
  uint64_t limit_bytes = kNoLimit;
  std::string compiler{compiler_id()};
  std::chrono::milliseconds patience = std::chrono::minutes(10);  // for another process's compile
  std::function<void(std::string_view step)> at_step;             // tests: between steps of a store
};

// What else is kept beside a program.
struct Labels {
  std::string graph;
  std::vector<std::string> flags;  // "--target=trn2"
  std::chrono::microseconds compile_time{0};
};

struct DiskEntry {
  std::string folder;  // neuronxcc-...
  std::string name;    // MODULE_...
  EntryInfo info;      // empty if damaged
  std::string damage;  // why it is not used; "": it looks whole (the NEFF's digest is not checked)
  std::vector<std::string> flags;
  uint64_t bytes = 0;  // of all its files, in blocks
  uint64_t hits = 0;   // counted up to kMostHits
  int64_t used = 0;    // seconds since 1970; nanoseconds order entries in `used_ns`
  int64_t used_ns = 0;
};
// A file takes whole blocks of this size.
inline constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t blocks_of(uint64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}
inline constexpr uint64_t kMostHits = 65536;

struct Removed {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint64_t busy = 0;  // entries that stay because another process is compiling them
};

// Thread-safe. Holds no descriptor between calls: the folder may come and go.
class DiskCache {
 public:
  // Checks the folder and makes it if it is missing. Errors: see open_trusted_folder().
  static Result<std::unique_ptr<DiskCache>> open(std::string_view url, DiskOptions options);
  // For looking at a folder: it is not made.
  static Result<std::unique_ptr<DiskCache>> open_existing(std::string_view url,
                                                          DiskOptions options);

  struct Found {
    std::optional<Program> program;
    std::string damage;  // "": there is no entry
  };
  // Counts a hit. An entry that can't be read or whose digest is wrong is not found.
  Found find(const Key& key) const;

  // Keeps other processes from compiling the same; removes what a dead holder left.
  Result<EntryLock> lock(const Key& key) const;

  // Replaces an entry that is there. A program above the limit is not kept. Then removes the
  // entries that were used longest ago until the cache fits its limit.
  Status store(const EntryLock& lock, const Key& key, const Program& program, const Labels& labels);

  // Entries of every OpenNRT compiler, those used last first.
  Result<std::vector<DiskEntry>> list() const;
  // Errors: NRT_FAILURE if something can't be removed, e.g. because the folder is read-only.
  Result<Removed> clear();

  const std::string& path() const { return path_; }
  uint64_t limit() const { return options_.limit_bytes; }
  uint64_t evictions() const { return evictions_.load(); }

 private:
  DiskCache(std::string path, DiskOptions options)
      : path_(std::move(path)), options_(std::move(options)) {}

  std::string version_folder() const { return "neuronxcc-" + options_.compiler; }
  Result<UniqueFd> open_version(Absent absent) const;
  Status write_entry(int folder, const std::string& name, const Key& key, const Program& program,
                     const Labels& labels) const;
  void step(std::string_view name) const;
  Status keep_limit(uint64_t added);

  enum class Detail { kSizes, kAll };
  Result<std::vector<DiskEntry>> scan(Detail detail) const;
  // Bytes that are left: at most 7/8 of the limit if they were above it.
  Result<uint64_t> trim_if_above(uint64_t limit);

  const std::string path_;
  const DiskOptions options_;
  std::atomic<uint64_t> evictions_{0};  // a counter; no other data depends on it
  Mutex mutex_;
  uint64_t known_bytes_ ONRT_GUARDED_BY(mutex_) = kNoLimit;  // at the last scan, and our own since
  uint64_t added_bytes_ ONRT_GUARDED_BY(mutex_) = 0;         // our own since the last scan
};

}  // namespace onrt::cache
