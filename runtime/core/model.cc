// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/model.h"

#include "runtime/base/format.h"

namespace onrt {
namespace {

uint64_t next_key() {
  static std::atomic<uint64_t> next{2};
  return next.fetch_add(2);
}

}  // namespace

Model::Model(CoreContext& on_core, uint32_t number, const NeffPackage& package)
    : core_(on_core),
      id_(number),
      key_(next_key()),
      name_(package.name),
      tensors_(package.tensors) {
  for (const NeffTensor& tensor : tensors_) {
    (tensor.usage == TensorUsage::kInput ? input_names_ : output_names_)
        .push_back(tensor.size_bytes > 0 ? tensor.name : std::string());
    has_aliases_ |= tensor.alias_of >= 0;
  }
}

std::string Model::label() const {
  return format("model '{}' (id {}) on {}", name_, id_, core_.label);
}

// The gate lies in the slot, which outlives the model: entering is safe with a stale handle, and
// inside the gate the tag can't change any more.
ModelUse::ModelUse(const void* handle) {
  Model* model = HandleTable<Model>::find(handle);
  if (model == nullptr || !HandleTable<Model>::header(model).gate.enter()) {
    return;
  }
  if (HandleTable<Model>::find(handle) == nullptr) {
    HandleTable<Model>::header(model).gate.leave();
    return;
  }
  model_ = model;
}

}  // namespace onrt
