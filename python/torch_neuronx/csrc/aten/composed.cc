// SPDX-License-Identifier: Apache-2.0
// Operations whose results' shapes depend on data, made of others that run on the device: the
// unique family, bincount, repeat_interleave. One number, the size, is read back.
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

#include "python/torch_neuronx/csrc/aten/tensor.h"

namespace tnx {
namespace {

using Unique = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::TensorOptions whole_numbers(const at::Tensor& like) { return like.options().dtype(at::kLong); }

// Elements that differ from the one before; the first one does.
at::Tensor begins(const at::Tensor& differs_from_previous) {
  return at::cat({at::ones({1}, differs_from_previous.options()), differs_from_previous});
}

struct Groups {
  at::Tensor first;   // positions where a group of equal elements begins
  at::Tensor number;  // of the group, for each element
  at::Tensor counts;
};

Groups groups_of(const at::Tensor& differs_from_previous) {
  const at::Tensor begin = begins(differs_from_previous);
  Groups groups;
  groups.first = at::nonzero(begin).squeeze(1);
  groups.number = at::cumsum(begin, 0).sub(1);
  groups.counts = at::zeros({groups.first.size(0)}, whole_numbers(begin))
                      .index_add_(0, groups.number, at::ones_like(groups.number));
  return groups;
}

Unique no_elements(const at::Tensor& self, bool inverse) {
  const at::Tensor none = at::empty({0}, whole_numbers(self));
  return {at::empty({0}, self.options()),
          inverse ? at::empty(self.sizes(), whole_numbers(self)) : none, none};
}

Unique unique_flat(const at::Tensor& self, bool inverse, bool counts) {
  if (self.numel() == 0) {
    return no_elements(self, inverse);
  }
  const at::Tensor flat = self.reshape({-1});
  const auto [values, order] = at::sort(flat);
  const at::Tensor differs = at::ne(values.slice(0, 1), values.slice(0, 0, values.size(0) - 1));
  const Groups groups = groups_of(differs);
  const at::Tensor none = at::empty({0}, whole_numbers(self));
  at::Tensor where = none;
  if (inverse) {
    where = at::empty_like(groups.number).scatter_(0, order, groups.number).view(self.sizes());
  }
  return {at::index_select(values, 0, groups.first), where, counts ? groups.counts : none};
}

Unique unique2(const at::Tensor& self, bool /*sorted*/, bool inverse, bool counts) {
  return unique_flat(self, inverse, counts);
}

std::tuple<at::Tensor, at::Tensor> unique(const at::Tensor& self, bool /*sorted*/, bool inverse) {
  const auto [values, where, counts] = unique_flat(self, inverse, false);
  return {values, where};
}

// Slices along dim as rows.
at::Tensor rows_of(const at::Tensor& self, int64_t dim) {
  return self.movedim(dim, 0).reshape({self.size(dim), -1});
}

at::Tensor rows_differ(const at::Tensor& rows) {
  return at::ne(rows.slice(0, 1), rows.slice(0, 0, rows.size(0) - 1)).any(1);
}

void check_dim(const at::Tensor& self, int64_t dim) {
  for (int64_t d = 0; d < self.dim(); ++d) {
    TORCH_CHECK(d == dim || self.size(d) != 0,
                "There are 0 sized dimensions, and they aren't "
                "selected, so unique cannot be applied");
  }
}

Unique unique_consecutive(const at::Tensor& self, bool inverse, bool counts,
                          std::optional<int64_t> given) {
  const at::Tensor none = at::empty({0}, whole_numbers(self));
  if (!given.has_value() || self.dim() == 0) {
    if (self.numel() == 0) {
      return no_elements(self, inverse);
    }
    const at::Tensor flat = self.reshape({-1});
    const Groups groups = groups_of(at::ne(flat.slice(0, 1), flat.slice(0, 0, flat.size(0) - 1)));
    return {at::index_select(flat, 0, groups.first),
            inverse ? groups.number.view(self.sizes()) : none, counts ? groups.counts : none};
  }
  const int64_t dim = c10::maybe_wrap_dim(*given, self.dim());
  if (self.size(dim) == 0) {
    check_dim(self, dim);
    return {at::empty(self.sizes(), self.options()), none, none};
  }
  check_dim(self, dim);
  const Groups groups = groups_of(rows_differ(rows_of(self, dim)));
  return {at::index_select(self, dim, groups.first), inverse ? groups.number : none,
          counts ? groups.counts : none};
}

Unique unique_dim(const at::Tensor& self, int64_t given, bool /*sorted*/, bool inverse,
                  bool counts) {
  const int64_t dim = c10::maybe_wrap_dim(given, self.dim());
  const at::Tensor none = at::empty({0}, whole_numbers(self));
  check_dim(self, dim);
  if (self.size(dim) == 0) {
    return {at::empty(self.sizes(), self.options()), none, none};
  }
  at::Tensor rows = rows_of(self, dim);
  // By the last column first: each sort keeps the order of those before.
  at::Tensor order = at::arange(rows.size(0), whole_numbers(self));
  for (int64_t column = rows.size(1); column-- > 0;) {
    const at::Tensor key = at::index_select(rows.select(1, column), 0, order);
    order = at::index_select(order, 0, at::argsort(key, /*stable=*/true, 0, false));
  }
  rows = at::index_select(rows, 0, order);
  const Groups groups = groups_of(rows_differ(rows));
  at::Tensor where = none;
  if (inverse) {
    where = at::empty_like(groups.number).scatter_(0, order, groups.number);
  }
  return {at::index_select(self, dim, at::index_select(order, 0, groups.first)), where,
          counts ? groups.counts : none};
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights,
                    c10::SymInt minlength) {
  const int64_t least = minlength.expect_int();
  const bool weighted = weights.has_value() && weights->defined();
  TORCH_CHECK(least >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1 && at::isIntegralType(self.scalar_type(), false),
              "bincount only supports 1-d non-negative integral inputs.");
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  const at::ScalarType type = !weighted                              ? at::kLong
                              : weights->scalar_type() == at::kFloat ? at::kFloat
                                                                     : at::kDouble;
  int64_t size = least;
  if (self.numel() > 0) {
    const at::Tensor ends =
        at::cat({self.amin({0}, true), self.amax({0}, true)}).to(at::kLong).cpu();
    TORCH_CHECK(ends[0].item<int64_t>() >= 0,
                "bincount only supports 1-d non-negative integral inputs.");
    size = std::max(size, ends[1].item<int64_t>() + 1);
  }
  at::Tensor bins = at::zeros({size}, self.options().dtype(type));
  if (self.numel() == 0) {
    return bins;
  }
  const at::Tensor whole = self.to(at::kLong);
  return bins.index_add_(0, whole, weighted ? weights->to(type) : at::ones_like(whole));
}

// Number i, repeats[i] times.
at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<c10::SymInt> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.size(0) == 0) {
    return at::empty_like(repeats);
  }
  const at::Tensor ends = at::cumsum(repeats, 0);
  const at::Tensor told = at::cat({ends.slice(0, -1), repeats.amin({0}, true).to(at::kLong)}).cpu();
  TORCH_CHECK(told[1].item<int64_t>() >= 0, "repeats can not be negative");
  const int64_t size = told[0].item<int64_t>();
  TORCH_CHECK(!output_size.has_value() || output_size->expect_int() == size,
              "allocated size does not match required size");
  const at::Tensor marks =
      at::zeros({size + 1}, whole_numbers(repeats)).index_add_(0, ends, at::ones_like(ends));
  return at::cumsum(marks, 0).slice(0, 0, size).to(repeats.scalar_type());
}

at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                       at::Tensor& out) {
  const at::Tensor result = at::arange(start, end, step, out.options());
  if (!out.sizes().equals(result.sizes())) {
    out.resize_(result.sizes());
  }
  return out.copy_(result);
}

at::Tensor& narrow_copy_out(const at::Tensor& self, int64_t dim, c10::SymInt start,
                            c10::SymInt length, at::Tensor& out) {
  const at::Tensor part = self.narrow(dim, start.expect_int(), length.expect_int());
  out.resize_(part.sizes());
  return out.copy_(part);
}

at::Tensor channel_shuffle(const at::Tensor& self, c10::SymInt given) {
  const int64_t groups = given.expect_int();
  TORCH_CHECK(self.dim() > 2,
              "channel_shuffle expects input with > 2 dims, but got input with sizes ",
              self.sizes());
  TORCH_CHECK(groups > 0,
              "Number of groups to divide channels in must be positive. Value of groups:", groups);
  TORCH_CHECK(self.size(1) % groups == 0, "Number of channels must be divisible by groups. Got ",
              self.size(1), " channels and ", groups, " groups.");
  if (self.numel() == 0) {
    return at::empty_like(self);
  }
  return self.view({self.size(0), groups, self.size(1) / groups, -1})
      .transpose(1, 2)
      .reshape(self.sizes());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_unique2", TORCH_FN(unique2));
  m.impl("_unique", TORCH_FN(unique));
  m.impl("unique_consecutive", TORCH_FN(unique_consecutive));
  m.impl("unique_dim", TORCH_FN(unique_dim));
  m.impl("bincount", TORCH_FN(bincount));
  m.impl("repeat_interleave.Tensor", TORCH_FN(repeat_interleave));
  m.impl("arange.start_out", TORCH_FN(arange_out));
  m.impl("narrow_copy.out", TORCH_FN(narrow_copy_out));
  m.impl("channel_shuffle", TORCH_FN(channel_shuffle));
}

}  // namespace
}  // namespace tnx
