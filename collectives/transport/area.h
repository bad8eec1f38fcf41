// SPDX-License-Identifier: Apache-2.0
// The memory that the ranks of a group share: a memfd, so that nothing is left when they die.
// Pages exist once they are touched. Numbers that another process may write meanwhile are read and
// written by std::atomic_ref.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "collectives/transport/record.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::cc {

inline constexpr uint32_t kAreaChannels = 32;
inline constexpr uint64_t kScratchBytes = 1 << 20;  // of each of a rank's three areas
inline constexpr uint64_t kPipeSlotBytes = 256 * 1024;
inline constexpr uint64_t kPipeSlots = 2;
inline constexpr int kScratchAreas = 3;

// A word of its own pair of lines: neighbouring lines are fetched together.
struct alignas(128) Line {
  uint64_t value;
};

// One a rank: how to wake it, and what it waits for.
struct alignas(128) RankState {
  uint32_t doorbell;  // futex
  uint32_t sleeping;  // threads of the rank that sleep, or are about to
  int32_t pid;
  uint32_t unused;
  uint32_t wait_version;  // odd while the record changes
  uint32_t wait_words[15];
};
static_assert(sizeof(RankState) == 128);

// A call of a rank: its record, and what it shares of a small message right behind.
struct alignas(128) EntrySlot {
  CallRecord record;
  std::byte data[kSmallBytes];
};

// A message of send() in pieces, from one rank to another. `sent` and `taken` count pieces.
struct alignas(128) PipeEnd {
  uint64_t pieces;
};
struct PipeHeader {
  PipeEnd sent;
  PipeEnd taken;
  uint64_t piece_bytes[kPipeSlots];    // of each slot
  uint64_t message_bytes[kPipeSlots];  // of the message that the piece begins, else 0
  uint64_t message_dtype[kPipeSlots];
  uint8_t unused[208];
};
static_assert(sizeof(PipeHeader) == 512);

// Where things are, for `ranks` ranks.
struct AreaLayout {
  explicit AreaLayout(int ranks);
  uint64_t states, arrivals, counters, entered, entries, words, pipes, pipe_data, scratch, total;
  uint64_t words_per_rank;
  int ranks;
};

// Thread-safe in the sense of the words it hands out.
class Area {
 public:
  static Result<UniqueFd> create(int ranks);
  // Maps what another rank has created. NRT_INVALID when it is no area for `ranks` ranks.
  static Result<std::unique_ptr<Area>> map(const UniqueFd& fd, int ranks);
  ~Area();
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;

  int ranks() const { return layout_.ranks; }
  RankState& state(int rank) const { return *at<RankState>(layout_.states, index(rank)); }
  uint64_t& arrival(int rank, uint32_t channel) const {
    return at<Line>(layout_.arrivals, index(rank) * kAreaChannels + channel)->value;
  }
  uint64_t& counter(int from, int to, uint32_t number) const {
    return at<Line>(layout_.counters,
                    (index(to) * kAreaChannels + number) * index(layout_.ranks) + index(from))
        ->value;
  }
  EntrySlot& entry(int rank, uint64_t call) const {
    return *at<EntrySlot>(layout_.entries, index(rank) * 2 + call % 2);
  }
  // Number of the last call that `rank` has entered. Apart from the slots: peers look at it all the
  // time, and would take the line from who is writing the rest.
  uint64_t& entered(int rank) const { return at<Line>(layout_.entered, index(rank))->value; }
  uint64_t* words(int rank, uint64_t call) const {
    return at<uint64_t>(layout_.words, (index(rank) * 2 + call % 2) * layout_.words_per_rank);
  }
  size_t most_words() const { return layout_.words_per_rank; }
  PipeHeader& pipe(int from, int to) const {
    return *at<PipeHeader>(layout_.pipes, index(from) * index(layout_.ranks) + index(to));
  }
  std::byte* pipe_data(int from, int to, uint64_t piece) const {
    return base_ + layout_.pipe_data +
           ((index(from) * index(layout_.ranks) + index(to)) * kPipeSlots + piece % kPipeSlots) *
               kPipeSlotBytes;
  }
  uint64_t scratch_offset(int rank, int area) const {
    return layout_.scratch +
           (index(rank) * kScratchAreas + static_cast<uint64_t>(area)) * kScratchBytes;
  }
  uint64_t small_offset(int rank, uint64_t call) const {
    return layout_.entries + (index(rank) * 2 + call % 2) * sizeof(EntrySlot) +
           offsetof(EntrySlot, data);
  }
  std::byte* base() const { return base_; }
  uint64_t bytes() const { return layout_.total; }

  // Ends a futex wait of `rank`; cheap when it does not sleep.
  void wake(int rank) const {
    if (std::atomic_ref(state(rank).sleeping).load() != 0) {
      ring(rank);
    }
  }
  void ring(int rank) const;

  void set_wait(int rank, const WaitRecord& record) const;
  // Nothing when the rank is running, or just changing it.
  std::optional<WaitRecord> wait_of(int rank) const;

 private:
  Area(std::byte* base, int ranks) : base_(base), layout_(ranks) {}
  static uint64_t index(int rank) { return static_cast<uint64_t>(rank); }
  template <class T>
  T* at(uint64_t begin, uint64_t number) const {
    return reinterpret_cast<T*>(base_ + begin) + number;
  }

  std::byte* base_;
  AreaLayout layout_;
};

}  // namespace onrt::cc
