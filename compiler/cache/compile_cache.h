// SPDX-License-Identifier: Apache-2.0
// Memory, then disk, then the compiler.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "compiler/cache/disk_cache.h"
#include "compiler/cache/memory_cache.h"

namespace onrt::cache {

enum class Origin { kCompiled, kMemory, kDisk };

struct Counters {
  MemoryCounters memory;
  uint64_t disk_hits = 0;
  uint64_t compiled = 0;
  uint64_t failed = 0;
  uint64_t stored = 0;   // entries written to the disk
  uint64_t damaged = 0;  // entries found damaged and replaced
  uint64_t disk_evictions = 0;
};

struct CacheOptions {
  MemoryLimits memory;
  std::string folder;  // path or URL; "": no disk cache
  DiskOptions disk;
};

// Thread-safe. The disk may fail in any way: compilation goes on without it.
class CompileCache {
 public:
  // Never fails: disk_problem() says why the disk isn't used.
  explicit CompileCache(CacheOptions options);

  struct Outcome {
    ProgramPtr program;
    Origin origin = Origin::kCompiled;
    std::string remarks;  // lines: why the disk isn't used (once), damage that was found
  };
  using Compile = std::function<Result<Program>()>;
  Result<Outcome> get(const Key& key, const Labels& labels, const Compile& compile);

  // Compiles even if the program is there, for what compilation does besides; keeps the result.
  Result<Outcome> renew(const Key& key, const Labels& labels, const Compile& compile);

  // Folder and reason; "": the disk is used, or nobody asked for it.
  std::string disk_problem() const;
  bool uses_disk() const { return disk_ != nullptr && disk_problem().empty(); }
  // Null without a disk cache.
  const DiskCache* disk() const { return disk_.get(); }
  Counters counters() const;

 private:
  Result<ProgramPtr> from_disk(const Key& key, const Labels& labels, const Compile& compile,
                               Outcome& outcome);
  Result<ProgramPtr> run(const Compile& compile, std::chrono::microseconds& time);
  void store(const EntryLock& lock, const Key& key, const Program& program, const Labels& labels,
             Outcome& outcome);
  // Nothing if it can't be had; remarks say why.
  std::optional<EntryLock> lock_entry(const Key& key, Outcome& outcome);
  // Nothing is stored from now on; told once.
  void give_up_disk(const Status& reason, Outcome& outcome);
  void tell_problem(Outcome& outcome);

  MemoryCache memory_;
  std::unique_ptr<DiskCache> disk_;  // null if the folder was no good from the start

  // Counters and a flag; no other data depends on their order.
  std::atomic<uint64_t> disk_hits_{0};
  std::atomic<uint64_t> compiled_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> stored_{0};
  std::atomic<uint64_t> damaged_{0};
  std::atomic<bool> may_store_{false};

  mutable Mutex mutex_;
  std::string problem_ ONRT_GUARDED_BY(mutex_);
  bool problem_told_ ONRT_GUARDED_BY(mutex_) = false;
};

}  // namespace onrt::cache
