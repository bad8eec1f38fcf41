// SPDX-License-Identifier: Apache-2.0
#include "collectives/exec/pipes.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "runtime/base/format.h"

namespace onrt::cc {

Pipes::Line& Pipes::line(int peer, bool send) {
  for (Line& known : lines_) {
    if (known.peer == peer && known.send == send) {
      return known;
    }
  }
  lines_.push_back({peer, send, 0, 0, 0, false, {}});
  return lines_.back();
}

void Pipes::add(Message message) {
  const MutexLock lock(mutex_);
  Line& target = line(message.peer, message.send);
  target.queue.push_back(std::move(message));
  queued_.fetch_add(1);
}

bool Pipes::waits(WaitRecord* wait) const {
  const MutexLock lock(mutex_);
  for (const Line& row : lines_) {
    if (!row.queue.empty()) {
      *wait = {};
      wait->kind = static_cast<uint32_t>(row.send ? WaitKind::kSend : WaitKind::kReceive);
      wait->rank = row.peer;
      wait->target = row.pieces + 1;
      wait->window = row.moved / kPipeSlotBytes;
      return true;
    }
  }
  return false;
}

// A message's `done` may free what it belongs to: called without the lock.
void Pipes::drop(const Status& status) {
  std::vector<Message> dropped;
  {
    const MutexLock lock(mutex_);
    for (Line& row : lines_) {
      std::move(row.queue.begin(), row.queue.end(), std::back_inserter(dropped));
      row.queue.clear();
    }
    queued_.fetch_sub(dropped.size());
  }
  for (Message& message : dropped) {
    message.done(status);
  }
}

Result<bool> Pipes::progress() {
  bool moved = false;
  std::vector<Message> ended;
  {
    const MutexLock lock(mutex_);
    for (Line& row : lines_) {
      while (!row.queue.empty()) {
        ONRT_ASSIGN_OR_RETURN(const bool stepped, step(row));
        if (!stepped) {
          break;
        }
        moved = true;
        Message& front = row.queue.front();
        if (row.begun && row.moved == front.bytes) {
          row.total += front.bytes;
          row.moved = 0;
          row.begun = false;
          ended.push_back(std::move(front));
          row.queue.pop_front();
          queued_.fetch_sub(1);
        }
      }
    }
  }
  for (Message& message : ended) {
    message.done(ok_status());
  }
  return moved;
}

Result<bool> Pipes::step(Line& row) { return row.send ? push(row) : pull(row); }

Result<bool> Pipes::push(Line& row) {
  PipeHeader& pipe = area_.pipe(rank_, row.peer);
  if (row.pieces - std::atomic_ref(pipe.taken.pieces).load(std::memory_order_acquire) >=
      kPipeSlots) {
    return false;
  }
  const Message& message = row.queue.front();
  const uint64_t slot = row.pieces % kPipeSlots;
  const uint64_t bytes = std::min(kPipeSlotBytes, message.bytes - row.moved);
  if (bytes != 0) {
    std::memcpy(area_.pipe_data(rank_, row.peer, row.pieces), message.data + row.moved, bytes);
  }
  pipe.piece_bytes[slot] = bytes;
  pipe.message_bytes[slot] = row.begun ? 0 : message.bytes + 1;
  pipe.message_dtype[slot] = static_cast<uint64_t>(message.dtype);
  row.begun = true;
  row.moved += bytes;
  ++row.pieces;
  std::atomic_ref(pipe.sent.pieces).store(row.pieces);
  area_.wake(row.peer);
  return true;
}

Result<bool> Pipes::pull(Line& row) {
  PipeHeader& pipe = area_.pipe(row.peer, rank_);
  if (std::atomic_ref(pipe.sent.pieces).load(std::memory_order_acquire) == row.pieces) {
    return false;
  }
  const Message& message = row.queue.front();
  const uint64_t slot = row.pieces % kPipeSlots;
  const uint64_t bytes = pipe.piece_bytes[slot];
  const uint64_t whole = pipe.message_bytes[slot];
  const auto dtype = pipe.message_dtype[slot];
  if (!row.begun && (whole != message.bytes + 1 || dtype != static_cast<uint64_t>(message.dtype))) {
    const DtypeInfo* sent = find_dtype(static_cast<uint32_t>(dtype));
    return Status(
        NRT_INVALID,
        format("rank {} receives {} bytes of {} from rank {}, which sends {} bytes of {}", rank_,
               message.bytes, dtype_name(message.dtype), row.peer, whole == 0 ? 0 : whole - 1,
               sent == nullptr ? std::string_view("an unknown type") : sent->name));
  }
  if (bytes > kPipeSlotBytes || bytes > message.bytes - row.moved) {
    return Status(NRT_FAILURE,
                  format("a piece of {} bytes from rank {}: {} are left of the message", bytes,
                         row.peer, message.bytes - row.moved));
  }
  if (bytes != 0) {
    std::memcpy(message.data + row.moved, area_.pipe_data(row.peer, rank_, row.pieces), bytes);
  }
  row.begun = true;
  row.moved += bytes;
  ++row.pieces;
  std::atomic_ref(pipe.taken.pieces).store(row.pieces);
  area_.wake(row.peer);
  return true;
}

uint64_t Pipes::bytes_to(int peer) const {
  const MutexLock lock(mutex_);
  for (const Line& row : lines_) {
    if (row.peer == peer && row.send) {
      return row.total;
    }
  }
  return 0;
}

uint64_t Pipes::bytes_from(int peer) const {
  const MutexLock lock(mutex_);
  for (const Line& row : lines_) {
    if (row.peer == peer && !row.send) {
      return row.total;
    }
  }
  return 0;
}

}  // namespace onrt::cc
