// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <new>
#include <system_error>

#include "runtime/base/format.h"

namespace onrt {
namespace {

// Jobs of different threads that workers can help with at the same time. Further submitters run
// their chunks alone: by then there are more runnable threads than a pool is made for.
constexpr size_t kSlots = 16;

// A waiter looks this long before it sleeps in the kernel: a little more than a futex wake takes,
// so that back-to-back operations of one program find the workers awake.
constexpr std::chrono::microseconds kSpinTime{30};
constexpr int kPausesPerYield = 24;

thread_local bool tls_inside_chunk = false;

void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr,
          nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr,
          nullptr, 0);
}

// True as soon as `condition` holds, false when kSpinTime passed. Gives the processor away between
// looks: with more runnable threads than processors the awaited thread may need this one.
template <class Condition>
bool spin_until(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerYield; ++i) {
      if (condition()) {
        return true;
      }
      pause_processor();
    }
    sched_yield();
  } while (std::chrono::steady_clock::now() < deadline);
  return condition();
}

}  // namespace

// One job in flight. `ticket` is (job number << 32 | chunks not yet claimed); a claim decrements it
// by compare-and-swap. The other fields change only while no chunk is unclaimed, so a claim that
// succeeds proves that the fields read before it belong to the claimed job. Slots live as long as
// the pool: a late worker may look at a finished job.
struct alignas(64) ThreadPool::Slot {
  std::atomic<bool> taken{false};  // by a submitter
  std::atomic<uint64_t> ticket{0};
  std::atomic<void (*)(const void*, size_t, int)> call{nullptr};
  std::atomic<const void*> context{nullptr};
  std::atomic<size_t> end_chunk{0};
  alignas(64) std::atomic<uint32_t> unfinished{0};
  std::atomic<uint32_t> submitter_sleeps{0};
};

ThreadPool::ThreadPool(int threads) : owner_(getpid()), slots_(new Slot[kSlots]) {
  workers_.reserve(static_cast<size_t>(std::max(threads, 1) - 1));
  try {
    for (; threads_ < threads; ++threads_) {
      workers_.emplace_back([this, lane = threads_] { worker_main(lane); });
    }
  } catch (const std::system_error&) {
    return;  // the results are the same with fewer
  } catch (const std::bad_alloc&) {
    return;
  }
}

ThreadPool::~ThreadPool() {
  if (getpid() != owner_) {
    // The threads exist only in the parent; neither join nor detach is defined for them here.
    new std::vector<std::thread>(std::move(workers_));  // NOLINT: deliberately never freed
    return;
  }
  stop_.store(true);
  signal_.fetch_add(1);
  futex_wake(signal_, INT_MAX);
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

bool ThreadPool::inside_chunk() { return tls_inside_chunk; }

void ThreadPool::run(size_t chunks, Task task) {
  Slot* slot = nullptr;
  for (size_t i = 0; i < kSlots && slot == nullptr; ++i) {
    if (!slots_[i].taken.load(std::memory_order_relaxed) &&
        !slots_[i].taken.exchange(true, std::memory_order_acquire)) {
      slot = &slots_[i];
    }
  }
  if (slot == nullptr) {
    for (size_t chunk = 0; chunk < chunks; ++chunk) {
      task.call(task.context, chunk, 0);
    }
    return;
  }
  for (size_t first = 0; first < chunks;) {
    const auto count = static_cast<uint32_t>(std::min<size_t>(chunks - first, UINT32_MAX));
    run_in_slot(*slot, count, first, task);
    first += count;
  }
  slot->taken.store(false, std::memory_order_release);
}

void ThreadPool::run_in_slot(Slot& slot, uint32_t chunks, size_t first_chunk, Task task) {
  slot.call.store(task.call, std::memory_order_relaxed);
  slot.context.store(task.context, std::memory_order_relaxed);
  slot.end_chunk.store(first_chunk + chunks, std::memory_order_relaxed);
  slot.unfinished.store(chunks, std::memory_order_relaxed);
  const uint64_t job = (slot.ticket.load(std::memory_order_relaxed) >> 32) + 1;
  // Publishes the fields and what the caller wrote before; workers load it with acquire.
  slot.ticket.store(job << 32 | chunks, std::memory_order_release);
  // Sequentially consistent with the worker's `sleepers_` then `signal_`: either we see a sleeper
  // or it sees the new signal.
  signal_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) {
    futex_wake(signal_, static_cast<int>(std::min<uint32_t>(chunks - 1, INT_MAX)));
  }
  const uint32_t finished = work_on(slot, 0);
  if (slot.unfinished.fetch_sub(finished, std::memory_order_acq_rel) != finished) {
    wait_until_done(slot);
  }
}

// Claims and runs chunks until none is left; returns how many. The caller subtracts them from
// `unfinished`.
uint32_t ThreadPool::work_on(Slot& slot, int lane) {
  uint32_t finished = 0;
  uint64_t ticket = slot.ticket.load(std::memory_order_acquire);
  const uint64_t job = ticket >> 32;
  tls_inside_chunk = true;
  while (static_cast<uint32_t>(ticket) != 0 && ticket >> 32 == job) {
    const Task task{slot.call.load(std::memory_order_relaxed),
                    slot.context.load(std::memory_order_relaxed)};
    const size_t end_chunk = slot.end_chunk.load(std::memory_order_relaxed);
    if (slot.ticket.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
      task.call(task.context, end_chunk - static_cast<uint32_t>(ticket), lane);
      ++finished;
      ticket = slot.ticket.load(std::memory_order_acquire);
    }
  }
  tls_inside_chunk = false;
  return finished;
}

bool ThreadPool::work_on_any(int lane) {
  bool worked = false;
  for (size_t i = 0; i < kSlots; ++i) {
    Slot& slot = slots_[i];
    const uint32_t finished = work_on(slot, lane);
    if (finished == 0) {
      continue;
    }
    worked = true;
    // Sequentially consistent with the submitter's `submitter_sleeps` then `unfinished`.
    if (slot.unfinished.fetch_sub(finished, std::memory_order_seq_cst) == finished &&
        slot.submitter_sleeps.load(std::memory_order_seq_cst) != 0) {
      futex_wake(slot.unfinished, 1);
    }
  }
  return worked;
}

void ThreadPool::wait_until_done(Slot& slot) {
  const auto done = [&slot] { return slot.unfinished.load(std::memory_order_acquire) == 0; };
  if (spin_until(done)) {
    return;
  }
  slot.submitter_sleeps.store(1, std::memory_order_seq_cst);
  for (uint32_t left = slot.unfinished.load(std::memory_order_seq_cst); left != 0;
       left = slot.unfinished.load(std::memory_order_seq_cst)) {
    futex_wait(slot.unfinished, left);
  }
  slot.submitter_sleeps.store(0, std::memory_order_relaxed);
}

void ThreadPool::worker_main(int lane) {
  while (true) {
    // Read before the slots are looked at: a job published later changes it.
    const uint32_t seen = signal_.load(std::memory_order_seq_cst);
    if (stop_.load()) {
      return;
    }
    if (!work_on_any(lane)) {
      wait_for_signal(seen);
    }
  }
}

void ThreadPool::wait_for_signal(uint32_t seen) {
  if (spin_until([&] { return signal_.load(std::memory_order_acquire) != seen; })) {
    return;
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (signal_.load(std::memory_order_seq_cst) == seen) {
    futex_wait(signal_, seen);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

namespace {

int processors_of_this_process() {
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    if (set == nullptr) {
      return 1;
    }
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) {
      return std::max(count, 1);
    }
  }
  return 1;
}

// 0 when `text` is not a positive decimal number.
int parse_positive(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : 0;
}

}  // namespace

Result<int> choose_thread_count(std::string_view setting, std::string_view local_world_size) {
  if (!setting.empty()) {
    const int threads = parse_positive(setting);
    if (threads < 1 || threads > 1024) {
      return Status(NRT_INVALID,
                    format("OPENNRT_EMU_THREADS: expected a number of threads from 1 to 1024, "
                           "found '{}'",
                           setting));
    }
    return threads;
  }
  return std::max(processors_of_this_process() / std::max(parse_positive(local_world_size), 1), 1);
}

}  // namespace onrt
