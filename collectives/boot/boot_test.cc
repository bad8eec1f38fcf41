// SPDX-License-Identifier: Apache-2.0
// Jobs of real processes: joining, exchanges, and every way to fail. Times are never asserted.
#include "collectives/boot/boot.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "collectives/boot/hmac.h"
#include "collectives/boot/testing.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::free_port;
using ::testing::HasSubstr;
using testing::options_for;
using testing::Ranks;
using testing::TemporaryFolder;

Deadline in(milliseconds time) { return std::chrono::steady_clock::now() + time; }
constexpr seconds kLong{40};

std::string text_of(const Payload& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string said(const Status& status) {
  return status.ok() ? "ok" : format("{}: {}", static_cast<int>(status.code()), status.message());
}
std::string wait_for_failure(Bootstrap& boot) {
  const auto until = in(kLong);
  while (!boot.failed() && std::chrono::steady_clock::now() < until) {
    ::usleep(500);
  }
  return said(boot.status());
}

struct Job {
  TemporaryFolder folder;
  uint16_t port = free_port();
  BootOptions options(int rank, int size) const {
    return options_for(rank, size, port, folder.path());
  }
};

TEST(Bootstrap, OneRankNeedsNoNetwork) {
  const Job job;
  auto boot = Bootstrap::join(job.options(0, 1));
  ASSERT_TRUE(boot.ok()) << boot.status().message();
  EXPECT_TRUE((*boot)->barrier(in(kLong)).ok());
  auto gathered = (*boot)->all_gather(bytes_of("x"), in(kLong));
  ASSERT_TRUE(gathered.ok());
  EXPECT_EQ(text_of((*gathered)[0]), "x");
  EXPECT_EQ((*boot)->counters().sockets, 0);
  Cause cause;
  cause.text = "enough";
  (*boot)->abort(cause);
  EXPECT_TRUE((*boot)->failed());
  EXPECT_EQ((*boot)->status().message(), "enough");
}

TEST(Bootstrap, RanksGatherBroadcastAndMeet) {
  const Job job;
  constexpr int kSize = 20;  // two levels of the tree
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, kSize));
    if (!joined.ok()) {
      return said(joined.status());
    }
    Bootstrap& boot = **joined;
    const std::string mine = format("<{}>", rank);
    auto all = boot.all_gather(bytes_of(mine), in(kLong));
    auto one = boot.broadcast(17, bytes_of(mine), in(kLong));
    const Status met = boot.barrier(in(kLong));
    if (!all.ok() || !one.ok() || !met.ok()) {
      return said(boot.status());
    }
    std::string out;
    for (const Payload& payload : *all) {
      out += text_of(payload);
    }
    return out + text_of(*one) + (boot.counters().sockets <= 20 ? "" : " too many sockets");
  });
  std::string expected;
  for (int rank = 0; rank < kSize; ++rank) {
    expected += format("<{}>", rank);
  }
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_EQ(ranks.result(rank), expected + "<17>") << rank;
  }
  EXPECT_THAT(job.folder.names("cc"), ::testing::ElementsAre("cc.secret"));
}

TEST(Bootstrap, LargePayloadsAndGroupsInAnyOrder) {
  const Job job;
  constexpr int kSize = 4;
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, kSize));
    if (!joined.ok()) {
      return said(joined.status());
    }
    Bootstrap& boot = **joined;
    const std::string mine(300'000 + static_cast<size_t>(rank), static_cast<char>('a' + rank));
    RankGroup pair;
    pair.ranks = rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    auto two = boot.all_gather(bytes_of(mine), in(kLong), pair);
    RankGroup odd{{1, 2, 3}, 7};
    auto three = rank == 0 ? Result<std::vector<Payload>>(std::vector<Payload>())
                           : boot.all_gather(bytes_of(mine), in(kLong), odd);
    if (!two.ok() || !three.ok() || !boot.barrier(in(kLong)).ok()) {
      return said(boot.status());
    }
    std::string out;
    for (const Payload& payload : *two) {
      out += format("{}{} ", static_cast<char>(payload[0]), payload.size());
    }
    for (const Payload& payload : *three) {
      out += format("{}{} ", static_cast<char>(payload[0]), payload.size());
    }
    return out;
  });
  EXPECT_EQ(ranks.result(0), "a300000 b300001 ");
  EXPECT_EQ(ranks.result(1), "a300000 b300001 b300001 c300002 d300003 ");
  EXPECT_EQ(ranks.result(2), "c300002 d300003 b300001 c300002 d300003 ");
  EXPECT_EQ(ranks.result(3), "c300002 d300003 b300001 c300002 d300003 ");
}

TEST(Bootstrap, DescriptorsReachAllLocalRanks) {
  const Job job;
  constexpr int kSize = 5;
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, kSize));
    if (!joined.ok()) {
      return said(joined.status());
    }
    Bootstrap& boot = **joined;
    // Rank 0 offers none, rank 3 two.
    std::vector<UniqueFd> own;
    std::vector<int> offered;
    for (int i = 0; i < (rank == 0 ? 0 : rank == 3 ? 2 : 1); ++i) {
      own.emplace_back(::memfd_create("test", MFD_CLOEXEC));
      const std::string text = format("{}.{}", rank, i);
      offered.push_back(own.back().get());
      if (::write(offered.back(), text.data(), text.size()) < 0) {
        return "write";
      }
    }
    auto fds = boot.exchange_fds(offered, in(kLong));
    if (!fds.ok()) {
      return said(fds.status());
    }
    std::string out;
    for (const auto& of_rank : *fds) {
      for (const UniqueFd& fd : of_rank) {
        char text[8] = {};
        out += ::pread(fd.get(), text, sizeof(text) - 1, 0) > 0 ? std::string(text) + " " : "?";
      }
    }
    return out;
  });
  EXPECT_EQ(ranks.result(0), "1.0 2.0 3.0 3.1 4.0 ");
  EXPECT_EQ(ranks.result(1), "2.0 3.0 3.1 4.0 ");
  EXPECT_EQ(ranks.result(2), "1.0 3.0 3.1 4.0 ");
  EXPECT_EQ(ranks.result(3), "1.0 2.0 4.0 ");
  EXPECT_EQ(ranks.result(4), "1.0 2.0 3.0 3.1 ");
  EXPECT_THAT(job.folder.names("cc"), ::testing::ElementsAre("cc.secret"));
}

TEST(Bootstrap, SixtyFourRanksWithFewDescriptors) {
  const Job job;
  constexpr int kSize = 64;
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) -> std::string {
    const rlimit few{256, 256};
    ::setrlimit(RLIMIT_NOFILE, &few);
    ::usleep(static_cast<useconds_t>(rank * 7919 % 64) * 1000);  // not in order
    auto joined = Bootstrap::join(job.options(rank, kSize));
    if (!joined.ok()) {
      return said(joined.status());
    }
    const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
    const int offered = memory.get();
    auto fds = (*joined)->exchange_fds({&offered, 1}, in(kLong));
    const int sockets = (*joined)->counters().sockets;
    return fds.ok() ? (sockets <= 20 ? "ok" : format("{} sockets", sockets)) : said(fds.status());
  });
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_EQ(ranks.result(rank), "ok") << rank;
  }
}

TEST(Bootstrap, RanksWaitForALateRoot) {
  const Job job;
  Ranks ranks;
  const auto body = [&](int rank) {
    auto joined = Bootstrap::join(job.options(rank, 3));
    return said(joined.ok() ? (*joined)->barrier(in(kLong)) : joined.status());
  };
  ranks.start(2, body);
  ranks.start(1, body);
  ::usleep(300'000);
  ranks.start(0, body);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.result(rank), "ok");
  }
}

TEST(Bootstrap, AllAreToldWhoDidNotCome) {
  const Job job;
  constexpr int kSize = 6;
  Ranks ranks;
  for (const int rank : {0, 1, 4}) {
    ranks.start(rank, [&](int self) {
      BootOptions options = job.options(self, kSize);
      options.join_timeout = seconds(1);
      return said(Bootstrap::join(options).status());
    });
  }
  for (const int rank : {0, 1, 4}) {
    EXPECT_THAT(ranks.result(rank), AllOf(HasSubstr("5: "), HasSubstr("3 of 6 ranks came"),
                                          HasSubstr("ranks 2-3, 5 did not")));
  }
}

TEST(Bootstrap, WithoutARootTheMessageNamesIt) {
  const Job job;
  BootOptions options = job.options(1, 2);
  options.join_timeout = milliseconds(200);
  const auto joined = Bootstrap::join(options);
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.status().code(), NRT_TIMEOUT);
  EXPECT_THAT(std::string(joined.status().message()),
              AllOf(HasSubstr("for rank 0"), HasSubstr(format("127.0.0.1:{}", job.port)),
                    HasSubstr("Connection refused")));
}

TEST(Bootstrap, ACancelledJoinEndsForAll) {
  const Job job;
  Ranks ranks;
  for (const int rank : {0, 1}) {
    ranks.start(rank, [&](int self) {
      std::atomic<bool> cancel{false};
      BootOptions options = job.options(self, 3);
      options.cancel = &cancel;
      std::thread other([&] {
        ::usleep(100'000);
        cancel = self == 1;
      });
      const Status status = Bootstrap::join(options).status();
      other.join();
      return said(status);
    });
  }
  EXPECT_EQ(ranks.result(0), "1: rank 1 gave up joining");
  EXPECT_EQ(ranks.result(1), "1: rank 1 gave up joining");
}

TEST(Bootstrap, SettingsThatContradictEachOtherAreRefused) {
  Context context{Settings::from_strings({"OPENNRT_COMM_DEAD=2000"}), nullptr};
  const auto options = boot_options(context);
  EXPECT_EQ(options.status().code(), NRT_INVALID);
  EXPECT_THAT(std::string(options.status().message()), HasSubstr("found 1000, 3000 and 2000 ms"));
  Context bad{Settings::from_strings({"NEURON_RT_ROOT_COMM_ID=nowhere"}), nullptr};
  EXPECT_THAT(std::string(boot_options(bad).status().message()),
              HasSubstr("NEURON_RT_ROOT_COMM_ID: expected host:port"));
}

struct Misfit {
  const char* name;
  int size;  // of the odd rank
  int rank;  // what it calls itself
  const char* fingerprint;
  const char* expected;
};

class BootstrapMisfits : public ::testing::TestWithParam<Misfit> {};

TEST_P(BootstrapMisfits, FailAllRanksWithTheReason) {
  const Job job;
  constexpr int kSize = 4;
  Ranks ranks;
  ranks.start_all(kSize, [&](int process) {
    BootOptions options = job.options(process, kSize);
    options.fingerprint = {{"NEURON_LOGICAL_NC_CONFIG", "2"}};
    if (process == 3) {
      ::usleep(100'000);  // the others are there
      options.size = GetParam().size;
      options.rank = GetParam().rank;
      options.fingerprint[0].value = GetParam().fingerprint;
    }
    return said(Bootstrap::join(options).status());
  });
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_THAT(ranks.result(rank), AllOf(HasSubstr("2: "), HasSubstr(GetParam().expected)))
        << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BootstrapMisfits,
    ::testing::Values(Misfit{"Size", 5, 3, "2", "expects 5 ranks, rank 0 expects 4"},
                      Misfit{"Twice", 4, 1, "2", "rank 1 came twice"},
                      Misfit{"Environment", 4, 3, "1",
                             "NEURON_LOGICAL_NC_CONFIG: rank 0 has '2', rank 3 has '1'"}),
    [](const auto& row) { return row.param.name; });

TEST(Bootstrap, AbortReachesEveryRankWithItsText) {
  const Job job;
  constexpr int kSize = 20;
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, kSize));
    if (!joined.ok()) {
      return said(joined.status());
    }
    std::atomic<int> woken{0};
    (*joined)->subscribe([&] { ++woken; });
    // Then all have joined; rank 13's abort may overtake the end of the barrier elsewhere.
    const Status met = (*joined)->barrier(in(kLong));
    if (rank == 13) {
      Cause cause;
      cause.code = NRT_EXEC_HW_ERR_COLLECTIVES;
      cause.rank = 13;
      cause.text = "op 7, step 2: checksum";
      (*joined)->abort(cause);
    }
    const std::string out = met.ok() || rank != 13 ? wait_for_failure(**joined) : said(met);
    while (woken == 0) {
      ::usleep(500);
    }
    return out + " / " + said((*joined)->barrier(in(kLong)));
  });
  const std::string expected = "1200: op 7, step 2: checksum";
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_EQ(ranks.result(rank), expected + " / " + expected) << rank;
  }
}

TEST(Bootstrap, AKilledRankIsNamedByAll) {
  const Job job;
  constexpr int kSize = 20;
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, kSize));
    if (!joined.ok()) {
      return said(joined.status());
    }
    Ranks::say("joined");
    return wait_for_failure(**joined);
  });
  for (int rank = 0; rank < kSize; ++rank) {
    ASSERT_EQ(ranks.next_line(rank), "joined");
  }
  ranks.signal(7, SIGKILL);
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank != 7) {
      EXPECT_THAT(ranks.result(rank), HasSubstr("rank 7 (pid ")) << rank;
    }
  }
  EXPECT_EQ(ranks.result(7), "killed by signal 9");
}

TEST(Bootstrap, AKilledRootIsNamedByAll) {
  const Job job;
  Ranks ranks;
  ranks.start_all(3, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, 3));
    Ranks::say("joined");
    return joined.ok() ? wait_for_failure(**joined) : said(joined.status());
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(ranks.next_line(rank), "joined");
  }
  ranks.signal(0, SIGKILL);
  EXPECT_THAT(ranks.result(1), HasSubstr("rank 0 (pid "));
  EXPECT_THAT(ranks.result(2), HasSubstr("rank 0 (pid "));
}

TEST(Bootstrap, AForkedChildDoesNotHideTheDeathOfItsParent) {
  const UniqueFd probe(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!probe.valid()) {
    GTEST_SKIP() << "no pidfd_open";
  }
  const Job job;
  Ranks ranks;
  ranks.start_all(2, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, 2));
    if (rank == 1) {
      if (::fork() == 0) {
        ::sleep(2);  // holds copies of its parent's sockets
        ::_exit(0);
      }
      ::raise(SIGKILL);
    }
    return wait_for_failure(**joined);
  });
  EXPECT_THAT(ranks.result(0),
              AllOf(HasSubstr("rank 1 (pid "), HasSubstr("its process has ended")));
}

TEST(Bootstrap, AForkedChildIsToldThatItIsNoRank) {
  const Job job;
  Ranks ranks;
  ranks.start_all(2, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, 2));
    if (!joined.ok()) {
      return said(joined.status());
    }
    const int child = ::fork();
    if (child == 0) {
      const bool good = (*joined)->barrier(in(kLong)).code() == NRT_INVALID;
      joined->reset();  // must neither hang nor tell the parent's peers anything
      ::_exit(good ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    return status == 0 ? said((*joined)->barrier(in(kLong))) : "the child was served";
  });
  EXPECT_EQ(ranks.result(0), "ok");
  EXPECT_EQ(ranks.result(1), "ok");
}

TEST(Bootstrap, AStoppedRankIsNamedAtTheDeadlineOfAnExchange) {
  const Job job;
  constexpr int kSize = 20;  // rank 1..16 have children
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, kSize));
    Ranks::say("joined");
    if (!joined.ok()) {
      return said(joined.status());
    }
    ::usleep(rank == 0 ? 200'000 : 0);
    return said((*joined)->barrier(in(rank == 5 ? seconds(60) : seconds(1))));
  });
  for (int rank = 0; rank < kSize; ++rank) {
    ASSERT_EQ(ranks.next_line(rank), "joined");
  }
  // Whether it took part in the barrier before it was stopped is open; a second one follows.
  ranks.signal(5, SIGSTOP);
  // On a busy host the root's word may come later than a rank waits for it: then that rank says so.
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank != 5) {
      EXPECT_THAT(ranks.result(rank),
                  AnyOf("ok", HasSubstr("rank 5"), HasSubstr("rank 0 gave no answer")));
    }
  }
}

TEST(Bootstrap, DifferentCallsFailOnAllRanks) {
  const Job job;
  Ranks ranks;
  ranks.start_all(3, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, 3));
    if (!joined.ok()) {
      return said(joined.status());
    }
    return rank == 2 ? said((*joined)->broadcast(0, {}, in(kLong)).status())
                     : said((*joined)->barrier(in(kLong)));
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(ranks.result(rank),
                AllOf(HasSubstr("2: the ranks' calls differ"), HasSubstr("broadcast from rank 0"),
                      HasSubstr("in a barrier")));
  }
}

TEST(Bootstrap, ARankThatLeftIsNamedToThoseWhoWaitForIt) {
  const Job job;
  Ranks ranks;
  ranks.start_all(3, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, 3));
    if (!joined.ok()) {
      return said(joined.status());
    }
    if (rank == 2) {
      (*joined)->leave();
      return "left";
    }
    return said((*joined)->barrier(in(kLong)));
  });
  EXPECT_EQ(ranks.result(2), "left");
  EXPECT_THAT(ranks.result(0), HasSubstr("rank 2 has left the job"));
  EXPECT_THAT(ranks.result(1), HasSubstr("rank 2 has left the job"));
}

TEST(Bootstrap, LeavingInAnyOrderIsNoDeath) {
  const Job job;
  Ranks ranks;
  ranks.start_all(20, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, 20));
    if (!joined.ok()) {
      return said(joined.status());
    }
    const Status met = (*joined)->barrier(in(kLong));
    ::usleep(static_cast<useconds_t>(rank * 7 % 20) * 5000);
    return said(met.ok() ? (*joined)->status() : met);
  });
  for (int rank = 0; rank < 20; ++rank) {
    EXPECT_EQ(ranks.result(rank), "ok");
  }
}

TEST(Bootstrap, TheControlThreadAnswersWhileTheCallerSleeps) {
  const Job job;
  Ranks ranks;
  ranks.start_all(3, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(job.options(rank, 3));
    if (!joined.ok()) {
      return said(joined.status());
    }
    // Rank 0 relays between 1 and 2 without being in a call.
    if (rank == 0) {
      Ranks::say("sleeps");
      ::pause();
    }
    return said((*joined)->barrier(in(kLong), {{1, 2}, 0}));
  });
  ASSERT_EQ(ranks.next_line(0), "sleeps");
  EXPECT_EQ(ranks.result(1), "ok");
  EXPECT_EQ(ranks.result(2), "ok");
}

TEST(Bootstrap, StartsAgainOnTheSamePortAfterKills) {
  const Job job;
  constexpr int kSize = 3;
  for (int round = 0; round < 5; ++round) {
    Ranks ranks;
    ranks.start_all(kSize, [&](int rank) -> std::string {
      auto joined = Bootstrap::join(job.options(rank, kSize));
      Ranks::say(said(joined.status()));
      ::pause();
      return "";
    });
    // Killed together, by turns also while they join.
    if (round % 2 == 0) {
      EXPECT_EQ(ranks.next_line(1), "ok");
    }
    for (int rank = 0; rank < kSize; ++rank) {
      ranks.signal(rank, SIGKILL);
    }
  }
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) {
    auto joined = Bootstrap::join(job.options(rank, kSize));
    return said(joined.ok() ? (*joined)->barrier(in(kLong)) : joined.status());
  });
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_EQ(ranks.result(rank), "ok");
  }
  EXPECT_THAT(job.folder.names("cc"), ::testing::ElementsAre("cc.secret"));
}

}  // namespace
}  // namespace onrt::cc
