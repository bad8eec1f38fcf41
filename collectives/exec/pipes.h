// SPDX-License-Identifier: Apache-2.0
// send() and receive() between two ranks of a group: messages in order per pair, cut into pieces
// that go through two slots of the shared area. Either side may come first.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "collectives/transport/area.h"
#include "runtime/base/dtype.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace onrt::cc {

struct Message {
  int peer = 0;  // place in the group
  bool send = false;
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  Dtype dtype = Dtype::kU8;
  std::function<void(Status)> done;  // called once, from progress() or drop()
};

// Thread-safe.
class Pipes {
 public:
  Pipes(const Area& area, int rank) : area_(area), rank_(rank) {}

  void add(Message message);
  // Moves what can be moved; true when something was. NRT_INVALID when a message and the receive
  // that it meets differ.
  Result<bool> progress();
  bool idle() const { return queued_.load(std::memory_order_acquire) == 0; }
  // A peer that the oldest message of some pair waits for, and its record; false when idle.
  bool waits(WaitRecord* wait) const;
  // Ends everything with `status`.
  void drop(const Status& status);

  uint64_t bytes_to(int peer) const;
  uint64_t bytes_from(int peer) const;

 private:
  struct Line {
    int peer = 0;
    bool send = false;
    uint64_t pieces = 0;  // of all messages so far
    uint64_t moved = 0;   // bytes of the front message
    uint64_t total = 0;
    bool begun = false;
    std::deque<Message> queue;
  };
  Line& line(int peer, bool send) ONRT_REQUIRES(mutex_);
  Result<bool> step(Line& line) ONRT_REQUIRES(mutex_);
  Result<bool> push(Line& line) ONRT_REQUIRES(mutex_);
  Result<bool> pull(Line& line) ONRT_REQUIRES(mutex_);

  const Area& area_;
  const int rank_;
  mutable Mutex mutex_;
  std::vector<Line> lines_ ONRT_GUARDED_BY(mutex_);
  std::atomic<size_t> queued_{0};  // messages in lines_: wait loops look at it all the time
};

}  // namespace onrt::cc
