// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/view.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tnx {
namespace {

// Dimensions of more than one element, largest stride first; stretched ones (stride 0) apart.
Dims memory_order(const Layout& layout) {
  Dims order;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] != 1 && layout.strides[d] != 0) {
      order.push_back(static_cast<int64_t>(d));
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return layout.strides[static_cast<size_t>(a)] > layout.strides[static_cast<size_t>(b)];
  });
  return order;
}

bool is_stretched(const Layout& layout) {
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] > 1 && layout.strides[d] == 0) {
      return true;
    }
  }
  return false;
}

// A box of which the view is a corner: strides divide one another and rows don't overlap.
struct Box {
  Dims order;  // of the view's dimensions in memory
  Dims dims;   // of the box: as many as in `order`, and the smallest stride
  Dims part;   // how much of each the view takes
  int64_t count = 0;
};

std::optional<Box> box_of(const Layout& layout) {
  Box box;
  box.order = memory_order(layout);
  const auto size = [&](size_t i) { return layout.sizes[static_cast<size_t>(box.order[i])]; };
  const auto stride = [&](size_t i) { return layout.strides[static_cast<size_t>(box.order[i])]; };
  const size_t rank = box.order.size();
  box.count = 1;
  for (size_t i = 0; i < rank; ++i) {
    if (i == 0) {
      box.dims.push_back(size(0));
    } else {
      if (stride(i - 1) % stride(i) != 0 || stride(i - 1) / stride(i) < size(i)) {
        return std::nullopt;
      }
      box.dims.push_back(stride(i - 1) / stride(i));
    }
    box.part.push_back(size(i));
  }
  box.dims.push_back(rank == 0 ? 1 : stride(rank - 1));
  box.part.push_back(1);
  box.count = count_of(box.dims);
  return box;
}

// Where in the box the view begins that is `start` elements into it.
Dims corner_of(const Box& box, int64_t start) {
  Dims corner(box.dims.size(), 0);
  for (size_t d = box.dims.size(); d-- > 1 && start > 0;) {
    corner[d] = start % box.dims[d];
    start /= box.dims[d];
  }
  return corner;
}

// From the order of dimensions in memory to the view's: sizes of 1 come in again.
Value from_memory_order(Graph& g, const Value& x, const Dims& order, const Dims& sizes) {
  Dims back(order.size());
  Dims by_position = order;
  std::sort(by_position.begin(), by_position.end());
  for (size_t i = 0; i < order.size(); ++i) {
    back[i] = std::find(order.begin(), order.end(), by_position[i]) - order.begin();
  }
  Dims kept = sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (std::find(order.begin(), order.end(), static_cast<int64_t>(d)) == order.end()) {
      kept[d] = 1;
    }
  }
  return g.expand(g.reshape(g.transpose(x, back), kept), sizes);
}

Value to_memory_order(Graph& g, const Value& x, const Dims& order) {
  Dims by_position = order;
  std::sort(by_position.begin(), by_position.end());
  Dims dims;
  Dims permutation;
  for (const int64_t d : by_position) {
    dims.push_back(x.dims[static_cast<size_t>(d)]);
  }
  for (const int64_t d : order) {
    permutation.push_back(std::find(by_position.begin(), by_position.end(), d) -
                          by_position.begin());
  }
  return g.transpose(g.reshape(x, dims), permutation);
}

// Position of each element in the flat array, s64 of the view's dims.
Value positions(Graph& g, const Layout& layout) {
  Value at = g.zeros(kS64, layout.sizes);
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] > 1 && layout.strides[d] != 0) {
      const Value step = g.broadcast(g.integer(kS64, layout.strides[d]), layout.sizes, {});
      at = g.add(at, g.mul(g.iota(kS64, layout.sizes, static_cast<int64_t>(d)), step));
    }
  }
  return at;
}

Value padded(Graph& g, const Value& flat, int64_t count) {
  if (flat.dims[0] > count) {
    return g.narrow(flat, 0, 0, count);
  }
  return g.pad(flat, g.constant(flat.type, 0), {0}, {count - flat.dims[0]});
}

}  // namespace

Dims contiguous_strides(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

bool is_dense(const Layout& layout) {
  if (is_stretched(layout)) {
    return false;
  }
  const Dims order = memory_order(layout);
  int64_t expected = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(order[i]);
    if (layout.strides[d] != expected) {
      return false;
    }
    expected *= layout.sizes[d];
  }
  return true;
}

int64_t span_of(const Layout& layout) {
  int64_t last = 0;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] == 0) {
      return 0;
    }
    last += (layout.sizes[d] - 1) * layout.strides[d];
  }
  return last + 1;
}

int64_t wanted_length(const Layout& layout) {
  if (span_of(layout) == 0) {
    return 0;
  }
  const auto box = box_of(layout);
  return box ? box->count : span_of(layout);
}

int64_t row_start(const Layout& layout, int64_t offset) {
  const auto box = box_of(layout);
  if (!box || box->order.empty()) {
    return 0;
  }
  const int64_t start = offset % layout.strides[static_cast<size_t>(box->order[0])];
  const Dims corner = corner_of(*box, start);
  for (size_t d = 1; d < corner.size(); ++d) {
    if (corner[d] + box->part[d] > box->dims[d]) {
      return 0;
    }
  }
  return start;
}

Value read_view(Graph& g, const Value& flat, const Layout& layout, int64_t start) {
  if (const auto box = box_of(layout)) {
    const Value whole = g.reshape(padded(g, flat, box->count), box->dims);
    const Dims corner = corner_of(*box, start);
    Dims end = box->part;
    for (size_t d = 0; d < end.size(); ++d) {
      end[d] += corner[d];
    }
    const Value part = g.slice(whole, corner, end);
    Dims dims = box->part;
    dims.pop_back();
    return from_memory_order(g, g.reshape(part, dims), box->order, layout.sizes);
  }
  Graph::GatherDims dims;
  dims.collapsed = {0};
  dims.index_map = {0};
  dims.index_vector = static_cast<int64_t>(layout.sizes.size());
  return g.gather(flat, positions(g, layout), dims, {1});
}

Value flatten(Graph& g, const Value& value, const Layout& layout) {
  return g.reshape(to_memory_order(g, value, memory_order(layout)), {value.count()});
}

Value write_view(Graph& g, const Value& flat, const Value& value, const Layout& layout,
                 int64_t start) {
  if (is_stretched(layout)) {  // filled: the elements of one place are the same
    Layout once = layout;
    for (size_t d = 0; d < once.sizes.size(); ++d) {
      once.sizes[d] = once.strides[d] == 0 ? 1 : once.sizes[d];
    }
    return write_view(g, flat, g.slice(value, Dims(once.sizes.size(), 0), once.sizes), once, start);
  }
  if (const auto box = box_of(layout)) {
    Value part = to_memory_order(g, value, box->order);
    part = g.reshape(part, box->part);
    if (box->part == box->dims) {
      const Value whole = g.reshape(part, {box->count});
      if (flat.dims[0] <= box->count) {
        return padded(g, whole, flat.dims[0]);
      }
      return g.concat({whole, g.narrow(flat, 0, box->count, flat.dims[0] - box->count)}, 0);
    }
    const Value whole = g.reshape(padded(g, flat, box->count), box->dims);
    std::vector<Value> corner;
    for (const int64_t at : corner_of(*box, start)) {
      corner.push_back(g.integer(kS32, at));
    }
    const Value written = g.dynamic_update(whole, part, corner);
    Value out = g.reshape(written, {box->count});
    if (flat.dims[0] <= box->count) {
      return padded(g, out, flat.dims[0]);
    }
    return g.concat({out, g.narrow(flat, 0, box->count, flat.dims[0] - box->count)}, 0);
  }
  Graph::GatherDims dims;
  dims.collapsed = {0};
  dims.index_map = {0};
  dims.index_vector = static_cast<int64_t>(layout.sizes.size());
  return g.scatter("", flat, positions(g, layout), value, dims);
}

}  // namespace tnx
