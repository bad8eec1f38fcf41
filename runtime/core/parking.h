// SPDX-License-Identifier: Apache-2.0
// Waiting for things that are nearly always ready: an atomic is read on the fast path, and only who
// must wait, and who finds a waiter, takes a lock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "runtime/base/mutex.h"

namespace onrt {

// Thread-safe. All waits of the process share one instance: waiting is rare.
class Parking {
 public:
  static Parking& instance();

  // Waits until `ready()` is true; false when `deadline` came first. `ready` reads atomics that
  // their writers change with sequentially consistent operations before they call wake().
  template <class Ready>
  bool wait(Ready&& ready, std::chrono::steady_clock::time_point deadline) {
    if (ready()) {
      return true;
    }
    MutexLock lock(mutex_);
    waiters_.fetch_add(1);  // with the writers' order: either we see the change or they see us
    bool done = ready();
    while (!done && condition_.wait_until(mutex_, deadline)) {
      done = ready();
    }
    done = done || ready();
    waiters_.fetch_sub(1);
    return done;
  }

  void wake() {
    if (waiters_.load() != 0) {
      MutexLock lock(mutex_);
      condition_.notify_all();
    }
  }

 private:
  Mutex mutex_;
  CondVar condition_;
  std::atomic<int> waiters_{0};
};

inline constexpr auto kForever = std::chrono::steady_clock::time_point::max();

// Lets users in until it is closed, and can wait until the last one has left. Thread-safe.
class Gate {
 public:
  // True: the caller is inside and calls leave().
  bool enter() {
    active_.fetch_add(1);
    if (open_.load()) {
      return true;
    }
    leave();
    return false;
  }
  void leave() {
    if (active_.fetch_sub(1) == 1 && !open_.load()) {
      Parking::instance().wake();
    }
  }
  void open() { open_.store(true); }
  bool is_open() const { return open_.load(); }
  bool is_idle() const { return active_.load() == 0; }
  // False when it was closed already. Does not wait.
  bool shut() { return open_.exchange(false); }
  // After shut(): returns when at most `remaining` users are inside (1 when the caller is one).
  void drain(uint32_t remaining = 0) {
    Parking::instance().wait([&] { return active_.load() <= remaining; }, kForever);
  }

 private:
  std::atomic<uint32_t> active_{0};
  std::atomic<bool> open_{false};
};

}  // namespace onrt
