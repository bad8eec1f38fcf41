// SPDX-License-Identifier: Apache-2.0
// From a call to its end: entry, windows, channels. How data moves: runner_move.cc.
#include "collectives/exec/runner.h"

#include <algorithm>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

// From here on results go around the caches, unless what they overwrite was read just before: those
// lines are there already, and pushing them out only costs.
constexpr uint64_t kStreamBytes = 8 << 20;
constexpr int32_t kNoBuffer = -2;  // in CallRecord: the rank has none here, so any access will do

bool is_v(Op op) { return op == Op::kAllGatherV || op == Op::kAllToAllV; }

bool gathers(Op op) { return op == Op::kAllGather || op == Op::kAllGatherV || op == Op::kGather; }

bool root_decides(Op op) { return op == Op::kReduce || op == Op::kGather || op == Op::kScatter; }

int in_blocks(Op op, int ranks) {
  return op == Op::kReduceScatter || op == Op::kAllToAll || op == Op::kScatter ? ranks : 1;
}
int out_blocks(Op op, int ranks) {
  return op == Op::kAllGather || op == Op::kAllToAll || op == Op::kGather ? ranks : 1;
}

uint64_t longest_block(const Spec& spec) {
  if (!is_v(spec.op)) {
    return spec.count;
  }
  return spec.counts.empty() ? 0 : *std::max_element(spec.counts.begin(), spec.counts.end());
}

}  // namespace

Runner::Runner(Endpoint& endpoint, PlannerOptions options)
    : endpoint_(endpoint),
      planner_(std::move(options), endpoint.rank()),
      rank_(endpoint.rank()),
      ranks_(endpoint.ranks()),
      load_store_(endpoint.caps().load_store) {
  const auto n = static_cast<size_t>(ranks_);
  consumed_.assign(n * kMaxChannels, 0);
  bases_.resize(n * 4);
  in_maps_.resize(1);
  out_maps_.resize(1);
  bytes_to_.assign(n, 0);
  bytes_from_.assign(n, 0);
  for (uint64_t call = 0; call < 2; ++call) {
    for (int peer = 0; peer < ranks_; ++peer) {
      Base small;
      small.ref = endpoint_.small(peer, call);
      if (load_store_ || peer == rank_) {
        small.data = *endpoint_.map(peer, small.ref, kSmallBytes);
      }
      small_bases_[call].push_back(small);
    }
  }
}

// Small messages go through scratch memory wherever they lie: one round less.
bool Runner::copied(const Call& call) const {
  return !is_v(call.op) && call.op != Op::kPermute &&
         call.count * static_cast<uint64_t>(ranks_) <= kSmallBytes / dtype_bytes(call.dtype);
}

Access Runner::own_access(const Call& call) const {
  if (copied(call)) {
    return Access::kStaged;
  }
  const auto usable = [](const LocalBuffer& buffer) {
    return buffer.data == nullptr || buffer.ref.shared();
  };
  return usable(call.in) && usable(call.out) ? Access::kDirect : Access::kStaged;
}

Spec Runner::spec_of(const Call& call, bool in_place, Access access) const {
  Spec spec;
  spec.op = call.op;
  spec.ranks = ranks_;
  spec.count = is_v(call.op) ? 0 : call.count;
  spec.root = op_has_root(call.op) ? call.root : 0;
  spec.in_place = in_place;
  spec.deterministic = planner_.options().deterministic;
  spec.access = access;
  spec.element_bytes = dtype_bytes(call.dtype);
  spec.partial_bytes = accumulator_bytes(call.dtype);
  spec.counts = call.op == Op::kAllGatherV ? call.counts : std::vector<uint64_t>();
  spec.pairs = call.pairs;
  return spec;
}

Status Runner::check(const Call& call) const {
  const auto n = static_cast<size_t>(ranks_);
  if (op_reduces(call.op)) {
    ONRT_RETURN_IF_ERROR(check_reducible(call.dtype));
  }
  if (op_has_root(call.op) && (call.root < 0 || call.root >= ranks_)) {
    return Status(NRT_INVALID, format("{}: root: expected 0 to {}, found {}", op_name(call.op),
                                      ranks_ - 1, call.root));
  }
  if (is_v(call.op) && (call.counts.size() != n || call.offsets.size() != n)) {
    return Status(NRT_INVALID,
                  format("{}: expected {} counts and offsets, found {} and {}", op_name(call.op), n,
                         call.counts.size(), call.offsets.size()));
  }
  if (call.op == Op::kAllToAllV &&
      (call.receive_counts.size() != n || call.receive_offsets.size() != n)) {
    return Status(NRT_INVALID, format("{}: expected {} counts and offsets to receive, found {} "
                                      "and {}",
                                      op_name(call.op), n, call.receive_counts.size(),
                                      call.receive_offsets.size()));
  }
  return ok_status();
}

// The same operation on other data: its plan is at hand.
bool Runner::repeats(const Call& call, bool in_place) const {
  return message_plan_ != nullptr && !is_v(call.op) && call.op != Op::kPermute &&
         call.op == call_.op && call.dtype == call_.dtype && call.reduce_op == call_.reduce_op &&
         call.count == call_.count && call.root == call_.root && spec_.in_place == in_place &&
         spec_.access == own_access(call);
}

Status Runner::begin(const Call& call) {
  record_ = record_of(call, calls_ + 1, rank_);
  record_.in_file = call.in.data == nullptr ? kNoBuffer : record_.in_file;
  record_.out_file = call.out.data == nullptr ? kNoBuffer : record_.out_file;
  const bool in_place = record_.in_place != 0;
  const bool repeated = repeats(call, in_place);
  if (!repeated) {
    ONRT_RETURN_IF_ERROR(check(call));
  }
  call_ = call;
  element_bytes_ = dtype_bytes(call.dtype);
  partial_bytes_ = accumulator_bytes(call.dtype);
  differing_ = -1;
  window_ = 0;
  first_ = 0;
  if (!repeated) {
    spec_ = spec_of(call, in_place, own_access(call));
    message_plan_ = nullptr;
    plan_ = nullptr;
    if (call.op != Op::kAllToAllV) {  // its counts are known after the entry
      ONRT_ASSIGN_OR_RETURN(message_plan_, planner_.plan(spec_));
      longest_ = longest_block(spec_);
    }
  }
  plan_ = message_plan_;
  merged_ = plan_ != nullptr && plan_->entry_barrier >= 0 && !root_decides(call.op);
  small_ = merged_ && plan_->single_round && copied(call) && longest_block(plan_->spec) == longest_;
  ++calls_;
  if (small_) {
    if (!repeated) {
      set_maps();
    }
  } else if (merged_) {
    start_window();
  }
  if (merged_) {
    ONRT_RETURN_IF_ERROR(run_before_entry());
  }
  if (call.op == Op::kAllToAllV) {
    std::vector<uint64_t> words;
    for (const auto* list :
         {&call.counts, &call.offsets, &call.receive_counts, &call.receive_offsets}) {
      words.insert(words.end(), list->begin(), list->end());
    }
    endpoint_.publish_words(calls_, words);
  }
  endpoint_.enter(record_);
  stage_ = Stage::kEntry;
  return ok_status();
}

bool Runner::all_entered() const {
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_ && !endpoint_.entered(peer, calls_)) {
      return false;
    }
  }
  return true;
}

bool Runner::all_arrived(uint32_t channel, uint64_t target) const {
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_ && endpoint_.arrived(peer, channel) < target) {
      return false;
    }
  }
  return true;
}

// Own copies to own scratch memory before the entry; see Plan::entry_barrier.
Status Runner::run_before_entry() {
  base(rank_, Buffer::kIn) = {call_.in.ref, call_.in.data};
  base(rank_, Buffer::kOut) = {call_.out.ref, call_.out.data};
  const auto& steps = plan_->program.channels.front();
  for (int i = 0; i < plan_->entry_barrier; ++i) {
    ONRT_RETURN_IF_ERROR(move(steps[static_cast<size_t>(i)]));
  }
  return ok_status();
}

// A single round: all that is left.
Status Runner::run_after_entry() {
  const std::vector<Step>& steps = plan_->program.channels.front();
  for (size_t i = static_cast<size_t>(plan_->entry_barrier) + 1; i < steps.size(); ++i) {
    ONRT_RETURN_IF_ERROR(move(steps[i]));
  }
  return ok_status();
}

Status Runner::compare_calls() {
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) {
      continue;
    }
    const CallRecord theirs = endpoint_.record(peer, calls_);
    if (theirs.digest == record_.digest && theirs.call == record_.call) {
      continue;
    }
    differing_ = peer;
    const int low = std::min(peer, rank_);
    const CallRecord& first = low == peer ? theirs : record_;
    const CallRecord& second = low == peer ? record_ : theirs;
    return Status(
        NRT_INVALID,
        format("call #{} differs between ranks of the group: rank {} called {}, rank {} "
               "called {}{}",
               calls_, low, describe(first), std::max(peer, rank_), describe(second),
               describe(first) == describe(second) ? " with other counts, offsets or pairs" : ""));
  }
  return ok_status();
}

// Counts of all ranks, from the words that came with their records.
Status Runner::read_counts(Spec& spec) {
  const auto n = static_cast<size_t>(ranks_);
  spec.counts.assign(n * n, 0);
  in_places_.assign(n, {});
  out_places_.assign(n, {});
  std::vector<std::span<const uint64_t>> rows;
  for (int peer = 0; peer < ranks_; ++peer) {
    rows.push_back(endpoint_.words(peer, calls_, 4 * n));
  }
  extents_in_.assign(n, 0);
  extents_out_.assign(n, 0);
  for (size_t from = 0; from < n; ++from) {
    in_places_[from].assign(rows[from].begin() + static_cast<ptrdiff_t>(n),
                            rows[from].begin() + static_cast<ptrdiff_t>(2 * n));
    out_places_[from].assign(rows[from].begin() + static_cast<ptrdiff_t>(3 * n), rows[from].end());
    for (size_t to = 0; to < n; ++to) {
      const uint64_t sent = rows[from][to];
      const uint64_t expected = rows[to][2 * n + from];
      if (sent != expected) {
        differing_ = static_cast<int>(from == static_cast<size_t>(rank_) ? to : from);
        return Status(NRT_INVALID,
                      format("call #{}, all_to_all_v: rank {} sends {} elements to rank {}, which "
                             "expects {}",
                             calls_, from, sent, to, expected));
      }
      spec.counts[from * n + to] = sent;
      extents_in_[from] = std::max(extents_in_[from], in_places_[from][to] + sent);
      extents_out_[from] =
          std::max(extents_out_[from], out_places_[from][to] + rows[from][2 * n + to]);
    }
  }
  return ok_status();
}

Status Runner::settle() {
  // Peers must come to the same answers: only what all records say counts.
  int private_ranks = 0;
  for (int peer = 0; peer < ranks_; ++peer) {
    const CallRecord record = peer == rank_ ? record_ : endpoint_.record(peer, calls_);
    private_ranks += record.in_file == -1 || record.out_file == -1 ? 1 : 0;
  }
  const bool copy = copied(call_);
  const Access access = private_ranks == 0 && !copy ? Access::kDirect : Access::kStaged;
  const bool uniform = private_ranks == 0 || private_ranks == ranks_ || copy;
  bool in_place = record_.in_place != 0;
  if (root_decides(call_.op)) {
    in_place = (call_.root == rank_ ? record_ : endpoint_.record(call_.root, calls_)).in_place != 0;
  }
  const bool known = call_.op != Op::kAllToAllV && uniform && in_place == spec_.in_place;
  if (!known) {
    merged_ = false;
    spec_ = spec_of(call_, in_place, access);
    if (call_.op == Op::kAllToAllV) {
      ONRT_RETURN_IF_ERROR(read_counts(spec_));
      // Blocks may lie anywhere in the buffers: in place, a block could be overwritten unread.
      if (in_place) {
        return Status(NRT_INVALID, "all_to_all_v: in and out must be different buffers");
      }
    }
    ONRT_ASSIGN_OR_RETURN(message_plan_, planner_.plan(spec_));
    plan_ = message_plan_;
    longest_ = longest_block(spec_);
  }
  std::fill(bytes_to_.begin(), bytes_to_.end(), 0);
  std::fill(bytes_from_.begin(), bytes_from_.end(), 0);
  stream_ = longest_ * element_bytes_ >= kStreamBytes && (!in_place || gathers(call_.op));
  if (!merged_) {
    start_window();
  }
  ONRT_RETURN_IF_ERROR(map_buffers());
  if (merged_) {
    channels_[0].next = static_cast<size_t>(plan_->entry_barrier) + 1;
  }
  stage_ = Stage::kRunning;
  return ok_status();
}

void Runner::start_window() {
  window_length_ = longest_block(plan_->spec);
  channels_.assign(plan_->program.channels.size(), Channel());
  set_maps();
  const int area = plan_->program.alternate_scratch ? static_cast<int>(alternate_ % 2) : 2;
  for (int peer = 0; peer < ranks_; ++peer) {
    Base& scratch = base(peer, Buffer::kScratch);
    Base& partial = base(peer, Buffer::kPartial);
    const MemoryRef ref = endpoint_.scratch(peer, area);
    if (scratch.data != nullptr && scratch.ref.offset == ref.offset) {
      continue;
    }
    scratch.ref = ref;
    partial.ref = {ref.file, ref.offset + endpoint_.scratch_bytes() / 2};
    if (load_store_ || peer == rank_) {
      // Part of the shared area: always there.
      scratch.data = *endpoint_.map(peer, scratch.ref, endpoint_.scratch_bytes());
      partial.data = scratch.data + endpoint_.scratch_bytes() / 2;
    }
  }
}

void Runner::set_maps() {
  if (call_.op == Op::kAllToAllV) {
    const auto n = static_cast<size_t>(ranks_);
    in_maps_.resize(n);
    out_maps_.resize(n);
    simple_ = false;
    for (size_t a = 0; a < n; ++a) {
      in_maps_[a].clear();
      out_maps_[a].clear();
      for (size_t b = 0; b < n; ++b) {
        in_maps_[a].add(in_places_[a][b] + first_, plan_->spec.counts[a * n + b]);
        out_maps_[a].add(out_places_[a][b] + first_, plan_->spec.counts[b * n + a]);
      }
    }
    return;
  }
  in_maps_.resize(1);
  out_maps_.resize(1);
  if (call_.op == Op::kAllGatherV) {
    in_maps_[0].set_single(first_);
    out_maps_[0].clear();
    for (size_t i = 0; i < call_.offsets.size(); ++i) {
      out_maps_[0].add(call_.offsets[i] + first_, plan_->spec.counts[i]);
    }
  } else {
    in_maps_[0].set_uniform(in_blocks(call_.op, ranks_), plan_->spec.count, spec_.count, first_);
    out_maps_[0].set_uniform(out_blocks(call_.op, ranks_), plan_->spec.count, spec_.count, first_);
  }
  simple_ = in_maps_[0].single() && out_maps_[0].single();
}

Status Runner::map_buffers() {
  base(rank_, Buffer::kIn) = {call_.in.ref, call_.in.data};
  base(rank_, Buffer::kOut) = {call_.out.ref, call_.out.data};
  if (spec_.access != Access::kDirect) {
    return ok_status();
  }
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) {
      continue;
    }
    const CallRecord record = endpoint_.record(peer, calls_);
    const MemoryRef refs[] = {{record.in_file, record.in_offset},
                              {record.out_file, record.out_offset}};
    for (const Buffer buffer : {Buffer::kIn, Buffer::kOut}) {
      const bool in = buffer == Buffer::kIn;
      Base& target = base(peer, buffer);
      const MemoryRef& ref = refs[in ? 0 : 1];
      uint64_t bytes = (in ? in_elements(spec_, peer) : out_elements(spec_, peer)) * element_bytes_;
      if (call_.op == Op::kAllToAllV) {
        bytes = (in ? extents_in_ : extents_out_)[static_cast<size_t>(peer)] * element_bytes_;
      } else if (call_.op == Op::kAllGatherV && !in) {
        bytes = 0;
        for (size_t i = 0; i < call_.counts.size(); ++i) {
          bytes = std::max(bytes, (call_.offsets[i] + call_.counts[i]) * element_bytes_);
        }
      }
      target.ref = ref;
      target.data = nullptr;
      if (load_store_ && ref.shared() && bytes != 0) {
        ONRT_ASSIGN_OR_RETURN(target.data, endpoint_.map(peer, ref, bytes));
      }
    }
  }
  return ok_status();
}

Result<bool> Runner::advance() {
  auto done = go_on();
  if (!done.ok() && done.status().code() == NRT_EXEC_HW_ERR_COLLECTIVES) {
    return std::move(done).status().annotate(
        format("{} #{}, step {}, chunk {}", describe(record_), calls_, wait_.step, window_));
  }
  return done;
}

Result<bool> Runner::go_on() {
  ONRT_RETURN_IF_ERROR(endpoint_.progress());
  if (stage_ == Stage::kEntry) {
    if (!all_entered()) {
      wait_ = {static_cast<uint32_t>(WaitKind::kEntry), -1, calls_, 0, 0, calls_, 0};
      return false;
    }
    ONRT_RETURN_IF_ERROR(compare_calls());
    if (small_) {
      ONRT_RETURN_IF_ERROR(run_after_entry());
      stage_ = Stage::kFlushing;
    } else {
      ONRT_RETURN_IF_ERROR(settle());
    }
  }
  while (stage_ == Stage::kRunning) {
    ONRT_ASSIGN_OR_RETURN(const bool ended, run_channels());
    if (!ended) {
      return false;
    }
    bool done = false;
    ONRT_RETURN_IF_ERROR(next_window(&done));
    if (done) {
      stage_ = Stage::kFlushing;
    }
  }
  if (stage_ == Stage::kFlushing) {
    ONRT_ASSIGN_OR_RETURN(const bool flushed, endpoint_.flush());
    if (!flushed) {
      wait_.kind = static_cast<uint32_t>(WaitKind::kFlush);
      wait_.rank = -1;
      return false;
    }
    stage_ = Stage::kIdle;
  }
  return true;
}

// True when every channel has ended, false when all that haven't are blocked.
Result<bool> Runner::run_channels() {
  while (true) {
    bool moved = false;
    bool ended = true;
    for (uint32_t channel = 0; channel < channels_.size(); ++channel) {
      ONRT_ASSIGN_OR_RETURN(const bool channel_ended, run_channel(channel, &moved));
      ended = ended && channel_ended;
    }
    if (ended || !moved) {
      return ended;
    }
  }
}

Result<bool> Runner::run_channel(uint32_t channel, bool* moved) {
  Channel& state = channels_[channel];
  const std::vector<Step>& steps = plan_->program.channels[channel];
  while (state.next < steps.size()) {
    const Step& step = steps[state.next];
    if (moves_data(step.kind)) {
      ONRT_RETURN_IF_ERROR(move(step));
    } else {
      ONRT_ASSIGN_OR_RETURN(const bool passed, synchronise(channel, step));
      if (!passed) {
        wait_.call = calls_;
        wait_.channel = channel;
        wait_.step = static_cast<uint32_t>(state.next);
        wait_.window = window_;
        return false;
      }
    }
    ++state.next;
    *moved = true;
  }
  return true;
}

Result<bool> Runner::synchronise(uint32_t channel, const Step& step) {
  if (step.kind == StepKind::kSignal) {
    ONRT_RETURN_IF_ERROR(endpoint_.signal(step.peer, step.counter, step.amount));
    return true;
  }
  if (step.kind == StepKind::kWait) {
    uint64_t& consumed = consumed_[static_cast<size_t>(step.peer) * kMaxChannels + step.counter];
    if (endpoint_.counter(step.peer, step.counter) < consumed + step.amount) {
      wait_.kind = static_cast<uint32_t>(WaitKind::kSignal);
      wait_.rank = step.peer;
      wait_.channel = step.counter;
      wait_.target = consumed + step.amount;
      return false;
    }
    consumed += step.amount;
    return true;
  }
  uint64_t& target = channels_[channel].barrier;
  if (target == 0) {
    target = endpoint_.arrive(channel);
  }
  if (!all_arrived(channel, target)) {
    wait_.kind = static_cast<uint32_t>(WaitKind::kBarrier);
    wait_.rank = -1;
    wait_.target = target;
    return false;
  }
  target = 0;
  return true;
}

Status Runner::next_window(bool* done) {
  for (size_t peer = 0; peer < bytes_to_.size(); ++peer) {
    bytes_to_[peer] += plan_->bytes_to[peer];
    bytes_from_[peer] += plan_->bytes_from[peer];
  }
  alternate_ += plan_->program.alternate_scratch ? 1 : 0;
  first_ += window_length_;
  *done = first_ >= longest_;
  if (*done) {
    return ok_status();
  }
  ++window_;
  const Spec window = packed_window(spec_, first_, window_length_);
  if (!(window == plan_->spec)) {
    ONRT_ASSIGN_OR_RETURN(plan_, planner_.plan_window(window, plan_->algorithm));
  }
  const uint64_t length = window_length_;
  start_window();
  window_length_ = length;  // blocks that ended make it no shorter
  return ok_status();
}

std::vector<int> Runner::behind() const {
  std::vector<int> ranks;
  if (wait_.kind == static_cast<uint32_t>(WaitKind::kFlush)) {
    return ranks;  // the transport knows, and says so itself
  }
  if (wait_.kind == static_cast<uint32_t>(WaitKind::kSignal)) {
    ranks.push_back(wait_.rank);
    return ranks;
  }
  const bool entry = wait_.kind == static_cast<uint32_t>(WaitKind::kEntry);
  for (int peer = 0; peer < ranks_; ++peer) {
    const bool there = entry ? endpoint_.entered(peer, calls_)
                             : endpoint_.arrived(peer, wait_.channel) >= wait_.target;
    if (peer != rank_ && !there) {
      ranks.push_back(peer);
    }
  }
  return ranks;
}

}  // namespace onrt::cc
