// SPDX-License-Identifier: Apache-2.0
// HLO sort and top-k: rows are shared between threads. A comparator that compares keys
// (sort_keys.h) is never run: the keys become integer words, which are sorted with their positions.
// Any other comparator, and rows with a NaN that `<` has no place for, go through the canonical
// merges of isa/sort_order.h.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "emulator/exec/executor.h"
#include "emulator/exec/index_walk.h"
#include "emulator/exec/micro_plan.h"
#include "emulator/exec/row_order.h"
#include "emulator/exec/sort_keys.h"
#include "emulator/isa/sort_order.h"

namespace onrt {
namespace {

using ncx::View;

constexpr size_t kMaxLocations = ncx::kMaxMicroInputs + 2 * ncx::kMaxMicroOps;

size_t index_of(Dtype dtype) { return static_cast<size_t>(dtype); }

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

template <class Word>
void take_row(const std::byte* from, int64_t from_stride, const uint32_t* order, int64_t n,
              std::byte* to, int64_t to_stride) {
  const auto* x = reinterpret_cast<const Word*>(from);
  auto* y = reinterpret_cast<Word*>(to);
  for (int64_t i = 0; i < n; ++i) {
    y[i * to_stride] = x[static_cast<int64_t>(order[i]) * from_stride];
  }
}

class SortExecutor final : public Executor {
 public:
  SortExecutor(const ncx::Sort& op, const ExecutorOptions& options)
      : kernels_(*options.kernels), op_(op) {
    std::vector<Dtype> types;
    for (const View& view : op.inputs) {
      types.push_back(view.dtype);
    }
    keys_ = find_sort_keys(op.comparator, types);
    for (const SortKey& key : keys_) {
      bool no[ncx::kMaxMicroInputs] = {};
      const bool result[1] = {false};
      key_plans_.push_back(
          plan_micro(key.value, {types, {no, types.size()}, {no, types.size()}, result}, kernels_));
      words_ += static_cast<size_t>(sort_words(key.type));
    }
    plan_comparator();
    const View& first = op.inputs[0];
    length_ = first.dims[op.dimension];
    kept_ = op.outputs[0].dims[op.dimension];
    for (uint8_t d = 0; d < first.rank; ++d) {
      if (d != op.dimension) {
        row_dims_.push_back(first.dims[d]);
      }
    }
    rows_ = count_of(row_dims_);
  }

  Status execute(const ExecContext& context) const override {
    if (rows_ == 0 || kept_ == 0) {
      return ok_status();
    }
    // Set by chunks that were stopped in the middle; relaxed: read after the join.
    std::atomic<bool> stopped{false};
    const int64_t passes = 64 - __builtin_clzll(static_cast<uint64_t>(length_));
    const int64_t work = length_ * (passes + 8) * static_cast<int64_t>(op_.inputs.size());
    ONRT_RETURN_IF_ERROR(for_units(context, rows_, work, [&](int64_t first, int64_t last) {
      return run(context, first, last, stopped);
    }));
    return stopped.load(std::memory_order_relaxed) ? context.stop->status() : ok_status();
  }

 private:
  // Memory of one chunk of rows.
  struct Worker {
    std::unique_ptr<std::byte, FreeMemory> memory;
    std::byte* buffers = nullptr;  // of the plans, one after the other
    uint32_t* order = nullptr;     // length
    OrderScratch scratch;
    std::vector<const uint32_t*> words;  // keys
    std::vector<std::byte*> registers;   // comparator: the row's elements, by input
  };

  // Elements of a row lie in memory as registers: the kernels of the comparator read them there,
  // one at a time.
  void plan_comparator() {
    std::vector<Dtype> pairs;
    for (const View& view : op_.inputs) {
      pairs.insert(pairs.end(), 2, view.dtype);
    }
    bool yes[ncx::kMaxMicroInputs];
    bool no[ncx::kMaxMicroInputs] = {};
    std::fill(std::begin(yes), std::end(yes), true);
    comparator_ = plan_micro(op_.comparator,
                             {pairs, {yes, pairs.size()}, {no, pairs.size()}, {no, 1}}, kernels_);
  }

  int plan_buffers() const {
    int most = comparator_.buffers;
    for (const MicroPlan& plan : key_plans_) {
      most = std::max(most, plan.buffers);
    }
    return most;
  }

  bool needs_merges() const {
    return std::ranges::any_of(
               keys_, [](const SortKey& key) { return is_floating(key.type) && !key.total; }) ||
           keys_.empty();
  }

  bool prepare(Worker& worker) const {
    const auto n = static_cast<size_t>((length_ + 15) / 16 * 16);
    const size_t plan = static_cast<size_t>(plan_buffers() + 1) * kBufferStride;
    const size_t registers = needs_merges() ? op_.inputs.size() : 0;
    const size_t bytes = plan + n * (4 + 8 + 8 + 4 + words_ * 4 + registers * 8);
    worker.memory.reset(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
    std::byte* at = worker.memory.get();
    if (at == nullptr) {
      return false;
    }
    const auto take = [&](size_t size) { return std::exchange(at, at + size); };
    worker.buffers = take(plan);
    worker.scratch.items = reinterpret_cast<uint64_t*>(take(n * 8));
    worker.scratch.spare = reinterpret_cast<uint64_t*>(take(n * 8));
    for (size_t i = 0; i < registers; ++i) {
      worker.registers.push_back(take(n * 8));
    }
    worker.scratch.next = reinterpret_cast<uint32_t*>(take(n * 4));
    worker.order = reinterpret_cast<uint32_t*>(take(n * 4));
    for (size_t i = 0; i < words_; ++i) {
      worker.words.push_back(reinterpret_cast<uint32_t*>(take(n * 4)));
    }
    return true;
  }

  // Address of the first element of a row.
  std::byte* row_of(const ExecContext& context, const View& view, const int64_t* row) const {
    int64_t offset = 0;
    size_t at = 0;
    for (uint8_t d = 0; d < view.rank; ++d) {
      offset += d == op_.dimension ? 0 : row[at++] * view.strides[d];
    }
    return context.at(view) + offset * static_cast<int64_t>(dtype_bytes(view.dtype));
  }

  bool run(const ExecContext& context, int64_t first, int64_t last,
           std::atomic<bool>& stopped) const {
    Worker worker;
    if (!prepare(worker)) {
      return false;
    }
    IndexLoop row(row_dims_, first);
    for (int64_t r = first; r < last; ++r, row.advance()) {
      if (keys_.empty() || !order_by_keys(context, row.index(), worker)) {
        order_by_merges(context, row.index(), worker, stopped);
      }
      if (stopped.load(std::memory_order_relaxed)) {
        return true;
      }
      write_row(context, row.index(), worker.order);
    }
    return true;
  }

  // False if the row has a NaN without a place.
  bool order_by_keys(const ExecContext& context, const int64_t* row, Worker& worker) const {
    size_t word = 0;
    for (size_t k = 0; k < keys_.size(); ++k) {
      const int count = sort_words(keys_[k].type);
      auto* high = const_cast<uint32_t*>(worker.words[word]);
      auto* low = count == 2 ? const_cast<uint32_t*>(worker.words[word + 1]) : nullptr;
      if (!make_key(context, row, k, worker.buffers, high, low)) {
        return false;
      }
      word += static_cast<size_t>(count);
    }
    order_by_words(worker.words, length_, kept_, worker.scratch, worker.order);
    return true;
  }

  bool make_key(const ExecContext& context, const int64_t* row, size_t k, std::byte* buffers,
                uint32_t* high, uint32_t* low) const {
    const MicroPlan& plan = key_plans_[k];
    void* pointers[kMaxLocations];
    point(plan, buffers, pointers);
    for (int64_t begin = 0; begin < length_; begin += kBlock) {
      const auto n = static_cast<size_t>(std::min(kBlock, length_ - begin));
      for (size_t i = 0; i < op_.inputs.size(); ++i) {
        if (keys_[k].inputs[i]) {
          load(context, op_.inputs[i], row, begin, n, pointers[plan.inputs[i]]);
        }
      }
      run_steps(plan, pointers, n);
      if (!encode_sort_key(keys_[k], pointers[plan.results[0]], n, high + begin,
                           low == nullptr ? nullptr : low + begin)) {
        return false;
      }
    }
    return true;
  }

  void load(const ExecContext& context, const View& view, const int64_t* row, int64_t begin,
            size_t n, void* out) const {
    const int64_t stride = view.strides[op_.dimension];
    const std::byte* in =
        row_of(context, view, row) + begin * stride * static_cast<int64_t>(dtype_bytes(view.dtype));
    const auto& move = stride == 1 ? kernels_.load : kernels_.load_strided;
    move[index_of(view.dtype)](out, in, stride, n);
  }

  void point(const MicroPlan& plan, std::byte* buffers, void** pointers) const {
    place_buffers(plan, buffers, pointers);
    place_constants(plan, pointers, static_cast<size_t>(std::min(kBlock, length_)));
  }

  void order_by_merges(const ExecContext& context, const int64_t* row, Worker& worker,
                       std::atomic<bool>& stopped) const {
    int64_t widths[ncx::kMaxMicroInputs];
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      const View& view = op_.inputs[i];
      widths[i] = register_bytes(ncx::register_class(view.dtype));
      for (int64_t begin = 0; begin < length_; begin += kBlock) {
        load(context, view, row, begin, static_cast<size_t>(std::min(kBlock, length_ - begin)),
             worker.registers[i] + begin * widths[i]);
      }
    }
    void* pointers[kMaxLocations];
    point(comparator_, worker.buffers, pointers);
    int64_t comparisons = 0;
    bool stop = false;
    const auto before = [&](uint32_t a, uint32_t b) {
      for (size_t i = 0; i < op_.inputs.size(); ++i) {
        pointers[comparator_.inputs[2 * i]] = worker.registers[i] + a * widths[i];
        pointers[comparator_.inputs[2 * i + 1]] = worker.registers[i] + b * widths[i];
      }
      run_steps(comparator_, pointers, 1);
      if (++comparisons % 65536 == 0) {
        stop = stop || context.stop->raised();
      }
      uint32_t result = 0;
      std::memcpy(&result, pointers[comparator_.results[0]], sizeof(result));
      return result != 0;
    };
    std::iota(worker.order, worker.order + length_, 0u);
    ncx::sort_in_order(worker.order, worker.scratch.next, length_, before, [&] { return stop; });
    if (stop) {
      stopped.store(true, std::memory_order_relaxed);
    }
  }

  void write_row(const ExecContext& context, const int64_t* row, const uint32_t* order) const {
    for (size_t k = 0; k < op_.outputs.size(); ++k) {
      const View& view = op_.outputs[k];
      std::byte* to = row_of(context, view, row);
      const int64_t to_stride = view.strides[op_.dimension];
      if (k == op_.inputs.size()) {
        auto* positions = reinterpret_cast<uint32_t*>(to);
        for (int64_t i = 0; i < kept_; ++i) {
          positions[i * to_stride] = order[i];
        }
        continue;
      }
      const std::byte* from = row_of(context, op_.inputs[k], row);
      const int64_t stride = op_.inputs[k].strides[op_.dimension];
      switch (dtype_bytes(view.dtype)) {
        case 1:
          take_row<uint8_t>(from, stride, order, kept_, to, to_stride);
          break;
        case 2:
          take_row<uint16_t>(from, stride, order, kept_, to, to_stride);
          break;
        case 4:
          take_row<uint32_t>(from, stride, order, kept_, to, to_stride);
          break;
        default:
          take_row<uint64_t>(from, stride, order, kept_, to, to_stride);
          break;
      }
    }
  }

  const KernelTable& kernels_;
  ncx::Sort op_;
  std::vector<SortKey> keys_;  // empty: the comparator is run
  std::vector<MicroPlan> key_plans_;
  size_t words_ = 0;
  MicroPlan comparator_;
  std::vector<int64_t> row_dims_;
  int64_t rows_ = 0;
  int64_t length_ = 0;
  int64_t kept_ = 0;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::Sort& op, const ExecutorOptions& options) {
  return std::make_unique<SortExecutor>(op, options);
}

}  // namespace onrt
