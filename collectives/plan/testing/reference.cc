// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/testing/reference.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "collectives/plan/interpret.h"
#include "runtime/base/format.h"

namespace onrt::cc::testing {
namespace {

uint32_t mask_of(const Spec& spec) {
  return spec.element_bytes < 4 ? (1u << (8 * spec.element_bytes)) - 1 : ~0u;
}

size_t value_bytes(const Spec& spec, bool wide) {
  return std::min<size_t>(4, wide ? spec.partial_bytes : spec.element_bytes);
}

size_t at(uint64_t value) { return static_cast<size_t>(value); }

void store(const Spec& spec, std::vector<std::byte>& memory, uint64_t element, uint32_t value) {
  std::memcpy(memory.data() + element * spec.element_bytes, &value, value_bytes(spec, false));
}

uint32_t load(const Spec& spec, const std::vector<std::byte>& memory, uint64_t element) {
  uint32_t value = 0;
  std::memcpy(&value, memory.data() + element * spec.element_bytes, value_bytes(spec, false));
  return value;
}

ReduceFunction sum_of(const Spec& spec) {
  return [&spec](std::span<const ReduceOperand> inputs, std::byte* result, bool final,
                 uint64_t count) {
    const size_t step = final ? spec.element_bytes : spec.partial_bytes;
    std::vector<uint32_t> sums(at(count));
    for (const ReduceOperand& input : inputs) {
      const size_t input_step = input.wide ? spec.partial_bytes : spec.element_bytes;
      for (size_t i = 0; i < sums.size(); ++i) {
        uint32_t value = 0;
        std::memcpy(&value, input.data + i * input_step, value_bytes(spec, input.wide));
        sums[i] += value;
      }
    }
    std::memset(result, 0, sums.size() * step);
    for (size_t i = 0; i < sums.size(); ++i) {
      std::memcpy(result + i * step, &sums[i], value_bytes(spec, !final));
    }
  };
}

}  // namespace

Vectors reference(const Spec& spec, const Vectors& in, const Vectors& out_before) {
  Vectors out = out_before;
  const int n = spec.ranks;
  const size_t stride = at(spec.block_stride());
  const auto reduced = [&](size_t element) {
    uint32_t sum = 0;
    for (const auto& vector : in) {
      sum += vector[element];
    }
    return sum & mask_of(spec);
  };
  for (int rank = 0; rank < n; ++rank) {
    const auto r = static_cast<size_t>(rank);
    for (size_t i = 0; i < spec.count; ++i) {
      switch (spec.op) {
        case Op::kAllReduce:
          out[r][i] = reduced(i);
          break;
        case Op::kReduce:
          if (rank == spec.root) {
            out[r][i] = reduced(i);
          }
          break;
        case Op::kReduceScatter:
          out[r][i] = reduced(r * stride + i);
          break;
        case Op::kBroadcast:
          out[r][i] = in[static_cast<size_t>(spec.root)][i];
          break;
        case Op::kScatter:
          out[r][i] = in[static_cast<size_t>(spec.root)][r * stride + i];
          break;
        case Op::kAllGather:
        case Op::kGather:
        case Op::kAllToAll:
          for (size_t from = 0; from < in.size(); ++from) {
            if (spec.op != Op::kGather || rank == spec.root) {
              out[r][from * stride + i] = in[from][spec.op == Op::kAllToAll ? r * stride + i : i];
            }
          }
          break;
        default:
          break;
      }
    }
    for (const auto& [source, target] : spec.pairs) {
      if (target == rank) {
        out[r] = in[static_cast<size_t>(source)];
      }
    }
    for (int from = 0; from < n && spec.op == Op::kAllGatherV; ++from) {
      for (size_t i = 0; i < spec.counts[static_cast<size_t>(from)]; ++i) {
        out[r][at(spec.out_offset(from, rank)) + i] =
            in[static_cast<size_t>(from)][at(spec.in_offset(from, rank)) + i];
      }
    }
    for (int from = 0; from < n && spec.op == Op::kAllToAllV; ++from) {
      for (size_t i = 0; i < spec.counts[static_cast<size_t>(from * n + rank)]; ++i) {
        out[r][at(spec.out_offset(from, rank)) + i] =
            in[static_cast<size_t>(from)][at(spec.in_offset(from, rank)) + i];
      }
    }
  }
  return out;
}

Vectors random_inputs(const Spec& spec, uint64_t seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  Vectors in;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    in.emplace_back(at(in_elements(spec, rank)));
    for (uint32_t& value : in.back()) {
      value = random() & mask_of(spec);
    }
  }
  return in;
}

Vectors outs_before(const Spec& spec, const Vectors& in) {
  Vectors out;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    const Placement place = placement(spec, rank);
    const auto& own = in[static_cast<size_t>(rank)];
    out.emplace_back(at(out_elements(spec, rank)));
    for (size_t i = 0; i < out.back().size(); ++i) {
      const uint64_t element = i + place.out_base - place.in_base;  // wraps when before in
      out.back()[i] =
          place.shared && element < own.size() ? own[at(element)] : 0xa5a5a5a5u & mask_of(spec);
    }
  }
  return out;
}

std::string run_and_compare(const Schedule& schedule, uint64_t seed, uint64_t slice) {
  const Spec& spec = schedule.spec;
  const Vectors in = random_inputs(spec, seed);
  const Vectors expected = reference(spec, in, outs_before(spec, in));
  std::vector<RankMemory> memory = make_memory(schedule, std::byte{0xa5});
  for (size_t rank = 0; rank < in.size(); ++rank) {
    const Placement place = placement(spec, static_cast<int>(rank));
    for (size_t i = 0; i < in[rank].size(); ++i) {
      store(spec, memory[rank].in, place.in_base + i, in[rank][i]);
    }
  }
  if (const Status status = interpret(schedule, memory, sum_of(spec), seed, slice); !status.ok()) {
    return std::string(status.message());
  }
  for (size_t rank = 0; rank < in.size(); ++rank) {
    const Placement place = placement(spec, static_cast<int>(rank));
    for (size_t i = 0; i < expected[rank].size(); ++i) {
      const uint32_t found =
          load(spec, place.shared ? memory[rank].in : memory[rank].out, place.out_base + i);
      if (found != expected[rank][i]) {
        return format("rank {} out[{}]: expected {}, found {}", rank, i, expected[rank][i], found);
      }
    }
  }
  return "";
}

}  // namespace onrt::cc::testing
