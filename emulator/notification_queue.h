// SPDX-License-Identifier: Apache-2.0
// Ring of notifications of one core and type.
#pragma once

#include <chrono>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/driver/driver.h"

namespace onrt::emu {

// Thread-safe.
class NotificationQueue {
 public:
  // `capacity` is a power of two.
  explicit NotificationQueue(int capacity) : ring_(static_cast<size_t>(capacity)) {}

  // Sets the phase. A full queue drops the notification and remembers the overflow.
  void post(Notification notification) ONRT_EXCLUDES(mutex_);
  // False when empty. NRT_EXEC_SW_NQ_OVERFLOW once after notifications were lost.
  Result<bool> poll(Notification* out) ONRT_EXCLUDES(mutex_);
  // NRT_TIMEOUT when nothing arrives before `deadline`.
  Status wait(std::chrono::steady_clock::time_point deadline, Notification* out)
      ONRT_EXCLUDES(mutex_);
  void clear() ONRT_EXCLUDES(mutex_);

 private:
  Result<bool> take(Notification* out) ONRT_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar arrived_;
  std::vector<Notification> ring_ ONRT_GUARDED_BY(mutex_);
  uint64_t head_ ONRT_GUARDED_BY(mutex_) = 0;
  uint64_t tail_ ONRT_GUARDED_BY(mutex_) = 0;
  uint64_t lost_ ONRT_GUARDED_BY(mutex_) = 0;
};

}  // namespace onrt::emu
