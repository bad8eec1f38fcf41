// SPDX-License-Identifier: Apache-2.0
#include "emulator/notification_queue.h"

#include "runtime/base/format.h"

namespace onrt::emu {

void NotificationQueue::post(Notification notification) {
  {
    const MutexLock lock(mutex_);
    if (tail_ - head_ == ring_.size()) {
      ++lost_;
    } else {
      // The phase changes with every turn of the ring: a reader of the memory can tell new from
      // old.
      notification.phase = static_cast<uint8_t>((tail_ / ring_.size() + 1) & 1);
      ring_[tail_++ & (ring_.size() - 1)] = notification;
    }
  }
  arrived_.notify_all();
}

Result<bool> NotificationQueue::take(Notification* out) {
  if (lost_ > 0) {
    const uint64_t lost = std::exchange(lost_, 0);
    return Status(NRT_EXEC_SW_NQ_OVERFLOW, format("notification queue of {} entries overflowed: {} "
                                                  "notifications were lost",
                                                  ring_.size(), lost));
  }
  if (head_ == tail_) {
    return false;
  }
  *out = ring_[head_++ & (ring_.size() - 1)];
  return true;
}

Result<bool> NotificationQueue::poll(Notification* out) {
  const MutexLock lock(mutex_);
  return take(out);
}

Status NotificationQueue::wait(std::chrono::steady_clock::time_point deadline, Notification* out) {
  const MutexLock lock(mutex_);
  while (true) {
    ONRT_ASSIGN_OR_RETURN(const bool found, take(out));
    if (found) {
      return ok_status();
    }
    if (!arrived_.wait_until(mutex_, deadline) && head_ == tail_ && lost_ == 0) {
      return Status(NRT_TIMEOUT, "no notification arrived before the deadline");
    }
  }
}

void NotificationQueue::clear() {
  const MutexLock lock(mutex_);
  head_ = 0;
  tail_ = 0;
  lost_ = 0;
}

}  // namespace onrt::emu
