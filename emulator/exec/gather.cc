// SPDX-License-Identifier: Apache-2.0
// HLO gather: one window of the operand per index vector, starts clamped.
#include <cstring>

#include "emulator/exec/executor.h"
#include "emulator/exec/index_shape.h"
#include "emulator/exec/index_walk.h"
#include "emulator/exec/layout.h"
#include "emulator/exec/window_offsets.h"

namespace onrt {
namespace {

int64_t dot(const int64_t* index, std::span<const int64_t> strides) {
  int64_t sum = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    sum += index[d] * strides[d];
  }
  return sum;
}

class GatherExecutor final : public Executor {
 public:
  explicit GatherExecutor(const ncx::Gather& op)
      : operand_(op.operand),
        indices_(op.indices),
        output_(op.output),
        width_(dtype_bytes(op.operand.dtype)),
        shape_({op.operand, op.indices, op.output, op.offset_dims, op.collapsed_slice_dims,
                op.start_index_map, op.operand_batching_dims, op.start_indices_batching_dims,
                op.index_vector_dim}) {
    Strides from{};
    Strides to{};
    std::copy(shape_.window_whole_strides.begin(), shape_.window_whole_strides.end(), from.begin());
    std::copy(shape_.window_result_strides.begin(), shape_.window_result_strides.end(), to.begin());
    const Strides strides[] = {from, to};
    window_ = make_nest(shape_.window_sizes, strides, LoopOrder::kFree);
    vectors_ = count_of(shape_.batch_dims);
    Strides batch[3] = {};
    std::ranges::copy(shape_.batch_indices_strides, batch[0].begin());
    std::ranges::copy(shape_.batch_whole_strides, batch[1].begin());
    std::ranges::copy(shape_.batch_result_strides, batch[2].begin());
    line_ = make_nest(shape_.batch_dims, batch, LoopOrder::kKept);
    // A collapsed dimension of an empty operand has slice size 0.
    empty_ = vectors_ == 0 || window_.elements == 0 ||
             std::ranges::any_of(shape_.start_limits, [](int64_t limit) { return limit < 0; });
  }

  Status execute(const ExecContext& context) const override {
    if (empty_) {
      return ok_status();
    }
    const std::byte* operand = context.at(operand_);
    const std::byte* indices = context.at(indices_);
    std::byte* output = context.at(output_);
    const int64_t work = window_.elements * width_ * 2 + 32;
    if (window_.elements == 1 && line_.rank == 1) {
      return for_units(context, vectors_, work, [&](int64_t first, int64_t last) {
        gather_elements(output, operand, indices, first, last);
        return true;
      });
    }
    if (window_.elements == 1 && line_.inner() >= kShortLine) {
      return for_units(context, vectors_ / line_.inner(), work * line_.inner(),
                       [&](int64_t first, int64_t last) {
                         for (int64_t row = first; row < last; ++row) {
                           int64_t at[3];
                           row_offsets(line_, row, at);
                           gather_elements(output + at[2] * width_, operand + at[1] * width_,
                                           indices + at[0] * index_width(), 0, line_.inner());
                         }
                         return true;
                       });
    }
    return for_units(context, vectors_, work, [&](int64_t first, int64_t last) {
      IndexLoop batch(shape_.batch_dims, first);
      for (int64_t v = first; v < last; ++v, batch.advance()) {
        const std::byte* vector =
            indices + dot(batch.index(), shape_.batch_indices_strides) * index_width();
        const int64_t from = start_of(vector) + dot(batch.index(), shape_.batch_whole_strides);
        const int64_t to = dot(batch.index(), shape_.batch_result_strides);
        copy_window(output + to * width_, operand + from * width_);
      }
      return true;
    });
  }

 private:
  static constexpr int64_t kShortLine = 4;  // index vectors that are done one by one
  int64_t index_width() const { return dtype_bytes(indices_.dtype); }

  // Windows of one element, index vectors at even distances.
  void gather_elements(std::byte* output, const std::byte* operand, const std::byte* indices,
                       int64_t first, int64_t last) const {
    constexpr int64_t kBatch = 1024;
    int64_t offsets[kBatch];
    for (int64_t v = first; v < last; v += kBatch) {
      const int64_t n = std::min(kBatch, last - v);
      window_offsets(shape_, indices_.dtype, indices + v * line_.inner_stride(0) * index_width(),
                     line_.inner_stride(0), static_cast<size_t>(n), OutOfRange::kClamp, offsets);
      std::byte* out = output + v * line_.inner_stride(2) * width_;
      const std::byte* in = operand + v * line_.inner_stride(1) * width_;
      switch (width_) {
        case 1:
          copy_elements<uint8_t>(out, in, offsets, n);
          break;
        case 2:
          copy_elements<uint16_t>(out, in, offsets, n);
          break;
        case 4:
          copy_elements<uint32_t>(out, in, offsets, n);
          break;
        default:
          copy_elements<uint64_t>(out, in, offsets, n);
      }
    }
  }

  template <class T>
  void copy_elements(std::byte* out, const std::byte* in, const int64_t* offsets, int64_t n) const {
    auto* to = reinterpret_cast<T*>(out);
    const auto* from = reinterpret_cast<const T*>(in);
    for (int64_t i = 0; i < n; ++i) {
      to[i * line_.inner_stride(2)] = from[offsets[i] + i * line_.inner_stride(1)];
    }
  }

  int64_t start_of(const std::byte* vector) const {
    int64_t at = 0;
    for (size_t i = 0; i < shape_.start_strides.size(); ++i) {
      const int64_t index = load_index(
          indices_.dtype, vector + static_cast<int64_t>(i) * shape_.vector_stride * index_width());
      at += clamp_index(index, shape_.start_limits[i]) * shape_.start_strides[i];
    }
    return at;
  }

  void copy_window(std::byte* out, const std::byte* in) const {
    const int64_t inner = window_.inner();
    if (window_.rank == 1) {
      copy_row(out, in, inner);
      return;
    }
    for (int64_t row = 0; row < window_.elements / inner; ++row) {
      copy_row(out + row_offset(window_, 1, row) * width_,
               in + row_offset(window_, 0, row) * width_, inner);
    }
  }

  void copy_row(std::byte* out, const std::byte* in, int64_t n) const {
    const int64_t in_stride = window_.inner_stride(0);
    const int64_t out_stride = window_.inner_stride(1);
    if (in_stride == 1 && out_stride == 1) {
      std::memcpy(out, in, static_cast<size_t>(n * width_));
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(out + i * out_stride * width_, in + i * in_stride * width_,
                  static_cast<size_t>(width_));
    }
  }

  ncx::View operand_;
  ncx::View indices_;
  ncx::View output_;
  int64_t width_;
  IndexShape shape_;
  LoopNest window_;
  LoopNest line_;  // over the index vectors: indices, operand, output
  int64_t vectors_ = 0;
  bool empty_ = false;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::Gather& op, const ExecutorOptions&) {
  return std::make_unique<GatherExecutor>(op);
}

}  // namespace onrt
