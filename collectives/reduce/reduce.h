// SPDX-License-Identifier: Apache-2.0
// Folding the inputs of several ranks into results: the arithmetic of all_reduce and its kin.
//
// Numerics. Inputs are folded from left to right. bf16, f16 and the 8-bit floats accumulate in f32
// and are rounded once, to nearest even; f32, f64 and integers accumulate in their own type
// (integers wrap around). An average is the sum divided by `divisor` in the accumulator's type
// (integers: towards zero). A NaN stays a NaN: min and max don't lose it, and a result that is one
// is the positive quiet NaN. Every level gives the same bits, wherever an element lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

namespace onrt::cc {

enum class ReduceOp : uint8_t { kSum, kMin, kMax, kProd, kAvg };
inline constexpr int kReduceOps = 5;
std::string_view reduce_op_name(ReduceOp op);  // "sum", "min", "max", "prod", "avg"
Result<ReduceOp> parse_reduce_op(std::string_view name);

// Bytes of an accumulator of `dtype`: 4 for floats below 4 bytes, else the type's own.
uint32_t accumulator_bytes(Dtype dtype);

// NRT_INVALID for types that have no arithmetic here (pred).
Status check_reducible(Dtype dtype);

struct ReduceInput {
  const void* data = nullptr;
  bool accumulator = false;  // elements are accumulators, not of the operation's type
};
struct ReduceOutput {
  void* data = nullptr;
  bool accumulator = false;  // gets the accumulator as it is: neither rounded nor divided
  bool stream = false;       // won't be read soon: stores may go around the caches
};

struct Reduction {
  Dtype dtype = Dtype::kF32;
  ReduceOp op = ReduceOp::kSum;
  uint32_t divisor = 1;  // of kAvg: the number of ranks
};

// Vector instructions of the host that the loops use.
enum class ReduceLevel : uint8_t { kPlain, kSse4, kAvx2, kAvx512 };
std::span<const ReduceLevel> compiled_reduce_levels();  // slowest first
bool reduce_level_runs_here(ReduceLevel level);
ReduceLevel detect_reduce_level();

// Folds `count` elements. Each output is exactly one of the inputs, or apart from all of them; of
// more than one output none overlaps another. At least one input and one output; with one input it
// is widened, or finished. `dtype` is reducible.
void reduce(const Reduction& reduction, std::span<const ReduceInput> inputs,
            std::span<const ReduceOutput> outputs, size_t count,
            ReduceLevel level = detect_reduce_level());

// Copies; from some size on around the caches when `stream` is set. The ranges are apart or equal.
void copy_bytes(void* to, const void* from, size_t bytes, bool stream);

}  // namespace onrt::cc
