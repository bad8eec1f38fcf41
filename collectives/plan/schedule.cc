// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/schedule.h"

#include <algorithm>
#include <array>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr std::array<std::string_view, kOps> kOpNames = {
    "all_reduce", "all_gather", "all_gatherv", "reduce_scatter", "alltoall", "alltoallv",
    "permute",    "broadcast",  "reduce",      "gather",         "scatter",  "barrier"};
constexpr std::array<std::string_view, 4> kBufferNames = {"in", "out", "scratch", "partial"};
constexpr std::array<std::string_view, 7> kStepNames = {"copy",   "put",  "get",    "reduce",
                                                        "signal", "wait", "barrier"};

// Larger than any memory, small enough that sums of two never wrap.
constexpr uint64_t kLargestExtent = 1ULL << 56;

template <class Enum, class Names>
Result<Enum> parse_name(const Names& names, std::string_view name, std::string_view what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) {
    return static_cast<Enum>(found - names.begin());
  }
  std::string known;
  for (const std::string_view other : names) {
    known += (known.empty() ? "" : ", ") + std::string(other);
  }
  return Status(NRT_INVALID, format("{} '{}': expected one of {}", what, name, known));
}

size_t index(uint64_t value) { return static_cast<size_t>(value); }

size_t pair_index(const Spec& spec, int from, int to) {
  return index(static_cast<uint64_t>(from)) * index(static_cast<uint64_t>(spec.ranks)) +
         index(static_cast<uint64_t>(to));
}

uint64_t blocks_extent(const Spec& spec) {
  if (spec.count == 0) {
    return 0;
  }
  return static_cast<uint64_t>(spec.ranks - 1) * spec.block_stride() + spec.count;
}

Status check_list(std::string_view name, const std::vector<uint64_t>& list, uint64_t expected) {
  if (list.size() != expected) {
    return {NRT_INVALID, format("{}: expected {} numbers, found {}", name, expected, list.size())};
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] >= kLargestExtent / kMaxRanks) {
      return {NRT_INVALID,
              format("{}[{}]: {} elements are more than any memory holds", name, i, list[i])};
    }
  }
  return {};
}

Status check_v_lists(const Spec& spec) {
  const auto n = static_cast<uint64_t>(spec.ranks);
  const bool gather = spec.op == Op::kAllGatherV;
  if (!gather && spec.op != Op::kAllToAllV) {
    if (!spec.counts.empty() || !spec.in_offsets.empty() || !spec.out_offsets.empty()) {
      return {NRT_INVALID, format("{} takes no counts and no offsets of blocks", op_name(spec.op))};
    }
    return {};
  }
  if (!gather && spec.ranks > kMaxAllToAllVRanks) {
    return {NRT_INVALID,
            format("alltoallv: expected at most {} ranks, found {}", kMaxAllToAllVRanks, n)};
  }
  const uint64_t expected = gather ? n : n * n;
  ONRT_RETURN_IF_ERROR(check_list("counts", spec.counts, expected));
  if (!spec.in_offsets.empty()) {
    ONRT_RETURN_IF_ERROR(check_list("in_offsets", spec.in_offsets, expected));
  }
  if (!spec.out_offsets.empty()) {
    ONRT_RETURN_IF_ERROR(check_list("out_offsets", spec.out_offsets, expected));
  }
  return {};
}

// Blocks that one rank's out receives must not overlap.
Status check_out_blocks(const Spec& spec) {
  if (spec.out_offsets.empty()) {
    return {};
  }
  const bool gather = spec.op == Op::kAllGatherV;
  for (int to = 0; to < (gather ? 1 : spec.ranks); ++to) {
    std::vector<std::pair<uint64_t, uint64_t>> blocks;
    for (int from = 0; from < spec.ranks; ++from) {
      const size_t at = gather ? static_cast<size_t>(from) : pair_index(spec, from, to);
      if (spec.counts[at] > 0) {
        blocks.emplace_back(spec.out_offset(from, to), spec.counts[at]);
      }
    }
    std::sort(blocks.begin(), blocks.end());
    for (size_t i = 1; i < blocks.size(); ++i) {
      if (blocks[i - 1].first + blocks[i - 1].second > blocks[i].first) {
        return {NRT_INVALID, format("out_offsets: a block at {} of {} elements overlaps that at {}",
                                    blocks[i - 1].first, blocks[i - 1].second, blocks[i].first)};
      }
    }
  }
  return {};
}

Status check_pairs(const Spec& spec) {
  if (spec.op != Op::kPermute) {
    return spec.pairs.empty() ? Status()
                              : Status(NRT_INVALID, format("{} takes no pairs", op_name(spec.op)));
  }
  std::vector<bool> sends(static_cast<size_t>(spec.ranks));
  std::vector<bool> receives(static_cast<size_t>(spec.ranks));
  for (const auto& [source, target] : spec.pairs) {
    if (source < 0 || source >= spec.ranks || target < 0 || target >= spec.ranks) {
      return {NRT_INVALID,
              format("pair ({}, {}): expected ranks 0 to {}", source, target, spec.ranks - 1)};
    }
    if (sends[static_cast<size_t>(source)] || receives[static_cast<size_t>(target)]) {
      return {NRT_INVALID,
              format("pair ({}, {}): expected each rank at most once as source and once as target",
                     source, target)};
    }
    sends[static_cast<size_t>(source)] = true;
    receives[static_cast<size_t>(target)] = true;
  }
  return {};
}

Status check_in_place(const Spec& spec) {
  for (int rank = 0; spec.in_place && spec.op == Op::kAllGatherV && rank < spec.ranks; ++rank) {
    if (spec.in_offset(rank, 0) > spec.out_offset(rank, 0)) {
      return {NRT_INVALID, format("all_gatherv in place: rank {}'s in would begin before out: "
                                  "in_offset {}, out_offset {}",
                                  rank, spec.in_offset(rank, 0), spec.out_offset(rank, 0))};
    }
  }
  if (spec.in_place && spec.op == Op::kAllToAllV) {
    for (int from = 0; from < spec.ranks; ++from) {
      for (int to = 0; to < spec.ranks; ++to) {
        if (spec.counts[pair_index(spec, from, to)] != spec.counts[pair_index(spec, to, from)] ||
            spec.in_offset(from, to) != spec.out_offset(to, from)) {
          return {NRT_INVALID,
                  format("alltoallv in place: expected ranks {} and {} to exchange blocks of one "
                         "size at one place",
                         from, to)};
        }
      }
    }
  }
  return {};
}

Status check_range(std::string_view name, uint64_t value, uint64_t least, uint64_t most) {
  if (value < least || value > most) {
    return {NRT_INVALID, format("{}: expected {} to {}, found {}", name, least, most, value)};
  }
  return {};
}

}  // namespace

std::string_view op_name(Op op) { return kOpNames[static_cast<size_t>(op)]; }
Result<Op> parse_op(std::string_view name) { return parse_name<Op>(kOpNames, name, "operation"); }

bool op_reduces(Op op) {
  return op == Op::kAllReduce || op == Op::kReduceScatter || op == Op::kReduce;
}

bool op_has_root(Op op) {
  return op == Op::kBroadcast || op == Op::kReduce || op == Op::kGather || op == Op::kScatter;
}

std::string_view access_name(Access access) {
  return access == Access::kDirect ? "direct" : "staged";
}

std::string_view buffer_name(Buffer buffer) { return kBufferNames[static_cast<size_t>(buffer)]; }
Result<Buffer> parse_buffer(std::string_view name) {
  return parse_name<Buffer>(kBufferNames, name, "buffer");
}

std::string_view step_kind_name(StepKind kind) { return kStepNames[static_cast<size_t>(kind)]; }
Result<StepKind> parse_step_kind(std::string_view name) {
  return parse_name<StepKind>(kStepNames, name, "step");
}

uint64_t Spec::in_offset(int from, int to) const {
  if (op == Op::kAllGatherV) {
    return in_offsets.empty() ? 0 : in_offsets[static_cast<size_t>(from)];
  }
  if (op == Op::kAllToAllV) {
    if (!in_offsets.empty()) {
      return in_offsets[pair_index(*this, from, to)];
    }
    uint64_t offset = 0;
    for (int other = 0; other < to; ++other) {
      offset += counts[pair_index(*this, from, other)];
    }
    return offset;
  }
  return static_cast<uint64_t>(to) * block_stride();
}

uint64_t Spec::out_offset(int from, int to) const {
  if (op == Op::kAllGatherV || op == Op::kAllToAllV) {
    const bool gather = op == Op::kAllGatherV;
    const auto at = [&](int source) {
      return gather ? static_cast<size_t>(source) : pair_index(*this, source, to);
    };
    if (!out_offsets.empty()) {
      return out_offsets[at(from)];
    }
    uint64_t offset = 0;
    for (int other = 0; other < from; ++other) {
      offset += counts[at(other)];
    }
    return offset;
  }
  return static_cast<uint64_t>(from) * block_stride();
}

Status check_spec(const Spec& spec) {
  ONRT_RETURN_IF_ERROR(check_range("operation", static_cast<uint64_t>(spec.op), 0, kOps - 1));
  if (spec.ranks < 1 || spec.ranks > kMaxRanks) {
    return {NRT_INVALID, format("ranks: expected 1 to {}, found {}", kMaxRanks, spec.ranks)};
  }
  if (spec.root < 0 || spec.root >= spec.ranks || (spec.root != 0 && !op_has_root(spec.op))) {
    return {NRT_INVALID,
            format("root of {}: expected {}, found {}", op_name(spec.op),
                   op_has_root(spec.op) ? format("0 to {}", spec.ranks - 1) : "0", spec.root)};
  }
  if (spec.channels < 1 || spec.channels > kMaxChannels) {
    return {NRT_INVALID,
            format("channels: expected 1 to {}, found {}", kMaxChannels, spec.channels)};
  }
  if (spec.slices < 1 || spec.slices > kMaxChannels) {
    return {NRT_INVALID, format("slices: expected 1 to {}, found {}", kMaxChannels, spec.slices)};
  }
  ONRT_RETURN_IF_ERROR(
      check_range("count", spec.count, 0, kLargestExtent / static_cast<uint64_t>(spec.ranks)));
  ONRT_RETURN_IF_ERROR(check_range("stride", spec.block_stride(), spec.count,
                                   kLargestExtent / static_cast<uint64_t>(spec.ranks)));
  ONRT_RETURN_IF_ERROR(check_range("element_bytes", spec.element_bytes, 1, 16));
  ONRT_RETURN_IF_ERROR(check_range("partial_bytes", spec.partial_bytes, 1, 16));
  ONRT_RETURN_IF_ERROR(check_v_lists(spec));
  ONRT_RETURN_IF_ERROR(check_out_blocks(spec));
  ONRT_RETURN_IF_ERROR(check_pairs(spec));
  return check_in_place(spec);
}

uint64_t in_elements(const Spec& spec, int rank) {
  switch (spec.op) {
    case Op::kAllGatherV:
      return spec.counts[static_cast<size_t>(rank)] == 0
                 ? 0
                 : spec.in_offset(rank, 0) + spec.counts[static_cast<size_t>(rank)];
    case Op::kAllToAllV: {
      uint64_t end = 0;
      for (int to = 0; to < spec.ranks; ++to) {
        const uint64_t count = spec.counts[pair_index(spec, rank, to)];
        end = count == 0 ? end : std::max(end, spec.in_offset(rank, to) + count);
      }
      return end;
    }
    case Op::kReduceScatter:
    case Op::kAllToAll:
      return blocks_extent(spec);
    case Op::kScatter:
      return rank == spec.root ? blocks_extent(spec) : 0;
    case Op::kBroadcast:
      return rank == spec.root ? spec.count : 0;
    case Op::kBarrier:
      return 0;
    default:
      return spec.count;
  }
}

uint64_t out_elements(const Spec& spec, int rank) {
  switch (spec.op) {
    case Op::kAllGatherV:
    case Op::kAllToAllV: {
      uint64_t end = 0;
      for (int from = 0; from < spec.ranks; ++from) {
        const uint64_t count = spec.op == Op::kAllGatherV
                                   ? spec.counts[static_cast<size_t>(from)]
                                   : spec.counts[pair_index(spec, from, rank)];
        end = count == 0 ? end : std::max(end, spec.out_offset(from, rank) + count);
      }
      return end;
    }
    case Op::kAllGather:
    case Op::kAllToAll:
      return blocks_extent(spec);
    case Op::kGather:
      return rank == spec.root ? blocks_extent(spec) : 0;
    case Op::kReduce:
      return rank == spec.root ? spec.count : 0;
    case Op::kBarrier:
      return 0;
    default:
      return spec.count;
  }
}

Placement placement(const Spec& spec, int rank) {
  Placement place;
  if (!spec.in_place) {
    return place;
  }
  place.shared = in_elements(spec, rank) > 0 && out_elements(spec, rank) > 0;
  if (!place.shared) {
    return place;
  }
  const uint64_t own = static_cast<uint64_t>(rank) * spec.block_stride();
  switch (spec.op) {
    case Op::kAllGather:
    case Op::kGather:
      place.in_base = own;
      break;
    case Op::kAllGatherV:
      place.in_base = spec.out_offset(rank, 0) - spec.in_offset(rank, 0);
      break;
    case Op::kReduceScatter:
    case Op::kScatter:
      place.out_base = own;
      break;
    default:
      break;
  }
  return place;
}

std::vector<uint64_t> traffic(const Spec& spec, const RankProgram& program, int rank) {
  const auto n = static_cast<size_t>(spec.ranks);
  std::vector<uint64_t> bytes(n * n);
  const auto size_of = [&](const Operand& operand) -> uint64_t {
    return operand.buffer == Buffer::kPartial ? spec.partial_bytes : spec.element_bytes;
  };
  const auto here = static_cast<size_t>(rank);
  for (const auto& channel : program.channels) {
    for (const Step& step : channel) {
      for (const Operand& input : program.inputs(step)) {
        if (input.rank != rank) {
          bytes[static_cast<size_t>(input.rank) * n + here] += step.count * size_of(input);
        }
      }
      for (const Operand& output : program.step_outputs(step)) {
        if (output.rank != rank) {
          bytes[here * n + static_cast<size_t>(output.rank)] += step.count * size_of(output);
        }
      }
    }
  }
  return bytes;
}

std::vector<uint64_t> traffic(const Schedule& schedule) {
  std::vector<uint64_t> total(static_cast<size_t>(schedule.spec.ranks) *
                              static_cast<size_t>(schedule.spec.ranks));
  for (size_t rank = 0; rank < schedule.programs.size(); ++rank) {
    const auto part = traffic(schedule.spec, schedule.programs[rank], static_cast<int>(rank));
    for (size_t i = 0; i < total.size(); ++i) {
      total[i] += part[i];
    }
  }
  return total;
}

std::pair<uint64_t, uint64_t> part_of(uint64_t count, uint64_t parts, uint64_t index,
                                      uint64_t granule) {
  const uint64_t units = count / granule + (count % granule != 0 ? 1 : 0);
  const auto begin = [&](uint64_t i) {
    const uint64_t unit = units / parts * i + std::min(i, units % parts);
    return std::min(count, unit * granule);
  };
  return {begin(index), begin(index + 1) - begin(index)};
}

uint64_t line_elements(const Spec& spec) {
  return 64 % spec.element_bytes == 0 ? 64 / spec.element_bytes : 1;
}

Spec window_of(const Spec& spec, uint64_t first, uint64_t count) {
  Spec window = spec;
  window.stride = spec.block_stride();
  window.count = count;
  if (spec.op != Op::kAllGatherV && spec.op != Op::kAllToAllV) {
    return window;
  }
  window.count = spec.count;
  window.stride = spec.stride;
  const bool gather = spec.op == Op::kAllGatherV;
  window.out_offsets.resize(spec.counts.size());
  window.in_offsets.resize(spec.counts.size());
  for (size_t i = 0; i < spec.counts.size(); ++i) {
    const int from = static_cast<int>(gather ? i : i / static_cast<size_t>(spec.ranks));
    const int to = static_cast<int>(gather ? 0 : i % static_cast<size_t>(spec.ranks));
    window.counts[i] = spec.counts[i] <= first ? 0 : std::min(count, spec.counts[i] - first);
    window.out_offsets[i] = spec.out_offset(from, to) + first;
    window.in_offsets[i] = spec.in_offset(from, to) + first;
  }
  return window;
}

}  // namespace onrt::cc
