// SPDX-License-Identifier: Apache-2.0
// What the parts of Graph (graph*.cc) share.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "python/torch_neuronx/csrc/graph.h"

namespace tnx {

inline void must(nrtcc_status_t status) {
  if (status != NRTCC_OK) {
    throw Error(compiler().nrtcc_last_error());
  }
}

inline int64_t wrap(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }

// nrtcc_attr_t rows and what they point to.
class Graph::Attributes {
 public:
  Attributes() = default;
  Attributes& ints(nrtcc_attr_key_t key, Dims values) {
    kept_.push_back(std::move(values));
    rows_.push_back({key, static_cast<int32_t>(kept_.back().size()), nullptr, nullptr, 0});
    return *this;
  }
  Attributes& data(nrtcc_attr_key_t key, const void* bytes, size_t size) {
    kept_.emplace_back();
    rows_.push_back({key, 0, nullptr, bytes, size});
    return *this;
  }
  Attributes& text(nrtcc_attr_key_t key, const char* value) {
    return data(key, value, std::strlen(value));
  }
  Attributes& flag(nrtcc_attr_key_t key) { return ints(key, {}); }
  Attributes& window(const std::vector<Window>& window) {
    Dims numbers;
    for (const Window& w : window) {
      numbers.insert(numbers.end(), {w.size, w.stride, w.low, w.high, w.dilation, w.base_dilation,
                                     w.reversed ? 1 : 0});
    }
    return ints(NRTCC_ATTR_WINDOW, std::move(numbers));
  }
  std::vector<nrtcc_attr_t> rows() const {
    std::vector<nrtcc_attr_t> rows = rows_;
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].ints = kept_[i].data();
    }
    return rows;
  }

 private:
  std::vector<nrtcc_attr_t> rows_;
  std::vector<Dims> kept_;
};

}  // namespace tnx
