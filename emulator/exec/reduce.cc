// SPDX-License-Identifier: Apache-2.0
// Reductions in the canonical order of isa/reduce_order.h.
//
// The kept elements are cut into tiles, the reduced ones into the chunks of the canonical order.
// Rows: the reduced elements are contiguous; a tile is a few rows of one chunk, folded by a kernel.
// Columns: the kept elements are contiguous; eight reduced elements at a time are combined with the
// eight lanes of up to 128 kept elements. A general combiner takes all of a chunk for a few kept
// elements and combines neighbours in pairs, half of the chunk at a time. With several chunks,
// their results go to a table of partial results first, which is then reduced by columns.
#include <cstring>
#include <memory>

#include "emulator/exec/executor.h"
#include "emulator/exec/micro_plan.h"
#include "emulator/exec/tile_io.h"
#include "emulator/isa/reduce_order.h"

namespace onrt {
namespace {

using ncx::kReduceChunk;
using ncx::kReduceLanes;
using ncx::View;

constexpr int64_t kColumns = kBlock / kReduceLanes;  // kept elements of a tile by columns
constexpr size_t kMaxLocations = ncx::kMaxMicroInputs + 2 * ncx::kMaxMicroOps;
static_assert(kReduceChunk == kBlock);

size_t index_of(ncx::RegisterClass reg) { return static_cast<size_t>(reg); }

std::vector<MicroIota> iotas_of(const ncx::MicroProgram& program) {
  std::vector<MicroIota> iotas;
  for (const ncx::MicroOp& op : program.ops) {
    if (op.op == ncx::ScalarOp::kIota) {
      iotas.push_back({0, op.immediate, nullptr});
    }
  }
  return iotas;
}

// Everything about one Reduce that does not depend on addresses. Views are numbered: inputs,
// prologue iotas, epilogue inputs, epilogue iotas, outputs.
class ReduceExecutor final : public Executor {
 public:
  ReduceExecutor(const ncx::Reduce& op, const ExecutorOptions& options)
      : kernels_(*options.kernels),
        op_(op),
        prologue_iotas_(iotas_of(op.prologue)),
        epilogue_iotas_(iotas_of(op.epilogue)) {
    make_nests();
    choose_tiles();
    make_plans();
    lay_out_arena();
  }

  Status execute(const ExecContext& context) const override;

 private:
  size_t prologue_iota_view(size_t i) const { return op_.inputs.size() + i; }
  size_t epilogue_view(size_t i) const { return op_.inputs.size() + prologue_iotas_.size() + i; }
  size_t epilogue_iota_view(size_t i) const {
    return epilogue_view(op_.epilogue_inputs.size()) + i;
  }
  size_t output_view(size_t i) const { return epilogue_iota_view(epilogue_iotas_.size()) + i; }
  size_t accumulators() const { return op_.accumulators.size(); }
  ncx::RegisterClass class_of(size_t accumulator) const {
    return ncx::register_class(op_.accumulators[accumulator].type);
  }
  int64_t tile_work() const {
    const int64_t elements = std::min(reduced_.elements, kReduceChunk) * tile_;
    return std::max<int64_t>(1, elements * (4 + prologue_.cost) + tile_ * 8);
  }

  void make_nests() {
    const int kept_rank = op_.domain.rank - op_.reduced;
    std::vector<Strides> kept;
    std::vector<Strides> reduced;
    const auto add = [&](const Strides& strides) {
      Strides outer{};
      Strides inner{};
      for (int d = 0; d < op_.domain.rank; ++d) {
        const auto dim = static_cast<size_t>(d);
        (d < kept_rank ? outer[dim] : inner[static_cast<size_t>(d - kept_rank)]) = strides[dim];
      }
      kept.push_back(outer);
      reduced.push_back(inner);
    };
    const auto add_unit = [&](uint64_t dimension) {
      Strides strides{};
      strides[dimension] = 1;
      add(strides);
    };
    for (const View& view : op_.inputs) {
      add(view.strides);
    }
    for (const MicroIota& iota : prologue_iotas_) {
      add_unit(iota.dimension);
    }
    for (const View& view : op_.epilogue_inputs) {
      add(view.strides);
    }
    for (const MicroIota& iota : epilogue_iotas_) {
      add_unit(iota.dimension);
    }
    for (const View& view : op_.outputs) {
      add(view.strides);
    }
    // Views of the kept dims have no strides in the reduced ones: theirs are zero by construction.
    const std::span<const int64_t> dims(op_.domain.dims.data(), op_.domain.rank);
    kept_ = make_nest(dims.first(static_cast<size_t>(kept_rank)), kept, LoopOrder::kFree);
    reduced_ = make_nest(dims.subspan(static_cast<size_t>(kept_rank)), reduced, LoopOrder::kKept);
  }

  bool general() const { return !op_.general.results.empty(); }

  // By rows if the widest input is walked more closely along the reduced elements.
  bool prefer_rows() const {
    if (general()) {
      return false;
    }
    if (kept_.elements == 1 || op_.inputs.empty()) {
      return true;
    }
    int64_t most = -1;
    bool rows = true;
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      const int64_t along_reduced = std::abs(reduced_.inner_stride(i));
      const int64_t along_kept = std::abs(kept_.inner_stride(i));
      int64_t bytes = dtype_bytes(op_.inputs[i].dtype);
      bytes *= (along_reduced != 0 ? 2 : 1) * (along_kept != 0 ? 2 : 1);
      if (bytes > most) {
        most = bytes;
        rows = along_kept == 0 || (along_reduced != 0 && along_reduced < along_kept);
      }
    }
    return rows || reduced_.elements < 2;
  }

  void choose_tiles() {
    chunks_ = (reduced_.elements + kReduceChunk - 1) / kReduceChunk;
    rows_ = prefer_rows();
    const int64_t chunk = std::max<int64_t>(1, std::min(reduced_.elements, kReduceChunk));
    tile_ = rows_ ? std::max<int64_t>(1, kBlock / chunk) : kColumns;
    tile_ = std::min(tile_, std::max<int64_t>(1, kept_.elements));
    // Reduced elements of one step by columns: a power of two times eight, a divisor of the chunk.
    if (general()) {
      tile_ = std::min(std::max<int64_t>(1, kBlock / chunk), std::max<int64_t>(1, kept_.elements));
    }
    step_ = general() ? kReduceChunk : kReduceLanes;
    while (step_ * 2 * tile_ <= kBlock && step_ < kReduceChunk) {
      step_ *= 2;
    }
    tiles_ = (kept_.elements + tile_ - 1) / tile_;
    wide_tile_ = std::min(kColumns, std::max<int64_t>(1, kept_.elements));
  }

  // Whether a tile's elements of input i lie in memory just as in a buffer.
  bool dense(size_t i) const {
    const LoopNest& outer = rows_ ? kept_ : reduced_;
    const LoopNest& inner = rows_ ? reduced_ : kept_;
    if (!register_is_memory(op_.inputs[i].dtype) || inner.rank != 1 || inner.inner_stride(i) != 1) {
      return false;
    }
    const bool one_row = rows_ && tile_ == 1;
    const bool whole_rows = outer.rank == 1 && outer.inner_stride(i) == inner.elements &&
                            (rows_ ? reduced_.elements <= kReduceChunk : kept_.elements <= tile_);
    return one_row || whole_rows;
  }

  void make_plans() {
    bool external[2 * ncx::kMaxMicroInputs] = {};
    bool none[2 * ncx::kMaxMicroInputs] = {};
    std::vector<Dtype> types;
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      types.push_back(op_.inputs[i].dtype);
      external[i] = dense(i);
    }
    prologue_ = plan_micro(
        op_.prologue,
        {types, {external, types.size()}, {none, types.size()}, {none, accumulators()}}, kernels_);
    external_.assign(external, external + op_.inputs.size());

    std::vector<Dtype> totals;
    for (const auto& accumulator : op_.accumulators) {
      totals.push_back(accumulator.type);
    }
    std::fill(std::begin(external), std::end(external), true);
    if (general()) {
      std::vector<Dtype> pairs = totals;
      pairs.insert(pairs.end(), totals.begin(), totals.end());
      general_ = plan_micro(
          op_.general,
          {pairs, {external, pairs.size()}, {none, pairs.size()}, {none, accumulators()}},
          kernels_);
    }
    types = totals;
    for (size_t i = 0; i < op_.epilogue_inputs.size(); ++i) {
      types.push_back(op_.epilogue_inputs[i].dtype);
      external[types.size() - 1] = false;
    }
    epilogue_ = plan_micro(
        op_.epilogue,
        {types, {external, types.size()}, {none, types.size()}, {none, op_.outputs.size()}},
        kernels_);
  }

  // Buffers of a worker: those of the plans, then per accumulator lanes, totals and initial value.
  void lay_out_arena() {
    general_buffers_ = prologue_.buffers;
    epilogue_buffers_ = general_buffers_ + general_.buffers;
    lanes_ = epilogue_buffers_ + epilogue_.buffers;
    totals_ = lanes_ + static_cast<int>(accumulators());
    inits_ = totals_ + static_cast<int>(accumulators());
    odds_ = inits_ + static_cast<int>(accumulators());
    positions_ = odds_ + static_cast<int>(accumulators());
  }

  Status execute_in_chunks(const ExecContext& context) const;

  // Does the work of one chunk of units: owns the pointers into the thread's arena.
  class Worker;

  const KernelTable& kernels_;
  ncx::Reduce op_;
  std::vector<MicroIota> prologue_iotas_;
  std::vector<MicroIota> epilogue_iotas_;
  LoopNest kept_;
  LoopNest reduced_;
  bool rows_ = true;
  int64_t chunks_ = 0;
  int64_t tile_ = 1;  // kept elements of a tile
  int64_t step_ = 1;  // by columns: reduced elements of a step
  int64_t tiles_ = 0;
  int64_t wide_tile_ = 1;  // kept elements of a tile of partial results
  std::vector<bool> external_;
  MicroPlan prologue_;
  MicroPlan general_;
  MicroPlan epilogue_;
  int general_buffers_ = 0;
  int epilogue_buffers_ = 0;
  int lanes_ = 0;
  int totals_ = 0;
  int inits_ = 0;
  int odds_ = 0;
  int positions_ = 0;
};

class ReduceExecutor::Worker {
 public:
  Worker(const ReduceExecutor& reduce, const ExecContext& context)
      : r_(reduce),
        context_(context),
        arena_(thread_arena(static_cast<size_t>(reduce.positions_ + 1) * kBufferStride)) {
    if (arena_ == nullptr) {
      return;
    }
    point(r_.prologue_, 0, prologue_);
    point(r_.general_, r_.general_buffers_, general_);
    point(r_.epilogue_, r_.epilogue_buffers_, epilogue_);
    for (size_t a = 0; a < r_.accumulators(); ++a) {
      const View& init = r_.op_.accumulators[a].init;
      r_.kernels_.fill[index_of(r_.class_of(a))](
          buffer(r_.inits_ + static_cast<int>(a)), nullptr, nullptr, nullptr,
          static_cast<size_t>(std::max(r_.tile_, r_.wide_tile_)), load_immediate(init));
    }
  }

  bool ready() const { return arena_ != nullptr; }

  // All of a tile whose reduced elements are at most one chunk.
  void whole_tile(int64_t tile) {
    const int64_t first = tile * r_.tile_;
    const int64_t count = std::min(r_.tile_, r_.kept_.elements - first);
    void* totals[ncx::kMaxOutputs];
    for (size_t a = 0; a < r_.accumulators(); ++a) {
      totals[a] = buffer(r_.totals_ + static_cast<int>(a));
    }
    if (r_.reduced_.elements > 0) {
      chunk(first, count, 0, totals);
    }
    finish(first, count, r_.reduced_.elements > 0);
  }

  // Results of one chunk for `count` kept elements, to totals[a][0..count).
  void chunk(int64_t first, int64_t count, int64_t chunk_index, void* const* totals) {
    const int64_t begin = chunk_index * kReduceChunk;
    const int64_t n = std::min(kReduceChunk, r_.reduced_.elements - begin);
    if (r_.general()) {
      chunk_in_pairs(first, count, begin, n, totals);
    } else if (r_.rows_) {
      chunk_by_rows(first, count, begin, n, totals);
    } else {
      chunk_by_columns(first, count, begin, n, totals);
    }
  }

  // Reduces `rows` rows of partial results, `stride` elements apart, for `count` kept elements.
  // Overwrites them; the totals go to the totals' buffers.
  void reduce_partials(std::byte* const* partials, int64_t stride, int64_t rows, int64_t count) {
    if (r_.general()) {
      pair_partials(partials, stride, rows, count);
      rows = 1;
    }
    while (rows > 1) {
      int64_t groups = 0;
      for (int64_t begin = 0; begin < rows; begin += kReduceChunk, ++groups) {
        const int64_t end = std::min(rows, begin + kReduceChunk);
        combined_ = 0;
        for (int64_t row = begin; row < end; ++row) {
          const void* x[ncx::kMaxOutputs];
          for (size_t a = 0; a < r_.accumulators(); ++a) {
            x[a] = partials[a] + row * stride * register_width(a);
          }
          combine(x, 1, count);
        }
        void* out[ncx::kMaxOutputs];
        for (size_t a = 0; a < r_.accumulators(); ++a) {
          out[a] = partials[a] + groups * stride * register_width(a);
        }
        fold_lanes(out, count);
      }
      rows = groups;
    }
    for (size_t a = 0; a < r_.accumulators(); ++a) {
      std::memcpy(buffer(r_.totals_ + static_cast<int>(a)), partials[a],
                  static_cast<size_t>(count * register_width(a)));
    }
  }

  // Initial values, rounding, epilogue, outputs. The totals are in their buffers if there are any.
  void finish(int64_t first, int64_t count, bool any) {
    const auto n = static_cast<size_t>(count);
    combine_with_init(n, any);
    cursor_kept(first, count);
    for (size_t i = 0; i < r_.op_.epilogue_inputs.size(); ++i) {
      const View& view = r_.op_.epilogue_inputs[i];
      kept_cursor_.load(r_.epilogue_view(i), context_.at(view), r_.kernels_, view.dtype,
                        epilogue_[r_.epilogue_.inputs[r_.accumulators() + i]]);
    }
    for (const MicroIota& iota : r_.epilogue_.iotas) {
      kept_cursor_.count(iota_view(r_.epilogue_iotas_, iota, r_.epilogue_iota_view(0)),
                         positions());
      iota.convert(epilogue_[iota.location], positions(), nullptr, nullptr, n, 0);
    }
    run_steps(r_.epilogue_, epilogue_, n);
    for (size_t i = 0; i < r_.op_.outputs.size(); ++i) {
      const View& view = r_.op_.outputs[i];
      kept_cursor_.store(r_.output_view(i), context_.at(view), r_.kernels_, view.dtype,
                         epilogue_[r_.epilogue_.results[i]]);
    }
  }

 private:
  std::byte* buffer(int index) const { return arena_ + static_cast<size_t>(index) * kBufferStride; }
  int64_t* positions() const { return reinterpret_cast<int64_t*>(buffer(r_.positions_)); }
  int64_t register_width(size_t a) const { return register_bytes(r_.class_of(a)); }

  uint64_t load_immediate(const View& view) const {
    uint64_t value = 0;
    r_.kernels_.load[static_cast<size_t>(view.dtype)](&value, context_.at(view), 1, 1);
    return value;
  }

  void point(const MicroPlan& plan, int first_buffer, void** pointers) const {
    place_buffers(plan, buffer(first_buffer), pointers);
    place_constants(plan, pointers, static_cast<size_t>(kBlock));
  }

  static size_t iota_view(std::span<const MicroIota> list, const MicroIota& iota, size_t first) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].dimension == iota.dimension) {
        return first + i;
      }
    }
    return first;
  }

  // The prologue on the cursor's tile.
  void run_prologue(const TileCursor& cursor) {
    for (size_t i = 0; i < r_.op_.inputs.size(); ++i) {
      const View& view = r_.op_.inputs[i];
      void*& pointer = prologue_[r_.prologue_.inputs[i]];
      if (r_.external_[i]) {
        pointer = cursor.address(i, context_.at(view), dtype_bytes(view.dtype));
      } else {
        cursor.load(i, context_.at(view), r_.kernels_, view.dtype, pointer);
      }
    }
    for (const MicroIota& iota : r_.prologue_.iotas) {
      cursor.count(iota_view(r_.prologue_iotas_, iota, r_.prologue_iota_view(0)), positions());
      iota.convert(prologue_[iota.location], positions(), nullptr, nullptr, cursor.size(), 0);
    }
    run_steps(r_.prologue_, prologue_, cursor.size());
  }

  void chunk_by_rows(int64_t first, int64_t count, int64_t begin, int64_t n, void* const* totals) {
    TileCursor cursor(r_.kept_, r_.reduced_);
    cursor.seek(first, count, begin, n);
    run_prologue(cursor);
    for (size_t a = 0; a < r_.accumulators(); ++a) {
      const auto op = static_cast<size_t>(r_.op_.accumulators[a].combiner);
      r_.kernels_.fold[op][index_of(r_.class_of(a))](totals[a], prologue_[r_.prologue_.results[a]],
                                                     static_cast<size_t>(n),
                                                     static_cast<size_t>(count), n);
    }
  }

  void pair_partials(std::byte* const* partials, int64_t stride, int64_t rows, int64_t count) {
    for (; rows > 1; rows = (rows + 1) / 2) {
      for (int64_t i = 0; i < (rows + 1) / 2; ++i) {
        void* out[ncx::kMaxOutputs];
        void* even[ncx::kMaxOutputs];
        const void* odd[ncx::kMaxOutputs];
        for (size_t a = 0; a < r_.accumulators(); ++a) {
          const int64_t row = stride * register_width(a);
          out[a] = partials[a] + i * row;
          even[a] = partials[a] + 2 * i * row;
          odd[a] = partials[a] + (2 * i + 1) * row;
          if (2 * i + 1 == rows && i > 0) {
            std::memcpy(out[a], even[a], static_cast<size_t>(count * register_width(a)));
          }
        }
        if (2 * i + 1 < rows) {
          apply(out, even, odd, static_cast<size_t>(count));
        }
      }
    }
  }

  // All of a chunk for a general combiner: rows of `count` kept elements, in order.
  void chunk_in_pairs(int64_t first, int64_t count, int64_t begin, int64_t rows,
                      void* const* totals) {
    TileCursor cursor(r_.reduced_, r_.kept_);
    cursor.seek(begin, rows, first, count);
    run_prologue(cursor);
    void* even[ncx::kMaxOutputs];
    const void* odd[ncx::kMaxOutputs];
    for (size_t a = 0; a < r_.accumulators(); ++a) {
      even[a] = buffer(r_.lanes_ + static_cast<int>(a));
      odd[a] = buffer(r_.odds_ + static_cast<int>(a));
      split_rows(a, prologue_[r_.prologue_.results[a]], rows, count);
    }
    while (rows > 1) {
      apply(even, even, odd, static_cast<size_t>(rows / 2 * count));
      rows = (rows + 1) / 2;
      for (size_t a = 0; a < r_.accumulators(); ++a) {
        split_rows(a, even[a], rows, count);
      }
    }
    for (size_t a = 0; a < r_.accumulators(); ++a) {
      std::memcpy(totals[a], even[a], static_cast<size_t>(count * register_width(a)));
    }
  }

  // Rows 0, 2, 4, ... to the lanes' buffer, which may be where they are, the others to that of the
  // odd ones.
  void split_rows(size_t a, const void* from, int64_t rows, int64_t count) {
    void* even = buffer(r_.lanes_ + static_cast<int>(a));
    void* odd = buffer(r_.odds_ + static_cast<int>(a));
    const int64_t width = register_width(a);
    if (count == 1 && width == 4) {
      split_elements<uint32_t>(even, odd, from, rows);
    } else if (count == 1 && width == 8) {
      split_elements<uint64_t>(even, odd, from, rows);
    } else {
      const auto bytes = static_cast<size_t>(count * width);
      for (int64_t row = 0; row < rows; ++row) {
        void* to = static_cast<std::byte*>(row % 2 == 0 ? even : odd) + row / 2 * count * width;
        std::memmove(to, static_cast<const std::byte*>(from) + row * count * width, bytes);
      }
    }
  }

  template <class T>
  static void split_elements(void* even, void* odd, const void* from, int64_t count) {
    const auto* x = static_cast<const T*>(from);
    for (int64_t i = 0; i < count; ++i) {
      const T value = x[i];  // may be where the even ones go
      static_cast<T*>(i % 2 == 0 ? even : odd)[i / 2] = value;
    }
  }

  void chunk_by_columns(int64_t first, int64_t count, int64_t begin, int64_t n,
                        void* const* totals) {
    TileCursor cursor(r_.reduced_, r_.kept_);
    combined_ = 0;
    for (int64_t at = 0; at < n; at += r_.step_) {
      const int64_t rows = std::min(r_.step_, n - at);
      cursor.seek(begin + at, rows, first, count);
      run_prologue(cursor);
      for (int64_t row = 0; row < rows; row += kReduceLanes) {
        const void* x[ncx::kMaxOutputs];
        for (size_t a = 0; a < r_.accumulators(); ++a) {
          x[a] = static_cast<const std::byte*>(prologue_[r_.prologue_.results[a]]) +
                 row * count * register_width(a);
        }
        combine(x, std::min<int64_t>(kReduceLanes, rows - row), count);
      }
    }
    fold_lanes(totals, count);
  }

  // The next `rows` values of `count` kept elements join the lanes whose turn it is. They don't
  // wrap around the last lane.
  void combine(const void* const* x, int64_t rows, int64_t count) {
    const int64_t lane = combined_ % kReduceLanes;
    const auto n = static_cast<size_t>(rows * count);
    if (combined_ < kReduceLanes) {
      for (size_t a = 0; a < r_.accumulators(); ++a) {
        std::memcpy(lane_address(a, lane, count), x[a], n * static_cast<size_t>(register_width(a)));
      }
    } else {
      void* acc[ncx::kMaxOutputs];
      for (size_t a = 0; a < r_.accumulators(); ++a) {
        acc[a] = lane_address(a, lane, count);
      }
      apply(acc, acc, x, n);
    }
    combined_ += rows;
  }

  void fold_lanes(void* const* totals, int64_t count) {
    const int64_t used = std::min<int64_t>(combined_, kReduceLanes);
    for (int64_t half = kReduceLanes / 2; half > 0; half /= 2) {
      const int64_t lanes = std::min(half, used - half);
      if (lanes <= 0) {
        continue;
      }
      void* acc[ncx::kMaxOutputs];
      const void* x[ncx::kMaxOutputs];
      for (size_t a = 0; a < r_.accumulators(); ++a) {
        acc[a] = lane_address(a, 0, count);
        x[a] = lane_address(a, half, count);
      }
      apply(acc, acc, x, static_cast<size_t>(lanes * count));
    }
    for (size_t a = 0; a < r_.accumulators(); ++a) {
      std::memcpy(totals[a], lane_address(a, 0, count),
                  static_cast<size_t>(count * register_width(a)));
    }
  }

  std::byte* lane_address(size_t a, int64_t lane, int64_t count) const {
    return static_cast<std::byte*>(buffer(r_.lanes_ + static_cast<int>(a))) +
           lane * count * register_width(a);
  }

  // out = combine(a, b) for n elements of every accumulator; out may be a.
  void apply(void* const* out, void* const* a, const void* const* b, size_t n) {
    if (!r_.general()) {
      for (size_t i = 0; i < r_.accumulators(); ++i) {
        const auto op = static_cast<size_t>(r_.op_.accumulators[i].combiner);
        r_.kernels_.op[op][index_of(r_.class_of(i))](out[i], a[i], b[i], b[i], n, 0);
      }
      return;
    }
    const size_t count = r_.accumulators();
    for (size_t i = 0; i < count; ++i) {
      general_[r_.general_.inputs[i]] = a[i];
      general_[r_.general_.inputs[count + i]] = const_cast<void*>(b[i]);
    }
    run_steps(r_.general_, general_, n);
    store_results(out, n);
  }

  // Results may be inputs of one another's accumulator (a swap), so they move through the general
  // plan's buffers; only a result that is an input of another accumulator needs care.
  void store_results(void* const* out, size_t n) {
    const size_t count = r_.accumulators();
    const void* from[ncx::kMaxOutputs];
    bool clash = false;
    for (size_t i = 0; i < count; ++i) {
      from[i] = general_[r_.general_.results[i]];
      for (size_t k = 0; k < i; ++k) {
        clash |= from[i] == out[k];
      }
    }
    std::byte* copies = nullptr;
    if (clash) {
      copies_.resize(count * n * 8);
      copies = copies_.data();
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(copies + i * n * 8, from[i], n * static_cast<size_t>(register_width(i)));
        from[i] = copies + i * n * 8;
      }
    }
    for (size_t i = 0; i < count; ++i) {
      if (from[i] != out[i]) {
        std::memmove(out[i], from[i], n * static_cast<size_t>(register_width(i)));
      }
    }
  }

  void combine_with_init(size_t n, bool any) {
    void* totals[ncx::kMaxOutputs];
    void* inits[ncx::kMaxOutputs];
    for (size_t a = 0; a < r_.accumulators(); ++a) {
      totals[a] = buffer(r_.totals_ + static_cast<int>(a));
      inits[a] = buffer(r_.inits_ + static_cast<int>(a));
    }
    if (any) {
      const void* second[ncx::kMaxOutputs];
      std::copy(totals, totals + r_.accumulators(), second);
      apply(totals, inits, second, n);
    } else {
      for (size_t a = 0; a < r_.accumulators(); ++a) {
        std::memcpy(totals[a], inits[a], n * static_cast<size_t>(register_width(a)));
      }
    }
    for (size_t a = 0; a < r_.accumulators(); ++a) {
      const auto type = static_cast<size_t>(r_.op_.accumulators[a].type);
      if (r_.kernels_.settle[type] != nullptr) {
        r_.kernels_.settle[type](totals[a], totals[a], nullptr, nullptr, n, 0);
      }
      epilogue_[r_.epilogue_.inputs[a]] = totals[a];
    }
  }

  void cursor_kept(int64_t first, int64_t count) { kept_cursor_.seek(0, 1, first, count); }

  static const LoopNest& trivial_nest() {
    static const LoopNest kNest = [] {
      LoopNest nest;
      nest.strides.assign(2 * ncx::kMaxMicroInputs + 2 * ncx::kMaxMicroOps + ncx::kMaxOutputs,
                          Strides{});
      return nest;
    }();
    return kNest;
  }

  const ReduceExecutor& r_;
  const ExecContext& context_;
  std::byte* arena_;
  int64_t combined_ = 0;  // values that the lanes hold
  TileCursor kept_cursor_{trivial_nest(), r_.kept_};
  std::vector<std::byte> copies_;
  void* prologue_[kMaxLocations];
  void* general_[kMaxLocations];
  void* epilogue_[kMaxLocations];
};

Status ReduceExecutor::execute(const ExecContext& context) const {
  if (kept_.elements == 0) {
    return ok_status();
  }
  if (chunks_ <= 1) {
    return for_units(context, tiles_, tile_work(), [&](int64_t first, int64_t last) {
      Worker worker(*this, context);
      for (int64_t tile = first; worker.ready() && tile < last; ++tile) {
        worker.whole_tile(tile);
      }
      return worker.ready();
    });
  }
  return execute_in_chunks(context);
}

Status ReduceExecutor::execute_in_chunks(const ExecContext& context) const {
  // partials[a][chunk][kept]
  std::vector<std::byte*> partials(accumulators());
  std::vector<std::unique_ptr<std::byte[]>> owners;
  for (size_t a = 0; a < accumulators(); ++a) {
    const size_t bytes =
        static_cast<size_t>(chunks_ * kept_.elements) * register_bytes(class_of(a));
    owners.emplace_back(new (std::nothrow) std::byte[bytes]);
    partials[a] = owners.back().get();
    if (partials[a] == nullptr) {
      return no_buffer_memory();
    }
  }
  const auto row_of = [&](int64_t chunk, int64_t first, size_t a) {
    return partials[a] + (chunk * kept_.elements + first) * register_bytes(class_of(a));
  };
  ONRT_RETURN_IF_ERROR(
      for_units(context, tiles_ * chunks_, tile_work(), [&](int64_t first, int64_t last) {
        Worker worker(*this, context);
        for (int64_t unit = first; worker.ready() && unit < last; ++unit) {
          const int64_t kept = unit / chunks_ * tile_;
          void* totals[ncx::kMaxOutputs];
          for (size_t a = 0; a < accumulators(); ++a) {
            totals[a] = row_of(unit % chunks_, kept, a);
          }
          worker.chunk(kept, std::min(tile_, kept_.elements - kept), unit % chunks_, totals);
        }
        return worker.ready();
      }));
  const int64_t wide_tiles = (kept_.elements + wide_tile_ - 1) / wide_tile_;
  return for_units(context, wide_tiles, std::max<int64_t>(1, chunks_ * wide_tile_ * 4),
                   [&](int64_t first, int64_t last) {
                     Worker worker(*this, context);
                     for (int64_t tile = first; worker.ready() && tile < last; ++tile) {
                       const int64_t kept = tile * wide_tile_;
                       const int64_t count = std::min(wide_tile_, kept_.elements - kept);
                       std::byte* rows[ncx::kMaxOutputs];
                       for (size_t a = 0; a < accumulators(); ++a) {
                         rows[a] = row_of(0, kept, a);
                       }
                       worker.reduce_partials(rows, kept_.elements, chunks_, count);
                       worker.finish(kept, count, true);
                     }
                     return worker.ready();
                   });
}

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::Reduce& op, const ExecutorOptions& options) {
  return std::make_unique<ReduceExecutor>(op, options);
}

}  // namespace onrt
