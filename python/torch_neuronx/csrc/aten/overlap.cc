// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/aten/overlap.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include "python/torch_neuronx/csrc/aten/tensor.h"

namespace tnx {
namespace {

using Stack = torch::jit::Stack;

// Written several times in one place, with the same.
constexpr std::array<std::string_view, 2> kMayRepeat = {"aten::fill_", "aten::zero_"};
// Results that may not be the arguments either.
constexpr std::array<std::string_view, 5> kElsewhere = {
    "aten::gather", "aten::cat", "aten::index_select", "aten::take", "aten::kthvalue"};

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, const c10::OperatorHandle& op) {
  return std::find(names.begin(), names.end(), op.operator_name().name) != names.end();
}

void each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      visit(value.toTensor());
    }
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) {
      visit(tensor);
    }
  }
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

at::Tensor meta_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.device().type() != kDevice) {
    return tensor;
  }
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           at::TensorOptions().dtype(tensor.scalar_type()).device(at::kMeta));
}

}  // namespace

void check_written(const c10::OperatorHandle& op, const Stack& stack) {
  if (is_one_of(kMayRepeat, op)) {
    return;
  }
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (is_written(arguments[i])) {
      each_tensor(stack[stack.size() - arguments.size() + i],
                  [](const at::Tensor& tensor) { at::assert_no_internal_overlap(tensor); });
    }
  }
}

void check_outs(const c10::OperatorHandle& op, const Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack.size() - arguments.size();
  const bool elsewhere = is_one_of(kElsewhere, op);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].is_out()) {
      continue;
    }
    each_tensor(stack[begin + i], [&](const at::Tensor& out) {
      at::assert_no_internal_overlap(out);
      for (size_t j = 0; j < arguments.size(); ++j) {
        if (arguments[j].is_out()) {
          continue;
        }
        each_tensor(stack[begin + j], [&](const at::Tensor& read) {
          if (elsewhere) {
            at::assert_no_overlap(out, read);
          } else {
            at::assert_no_partial_overlap(out, read);
          }
        });
      }
    });
  }
}

void check_out_types(const c10::OperatorHandle& op, const Stack& stack) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::Meta)) {
    return;
  }
  const size_t n = op.schema().arguments().size();
  Stack meta;
  for (size_t i = stack.size() - n; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (value.isTensor()) {
      meta.emplace_back(meta_of(value.toTensor()));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorList()) {
        list.push_back(meta_of(tensor));
      }
      meta.emplace_back(list);
    } else if (value.isDevice()) {
      meta.emplace_back(c10::Device(c10::DeviceType::Meta));
    } else {
      meta.push_back(value.isGenerator() ? c10::IValue() : value);
    }
  }
  op.callBoxed(meta);
}

void check_copy(const at::Tensor& source, const at::Tensor& target) {
  at::assert_no_internal_overlap(target);
  if (source.device() == target.device() && source.device().type() == kDevice) {
    at::assert_no_partial_overlap(target, source);
  }
}

}  // namespace tnx
