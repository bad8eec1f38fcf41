// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce/reduce.h"

#include <array>
#include <cstring>

#include "collectives/reduce/level.h"
#include "runtime/base/format.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace onrt::cc {
namespace {

constexpr std::array<std::string_view, kReduceOps> kNames = {"sum", "min", "max", "prod", "avg"};

#if defined(__x86_64__)
constexpr std::array kCompiled = {ReduceLevel::kPlain, ReduceLevel::kSse4, ReduceLevel::kAvx2,
                                  ReduceLevel::kAvx512};
#else
constexpr std::array kCompiled = {ReduceLevel::kPlain};
#endif

ReduceFunction function_of(ReduceLevel level, Dtype dtype, ReduceOp op) {
  switch (level) {
#if defined(__x86_64__)
    case ReduceLevel::kSse4:
      return reduce_function_sse4(dtype, op);
    case ReduceLevel::kAvx2:
      return reduce_function_avx2(dtype, op);
    case ReduceLevel::kAvx512:
      return reduce_function_avx512(dtype, op);
#endif
    default:
      return reduce_function_plain(dtype, op);
  }
}

}  // namespace

std::string_view reduce_op_name(ReduceOp op) { return kNames[static_cast<size_t>(op)]; }

Result<ReduceOp> parse_reduce_op(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) {
      return static_cast<ReduceOp>(i);
    }
  }
  return Status(NRT_INVALID, format("reduction '{}': expected sum, min, max, prod or avg", name));
}

uint32_t accumulator_bytes(Dtype dtype) {
  const uint32_t bytes = dtype_bytes(dtype);
  return is_floating(dtype) && bytes < 4 ? 4 : bytes;
}

Status check_reducible(Dtype dtype) {
  if (is_floating(dtype) || is_integer(dtype)) {
    return ok_status();
  }
  return Status(NRT_INVALID, format("element type {}: expected a float or an integer to reduce",
                                    dtype_name(dtype)));
}

std::span<const ReduceLevel> compiled_reduce_levels() { return kCompiled; }

bool reduce_level_runs_here(ReduceLevel level) {
  switch (level) {
    case ReduceLevel::kPlain:
      return true;
#if defined(__x86_64__)
    // The builtins also ask the operating system whether it saves the wide registers.
    case ReduceLevel::kSse4:
      return __builtin_cpu_supports("x86-64-v2") != 0;
    case ReduceLevel::kAvx2:
      return __builtin_cpu_supports("x86-64-v3") != 0;
    case ReduceLevel::kAvx512:
      return __builtin_cpu_supports("x86-64-v4") != 0;
#endif
    default:
      return false;
  }
}

ReduceLevel detect_reduce_level() {
  static const ReduceLevel kBest = [] {
    ReduceLevel best = ReduceLevel::kPlain;
    for (const ReduceLevel level : kCompiled) {
      best = reduce_level_runs_here(level) ? level : best;
    }
    return best;
  }();
  return kBest;
}

void reduce(const Reduction& reduction, std::span<const ReduceInput> inputs,
            std::span<const ReduceOutput> outputs, size_t count, ReduceLevel level) {
  function_of(level, reduction.dtype, reduction.op)(ReduceCall{reduction, inputs, outputs, count});
}

void copy_bytes(void* to, const void* from, size_t bytes, bool stream) {
  if (to == from) {
    return;
  }
#if defined(__x86_64__)
  if (stream && bytes >= 4096) {
    auto* out = static_cast<char*>(to);
    const auto* in = static_cast<const char*>(from);
    const size_t head = (16 - reinterpret_cast<uintptr_t>(out) % 16) % 16;
    std::memcpy(out, in, head);
    size_t i = head;
    for (; i + 64 <= bytes; i += 64) {
      for (size_t k = 0; k < 64; k += 16) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(out + i + k),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i + k)));
      }
    }
    std::memcpy(out + i, in + i, bytes - i);
    _mm_sfence();
    return;
  }
#else
  static_cast<void>(stream);
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace onrt::cc
