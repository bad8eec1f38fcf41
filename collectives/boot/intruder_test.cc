// SPDX-License-Identifier: Apache-2.0
// Strangers at the root's port, wrong secrets, silent and stopped peers, deaths while joining.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "collectives/boot/boot.h"
#include "collectives/boot/handshake.h"
#include "collectives/boot/messages.h"
#include "collectives/boot/secret.h"
#include "collectives/boot/testing.h"
#include "runtime/base/file.h"
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

constexpr seconds kLong{40};
Deadline in(milliseconds time) { return std::chrono::steady_clock::now() + time; }
std::string said(const Status& status) {
  return status.ok() ? "ok" : format("{}: {}", static_cast<int>(status.code()), status.message());
}

struct Job {
  TemporaryFolder folder;
  uint16_t port = free_port();
  std::string log_path = folder.path() + "/log";
  BootOptions options(int rank, int size) const {
    return options_for(rank, size, port, folder.path());
  }
  Context context() const {
    Context context{Settings::from_strings(
                        {"NEURON_RT_LOG_LOCATION=file:" + log_path, "NEURON_RT_LOG_LEVEL=INFO"}),
                    nullptr};
    context.log = std::make_unique<Logger>(context.settings);
    return context;
  }
  std::string log() const {
    const auto bytes = read_file(log_path);
    return bytes.ok() ? std::string(reinterpret_cast<const char*>((*bytes).data()), (*bytes).size())
                      : "";
  }
  std::string secret(const std::string& name, const std::string& text) const {
    const std::string path = folder.path() + "/" + name;
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    return write_fully(fd.get(), text) ? path : "";
  }
  std::string join_and_meet(int rank, int size) const {
    const Context logged = context();
    BootOptions own = options(rank, size);
    own.log = logged.log.get();
    auto joined = Bootstrap::join(own);
    return said(joined.ok() ? (*joined)->barrier(in(kLong)) : joined.status());
  }
};

// A plain connection to the root, blocking.
class Stranger {
 public:
  explicit Stranger(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto until = in(kLong);
    do {
      fd_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
        return;
      }
      ::usleep(2000);
    } while (std::chrono::steady_clock::now() < until);
  }
  void send(std::span<const std::byte> bytes) {
    [[maybe_unused]] const ssize_t sent =
        ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // What comes within `patience`; "" also at the end.
  std::vector<std::byte> receive(milliseconds patience = seconds(20)) {
    pollfd entry{fd_.get(), POLLIN, 0};
    std::vector<std::byte> bytes(65536);
    const bool any = ::poll(&entry, 1, static_cast<int>(patience.count())) > 0;
    const ssize_t got = any ? ::recv(fd_.get(), bytes.data(), bytes.size(), 0) : 0;
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return bytes;
  }
  bool wait_for_end() {
    while (!receive().empty()) {
    }
    return true;
  }
  std::string name() const {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return format("127.0.0.1:{}", ntohs(address.sin_port));
  }

 private:
  UniqueFd fd_;
};

// Passes the bytes of one rank on to the root and keeps what the rank sent.
class Recorder {
 public:
  Recorder(uint16_t port, uint16_t root) : root_(root) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int one = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
    ::listen(listener_.get(), 8);
  }
  std::vector<std::byte> relay_one() {
    const UniqueFd rank(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Stranger root(root_);
    std::vector<std::byte> recorded;
    std::thread back([&] {
      while (true) {
        const auto bytes = root.receive();
        if (bytes.empty() || ::send(rank.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
          ::shutdown(rank.get(), SHUT_RDWR);
          return;
        }
      }
    });
    std::byte buffer[4096];
    while (true) {
      const ssize_t got = ::recv(rank.get(), buffer, sizeof(buffer), 0);
      if (got <= 0) {
        break;
      }
      recorded.insert(recorded.end(), buffer, buffer + got);
      root.send({buffer, static_cast<size_t>(got)});
    }
    root_end(root);
    back.join();
    return recorded;
  }

 private:
  static void root_end(Stranger& root) { root.wait_for_end(); }
  uint16_t root_;
  UniqueFd listener_;
};

// A rank of the job's own making that proves itself, joins, and then does nothing: what a rank that
// was stopped there looks like.
class SilentRank {
 public:
  SilentRank(const Job& job, const JoinMessage& join) : connection_(job.port) {
    const auto folder = open_private_folder(job.folder.path() + "/cc");
    keys_.local = *local_secret((*folder).get());
    Handshake handshake = Handshake::client(keys_, KeyKind::kLocal, *random_nonce());
    FrameReader reader;
    connection_.send(handshake.start());
    while (!handshake.done()) {
      const auto bytes = connection_.receive();
      reader.feed(bytes);
      auto frame = reader.next();
      if (bytes.empty() || !frame.ok()) {
        return;
      }
      if (*frame) {
        connection_.send(*handshake.receive(**frame));
      }
    }
    FrameSealer sealer(handshake.send_key());
    connection_.send(sealer.seal(FrameType::kJoin, join.encode()));
    welcomed_ = !connection_.receive().empty();
  }
  bool welcomed() const { return welcomed_; }

 private:
  KeyRing keys_;
  Stranger connection_;
  bool welcomed_ = false;
};

TEST(Intruders, DoNotKeepEightRanksFromStarting) {
  const Job job;
  constexpr int kSize = 8;
  Ranks ranks;
  const auto body = [&](int rank) { return job.join_and_meet(rank, kSize); };
  ranks.start(0, body);
  Stranger silent(job.port);
  Stranger half(job.port);
  KeyRing keys;
  const auto hello = Handshake::client(keys, KeyKind::kLocal, Nonce{}).start();
  half.send(std::span(hello).first(20));
  Stranger web(job.port);
  web.send(bytes_of("GET / HTTP/1.1\r\nHost: root\r\n\r\n"));
  EXPECT_TRUE(web.wait_for_end());
  for (int rank = 1; rank < kSize; ++rank) {
    ranks.start(rank, body);
  }
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_EQ(ranks.result(rank), "ok");
  }
  EXPECT_THAT(job.log(), AllOf(HasSubstr("refused a connection from " + web.name()),
                               HasSubstr("expected version 1, found 71")));
}

TEST(Intruders, ThatAreManyMakeRoomForRanks) {
  const Job job;
  Ranks ranks;
  const auto body = [&](int rank) { return job.join_and_meet(rank, 3); };
  ranks.start(0, body);
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 200; ++i) {
    crowd.push_back(std::make_unique<Stranger>(job.port));
  }
  EXPECT_TRUE(crowd[0]->wait_for_end());  // the oldest goes first
  ranks.start(1, body);
  ranks.start(2, body);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.result(rank), "ok");
  }
  EXPECT_THAT(job.log(), HasSubstr("more than 128 connections"));
}

TEST(Intruders, WhoReplayARecordedRankAreRefused) {
  const Job job;
  const uint16_t relay_port = free_port();
  std::vector<std::byte> recorded;
  {
    Ranks ranks;
    ranks.start(0, [&](int rank) { return job.join_and_meet(rank, 2); });
    ranks.start(1, [&](int) {
      BootOptions options = job.options(1, 2);
      options.root.port = relay_port;
      auto joined = Bootstrap::join(options);
      return said(joined.ok() ? (*joined)->barrier(in(kLong)) : joined.status());
    });
    recorded = Recorder(relay_port, job.port).relay_one();
    EXPECT_EQ(ranks.result(0), "ok");
    EXPECT_EQ(ranks.result(1), "ok");
  }
  ASSERT_GT(recorded.size(), 100U);
  Ranks ranks;
  const auto body = [&](int rank) { return job.join_and_meet(rank, 2); };
  ranks.start(0, body);
  Stranger replay(job.port);
  replay.send(recorded);
  EXPECT_TRUE(replay.wait_for_end());
  ranks.start(1, body);
  EXPECT_EQ(ranks.result(0), "ok");
  EXPECT_EQ(ranks.result(1), "ok");
  EXPECT_THAT(job.log(), HasSubstr("refused a connection from " + replay.name()));
}

TEST(Intruders, WithAnotherSecretAreToldSoAndNamedByTheRoot) {
  const Job job;
  Ranks ranks;
  ranks.start_all(2, [&](int rank) {
    BootOptions options = job.options(rank, 2);
    options.secret_file = job.secret(format("secret{}", rank), format("0123456789abcdef{}", rank));
    options.join_timeout = milliseconds(500);
    return said(Bootstrap::join(options).status());
  });
  EXPECT_THAT(ranks.result(1), AllOf(HasSubstr("don't trust each other"),
                                     HasSubstr("copy of the secret of NRT_COMM_SECRET_FILE")));
  EXPECT_THAT(ranks.result(0), AllOf(HasSubstr("rank 1 did not"), HasSubstr("were refused"),
                                     HasSubstr("differs from ours")));
}

TEST(Secrets, FromFilesAndDescriptorsJoinRanksOfSeveralHosts) {
  const Job job;
  const std::string path = job.secret("secret", "0123456789abcdef");
  Ranks ranks;
  ranks.start_all(3, [&](int rank) {
    BootOptions options = job.options(rank, 3);
    options.host_id = format("host {}", rank % 2);
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (rank == 2) {
      options.secret_fd = fd.get();
    } else {
      options.secret_file = path;
    }
    auto joined = Bootstrap::join(options);
    if (!joined.ok()) {
      return said(joined.status());
    }
    const Bootstrap& boot = **joined;
    return format("{}{}{} {}{}{}", boot.peer(0).host, boot.peer(1).host, boot.peer(2).host,
                  boot.peer(0).local ? "l" : "r", boot.peer(1).local ? "l" : "r",
                  boot.peer(2).local ? "l" : "r");
  });
  EXPECT_EQ(ranks.result(0), "010 lrl");
  EXPECT_EQ(ranks.result(1), "010 rlr");
  EXPECT_EQ(ranks.result(2), "010 lrl");
}

// ---- silence ----

TEST(SilentPeers, OnAnotherHostEndTheJobAfterTheLimit) {
  const Job job;
  const std::string path = job.secret("secret", "0123456789abcdef");
  Ranks ranks;
  ranks.start_all(3, [&](int rank) -> std::string {
    BootOptions options = job.options(rank, 3);
    options.host_id = format("host {}", rank);
    options.secret_file = path;
    options.heartbeat = {milliseconds(50), milliseconds(150), milliseconds(600)};
    auto joined = Bootstrap::join(options);
    Ranks::say(said(joined.status()));
    const auto until = in(kLong);
    while (!(*joined)->failed() && std::chrono::steady_clock::now() < until) {
      ::usleep(1000);
    }
    return said((*joined)->status());
  });
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(ranks.next_line(rank), "ok");
  }
  ranks.signal(2, SIGSTOP);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(ranks.result(rank),
                AllOf(HasSubstr("5: rank 2 at"), HasSubstr("has given no sign of life")));
  }
}

TEST(SilentPeers, OfTheSameHostAreOnlyWarnedAbout) {
  const Job job;
  Ranks ranks;
  ranks.start_all(2, [&](int rank) {
    const Context logged = job.context();
    BootOptions options = job.options(rank, 2);
    options.log = logged.log.get();
    options.heartbeat = {milliseconds(50), milliseconds(150), milliseconds(400)};
    auto joined = Bootstrap::join(options);
    if (!joined.ok()) {
      return said(joined.status());
    }
    if (rank == 1) {
      Ranks::say("stops");
      ::raise(SIGSTOP);
    }
    return said((*joined)->barrier(in(kLong)));
  });
  ASSERT_EQ(ranks.next_line(1), "stops");
  const auto until = in(kLong);
  while (job.log().find("no sign of life") == std::string::npos &&
         std::chrono::steady_clock::now() < until) {
    ::usleep(5000);
  }
  ::usleep(500'000);  // longer than `dead`
  ranks.signal(1, SIGCONT);
  EXPECT_EQ(ranks.result(0), "ok");
  EXPECT_EQ(ranks.result(1), "ok");
  EXPECT_THAT(job.log(), HasSubstr("rank 1 (pid "));
}

TEST(SilentPeers, WhoStopWhileTheyJoinAreNamedAtTheDeadline) {
  const Job job;
  Ranks ranks;
  const auto body = [&](int rank) {
    BootOptions options = job.options(rank, 4);
    options.join_timeout = seconds(1);
    return said(Bootstrap::join(options).status());
  };
  ranks.start(0, body);
  JoinMessage join;
  join.rank = 2;
  join.size = 4;
  join.pid = static_cast<uint32_t>(::getpid());
  join.host_id = "stopped";
  join.host_name = "stopped-host";
  Stranger(job.port).name();  // the root listens, so its secret exists
  const SilentRank silent(job, join);
  ASSERT_TRUE(silent.welcomed());
  ranks.start(1, body);
  ranks.start(3, body);
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(ranks.result(rank),
                AllOf(HasSubstr("rank 2 did not answer"), HasSubstr("on stopped-host")))
        << rank;
  }
}

TEST(SilentPeers, AStoppedRootIsNamedAtTheDeadline) {
  const Job job;
  Ranks ranks;
  const auto body = [&](int rank) {
    BootOptions options = job.options(rank, 3);
    options.join_timeout = milliseconds(rank == 0 ? 60000 : 1000);
    return said(Bootstrap::join(options).status());
  };
  ranks.start(0, body);
  Stranger(job.port).name();
  ranks.signal(0, SIGSTOP);
  ranks.start(1, body);
  // Before or after it offered its descriptors: the message tells which.
  EXPECT_THAT(ranks.result(1), AllOf(HasSubstr("5: "), HasSubstr("rank 0")));
}

// ---- deaths while joining ----

void kill_while_joining(int rounds) {
  constexpr int kSize = 20;
  std::minstd_rand random(7);
  const Job job;
  for (int round = 0; round < rounds; ++round) {
    Ranks ranks;
    const int victim = static_cast<int>(random() % kSize);
    ranks.start_all(kSize, [&](int rank) -> std::string {
      BootOptions options = job.options(rank, kSize);
      options.join_timeout = seconds(1);
      auto joined = Bootstrap::join(options);
      if (!joined.ok()) {
        return said(joined.status());
      }
      const auto until = in(kLong);
      while (!(*joined)->failed() && std::chrono::steady_clock::now() < until) {
        ::usleep(500);
      }
      return said((*joined)->status());
    });
    ::usleep(static_cast<useconds_t>(random() % 25'000));
    ranks.signal(victim, SIGKILL);
    for (int rank = 0; rank < kSize; ++rank) {
      if (rank != victim) {
        EXPECT_THAT(ranks.result(rank),
                    AnyOf(HasSubstr(format("rank {}", victim)),
                          AllOf(HasSubstr("did not"), HasSubstr(format("{}", victim)))))
            << "round " << round << ", rank " << rank << ", killed " << victim;
      }
    }
  }
  EXPECT_EQ(Ranks::Body([&](int rank) { return job.join_and_meet(rank, 1); })(0), "ok");
  EXPECT_THAT(job.folder.names("cc"), ::testing::ElementsAre("cc.secret"));
}

TEST(KilledWhileJoining, AnyRankIsNamedByTheOthers) { kill_while_joining(2); }

TEST(KilledWhileJoiningOften, NothingStaysBehind) {
  const char* rounds = ::getenv("OPENNRT_TEST_KILLS");  // NOLINT(concurrency-mt-unsafe): read only
  kill_while_joining(rounds == nullptr ? 1 : std::stoi(rounds));
}

}  // namespace
}  // namespace onrt::cc
