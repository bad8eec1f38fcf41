// SPDX-License-Identifier: Apache-2.0
// Times the blocking calls of opennrt/collectives.h between processes that it forks, or the bound:
// a bare loop over one shared mapping. bench/collectives.py starts it in turns with its peers.
//   bench_collectives_ranks MODE OP RANKS RUNS   MODE: pool, private, bound; OP: allreduce,
//   allgather
// A line a size: "SIZE MICROSECONDS". The time of a run is the slowest rank's mean; printed is the
// median of the runs. all_gather's size is that of its output, in place.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "nrt/nrt.h"
#include "opennrt/collectives.h"
#include "opennrt/opennrt.h"

namespace {

constexpr size_t kSizes[] = {8, 1024, 65536, 1 << 20, 16 << 20, 64 << 20};
constexpr size_t kMost = 64 << 20;
constexpr double kSecondsPerRun = 0.06;

// What the ranks share besides the measured memory: where each has come, and its time.
struct Slot {
  alignas(128) std::atomic<uint32_t> arrived{0};
  double seconds = 0;
};

class Meeting {
 public:
  Meeting(Slot* slots, int ranks, int rank) : slots_(slots), ranks_(ranks), rank_(rank) {}
  void barrier() {
    const uint32_t mine = slots_[rank_].arrived.fetch_add(1) + 1;
    for (int peer = 0; peer < ranks_; ++peer) {
      int looks = 0;
      while (static_cast<int32_t>(slots_[peer].arrived.load(std::memory_order_acquire) - mine) <
             0) {
        if (++looks > (ranks_ > 2 ? 50 : 2000)) {
          ::sched_yield();
        }
      }
    }
  }
  double slowest(double seconds) {
    slots_[rank_].seconds = seconds;
    barrier();
    double most = 0;
    for (int peer = 0; peer < ranks_; ++peer) {
      most = std::max(most, slots_[peer].seconds);
    }
    barrier();
    return most;
  }

 private:
  Slot* slots_;
  int ranks_;
  int rank_;
};

using Operation = std::function<void(size_t bytes)>;

void measure(Meeting& meeting, int rank, int runs, const Operation& run) {
  for (const size_t bytes : kSizes) {
    std::vector<double> times;
    int iterations = 3;
    for (int i = -1; i < runs; ++i) {
      meeting.barrier();
      const auto start = std::chrono::steady_clock::now();
      for (int k = 0; k < iterations; ++k) {
        run(bytes);
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      const double seconds = meeting.slowest(took.count() / iterations);
      if (i < 0) {
        iterations = std::clamp(static_cast<int>(kSecondsPerRun / (seconds + 1e-9)), 3, 20000);
      } else {
        times.push_back(seconds * 1e6);
      }
    }
    std::sort(times.begin(), times.end());
    if (rank == 0) {
      std::printf("%zu %.3f\n", bytes, times[times.size() / 2]);
      std::fflush(stdout);
    }
  }
}

// ---- the bound: nothing but loads, stores and two barriers
// ----------------------------------------

void bound(Meeting& meeting, float* const* in, float* const* out, int ranks, int rank,
           const std::string& op, size_t bytes) {
  const size_t n = bytes / sizeof(float);
  meeting.barrier();
  if (op == "allgather") {
    const size_t part = n / static_cast<size_t>(ranks);
    for (int from = 0; from < ranks; ++from) {
      if (from != rank) {
        std::memcpy(out[rank] + static_cast<size_t>(from) * part,
                    out[from] + static_cast<size_t>(from) * part, part * sizeof(float));
      }
    }
  } else {
    const size_t first = n * static_cast<size_t>(rank) / static_cast<size_t>(ranks);
    const size_t last = n * static_cast<size_t>(rank + 1) / static_cast<size_t>(ranks);
    constexpr size_t kTile = 2048;
    for (size_t tile = first; tile < last; tile += kTile) {
      const size_t end = std::min(last, tile + kTile);
      for (size_t i = tile; i < end; ++i) {
        float sum = in[0][i];
        for (int from = 1; from < ranks; ++from) {
          sum += in[from][i];
        }
        out[0][i] = sum;
      }
      for (int to = 1; to < ranks; ++to) {
        std::memcpy(out[to] + tile, out[0] + tile, (end - tile) * sizeof(float));
      }
    }
  }
  meeting.barrier();
}

void check(NRT_STATUS status, const char* what) {
  if (status != NRT_SUCCESS) {
    std::fprintf(stderr, "%s: %s\n", what, onrt_last_error());
    std::exit(1);  // NOLINT(concurrency-mt-unsafe)
  }
}

void run_ours(Meeting& meeting, const std::string& mode, const std::string& op, int ranks, int rank,
              int runs) {
  const onrt_cc_api_t* cc = onrt_cc_api(ONRT_CC_VERSION);
  onrt_cc_init_t init{};
  init.struct_size = sizeof(init);
  init.rank = rank;
  init.size = ranks;
  onrt_cc_comm_t* comm = nullptr;
  onrt_cc_group_t* world = nullptr;
  check(cc->init(&init, &comm), "init");
  check(cc->world(comm, &world), "world");
  void* data = nullptr;
  if (mode == "pool") {
    check(cc->host_allocate(comm, kMost, &data), "host_allocate");
  } else {
    data = ::mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ::madvise(data, kMost, MADV_HUGEPAGE);
  }
  std::memset(data, 0, kMost);
  measure(meeting, rank, runs, [&](size_t bytes) {
    onrt_cc_buffer_t out = {nullptr, data, 0};
    if (op == "allreduce") {
      check(cc->all_reduce(world, &out, &out, bytes / 4, ONRT_CC_F32, ONRT_CC_SUM, nullptr), "op");
    } else {
      const size_t part = bytes / static_cast<size_t>(ranks);
      const onrt_cc_buffer_t in = {nullptr, data, part * static_cast<size_t>(rank)};
      check(cc->all_gather(world, &in, &out, part, ONRT_CC_U8, nullptr), "op");
    }
  });
  check(cc->barrier(world, nullptr), "barrier");
  check(cc->destroy(comm), "destroy");
}

int run_rank(Slot* slots, float* const* in, float* const* out, const std::string& mode,
             const std::string& op, int ranks, int rank, int runs) {
  if (ranks <= static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(rank), &set);
    ::sched_setaffinity(0, sizeof(set), &set);
  }
  Meeting meeting(slots, ranks, rank);
  if (mode == "bound") {
    std::memset(in[rank], 0, kMost);
    std::memset(out[rank], 0, kMost);
    measure(meeting, rank, runs,
            [&](size_t bytes) { bound(meeting, in, out, ranks, rank, op, bytes); });
  } else {
    run_ours(meeting, mode, op, ranks, rank, runs);
  }
  return 0;
}

void* shared(size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s pool|private|bound allreduce|allgather RANKS RUNS\n", argv[0]);
    return 2;
  }
  const std::string mode = argv[1];
  const std::string op = argv[2];
  const int ranks = std::atoi(argv[3]);
  const int runs = std::atoi(argv[4]);
  auto* slots =
      new (shared(sizeof(Slot) * static_cast<size_t>(ranks))) Slot[static_cast<size_t>(ranks)];
  std::vector<float*> in;
  std::vector<float*> out;
  for (int rank = 0; rank < ranks; ++rank) {
    in.push_back(static_cast<float*>(shared(kMost)));
    out.push_back(static_cast<float*>(shared(kMost)));
  }
  for (int rank = 1; rank < ranks; ++rank) {
    if (::fork() == 0) {
      return run_rank(slots, in.data(), out.data(), mode, op, ranks, rank, runs);
    }
  }
  const int code = run_rank(slots, in.data(), out.data(), mode, op, ranks, 0, runs);
  while (::wait(nullptr) > 0) {
  }
  return code;
}
