// SPDX-License-Identifier: Apache-2.0
// Tasks of several threads, run one after the other in the order in which they were pushed. Who
// runs them: a worker thread, and whoever waits for one while the worker sleeps, so that a lone
// task costs no switch of threads. Few tasks wake nobody: they are run when somebody waits.
#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tnx {

// Task: default-constructible; slots are reused, so what a fill leaves alone is an older task's.
// Thread-safe. Invariants: done <= pushed <= done + capacity; one thread at a time has the role of
// the runner (`running_`), and only it moves `done_`.
template <class Task>
class WorkQueue {
 public:
  // Runs a task. May throw: the tasks behind are then dropped (`run(task, true)`) until the error
  // was taken. Called without locks.
  using Run = void (*)(Task& task, bool dropped);

  WorkQueue(Run run, bool with_worker, size_t capacity = 1024)
      : run_(run), with_worker_(with_worker), slots_(capacity) {}
  ~WorkQueue() { stop(); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Calls fill(slot) and queues it; gives the task's number, from 1. `urgent`: worth waking the
  // worker for. Waits while the queue is full. Throws an earlier task's error. After stop() nothing
  // is queued.
  template <class Fill>
  uint64_t push(bool urgent, Fill&& fill) {
    if (failed_.load(std::memory_order_relaxed)) {
      wait_all();
    }
    std::unique_lock lock(push_mutex_);
    while (pushed_.load(std::memory_order_relaxed) - done_.load() >= slots_.size()) {
      const uint64_t enough = pushed_.load() - slots_.size() / 2;
      lock.unlock();
      run_until(enough);
      lock.lock();
    }
    if (stopped_.load()) {
      return done_.load();
    }
    const uint64_t number = pushed_.load(std::memory_order_relaxed) + 1;
    fill(slots_[number % slots_.size()]);
    pushed_.store(number);
    lock.unlock();
    const uint64_t depth = number - done_.load(std::memory_order_relaxed);
    if (with_worker_ && (urgent || depth >= kFew) && sleeping_.load()) {
      wake();
    }
    return number;
  }

  // Until the task is done. Throws the error of a task.
  void wait(uint64_t number) {
    run_until(number);
    throw_error();
  }
  void wait_all() { wait(pushed_.load()); }
  // Until what was pushed is done; an error stays where it is.
  void drain() { run_until(pushed_.load()); }

  uint64_t pushed() const { return pushed_.load(); }
  uint64_t done() const { return done_.load(std::memory_order_acquire); }
  bool idle() const { return pushed_.load() == done_.load(); }

  // Makes that tasks are run even if nobody waits for them.
  void hurry() {
    if (idle()) {
      return;
    }
    if (with_worker_) {
      wake();
    } else {
      run_until(pushed_.load());
    }
  }

  // Waits for the task that is running and drops the others; nothing runs afterwards.
  void stop() {
    {
      const std::lock_guard lock(push_mutex_);
      stopped_.store(true);
    }
    wake();
    if (worker_.joinable()) {
      worker_.join();
    }
    run_until(pushed_.load());
  }

 private:
  static constexpr uint64_t kFew = 4;
  // A worker without work looks for some for this long before it sleeps: a wake-up takes 5 to
  // 30 us, and the next operation of a Python program comes sooner.
  static constexpr std::chrono::microseconds kLook{60};
  static constexpr int kYields = 200;  // of who waits for a running task, before it sleeps
  static constexpr uint64_t kNobody = ~uint64_t{0};

  // Runs tasks up to `number`, if nobody else is about it.
  bool try_run(uint64_t number) {
    bool free = false;
    if (!running_.compare_exchange_strong(free, true)) {
      return false;
    }
    uint64_t next = done_.load() + 1;
    while (next <= pushed_.load() && next <= number) {
      run_one(slots_[next % slots_.size()]);
      done_.store(next);
      if (next >= wanted_.load()) {
        notify_waiting();
      }
      ++next;
    }
    running_.store(false);
    if (wanted_.load() != kNobody) {
      notify_waiting();  // one of them may be the next runner
    }
    if (with_worker_ && pushed_.load() - done_.load() >= kFew && sleeping_.load()) {
      wake();
    }
    return true;
  }

  void run_one(Task& task) {
    const bool dropped = failed_.load(std::memory_order_relaxed) || stopped_.load();
    try {
      run_(task, dropped);
    } catch (...) {
      if (!dropped) {
        const std::lock_guard lock(error_mutex_);
        error_ = std::current_exception();
        failed_.store(true);
      }
    }
  }

  void run_until(uint64_t number) {
    int turn = 0;
    while (done_.load() < number) {
      if (try_run(number)) {
        turn = 0;
      } else if (++turn < kYields) {
        sched_yield();
      } else {
        sleep_until(number);
      }
    }
  }

  void sleep_until(uint64_t number) {
    std::unique_lock lock(wait_mutex_);
    wanted_.store(std::min(wanted_.load(), number));
    if (done_.load() < number && running_.load()) {
      done_changed_.wait(lock);
    }
  }

  void notify_waiting() {
    const std::lock_guard lock(wait_mutex_);
    wanted_.store(kNobody);  // who is not content says so again
    done_changed_.notify_all();
  }

  // Behind the failed task everything was dropped; from here on tasks run again.
  void throw_error() {
    if (!failed_.load()) {
      return;
    }
    run_until(pushed_.load());
    std::exception_ptr error;
    {
      const std::lock_guard lock(error_mutex_);
      error = std::exchange(error_, nullptr);
      failed_.store(false);
    }
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  }

  void wake() {
    const std::lock_guard lock(sleep_mutex_);
    if (with_worker_ && !worker_.joinable() && !stopped_.load()) {
      sleeping_.store(false);
      worker_ = std::thread([this] { work(); });
      return;
    }
    sleeping_.store(false);
    woken_.notify_one();
  }

  void work() {
    auto last = std::chrono::steady_clock::now();
    while (!stopped_.load()) {
      if (!idle() && try_run(kNobody)) {
        last = std::chrono::steady_clock::now();
      } else if (std::chrono::steady_clock::now() - last < kLook) {
        sched_yield();
      } else {
        sleep();
        last = std::chrono::steady_clock::now();
      }
    }
  }

  void sleep() {
    std::unique_lock lock(sleep_mutex_);
    sleeping_.store(true);
    // A push between the last look and here saw a worker that is awake. A runner that stops early
    // wakes us.
    if (!idle() && !running_.load()) {
      sleeping_.store(false);
      return;
    }
    woken_.wait(lock, [&] { return !sleeping_.load() || stopped_.load(); });
  }

  const Run run_;
  const bool with_worker_;
  std::vector<Task> slots_;  // of task n: n % size; written under push_mutex_, read by the runner

  std::mutex push_mutex_;
  std::atomic<uint64_t> pushed_{0};
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> running_{false};
  std::atomic<bool> stopped_{false};

  std::mutex wait_mutex_;
  std::condition_variable done_changed_;
  std::atomic<uint64_t> wanted_{kNobody};  // the first task somebody sleeps for

  std::mutex sleep_mutex_;
  std::condition_variable woken_;
  std::atomic<bool> sleeping_{true};  // also before the worker's thread was made
  std::thread worker_;

  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::atomic<bool> failed_{false};
};

}  // namespace tnx
