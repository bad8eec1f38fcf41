// SPDX-License-Identifier: Apache-2.0
// The control plane of a job of 64 processes: its start beside MPI_Init of Open MPI under the same
// mpirun, what authentication costs of it, and how long news of an abort or a death takes.
#include "collectives/boot/boot.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "bench/harness.h"
#include "collectives/boot/handshake.h"
#include "collectives/boot/testing.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

using bench::Candidate;
using bench::Row;
using testing::Ranks;
using testing::TemporaryFolder;

constexpr int kRanks = 64;
constexpr std::chrono::seconds kPatience{60};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds_of(const std::string& command) {
  const double start = now();
  if (std::system((command + " > /dev/null 2>&1").c_str()) != 0) {  // NOLINT: our own commands
    std::fprintf(stderr, "failed: %s\n", command.c_str());
    std::exit(1);
  }
  return now() - start;
}

std::string mpirun(const std::string& program) {
  const std::string as_root =
      ::geteuid() == 0 ? "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " : "";
  return format("{}mpirun.openmpi --oversubscribe --bind-to none -np {} {}", as_root, kRanks,
                program);
}

std::vector<Row> start_rows() {
  const TemporaryFolder folder;
  const auto ours = [&] {
    return seconds_of(format("OPENNRT_MACHINE_DIR={} NEURON_RT_ROOT_COMM_ID=127.0.0.1:{} {}",
                             folder.path(), testing::free_port(), mpirun(ONRT_BOOT_RANK)));
  };
  Row row;
  row.key = "boot/start64";
  row.title = "64 processes join and meet, mpirun included";
  row.unit = "ms";
  row.higher_is_better = false;
  row.goal = 1 / 1.5;
  std::vector<Candidate> candidates = {{"ours", ours}};
#ifdef ONRT_BENCH_MPI_INIT
  candidates.push_back(
      {"MPI_Init of Open MPI", [] { return seconds_of(mpirun(ONRT_BENCH_MPI_INIT)); }});
#endif
  const auto milliseconds = [](double seconds) { return seconds * 1e3; };
  return {bench::compare(row, candidates, milliseconds)};
}

// Both sides of one handshake, and one sealed and opened frame each way.
void one_handshake(const KeyRing& keys) {
  const auto feed = [](Handshake& to, FrameReader& reader, const std::vector<std::byte>& bytes) {
    reader.feed(bytes);
    return *to.receive(**reader.next());
  };
  Handshake client = Handshake::client(keys, KeyKind::kLocal, *random_nonce());
  Handshake server = Handshake::server(keys, {}, *random_nonce());
  FrameReader to_client;
  FrameReader to_server;
  auto challenge = feed(server, to_server, client.start());
  auto accepted = feed(server, to_server, feed(client, to_client, challenge));
  feed(client, to_client, accepted);
  if (!client.done() || !server.done()) {
    std::abort();
  }
}

Row authentication_row(double start_ms) {
  KeyRing keys;
  keys.local.emplace(bytes_of("secret of the benchmark"));
  Row row;
  row.key = "boot/authentication";
  row.title = format("handshakes of {} ranks, share of their start", kRanks);
  row.unit = "%";
  row.higher_is_better = false;
  row.limit = 10;
  // Every rank speaks with the root, and those that aren't its children with a parent too.
  constexpr int kConnections = (kRanks - 1) + (kRanks - 1 - 16);
  return bench::compare(
      row, {{"ours", bench::timed([&] { one_handshake(keys); }, bench::Clock::kThreadCpu)}},
      [&](double seconds) { return seconds * 1e3 * kConnections / start_ms * 100; });
}

struct Shared {
  std::atomic<double> start;
  std::atomic<double> seen[kRanks];
};

// Seconds from the abort or kill until the last of the others knows.
double news(Shared& shared, bool kill_one) {
  const TemporaryFolder folder;
  const uint16_t port = testing::free_port();
  for (auto& seen : shared.seen) {
    seen = 0;
  }
  constexpr int kCulprit = 37;
  Ranks ranks;
  ranks.start_all(kRanks, [&](int rank) -> std::string {
    auto joined = Bootstrap::join(testing::options_for(rank, kRanks, port, folder.path()));
    if (!joined.ok() || !(*joined)->barrier(std::chrono::steady_clock::now() + kPatience).ok()) {
      return "failed";
    }
    Ranks::say("joined");
    if (rank == kCulprit) {
      while (shared.start == 0) {
        ::usleep(500);
      }
      if (kill_one) {
        ::pause();
      }
      Cause cause;
      cause.text = "benchmark";
      shared.start = now();
      (*joined)->abort(cause);
    }
    // As the executor sleeps: on a futex that the control thread wakes.
    std::atomic<int> woken{0};
    (*joined)->subscribe([&] {
      woken = 1;
      woken.notify_all();
    });
    woken.wait(0);
    shared.seen[rank] = now();
    return "ok";
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.next_line(rank);
  }
  ::usleep(100'000);
  shared.start = now();
  if (kill_one) {
    ::usleep(100'000);
    shared.start = now();
    ranks.signal(kCulprit, SIGKILL);
  }
  double last = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.result(rank);
    last = std::max(last, shared.seen[rank].load());
  }
  return last - shared.start;
}

Row news_row(const char* key, const char* title, bool kill_one) {
  void* place =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = new (place) Shared();
  Row row;
  row.key = key;
  row.title = title;
  row.unit = "ms";
  row.higher_is_better = false;
  row.limit = 100;
  row = bench::compare(row,
                       {{"ours",
                         [&] {
                           shared->start = 0;
                           return news(*shared, kill_one);
                         }}},
                       [](double seconds) { return seconds * 1e3; });
  ::munmap(place, sizeof(Shared));
  return row;
}

}  // namespace
}  // namespace onrt::cc

int main(int argc, char** argv) {
  onrt::bench::parse_options(argc, argv, "");
  std::vector<onrt::bench::Row> rows;
  if (std::system("command -v mpirun.openmpi > /dev/null") == 0) {  // NOLINT: fixed command
    rows = onrt::cc::start_rows();
    rows.push_back(onrt::cc::authentication_row(rows[0].ours));
  } else {
    std::fprintf(stderr, "no mpirun.openmpi: the start of 64 processes is left out\n");
  }
  rows.push_back(
      onrt::cc::news_row("boot/abort64", "abort until 63 sleeping ranks are awake", false));
  rows.push_back(
      onrt::cc::news_row("boot/kill64", "SIGKILL until 63 sleeping ranks are awake", true));
  onrt::bench::report(rows);
  return 0;
}
