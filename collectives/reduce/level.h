// SPDX-License-Identifier: Apache-2.0
// Between reduce.cc and the translation units of the levels.
#pragma once

#include "collectives/reduce/reduce.h"

namespace onrt::cc {

struct ReduceCall {
  const Reduction& reduction;
  std::span<const ReduceInput> inputs;
  std::span<const ReduceOutput> outputs;
  size_t count;
};
using ReduceFunction = void (*)(const ReduceCall& call);

ReduceFunction reduce_function_plain(Dtype dtype, ReduceOp op);
#if defined(__x86_64__)
ReduceFunction reduce_function_sse4(Dtype dtype, ReduceOp op);
ReduceFunction reduce_function_avx2(Dtype dtype, ReduceOp op);
ReduceFunction reduce_function_avx512(Dtype dtype, ReduceOp op);
#endif

}  // namespace onrt::cc
