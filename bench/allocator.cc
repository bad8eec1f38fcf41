// SPDX-License-Identifier: Apache-2.0
// The offset allocator, beside malloc and, if BENCH_TLSF names a shared library made of a
// public TLSF (tlsf_create_with_pool, tlsf_memalign, tlsf_free; see docs/performance.md), that.
#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>

#include "allocator/offset_allocator.h"
#include "bench/harness.h"

namespace {

using onrt::bench::Candidate;
using onrt::bench::Clock;
using onrt::bench::Row;

constexpr size_t kLive = 2000;
constexpr size_t kSteps = 100000;
constexpr size_t kAlignment = 64;
constexpr size_t kPool = size_t{1} << 30;

// One step frees the block of a place, or allocates one there if it is empty.
struct Step {
  uint32_t place;
  uint32_t bytes;
};

std::vector<Step> make_trace() {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> bits(6, 18);  // 64 B to 256 KiB, each size class alike
  std::vector<Step> trace(kSteps);
  for (Step& step : trace) {
    step = {static_cast<uint32_t>(random() % kLive),
            static_cast<uint32_t>(std::exp2(bits(random)))};
  }
  return trace;
}

// Runs the trace once on an allocator of Handle values; {} means empty.
template <class Handle, class Allocate, class Free>
void run_trace(const std::vector<Step>& trace, std::vector<Handle>& live, const Allocate& allocate,
               const Free& release) {
  for (const Step& step : trace) {
    Handle& handle = live[step.place];
    if (handle) {
      release(handle);
      handle = {};
    } else {
      handle = allocate(step.bytes);
    }
  }
}

struct Tlsf {
  void* (*create_with_pool)(void*, size_t) = nullptr;
  void* (*memalign)(void*, size_t, size_t) = nullptr;
  void (*free)(void*, void*) = nullptr;
};

bool load_tlsf(Tlsf& tlsf) {
  const char* path = getenv("BENCH_TLSF");
  if (path == nullptr) {
    fprintf(stderr, "no TLSF figures: BENCH_TLSF is not set (docs/performance.md)\n");
    return false;
  }
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fprintf(stderr, "no TLSF figures: %s\n", dlerror());
    return false;
  }
  tlsf.create_with_pool =
      reinterpret_cast<decltype(tlsf.create_with_pool)>(dlsym(library, "tlsf_create_with_pool"));
  tlsf.memalign = reinterpret_cast<decltype(tlsf.memalign)>(dlsym(library, "tlsf_memalign"));
  tlsf.free = reinterpret_cast<decltype(tlsf.free)>(dlsym(library, "tlsf_free"));
  if (tlsf.create_with_pool == nullptr || tlsf.memalign == nullptr || tlsf.free == nullptr) {
    fprintf(stderr, "no TLSF figures: %s lacks the functions of TLSF\n", path);
    return false;
  }
  return true;
}

Candidate tlsf_candidate(const std::vector<Step>& trace, const Tlsf& tlsf) {
  void* memory = std::aligned_alloc(4096, kPool);
  void* pool = tlsf.create_with_pool(memory, kPool);
  auto live = std::make_shared<std::vector<void*>>(kLive);
  return {"tlsf", onrt::bench::timed(
                      [&trace, tlsf, pool, live] {
                        run_trace(
                            trace, *live,
                            [&](size_t bytes) { return tlsf.memalign(pool, kAlignment, bytes); },
                            [&](void* block) { tlsf.free(pool, block); });
                      },
                      Clock::kThreadCpu, 0.05)};
}

Candidate malloc_candidate(const std::vector<Step>& trace) {
  auto live = std::make_shared<std::vector<void*>>(kLive);
  return {"malloc", onrt::bench::timed(
                        [&trace, live] {
                          run_trace(
                              trace, *live,
                              [](size_t bytes) { return std::aligned_alloc(kAlignment, bytes); },
                              [](void* block) { std::free(block); });
                        },
                        Clock::kThreadCpu, 0.05)};
}

}  // namespace

int main(int argc, char** argv) {
  onrt::bench::parse_options(argc, argv, "");
  const std::vector<Step> trace = make_trace();
  auto created = onrt::OffsetAllocator::create(kPool, kAlignment);
  if (!created.ok()) {
    fprintf(stderr, "%s\n", std::string(created.status().message()).c_str());
    return 1;
  }
  onrt::OffsetAllocator& allocator = created.value();
  std::vector<std::optional<onrt::OffsetAllocator::Block>> live(kLive);
  const Candidate ours{
      "ours", onrt::bench::timed(
                  [&] {
                    run_trace(
                        trace, live,
                        [&](size_t bytes) { return allocator.allocate(bytes, kAlignment); },
                        [&](const auto& block) {
                          if (!allocator.free(*block)) {
                            abort();
                          }
                        });
                  },
                  Clock::kThreadCpu, 0.05)};
  const auto nanoseconds = [](double seconds) { return seconds / kSteps * 1e9; };
  std::vector<Row> rows;
  Row row;
  row.unit = "ns/op";
  row.higher_is_better = false;
  Tlsf tlsf;
  if (load_tlsf(tlsf)) {
    row.key = "allocator/offset";
    row.title = "offset allocator, allocate or free";
    row.goal = 1.0;
    rows.push_back(onrt::bench::compare(row, {ours, tlsf_candidate(trace, tlsf)}, nanoseconds));
  }
  row.key = "allocator/offset-malloc";
  row.title = "offset allocator, beside malloc";
  row.goal = 0;
  rows.push_back(onrt::bench::compare(row, {ours, malloc_candidate(trace)}, nanoseconds));
  onrt::bench::report(rows);
  return 0;
}
