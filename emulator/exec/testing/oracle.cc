// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/testing/oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "emulator/isa/encoding.h"
#include "emulator/isa/reduce_order.h"
#include "emulator/isa/scalar_value.h"
#include "emulator/isa/sort_order.h"
#include "emulator/isa/window_order.h"

namespace onrt::testing {
namespace {

using ncx::Boxed;
using ncx::View;

std::byte* element(const View& view, Memory& memory, const int64_t* index) {
  int64_t at = 0;
  for (int d = 0; d < view.rank; ++d) {
    at += index[d] * view.strides[static_cast<size_t>(d)];
  }
  return memory.at(view) + at * static_cast<int64_t>(dtype_bytes(view.dtype));
}

Boxed load(const View& view, Memory& memory, const int64_t* index) {
  return ncx::load_boxed(view.dtype, element(view, memory, index));
}

std::vector<Dtype> types_of(std::span<const View> views) {
  std::vector<Dtype> types;
  for (const View& view : views) {
    types.push_back(view.dtype);
  }
  return types;
}

// Results of a micro-program for the given inputs.
std::vector<Boxed> apply(const ncx::MicroProgram& program, std::vector<Dtype> types,
                         std::vector<Boxed> inputs, const int64_t* index) {
  std::vector<Boxed> registers = std::move(inputs);
  registers.resize(types.size() + program.ops.size());
  ncx::run_micro_program(program, types, registers.data(), index);
  std::vector<Boxed> results;
  for (const uint16_t reg : program.results) {
    results.push_back(registers[reg]);
  }
  return results;
}

void run(const ncx::Eltwise& op, Memory& memory) {
  // All results first: an output may be an input.
  std::vector<std::vector<Boxed>> all;
  const std::span<const int64_t> dims(op.domain.dims.data(), op.domain.rank);
  for_each_index(dims, [&](const int64_t* index) {
    std::vector<Boxed> inputs;
    for (const View& view : op.inputs) {
      inputs.push_back(load(view, memory, index));
    }
    all.push_back(apply(op.program, types_of(op.inputs), inputs, index));
  });
  size_t at = 0;
  for_each_index(dims, [&](const int64_t* index) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      ncx::store_boxed(op.outputs[i].dtype, all[at][i], element(op.outputs[i], memory, index));
    }
    ++at;
  });
}

void run(const ncx::Copy& op, Memory& memory) {
  for (const auto& piece : op.pieces) {
    const std::span<const int64_t> dims(piece.source.dims.data(), piece.source.rank);
    for_each_index(dims, [&](const int64_t* index) {
      std::memcpy(element(piece.destination, memory, index), element(piece.source, memory, index),
                  dtype_bytes(piece.source.dtype));
    });
  }
}

// Combines one kept element's values, by the rule of reduce_order.h, for several accumulators.
struct Tuple {
  std::vector<Boxed> values;
};

Tuple combine(const ncx::Reduce& op, const Tuple& a, const Tuple& b) {
  if (!op.general.results.empty()) {
    std::vector<Dtype> types;
    std::vector<Boxed> inputs;
    for (const Tuple* side : {&a, &b}) {
      for (size_t i = 0; i < op.accumulators.size(); ++i) {
        types.push_back(op.accumulators[i].type);
        inputs.push_back(side->values[i]);
      }
    }
    return {apply(op.general, types, inputs, nullptr)};
  }
  Tuple out;
  for (size_t i = 0; i < op.accumulators.size(); ++i) {
    out.values.push_back(ncx::combine_unrounded(op.accumulators[i].combiner,
                                                op.accumulators[i].type, a.values[i], b.values[i]));
  }
  return out;
}

void run(const ncx::Reduce& op, Memory& memory) {
  const size_t kept = op.domain.rank - op.reduced;
  const std::span<const int64_t> dims(op.domain.dims.data(), op.domain.rank);
  std::vector<std::vector<Boxed>> all;
  for_each_index(dims.first(kept), [&](const int64_t* kept_index) {
    std::vector<Tuple> values;
    for_each_index(dims.subspan(kept), [&](const int64_t* reduced_index) {
      int64_t index[ncx::kMaxRank] = {};
      std::copy_n(kept_index, kept, index);
      std::copy_n(reduced_index, op.reduced, index + kept);
      std::vector<Boxed> inputs;
      for (const View& view : op.inputs) {
        inputs.push_back(load(view, memory, index));
      }
      values.push_back({apply(op.prologue, types_of(op.inputs), inputs, index)});
    });
    Tuple total;
    for (const auto& accumulator : op.accumulators) {
      total.values.push_back(load(accumulator.init, memory, nullptr));
    }
    if (!values.empty()) {
      const auto step = [&](const Tuple& a, const Tuple& b) { return combine(op, a, b); };
      const auto n = static_cast<int64_t>(values.size());
      total = combine(op, total,
                      op.general.results.empty() ? ncx::reduce_in_order(values.data(), n, step)
                                                 : ncx::reduce_in_pairs(values.data(), n, step));
    }
    std::vector<Dtype> types;
    std::vector<Boxed> inputs;
    for (size_t i = 0; i < op.accumulators.size(); ++i) {
      types.push_back(op.accumulators[i].type);
      inputs.push_back(ncx::settle_boxed(types.back(), total.values[i]));
    }
    for (const View& view : op.epilogue_inputs) {
      types.push_back(view.dtype);
      inputs.push_back(load(view, memory, kept_index));
    }
    all.push_back(apply(op.epilogue, types, inputs, kept_index));
  });
  size_t at = 0;
  for_each_index(dims.first(kept), [&](const int64_t* index) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      ncx::store_boxed(op.outputs[i].dtype, all[at][i], element(op.outputs[i], memory, index));
    }
    ++at;
  });
}

float as_float(Boxed value) { return __builtin_bit_cast(float, static_cast<uint32_t>(value)); }

// One dot product in the order of reduce_order.h.
Boxed dot_product(const ncx::Gemm& op, Memory& memory, const int64_t* index, size_t rank) {
  int64_t left[ncx::kMaxRank];
  int64_t right[ncx::kMaxRank];
  std::copy_n(index, rank, left);
  std::copy_n(index, rank, right);
  const int64_t k_total = op.lhs.dims[rank - 1];
  if (!is_floating(op.type)) {
    uint64_t sum = 0;
    for (int64_t k = 0; k < k_total; ++k) {
      left[rank - 1] = right[rank - 2] = k;
      sum += load(op.lhs, memory, left) * load(op.rhs, memory, right);
    }
    return ncx::settle_boxed(op.type, sum);
  }
  float total = 0;
  for (int64_t begin = 0; begin < k_total; begin += ncx::kDotBlock) {
    float block = 0;
    for (int64_t k = begin; k < std::min(k_total, begin + ncx::kDotBlock); ++k) {
      left[rank - 1] = right[rank - 2] = k;
      block = std::fma(as_float(load(op.lhs, memory, left)), as_float(load(op.rhs, memory, right)),
                       block);
    }
    total = begin == 0 ? block : total + block;
  }
  return ncx::settle_boxed(op.type, __builtin_bit_cast(uint32_t, total));
}

void run(const ncx::Gemm& op, Memory& memory) {
  const size_t rank = op.lhs.rank;
  std::vector<int64_t> dims(op.lhs.dims.begin(), op.lhs.dims.begin() + static_cast<int>(rank));
  dims[rank - 1] = op.rhs.dims[rank - 1];
  std::vector<Dtype> types = {op.type};
  for (const View& view : op.epilogue_inputs) {
    types.push_back(view.dtype);
  }
  for_each_index(dims, [&](const int64_t* index) {
    std::vector<Boxed> inputs = {dot_product(op, memory, index, rank)};
    for (const View& view : op.epilogue_inputs) {
      inputs.push_back(load(view, memory, index));
    }
    const std::vector<Boxed> results = apply(op.epilogue, types, inputs, index);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      ncx::store_boxed(op.outputs[i].dtype, results[i], element(op.outputs[i], memory, index));
    }
  });
}

// One sum of a convolution: calls term(a, b) for its terms in order.
template <class Term>
void for_each_term(const ncx::Conv& op, Memory& memory, const int64_t* index, const Term& term) {
  const size_t axes = op.axes.size();
  const std::span<const int64_t> window(op.kernel.dims.data() + 3, axes);
  for_each_index(window, [&](const int64_t* w) {
    int64_t input[ncx::kMaxRank] = {index[0], index[1]};
    int64_t kernel[ncx::kMaxRank] = {index[0], 0, index[2]};
    bool inside = true;
    bool hole = false;
    for (size_t d = 0; d < axes; ++d) {
      const ncx::Conv::Axis& axis = op.axes[d];
      const int64_t at = index[3 + d] * axis.stride + w[d] * axis.dilation - axis.low;
      hole = hole || at % axis.base_dilation != 0;
      input[3 + d] = at / axis.base_dilation;
      inside = inside && at >= 0 && input[3 + d] < op.input.dims[3 + d];
      kernel[3 + d] = w[d];
    }
    for (int64_t c = 0; c < op.input.dims[2] && !hole; ++c) {
      input[2] = kernel[1] = c;
      term(inside ? load(op.input, memory, input) : 0, load(op.kernel, memory, kernel));
    }
  });
}

Boxed convolve(const ncx::Conv& op, Memory& memory, const int64_t* index) {
  uint64_t integer = 0;
  float total = 0;
  float block = 0;
  int64_t k = 0;
  const bool floats = is_floating(op.type);
  for_each_term(op, memory, index, [&](Boxed a, Boxed b) {
    if (!floats) {
      integer += a * b;
      return;
    }
    if (k % ncx::kDotBlock == 0 && k > 0) {
      total = k == ncx::kDotBlock ? block : total + block;
      block = 0;
    }
    block = std::fma(as_float(a), as_float(b), block);
    ++k;
  });
  total = k <= ncx::kDotBlock ? block : total + block;
  return ncx::settle_boxed(op.type, floats ? __builtin_bit_cast(uint32_t, total) : integer);
}

void run(const ncx::Conv& op, Memory& memory) {
  const View& out = op.outputs[0];
  std::vector<Dtype> types = {op.type};
  for (const View& view : op.epilogue_inputs) {
    types.push_back(view.dtype);
  }
  for_each_index({out.dims.data(), out.rank}, [&](const int64_t* index) {
    std::vector<Boxed> inputs = {convolve(op, memory, index)};
    for (const View& view : op.epilogue_inputs) {
      inputs.push_back(load(view, memory, index));
    }
    const std::vector<Boxed> results = apply(op.epilogue, types, inputs, index);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      ncx::store_boxed(op.outputs[i].dtype, results[i], element(op.outputs[i], memory, index));
    }
  });
}

void run(const ncx::Linalg& op, Memory& memory) {
  const size_t rank = op.a.rank;
  const bool solve = op.kind == ncx::LinalgKind::kTriangularSolve;
  const View& b = solve ? op.b : op.a;
  const int64_t n = op.a.dims[rank - 1];
  const int64_t columns = b.dims[rank - 1];
  for_each_index({op.a.dims.data(), rank - 2}, [&](const int64_t* batch) {
    int64_t index[ncx::kMaxRank];
    const auto at = [&](int64_t i, int64_t j) {
      std::copy_n(batch, rank - 2, index);
      index[rank - 2] = i;
      index[rank - 1] = j;
      return index;
    };
    std::vector<float> x(static_cast<size_t>(n * columns));
    const auto value = [&](int64_t i, int64_t j) -> float& {
      return x[static_cast<size_t>(i * columns + j)];
    };
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < (solve ? columns : i + 1); ++j) {
        float sum = as_float(load(b, memory, at(i, j)));
        for (int64_t k = 0; k < (solve ? i : j); ++k) {
          const float left = solve ? as_float(load(op.a, memory, at(i, k))) : value(i, k);
          const float product = left * (solve ? value(k, j) : value(j, k));
          sum = sum - product;
        }
        if (solve) {
          value(i, j) = op.unit_diagonal != 0 ? sum : sum / as_float(load(op.a, memory, at(i, i)));
        } else {
          value(i, j) = i == j ? std::sqrt(sum) : sum / value(j, j);
        }
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        const Boxed settled =
            ncx::settle_boxed(op.output.dtype, __builtin_bit_cast(uint32_t, value(i, j)));
        ncx::store_boxed(op.output.dtype, settled, element(op.output, memory, at(i, j)));
      }
    }
  });
}

bool contains(const std::vector<int64_t>& dims, int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

int64_t as_index(const View& view, Memory& memory, const int64_t* index) {
  const auto value = static_cast<int64_t>(load(view, memory, index));
  return view.dtype == Dtype::kU64 && value < 0 ? INT64_MAX : value;
}

// The start of a window in the operand for one index vector, by the XLA definition of gather.
std::vector<int64_t> window_start(const View& whole, const View& indices, Memory& memory,
                                  const std::vector<int64_t>& batch,
                                  const std::vector<int64_t>& map,
                                  const std::vector<int64_t>& whole_batch,
                                  const std::vector<int64_t>& indices_batch, int64_t vector_dim) {
  std::vector<int64_t> start(whole.rank, 0);
  for (size_t i = 0; i < map.size(); ++i) {
    std::vector<int64_t> index = batch;
    if (vector_dim < indices.rank) {
      index.insert(index.begin() + vector_dim, static_cast<int64_t>(i));
    }
    start[static_cast<size_t>(map[i])] = as_index(indices, memory, index.data());
  }
  for (size_t i = 0; i < whole_batch.size(); ++i) {
    const int64_t d = indices_batch[i];
    start[static_cast<size_t>(whole_batch[i])] =
        batch[static_cast<size_t>(d > vector_dim ? d - 1 : d)];
  }
  return start;
}

// Splits an index of the result into the batch part and the window part spread over the operand.
void split_index(const View& whole, const View& result, const int64_t* index,
                 const std::vector<int64_t>& window_dims, const std::vector<int64_t>& removed,
                 const std::vector<int64_t>& whole_batch, std::vector<int64_t>& batch,
                 std::vector<int64_t>& window) {
  batch.clear();
  std::vector<int64_t> inside;
  for (int64_t d = 0; d < result.rank; ++d) {
    (contains(window_dims, d) ? inside : batch).push_back(index[d]);
  }
  window.assign(whole.rank, 0);
  size_t next = 0;
  for (int64_t d = 0; d < whole.rank; ++d) {
    if (!contains(removed, d) && !contains(whole_batch, d)) {
      window[static_cast<size_t>(d)] = inside[next++];
    }
  }
}

void run(const ncx::Gather& op, Memory& memory) {
  const size_t width = dtype_bytes(op.output.dtype);
  std::vector<int64_t> batch;
  std::vector<int64_t> window;
  for_each_index({op.output.dims.data(), op.output.rank}, [&](const int64_t* index) {
    split_index(op.operand, op.output, index, op.offset_dims, op.collapsed_slice_dims,
                op.operand_batching_dims, batch, window);
    std::vector<int64_t> at =
        window_start(op.operand, op.indices, memory, batch, op.start_index_map,
                     op.operand_batching_dims, op.start_indices_batching_dims, op.index_vector_dim);
    for (size_t d = 0; d < at.size(); ++d) {
      at[d] = std::clamp<int64_t>(at[d], 0, op.operand.dims[d] - op.slice_sizes[d]) + window[d];
    }
    std::memcpy(element(op.output, memory, index), element(op.operand, memory, at.data()), width);
  });
}

void run(const ncx::Scatter& op, Memory& memory) {
  const View& whole = op.outputs[0];
  const View& update = op.updates[0];
  std::vector<Dtype> types = types_of(op.outputs);
  types.insert(types.end(), types.begin(), types.begin() + static_cast<int>(op.outputs.size()));
  std::vector<int64_t> batch_dims;
  for (int64_t d = 0; d < update.rank; ++d) {
    if (!contains(op.update_window_dims, d)) {
      batch_dims.push_back(update.dims[static_cast<size_t>(d)]);
    }
  }
  std::vector<int64_t> window_sizes;
  for (const int64_t d : op.update_window_dims) {
    window_sizes.push_back(update.dims[static_cast<size_t>(d)]);
  }
  for_each_index(batch_dims, [&](const int64_t* batch_index) {
    for_each_index(window_sizes, [&](const int64_t* window_index) {
      std::vector<int64_t> index(update.rank);
      size_t b = 0;
      size_t w = 0;
      for (int64_t d = 0; d < update.rank; ++d) {
        index[static_cast<size_t>(d)] =
            contains(op.update_window_dims, d) ? window_index[w++] : batch_index[b++];
      }
      std::vector<int64_t> batch;
      std::vector<int64_t> window;
      split_index(whole, update, index.data(), op.update_window_dims, op.inserted_window_dims,
                  op.input_batching_dims, batch, window);
      std::vector<int64_t> at = window_start(
          whole, op.indices, memory, batch, op.scatter_dims_to_operand_dims, op.input_batching_dims,
          op.scatter_indices_batching_dims, op.index_vector_dim);
      std::vector<int64_t> size(whole.rank, 1);
      size_t next = 0;
      for (int64_t d = 0; d < whole.rank; ++d) {
        if (!contains(op.inserted_window_dims, d) && !contains(op.input_batching_dims, d)) {
          size[static_cast<size_t>(d)] = window_sizes[next++];
        }
      }
      for (size_t d = 0; d < at.size(); ++d) {
        if (at[d] < 0 || at[d] > whole.dims[d] - size[d]) {
          return;
        }
        at[d] += window[d];
      }
      std::vector<Boxed> inputs;
      for (const View& view : op.outputs) {
        inputs.push_back(load(view, memory, at.data()));
      }
      for (const View& view : op.updates) {
        inputs.push_back(load(view, memory, index.data()));
      }
      const std::vector<Boxed> results = apply(op.combiner, types, inputs, nullptr);
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        ncx::store_boxed(op.outputs[i].dtype, results[i],
                         element(op.outputs[i], memory, at.data()));
      }
    });
  });
}

// Offsets of a dynamic slice, clamped.
std::vector<int64_t> clamped_starts(std::span<const View> starts, const View& whole,
                                    const View& window, Memory& memory) {
  std::vector<int64_t> out;
  for (size_t d = 0; d < starts.size(); ++d) {
    out.push_back(std::clamp<int64_t>(as_index(starts[d], memory, nullptr), 0,
                                      whole.dims[d] - window.dims[d]));
  }
  return out;
}

void copy_window(const View& whole, const View& window, std::span<const View> starts, bool read,
                 Memory& memory) {
  const std::vector<int64_t> start = clamped_starts(starts, whole, window, memory);
  for_each_index({window.dims.data(), window.rank}, [&](const int64_t* index) {
    std::vector<int64_t> at = start;
    for (size_t d = 0; d < at.size(); ++d) {
      at[d] += index[d];
    }
    std::byte* a = element(window, memory, index);
    std::byte* b = element(whole, memory, at.data());
    std::memcpy(read ? a : b, read ? b : a, dtype_bytes(whole.dtype));
  });
}

void run(const ncx::DynamicSlice& op, Memory& memory) {
  copy_window(op.source, op.destination, op.starts, true, memory);
}
void run(const ncx::DynamicUpdateSlice& op, Memory& memory) {
  copy_window(op.destination, op.update, op.starts, false, memory);
}

void run(const ncx::Sort& op, Memory& memory) {
  const size_t d = op.dimension;
  const View& first = op.inputs[0];
  std::vector<Dtype> types;
  for (const View& view : op.inputs) {
    types.insert(types.end(), 2, view.dtype);
  }
  std::vector<int64_t> rows(first.dims.begin(), first.dims.begin() + first.rank);
  const int64_t length = rows[d];
  rows[d] = length == 0 ? 0 : 1;
  for_each_index(rows, [&](const int64_t* row) {
    std::vector<int64_t> at(row, row + first.rank);
    const auto value = [&](const View& view, int64_t i) {
      at[d] = i;
      return load(view, memory, at.data());
    };
    std::vector<int64_t> order(static_cast<size_t>(length));
    std::iota(order.begin(), order.end(), 0);
    std::vector<int64_t> spare(order.size());
    ncx::sort_in_order(order.data(), spare.data(), length, [&](int64_t a, int64_t b) {
      std::vector<Boxed> pairs;
      for (const View& view : op.inputs) {
        pairs.push_back(value(view, a));
        pairs.push_back(value(view, b));
      }
      return apply(op.comparator, types, pairs, nullptr)[0] != 0;
    });
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const View& output = op.outputs[k];
      for (int64_t i = 0; i < output.dims[d]; ++i) {
        const int64_t from = order[static_cast<size_t>(i)];
        at[d] = from;
        const std::byte* source = k < op.inputs.size() ? element(op.inputs[k], memory, at.data())
                                                       : reinterpret_cast<const std::byte*>(&from);
        at[d] = i;
        std::memcpy(element(output, memory, at.data()), source, dtype_bytes(output.dtype));
      }
    }
  });
}

// Calls f(index in the operand) for the elements of window `window_index`, row-major.
template <class F>
void for_each_place(const std::vector<ncx::WindowDimension>& window, const View& operand,
                    const int64_t* window_index, F f) {
  std::vector<int64_t> sizes;
  for (const auto& dimension : window) {
    sizes.push_back(dimension.size);
  }
  for_each_index(sizes, [&](const int64_t* place) {
    int64_t at[ncx::kMaxRank] = {};
    for (size_t d = 0; d < window.size(); ++d) {
      const ncx::WindowDimension& w = window[d];
      const int64_t dilated =
          window_index[d] * w.stride - w.padding_low + place[d] * w.window_dilation;
      at[d] = dilated / w.base_dilation;
      if (dilated < 0 || dilated % w.base_dilation != 0 || at[d] >= operand.dims[d]) {
        return;
      }
    }
    f(at);
  });
}

void run(const ncx::ReduceWindow& op, Memory& memory) {
  const View& windows = op.outputs[0];
  const std::span<const int64_t> dims(windows.dims.data(), windows.rank);
  const bool backward =
      ncx::folds_backward(op.window, {op.inputs[0].dims.data(), op.inputs[0].rank}, dims);
  ncx::Reduce reduce;  // for combine()
  reduce.accumulators = op.accumulators;
  reduce.general = op.general;
  const auto step = [&](const Tuple& a, const Tuple& b) { return combine(reduce, a, b); };
  for_each_index(dims, [&](const int64_t* index) {
    std::vector<Tuple> values;
    for_each_place(op.window, op.inputs[0], index, [&](const int64_t* at) {
      Tuple& value = values.emplace_back();
      for (const View& view : op.inputs) {
        value.values.push_back(load(view, memory, at));
      }
    });
    Tuple total;
    for (const auto& accumulator : op.accumulators) {
      total.values.push_back(load(accumulator.init, memory, nullptr));
    }
    if (!values.empty()) {
      total = step(total, ncx::fold_window(values.data(), static_cast<int64_t>(values.size()),
                                           backward, step));
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      ncx::store_boxed(op.outputs[i].dtype, ncx::settle_boxed(op.outputs[i].dtype, total.values[i]),
                       element(op.outputs[i], memory, index));
    }
  });
}

void run(const ncx::SelectScatter& op, Memory& memory) {
  const Dtype type = op.operand.dtype;
  const std::vector<Dtype> types = {type, type};
  const Boxed init = load(op.init, memory, nullptr);
  for_each_index({op.output.dims.data(), op.output.rank}, [&](const int64_t* index) {
    ncx::store_boxed(type, init, element(op.output, memory, index));
  });
  for_each_index({op.source.dims.data(), op.source.rank}, [&](const int64_t* index) {
    bool any = false;
    std::vector<int64_t> selected;
    Boxed best = 0;
    for_each_place(op.window, op.operand, index, [&](const int64_t* at) {
      const Boxed value = load(op.operand, memory, at);
      if (!any || apply(op.select, types, {best, value}, nullptr)[0] == 0) {
        selected.assign(at, at + op.operand.rank);
        best = value;
        any = true;
      }
    });
    if (any) {
      std::byte* target = element(op.output, memory, selected.data());
      const std::vector<Boxed> pair = {ncx::load_boxed(type, target),
                                       load(op.source, memory, index)};
      ncx::store_boxed(type, apply(op.scatter, types, pair, nullptr)[0], target);
    }
  });
}

template <class Op>
void run(const Op&, Memory&) {
  std::abort();  // random numbers and control flow: tested by other means
}

float random_float(std::mt19937& random) {
  switch (random() % 24) {
    case 0:
      return 0.0f;
    case 1:
      return -0.0f;
    case 2:
      return INFINITY;
    case 3:
      return -INFINITY;
    case 4:
      return NAN;
    case 5:
      return std::uniform_real_distribution<float>(-1e6f, 1e6f)(random);
    case 6:
      return 1e-40f * static_cast<float>(random() % 100);
    case 7:
      return static_cast<float>(static_cast<int>(random() % 21) - 10);
    default:
      return std::normal_distribution<float>(0.0f, 2.0f)(random);
  }
}

}  // namespace

std::byte* Memory::at(const View& view) {
  switch (view.space) {
    case ncx::Space::kIo:
      return io[view.slot].data() + view.offset;
    case ncx::Space::kScratch:
      return scratch.data() + view.offset;
    default:
      return constants.data() + view.offset;
  }
}

Memory make_memory(const ncx::Program& program) {
  Memory memory;
  for (const ncx::IoSlot& slot : program.io) {
    memory.io.emplace_back(slot.bytes);
  }
  memory.constants.resize(program.constants_bytes);
  memory.scratch.resize(program.scratch_bytes);
  return memory;
}

void randomise(std::span<std::byte> bytes, Dtype dtype, std::mt19937& random) {
  const size_t width = dtype_bytes(dtype);
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    Boxed value = 0;
    if (is_floating(dtype)) {
      const float f = random_float(random);
      uint32_t bits = 0;
      std::memcpy(&bits, &f, sizeof(bits));
      value = ncx::settle_boxed(dtype, bits);
    } else {
      value = random() % 3 == 0
                  ? random() % 16 - 8
                  : (static_cast<uint64_t>(random()) << 32 | random()) >> random() % 60;
    }
    ncx::store_boxed(dtype, value, bytes.data() + at);
  }
}

void run_oracle(const ncx::Program& program, Memory& memory) {
  for (const ncx::Instruction& instruction : program.blocks[0].instructions) {
    std::visit([&](const auto& op) { run(op, memory); }, instruction.payload);
  }
}

Status run_engine(const ncx::Program& program, Memory& memory, const EngineSetup& setup) {
  ONRT_ASSIGN_OR_RETURN(const auto code, ncx::encode(program, memory.constants));
  ONRT_ASSIGN_OR_RETURN(const auto loaded, EngineProgram::load(code, memory.constants, setup.simd));
  std::vector<std::byte*> io;
  std::vector<uint64_t> io_bytes;
  for (auto& slot : memory.io) {
    io.push_back(slot.data());
    io_bytes.push_back(slot.size());
  }
  EngineBinding binding;
  binding.io = io;
  binding.io_bytes = io_bytes;
  binding.constants = memory.constants.data();
  binding.scratch = memory.scratch.data();
  binding.scratch_bytes = memory.scratch.size();
  EngineRun run;
  run.pool = setup.pool;
  return loaded->execute(binding, run).status();
}

std::vector<std::byte> elements(const View& view, Memory& memory) {
  std::vector<std::byte> out;
  const size_t width = dtype_bytes(view.dtype);
  for_each_index({view.dims.data(), view.rank}, [&](const int64_t* index) {
    const std::byte* at = element(view, memory, index);
    uint64_t bits = 0;
    std::memcpy(&bits, at, width);
    if (is_floating(view.dtype)) {
      const auto value = static_cast<uint32_t>(ncx::load_boxed(view.dtype, at));
      if ((value & 0x7fffffffu) > 0x7f800000u) {
        ncx::store_boxed(view.dtype, 0x7fc00000u, &bits);
      }
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
    out.insert(out.end(), bytes, bytes + width);
  });
  return out;
}

View dense(ncx::Space space, uint16_t slot, Dtype dtype, std::span<const int64_t> dims,
           uint64_t offset) {
  View view;
  view.space = space;
  view.slot = slot;
  view.dtype = dtype;
  view.offset = offset;
  view.rank = static_cast<uint8_t>(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    view.dims[d] = dims[d];
    view.strides[d] = stride;
    stride *= dims[d];
  }
  return view;
}

}  // namespace onrt::testing
