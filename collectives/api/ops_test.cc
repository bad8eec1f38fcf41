// SPDX-License-Identifier: Apache-2.0
// Every operation by every algorithm, over shared memory with real processes: types, sizes, in
// place and not, mapped and private buffers, groups. Expected values come from the definitions in
// collectives/plan/schedule.h; they are small whole numbers, exact in every type and in any order.
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/api/testing/processes.h"
#include "runtime/base/format.h"
#include "runtime/base/small_float.h"

namespace onrt::cc {
namespace {

using testing::Process;
using testing::run_job;

void put(Dtype dtype, int64_t value, std::byte* at) {
  const auto store = [&](auto bits) { std::memcpy(at, &bits, sizeof(bits)); };
  switch (dtype) {
    case Dtype::kF32:
      return store(static_cast<float>(value));
    case Dtype::kF64:
      return store(static_cast<double>(value));
    case Dtype::kBF16:
      return store(Bf16::from_f32(static_cast<float>(value)));
    case Dtype::kF16:
      return store(F16::from_f32(static_cast<float>(value)));
    case Dtype::kF8E4M3:
      return store(F8E4M3::from_f32(static_cast<float>(value)));
    case Dtype::kF8E4M3FN:
      return store(F8E4M3Fn::from_f32(static_cast<float>(value)));
    case Dtype::kF8E5M2:
      return store(F8E5M2::from_f32(static_cast<float>(value)));
    default:
      std::memcpy(at, &value, dtype_bytes(dtype));
  }
}

// What rank gives as element i: 0, 1 or 2, so that sums of 8 are exact in f8e5m2 after rounding.
int64_t given(int rank, uint64_t i) { return (rank + static_cast<int64_t>(i % 5)) % 3; }

struct Case {  // NOLINT(clang-analyzer-optin.performance.Padding): in reading order
  Op op;
  Dtype dtype;
  uint64_t count;
  bool in_place;
  bool shared;
};

// One case on one group: buffers, call, comparison.
class Trial {
 public:
  Trial(Process& process, Group& group, const Case& what)
      : process_(process), group_(group), case_(what), n_(group.size()), me_(group.rank()) {}

  std::string run() {
    prepare();
    const Status status = group_.run(call_);
    if (!status.ok()) {
      return format("{}: {}", text(), status.message());
    }
    return compare();
  }

 private:
  uint64_t bytes(uint64_t elements) const { return elements * dtype_bytes(case_.dtype); }
  std::string text() const {
    return format("{} {} x {}{}{} on {} ranks by {}", op_name(case_.op), dtype_name(case_.dtype),
                  case_.count, case_.in_place ? ", in place" : "", case_.shared ? "" : ", private",
                  n_, group_.last().algorithm);
  }
  // Uneven sizes for the operations that have them.
  uint64_t part(int from, int to) const {
    return case_.count * static_cast<uint64_t>((from + 2 * to) % 3);
  }

  void prepare() {
    const auto n = static_cast<uint64_t>(n_);
    call_.op = case_.op;
    call_.dtype = case_.dtype;
    call_.count = case_.count;
    call_.root = op_has_root(case_.op) ? n_ - 1 : 0;
    in_ = out_ = case_.count;
    const bool root = me_ == call_.root;
    switch (case_.op) {
      case Op::kAllGather:
        out_ *= n;
        break;
      case Op::kGather:
        out_ = root ? out_ * n : 0;
        break;
      case Op::kReduce:
        out_ = root ? out_ : 0;
        break;
      case Op::kReduceScatter:
        in_ *= n;
        break;
      case Op::kScatter:
        in_ = root ? in_ * n : 0;
        break;
      case Op::kAllToAll:
        in_ *= n;
        out_ *= n;
        break;
      case Op::kBarrier:
        in_ = out_ = 0;
        break;
      case Op::kPermute:
        for (int i = 0; i < n_; ++i) {
          call_.pairs.emplace_back(i, (i + 1) % n_);
        }
        break;
      case Op::kAllGatherV:
        out_ = 0;
        for (int i = 0; i < n_; ++i) {
          call_.counts.push_back(part(i, 0));
          call_.offsets.push_back(out_ + 1);  // with gaps
          out_ += part(i, 0) + 1;
        }
        in_ = part(me_, 0);
        break;
      case Op::kAllToAllV:
        in_ = out_ = 0;
        for (int i = 0; i < n_; ++i) {
          call_.counts.push_back(part(me_, i));
          call_.offsets.push_back(in_ + 1);
          in_ += part(me_, i) + 1;
          call_.receive_counts.push_back(part(i, me_));
          call_.receive_offsets.push_back(out_ + 2);
          out_ += part(i, me_) + 2;
        }
        break;
      default:
        break;
    }
    place_buffers();
    for (uint64_t i = 0; i < in_; ++i) {
      put(case_.dtype, given(me_, i), call_.in.data + bytes(i));
    }
  }

  void place_buffers() {
    private_in_.resize(bytes(in_) + 8);
    private_out_.resize(bytes(out_) + 8);
    const uint64_t half = process_.pool_bytes / 2;
    call_.in = case_.shared ? process_.pool.at(64, bytes(in_))
                            : LocalBuffer{private_in_.data(), bytes(in_), {}};
    call_.out = case_.shared ? process_.pool.at(half, bytes(out_))
                             : LocalBuffer{private_out_.data(), bytes(out_), {}};
    const uint64_t block = bytes(case_.count) * static_cast<uint64_t>(me_);
    const auto shifted = [](LocalBuffer buffer, uint64_t by) {
      buffer.data += by;
      buffer.ref.offset += by;
      return buffer;
    };
    if (case_.op == Op::kBroadcast) {
      call_.in = call_.out;
    } else if (case_.in_place) {
      switch (case_.op) {
        case Op::kAllGather:
          call_.in = shifted(call_.out, block);
          break;
        case Op::kGather:
          call_.in = me_ == call_.root ? shifted(call_.out, block) : call_.in;
          break;
        case Op::kReduceScatter:
          call_.out = shifted(call_.in, block);
          break;
        case Op::kScatter:
          call_.out = me_ == call_.root ? shifted(call_.in, block) : call_.out;
          break;
        case Op::kReduce:
          call_.in = me_ == call_.root ? call_.out : call_.in;
          break;
        default:
          call_.in = call_.out;
      }
    }
    if (in_ == 0) {
      call_.in = {};
    }
    if (out_ == 0) {
      call_.out = {};
    }
  }

  int64_t sum(uint64_t i) const {
    int64_t total = 0;
    for (int rank = 0; rank < n_; ++rank) {
      total += given(rank, i);
    }
    return total;
  }

  // `count` elements of out from `first` on are `value(i)`.
  template <class Value>
  std::string expect(uint64_t first, uint64_t count, Value value) const {
    std::byte expected[8];
    for (uint64_t i = 0; i < count; ++i) {
      put(case_.dtype, value(i), expected);
      if (std::memcmp(expected, call_.out.data + bytes(first + i), dtype_bytes(case_.dtype)) != 0) {
        return format("{}: element {} of {} is not {}", text(), first + i, first + count, value(i));
      }
    }
    return "ok";
  }

  std::string compare() const {
    const uint64_t c = case_.count;
    const auto me = static_cast<uint64_t>(me_);
    switch (case_.op) {
      case Op::kAllReduce:
        return expect(0, c, [&](uint64_t i) { return sum(i); });
      case Op::kReduce:
        return expect(0, me_ == call_.root ? c : 0, [&](uint64_t i) { return sum(i); });
      case Op::kReduceScatter:
        return expect(0, c, [&](uint64_t i) { return sum(me * c + i); });
      case Op::kBroadcast:
        return expect(0, c, [&](uint64_t i) { return given(call_.root, i); });
      case Op::kScatter:
        return expect(0, c, [&](uint64_t i) { return given(call_.root, me * c + i); });
      case Op::kPermute:
        return expect(0, c, [&](uint64_t i) { return given((me_ + n_ - 1) % n_, i); });
      case Op::kBarrier:
        return "ok";
      default:
        return compare_blocks();
    }
  }

  std::string compare_blocks() const {
    const uint64_t c = case_.count;
    std::string result = "ok";
    if (case_.op == Op::kGather && me_ != call_.root) {
      return result;
    }
    for (int from = 0; from < n_ && result == "ok"; ++from) {
      const auto j = static_cast<uint64_t>(from);
      if (case_.op == Op::kAllToAllV) {
        uint64_t begin = 1;  // of our block in rank from's in
        for (int i = 0; i < me_; ++i) {
          begin += part(from, i) + 1;
        }
        result = expect(call_.receive_offsets[j], part(from, me_),
                        [&](uint64_t i) { return given(from, begin + i); });
      } else if (case_.op == Op::kAllGatherV) {
        result =
            expect(call_.offsets[j], part(from, 0), [&](uint64_t i) { return given(from, i); });
      } else {
        const uint64_t begin = case_.op == Op::kAllToAll ? static_cast<uint64_t>(me_) * c : 0;
        result = expect(j * c, c, [&](uint64_t i) { return given(from, begin + i); });
      }
    }
    return result;
  }

  Process& process_;
  Group& group_;
  const Case case_;
  const int n_;
  const int me_;
  Call call_;
  uint64_t in_ = 0;
  uint64_t out_ = 0;
  std::vector<std::byte> private_in_, private_out_;
};

// The whole matrix takes a minute: ctest -L slow.
bool whole() {
  return std::getenv("ONRT_TEST_WHOLE") != nullptr;  // NOLINT(concurrency-mt-unsafe)
}

std::vector<Dtype> types() {
  if (whole()) {
    return {Dtype::kF32,    Dtype::kF64,    Dtype::kBF16,     Dtype::kF16,
            Dtype::kF8E4M3, Dtype::kF8E5M2, Dtype::kF8E4M3FN, Dtype::kPred,
            Dtype::kU8,     Dtype::kS8,     Dtype::kU16,      Dtype::kS16,
            Dtype::kS32,    Dtype::kU32,    Dtype::kS64,      Dtype::kU64};
  }
  return {Dtype::kF32, Dtype::kBF16};
}

std::string run_all(Process& process, Group& group, const std::vector<uint64_t>& counts) {
  for (int op = 0; op < kOps; ++op) {
    for (const Dtype dtype : types()) {
      for (const uint64_t count : counts) {
        for (const bool shared : {true, false}) {
          for (const bool in_place : {false, true}) {
            const Op what = static_cast<Op>(op);
            if ((in_place && (what == Op::kAllToAllV || what == Op::kAllGatherV)) ||
                (op_reduces(what) && dtype == Dtype::kPred)) {
              continue;
            }
            std::string result =
                Trial(process, group, {what, dtype, count, in_place, shared}).run();
            if (result != "ok") {
              return result;
            }
          }
        }
      }
    }
  }
  return "ok";
}

TEST(Operations, HoldForEveryAlgorithmTypeSizeAndKindOfBuffer) {
  for (const Algorithm& algorithm : algorithms()) {
    for (const int size : whole() ? std::vector<int>{2, 3, 4, 8} : std::vector<int>{4}) {
      EngineOptions engine;
      engine.planner.algorithm = algorithm.name;
      EXPECT_EQ(
          run_job(
              size, [](Process& p) { return run_all(p, p.world, {0, 7, 1000}); }, 4 << 20, engine),
          "ok")
          << algorithm.name;
    }
  }
}

TEST(Operations, CutLongMessagesOfPrivateBuffersIntoWindows) {
  EXPECT_EQ(run_job(
                3, [](Process& p) { return run_all(p, p.world, {whole() ? 70001ul : 33001ul}); },
                16 << 20),
            "ok");
}

TEST(Operations, RepeatWithOtherBuffersSizesAndKindsOfMemory) {
  // Each case three times, on either side of ones that differ in one thing, whatever was kept of
  // the call before; values are made anew, at another place, and mixed means that ranks differ.
  EXPECT_EQ(run_job(
                3,
                [](Process& p) -> std::string {
                  const bool mixed = p.job.rank() == 1;
                  const Case cases[] = {
                      {Op::kAllReduce, Dtype::kF32, 1000, true, true},
                      {Op::kAllReduce, Dtype::kF32, 1001, true, true},
                      {Op::kAllReduce, Dtype::kS32, 1001, true, true},
                      {Op::kAllReduce, Dtype::kS32, 1001, false, true},
                      {Op::kAllReduce, Dtype::kS32, 1001, false, false},
                      {Op::kAllReduce, Dtype::kS32, 1001, false, mixed},
                      {Op::kAllReduce, Dtype::kS32, 1001, false, true},
                      {Op::kAllReduce, Dtype::kS32, 200001, false, false},  // in windows
                      {Op::kReduce, Dtype::kS32, 1001, true, true},
                      {Op::kReduce, Dtype::kS32, 1001, false, mixed},
                      {Op::kAllToAllV, Dtype::kS32, 5, false, true},
                      {Op::kAllToAllV, Dtype::kS32, 9, false, true},
                      {Op::kAllGatherV, Dtype::kS32, 5, false, true},
                      {Op::kAllGatherV, Dtype::kS32, 9, false, mixed},
                      {Op::kAllReduce, Dtype::kF32, 1000, true, true}};
                  for (const Case& what : cases) {
                    for (int again = 0; again < 3; ++again) {
                      std::string result = Trial(p, p.world, what).run();
                      if (result != "ok") {
                        return result;
                      }
                    }
                  }
                  return "ok";
                },
                8 << 20),
            "ok");
}

TEST(Operations, AreThoseOfTheirGroup) {
  // Case H11: groups of one rank are not the world; groups work beside each other and the world.
  EXPECT_EQ(run_job(4,
                    [](Process& p) -> std::string {
                      auto alone = p.job.make_group({p.job.rank()});
                      auto half = p.job.split(p.world, p.job.rank() % 2);
                      if (!alone.ok() || !half.ok()) {
                        return std::string(alone.ok() ? half.status().message()
                                                      : alone.status().message());
                      }
                      for (Group* group : {alone->get(), half->get(), &p.world, half->get()}) {
                        std::string result = run_all(p, *group, {5});
                        if (result != "ok") {
                          return result;
                        }
                      }
                      return (*half)->size() == 2 && (*alone)->size() == 1 ? "ok" : "wrong sizes";
                    }),
            "ok");
}

TEST(Operations, ReduceSmallFloatsWithOneRounding) {
  // Case H14: 256 + 1 + 1 + 1 in bf16. Chained additions stay at 256; 259 rounds to 260.
  for (const char* algorithm : {"direct", "ring", "rdh", "mesh", "single-step-mesh", "tree"}) {
    EngineOptions engine;
    engine.planner.algorithm = algorithm;
    EXPECT_EQ(run_job(
                  4,
                  [](Process& p) -> std::string {
                    uint16_t value = Bf16::from_f32(p.job.rank() == 0 ? 256.0f : 1.0f);
                    Call call;
                    call.op = Op::kAllReduce;
                    call.dtype = Dtype::kBF16;
                    call.count = 1;
                    call.in = call.out = {reinterpret_cast<std::byte*>(&value), 2, {}};
                    const Status status = p.world.run(call);
                    return !status.ok()                    ? std::string(status.message())
                           : Bf16::to_f32(value) == 260.0f ? "ok"
                                                           : format("{}", Bf16::to_f32(value));
                  },
                  1 << 20, engine),
              "ok")
        << algorithm;
  }
}

// One operation; then what the group counted is what the schedule of its algorithm says.
std::string compare_traffic(Process& p, Op op, uint64_t count) {
  const auto n = static_cast<uint64_t>(p.world.size());
  const auto me = static_cast<size_t>(p.world.rank());
  Spec spec;
  spec.op = op;
  spec.ranks = p.world.size();
  spec.count = count;
  spec.in_place = op == Op::kBroadcast;
  // Small messages are copied wherever they lie.
  spec.access = count * n * 4 <= kSmallBytes ? Access::kStaged : Access::kDirect;
  Call call;
  call.op = op;
  call.dtype = Dtype::kF32;
  call.count = count;
  const int rank = p.world.rank();
  call.in = p.pool.at(0, in_elements(spec, rank) * 4);
  call.out = op == Op::kBroadcast ? call.in : p.pool.at(512 * 1024, out_elements(spec, rank) * 4);
  std::vector<uint64_t> to_before;
  std::vector<uint64_t> from_before;
  p.world.traffic(&to_before, &from_before);
  const Status status = p.world.run(call);
  if (!status.ok()) {
    return std::string(status.message());
  }
  std::vector<uint64_t> to;
  std::vector<uint64_t> from;
  p.world.traffic(&to, &from);
  const std::string name = p.world.last().algorithm;
  const auto schedule = build_schedule(*find_algorithm(name), spec);
  if (!schedule.ok()) {
    return std::string(schedule.status().message());
  }
  const std::vector<uint64_t> moved = traffic(spec, schedule->programs[me], rank);
  for (size_t peer = 0; peer < n; ++peer) {
    to[peer] -= to_before[peer];
    from[peer] -= from_before[peer];
    if (to[peer] != moved[me * n + peer] || from[peer] != moved[peer * n + me]) {
      return format("{} of {} by {}, peer {}: {} to it and {} from it, expected {} and {}",
                    op_name(op), count, name, peer, to[peer], from[peer], moved[me * n + peer],
                    moved[peer * n + me]);
    }
  }
  return "ok";
}

TEST(Operations, MoveWhatTheScheduleSays) {
  for (const Algorithm& algorithm : algorithms()) {
    EngineOptions engine;
    engine.planner.algorithm = algorithm.name;
    const auto body = [&](Process& p) -> std::string {
      for (int op = 0; op < kOps; ++op) {
        const Op what = static_cast<Op>(op);
        if (!algorithm.ops.has(what) || what == Op::kBarrier || what == Op::kPermute ||
            what == Op::kAllGatherV || what == Op::kAllToAllV) {
          continue;
        }
        for (const uint64_t count : {16u, 4096u}) {
          std::string result = compare_traffic(p, what, count);
          if (result != "ok") {
            return result;
          }
        }
      }
      return "ok";
    };
    EXPECT_EQ(run_job(4, body, 1 << 20, engine), "ok") << algorithm.name;
  }
}

}  // namespace
}  // namespace onrt::cc
