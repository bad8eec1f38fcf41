// SPDX-License-Identifier: Apache-2.0
// Matrix multiplication, one thread: ours, OpenBLAS (dlopen'ed if it is there), torch CPU.
#include "emulator/exec/gemm/gemm.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "bench/harness.h"
#include "bench/torch_peer.h"
#include "runtime/base/small_float.h"

namespace {

using onrt::Dtype;
using onrt::bench::Candidate;
using onrt::bench::Row;

// cblas_sgemm of row-major matrices; the integers are those of cblas.h.
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                       float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                       float* c, int ldc);

struct OpenBlas {
  Sgemm sgemm = nullptr;
  std::string version;
};

OpenBlas open_blas() {
  // Releases older than the processor fall back to their SSE3 kernels; give the peer its best.
  if (onrt::detect_simd_level() == onrt::SimdLevel::kAvx512) {
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  }
  OpenBlas blas;
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fprintf(stderr, "no OpenBLAS figures: %s\n", dlerror());
    return blas;
  }
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto config = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_config"));
  blas.sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  if (set_threads != nullptr) {
    set_threads(1);
  }
  blas.version = config != nullptr ? config() : "OpenBLAS";
  return blas;
}

struct Matrices {
  explicit Matrices(int size) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    const auto count = static_cast<size_t>(size) * static_cast<size_t>(size);
    for (std::vector<float>* values : {&a, &b, &c}) {
      values->resize(count);
      for (float& value : *values) {
        value = normal(random);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      a16.push_back(onrt::Bf16::from_f32(a[i]));
      b16.push_back(onrt::Bf16::from_f32(b[i]));
    }
    c16.resize(count);
  }
  std::vector<float> a, b, c;
  std::vector<uint16_t> a16, b16, c16;
};

onrt::GemmProblem problem(int size, Dtype dtype, const void* a, const void* b, void* c) {
  onrt::GemmProblem result;
  result.m = result.n = result.k = size;
  result.a = {a, dtype, 0, size, 1};
  result.b = {b, dtype, 0, size, 1};
  result.c = {c, dtype, 0, size, 1};
  return result;
}

// Fastest last, so that rows of one size take turns.
void measure(int size, const OpenBlas& blas, onrt::bench::TorchPeer* torch,
             std::vector<Row>& rows) {
  constexpr double kSeconds = 0.05;
  Matrices m(size);
  onrt::GemmScratch scratch;
  const onrt::SimdLevel level = onrt::detect_simd_level();
  const auto ours = [&](const onrt::GemmProblem& p) {
    return onrt::bench::timed(
        [&scratch, level, p] {
          if (!onrt::gemm(p, level, nullptr, scratch).ok()) {
            abort();
          }
        },
        onrt::bench::Clock::kThreadCpu, kSeconds);
  };
  const double operations = 2.0 * size * size * size;
  const auto gigaflops = [operations](double seconds) { return operations / seconds / 1e9; };
  const auto torch_measure = [&](const char* dtype) {
    return [=] { return torch->matmul(dtype, size, size, size, kSeconds); };
  };
  const onrt::bench::Measure f32 =
      ours(problem(size, Dtype::kF32, m.a.data(), m.b.data(), m.c.data()));
  const onrt::bench::Measure bf16 =
      ours(problem(size, Dtype::kBF16, m.a16.data(), m.b16.data(), m.c16.data()));
  std::vector<Candidate> candidates{{"ours", f32}};
  if (blas.sgemm != nullptr) {
    candidates.push_back({"openblas", onrt::bench::timed(
                                          [&] {
                                            blas.sgemm(101, 111, 111, size, size, size, 1.0f,
                                                       m.a.data(), size, m.b.data(), size, 0.0f,
                                                       m.c.data(), size);
                                          },
                                          onrt::bench::Clock::kThreadCpu, kSeconds)});
  }
  if (torch != nullptr) {
    candidates.push_back({"torch", torch_measure("float32")});
  }
  const std::string text = std::to_string(size);
  Row row;
  row.unit = "GF/s";
  row.goal = 1.0;
  row.key = "gemm/f32/" + text;
  row.title = "matmul " + text + "^3 f32, 1 thread";
  rows.push_back(onrt::bench::compare(row, candidates, gigaflops));
  row.key = "gemm/bf16/" + text;
  row.title = "matmul " + text + "^3 bf16, 1 thread";
  rows.push_back(onrt::bench::compare(row, {{"ours", bf16}, {"own f32", f32}}, gigaflops));
  if (torch != nullptr) {
    row.key = "gemm/bf16-torch/" + text;
    row.title = "matmul " + text + "^3 bf16, 1 thread, beside torch";
    row.peers_are_goals = false;
    rows.push_back(onrt::bench::compare(row, {{"ours", bf16}, {"torch", torch_measure("bfloat16")}},
                                        gigaflops));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = onrt::bench::parse_options(argc, argv, "[SIZE...]");
  std::vector<int> sizes;
  for (const std::string& size : options.rest) {
    sizes.push_back(atoi(size.c_str()));
  }
  if (sizes.empty()) {
    sizes = {128, 256, 512, 1024, 2048};
  }
  const OpenBlas blas = open_blas();
  const auto torch = onrt::bench::TorchPeer::start(options.python);
  fprintf(stderr, "gemm: level %s; %s; %s\n",
          std::string(onrt::simd_level_name(onrt::detect_simd_level())).c_str(),
          blas.version.c_str(), torch != nullptr ? torch->version().c_str() : "no torch");
  std::vector<Row> rows;
  for (int size : sizes) {
    measure(size, blas, torch.get(), rows);
  }
  onrt::bench::report(rows);
  return 0;
}
