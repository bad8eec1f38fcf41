// SPDX-License-Identifier: Apache-2.0
// Tensors by the names that a model knows them by.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/core/handle.h"
#include "runtime/core/tensor.h"

namespace onrt {

// Owns names, not tensors: a tensor that was freed is noticed when the set is used. Thread-safe.
class TensorSet {
 public:
  static constexpr uint32_t kTag = 0x54534554;

  // Adds, or replaces what had the name.
  void add(std::string_view name, Tensor* tensor);
  // NRT_FAILURE when there is no such name, NRT_INVALID_HANDLE when its tensor was freed.
  Result<Tensor*> get(std::string_view name) const;

  // The tensors called `names`, in that order, into `out`. `key` stands for the list of names: the
  // look-up is remembered by it. NRT_INVALID names the first that is missing or freed. An empty
  // name stands for no tensor: null.
  Status find_all(uint64_t key, const std::vector<std::string>& names, Tensor** out);

 private:
  struct Found {
    uint64_t key = 0;
    std::vector<HandleRef<Tensor>> tensors;
  };

  Status look_up(const std::vector<std::string>& names, Found& found) ONRT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::unordered_map<std::string, HandleRef<Tensor>> tensors_ ONRT_GUARDED_BY(mutex_);
  // A set often serves one model, or two in turn.
  std::array<Found, 2> found_ ONRT_GUARDED_BY(mutex_);
  size_t next_found_ ONRT_GUARDED_BY(mutex_) = 0;
};

}  // namespace onrt
