// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/testing/specs.h"

#include <random>

#include "runtime/base/format.h"

namespace onrt::cc::testing {
namespace {

void add_lists(Spec& spec, uint32_t seed) {
  std::mt19937 random(seed);
  const auto n = static_cast<size_t>(spec.ranks);
  if (spec.op == Op::kPermute) {
    // A rotation, with every third pair left out.
    const int turn = n == 1 ? 0 : 1 + static_cast<int>(seed % (n - 1));
    for (int rank = 0; rank < spec.ranks; ++rank) {
      if (rank % 3 != 2) {
        spec.pairs.emplace_back(rank, (rank + turn) % spec.ranks);
      }
    }
  }
  if (spec.op != Op::kAllGatherV && spec.op != Op::kAllToAllV) {
    return;
  }
  spec.counts.resize(spec.op == Op::kAllGatherV ? n : n * n);
  for (uint64_t& count : spec.counts) {
    count = spec.count == 0 ? 0 : random() % (spec.count + 1);
  }
  for (size_t from = 0; spec.op == Op::kAllToAllV && spec.in_place && from < n; ++from) {
    for (size_t to = 0; to < from; ++to) {
      spec.counts[from * n + to] = spec.counts[to * n + from];
    }
  }
  spec.count = 0;
}

// Blocks with gaps and in reverse order.
void spread(Spec& spec) {
  if (spec.counts.empty()) {
    spec.stride = spec.count + 3;
    return;
  }
  const auto n = static_cast<size_t>(spec.ranks);
  const bool gather = spec.op == Op::kAllGatherV;
  spec.out_offsets.resize(spec.counts.size());
  spec.in_offsets.resize(spec.counts.size());
  for (size_t to = 0; to < (gather ? 1 : n); ++to) {
    uint64_t offset = 2;
    for (size_t i = n; i-- > 0;) {
      const size_t at = gather ? i : i * n + to;
      spec.out_offsets[at] = offset;
      offset += spec.counts[at] + 1;
    }
  }
  for (size_t from = 0; from < n; ++from) {
    for (size_t to = 0; to < n && !gather; ++to) {
      spec.in_offsets[from * n + to] = spec.out_offsets[to * n + from];
    }
  }
}

Spec make_spec(Op op, int ranks, uint64_t count, int variant) {
  Spec spec;
  spec.op = op;
  spec.ranks = ranks;
  spec.count = op == Op::kBarrier ? 0 : count;
  spec.in_place = (variant & 1) != 0;
  spec.access = (variant & 2) != 0 ? Access::kStaged : Access::kDirect;
  spec.channels = (variant & 4) != 0 ? 3 : 1;
  spec.slices = (variant & 4) != 0 ? 2 : 1;
  spec.root = op_has_root(op) ? (variant & 8) != 0 ? ranks - 1 : ranks / 3 : 0;
  spec.element_bytes = (variant & 8) != 0 ? 2 : 32;
  add_lists(spec, static_cast<uint32_t>(variant) * 7 + static_cast<uint32_t>(count));
  if ((variant & 8) != 0) {
    spread(spec);
  }
  spec.deterministic = (variant & 16) != 0;
  return spec;
}

}  // namespace

std::string spec_text(const Spec& spec) {
  std::string text =
      format("{} n={} count={} channels={} slices={} {}", op_name(spec.op), spec.ranks, spec.count,
             spec.channels, spec.slices, access_name(spec.access));
  text += op_has_root(spec.op) ? format(" root={}", spec.root) : "";
  text += spec.stride != 0 ? format(" stride={}", spec.stride) : "";
  text += spec.in_place ? " in_place" : "";
  return text + (spec.deterministic ? " deterministic" : "");
}

std::vector<Spec> specs_of(Op op, int ranks) {
  std::vector<Spec> specs;
  const auto n = static_cast<uint64_t>(ranks);
  for (const uint64_t count : {uint64_t{0}, uint64_t{1}, n - 1, n * 4 + 1, n * 64}) {
    for (int variant = 0; variant < (op_reduces(op) ? 32 : 16); ++variant) {
      specs.push_back(make_spec(op, ranks, count, variant));
    }
  }
  return specs;
}

std::vector<Spec> few_specs_of(Op op, int ranks) {
  const auto n = static_cast<uint64_t>(ranks);
  std::vector<Spec> specs = {make_spec(op, ranks, n * 5 + 3, 0),
                             make_spec(op, ranks, n * 4 - 1, 15), make_spec(op, ranks, n * 16, 6),
                             make_spec(op, ranks, n / 2, 1)};
  if (op_reduces(op)) {
    specs.push_back(make_spec(op, ranks, n * 5 + 3, 16));
  }
  return specs;
}

}  // namespace onrt::cc::testing
