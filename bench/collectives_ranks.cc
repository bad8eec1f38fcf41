// SPDX-License-Identifier: Apache-2.0
// Times the blocking calls of opennrt/collectives.h between processes that it forks, or the bound:
// a bare loop over one shared mapping. bench/collectives.py starts it in turns with its peers.
//   bench_collectives_ranks MODE OP RANKS RUNS   MODE: pool, private, bound; OP: allreduce,
//   allgather
// A line a size: "SIZE MICROSECONDS". The time of a run is the slowest rank's mean; printed is the
// median of the runs. all_gather's size is that of its output, in place.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__AVX__)
#include <immintrin.h>
#endif

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

// ---- the bound: nothing but loads, stores and two barriers --------------------------------------

// Each tile's sum is made in the first-level cache, so that nothing can overlap it and the compiler
// vectorises; then it goes to every rank, in place as in our own calls.
constexpr size_t kTile = 1024;
constexpr size_t kStreamBytes = 8 << 20;

void add_tile(float* __restrict sum, const float* __restrict from, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    sum[i] += from[i];
  }
}

void store_tile(float* to, const float* from, size_t n, bool stream) {
  size_t i = 0;
#if defined(__AVX__)
  if (stream && reinterpret_cast<uintptr_t>(to) % 32 == 0) {
    for (; i + 8 <= n; i += 8) {
      _mm256_stream_ps(to + i, _mm256_loadu_ps(from + i));
    }
  }
#endif
  std::memcpy(to + i, from + i, (n - i) * sizeof(float));
}

void bound_reduce(float* const* data, int ranks, int rank, size_t n) {
  const auto parts = static_cast<size_t>(ranks);
  const auto part = static_cast<size_t>(rank);
  const size_t lines = (n + 15) / 16;  // parts begin at cache lines
  const size_t first = std::min(n, lines * part / parts * 16);
  const size_t last = std::min(n, lines * (part + 1) / parts * 16);
  const bool stream = n * sizeof(float) > kStreamBytes;
  alignas(64) float sum[kTile];
  for (size_t tile = first; tile < last; tile += kTile) {
    const size_t count = std::min(kTile, last - tile);
    std::memcpy(sum, data[0] + tile, count * sizeof(float));
    for (int from = 1; from < ranks; ++from) {
      add_tile(sum, data[from] + tile, count);
    }
    for (int to = 0; to < ranks; ++to) {
      store_tile(data[to] + tile, sum, count, stream);
    }
  }
#if defined(__AVX__)
  if (stream) {
    _mm_sfence();
  }
#endif
}

void bound_gather(float* const* data, int ranks, int rank, size_t n) {
  const size_t part = n / static_cast<size_t>(ranks);
  for (int from = 0; from < ranks; ++from) {
    if (from != rank) {
      const size_t begin = static_cast<size_t>(from) * part;
      std::memcpy(data[rank] + begin, data[from] + begin, part * sizeof(float));
    }
  }
}

void bound(Meeting& meeting, float* const* data, int ranks, int rank, const std::string& op,
           size_t bytes) {
  meeting.barrier();
  (op == "allgather" ? bound_gather : bound_reduce)(data, ranks, rank, bytes / sizeof(float));
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

int run_rank(Slot* slots, float* const* data, const std::string& mode, const std::string& op,
             int ranks, int rank, int runs) {
  if (ranks <= static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(rank), &set);
    ::sched_setaffinity(0, sizeof(set), &set);
  }
  Meeting meeting(slots, ranks, rank);
  if (mode == "bound") {
    std::memset(data[rank], 0, kMost);
    measure(meeting, rank, runs,
            [&](size_t bytes) { bound(meeting, data, ranks, rank, op, bytes); });
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
  std::vector<float*> data;
  for (int rank = 0; rank < ranks; ++rank) {
    data.push_back(static_cast<float*>(shared(kMost)));
  }
  const pid_t parent = ::getpid();
  for (int rank = 1; rank < ranks; ++rank) {
    if (::fork() == 0) {
      // A rank whose parent was ended would look for its peers for ever.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) {
        return 1;
      }
      return run_rank(slots, data.data(), mode, op, ranks, rank, runs);
    }
  }
  const int code = run_rank(slots, data.data(), mode, op, ranks, 0, runs);
  while (::wait(nullptr) > 0) {
  }
  return code;
}
