// SPDX-License-Identifier: Apache-2.0
// Graph: operations that move elements.
#include <algorithm>
#include <numeric>

#include "python/torch_neuronx/csrc/graph_parts.h"

namespace tnx {

Value Graph::convert(const Value& x, Type type) {
  if (x.type == type) {
    return x;
  }
  if (type == kPred) {  // torch: everything but 0 is true, NaN too
    return compare("NE", x, constant(x.type, 0));
  }
  return op("convert", {x}, type, x.dims);
}

Value Graph::bitcast(const Value& x, Type type) {
  return x.type == type ? x : op("bitcast-convert", {x}, type, x.dims);
}

Value Graph::reshape(const Value& x, const Dims& dims) {
  return x.dims == dims ? x : op("reshape", {x}, x.type, dims);
}

Value Graph::broadcast(const Value& x, const Dims& dims, const Dims& map) {
  return x.dims == dims
             ? x
             : op("broadcast", {x}, x.type, dims, Attributes().ints(NRTCC_ATTR_DIMENSIONS, map));
}

Value Graph::expand(const Value& x, const Dims& dims) {
  if (x.dims == dims) {
    return x;
  }
  // HLO broadcasts don't stretch dimensions of size 1: those are dropped first.
  Dims kept;
  Dims map;
  const size_t lead = dims.size() - x.dims.size();
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (x.dims[i] == dims[lead + i]) {
      kept.push_back(x.dims[i]);
      map.push_back(static_cast<int64_t>(lead + i));
    } else if (x.dims[i] != 1) {
      throw Error("a dimension of " + std::to_string(x.dims[i]) + " does not expand to " +
                  std::to_string(dims[lead + i]));
    }
  }
  return broadcast(reshape(x, kept), dims, map);
}

Value Graph::transpose(const Value& x, const Dims& order) {
  Dims dims;
  bool same = true;
  for (size_t i = 0; i < order.size(); ++i) {
    dims.push_back(x.dims[static_cast<size_t>(order[i])]);
    same = same && order[i] == static_cast<int64_t>(i);
  }
  return same ? x
              : op("transpose", {x}, x.type, dims, Attributes().ints(NRTCC_ATTR_DIMENSIONS, order));
}

Value Graph::swap(const Value& x, int64_t a, int64_t b) {
  Dims order(x.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(wrap(a, x.rank()))],
            order[static_cast<size_t>(wrap(b, x.rank()))]);
  return transpose(x, order);
}

Value Graph::slice(const Value& x, const Dims& start, const Dims& limit, const Dims& stride) {
  Dims numbers;
  Dims dims;
  for (size_t i = 0; i < start.size(); ++i) {
    const int64_t step = stride.empty() ? 1 : stride[i];
    numbers.insert(numbers.end(), {start[i], limit[i], step});
    dims.push_back((limit[i] - start[i] + step - 1) / step);
  }
  return dims == x.dims
             ? x
             : op("slice", {x}, x.type, dims, Attributes().ints(NRTCC_ATTR_SLICE, numbers));
}

Value Graph::narrow(const Value& x, int64_t dim, int64_t start, int64_t length, int64_t step) {
  const auto at = static_cast<size_t>(wrap(dim, x.rank()));
  Dims from(x.dims.size(), 0);
  Dims to = x.dims;
  Dims steps(x.dims.size(), 1);
  from[at] = start;
  to[at] = length == 0 ? start : start + (length - 1) * step + 1;
  steps[at] = step;
  return slice(x, from, to, steps);
}

Value Graph::pad(const Value& x, const Value& value, const Dims& low, const Dims& high,
                 const Dims& interior) {
  Dims numbers;
  Dims dims;
  bool same = true;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    const int64_t between = interior.empty() ? 0 : interior[i];
    numbers.insert(numbers.end(), {low[i], high[i], between});
    dims.push_back(x.dims[i] + low[i] + high[i] + std::max<int64_t>(x.dims[i] - 1, 0) * between);
    same = same && low[i] == 0 && high[i] == 0 && between == 0;
  }
  return same ? x
              : op("pad", {x, value}, x.type, dims, Attributes().ints(NRTCC_ATTR_PADDING, numbers));
}

Value Graph::concat(const std::vector<Value>& parts, int64_t dim) {
  if (parts.size() == 1) {
    return parts[0];
  }
  Dims dims = parts[0].dims;
  const auto at = static_cast<size_t>(wrap(dim, parts[0].rank()));
  dims[at] = 0;
  for (const Value& part : parts) {
    dims[at] += part.dims[at];
  }
  return op("concatenate", parts, parts[0].type, dims,
            Attributes().ints(NRTCC_ATTR_DIMENSIONS, {static_cast<int64_t>(at)}));
}

Value Graph::reverse(const Value& x, const Dims& dims) {
  return dims.empty()
             ? x
             : op("reverse", {x}, x.type, x.dims, Attributes().ints(NRTCC_ATTR_DIMENSIONS, dims));
}

Value Graph::unsqueeze(const Value& x, int64_t dim) {
  Dims dims = x.dims;
  dims.insert(dims.begin() + wrap(dim, x.rank() + 1), 1);
  return reshape(x, dims);
}

Value Graph::squeeze(const Value& x, int64_t dim) {
  Dims dims = x.dims;
  dims.erase(dims.begin() + wrap(dim, x.rank()));
  return reshape(x, dims);
}

}  // namespace tnx
