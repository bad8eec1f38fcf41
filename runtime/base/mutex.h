// SPDX-License-Identifier: Apache-2.0
// Annotated mutex: clang's -Wthread-safety (preset clang-tsa) checks ONRT_GUARDED_BY fields.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define ONRT_TSA(x) __attribute__((x))
#else
#define ONRT_TSA(x)
#endif
#define ONRT_CAPABILITY(x) ONRT_TSA(capability(x))
#define ONRT_SCOPED_CAPABILITY ONRT_TSA(scoped_lockable)
#define ONRT_GUARDED_BY(x) ONRT_TSA(guarded_by(x))
#define ONRT_REQUIRES(...) ONRT_TSA(requires_capability(__VA_ARGS__))
#define ONRT_EXCLUDES(...) ONRT_TSA(locks_excluded(__VA_ARGS__))
#define ONRT_ACQUIRE(...) ONRT_TSA(acquire_capability(__VA_ARGS__))
#define ONRT_RELEASE(...) ONRT_TSA(release_capability(__VA_ARGS__))
#define ONRT_TRY_ACQUIRE(...) ONRT_TSA(try_acquire_capability(__VA_ARGS__))
#define ONRT_NO_THREAD_SAFETY_ANALYSIS ONRT_TSA(no_thread_safety_analysis)

namespace onrt {

class ONRT_CAPABILITY("mutex") Mutex {
 public:
  void lock() ONRT_ACQUIRE() { mutex_.lock(); }
  void unlock() ONRT_RELEASE() { mutex_.unlock(); }
  bool try_lock() ONRT_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ONRT_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ONRT_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() ONRT_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Condition variable for Mutex. Waits may wake without cause: call them in a loop.
class CondVar {
 public:
  void wait(Mutex& mutex) ONRT_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False when `deadline` passed.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      ONRT_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace onrt
