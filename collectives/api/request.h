// SPDX-License-Identifier: Apache-2.0
// An operation that was started and may not have ended.
#pragma once

#include <memory>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace onrt::cc {

// Thread-safe.
class Request {
 public:
  // True once it has ended; `status` then holds how.
  bool test(Status* status) const {
    const MutexLock lock(mutex_);
    if (done_) {
      *status = status_;
    }
    return done_;
  }
  Status wait() {
    const MutexLock lock(mutex_);
    while (!done_) {
      ended_.wait(mutex_);
    }
    return status_;
  }
  void finish(Status status) {
    const MutexLock lock(mutex_);
    status_ = std::move(status);
    done_ = true;
    ended_.notify_all();
  }

 private:
  mutable Mutex mutex_;
  CondVar ended_;
  bool done_ ONRT_GUARDED_BY(mutex_) = false;
  Status status_ ONRT_GUARDED_BY(mutex_);
};

using RequestRef = std::shared_ptr<Request>;

}  // namespace onrt::cc
