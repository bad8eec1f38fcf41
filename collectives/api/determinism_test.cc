// SPDX-License-Identifier: Apache-2.0
// Complaint 12 (NCCL #1026, #434): results that depend on size, algorithm or placement. In
// deterministic mode all bits are those of one sum: from rank 0 on, in f32 (f64 for f64), rounded
// once. The expected bits are made here, by that definition, from inputs whose sums differ when
// they are added in another order.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "collectives/api/testing/processes.h"
#include "runtime/base/format.h"
#include "runtime/base/small_float.h"

namespace onrt::cc {
namespace {

using testing::Process;
using testing::run_job;

// Float types as this test sees them: what an accumulator is, and how it is rounded.
struct F32 {
  using Bits = float;
  using Sum = float;
  static constexpr Dtype kDtype = Dtype::kF32;
  static float widen(float value) { return value; }
  static float round(float value) { return value; }
};
struct F64 {
  using Bits = double;
  using Sum = double;
  static constexpr Dtype kDtype = Dtype::kF64;
  static double widen(double value) { return value; }
  static double round(double value) { return value; }
};
template <class Format, Dtype kType>
struct Narrow {
  using Bits = uint16_t;
  using Sum = float;
  static constexpr Dtype kDtype = kType;
  static float widen(uint16_t bits) { return Format::to_f32(bits); }
  static uint16_t round(float value) { return Format::from_f32(value); }
};
using Bf16Bits = Narrow<Bf16, Dtype::kBF16>;
using F16Bits = Narrow<F16, Dtype::kF16>;

// Magnitudes over 24 binades and both signs: sums of even 8 bits of mantissa are inexact in f32.
template <class T>
std::vector<typename T::Bits> inputs_of(int rank, size_t count) {
  std::vector<typename T::Bits> values(count);
  uint64_t state = static_cast<uint64_t>(rank) * 0x9e3779b97f4a7c15ull + 17;
  for (auto& value : values) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;  // Knuth's MMIX
    const uint64_t other = state * 0xff51afd7ed558ccdull >> 33;
    const auto mantissa = static_cast<typename T::Sum>(state >> 11 | 1);  // 53 bits
    const auto scaled = std::ldexp(mantissa, static_cast<int>(other % 24) - 12 - 53);
    value = T::round((other >> 20 & 1) == 0 ? scaled : -scaled);
  }
  return values;
}

// `from_last`: the other order, to see that order matters at all.
template <class T>
std::vector<typename T::Bits> sum_of(int ranks, size_t count, bool average, bool from_last) {
  std::vector<std::vector<typename T::Bits>> in;
  in.reserve(static_cast<size_t>(ranks));
  for (int i = 0; i < ranks; ++i) {
    in.push_back(inputs_of<T>(from_last ? ranks - 1 - i : i, count));
  }
  std::vector<typename T::Bits> sums(count);
  for (size_t i = 0; i < count; ++i) {
    typename T::Sum sum = T::widen(in[0][i]);
    for (int rank = 1; rank < ranks; ++rank) {
      sum += T::widen(in[static_cast<size_t>(rank)][i]);
    }
    sums[i] = T::round(average ? sum / static_cast<typename T::Sum>(ranks) : sum);
  }
  return sums;
}

enum class Placement : uint8_t { kShared, kPrivate, kMixed };

// One message as all_reduce or reduce_scatter, cut and placed in every way.
template <class T>
class Message {
 public:
  Message(Process& process, ReduceOp how)
      : p_(process),
        how_(how),
        mine_(inputs_of<T>(process.world.rank(), kCount)),
        expected_(sum_of<T>(process.world.size(), kCount, how == ReduceOp::kAvg, false)) {}

  std::string reduce_whole() { return reduce(Op::kAllReduce, kCount, Placement::kMixed); }

  std::string reduce_in_every_way() {
    for (const Op op : {Op::kAllReduce, Op::kReduceScatter}) {
      for (const size_t piece : {kCount, kCount / 13, size_t{1001}}) {
        for (const Placement where : {Placement::kShared, Placement::kPrivate, Placement::kMixed}) {
          std::string result = reduce(op, piece, where);
          if (result != "ok") {
            return result;
          }
        }
      }
    }
    return "ok";
  }

 private:
  using Bits = typename T::Bits;
  static constexpr size_t kCount = 120120;  // divides by 2 to 8: blocks are whole

  LocalBuffer buffer(bool shared, uint64_t offset, std::vector<Bits>& own, size_t elements) {
    const size_t bytes = elements * sizeof(Bits);
    own.resize(elements);
    return shared ? p_.pool.at(offset, bytes)
                  : LocalBuffer{reinterpret_cast<std::byte*>(own.data()), bytes, {}};
  }

  // In pieces of `piece` elements a block, the first sixteen of them.
  std::string reduce(Op op, size_t piece, Placement where) {
    const auto me = static_cast<size_t>(p_.world.rank());
    const bool shared = where == Placement::kShared || (where == Placement::kMixed && me == 0);
    const size_t blocks = op == Op::kReduceScatter ? static_cast<size_t>(p_.world.size()) : 1;
    const size_t end = std::min(kCount, 16 * piece * blocks);
    for (size_t first = 0; first < end; first += piece * blocks) {
      const size_t part = std::min(piece * blocks, kCount - first) / blocks;
      Call call;
      call.op = op;
      call.dtype = T::kDtype;
      call.reduce_op = how_;
      call.count = part;
      call.in = buffer(shared, 0, in_, part * blocks);
      call.out = buffer(shared, p_.pool_bytes / 2, out_, part);
      std::copy_n(mine_.data() + first, part * blocks, reinterpret_cast<Bits*>(call.in.data));
      const Status status = p_.world.run(call);
      if (!status.ok()) {
        return std::string(status.message());
      }
      const size_t begin = first + (op == Op::kReduceScatter ? me * part : 0);
      if (std::memcmp(call.out.data, expected_.data() + begin, part * sizeof(Bits)) != 0) {
        return format("{} of {} in pieces of {}, placement {}, by {}: other bits", op_name(op),
                      dtype_name(T::kDtype), piece, static_cast<int>(where),
                      p_.world.last().algorithm);
      }
    }
    return "ok";
  }

  Process& p_;
  const ReduceOp how_;
  const std::vector<Bits> mine_, expected_;
  std::vector<Bits> in_, out_;
};

template <class T>
std::string reduce_in_every_way(Process& p) {
  std::string result = Message<T>(p, ReduceOp::kSum).reduce_in_every_way();
  return result == "ok" ? Message<T>(p, ReduceOp::kAvg).reduce_whole() : result;
}

TEST(Determinism, TheInputsTellOrdersApart) {
  EXPECT_NE(sum_of<F32>(4, 1000, false, false), sum_of<F32>(4, 1000, false, true));
  EXPECT_NE(sum_of<F64>(4, 1000, false, false), sum_of<F64>(4, 1000, false, true));
  EXPECT_NE(sum_of<Bf16Bits>(4, 100000, false, false), sum_of<Bf16Bits>(4, 100000, false, true));
  EXPECT_NE(sum_of<F16Bits>(4, 100000, false, false), sum_of<F16Bits>(4, 100000, false, true));
}

TEST(Determinism, TheSameBitsByEveryAlgorithmChunkAndPlacement) {
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.ops.has(Op::kAllReduce) && !algorithm.ops.has(Op::kReduceScatter)) {
      continue;
    }
    for (const int size : {2, 3, 4}) {
      EngineOptions engine;
      engine.planner.algorithm = algorithm.name;
      engine.planner.deterministic = true;
      const auto body = [](Process& p) {
        for (const auto& run : {reduce_in_every_way<F32>, reduce_in_every_way<F64>,
                                reduce_in_every_way<Bf16Bits>, reduce_in_every_way<F16Bits>}) {
          std::string result = run(p);
          if (result != "ok") {
            return result;
          }
        }
        return std::string("ok");
      };
      EXPECT_EQ(run_job(size, body, 4 << 20, engine), "ok") << algorithm.name << ", " << size;
    }
  }
}

// Without the mode results may depend on the algorithm, never on the rank or the run.
TEST(Determinism, WithoutTheModeAllRanksAndRunsStillAgree) {
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.ops.has(Op::kAllReduce)) {
      continue;
    }
    EngineOptions engine;
    engine.planner.algorithm = algorithm.name;
    const auto body = [](Process& p) -> std::string {
      constexpr size_t kCount = 5000;
      std::vector<float> first;
      for (int run = 0; run < 3; ++run) {
        std::vector<float> values = inputs_of<F32>(p.world.rank(), kCount);
        Call call;
        call.op = Op::kAllReduce;
        call.dtype = Dtype::kF32;
        call.count = kCount;
        call.in = call.out = {reinterpret_cast<std::byte*>(values.data()), kCount * 4, {}};
        std::vector<float> all(kCount * static_cast<size_t>(p.world.size()));
        Call gather;
        gather.op = Op::kAllGather;
        gather.dtype = Dtype::kF32;
        gather.count = kCount;
        gather.in = call.out;
        gather.out = {reinterpret_cast<std::byte*>(all.data()), all.size() * 4, {}};
        for (const Call* what : {&call, &gather}) {
          const Status status = p.world.run(*what);
          if (!status.ok()) {
            return std::string(status.message());
          }
        }
        first = run == 0 ? values : first;
        for (size_t i = 0; i < all.size(); ++i) {
          if (std::bit_cast<uint32_t>(all[i]) != std::bit_cast<uint32_t>(first[i % kCount])) {
            return format("element {} of rank {} in run {}", i % kCount, i / kCount, run);
          }
        }
      }
      return "ok";
    };
    EXPECT_EQ(run_job(5, body, 1 << 20, engine), "ok") << algorithm.name;
  }
}

}  // namespace
}  // namespace onrt::cc
