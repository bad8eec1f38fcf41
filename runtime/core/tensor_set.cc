// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/tensor_set.h"

#include <algorithm>

#include "runtime/base/format.h"

namespace onrt {

void TensorSet::add(std::string_view name, Tensor* tensor) {
  MutexLock lock(mutex_);
  tensors_.insert_or_assign(std::string(name), HandleRef<Tensor>(tensor));
  for (Found& found : found_) {
    found.key = 0;
  }
}

Result<Tensor*> TensorSet::get(std::string_view name) const {
  MutexLock lock(mutex_);
  const auto found = tensors_.find(std::string(name));
  if (found == tensors_.end()) {
    return Status(NRT_FAILURE, format("no tensor '{}' in the set of {}", name, tensors_.size()));
  }
  Tensor* tensor = found->second.get();
  if (tensor == nullptr) {
    return Status(NRT_INVALID_HANDLE, format("tensor '{}' of the set was freed", name));
  }
  return tensor;
}

Status TensorSet::look_up(const std::vector<std::string>& names, Found& found) {
  found.key = 0;
  found.tensors.clear();
  for (const std::string& name : names) {
    if (name.empty()) {
      found.tensors.emplace_back();
      continue;
    }
    const auto entry = tensors_.find(name);
    if (entry == tensors_.end()) {
      return Status(NRT_INVALID, format("tensor '{}' is missing", name));
    }
    found.tensors.push_back(entry->second);
  }
  return ok_status();
}

Status TensorSet::find_all(uint64_t key, const std::vector<std::string>& names, Tensor** out) {
  MutexLock lock(mutex_);
  auto found =
      std::find_if(found_.begin(), found_.end(), [&](const Found& f) { return f.key == key; });
  if (found == found_.end()) {
    found = found_.begin() + static_cast<ptrdiff_t>(next_found_);
    next_found_ = (next_found_ + 1) % found_.size();
    ONRT_RETURN_IF_ERROR(look_up(names, *found));
    found->key = key;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    out[i] = found->tensors[i].get();
    if (out[i] == nullptr && !names[i].empty()) {
      return Status(NRT_INVALID, format("tensor '{}' was freed", names[i]));
    }
  }
  return ok_status();
}

}  // namespace onrt
