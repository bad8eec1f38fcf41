// SPDX-License-Identifier: Apache-2.0
// What gemm() and gemm_reference() share: checks, accumulator types, packing buffers.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "emulator/exec/gemm/gemm.h"
#include "runtime/base/format.h"

namespace onrt {

void GemmScratch::Free::operator()(void* memory) const { std::free(memory); }

void GemmScratch::set_count(size_t count) {
  if (storages_.size() < count) {
    storages_.resize(count);
  }
}

void* GemmScratch::reserve(size_t index, size_t bytes) {
  set_count(index + 1);
  Storage& storage = storages_[index];
  if (storage.bytes < bytes) {
    storage.memory.reset();
    // Large storages are read all over by every pass: ask for large pages, to spare address
    // look-ups.
    constexpr size_t kLargePage = size_t{2} << 20;
    const size_t alignment = bytes >= kLargePage / 2 ? kLargePage : 64;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    storage.memory.reset(std::aligned_alloc(alignment, rounded));
    if (storage.memory != nullptr && alignment == kLargePage) {
      madvise(storage.memory.get(), rounded, MADV_HUGEPAGE);  // a hint: refusal changes nothing
    }
    storage.bytes = storage.memory == nullptr ? 0 : rounded;
  }
  return storage.memory.get();
}

Dtype gemm_accumulator(Dtype c) {
  if (is_floating(c)) {
    return Dtype::kF32;
  }
  return dtype_bytes(c) == 8 ? Dtype::kS64 : Dtype::kS32;
}

Status check_gemm(const GemmProblem& problem) {
  if (problem.batch < 0 || problem.m < 0 || problem.n < 0 || problem.k < 0) {
    return Status(
        NRT_INVALID,
        format("matrix multiplication: expected sizes of at least 0, found batch {}, m {}, "
               "n {}, k {}",
               problem.batch, problem.m, problem.n, problem.k));
  }
  constexpr int64_t kLargest = int64_t{1} << 40;  // keeps products of a size and a stride in range
  if (std::max({problem.batch, problem.m, problem.n, problem.k}) > kLargest) {
    return Status(
        NRT_INVALID,
        format("matrix multiplication: expected sizes of at most 2^40, found batch {}, m {}, "
               "n {}, k {}",
               problem.batch, problem.m, problem.n, problem.k));
  }
  const bool floating = is_floating(problem.c.dtype);
  if (is_floating(problem.a.dtype) != floating || is_floating(problem.b.dtype) != floating) {
    return Status(NRT_INVALID,
                  format("matrix multiplication: expected all floating or all integer types, found "
                         "{} x {} -> {}",
                         dtype_name(problem.a.dtype), dtype_name(problem.b.dtype),
                         dtype_name(problem.c.dtype)));
  }
  return ok_status();
}

}  // namespace onrt
