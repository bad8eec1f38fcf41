// SPDX-License-Identifier: Apache-2.0
// Indexing whose shapes depend on data: masks and nonzero.
#include "python/torch_neuronx/csrc/aten/indexing.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/nonzero_static.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include "python/torch_neuronx/csrc/aten/tensor.h"

namespace tnx {
namespace {

using List = c10::List<std::optional<at::Tensor>>;

bool is_mask(const at::Tensor& index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
}

// The count is read back: the shape depends on it.
at::Tensor find_nonzero(const at::Tensor& self) {
  const at::Tensor mask = self.scalar_type() == at::kBool ? self : self.ne(0);
  const int64_t count = self.numel() == 0 ? 0 : mask.sum().item<int64_t>();
  return at::nonzero_static(mask, count, 0);
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong,
              "nonzero: Expected out tensor to have scalar type Long but got scalar type ",
              out.scalar_type());
  const at::Tensor result = find_nonzero(self);
  out.resize_(result.sizes());
  out.copy_(result);
  return out;
}

at::Tensor select_masked(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  const auto [values, where] = at::expand_outplace(self, mask, "masked_select");
  // 0-d ones: a mask that picks from a vector of one.
  const at::Tensor x = values->dim() == 0 ? values->reshape({1}) : *values;
  const at::Tensor m = where->dim() == 0 ? where->reshape({1}) : *where;
  return at::index(x, List({std::optional(m)}));
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  const at::Tensor result = select_masked(self, mask);
  out.resize_(result.sizes());
  out.copy_(result);
  return out;
}

// Whether index_put of `values` needs no count of the true elements: they have one value, or one
// row of values.
bool same_for_all(const at::Tensor& self, const List& list, size_t at, const at::Tensor& values) {
  for (size_t i = 0; i < list.size(); ++i) {
    const std::optional<at::Tensor> index = list.get(i);
    if (i != at && index.has_value() && index->defined()) {
      return false;
    }
  }
  const at::Tensor mask = *list.get(at);
  const int64_t behind = self.dim() - static_cast<int64_t>(at) - mask.dim();
  return mask.dim() > 0 && self.dim() > 0 &&
         (values.dim() <= behind || values.size(values.dim() - 1 - behind) == 1) &&
         values.dim() <= behind + 1 + static_cast<int64_t>(at);
}

void check_mask(const at::Tensor& self, const at::Tensor& mask, int64_t dim, size_t position) {
  for (int64_t d = 0; d < mask.dim(); ++d) {
    TORCH_CHECK_INDEX(dim + d < self.dim() && mask.size(d) == self.size(dim + d),
                      "The shape of the mask ", mask.sizes(), " at index ", d,
                      " does not match the shape of the indexed tensor ", self.sizes(),
                      " at index ", position + static_cast<size_t>(d));
  }
}

void check_host(const at::Tensor& index, int64_t size, int64_t dim) {
  if (!index.is_cpu() || index.numel() == 0) {
    return;
  }
  const at::Tensor whole = index.to(at::kLong).contiguous();
  const auto* values = whole.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < whole.numel(); ++i) {
    TORCH_CHECK_INDEX(values[i] >= -size && values[i] < size, "index ", values[i],
                      " is out of bounds for dimension ", dim, " with size ", size);
  }
}

}  // namespace

void prepare_indices(const c10::OperatorHandle& op, torch::jit::Stack& stack, size_t list) {
  const size_t begin = stack.size() - op.schema().arguments().size();
  const at::Tensor self = stack[begin].toTensor();
  List given = stack[begin + list].toOptionalTensorList();
  const bool puts = op.schema().arguments().size() > 2;
  TORCH_CHECK(self.device().type() == kDevice,
              "indices should be either on cpu or on the same device as the indexed tensor (",
              self.device(), ")");
  if (puts) {
    const at::Tensor& values = stack[begin + 2].toTensor();
    TORCH_CHECK(values.device() == self.device() || (values.dim() == 0 && values.is_cpu()),
                "expected the values on ", self.device(), ", found ", values.device());
  }
  List prepared;
  bool changed = false;
  int64_t dim = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::optional<at::Tensor> index = given.get(i);
    if (!index.has_value() || !index->defined()) {
      prepared.push_back(std::nullopt);
      ++dim;
      continue;
    }
    if (!is_mask(*index)) {
      TORCH_CHECK_INDEX(index->scalar_type() == at::kLong || index->scalar_type() == at::kInt,
                        "tensors used as indices must be long, int, byte or bool tensors");
      TORCH_CHECK_INDEX(dim < self.dim(), "too many indices for tensor of dimension ", self.dim());
      check_host(*index, self.size(dim), dim);
      // A number on the host would be an input of the program; as an index it is a tensor.
      const bool number = index->is_cpu() && index->dim() == 0;
      prepared.push_back(number ? index->to(self.device()) : *index);
      changed = changed || number;
      ++dim;
      continue;
    }
    check_mask(self, *index, dim, i);
    const at::Tensor mask = index->is_cpu() ? index->to(self.device()) : *index;
    if (puts && same_for_all(self, given, i, stack[begin + 2].toTensor())) {
      prepared.push_back(mask);
    } else if (mask.dim() == 0) {  // like one more dimension of size 1
      TORCH_CHECK_INDEX(false, "a mask without dimensions");
    } else {
      for (const at::Tensor& column : find_nonzero(mask).unbind(1)) {
        prepared.push_back(column);
      }
    }
    changed = true;
    dim += mask.dim();
  }
  if (changed) {
    stack[begin + list] = prepared;
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", TORCH_FN(find_nonzero));
  m.impl("nonzero.out", TORCH_FN(nonzero_out));
  m.impl("masked_select", TORCH_FN(select_masked));
  m.impl("masked_select.out", TORCH_FN(masked_select_out));
}

}  // namespace tnx
