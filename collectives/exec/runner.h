// SPDX-License-Identifier: Apache-2.0
// Runs one rank's programs, call after call, over an endpoint. Never blocks: whoever drives it
// decides how to wait (Engine), or which rank goes on next (tests in one thread).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/exec/block_map.h"
#include "collectives/exec/call.h"
#include "collectives/exec/planner.h"
#include "collectives/transport/transport.h"

namespace onrt::cc {

// Thread-compatible. After a failure it is not used any more.
class Runner {
 public:
  // `endpoint` is borrowed.
  Runner(Endpoint& endpoint, PlannerOptions options);

  // Starts a call; its buffers must stay until it is done. NRT_INVALID when it is malformed here:
  // nothing was started then.
  Status begin(const Call& call);
  // Goes on as far as it can. True: done. NRT_INVALID when the ranks' calls differ: the text holds
  // both.
  Result<bool> advance();

  // After advance() said false: what for, and for whom.
  const WaitRecord& wait() const { return wait_; }
  std::vector<int> behind() const;

  uint64_t calls() const { return calls_; }
  const CallRecord& record() const { return record_; }
  // Of the current or last call.
  uint64_t plan_number() const { return plan_ == nullptr ? 0 : plan_->number; }
  const std::string& algorithm() const { return plan_ == nullptr ? none_ : plan_->algorithm; }
  const std::string& why() const { return plan_ == nullptr ? none_ : plan_->why; }
  std::span<const uint64_t> bytes_to() const { return small_ ? plan_->bytes_to : bytes_to_; }
  std::span<const uint64_t> bytes_from() const { return small_ ? plan_->bytes_from : bytes_from_; }
  // The rank that differs, after advance() failed for that; else -1.
  int differing_rank() const { return differing_; }

 private:
  enum class Stage : uint8_t { kIdle, kEntry, kRunning, kFlushing };
  struct Channel {
    size_t next = 0;
    uint64_t barrier = 0;  // value that a barrier waits for; 0: not in one
  };
  struct Base {
    MemoryRef ref;
    std::byte* data = nullptr;
  };

  Status check(const Call& call) const;
  Spec spec_of(const Call& call, bool in_place, Access access) const;
  bool copied(const Call& call) const;
  Access own_access(const Call& call) const;
  bool repeats(const Call& call, bool in_place) const;
  void start_window();
  Status run_before_entry();
  bool all_entered() const;
  bool all_arrived(uint32_t channel, uint64_t target) const;
  Status compare_calls();
  Status settle();  // what root and the peers' memory decide, once all have entered
  Status read_counts(Spec& spec);
  Status map_buffers();
  void set_maps();
  Result<bool> go_on();
  Status run_after_entry();
  Result<bool> run_channels();
  Result<bool> run_channel(uint32_t channel, bool* moved);
  Result<bool> synchronise(uint32_t channel, const Step& step);
  Status next_window(bool* done);
  Status move(const Step& step);
  Status move_piece(const Step& step, std::span<const Operand> operands, uint64_t position,
                    uint64_t count);
  Status move_remote(const Step& step, std::span<const Operand> operands, uint64_t position,
                     uint64_t count);
  struct Place {
    MemoryRef ref;
    std::byte* data = nullptr;
    uint64_t run = 0;  // elements that follow there
  };
  Place place_of(const Operand& operand, uint64_t position, uint64_t count) const;
  uint32_t bytes_of(Buffer buffer) const {
    return buffer == Buffer::kPartial ? partial_bytes_ : element_bytes_;
  }
  Base& base(int rank, Buffer buffer) {
    return bases_[static_cast<size_t>(rank) * 4 + static_cast<size_t>(buffer)];
  }
  const Base& base(int rank, Buffer buffer) const {
    if (small_ && buffer == Buffer::kScratch) {
      return small_bases_[calls_ % 2][static_cast<size_t>(rank)];
    }
    return bases_[static_cast<size_t>(rank) * 4 + static_cast<size_t>(buffer)];
  }
  const BlockMap& map(int rank, Buffer buffer) const {
    const auto& maps = buffer == Buffer::kIn ? in_maps_ : out_maps_;
    return maps[maps.size() == 1 ? 0 : static_cast<size_t>(rank)];
  }

  Endpoint& endpoint_;
  Planner planner_;
  const int rank_;
  const int ranks_;
  const bool load_store_;
  const std::string none_;

  uint64_t calls_ = 0;
  uint64_t alternate_ = 0;  // how many windows used alternate scratch memory
  std::vector<uint64_t> consumed_;

  Call call_;
  CallRecord record_;
  Stage stage_ = Stage::kIdle;
  Spec spec_;                           // of the whole message
  const Plan* message_plan_ = nullptr;  // for spec_
  const Plan* plan_ = nullptr;          // of the window
  bool merged_ = false;                 // the entry was the program's first barrier
  bool small_ = false;    // ... and its only one; scratch is the records' small memory
  uint64_t first_ = 0;    // of the window
  uint64_t longest_ = 0;  // elements of the longest block
  uint64_t window_ = 0;
  uint64_t window_length_ = 0;
  uint32_t element_bytes_ = 1;
  uint32_t partial_bytes_ = 1;
  bool stream_ = false;
  bool simple_ = true;  // no buffer of the window has gaps
  std::vector<Channel> channels_;
  std::vector<Base> bases_;
  std::vector<Base> small_bases_[2];  // by the parity of the call
  std::vector<BlockMap> in_maps_, out_maps_;
  std::vector<uint64_t> extents_in_, extents_out_;  // kAllToAllV: bytes of each rank's buffers
  std::vector<std::vector<uint64_t>> in_places_, out_places_;  // the same: offsets of blocks
  std::vector<ReduceInput> inputs_;
  std::vector<ReduceOutput> outputs_;
  std::vector<std::byte> staging_;
  std::vector<uint64_t> bytes_to_, bytes_from_;
  WaitRecord wait_;
  int differing_ = -1;
};

}  // namespace onrt::cc
