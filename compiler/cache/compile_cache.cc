// SPDX-License-Identifier: Apache-2.0
#include "compiler/cache/compile_cache.h"

#include <utility>

#include "runtime/base/format.h"

namespace onrt::cache {

CompileCache::CompileCache(CacheOptions options) : memory_(options.memory) {
  if (options.folder.empty()) {
    return;
  }
  Result<std::unique_ptr<DiskCache>> disk =
      DiskCache::open(options.folder, std::move(options.disk));
  if (disk.ok()) {
    disk_ = std::move(disk).value();
    may_store_ = true;
  } else {
    const MutexLock lock(mutex_);
    problem_ = disk.status().message();
  }
}

std::string CompileCache::disk_problem() const {
  const MutexLock lock(mutex_);
  return problem_;
}

void CompileCache::tell_problem(Outcome& outcome) {
  const MutexLock lock(mutex_);
  if (!problem_.empty() && !std::exchange(problem_told_, true)) {
    outcome.remarks += format("compile cache: {}; compiling without it\n", problem_);
  }
}

void CompileCache::give_up_disk(const Status& reason, Outcome& outcome) {
  may_store_ = false;
  {
    const MutexLock lock(mutex_);
    if (problem_.empty()) {
      problem_ = reason.message();
    }
  }
  tell_problem(outcome);
}

Result<ProgramPtr> CompileCache::run(const Compile& compile, std::chrono::microseconds& time) {
  const auto start = std::chrono::steady_clock::now();
  Result<Program> made = compile();
  time = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                               start);
  if (!made.ok()) {
    ++failed_;
    return std::move(made).status();
  }
  ++compiled_;
  return ProgramPtr(std::make_shared<const Program>(std::move(made).value()));
}

void CompileCache::store(const EntryLock& lock, const Key& key, const Program& program,
                         const Labels& labels, Outcome& outcome) {
  const Status status = disk_->store(lock, key, program, labels);
  if (status.ok()) {
    ++stored_;
  } else {
    give_up_disk(status, outcome);
  }
}

std::optional<EntryLock> CompileCache::lock_entry(const Key& key, Outcome& outcome) {
  Result<EntryLock> lock = disk_->lock(key);
  if (lock.ok()) {
    return std::move(lock).value();
  }
  if (lock.status().code() == NRT_TIMEOUT) {
    outcome.remarks += format("compile cache: {}; compiling here too\n", lock.status().message());
  } else {
    give_up_disk(lock.status(), outcome);
  }
  return std::nullopt;
}

Result<ProgramPtr> CompileCache::from_disk(const Key& key, const Labels& labels,
                                           const Compile& compile, Outcome& outcome) {
  Labels timed = labels;
  if (disk_ == nullptr) {
    return run(compile, timed.compile_time);
  }
  const auto hit = [&](Program program) {
    ++disk_hits_;
    outcome.origin = Origin::kDisk;
    return ProgramPtr(std::make_shared<const Program>(std::move(program)));
  };
  if (DiskCache::Found found = disk_->find(key); found.program) {
    return hit(*std::move(found.program));
  }
  if (!may_store_) {
    return run(compile, timed.compile_time);
  }
  const std::optional<EntryLock> lock = lock_entry(key, outcome);
  if (!lock) {
    return run(compile, timed.compile_time);
  }
  DiskCache::Found found = disk_->find(key);  // by whom we waited for
  if (found.program) {
    return hit(*std::move(found.program));
  }
  if (!found.damage.empty()) {
    ++damaged_;
    outcome.remarks += format("compile cache: {}/{} is damaged ({}); compiled again\n",
                              disk_->path(), entry_name(key), found.damage);
  }
  ONRT_ASSIGN_OR_RETURN(ProgramPtr program, run(compile, timed.compile_time));
  store(*lock, key, *program, timed, outcome);
  return program;
}

Result<CompileCache::Outcome> CompileCache::get(const Key& key, const Labels& labels,
                                                const Compile& compile) {
  Outcome outcome;
  tell_problem(outcome);
  ONRT_ASSIGN_OR_RETURN(MemoryCache::Outcome got,
                        memory_.get(key, [&] { return from_disk(key, labels, compile, outcome); }));
  if (got.was_kept) {
    outcome.origin = Origin::kMemory;
  }
  outcome.program = std::move(got.program);
  return outcome;
}

Result<CompileCache::Outcome> CompileCache::renew(const Key& key, const Labels& labels,
                                                  const Compile& compile) {
  Outcome outcome;
  tell_problem(outcome);
  Labels timed = labels;
  ONRT_ASSIGN_OR_RETURN(outcome.program, run(compile, timed.compile_time));
  memory_.put(key, outcome.program);
  if (disk_ != nullptr && may_store_) {
    if (const std::optional<EntryLock> lock = lock_entry(key, outcome)) {
      store(*lock, key, *outcome.program, timed, outcome);
    }
  }
  return outcome;
}

Counters CompileCache::counters() const {
  Counters made;
  made.memory = memory_.counters();
  made.disk_hits = disk_hits_.load();
  made.compiled = compiled_.load();
  made.failed = failed_.load();
  made.stored = stored_.load();
  made.damaged = damaged_.load();
  made.disk_evictions = disk_ != nullptr ? disk_->evictions() : 0;
  return made;
}

}  // namespace onrt::cache
