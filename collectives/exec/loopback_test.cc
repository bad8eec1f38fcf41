// SPDX-License-Identifier: Apache-2.0
// Every algorithm over messages, in orders of delivery that a seed chooses, and with faults on the
// way. Expected results: the plain loops of collectives/plan/testing/reference.cc.
#include "collectives/transport/loopback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include "collectives/exec/runner.h"
#include "collectives/plan/testing/reference.h"
#include "collectives/plan/testing/specs.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

// All ranks of one operation, in one thread.
class Job {
 public:
  Job(const Spec& spec, std::string algorithm, const LoopbackOptions& options)
      : spec_(spec),
        in_(testing::random_inputs(spec, 7)),
        out_(testing::outs_before(spec, in_)),
        expected_(testing::reference(spec, in_, out_)),
        network_(spec.ranks, options),
        chooser_(options.seed) {
    PlannerOptions planner;
    planner.algorithm = std::move(algorithm);
    planner.scratch_bytes = kLoopbackScratchBytes / 2;
    planner.window_bytes = options.seed % 2 == 0 ? 4 : 4096;  // an element at a time, or whole
    for (int rank = 0; rank < spec.ranks; ++rank) {
      runners_.emplace_back(network_.endpoint(rank), planner);
    }
  }

  // Failure of the first rank that has one. NRT_TIMEOUT: nobody goes on.
  Status run() {
    for (int rank = 0; rank < spec_.ranks; ++rank) {
      ONRT_RETURN_IF_ERROR(runners_[static_cast<size_t>(rank)].begin(call_of(rank)));
    }
    std::vector<bool> done(runners_.size());
    for (int turn = 0; turn < 200000; ++turn) {
      const size_t rank = chooser_() % runners_.size();
      if (!done[rank]) {
        ONRT_ASSIGN_OR_RETURN(const bool ended, runners_[rank].advance());
        done[rank] = ended;
      } else if (std::all_of(done.begin(), done.end(), [](bool each) { return each; })) {
        return settle();
      }
    }
    return Status(NRT_TIMEOUT, "no rank goes on");
  }

  bool right() const { return out_ == expected_; }
  LoopbackNetwork& network() { return network_; }
  const std::string& algorithm() const { return runners_.front().algorithm(); }

 private:
  Call call_of(int rank) {
    Call call;
    call.op = spec_.op;
    call.dtype = Dtype::kU32;
    call.count = spec_.count;
    call.root = spec_.root;
    call.pairs = spec_.pairs;
    if (spec_.op == Op::kAllGatherV) {
      call.counts = spec_.counts;
      for (int from = 0; from < spec_.ranks; ++from) {
        call.offsets.push_back(spec_.out_offset(from, rank));
      }
    } else if (spec_.op == Op::kAllToAllV) {
      for (int peer = 0; peer < spec_.ranks; ++peer) {
        call.counts.push_back(count(rank, peer));
        call.offsets.push_back(spec_.in_offset(rank, peer));
        call.receive_counts.push_back(count(peer, rank));
        call.receive_offsets.push_back(spec_.out_offset(peer, rank));
      }
    }
    call.out = buffer(rank, out_[static_cast<size_t>(rank)]);
    call.in = spec_.in_place ? call.out : buffer(rank, in_[static_cast<size_t>(rank)]);
    return call;
  }

  uint64_t count(int from, int to) const {
    return spec_.counts[static_cast<size_t>(from) * static_cast<size_t>(spec_.ranks) +
                        static_cast<size_t>(to)];
  }

  LocalBuffer buffer(int rank, std::vector<uint32_t>& values) {
    LocalBuffer made;
    made.data = values.empty() ? nullptr : reinterpret_cast<std::byte*>(values.data());
    made.bytes = values.size() * 4;
    if (spec_.access == Access::kDirect && made.data != nullptr) {
      made.ref = network_.offer(rank, {made.data, made.bytes});
    }
    return made;
  }

  // What still comes when everybody is done.
  Status settle() {
    for (int turn = 0; turn < 200; ++turn) {
      for (int rank = 0; rank < spec_.ranks; ++rank) {
        ONRT_RETURN_IF_ERROR(network_.endpoint(rank).progress());
      }
    }
    return ok_status();
  }

  Spec spec_;
  testing::Vectors in_, out_;
  const testing::Vectors expected_;
  LoopbackNetwork network_;
  std::mt19937_64 chooser_;
  std::deque<Runner> runners_;  // stay where they are
};

std::vector<Spec> specs(int ranks) {
  std::vector<Spec> made;
  for (int op = 0; op < kOps; ++op) {
    for (const Access access : {Access::kDirect, Access::kStaged}) {
      Spec spec;
      spec.op = static_cast<Op>(op);
      spec.ranks = ranks;
      spec.count = spec.op == Op::kBarrier ? 0 : 37;
      spec.root = op_has_root(spec.op) ? ranks - 1 : 0;
      spec.access = access;
      spec.in_place = spec.op == Op::kBroadcast;  // only its root has something to give
      const auto n = static_cast<size_t>(ranks);
      if (spec.op == Op::kAllGatherV || spec.op == Op::kAllToAllV) {
        spec.count = 0;
        for (size_t i = 0; i < (spec.op == Op::kAllGatherV ? n : n * n); ++i) {
          spec.counts.push_back(i * 5 % 13);
        }
      }
      for (int i = 0; spec.op == Op::kPermute && i < ranks; ++i) {
        spec.pairs.emplace_back(i, (i + 1) % ranks);
      }
      made.push_back(spec);
    }
  }
  return made;
}

// Calls body(spec, algorithm) for every algorithm that can do it; returns how many there were.
template <class Body>
int for_each_run(std::span<const int> sizes, const Body& body) {
  int runs = 0;
  for (const int ranks : sizes) {
    for (const Spec& spec : specs(ranks)) {
      for (const Algorithm& algorithm : algorithms()) {
        if (build_schedule(algorithm, spec).ok()) {
          ++runs;
          body(spec, std::string(algorithm.name));
        }
      }
    }
  }
  return runs;
}

TEST(Loopback, EveryAlgorithmIsRightWhateverTheOrderOfDelivery) {
  const int runs =
      for_each_run(std::vector{2, 3, 5}, [](const Spec& spec, const std::string& name) {
        for (uint64_t seed = 1; seed <= 3; ++seed) {
          Job job(spec, name, {seed, true, {}});
          const Status status = job.run();
          ASSERT_TRUE(status.ok()) << name << " " << testing::spec_text(spec) << ", seed " << seed
                                   << ": " << status.message();
          ASSERT_TRUE(job.right()) << name << " " << testing::spec_text(spec) << ", seed " << seed;
        }
      });
  EXPECT_GT(runs, 100);
}

TEST(Loopback, DelaysAreNoFault) {
  FaultPlan slow;
  slow.fault = Fault::kDelay;
  slow.probability = 0.2;
  slow.most = 1000;
  uint64_t delays = 0;
  for_each_run(std::vector{3}, [&](const Spec& spec, const std::string& name) {
    slow.seed++;
    Job job(spec, name, {slow.seed, true, slow});
    const Status status = job.run();
    ASSERT_TRUE(status.ok()) << name << ": " << status.message();
    ASSERT_TRUE(job.right()) << name << " " << testing::spec_text(spec);
    delays += job.network().faults_made();
  });
  EXPECT_GT(delays, 100U);
}

// Complaint "wrong sums, no error" (NCCL #1199): one message anywhere in the operation, of any
// kind, is damaged, lost, repeated or overtaken. Nobody may come to an end with a wrong result.
TEST(Loopback, EveryDamagedLostRepeatedOrLateMessageIsFoundAndNamed) {
  std::map<Fault, int> found;
  std::mt19937_64 chooser(11);
  for_each_run(std::vector{2, 3, 4}, [&](const Spec& spec, const std::string& name) {
    for (int number = static_cast<int>(Fault::kDrop); number < kFaults; ++number) {
      FaultPlan plan;
      plan.fault = static_cast<Fault>(number);
      plan.seed = chooser();
      plan.after = chooser() % 12;
      Job job(spec, name, {chooser(), true, plan, 2000});
      const Status status = job.run();
      if (job.network().faults_made() == 0) {
        continue;  // the operation has fewer messages
      }
      ASSERT_EQ(status.code(), NRT_EXEC_HW_ERR_COLLECTIVES)
          << fault_name(plan.fault) << " of message " << plan.after << ": " << name << " "
          << testing::spec_text(spec) << ": " << status.message();
      ASSERT_NE(status.message().find("rank "), std::string::npos) << status.message();
      ++found[plan.fault];
    }
  });
  for (int number = static_cast<int>(Fault::kDrop); number < kFaults; ++number) {
    EXPECT_GT(found[static_cast<Fault>(number)], 50) << fault_name(static_cast<Fault>(number));
  }
}

TEST(Loopback, TheErrorNamesRanksOperationStepAndChunk) {
  Spec spec;
  spec.ranks = 3;
  spec.count = 1000;
  FaultPlan plan;
  plan.fault = Fault::kCorrupt;
  plan.from = 1;
  plan.to = 2;
  plan.after = 1;
  Job job(spec, "", {5, true, plan});
  const Status status = job.run();
  ASSERT_EQ(status.code(), NRT_EXEC_HW_ERR_COLLECTIVES);
  for (const std::string_view word :
       {"all_reduce(sum, u32, 1000 elements) #1, step ", "chunk ", "rank 2: message ",
        "from rank 1 to rank 2", "is damaged: checksum 0x"}) {
    EXPECT_NE(status.message().find(word), std::string::npos) << word << ": " << status.message();
  }
}

TEST(Loopback, ABlackHoleIsNamedByBothOfItsEnds) {
  Spec spec;
  spec.op = Op::kAllGather;
  spec.ranks = 4;
  spec.count = 100;
  FaultPlan plan;
  plan.fault = Fault::kBlackHole;
  plan.from = 0;
  plan.to = 3;
  Job job(spec, "", {9, true, plan, 2000});
  const Status status = job.run();
  EXPECT_EQ(status.code(), NRT_EXEC_HW_ERR_COLLECTIVES);
  EXPECT_NE(status.message().find("rank 0: no receipt of message 1 to rank 3"), std::string::npos)
      << status.message();
}

// The faults are real: what finds them is the check.
TEST(Loopback, WithoutTheCheckDamageGivesWrongResults) {
  int wrong = 0;
  std::mt19937_64 chooser(3);
  for_each_run(std::vector{4}, [&](const Spec& spec, const std::string& name) {
    for (const MessageKind kind : {MessageKind::kPut, MessageKind::kReply}) {
      FaultPlan plan;
      plan.fault = Fault::kCorrupt;
      plan.seed = chooser();
      plan.only = kind;
      Job job(spec, name, {chooser(), false, plan, 2000});
      wrong += job.run().ok() && !job.right() ? 1 : 0;
    }
  });
  EXPECT_GT(wrong, 20);
}

TEST(Loopback, TheSameSeedsGiveTheSameRun) {
  Spec spec;
  spec.ranks = 4;
  spec.count = 64;
  const auto deliveries = [&](uint64_t seed) {
    Job job(spec, "ring", {seed, true, {}});
    EXPECT_TRUE(job.run().ok());
    return job.network().deliveries();
  };
  EXPECT_EQ(deliveries(4), deliveries(4));
  EXPECT_NE(deliveries(4), deliveries(5));
}

TEST(Faults, NamesAreParsedAndUnknownOnesListThem) {
  EXPECT_EQ(*parse_fault("black-hole"), Fault::kBlackHole);
  const auto unknown = parse_fault("fire");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().message(),
            "fault 'fire': expected one of none, delay, drop, duplicate, reorder, corrupt, "
            "black-hole");
}

}  // namespace
}  // namespace onrt::cc
