// SPDX-License-Identifier: Apache-2.0
// A collective operation as data: what every rank does, on every channel, in which order.
//
// A schedule is made by a pure function (collectives/plan/algorithm.h), proved by the verifier
// (verify.h) and run by an executor (collectives/exec); the same object can be drawn, exported and
// imported. All quantities are elements, never bytes, so that chunks are exact for every count.
//
// Ranks here are places in the group, 0 to ranks - 1.
//
// What an executor promises
//  - The steps of a channel take effect in order; channels of a rank run independently.
//  - A signal is seen only after everything that its channel did before it is visible.
//  - Counters (from, to, counter) only grow, from operation to operation too: signals and waits of
//    a schedule balance, so a rank may run ahead into the next operation.
//  - Scratch memory of a rank belongs to one operation from the rank's start to its end. Programs
//    with `alternate_scratch` may touch a peer's scratch memory before it has entered or after it
//    has left; theirs comes from an area of its own with two halves, taken in turn by such programs
//    only. Every rank leaves such a schedule after every other one has entered it (the verifier
//    checks that), so nobody can be two such operations ahead, and two halves are enough.
// What a verified schedule promises
//  - The result of the operation's definition, whatever the interleaving; no deadlock; no two
//    unordered accesses to one element of which one writes.
//  - in, out and scratch of another rank are touched only between its start and its end
//    (scratch: unless alternate_scratch).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace onrt::cc {

// Sizes of in and out in elements, with S = stride (the distance between blocks) and n ranks.
enum class Op : uint8_t {
  kAllReduce,      // in count, out count: the reduction of all ranks' in
  kAllGather,      // in count, out n blocks: block j is rank j's in
  kAllGatherV,     // in counts[rank], out: block j of counts[j] elements at out_offsets[j]
  kReduceScatter,  // in n blocks, out count: the reduction of block `rank` of all ranks' in
  kAllToAll,       // in n blocks, out n blocks: block j of out is block `rank` of rank j's in
  kAllToAllV,      // the same with counts[from * n + to] elements at in_offsets, out_offsets
  kPermute,        // out of a pair's target is in of its source; other outs keep what they hold
  kBroadcast,      // out of every rank is root's in
  kReduce,         // out of root is the reduction of all ranks' in
  kGather,         // out of root: block j is rank j's in
  kScatter,        // out of rank j is block j of root's in
  kBarrier,        // no data: nobody leaves before everybody has entered
};
inline constexpr int kOps = 12;
std::string_view op_name(Op op);  // as nccom-test names it: "all_reduce"
Result<Op> parse_op(std::string_view name);
bool op_reduces(Op op);  // all_reduce, reduce_scatter, reduce
bool op_has_root(Op op);

// What a rank may do with another rank's memory.
enum class Access : uint8_t {
  kDirect,  // load, store and copy: in, out and scratch (peers map each other's HBM)
  kStaged,  // the same, but scratch only: in and out are private
};
std::string_view access_name(Access access);

inline constexpr int kMaxRanks = 4096;
inline constexpr int kMaxChannels = 32;         // as the device has
inline constexpr int kMaxAllToAllVRanks = 512;  // their spec has ranks * ranks counts

// Everything that a schedule depends on. All ranks must agree on every field.
struct Spec {
  Op op = Op::kAllReduce;
  int ranks = 1;
  uint64_t count = 0;   // elements of a block; 0 is an operation that moves nothing
  uint64_t stride = 0;  // elements from block to block in buffers of n blocks; 0: count
  int root = 0;
  // The smaller buffer lies within the larger one: all_reduce, broadcast, reduce, permute,
  // all_to_all(v): in == out; all_gather, gather (root): in is block `rank` of out;
  // reduce_scatter, scatter (root): out is block `rank` of in.
  bool in_place = false;
  bool deterministic = false;  // reduce in the order of ranks: ((x0 + x1) + x2) + ...
  Access access = Access::kDirect;
  uint32_t element_bytes = 4;  // for cost, and chunks that begin at cache lines
  // Elements of Buffer::kPartial: 4 for 8- and 16-bit floating types, else as element_bytes.
  uint32_t partial_bytes = 4;
  int channels = 1;  // parts of the message that move independently
  int slices = 1;    // parts of a chunk, so that moving one overlaps reducing another

  // kAllGatherV: n; kAllToAllV: n * n, [from * n + to].
  std::vector<uint64_t> counts;
  // Where blocks begin; empty: packed in the order of ranks. kAllGatherV: n each, in_offsets[i] in
  // rank i's in. kAllToAllV: n * n, [from * n + to]: in_offsets in from's in, out_offsets in to's
  // out.
  std::vector<uint64_t> in_offsets;
  std::vector<uint64_t> out_offsets;
  std::vector<std::pair<int, int>> pairs;  // kPermute: (source, target); each at most once

  uint64_t block_stride() const { return stride == 0 ? count : stride; }
  // Block offsets with the packed default.
  uint64_t in_offset(int from, int to) const;
  uint64_t out_offset(int from, int to) const;
  bool operator==(const Spec&) const = default;
};

// NRT_INVALID that names the field, what was expected and found.
Status check_spec(const Spec& spec);
// Elements of a rank's buffers; 0 where the rank has no such buffer (scatter's in off root).
uint64_t in_elements(const Spec& spec, int rank);
uint64_t out_elements(const Spec& spec, int rank);

// In place, in and out are one memory: offsets of both from its beginning.
struct Placement {
  uint64_t in_base = 0;
  uint64_t out_base = 0;
  bool shared = false;
};
Placement placement(const Spec& spec, int rank);

enum class Buffer : uint8_t {
  kIn,
  kOut,
  kScratch,  // elements of the operation's type
  kPartial,  // scratch as well: partial reductions in the type they accumulate in (f32 for bf16)
};
std::string_view buffer_name(Buffer buffer);
Result<Buffer> parse_buffer(std::string_view name);

enum class StepKind : uint8_t {
  kCopy,    // one input, one output, both here
  kPut,     // one input here, one or more outputs, one of them elsewhere
  kGet,     // one input elsewhere, one output here
  kReduce,  // inputs folded from left to right, the result to every output. Into kPartial: the
            // accumulator as it is; elsewhere: the operation's final value (rounded once, and
            // divided for avg). One input is allowed: it widens or finishes.
  kSignal,  // counter (here, peer, counter) rises by amount; peer may be this rank
  kWait,    // until counter (peer, here, counter) has risen by amount more than former waits took
  kBarrier  // all ranks, same channel: nobody goes on before everybody came
};
std::string_view step_kind_name(StepKind kind);
Result<StepKind> parse_step_kind(std::string_view name);

struct Operand {
  int rank = 0;
  Buffer buffer = Buffer::kIn;
  uint64_t offset = 0;  // elements
  bool operator==(const Operand&) const = default;
};

// A step that moves data has `count` > 0 elements per operand; an output is exactly one of the
// inputs or overlaps none. Executors may cut steps that move data into slices.
struct Step {
  StepKind kind = StepKind::kCopy;
  uint32_t first_operand = 0;  // RankProgram::operands: inputs, then outputs
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  uint64_t count = 0;
  int peer = 0;          // kSignal, kWait
  uint32_t counter = 0;  // one channel of `from` signals it, one channel of `to` waits for it
  uint32_t amount = 0;
  bool operator==(const Step&) const = default;
};
inline bool moves_data(StepKind kind) { return kind <= StepKind::kReduce; }

// One rank's part.
struct RankProgram {
  std::vector<std::vector<Step>> channels;
  std::vector<Operand> operands;
  uint64_t scratch_elements = 0;  // of this rank's memory, whoever touches it
  uint64_t partial_elements = 0;
  bool alternate_scratch = false;  // the same for all ranks

  std::span<const Operand> inputs(const Step& step) const {
    return std::span(operands).subspan(step.first_operand, step.inputs);
  }
  std::span<const Operand> step_outputs(const Step& step) const {
    return std::span(operands).subspan(step.first_operand + step.inputs, step.outputs);
  }
  bool operator==(const RankProgram&) const = default;
};

struct Schedule {
  std::string algorithm;
  Spec spec;
  std::vector<RankProgram> programs;  // one a rank
  bool operator==(const Schedule&) const = default;
};

// Bytes that rank's steps move from each rank to each rank's memory, without those within one
// rank's memory: [from * ranks + to]. What transport counters must show.
std::vector<uint64_t> traffic(const Schedule& schedule);
std::vector<uint64_t> traffic(const Spec& spec, const RankProgram& program, int rank);

// Part `index` of `parts` of `count` elements, as (first, count): in order, without gaps, of
// unequal sizes when it does not divide; bounds are multiples of `granule` elements except the end.
std::pair<uint64_t, uint64_t> part_of(uint64_t count, uint64_t parts, uint64_t index,
                                      uint64_t granule = 1);
// Elements in 64 bytes, 1 when that is no whole number.
uint64_t line_elements(const Spec& spec);

// The operation on elements [first, first + count) of each block, as a spec whose schedule is run
// with `first` added to all in and out offsets: `stride` keeps the distance of blocks. All windows
// of one length have the same schedule. For kAllGatherV and kAllToAllV the offsets hold it already
// (add nothing); blocks that end before `first` have a count of 0.
Spec window_of(const Spec& spec, uint64_t first, uint64_t count);

}  // namespace onrt::cc
