// SPDX-License-Identifier: Apache-2.0
// Ranks that are killed, stopped, late or different while others are in an operation: all others
// end with the same cause, and the flight records show it.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <random>
#include <set>
#include <thread>
#include <tuple>

#include "collectives/api/job.h"
#include "collectives/api/testing/processes.h"
#include "collectives/exec/flight.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using testing::free_port;
using ::testing::HasSubstr;
using testing::in_job;
using testing::JobSetup;
using testing::Process;
using testing::Ranks;
using testing::TemporaryFolder;

constexpr uint64_t kElements = 16384;

std::string said(const Status& status) {
  return status.ok() ? "ok" : format("{}: {}", static_cast<int>(status.code()), status.message());
}

Call all_reduce(Process& p, uint64_t count = kElements) {
  Call call;
  call.op = Op::kAllReduce;
  call.dtype = Dtype::kF32;
  call.count = count;
  call.in = p.pool.at(0, count * 4);
  call.out = p.pool.at(512 * 1024, count * 4);
  return call;
}

// Operations until one fails; what it says, and that the next one says the same.
std::string run_until_failure(Process& p) {
  Status status;
  while (status.ok()) {
    status = p.world.run(all_reduce(p));
  }
  const std::string first = said(status);
  const std::string next = said(p.world.run(all_reduce(p)));
  // The first one may add what this rank was doing.
  return first.starts_with(next) ? first : first + " / then: " + next;
}

// What opennrt-flight says of the records in `folder`.
std::string report_of(const std::string& folder) {
  FILE* pipe = ::popen(format("{} {}", ONRT_FLIGHT, folder).c_str(), "r");  // NOLINT: our own tool
  std::string text;
  char buffer[4096];
  while (pipe != nullptr && std::fgets(buffer, sizeof(buffer), pipe) != nullptr) {
    text += buffer;
  }
  if (pipe != nullptr) {
    ::pclose(pipe);
  }
  return text;
}

struct Fixture {
  TemporaryFolder folder;
  JobSetup setup;
  explicit Fixture(int size, milliseconds timeout = milliseconds(30000)) {
    setup.size = size;
    setup.folder = &folder;
    setup.port = free_port();
    setup.engine.timeout = timeout;
  }
  std::vector<FlightFile> records() const {
    std::vector<FlightFile> files;
    for (const std::string& name : folder.names("cc/flight")) {
      auto file = read_flight_file(folder.path() + "/cc/flight/" + name);
      EXPECT_TRUE(file.ok()) << file.status().message();
      if (file.ok()) {
        files.push_back(std::move(*file));
      }
    }
    return files;
  }
};

class KilledRank : public ::testing::TestWithParam<int> {};

// The victim dies at a random moment of a stream of operations.
TEST_P(KilledRank, IsNamedByAllOthersAndByEveryLaterCall) {
  constexpr int kSize = 4;
  std::minstd_rand random(static_cast<unsigned>(GetParam()));
  Fixture fixture(kSize);
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) {
    return in_job(fixture.setup, rank, [](Process& p) {
      Ranks::say("begins");
      return run_until_failure(p);
    });
  });
  for (int rank = 0; rank < kSize; ++rank) {
    ASSERT_EQ(ranks.next_line(rank), "begins");
  }
  ::usleep(static_cast<useconds_t>(random() % 20'000));
  const int victim = GetParam() % kSize;
  ranks.signal(victim, SIGKILL);
  for (int rank = 0; rank < kSize; ++rank) {
    const std::string out = ranks.result(rank);
    if (rank != victim) {
      EXPECT_THAT(out, HasSubstr(format("1200: rank {} (pid ", victim))) << rank;
      EXPECT_EQ(out.find("then:"), std::string::npos) << out;
    }
  }
  // Also the dead rank's record is there.
  EXPECT_EQ(fixture.records().size(), static_cast<size_t>(kSize));
}

INSTANTIATE_TEST_SUITE_P(Ranks, KilledRank, ::testing::Values(0, 1, 2, 3));

TEST(StoppedRank, IsNamedAtTheTimeOutWithItsOperation) {
  constexpr int kSize = 3;
  Fixture fixture(kSize, milliseconds(700));
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) {
    return in_job(fixture.setup, rank, [](Process& p) {
      Status status = p.world.run(all_reduce(p));
      if (p.job.rank() == 1 && status.ok()) {
        ::raise(SIGSTOP);
      }
      return status.ok() ? said(p.world.run(all_reduce(p))) : said(status);
    });
  });
  for (const int rank : {0, 2}) {
    EXPECT_THAT(ranks.result(rank), AllOf(HasSubstr("5: "), HasSubstr("rank 1"), HasSubstr("#2")))
        << rank;
  }
  const auto records = fixture.records();
  ASSERT_EQ(records.size(), 3U);
  for (const FlightFile& file : records) {
    const FlightEntry& last = file.entries.back();
    if (file.header.rank == 1) {
      EXPECT_EQ(last.call.call, 1U);
      EXPECT_EQ(last.state, static_cast<uint32_t>(FlightState::kDone));
    } else {
      EXPECT_EQ(last.call.call, 2U);
      EXPECT_EQ(last.state, static_cast<uint32_t>(FlightState::kFailed));
      EXPECT_EQ(last.peer, 1);
    }
  }
}

TEST(StoppedRank, InTheMiddleOfAnOperationIsNamedToo) {
  constexpr int kSize = 3;
  Fixture fixture(kSize, milliseconds(700));
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) {
    return in_job(fixture.setup, rank, [](Process& p) {
      Ranks::say("begins");
      return run_until_failure(p);
    });
  });
  for (int rank = 0; rank < kSize; ++rank) {
    ASSERT_EQ(ranks.next_line(rank), "begins");
  }
  ::usleep(5000);
  ranks.signal(2, SIGSTOP);
  for (const int rank : {0, 1}) {
    EXPECT_THAT(ranks.result(rank), AllOf(HasSubstr("5: "), HasSubstr("rank 2"))) << rank;
  }
  const std::string report = report_of(fixture.folder.path() + "/cc/flight");
  EXPECT_THAT(report, HasSubstr("rank 2 (pid ")) << report;
  EXPECT_THAT(report, HasSubstr("all_reduce(sum, f32, 16384 elements)"));
  // Going on, it learns what the others decided.
  ranks.signal(2, SIGCONT);
  EXPECT_THAT(ranks.result(2), HasSubstr("rank 2"));
}

// ---- phases in which a rank dies or stops ----

enum class Phase : uint8_t { kFirstOperation, kMiddleOfALongOne, kMessage, kLeaving };

// What ranks other than the victim, rank 1, do. The victim says "there" when it is in the phase.
std::string survive(Process& p, Phase phase) {
  if (phase == Phase::kLeaving) {
    const Status status = p.world.run(all_reduce(p));
    Ranks::say("there");
    return said(status);  // leaves, whatever becomes of the victim
  }
  if (phase == Phase::kMessage) {
    std::vector<std::byte> bytes(64 << 20);
    Message message;
    message.peer = 1;
    message.data = bytes.data();
    message.bytes = bytes.size();
    return said(p.world.run_message(std::move(message)));
  }
  if (phase == Phase::kMiddleOfALongOne) {
    // Private memory, in hundreds of windows.
    std::vector<float> values(16 << 20);
    Call call = all_reduce(p, values.size());
    call.in = call.out = {reinterpret_cast<std::byte*>(values.data()), values.size() * 4, {}};
    Ranks::say("there");
    Status status;
    while (status.ok()) {
      status = p.world.run(call);
    }
    return said(status);
  }
  return said(p.world.run(all_reduce(p)));
}

std::string be_victim(Process& p, Phase phase) {
  if (phase == Phase::kFirstOperation || phase == Phase::kMessage) {
    Ranks::say("there");
    ::pause();
  }
  std::string result = survive(p, phase);
  if (phase == Phase::kLeaving) {
    ::pause();
  }
  return result;
}

class Phases : public ::testing::TestWithParam<std::tuple<Phase, int>> {};

TEST_P(Phases, TheVictimIsNamedByAllOthers) {
  constexpr int kSize = 3;
  constexpr int kVictim = 1;
  const auto [phase, signal] = GetParam();
  Fixture fixture(kSize, milliseconds(signal == SIGSTOP ? 700 : 30000));
  Ranks ranks;
  ranks.start_all(kSize, [&, phase = phase](int rank) {
    return in_job(fixture.setup, rank, [rank, phase](Process& p) {
      return rank == kVictim ? be_victim(p, phase) : survive(p, phase);
    });
  });
  ASSERT_EQ(ranks.next_line(kVictim), "there");
  if (phase == Phase::kMiddleOfALongOne) {
    ::usleep(20'000);
  }
  ranks.signal(kVictim, signal);
  for (const int rank : {0, 2}) {
    std::string result = ranks.result(rank);
    if (phase == Phase::kLeaving) {
      EXPECT_THAT(result, ::testing::EndsWith("ok")) << rank;
      continue;
    }
    EXPECT_THAT(result, AllOf(HasSubstr(signal == SIGKILL ? "1200: " : "5: "),
                              HasSubstr(format("rank {}", kVictim))))
        << rank;
    if (phase == Phase::kMiddleOfALongOne && signal == SIGSTOP) {
      EXPECT_THAT(result,
                  AllOf(HasSubstr("all_reduce(sum, f32, 16777216 elements, in place)"),
                        HasSubstr("step "), HasSubstr("chunk "), HasSubstr("stopped by a signal")));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Phases,
                         ::testing::Combine(::testing::Values(Phase::kFirstOperation,
                                                              Phase::kMiddleOfALongOne,
                                                              Phase::kMessage, Phase::kLeaving),
                                            ::testing::Values(SIGKILL, SIGSTOP)));

TEST(DifferentCalls, FailOnAllRanksWithBothCalls) {
  constexpr int kSize = 3;
  Fixture fixture(kSize);
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) {
    return in_job(fixture.setup, rank, [](Process& p) {
      return said(p.world.run(all_reduce(p, p.job.rank() == 2 ? 17 : 16)));
    });
  });
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_THAT(ranks.result(rank),
                AllOf(HasSubstr("2: "), HasSubstr("16 elements"), HasSubstr("17 elements")))
        << rank;
  }
}

TEST(Aborts, ReachSixtyThreeWaitingRanks) {
  constexpr int kSize = 64;
  Fixture fixture(kSize);
  fixture.setup.pool_bytes = 1 << 20;
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) {
    return in_job(fixture.setup, rank, [](Process& p) {
      if (p.job.rank() == 5) {
        ::usleep(300'000);  // the others wait meanwhile
        p.job.abort("the program of rank 5 has had enough");
        return said(p.job.status());
      }
      return said(p.world.run(all_reduce(p, 16)));
    });
  });
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_THAT(ranks.result(rank), HasSubstr("the program of rank 5 has had enough")) << rank;
  }
}

TEST(Aborts, FromAnotherThreadEndTheWaitOfTheirOwnRank) {
  Fixture fixture(2);
  Ranks ranks;
  ranks.start_all(2, [&](int rank) {
    return in_job(fixture.setup, rank, [](Process& p) {
      if (p.job.rank() == 1) {
        // Never enters; waits for the end.
        while (p.job.status().ok()) {
          ::usleep(1000);
        }
        return said(p.job.status());
      }
      std::thread other([&] {
        ::usleep(50'000);
        p.job.abort("from the side");
        p.job.abort("twice");
      });
      const Status status = p.world.run(all_reduce(p));
      other.join();
      return said(status);
    });
  });
  EXPECT_THAT(ranks.result(0), HasSubstr("from the side"));
  EXPECT_THAT(ranks.result(1), HasSubstr("from the side"));
}

// What outlives a process: names in its folder and in /dev/shm. (Memory that ranks share is a
// memfd, which ends with them.)
std::set<std::string> names_in(const char* folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.insert(entry.path().filename());
  }
  return names;
}

TEST(KilledJobs, FiftyLeaveNothingBehindAndStartAgain) {
  constexpr int kSize = 3;
  std::minstd_rand random(5);
  Fixture fixture(kSize);
  const std::set<std::string> shared_before = names_in("/dev/shm");
  const size_t descriptors_before = names_in("/proc/self/fd").size();
  for (int round = 0; round < 50; ++round) {
    Ranks ranks;
    ranks.start_all(kSize, [&](int rank) {
      return in_job(fixture.setup, rank, [](Process& p) {
        Ranks::say("begins");
        return run_until_failure(p);
      });
    });
    ASSERT_EQ(ranks.next_line(0), "begins");
    ::usleep(static_cast<useconds_t>(random() % 5'000));
    for (int rank = 0; rank < kSize; ++rank) {
      ranks.signal(rank, SIGKILL);
    }
  }
  Ranks ranks;
  ranks.start_all(kSize, [&](int rank) {
    return in_job(fixture.setup, rank, [](Process& p) { return said(p.world.run(all_reduce(p))); });
  });
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_EQ(ranks.result(rank), "ok");
  }
  EXPECT_THAT(fixture.folder.names("cc"), ::testing::UnorderedElementsAre("cc.secret", "flight"));
  EXPECT_EQ(names_in("/dev/shm"), shared_before);
  EXPECT_LE(names_in("/proc/self/fd").size(), descriptors_before + kSize);  // pipes of `ranks`
  // Records of the last 8 jobs that failed, no more.
  EXPECT_LE(fixture.records().size(), 8U * kSize);
}

}  // namespace
}  // namespace onrt::cc
