// SPDX-License-Identifier: Apache-2.0
// Running folds (cumulative sums, products, maxima): a reduce-window along one dimension whose
// windows all begin with the first element, or all end with the last one. One pass, with the bits
// of isa/window_order.h: window o of the first kind has elements 0 to o + shift. The second kind is
// the first one walked from the end.
//
// Lines that are contiguous are folded one by one, a chunk at a time; others side by side.
#include <cstring>
#include <utility>

#include "emulator/exec/index_walk.h"
#include "emulator/exec/window_combiner.h"
#include "emulator/exec/window_executors.h"
#include "emulator/exec/worker_loop.h"
#include "emulator/isa/window_order.h"

namespace onrt {
namespace {

using ncx::kWindowChunk;
using ncx::View;
static_assert(kWindowChunk == kBlock);

size_t index_of(ncx::RegisterClass reg) { return static_cast<size_t>(reg); }

// The dimension of a running fold; -1 if there is none.
int find_scan_dimension(const ncx::ReduceWindow& op) {
  int found = -1;
  const View& in = op.inputs[0];
  const View& out = op.outputs[0];
  for (size_t d = 0; d < op.window.size(); ++d) {
    const ncx::WindowDimension& w = op.window[d];
    const bool trivial = w.size == 1 && w.stride == 1 && w.padding_low == 0 &&
                         w.base_dilation == 1 && in.dims[d] == out.dims[d];
    if (trivial) {
      continue;
    }
    const bool plain =
        w.size > 1 && w.stride == 1 && w.window_dilation == 1 && w.base_dilation == 1;
    const bool from_first = w.padding_low >= out.dims[d] - 1;
    const bool to_last = w.size - 1 - w.padding_low >= in.dims[d] - 1;
    if (found >= 0 || !plain || !(from_first || to_last)) {
      return -1;
    }
    found = static_cast<int>(d);
  }
  return found;
}

class WindowScanExecutor final : public Executor {
 public:
  WindowScanExecutor(const ncx::ReduceWindow& op, int dimension, const ExecutorOptions& options)
      : op_(op), combiner_(op, *options.kernels), dimension_(static_cast<size_t>(dimension)) {
    const View& in = op.inputs[0];
    const View& out = op.outputs[0];
    const ncx::WindowDimension& w = op.window[dimension_];
    length_ = in.dims[dimension_];
    results_ = out.dims[dimension_];
    backward_ =
        ncx::folds_backward(op.window, {in.dims.data(), in.rank}, {out.dims.data(), out.rank});
    shift_ = backward_ ? length_ - results_ + w.padding_low : w.size - 1 - w.padding_low;
    choose_lanes();
    for (uint8_t d = 0; d < in.rank; ++d) {
      if (d != dimension_) {
        outer_dims_.push_back(d == lane_dimension_ ? (in.dims[d] + lanes_ - 1) / lanes_
                                                   : in.dims[d]);
      }
    }
    units_ = count_of(outer_dims_);
  }

  Status execute(const ExecContext& context) const override {
    if (units_ == 0 || results_ == 0) {
      return ok_status();
    }
    constexpr int64_t kMuch = int64_t{1} << 30;
    const int64_t work = std::min(length_ + results_, kMuch) * lanes_ * (combiner_.cost() + 4);
    return for_workers(
        context, outer_dims_, units_, work, static_cast<size_t>(Worker::buffers(combiner_)),
        [&](std::byte* arena) { return Worker(*this, context, arena); },
        [](Worker& worker, const auto& index) { worker.lines(index); });
  }

 private:
  static constexpr int64_t kFewLines = 16;

  // Lines side by side along another dimension, unless chunks of one line are better.
  void choose_lanes() {
    const View& in = op_.inputs[0];
    const View& out = op_.outputs[0];
    int64_t best = 1;
    for (uint8_t d = 0; d < in.rank; ++d) {
      const bool close = std::abs(out.strides[d]) == 1;
      if (d != dimension_ && in.dims[d] > 1 && (in.dims[d] > best || close)) {
        best = in.dims[d];
        lane_dimension_ = d;
        if (close) {
          break;
        }
      }
    }
    lanes_ = std::min(best, kBlock);
    const bool contiguous = std::abs(in.strides[dimension_]) == 1;
    if (!combiner_.general() && (contiguous || lanes_ < kFewLines)) {
      by_chunks_ = true;
      lane_dimension_ = ncx::kMaxRank;
      lanes_ = 1;
    }
  }

  class Worker {
   public:
    static int buffers(const WindowCombiner& combiner) {
      return combiner.buffers() + 5 * static_cast<int>(combiner.arrays());
    }

    Worker(const WindowScanExecutor& executor, const ExecContext& context, std::byte* arena)
        : e_(executor), context_(context), run_(executor.combiner_, arena) {
      std::byte* at = arena + static_cast<size_t>(executor.combiner_.buffers()) * kBufferStride;
      const auto take = [&] { return std::exchange(at, at + kBufferStride); };
      for (size_t i = 0; i < arrays(); ++i) {
        for (void** buffers : {init_, total_, chunk_, x_, result_}) {
          buffers[i] = take();
        }
        run_.fill(i, context.at(executor.op_.accumulators[i].init), init_[i]);
      }
    }

    bool stopped() const { return stopped_; }

    void lines(const int64_t* outer) {
      find_places(outer);
      if (e_.by_chunks_) {
        for (size_t i = 0; i < arrays(); ++i) {
          line_by_chunks(i);
        }
      } else {
        lines_side_by_side();
      }
    }

   private:
    // A line's elements in memory, in the order in which they are folded.
    struct Place {
      std::byte* in;
      int64_t in_stride;
      std::byte* out;
      int64_t out_stride;
      int64_t in_lane;  // from one line to the next
      int64_t out_lane;
      int64_t width;
    };

    size_t arrays() const { return e_.op_.inputs.size(); }

    void find_places(const int64_t* outer) {
      lanes_ = 1;
      for (size_t i = 0; i < arrays(); ++i) {
        const View& in = e_.op_.inputs[i];
        const View& out = e_.op_.outputs[i];
        Place& place = places_[i];
        const size_t s = e_.dimension_;
        place = {nullptr,
                 in.strides[s],
                 nullptr,
                 out.strides[s],
                 1,
                 1,
                 static_cast<int64_t>(dtype_bytes(in.dtype))};
        int64_t in_offset = e_.backward_ ? (e_.length_ - 1) * place.in_stride : 0;
        int64_t out_offset = e_.backward_ ? (e_.results_ - 1) * place.out_stride : 0;
        if (e_.backward_) {
          place.in_stride = -place.in_stride;
          place.out_stride = -place.out_stride;
        }
        size_t next = 0;
        for (uint8_t d = 0; d < in.rank; ++d) {
          if (d == s) {
            continue;
          }
          int64_t at = outer[next++];
          if (d == e_.lane_dimension_) {
            at *= e_.lanes_;
            lanes_ = std::min(e_.lanes_, in.dims[d] - at);
            place.in_lane = in.strides[d];
            place.out_lane = out.strides[d];
          }
          in_offset += at * in.strides[d];
          out_offset += at * out.strides[d];
        }
        place.in = context_.at(in) + in_offset * place.width;
        place.out = context_.at(out) + out_offset * place.width;
      }
    }

    // Windows [first, end) all get the same value, one lane a line.
    void write_same(int64_t first, int64_t end, void* const* values) {
      for (int64_t o = std::max<int64_t>(first, 0); o < std::min(end, e_.results_); ++o) {
        for (size_t i = 0; i < arrays(); ++i) {
          const Place& p = places_[i];
          run_.store(i, values[i], p.out + o * p.out_stride * p.width, p.out_lane,
                     static_cast<size_t>(lanes_));
        }
      }
    }

    void lines_side_by_side() {
      const auto n = static_cast<size_t>(lanes_);
      write_same(0, -e_.shift_, init_);
      for (int64_t at = 0; at < e_.length_ && !stopped_; ++at) {
        const bool fresh = at % kWindowChunk == 0;
        void** into = fresh ? chunk_ : x_;
        for (size_t i = 0; i < arrays(); ++i) {
          const Place& p = places_[i];
          run_.load(i, p.in + at * p.in_stride * p.width, p.in_lane, n, into[i]);
        }
        if (!fresh) {
          join(chunk_, x_, chunk_, n);
        }
        void** running = chunk_;
        if (at >= kWindowChunk) {
          join(total_, chunk_, result_, n);
          running = result_;
        }
        const bool chunk_ends = at % kWindowChunk == kWindowChunk - 1;
        for (size_t i = 0; i < arrays() && chunk_ends; ++i) {
          std::memcpy(total_[i], running[i], n * register_bytes(e_.combiner_.register_class(i)));
        }
        const bool last = at + 1 == e_.length_;
        const int64_t window = at - e_.shift_;
        if (last || (window >= 0 && window < e_.results_)) {
          run_.combine(init_, running, result_, n);
          write_same(window, last ? e_.results_ : window + 1, result_);
        }
        stopped_ = at % 4096 == 4095 && context_.stop->raised();
      }
      if (e_.length_ == 0) {
        write_same(0, e_.results_, init_);
      }
    }

    // A simple combiner; the sides of combine don't matter for those.
    void line_by_chunks(size_t i) {
      const KernelTable& kernels = e_.combiner_.kernels();
      const auto op = static_cast<size_t>(e_.combiner_.op(i));
      const size_t reg = index_of(e_.combiner_.register_class(i));
      const OpKernel combine = kernels.op[op][reg];
      const OpKernel scan = kernels.scan[op][reg];
      const Place& p = places_[i];
      const auto width = static_cast<int64_t>(register_bytes(e_.combiner_.register_class(i)));
      const auto last_of = [&](void* block, int64_t n) {
        return static_cast<std::byte*>(block) + (n - 1) * width;
      };
      write_one(i, 0, -e_.shift_, init_[i]);
      for (int64_t begin = 0; begin < e_.length_ && !stopped_; begin += kWindowChunk) {
        const int64_t n = std::min(kWindowChunk, e_.length_ - begin);
        const auto size = static_cast<size_t>(n);
        run_.load(i, p.in + begin * p.in_stride * p.width, p.in_stride, size, x_[i]);
        scan(chunk_[i], x_[i], nullptr, nullptr, size, 0);
        if (begin > 0) {
          combine(chunk_[i], total_[i], chunk_[i], nullptr, size, 0);
        }
        run_.spread(i, last_of(chunk_[i], n), total_[i], static_cast<size_t>(kWindowChunk));
        combine(result_[i], init_[i], chunk_[i], nullptr, size, 0);
        // Element begin + k ends window begin + k - shift.
        const int64_t first = std::max<int64_t>(begin - e_.shift_, 0);
        const int64_t end = std::min(begin + n - e_.shift_, e_.results_);
        if (begin + n == e_.length_) {  // before store() rounds it
          run_.spread(i, last_of(result_[i], n), x_[i], 1);
        }
        if (first < end) {
          run_.store(i, static_cast<std::byte*>(result_[i]) + (first + e_.shift_ - begin) * width,
                     p.out + first * p.out_stride * p.width, p.out_stride,
                     static_cast<size_t>(end - first));
        }
        stopped_ = begin / kWindowChunk % 64 == 63 && context_.stop->raised();
      }
      write_one(i, std::max<int64_t>(e_.length_ - e_.shift_, 0), e_.results_,
                e_.length_ == 0 ? init_[i] : x_[i]);
    }

    // Windows [first, end) of one line get one value.
    void write_one(size_t i, int64_t first, int64_t end, void* value) {
      const Place& p = places_[i];
      for (int64_t o = first; o < std::min(end, e_.results_); ++o) {
        run_.store(i, value, p.out + o * p.out_stride * p.width, 1, 1);
      }
    }

    void join(void** done, void** next, void** target, size_t n) {
      e_.backward_ ? run_.combine(next, done, target, n) : run_.combine(done, next, target, n);
    }

    const WindowScanExecutor& e_;
    const ExecContext& context_;
    CombinerRun run_;
    bool stopped_ = false;
    int64_t lanes_ = 1;
    Place places_[ncx::kMaxOutputs];
    void* init_[ncx::kMaxOutputs];
    void* total_[ncx::kMaxOutputs];  // of the chunks before this one
    void* chunk_[ncx::kMaxOutputs];  // of this chunk so far
    void* x_[ncx::kMaxOutputs];
    void* result_[ncx::kMaxOutputs];
  };

  ncx::ReduceWindow op_;
  WindowCombiner combiner_;
  size_t dimension_;
  size_t lane_dimension_ = ncx::kMaxRank;  // none
  int64_t length_ = 0;
  int64_t results_ = 0;
  int64_t shift_ = 0;
  bool backward_ = false;
  bool by_chunks_ = false;
  int64_t lanes_ = 1;
  std::vector<int64_t> outer_dims_;
  int64_t units_ = 0;
};

}  // namespace

std::unique_ptr<Executor> make_window_scan(const ncx::ReduceWindow& op,
                                           const ExecutorOptions& options) {
  const int dimension = find_scan_dimension(op);
  return dimension < 0 ? nullptr : std::make_unique<WindowScanExecutor>(op, dimension, options);
}

}  // namespace onrt
