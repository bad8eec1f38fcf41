// SPDX-License-Identifier: Apache-2.0
// HLO reduce-window by windows: the results of a run along one dimension are computed together,
// element after element of their windows, in the order of isa/window_order.h. Running folds, where
// windows grow with their number, are in window_scan.cc.
#include <utility>

#include "emulator/exec/index_walk.h"
#include "emulator/exec/window_combiner.h"
#include "emulator/exec/window_executors.h"
#include "emulator/exec/window_map.h"
#include "emulator/exec/worker_loop.h"
#include "emulator/isa/window_order.h"

namespace onrt {
namespace {

using ncx::kWindowChunk;
using ncx::View;

size_t index_of(ncx::RegisterClass reg) { return static_cast<size_t>(reg); }

class ReduceWindowExecutor final : public Executor {
 public:
  ReduceWindowExecutor(const ncx::ReduceWindow& op, const ExecutorOptions& options)
      : op_(op),
        combiner_(op, *options.kernels),
        axes_(make_axes(op.window, op.inputs[0], op.outputs[0])),
        rank_(op.window.size()) {
    const View& out = op.outputs[0];
    backward_ =
        ncx::folds_backward(op.window, {op.inputs[0].dims.data(), rank_}, {out.dims.data(), rank_});
    choose_along();
    for (size_t d = 0; d < rank_; ++d) {
      outer_dims_.push_back(rank_ > 0 && d == along_ ? segments() : out.dims[d]);
    }
    units_ = count_of(outer_dims_);
    choose_kernel();
  }

  Status execute(const ExecContext& context) const override {
    if (units_ == 0 || (rank_ > 0 && op_.outputs[0].dims[along_] == 0)) {
      return ok_status();
    }
    int64_t places = combiner_.cost();
    for (const WindowAxis& axis : axes_) {
      places =
          std::min<int64_t>(places * std::min(axis.window().size, axis.operand() + 1), kChunkWork);
    }
    const int64_t row = rank_ > 0 ? std::min(kBlock, op_.outputs[0].dims[along_]) : 1;
    return for_workers(
        context, outer_dims_, units_, row * (places * 4 + 8),
        static_cast<size_t>(Worker::buffers(combiner_)),
        [&](std::byte* arena) { return Worker(*this, context, arena); },
        [](Worker& worker, const auto& index) { worker.segment(index); });
  }

 private:
  int64_t segments() const { return (op_.outputs[0].dims[along_] + kBlock - 1) / kBlock; }

  // Long rows that lie close together in memory.
  void choose_along() {
    int64_t best = -1;
    for (size_t d = 0; d < rank_; ++d) {
      const int64_t size = op_.outputs[0].dims[d];
      const int64_t step = std::abs(op_.inputs[0].strides[d] * axes_[d].window().stride);
      int64_t score = std::min<int64_t>(size, 64) * (step <= 1 ? 4 : step == 2 ? 3 : 1);
      if (axes_[d].window().base_dilation > 1) {
        score = 0;  // neighbours have elements at different places
      }
      if (score > best) {
        best = score;
        along_ = d;
      }
    }
  }

  void choose_kernel() {
    const Dtype type = op_.inputs[0].dtype;
    if (!combiner_.general() && combiner_.arrays() == 1 && register_is_memory(type)) {
      kernel_ =
          combiner_.kernels()
              .fold_taps[static_cast<size_t>(combiner_.op(0))][index_of(ncx::register_class(type))];
    }
  }

  // Works on segments with the buffers of one thread.
  class Worker {
   public:
    static int buffers(const WindowCombiner& combiner) {
      return combiner.buffers() + 4 * static_cast<int>(combiner.arrays());
    }

    Worker(const ReduceWindowExecutor& executor, const ExecContext& context, std::byte* arena)
        : e_(executor),
          context_(context),
          run_(executor.combiner_, arena),
          offsets_(executor.combiner_.arrays()) {
      std::byte* at = arena + static_cast<size_t>(executor.combiner_.buffers()) * kBufferStride;
      const auto take = [&] { return std::exchange(at, at + kBufferStride); };
      for (size_t i = 0; i < executor.combiner_.arrays(); ++i) {
        for (void** buffers : {init_, total_, chunk_, x_}) {
          buffers[i] = take();
        }
        run_.fill(i, context.at(executor.op_.accumulators[i].init), init_[i]);
      }
    }

    bool stopped() const { return stopped_; }

    // The results of one segment: `index` is that of the outer dimensions and the segment's number.
    void segment(const int64_t* index) {
      windows_.fill(0);
      std::copy(index, index + e_.rank_, windows_.begin());
      if (e_.rank_ == 0) {
        piece(1, true);
        return;
      }
      const WindowAxis& axis = e_.axes_[e_.along_];
      int64_t at = index[e_.along_] * kBlock;
      const int64_t end = std::min(at + kBlock, axis.windows());
      for (size_t d = 0; d < e_.rank_; ++d) {
        runs_[d] = d == e_.along_ ? ElementRun{} : e_.axes_[d].run(windows_[d]);
      }
      while (at < end && !stopped_) {
        const bool inner = at >= axis.inner_begin() && at < axis.inner_end();
        const int64_t n = inner ? std::min(end, axis.inner_end()) - at : 1;
        windows_[e_.along_] = at;
        runs_[e_.along_] = axis.run(at);
        piece(n, inner);
        at += n;
      }
    }

   private:
    // `n` results whose windows have the same shape; they start at windows_ and runs_.
    void piece(int64_t n, bool /*inner*/) {
      const int64_t count = element_count(runs_, e_.rank_);
      const auto size = static_cast<size_t>(n);
      if (count == 0) {
        for (size_t i = 0; i < arrays(); ++i) {
          write(i, init_[i], size);
        }
        return;
      }
      for (int64_t begin = 0; begin < count && !stopped_; begin += kWindowChunk) {
        const int64_t end = std::min(count, begin + kWindowChunk);
        void** target = begin == 0 ? total_ : chunk_;
        fold(begin, end, target, size);
        if (begin > 0) {
          join(total_, chunk_, total_, size);
        }
        if (++steps_ % 64 == 0) {
          stopped_ = context_.stop->raised();
        }
      }
      run_.combine(init_, total_, total_, size);
      for (size_t i = 0; i < arrays(); ++i) {
        write(i, total_[i], size);
      }
    }

    size_t arrays() const { return e_.combiner_.arrays(); }

    // target = done joined with next, with sides by direction.
    void join(void** done, void** next, void** target, size_t n) {
      e_.backward_ ? run_.combine(next, done, target, n) : run_.combine(done, next, target, n);
    }

    // One chunk: elements [begin, end) of every window, in the canonical order.
    void fold(int64_t begin, int64_t end, void** target, size_t n) {
      find_offsets(begin, end);
      if (e_.kernel_ != nullptr) {
        e_.kernel_(target[0], first_element(0), offsets_[0].data(), offsets_[0].size(),
                   row_stride(0), n);
        return;
      }
      for (size_t k = 0; k < offsets_[0].size(); ++k) {
        void** into = k == 0 ? target : x_;
        for (size_t i = 0; i < arrays(); ++i) {
          const auto width = static_cast<int64_t>(dtype_bytes(e_.op_.inputs[i].dtype));
          run_.load(i, first_element(i) + offsets_[i][k] * width, row_stride(i), n, into[i]);
        }
        if (k > 0) {
          join(target, x_, target, n);
        }
      }
    }

    // Offsets of the chunk's elements from the window's first one, kept while shapes are alike.
    void find_offsets(int64_t begin, int64_t end) {
      ElementRuns shape = runs_;
      for (size_t d = 0; d < e_.rank_; ++d) {
        shape[d].first = 0;
        if (e_.backward_) {
          shape[d].step = -shape[d].step;
        }
      }
      const auto same = [](const ElementRun& a, const ElementRun& b) {
        return a.step == b.step && a.count == b.count;
      };
      if (begin == begin_ && end == end_ &&
          std::equal(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(e_.rank_),
                     shape_.begin(), same)) {
        return;
      }
      shape_ = shape;
      begin_ = begin;
      end_ = end;
      for (size_t i = 0; i < arrays(); ++i) {
        offsets_[i].clear();
        append_offsets(shape, e_.rank_, {e_.op_.inputs[i].strides.data(), e_.rank_}, begin, end,
                       offsets_[i]);
      }
    }

    // Address of the first (backward: last) element of the first window.
    const std::byte* first_element(size_t i) const {
      const View& view = e_.op_.inputs[i];
      int64_t offset = 0;
      for (size_t d = 0; d < e_.rank_; ++d) {
        const ElementRun& run = runs_[d];
        offset += (run.first + (e_.backward_ ? (run.count - 1) * run.step : 0)) * view.strides[d];
      }
      return context_.at(view) + offset * static_cast<int64_t>(dtype_bytes(view.dtype));
    }

    int64_t row_stride(size_t i) const {
      return e_.rank_ == 0
                 ? 1
                 : e_.op_.inputs[i].strides[e_.along_] * e_.axes_[e_.along_].window().stride;
    }

    void write(size_t i, void* values, size_t n) {
      const View& view = e_.op_.outputs[i];
      int64_t offset = 0;
      for (size_t d = 0; d < e_.rank_; ++d) {
        offset += windows_[d] * view.strides[d];
      }
      std::byte* to = context_.at(view) + offset * static_cast<int64_t>(dtype_bytes(view.dtype));
      run_.store(i, values, to, e_.rank_ == 0 ? 1 : view.strides[e_.along_], n);
    }

    const ReduceWindowExecutor& e_;
    const ExecContext& context_;
    CombinerRun run_;
    bool stopped_ = false;
    uint64_t steps_ = 0;                            // chunks
    std::array<int64_t, ncx::kMaxRank> windows_{};  // first window of the piece
    ElementRuns runs_{};                            // its elements
    ElementRuns shape_{};                           // what offsets_ are for
    int64_t begin_ = -1;
    int64_t end_ = -1;
    std::vector<std::vector<int64_t>> offsets_;  // by array
    void* init_[ncx::kMaxOutputs];
    void* total_[ncx::kMaxOutputs];
    void* chunk_[ncx::kMaxOutputs];
    void* x_[ncx::kMaxOutputs];
  };

  ncx::ReduceWindow op_;
  WindowCombiner combiner_;
  std::vector<WindowAxis> axes_;
  size_t rank_;
  size_t along_ = 0;  // dimension of the runs
  bool backward_ = false;
  std::vector<int64_t> outer_dims_;  // with the number of segments in the place of `along_`
  int64_t units_ = 0;
  TapsKernel kernel_ = nullptr;  // one array of plain registers and a simple combiner
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::ReduceWindow& op,
                                        const ExecutorOptions& options) {
  if (auto scan = make_window_scan(op, options)) {
    return scan;
  }
  return std::make_unique<ReduceWindowExecutor>(op, options);
}

}  // namespace onrt
