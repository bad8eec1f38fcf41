// SPDX-License-Identifier: Apache-2.0
// reduce and dot, in the order of emulator/isa/reduce_order.h.
#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/reference/combiner.h"
#include "compiler/reference/interpreter.h"
#include "emulator/isa/reduce_order.h"

namespace onrt::reference {
namespace {

using hir::AttributeKey;
using ncx::Boxed;

// The dimensions of an operand that are named in `chosen`, or the others, in ascending order.
Index pick(const Index& values, std::span<const int64_t> chosen, bool wanted) {
  Index made;
  for (size_t d = 0; d < values.size(); ++d) {
    const bool found = std::ranges::find(chosen, static_cast<int64_t>(d)) != chosen.end();
    if (found == wanted) {
      made.push_back(values[d]);
    }
  }
  return made;
}

int64_t position_in(const Index& dims, const Index& index) {
  int64_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    at = at * dims[d] + index[d];
  }
  return at;
}

}  // namespace

Status evaluate_reduce(Operation& operation) {
  const size_t n = operation.operands.size() / 2;
  const Tensor& first = operation.operand(0);
  const auto reduced = operation.ints(AttributeKey::kDimensions);
  const Index kept_dims = pick(first.dims, reduced, false);
  std::vector<std::vector<Row>> rows(static_cast<size_t>(operation.result().elements()));
  for_each_index(first.dims, [&](const Index& index, int64_t position) {
    Row row(n);
    for (size_t i = 0; i < n; ++i) {
      row[i] = operation.operand(i).get(position);
    }
    rows[static_cast<size_t>(position_in(kept_dims, pick(index, reduced, false)))].push_back(row);
  });
  Combiner combine(operation);
  for (size_t k = 0; k < rows.size(); ++k) {
    Row total(n);
    for (size_t i = 0; i < n; ++i) {
      total[i] = operation.operand(n + i).get(0);
    }
    if (!rows[k].empty()) {
      const auto count = static_cast<int64_t>(rows[k].size());
      const auto step = [&](const Row& a, const Row& b) { return combine(a, b); };
      const Row sum = combine.is_general() ? ncx::reduce_in_pairs(rows[k].data(), count, step)
                                           : ncx::reduce_in_order(rows[k].data(), count, step);
      total = combine.settle(combine(total, sum));
    }
    ONRT_RETURN_IF_ERROR(combine.status);
    for (size_t i = 0; i < n; ++i) {
      operation.results[i].set(static_cast<int64_t>(k), total[i]);
    }
  }
  return ok_status();
}

// result[batch, m.., n..] = sum over k of lhs * rhs; k numbers the contracting dimensions row-major
// in the order in which they are given.
Status evaluate_dot(Operation& operation) {
  const Tensor& lhs = operation.operand(0);
  const Tensor& rhs = operation.operand(1);
  Tensor& result = operation.result();
  const auto lhs_batch = operation.ints(AttributeKey::kLhsBatch);
  const auto rhs_batch = operation.ints(AttributeKey::kRhsBatch);
  const auto lhs_contracting = operation.ints(AttributeKey::kLhsContracting);
  const auto rhs_contracting = operation.ints(AttributeKey::kRhsContracting);
  Index depth;
  for (const int64_t dim : lhs_contracting) {
    depth.push_back(lhs.dims[static_cast<size_t>(dim)]);
  }
  const auto is_free = [](size_t d, std::span<const int64_t> batch,
                          std::span<const int64_t> contracting) {
    return std::ranges::find(batch, static_cast<int64_t>(d)) == batch.end() &&
           std::ranges::find(contracting, static_cast<int64_t>(d)) == contracting.end();
  };
  for_each_index(result.dims, [&](const Index& index, int64_t position) {
    Index left(lhs.dims.size());
    Index right(rhs.dims.size());
    size_t next = 0;
    for (size_t i = 0; i < lhs_batch.size(); ++i) {
      left[static_cast<size_t>(lhs_batch[i])] = index[next];
      right[static_cast<size_t>(rhs_batch[i])] = index[next++];
    }
    for (size_t d = 0; d < left.size(); ++d) {
      left[d] = is_free(d, lhs_batch, lhs_contracting) ? index[next++] : left[d];
    }
    for (size_t d = 0; d < right.size(); ++d) {
      right[d] = is_free(d, rhs_batch, rhs_contracting) ? index[next++] : right[d];
    }
    float total = 0;
    float block = 0;
    uint64_t integer = 0;
    for_each_index(depth, [&](const Index& k, int64_t number) {
      for (size_t i = 0; i < k.size(); ++i) {
        left[static_cast<size_t>(lhs_contracting[i])] = k[i];
        right[static_cast<size_t>(rhs_contracting[i])] = k[i];
      }
      const Boxed a = lhs.get(lhs.position(left));
      const Boxed b = rhs.get(rhs.position(right));
      if (!is_floating(result.dtype)) {
        integer += a * b;
        return;
      }
      if (number % ncx::kDotBlock == 0 && number > 0) {
        total = number == ncx::kDotBlock ? block : total + block;
        block = 0;
      }
      block = std::fma(std::bit_cast<float>(static_cast<uint32_t>(a)),
                       std::bit_cast<float>(static_cast<uint32_t>(b)), block);
    });
    int64_t terms = 1;
    for (const int64_t dim : depth) {
      terms *= dim;
    }
    total = terms <= ncx::kDotBlock ? block : total + block;
    const Boxed value = is_floating(result.dtype) ? std::bit_cast<uint32_t>(total) : integer;
    result.set(position, ncx::settle_boxed(result.dtype, value));
  });
  return ok_status();
}

}  // namespace onrt::reference
