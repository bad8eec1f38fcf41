// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/conv_grouped.h"

#include <algorithm>
#include <cstring>

#include "emulator/exec/conv_geometry.h"
#include "emulator/exec/gemm/dispatch.h"
#include "emulator/exec/gemm/gemm.h"
#include "emulator/exec/tile_epilogue.h"
#include "emulator/isa/reduce_order.h"

namespace onrt {
namespace {

using gemm_detail::Kernels;
using gemm_detail::kPanel;
using ncx::View;

constexpr int64_t kLeastGroups = 8;
constexpr int64_t kMostProducts = 16;           // of features and results of one group
constexpr int64_t kMostElements = 1 << 26;      // brought side by side: 256 MiB
constexpr int64_t kMostKeptElements = 1 << 23;  // between executions: 32 MiB
constexpr int64_t kMostPackedSteps = 256;       // limit of Kernels::pack
constexpr int64_t kTileElements = 1 << 13;
constexpr int64_t kChunkProducts = 1 << 18;
constexpr size_t kF32 = 0;  // gemm_detail::Sum

// Storages of GemmScratch: input and kernel with groups side by side, then these for each lane.
enum Storage : size_t { kPointers, kTile, kPackBuffer, kStorages };

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

int64_t product(const View& view, size_t first) {
  int64_t n = 1;
  for (size_t d = first; d < view.rank; ++d) {
    n *= view.dims[d];
  }
  return n;
}

class GroupedConv final : public Executor {
 public:
  GroupedConv(const ncx::Conv& op, const ExecutorOptions& options)
      : op_(op),
        kernels_(gemm_detail::kernels_for(options.simd)),
        groups_(op.input.dims[0]),
        width_(round_up(groups_, kPanel)),
        epilogue_(op_.type, op_.epilogue_inputs, op_.epilogue, op_.outputs, *options.kernels),
        strides_(epilogue_.strides()) {
    for (size_t d = 0; d < op_.axes.size(); ++d) {
      window_ *= op_.kernel.dims[3 + d];
      positions_ *= op_.outputs[0].dims[3 + d];
    }
    terms_ = window_ * op_.input.dims[2];
    std::vector<int64_t> dims = {op_.input.dims[1]};
    std::vector<Strides> rows(strides_.size());
    std::vector<Strides> columns(strides_.size());
    for (size_t d = 0; d < op_.axes.size(); ++d) {
      dims.push_back(op_.outputs[0].dims[3 + d]);
    }
    for (size_t v = 0; v < strides_.size(); ++v) {
      rows[v][0] = strides_[v][1];
      std::copy_n(strides_[v].begin() + 3, op_.axes.size(), rows[v].begin() + 1);
      columns[v][0] = strides_[v][0];
    }
    rows_ = make_nest(dims, rows, LoopOrder::kKept);
    columns_ = make_nest({&groups_, 1}, columns, LoopOrder::kKept);
    block_ = std::max<int64_t>(1, kTileElements / width_);
  }

  Status execute(const ExecContext& context) const override {
    const int64_t lines = op_.input.dims[1] * positions_;
    if (lines == 0 || groups_ == 0 || op_.kernel.dims[2] == 0) {
      return ok_status();
    }
    thread_local GemmScratch kept;  // by the thread between instructions, unless it is large
    GemmScratch once;
    const int64_t gathered_elements = (product(op_.input, 1) + product(op_.kernel, 1)) * width_;
    const Run run{context, gathered_elements > kMostKeptElements ? once : kept, {}, {}};
    if (!reserve(run)) {
      return no_buffer_memory();
    }
    gather(run, op_.input, kInput);
    gather(run, op_.kernel, kKernel);
    const double work = static_cast<double>(width_) * static_cast<double>(terms_ + 1);
    const int64_t wanted = static_cast<int64_t>(static_cast<double>(kChunkProducts) / work) + 1;
    const int64_t chunk = round_up(std::min(wanted, lines), block_);
    const int64_t chunks = (lines + chunk - 1) / chunk;
    for_chunks(run, chunks * op_.kernel.dims[2], [&](int64_t item, int lane) {
      const int64_t end = std::min(lines, (item % chunks + 1) * chunk);
      for (int64_t line = item % chunks * chunk; line < end; line += block_) {
        multiply(run, line, std::min(block_, end - line), item / chunks, lane);
      }
    });
    if (run.failed.load(std::memory_order_relaxed)) {
      return no_buffer_memory();
    }
    return run.stopped.load(std::memory_order_relaxed) ? context.stop->status() : ok_status();
  }

 private:
  enum Gathered : size_t { kInput, kKernel, kZeros, kGathered };

  struct Run {
    const ExecContext& context;
    GemmScratch& scratch;
    // An epilogue had no memory; a chunk was left out. Set by chunks, read after they are done.
    mutable std::atomic<bool> failed{false};
    mutable std::atomic<bool> stopped{false};
  };

  template <class Function>
  static void for_chunks(const Run& run, int64_t chunks, const Function& function) {
    const auto call = [&](size_t chunk, int lane) {
      if (run.context.stop->raised()) {
        run.stopped.store(true, std::memory_order_relaxed);
      } else {
        function(static_cast<int64_t>(chunk), lane);
      }
    };
    if (run.context.pool != nullptr) {
      run.context.pool->parallel_for(static_cast<size_t>(chunks), call);
      return;
    }
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      call(static_cast<size_t>(chunk), 0);
    }
  }

  bool reserve(const Run& run) const {
    const size_t lanes =
        run.context.pool == nullptr ? 1 : static_cast<size_t>(run.context.pool->threads());
    run.scratch.set_count(kGathered + lanes * kStorages);
    const auto floats = [](int64_t n) { return static_cast<size_t>(std::max<int64_t>(n, 1)) * 4; };
    bool done = run.scratch.reserve(kInput, floats(product(op_.input, 1) * width_)) != nullptr &&
                run.scratch.reserve(kKernel, floats(product(op_.kernel, 1) * width_)) != nullptr;
    void* zeros = run.scratch.reserve(kZeros, floats(width_));
    done = done && zeros != nullptr;
    if (done) {
      std::memset(zeros, 0, floats(width_));
    }
    const size_t bytes[kStorages] = {static_cast<size_t>(ncx::kDotBlock) * sizeof(float*) * 2,
                                     floats(block_ * width_),
                                     static_cast<size_t>(gemm_detail::kPackBuffer) * 8};
    for (size_t i = 0; i < lanes * kStorages; ++i) {
      done = done && run.scratch.reserve(kGathered + i, bytes[i % kStorages]) != nullptr;
    }
    return done;
  }

  static float* gathered(const Run& run, Gathered which) {
    return static_cast<float*>(run.scratch.reserve(which, 0));
  }
  static void* storage(const Run& run, Storage which, int lane) {
    return run.scratch.reserve(kGathered + static_cast<size_t>(lane) * kStorages + which, 0);
  }

  // The elements after the group dimension row-major, the groups of each side by side as f32.
  void gather(const Run& run, const View& view, Gathered which) const {
    const auto last = static_cast<size_t>(view.rank - 1);
    const int64_t steps = view.dims[last];
    const int64_t rows = steps == 0 ? 0 : product(view, 1) / steps;
    const int64_t rows_per_chunk = std::max<int64_t>(1, (1 << 15) / (steps * width_ + 1));
    float* to = gathered(run, which);
    const auto width = static_cast<int64_t>(dtype_bytes(view.dtype));
    for_chunks(run, (rows + rows_per_chunk - 1) / rows_per_chunk, [&](int64_t chunk, int lane) {
      const int64_t end = std::min(rows, (chunk + 1) * rows_per_chunk);
      for (int64_t row = chunk * rows_per_chunk; row < end; ++row) {
        int64_t offset = 0;
        int64_t rest = row;
        for (size_t d = last; d-- > 1;) {
          offset += rest % view.dims[d] * view.strides[d];
          rest /= view.dims[d];
        }
        for (int64_t step = 0; step < steps; step += kMostPackedSteps) {
          const int64_t count = std::min(kMostPackedSteps, steps - step);
          const std::byte* from =
              run.context.at(view) + (offset + step * view.strides[last]) * width;
          // One step has no stride along k: 0 keeps it apart from lines side by side.
          kernels_.pack[kF32]({{from, static_cast<uint8_t>(view.dtype), view.strides[0],
                                count == 1 ? 0 : view.strides[last]},
                               groups_,
                               count,
                               static_cast<int>(width_),
                               0,
                               to + (row * steps + step) * width_,
                               storage(run, kPackBuffer, lane)});
        }
      }
    });
  }

  // Where a line's terms are: one pointer to a row of groups for each.
  class Terms {
   public:
    Terms(const GroupedConv& conv, const Run& run, int64_t line, int64_t result)
        : conv_(conv),
          input_(gathered(run, kInput)),
          kernel_(gathered(run, kKernel)),
          zeros_(gathered(run, kZeros)),
          result_(result) {
      for (size_t d = conv.op_.axes.size(); d-- > 0;) {
        const int64_t out = conv.op_.outputs[0].dims[3 + d];
        start_[d] = line % out * conv.op_.axes[d].stride - conv.op_.axes[d].low;
        line /= out;
      }
      batch_ = line;
    }

    // The next terms, at most kDotBlock; 0 at the end.
    int64_t next(const float** x, const float** w) {
      const ncx::Conv& op = conv_.op_;
      int64_t count = 0;
      while (count < ncx::kDotBlock && position_ < conv_.window_) {
        if (feature_ == 0) {
          place();
        }
        for (; !hole_ && feature_ < op.input.dims[2] && count < ncx::kDotBlock; ++feature_) {
          const int64_t row = (batch_ * op.input.dims[2] + feature_) * conv_.spatial_ + at_;
          x[count] = inside_ ? input_ + row * conv_.width_ : zeros_;
          w[count++] =
              kernel_ +
              ((feature_ * op.kernel.dims[2] + result_) * conv_.window_ + position_) * conv_.width_;
        }
        if (hole_ || feature_ == op.input.dims[2]) {
          feature_ = 0;
          ++position_;
          advance();
        }
      }
      return count;
    }

   private:
    // Finds the element of the input that the kernel's position meets.
    void place() {
      hole_ = false;
      inside_ = true;
      at_ = 0;
      int64_t stride = 1;
      for (size_t d = conv_.op_.axes.size(); d-- > 0;) {
        const ncx::Conv::Axis& axis = conv_.op_.axes[d];
        const int64_t in = conv_.op_.input.dims[3 + d];
        const int64_t c = start_[d] + index_[d] * axis.dilation;
        int64_t element = c;
        if (axis.base_dilation != 1) {
          hole_ = hole_ || c % axis.base_dilation != 0;
          element = c / axis.base_dilation;
        }
        inside_ = inside_ && c >= 0 && element < in;
        at_ += inside_ ? element * stride : 0;
        stride *= in;
      }
    }

    void advance() {
      for (size_t d = conv_.op_.axes.size(); d-- > 0;) {
        if (++index_[d] < conv_.op_.kernel.dims[3 + d]) {
          return;
        }
        index_[d] = 0;
      }
    }

    const GroupedConv& conv_;
    const float* input_;
    const float* kernel_;
    const float* zeros_;
    int64_t result_;
    int64_t batch_ = 0;
    std::array<int64_t, kMaxConvAxes> start_{};
    std::array<int64_t, kMaxConvAxes> index_{};
    int64_t position_ = 0;
    int64_t feature_ = 0;
    int64_t at_ = 0;
    bool hole_ = false;
    bool inside_ = false;
  };

  void multiply(const Run& run, int64_t line, int64_t lines, int64_t result, int lane) const {
    auto* tile = static_cast<float*>(storage(run, kTile, lane));
    auto** x = static_cast<const float**>(storage(run, kPointers, lane));
    const float** w = x + ncx::kDotBlock;
    for (int64_t i = 0; i < lines; ++i) {
      Terms terms(*this, run, line + i, result);
      float* sums = tile + i * width_;
      int64_t count = terms.next(x, w);
      kernels_.multiply_rows(x, w, count, width_, false, sums);
      while (count == ncx::kDotBlock && (count = terms.next(x, w)) > 0) {
        kernels_.multiply_rows(x, w, count, width_, true, sums);
      }
    }
    std::array<int64_t, kMaxTileViews> bases;
    for (size_t v = 0; v < strides_.size(); ++v) {
      bases[v] = result * strides_[v][2];
    }
    if (!epilogue_.run(run.context, {rows_, columns_, bases.data(), line, lines, 0, groups_,
                                     reinterpret_cast<std::byte*>(tile), width_})) {
      run.failed.store(true, std::memory_order_relaxed);
    }
  }

  const ncx::Conv op_;
  const Kernels& kernels_;
  const int64_t groups_;
  const int64_t width_;  // groups, rounded up to whole panels
  const TileEpilogue epilogue_;
  const std::vector<Strides> strides_;  // of the epilogue's views
  int64_t window_ = 1;
  int64_t positions_ = 1;
  int64_t terms_ = 0;
  int64_t spatial_ = product(op_.input, 3);
  int64_t block_ = 1;
  LoopNest rows_;
  LoopNest columns_;
};

}  // namespace

bool conv_is_grouped(const ncx::Conv& op) {
  const int64_t width = round_up(op.input.dims[0], kPanel);
  const auto fits = [&](const View& view) {
    int64_t n = width;
    for (size_t d = 1; d < view.rank; ++d) {
      if (view.dims[d] > kMostElements || (n *= view.dims[d]) > kMostElements) {
        return false;
      }
    }
    return n > 0;
  };
  return is_floating(op.type) && op.input.dims[0] >= kLeastGroups &&
         width <= gemm_detail::kPackBuffer && op.kernel.dims[2] > 0 && op.input.dims[2] > 0 &&
         std::min(op.input.dims[2], kMostProducts) * op.kernel.dims[2] <= kMostProducts &&
         op.kernel.dims[2] <= kMostProducts && fits(op.input) && fits(op.kernel);
}

std::unique_ptr<Executor> make_grouped_conv(const ncx::Conv& op, const ExecutorOptions& options) {
  return std::make_unique<GroupedConv>(op, options);
}

}  // namespace onrt
