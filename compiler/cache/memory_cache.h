// SPDX-License-Identifier: Apache-2.0
// Compiled programs of this process, those used last; and one compilation a key at a time.
#pragma once

#include <sys/types.h>

#include <functional>
#include <list>
#include <memory>
#include <unordered_map>

#include "compiler/cache/entry.h"
#include "compiler/cache/key.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace onrt::cache {

using ProgramPtr = std::shared_ptr<const Program>;

struct MemoryLimits {
  uint64_t entries = 4096;
  uint64_t bytes = uint64_t{256} << 20;
};

struct MemoryCounters {
  uint64_t hits = 0;
  uint64_t waits = 0;  // of the hits: for a compilation that another thread had begun
  uint64_t evictions = 0;
  uint64_t entries = 0;
  uint64_t bytes = 0;
};

// Thread-safe.
class MemoryCache {
 public:
  explicit MemoryCache(MemoryLimits limits) : limits_(limits) {}
  MemoryCache(const MemoryCache&) = delete;
  MemoryCache& operator=(const MemoryCache&) = delete;

  struct Outcome {
    ProgramPtr program;
    bool was_kept;  // false: `make` made it
  };
  // The program of `key`, by `make` if it isn't here. Threads that ask for the same key meanwhile
  // wait for it and get its result or its failure; a failure is not kept. What `make` throws is
  // thrown here, and the others get a failure.
  Result<Outcome> get(const Key& key, const std::function<Result<ProgramPtr>()>& make);

  // Keeps a program that was made for another reason.
  void put(const Key& key, ProgramPtr program);

  MemoryCounters counters() const;

 private:
  struct Flight {
    pid_t process = 0;  // a child of fork() has no thread that would land it
    CondVar landed;
    bool is_done = false;  // this and `result`: guarded by mutex_
    Result<ProgramPtr> result{ProgramPtr()};
  };
  struct Row {
    Key key;
    ProgramPtr program;
  };

  void keep(const Key& key, ProgramPtr program) ONRT_REQUIRES(mutex_);
  void land(const Key& key, const std::shared_ptr<Flight>& flight, Result<ProgramPtr> result)
      ONRT_EXCLUDES(mutex_);

  const MemoryLimits limits_;
  mutable Mutex mutex_;
  std::list<Row> rows_ ONRT_GUARDED_BY(mutex_);  // those used last first
  std::unordered_map<Key, std::list<Row>::iterator, KeyHash> by_key_ ONRT_GUARDED_BY(mutex_);
  std::unordered_map<Key, std::shared_ptr<Flight>, KeyHash> flights_ ONRT_GUARDED_BY(mutex_);
  MemoryCounters counters_ ONRT_GUARDED_BY(mutex_);
};

}  // namespace onrt::cache
