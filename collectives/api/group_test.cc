// SPDX-License-Identifier: Apache-2.0
// What ranks are told when one of them dies, stops, errs or gives up. Times are never asserted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "collectives/api/testing/processes.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

using ::testing::AllOf;
using testing::free_port;
using ::testing::HasSubstr;
using testing::in_job;
using testing::JobSetup;
using testing::Process;
using testing::Ranks;
using testing::run_job;
using testing::TemporaryFolder;

std::string said(const Status& status) {
  return status.ok() ? "ok" : format("{}: {}", static_cast<int>(status.code()), status.message());
}

Call sum(Process& p, uint64_t count) {
  Call call;
  call.op = Op::kAllReduce;
  call.dtype = Dtype::kF32;
  call.count = count;
  call.in = call.out = p.pool.at(0, count * 4);
  return call;
}

struct Setting {
  TemporaryFolder folder;
  JobSetup setup;
  explicit Setting(int size, int timeout_ms = 20000) {
    setup.size = size;
    setup.engine.timeout = std::chrono::milliseconds(timeout_ms);
    setup.folder = &folder;
    setup.port = free_port();
  }
};

// Ranks that loop over operations until one fails; each says "going" first.
std::string loop(Process& p, uint64_t count) {
  Status status = p.world.run(sum(p, 1));
  Ranks::say("going");
  while (status.ok()) {
    status = p.world.run(sum(p, count));
  }
  const Status again = p.world.run(sum(p, count));
  return format("{} | {}", said(status), static_cast<int>(again.code()));
}

TEST(Failures, KilledRankIsNamedByAllOthers) {
  for (const uint64_t count : {1ul, 200000ul}) {
    Setting s(3);
    Ranks ranks;
    ranks.start_all(3, [&](int rank) {
      return in_job(s.setup, rank, [&](Process& p) { return loop(p, count); });
    });
    for (int rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(ranks.next_line(rank), "going");
    }
    ranks.signal(1, SIGKILL);
    for (const int rank : {0, 2}) {
      EXPECT_THAT(ranks.result(rank),
                  AllOf(HasSubstr("1200: "), HasSubstr("rank 1"), HasSubstr("| 1200")));
    }
  }
}

TEST(Failures, StoppedRankIsNamedAtTheTimeOut) {
  Setting s(3, 700);
  Ranks ranks;
  ranks.start_all(3, [&](int rank) {
    return in_job(s.setup, rank, [&](Process& p) { return loop(p, 1000); });
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(ranks.next_line(rank), "going");
  }
  ranks.signal(2, SIGSTOP);
  for (const int rank : {0, 1}) {
    EXPECT_THAT(ranks.result(rank),
                AllOf(HasSubstr("5: "), HasSubstr("rank 2"), HasSubstr("stopped"),
                      HasSubstr("all_reduce"), HasSubstr("step")));
  }
  ranks.signal(2, SIGCONT);
  EXPECT_THAT(ranks.result(2), HasSubstr("5: "));
}

TEST(Failures, DifferentCallsAreRefusedOnAllRanksWithBothCalls) {
  struct Difference {
    const char* what;
    std::function<void(Call*)> make;
  };
  const Difference differences[] = {
      {"200 elements", [](Call* call) { call->count = 200; }},
      {"s32", [](Call* call) { call->dtype = Dtype::kS32; }},
      {"max", [](Call* call) { call->reduce_op = ReduceOp::kMax; }},
      {"broadcast", [](Call* call) { call->op = Op::kBroadcast; }},
      {"200000 elements", [](Call* call) { call->count = 200000; }}};  // case H13
  for (const Difference& difference : differences) {
    Setting s(3);
    Ranks ranks;
    ranks.start_all(3, [&](int rank) {
      return in_job(s.setup, rank, [&](Process& p) {
        Call call = sum(p, 100);
        if (rank == 1) {
          difference.make(&call);
        }
        return said(p.world.run(call));
      });
    });
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_THAT(ranks.result(rank), AllOf(HasSubstr("2: "), HasSubstr("rank 1"),
                                            HasSubstr(difference.what), HasSubstr("100 elements")));
    }
  }
}

TEST(Failures, AbortFromAnotherThreadEndsEveryWait) {
  EXPECT_EQ(run_job(3,
                    [](Process& p) -> std::string {
                      if (p.job.rank() == 0) {
                        std::thread other([&] {
                          ::usleep(20000);
                          p.job.abort("enough");
                          p.job.abort("again");
                        });
                        // Nobody comes: ranks 1 and 2 wait in a message.
                        const Status status = p.world.run(sum(p, 10));
                        other.join();
                        return status.message().find("enough") != std::string::npos ? "ok"
                                                                                    : said(status);
                      }
                      std::byte data[8];
                      Message message;
                      message.peer = 0;
                      message.data = data;
                      message.bytes = 8;
                      const Status status = p.world.run_message(message);
                      const Status again = p.world.run(sum(p, 10));
                      return status.message().find("enough") != std::string::npos &&
                                     again.message().find("enough") != std::string::npos
                                 ? "ok"
                                 : said(status) + " / " + said(again);
                    }),
            "ok");
}

TEST(Failures, MalformedCallsHarmNobody) {
  EXPECT_EQ(run_job(2,
                    [](Process& p) {
                      Call call = sum(p, 10);
                      call.op = Op::kReduce;
                      call.root = 7;
                      const Status refused = p.world.run(call);
                      const Status fine = p.world.run(sum(p, 10));
                      return refused.code() == NRT_INVALID ? said(fine) : said(refused);
                    }),
            "ok");
}

TEST(Messages, CrossWithoutDeadlockWhicheverIsPostedFirst) {
  // Case H15: both ranks post the receive before the send.
  EXPECT_EQ(run_job(2,
                    [](Process& p) -> std::string {
                      const int peer = 1 - p.job.rank();
                      std::vector<int> out(1 << 20, p.job.rank());
                      std::vector<int> in(1 << 20, -1);
                      Message receive;
                      receive.peer = peer;
                      receive.data = reinterpret_cast<std::byte*>(in.data());
                      receive.bytes = in.size() * 4;
                      Message send = receive;
                      send.send = true;
                      send.data = reinterpret_cast<std::byte*>(out.data());
                      auto first = p.world.start_message(receive);
                      auto second = p.world.start_message(send);
                      const Status got = (*first)->wait();
                      const Status sent = (*second)->wait();
                      return got.ok() && sent.ok() && in == std::vector<int>(1 << 20, peer)
                                 ? "ok"
                                 : said(got) + said(sent);
                    }),
            "ok");
}

TEST(Messages, OfOtherSizesAreRefusedWithBoth) {
  Setting s(2);
  Ranks ranks;
  ranks.start_all(2, [&](int rank) {
    return in_job(s.setup, rank, [&](Process& p) {
      std::byte data[64];
      Message message;
      message.peer = 1 - rank;
      message.send = rank == 0;
      message.data = data;
      message.bytes = rank == 0 ? 64 : 32;
      const Status status = p.world.run_message(message);
      return said(status.ok() ? p.world.run(sum(p, 4)) : status);
    });
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(ranks.result(rank), AllOf(HasSubstr("2: "), HasSubstr("64"), HasSubstr("32")));
  }
}

TEST(Asynchronous, OperationsRunInOrderAndBesideMessages) {
  EXPECT_EQ(run_job(3,
                    [](Process& p) -> std::string {
                      std::vector<RequestRef> requests;
                      std::vector<float> values(40, 1.0f);
                      for (int i = 0; i < 40; ++i) {
                        Call call = sum(p, 1);
                        call.in = call.out = {
                            reinterpret_cast<std::byte*>(&values[static_cast<size_t>(i)]), 4, {}};
                        auto request = p.world.start(call);
                        if (!request.ok()) {
                          return said(request.status());
                        }
                        requests.push_back(*request);
                      }
                      const Status blocking = p.world.run(sum(p, 100));
                      for (const RequestRef& request : requests) {
                        const Status status = request->wait();
                        if (!status.ok()) {
                          return said(status);
                        }
                      }
                      return values == std::vector<float>(40, 3.0f) ? said(blocking) : "wrong sums";
                    }),
            "ok");
}

TEST(Processes, ForkedChildIsRefusedAndHarmsNobody) {
  EXPECT_EQ(run_job(2,
                    [](Process& p) -> std::string {
                      const pid_t child = ::fork();
                      if (child == 0) {
                        ::_exit(p.world.run(sum(p, 1)).code() == NRT_INVALID ? 0 : 1);
                      }
                      int status = 0;
                      ::waitpid(child, &status, 0);
                      return status == 0 ? said(p.world.run(sum(p, 1))) : "the child could";
                    }),
            "ok");
}

TEST(Processes, SixtyFourRanksNeedFewDescriptors) {
  EXPECT_EQ(run_job(
                64,
                [](Process& p) -> std::string {
                  const rlimit few = {256, 256};
                  ::setrlimit(RLIMIT_NOFILE, &few);
                  const rlimit locked = {64 * 1024, 64 * 1024};
                  ::setrlimit(RLIMIT_MEMLOCK, &locked);
                  for (int i = 0; i < 3; ++i) {
                    const Status status = p.world.run(sum(p, 1000));
                    if (!status.ok()) {
                      return said(status);
                    }
                  }
                  return "ok";
                },
                64 << 10),
            "ok");
}

TEST(Flight, RecordOutlivesAKilledRank) {
  Setting s(2);
  Ranks ranks;
  ranks.start_all(
      2, [&](int rank) { return in_job(s.setup, rank, [&](Process& p) { return loop(p, 10); }); });
  ASSERT_EQ(ranks.next_line(0), "going");
  ASSERT_EQ(ranks.next_line(1), "going");
  ranks.signal(1, SIGKILL);
  EXPECT_THAT(ranks.result(0), HasSubstr("rank 1"));
  const auto names = s.folder.names("cc/flight");
  ASSERT_EQ(names.size(), 2u);  // a job that failed keeps them
  for (const std::string& name : names) {
    const auto file = read_flight_file(s.folder.path() + "/cc/flight/" + name);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_GE(file->entries.size(), 1u);
    // Killed before or after its first operation of the loop: that one follows one of count 1.
    EXPECT_THAT(file->entries.back().call.count, ::testing::AnyOf(1u, 10u));
  }
}

}  // namespace
}  // namespace onrt::cc
