// SPDX-License-Identifier: Apache-2.0
// HLO select-and-scatter (the gradient of max pooling). Threads share the dimensions in which
// windows are single elements: the others are walked in row-major order, so that sums of windows
// that overlap have one order. The windows of a run along one dimension select together.
#include <cstring>
#include <utility>

#include "emulator/exec/executor.h"
#include "emulator/exec/index_walk.h"
#include "emulator/exec/micro_plan.h"
#include "emulator/exec/window_map.h"
#include "emulator/exec/worker_loop.h"

namespace onrt {
namespace {

using ncx::View;

constexpr int64_t kOffsetChunk = 1024;
constexpr size_t kMaxLocations = 4 + 2 * ncx::kMaxMicroOps;

size_t index_of(Dtype dtype) { return static_cast<size_t>(dtype); }
size_t index_of(ncx::RegisterClass reg) { return static_cast<size_t>(reg); }

MicroPlan plan_pair(const ncx::MicroProgram& program, Dtype type, const KernelTable& kernels) {
  const Dtype types[] = {type, type};
  constexpr bool kTrue[] = {true, true};
  constexpr bool kFalse[] = {false, false};
  return plan_micro(program, {types, kTrue, kFalse, {kFalse, 1}}, kernels);
}

class SelectScatterExecutor final : public Executor {
 public:
  SelectScatterExecutor(const ncx::SelectScatter& op, const ExecutorOptions& options)
      : op_(op),
        kernels_(*options.kernels),
        axes_(make_axes(op.window, op.operand, op.source)),
        rank_(op.window.size()),
        type_(op.operand.dtype),
        select_(plan_pair(op.select, type_, kernels_)),
        scatter_(plan_pair(op.scatter, type_, kernels_)) {
    choose_along();
    for (size_t d = 0; d < rank_; ++d) {
      const bool shared = axes_[d].trivial();
      const bool along = d == along_;
      shared_dims_.push_back(!shared ? 1 : along ? segments() : op.source.dims[d]);
      window_dims_.push_back(shared || along ? 1 : op.source.dims[d]);
      element_dims_.push_back(shared || along ? 1 : op.operand.dims[d]);
    }
    const auto& ops = op.scatter.ops;
    if (register_is_memory(type_) && ops.size() == 1 && op.scatter.results[0] == 2 &&
        ops[0].operands[0] == 0 && ops[0].operands[1] == 1 && ncx::is_combiner(ops[0].op, type_)) {
      direct_ = kernels_.op[static_cast<size_t>(ops[0].op)][index_of(ncx::register_class(type_))];
    }
  }

  Status execute(const ExecContext& context) const override {
    const int64_t units = count_of(shared_dims_);
    int64_t work = 64;  // of one unit, at most about 2^40
    for (size_t d = 0; d < rank_; ++d) {
      const int64_t places =
          axes_[d].trivial() ? (d == along_ ? kBlock : 1) : axes_[d].windows() + axes_[d].operand();
      work = std::min(work, int64_t{1} << 20) * std::clamp<int64_t>(places, 1, 1 << 20);
    }
    return for_workers(
        context, shared_dims_, units, work, static_cast<size_t>(buffers()),
        [&](std::byte* arena) { return Worker(*this, context, arena); },
        [](Worker& worker, const auto& index) { worker.unit(index); });
  }

 private:
  int64_t segments() const { return (op_.source.dims[along_] + kBlock - 1) / kBlock; }
  int buffers() const { return select_.buffers + scatter_.buffers + 8; }

  // A dimension of single elements, or the last of the others, which keeps the order of windows.
  void choose_along() {
    int64_t best = -1;
    bool last = true;  // no later dimension has windows
    for (size_t d = rank_; d-- > 0;) {
      const WindowAxis& axis = axes_[d];
      const int64_t step = std::abs(op_.operand.strides[d] * axis.window().stride);
      int64_t score = std::min<int64_t>(axis.windows(), 64) * (step <= 1 ? 4 : step == 2 ? 3 : 1);
      if (!axis.trivial() && (!last || axis.window().base_dilation > 1)) {
        score = -1;
      }
      last = last && axis.trivial();
      if (score > best) {
        best = score;
        along_ = d;
      }
    }
    if (best < 0 && rank_ > 0) {
      along_ = rank_ - 1;
    }
  }

  class Worker {
   public:
    Worker(const SelectScatterExecutor& executor, const ExecContext& context, std::byte* arena)
        : e_(executor), context_(context) {
      point(e_.select_, arena, select_);
      arena += static_cast<size_t>(e_.select_.buffers) * kBufferStride;
      point(e_.scatter_, arena, scatter_);
      arena += static_cast<size_t>(e_.scatter_.buffers) * kBufferStride;
      const auto take = [&] { return std::exchange(arena, arena + kBufferStride); };
      for (void** buffer : {&best_, &x_, &where_, &here_, &source_, &init_, &current_, &settled_}) {
        *buffer = take();
      }
      uint64_t value = 0;
      e_.kernels_.load[index_of(e_.type_)](&value, context.at(e_.op_.init), 1, 1);
      e_.kernels_.fill[reg()](init_, nullptr, nullptr, nullptr, static_cast<size_t>(kBlock), value);
    }

    bool stopped() const { return stopped_; }

    void unit(const int64_t* shared) {
      const bool lanes = e_.rank_ > 0 && e_.axes_[e_.along_].trivial();
      base_.fill(0);
      std::copy(shared, shared + e_.rank_, base_.begin());
      int64_t begin = 0;
      int64_t count = 1;
      if (e_.rank_ > 0) {
        begin = lanes ? base_[e_.along_] * kBlock : 0;
        count = e_.op_.source.dims[e_.along_] - begin;
        count = lanes ? std::min(count, kBlock) : count;
        base_[e_.along_] = 0;
      }
      fill(begin, lanes || e_.rank_ == 0 ? count : e_.op_.operand.dims[e_.along_]);
      IndexLoop window(e_.window_dims_, 0);
      const int64_t windows = count_of(e_.window_dims_);
      for (int64_t w = 0; w < windows && !stopped_; ++w, window.advance()) {
        row(window.index(), begin, begin + count);
      }
    }

   private:
    static void point(const MicroPlan& plan, std::byte* buffers, void** pointers) {
      place_buffers(plan, buffers, pointers);
      place_constants(plan, pointers, static_cast<size_t>(kBlock));
    }

    size_t reg() const { return index_of(ncx::register_class(e_.type_)); }
    int64_t width() const { return dtype_bytes(e_.type_); }

    // The output elements of the unit get the initial value.
    void fill(int64_t begin, int64_t count) {
      const View& view = e_.op_.output;
      IndexLoop element(e_.element_dims_, 0);
      const int64_t rows = count_of(e_.element_dims_);
      const int64_t stride = e_.rank_ == 0 ? 1 : view.strides[e_.along_];
      for (int64_t r = 0; r < rows; ++r, element.advance()) {
        int64_t offset = begin * stride;
        for (size_t d = 0; d < e_.rank_; ++d) {
          offset += (base_[d] + element.index()[d]) * view.strides[d];
        }
        std::byte* to = context_.at(view) + offset * width();
        for (int64_t at = 0; at < count; at += kBlock) {
          e_.kernels_.store_strided[index_of(e_.type_)](
              to + at * stride * width(), init_, stride,
              static_cast<size_t>(std::min(kBlock, count - at)));
        }
      }
    }

    // Windows [at, end) along one dimension.
    void row(const int64_t* window, int64_t at, int64_t end) {
      look();  // a row may have no windows at all
      for (size_t d = 0; d < e_.rank_; ++d) {
        windows_[d] = base_[d] + window[d];
        runs_[d] = d == e_.along_ ? ElementRun{} : e_.axes_[d].run(windows_[d]);
      }
      if (e_.rank_ == 0) {
        piece(1);
        return;
      }
      const WindowAxis& axis = e_.axes_[e_.along_];
      while (at < end && !stopped_) {
        const bool inner = at >= axis.inner_begin() && at < axis.inner_end();
        const int64_t n = inner ? std::min({end, axis.inner_end(), at + kBlock}) - at : 1;
        windows_[e_.along_] = at;
        runs_[e_.along_] = axis.run(at);
        piece(n);
        at += n;
      }
    }

    // After every step of bounded work, windows that lie wholly in the padding included: a source
    // may repeat one element, so that nothing in memory bounds their number.
    void look() {
      if (++steps_ % 64 == 0) {
        stopped_ = context_.stop->raised();
      }
    }

    void piece(int64_t n) {
      const int64_t count = element_count(runs_, e_.rank_);
      look();
      if (count == 0) {
        return;
      }
      const auto size = static_cast<size_t>(n);
      for (int64_t begin = 0; begin < count && !stopped_; begin += kOffsetChunk) {
        const int64_t end = std::min(count, begin + kOffsetChunk);
        find_offsets(begin, end);
        select(begin == 0, size);
        look();
      }
      scatter(size);
    }

    void find_offsets(int64_t begin, int64_t end) {
      const auto same = [](const ElementRun& a, const ElementRun& b) {
        return a.step == b.step && a.count == b.count;
      };
      const auto rank = static_cast<ptrdiff_t>(e_.rank_);
      if (begin == begin_ && end == end_ &&
          std::equal(runs_.begin(), runs_.begin() + rank, shape_.begin(), same)) {
        return;
      }
      shape_ = runs_;
      begin_ = begin;
      end_ = end;
      operand_offsets_.clear();
      output_offsets_.clear();
      append_offsets(runs_, e_.rank_, {e_.op_.operand.strides.data(), e_.rank_}, begin, end,
                     operand_offsets_);
      append_offsets(runs_, e_.rank_, {e_.op_.output.strides.data(), e_.rank_}, begin, end,
                     output_offsets_);
    }

    // Offset of the first window's first element.
    int64_t first_element(const View& view) const {
      int64_t offset = 0;
      for (size_t d = 0; d < e_.rank_; ++d) {
        offset += runs_[d].first * view.strides[d];
      }
      return offset;
    }
    int64_t row_stride(const View& view) const {
      return e_.rank_ == 0 ? 1 : view.strides[e_.along_] * e_.axes_[e_.along_].window().stride;
    }

    // where_: offset in the output of the selected element, from the window's first one.
    void select(bool first, size_t n) {
      const View& view = e_.op_.operand;
      const std::byte* from = context_.at(view) + first_element(view) * width();
      const auto load = e_.kernels_.load_strided[index_of(e_.type_)];
      const auto fill = e_.kernels_.fill[index_of(ncx::RegisterClass::kI64)];
      const OpKernel choose = register_bytes(ncx::register_class(e_.type_)) == 8
                                  ? e_.kernels_.select64
                                  : e_.kernels_.select32;
      for (size_t k = 0; k < operand_offsets_.size(); ++k) {
        const bool start = first && k == 0;
        load(start ? best_ : x_, from + operand_offsets_[k] * width(), row_stride(view), n);
        fill(start ? where_ : here_, nullptr, nullptr, nullptr, n,
             static_cast<uint64_t>(output_offsets_[k]));
        if (start) {
          continue;
        }
        select_[e_.select_.inputs[0]] = best_;
        select_[e_.select_.inputs[1]] = x_;
        run_steps(e_.select_, select_, n);
        const void* keep = select_[e_.select_.results[0]];
        if (keep == best_ || keep == x_) {  // a pred operand itself: choose() overwrites it
          std::memcpy(settled_, keep, n * sizeof(uint32_t));
          keep = settled_;
        }
        choose(best_, keep, best_, x_, n, 0);
        e_.kernels_.select64(where_, keep, where_, here_, n, 0);
      }
    }

    void scatter(size_t n) {
      const View& source = e_.op_.source;
      const View& output = e_.op_.output;
      int64_t offset = 0;
      for (size_t d = 0; d < e_.rank_; ++d) {
        offset += windows_[d] * source.strides[d];
      }
      const auto type = index_of(e_.type_);
      e_.kernels_.load_strided[type](source_, context_.at(source) + offset * width(),
                                     e_.rank_ == 0 ? 1 : source.strides[e_.along_], n);
      std::byte* to = context_.at(output) + first_element(output) * width();
      const int64_t stride = row_stride(output);
      const auto* where = static_cast<const int64_t*>(where_);
      auto* value = static_cast<std::byte*>(source_);
      const int64_t step = register_bytes(ncx::register_class(e_.type_));
      for (size_t j = 0; j < n; ++j, value += step, to += stride * width()) {
        std::byte* target = to + where[j] * width();
        if (e_.direct_ != nullptr) {
          e_.direct_(target, target, value, value, 1, 0);
          continue;
        }
        e_.kernels_.load[type](current_, target, 1, 1);
        scatter_[e_.scatter_.inputs[0]] = current_;
        scatter_[e_.scatter_.inputs[1]] = value;
        run_steps(e_.scatter_, scatter_, 1);
        e_.kernels_.store[type](target, scatter_[e_.scatter_.results[0]], 1, 1);
      }
    }

    const SelectScatterExecutor& e_;
    const ExecContext& context_;
    bool stopped_ = false;
    uint64_t steps_ = 0;
    std::array<int64_t, ncx::kMaxRank> base_{};     // shared dimensions
    std::array<int64_t, ncx::kMaxRank> windows_{};  // first window of the piece
    ElementRuns runs_{};
    ElementRuns shape_{};  // what the offsets are for
    int64_t begin_ = -1;
    int64_t end_ = -1;
    std::vector<int64_t> operand_offsets_;
    std::vector<int64_t> output_offsets_;
    void* select_[kMaxLocations];
    void* scatter_[kMaxLocations];
    void* best_;
    void* x_;
    void* where_;  // i64
    void* here_;   // i64
    void* source_;
    void* init_;
    void* current_;
    void* settled_;
  };

  ncx::SelectScatter op_;
  const KernelTable& kernels_;
  std::vector<WindowAxis> axes_;
  size_t rank_;
  Dtype type_;
  MicroPlan select_;
  MicroPlan scatter_;
  size_t along_ = 0;
  std::vector<int64_t> shared_dims_;   // units; 1 for dimensions with windows
  std::vector<int64_t> window_dims_;   // windows of a unit, but for `along_`
  std::vector<int64_t> element_dims_;  // output elements of a unit, but for `along_`
  OpKernel direct_ = nullptr;          // scatter on the memory itself
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::SelectScatter& op,
                                        const ExecutorOptions& options) {
  return std::make_unique<SelectScatterExecutor>(op, options);
}

}  // namespace onrt
