// SPDX-License-Identifier: Apache-2.0
#include "compiler/cache/memory_cache.h"

#include <unistd.h>

#include <utility>

namespace onrt::cache {

Result<MemoryCache::Outcome> MemoryCache::get(const Key& key,
                                              const std::function<Result<ProgramPtr>()>& make) {
  std::shared_ptr<Flight> flight;
  {
    const MutexLock lock(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      rows_.splice(rows_.begin(), rows_, found->second);
      ++counters_.hits;
      return Outcome{found->second->program, true};
    }
    std::shared_ptr<Flight>& entry = flights_[key];
    if (entry != nullptr && entry->process == ::getpid()) {
      flight = entry;
      while (!flight->is_done) {
        flight->landed.wait(mutex_);
      }
      if (!flight->result.ok()) {
        return flight->result.status();
      }
      ++counters_.hits;
      ++counters_.waits;
      return Outcome{*flight->result, true};
    }
    flight = entry = std::make_shared<Flight>();
    flight->process = ::getpid();
  }
  try {
    Result<ProgramPtr> made = make();
    land(key, flight, made);
    if (!made.ok()) {
      return std::move(made).status();
    }
    return Outcome{std::move(made).value(), false};
  } catch (...) {
    land(key, flight, Status(NRT_RESOURCE, "the compilation was given up; out of host memory?"));
    throw;
  }
}

void MemoryCache::land(const Key& key, const std::shared_ptr<Flight>& flight,
                       Result<ProgramPtr> result) {
  const MutexLock lock(mutex_);
  flights_.erase(key);
  flight->result = std::move(result);
  flight->is_done = true;
  flight->landed.notify_all();
  if (flight->result.ok()) {
    keep(key, *flight->result);
  }
}

void MemoryCache::put(const Key& key, ProgramPtr program) {
  const MutexLock lock(mutex_);
  keep(key, std::move(program));
}

void MemoryCache::keep(const Key& key, ProgramPtr program) {
  if (limits_.entries == 0 || program->bytes() > limits_.bytes) {
    return;
  }
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    counters_.bytes -= found->second->program->bytes();
    rows_.erase(found->second);
    by_key_.erase(found);
  }
  counters_.bytes += program->bytes();
  rows_.push_front({key, std::move(program)});
  by_key_[key] = rows_.begin();
  while (rows_.size() > limits_.entries || counters_.bytes > limits_.bytes) {
    counters_.bytes -= rows_.back().program->bytes();
    by_key_.erase(rows_.back().key);
    rows_.pop_back();
    ++counters_.evictions;
  }
}

MemoryCounters MemoryCache::counters() const {
  const MutexLock lock(mutex_);
  MemoryCounters made = counters_;
  made.entries = rows_.size();
  return made;
}

}  // namespace onrt::cache
