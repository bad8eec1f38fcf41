// SPDX-License-Identifier: Apache-2.0
// Conv instructions as implicit matrix products: lines (positions of the output) by features,
// summed over terms. The kernel is packed once for the sweeps of gemm/kernels.h; the input is read
// into their buffers block by block (conv_fill.h). What lies side by side in memory decides whether
// features or positions are the columns that vectors run along.
#include <algorithm>
#include <deque>

#include "emulator/exec/conv_fill.h"
#include "emulator/exec/conv_grouped.h"
#include "emulator/exec/conv_relayout.h"
#include "emulator/exec/executor.h"
#include "emulator/exec/gemm/dispatch.h"
#include "emulator/exec/gemm/gemm.h"
#include "emulator/exec/tile_epilogue.h"
#include "emulator/isa/reduce_order.h"

namespace onrt {
namespace {

using gemm_detail::Kernels;
using gemm_detail::kPanel;
using gemm_detail::Sum;
using gemm_detail::Sums;
using gemm_detail::SweepJob;
using ncx::View;

constexpr int64_t kDepth = ncx::kDotBlock;
constexpr int64_t kTileElements = 1 << 17;
constexpr int64_t kSmallKernel = 1 << 18;     // elements that stay in the second cache
constexpr int64_t kItemWork = 1 << 20;        // multiplications worth a thread's attention
constexpr int64_t kShortRun = 8;              // neighbouring elements that are hardly worth a call
constexpr int64_t kPositionColumns = 256;     // positions that are columns at once
constexpr int64_t kPackedElements = 1 << 22;  // of kernels that are packed before a round
constexpr size_t kMostCachedPhases = 64;
constexpr int64_t kMostJobs = 4096;  // of a round

// Storages of GemmScratch: for packed kernels, for a copy of the input, then these for each lane.
constexpr size_t kPackedKernels = 0;
constexpr size_t kInputCopy = 1;
constexpr size_t kShared = 2;
enum Storage : size_t { kFilled, kLines, kRow, kTile, kPackBuffer, kStorages };

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
int64_t divide_up(int64_t value, int64_t step) { return (value + step - 1) / step; }
int64_t even_share(int64_t count, int64_t most) {
  return count == 0 ? 1 : divide_up(count, divide_up(count, most));
}

Sum sum_of(Dtype type) {
  switch (gemm_accumulator(type)) {
    case Dtype::kF32:
      return Sum::kF32;
    case Dtype::kS32:
      return Sum::kU32;
    default:
      return Sum::kU64;
  }
}

// Outputs that meet the same kernel positions, and how their product is cut.
struct Phase {
  ConvMatrix matrix;
  LoopNest lines;
  LoopNest features;
  std::vector<int64_t> bases;  // by view of the epilogue, for group 0
  int64_t line_count = 0;
  int64_t terms = 0;
  bool feature_columns = true;
  bool along = true;       // lines are read along their terms; features are columns then
  int64_t width = kPanel;  // of the packed kernel's panels
  int64_t panels = 0;
  int64_t strip = 1;  // lines in a register tile if features are columns
  int64_t block = 1;  // lines of a tile of sums
  int64_t item = 1;   // lines of a chunk of work

  int64_t packed_elements() const { return terms * width * panels; }
  int64_t items() const { return divide_up(line_count, item); }
  int64_t tile_rows() const { return feature_columns ? round_up(block, strip) : panels * width; }
  int64_t tile_columns() const {
    return feature_columns ? panels * width : round_up(block, kPanel);
  }
};

// A group of a phase.
struct Job {
  const Phase* phase;
  int64_t group;
  int64_t packed;      // first element of its packed kernel
  int64_t first_item;  // of the round
};

class ConvExecutor final : public Executor {
 public:
  ConvExecutor(const ncx::Conv& op, const ExecutorOptions& options)
      : op_(op),
        kernels_(gemm_detail::kernels_for(options.simd)),
        sum_(static_cast<size_t>(sum_of(op.type))),
        element_(sum_ == static_cast<size_t>(Sum::kU64) ? 8 : 4),
        relayout_(op_, sum_, sum_dtype(), static_cast<size_t>(element_)),
        input_strides_(relayout_.strides()),
        epilogue_(op_.type, op_.epilogue_inputs, op_.epilogue, op_.outputs, *options.kernels),
        strides_(epilogue_.strides()) {
    int64_t phases = 1;
    for (size_t d = 0; d < op_.axes.size(); ++d) {
      axes_.push_back(conv_axis_phases(op_.axes[d], op_.input.dims[3 + d], op_.kernel.dims[3 + d],
                                       op_.outputs[0].dims[3 + d]));
      phases *= static_cast<int64_t>(axes_.back().size());
    }
    for (int d = 0; d < op_.outputs[0].rank; ++d) {
      empty_ = empty_ || op_.outputs[0].dims[static_cast<size_t>(d)] == 0;
    }
    phase_count_ = phases;
    if (!empty_ && phases <= static_cast<int64_t>(kMostCachedPhases)) {
      for (int64_t i = 0; i < phases; ++i) {
        cached_.push_back(make_phase(i));
      }
    }
  }

  Status execute(const ExecContext& context) const override {
    if (empty_) {
      return ok_status();
    }
    thread_local GemmScratch scratch;  // kept by the thread between instructions
    ONRT_RETURN_IF_ERROR(copy_input(context, scratch));
    const int64_t groups = op_.input.dims[0];
    const int64_t jobs = phase_count_ * groups;
    for (int64_t next = 0; next < jobs;) {
      Round round{context, scratch, {}, {}};
      while (next < jobs && round.accepts()) {
        const int64_t phase = next / groups;
        if (cached_.empty() && (round.phases.empty() || next % groups == 0)) {
          round.phases.push_back(make_phase(phase));
        }
        round.add(cached_.empty() ? round.phases.back() : cached_[static_cast<size_t>(phase)],
                  next % groups);
        ++next;
      }
      ONRT_RETURN_IF_ERROR(run(round));
    }
    return ok_status();
  }

 private:
  // Jobs whose kernels are packed, then multiplied.
  struct Round {
    const ExecContext& context;
    GemmScratch& scratch;
    std::deque<Phase> phases;  // that are not cached
    std::vector<Job> jobs;
    int64_t packed = 0;
    int64_t items = 0;
    // Set and read by the chunks of work; relaxed: only a hint to skip, and read last after the
    // join.
    mutable std::atomic<bool> stopped{false};
    mutable std::atomic<bool> failed{false};

    bool accepts() const {
      return jobs.empty() ||
             (packed < kPackedElements && static_cast<int64_t>(jobs.size()) < kMostJobs);
    }
    void add(const Phase& phase, int64_t group) {
      jobs.push_back({&phase, group, packed, items});
      packed += round_up(phase.packed_elements(), kPanel);
      items += phase.items();
    }
    bool stop() const {
      if (stopped.load(std::memory_order_relaxed) || context.stop->raised()) {
        stopped.store(true, std::memory_order_relaxed);
        return true;
      }
      return failed.load(std::memory_order_relaxed);
    }
  };

  // ---- planning -------------------------------------------------------------------------------

  Phase make_phase(int64_t number) const {
    Phase phase;
    ConvMatrix& m = phase.matrix;
    m.axis_count = op_.axes.size();
    m.features = op_.kernel.dims[1];
    m.feature_stride = m.features == 1 ? 1 : input_strides_[2];
    m.dtype = relayout_.dtype();
    m.sum = sum_;
    m.element_bytes = static_cast<size_t>(element_);
    phase.bases.assign(strides_.size(), 0);
    for (size_t d = m.axis_count; d-- > 0;) {
      const auto count = static_cast<int64_t>(axes_[d].size());
      m.axes[d] = {axes_[d][static_cast<size_t>(number % count)], input_strides_[3 + d]};
      number /= count;
      for (size_t v = 0; v < strides_.size(); ++v) {
        phase.bases[v] += strides_[v][3 + d] * m.axes[d].phase.out_first;
      }
    }
    phase.terms = m.terms();
    choose_form(phase);
    choose_sizes(phase);
    return phase;
  }

  // Loops of the lines, and what runs along vectors.
  void choose_form(Phase& phase) const {
    ConvMatrix& m = phase.matrix;
    const int64_t batch = op_.input.dims[1];
    const int64_t features = op_.kernel.dims[2];
    const bool batch_last = batch >= kShortRun && input_strides_[1] == 1;
    std::vector<int64_t> dims;
    std::vector<Strides> strides(strides_.size());
    const auto add_loop = [&](int64_t size, int axis, int64_t in_stride, int64_t out_step) {
      m.loops[m.loop_count++] = {size, axis, static_cast<uint64_t>(in_stride)};
      for (size_t v = 0; v < strides.size(); ++v) {
        strides[v][dims.size()] =
            strides_[v][axis < 0 ? 1 : static_cast<size_t>(3 + axis)] * out_step;
      }
      dims.push_back(size);
    };
    if (!batch_last) {
      add_loop(batch, -1, input_strides_[1], 1);
    }
    for (size_t d = 0; d < m.axis_count; ++d) {
      const ConvMatrix::Axis& axis = m.axes[d];
      const auto step =
          static_cast<uint64_t>(axis.in_stride) * static_cast<uint64_t>(axis.phase.stride);
      add_loop(axis.phase.out, static_cast<int>(d), static_cast<int64_t>(step),
               axis.phase.out_step);
    }
    if (batch_last) {
      add_loop(batch, -1, input_strides_[1], 1);
    }
    phase.lines = make_nest(dims, strides, LoopOrder::kKept);
    for (size_t v = 0; v < strides.size(); ++v) {
      strides[v] = Strides{strides_[v][2]};
    }
    phase.features = make_nest({&features, 1}, strides, LoopOrder::kKept);
    phase.line_count = m.lines();
    const int64_t inner = m.loops[m.loop_count - 1].size;
    const int64_t window = m.axis_count == 0 ? 1 : m.axes[m.axis_count - 1].phase.size;
    phase.along = (m.features > 1 && m.feature_stride == 1) || inner < 4 ||
                  (!batch_last && inner < 2 * kShortRun && window > inner);
    phase.feature_columns = phase.along || phase.line_count < kPanel ||
                            (features >= kPanel && op_.outputs[0].strides[2] == 1);
  }

  void choose_sizes(Phase& phase) const {
    const int64_t features = op_.kernel.dims[2];
    const int most = kernels_.max_rows[sum_];
    if (phase.feature_columns) {
      const bool lines = phase.along && sum_ == static_cast<size_t>(Sum::kF32);
      phase.width = kPanel;
      phase.strip = even_share(phase.line_count, lines ? kernels_.line_rows : most);
    } else {
      phase.width = even_share(features, most);
    }
    phase.panels = divide_up(features, phase.width);
    const int64_t other = std::max<int64_t>(1, phase.panels * phase.width);
    int64_t tile = std::max<int64_t>(1, kTileElements / other);
    if (phase.feature_columns) {
      const bool small = phase.terms <= kDepth || phase.terms * other <= kSmallKernel;
      tile = std::min(tile, phase.along && small ? phase.strip : kMostConvLines);
      tile = std::max(tile, phase.strip) / phase.strip * phase.strip;
      tile = std::min(tile, round_up(divide_up(phase.line_count, 4), phase.strip));
    } else {
      tile = std::max(std::min(tile, kPositionColumns) / kPanel * kPanel, int64_t{kPanel});
    }
    phase.block = tile;
    const double work =
        static_cast<double>(other) * static_cast<double>(std::max<int64_t>(phase.terms, 1));
    const auto wanted = static_cast<int64_t>(static_cast<double>(kItemWork) / work) + 1;
    phase.item = round_up(std::min(wanted, phase.line_count), tile);
  }

  // ---- running --------------------------------------------------------------------------------

  Status run(const Round& round) const {
    const int lanes = round.context.pool == nullptr ? 1 : round.context.pool->threads();
    if (!reserve(round, static_cast<size_t>(lanes))) {
      return no_buffer_memory();
    }
    for_chunks(round, static_cast<int64_t>(round.jobs.size()), [&](int64_t chunk, int lane) {
      pack_kernel(round, round.jobs[static_cast<size_t>(chunk)], lane);
    });
    for_chunks(round, round.items, [&](int64_t item, int lane) {
      const auto after = std::ranges::upper_bound(round.jobs, item, {},
                                                  [](const Job& job) { return job.first_item; });
      run_item(round, *(after - 1), item - (after - 1)->first_item, lane);
    });
    if (round.failed.load(std::memory_order_relaxed)) {
      return no_buffer_memory();
    }
    return round.stopped.load(std::memory_order_relaxed) ? round.context.stop->status()
                                                         : ok_status();
  }

  Status copy_input(const ExecContext& context, GemmScratch& scratch) const {
    if (!relayout_.wanted()) {
      return ok_status();
    }
    const Round round{context, scratch, {}, {}};
    const int lanes = context.pool == nullptr ? 1 : context.pool->threads();
    void* memory = reserve(round, static_cast<size_t>(lanes))
                       ? scratch.reserve(kInputCopy, bytes(relayout_.elements()))
                       : nullptr;
    if (memory == nullptr) {
      return no_buffer_memory();
    }
    auto* copy = static_cast<std::byte*>(memory);
    for_chunks(round, relayout_.chunks(), [&](int64_t chunk, int lane) {
      relayout_.copy(chunk, context.at(op_.input), copy, storage(round, kPackBuffer, lane),
                     kernels_);
    });
    return round.stopped.load(std::memory_order_relaxed) ? context.stop->status() : ok_status();
  }

  template <class Function>
  static void for_chunks(const Round& round, int64_t chunks, const Function& function) {
    const auto run = [&](size_t chunk, int lane) {
      if (!round.stop()) {
        function(static_cast<int64_t>(chunk), lane);
      }
    };
    if (round.context.pool != nullptr) {
      round.context.pool->parallel_for(static_cast<size_t>(chunks), run);
      return;
    }
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      run(static_cast<size_t>(chunk), 0);
    }
  }

  bool reserve(const Round& round, size_t lanes) const {
    std::array<int64_t, kStorages> elements{};
    elements[kPackBuffer] = gemm_detail::kPackBuffer;
    for (const Job& job : round.jobs) {
      const Phase& p = *job.phase;
      const int64_t depth = std::min(p.terms, kDepth);
      const int64_t filled = p.feature_columns && p.along
                                 ? p.strip * depth
                                 : round_up(p.block, p.feature_columns ? p.strip : kPanel) * depth;
      const std::array<int64_t, kStorages> need = {
          filled, p.along ? p.strip * line_width(depth) : 0,
          round_up(p.block, p.strip) + 2 * kPanel, p.tile_rows() * p.tile_columns(),
          gemm_detail::kPackBuffer};
      for (size_t i = 0; i < kStorages; ++i) {
        elements[i] = std::max(elements[i], need[i]);
      }
    }
    round.scratch.set_count(kShared + lanes * kStorages);
    bool done =
        round.scratch.reserve(kPackedKernels, bytes(std::max<int64_t>(round.packed, 1))) != nullptr;
    for (size_t i = 0; i < lanes * kStorages; ++i) {
      done =
          done && round.scratch.reserve(
                      kShared + i, bytes(std::max<int64_t>(elements[i % kStorages], 1))) != nullptr;
    }
    return done;
  }

  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements * element_); }

  static std::byte* storage(const Round& round, Storage which, int lane) {
    return static_cast<std::byte*>(
        round.scratch.reserve(kShared + static_cast<size_t>(lane) * kStorages + which, 0));
  }
  static std::byte* packed_storage(const Round& round) {
    return static_cast<std::byte*>(round.scratch.reserve(kPackedKernels, 0));
  }

  // Elements between lines that are read along their terms: no multiple of the cache's period.
  static int64_t line_width(int64_t depth) { return round_up(depth, kPanel) + kPanel; }

  // The dtype of values that have been read.
  uint8_t sum_dtype() const {
    constexpr uint8_t kTypes[] = {gemm_detail::kF32Type, gemm_detail::kU32Type,
                                  gemm_detail::kU64Type};
    return kTypes[sum_];
  }

  // All terms of the kernel, in blocks of kDepth: [block][panel][k][width].
  void pack_kernel(const Round& round, const Job& job, int lane) const {
    const Phase& p = *job.phase;
    const ConvMatrix& m = p.matrix;
    const View& kernel = op_.kernel;
    std::byte* to = packed_storage(round) + job.packed * element_;
    std::byte* buffer = storage(round, kPackBuffer, lane);
    std::array<int64_t, kMaxConvAxes> index{};
    int64_t feature = 0;
    for (int64_t k = 0; k < p.terms; k += kDepth) {
      const int64_t depth = std::min(kDepth, p.terms - k);
      for (int64_t done = 0; done < depth;) {
        int64_t offset = job.group * kernel.strides[0] + feature * kernel.strides[1];
        for (size_t d = 0; d < m.axis_count; ++d) {
          const ConvAxisPhase& axis = m.axes[d].phase;
          offset += (axis.kernel_first + index[d] * axis.kernel_step) * kernel.strides[3 + d];
        }
        const int64_t count = std::min(m.features - feature, depth - done);
        const auto* data = round.context.at(kernel) + offset * dtype_bytes(kernel.dtype);
        // One step has no stride along k: 0 keeps it apart from lines side by side.
        const gemm_detail::Source source{data, static_cast<uint8_t>(kernel.dtype),
                                         kernel.strides[2], count == 1 ? 0 : kernel.strides[1]};
        kernels_.pack[sum_]({source, kernel.dims[2], count, static_cast<int>(p.width),
                             depth * p.width, to + done * p.width * element_, buffer});
        done += count;
        feature += count;
        if (feature < m.features) {
          continue;
        }
        feature = 0;
        next_position(m, index);
      }
      to += depth * p.width * p.panels * element_;
    }
  }

  // What the blocks of an item share.
  struct Work {
    const Round& round;
    const Job& job;
    const Phase& phase;
    const ConvFill fill;
    int lane;
    std::byte* tile;
  };

  void run_item(const Round& round, const Job& job, int64_t item, int lane) const {
    const Phase& p = *job.phase;
    const auto* from = relayout_.wanted()
                           ? static_cast<const std::byte*>(round.scratch.reserve(kInputCopy, 0))
                           : round.context.at(op_.input);
    const std::byte* data =
        from + job.group * input_strides_[0] * static_cast<int64_t>(relayout_.element_bytes());
    const Work work{
        round, job, p, ConvFill(p.matrix, data, kernels_), lane, storage(round, kTile, lane)};
    const int64_t end = std::min(p.line_count, (item + 1) * p.item);
    for (int64_t line = item * p.item; line < end && !round.stop(); line += p.block) {
      const int64_t lines = std::min(p.block, end - line);
      for (int64_t k = 0; k == 0 || k < p.terms; k += kDepth) {
        const int64_t depth = std::min(kDepth, p.terms - k);
        if (p.feature_columns) {
          multiply_lines(work, line, lines, k, depth);
        } else {
          multiply_positions(work, line, lines, k, depth);
        }
      }
      finish(work, line, lines);
    }
  }

  const std::byte* packed(const Work& work, int64_t k) const {
    const Phase& p = work.phase;
    return packed_storage(work.round) + (work.job.packed + k * p.width * p.panels) * element_;
  }

  // Lines are rows, features columns.
  void multiply_lines(const Work& work, int64_t line, int64_t lines, int64_t k,
                      int64_t depth) const {
    const Phase& p = work.phase;
    std::byte* filled = storage(work.round, kFilled, work.lane);
    if (!p.along) {
      work.fill.across(line, lines, k, depth, p.strip, filled,
                       storage(work.round, kRow, work.lane));
    }
    const int64_t columns = p.tile_columns();
    for (int64_t first = 0; first < lines; first += p.strip) {
      const int64_t rows = std::min(p.strip, lines - first);
      SweepJob job{};
      job.k = depth;
      job.b = packed(work, k);
      job.b_k_stride = kPanel;
      job.b_panel_stride = depth * kPanel;
      job.to = {work.tile + first * columns * element_, columns, kPanel};
      job.from = k == 0 ? Sums{} : job.to;
      job.columns = columns;
      if (!p.along) {
        job.a = filled + first * depth * element_;
        job.rows = static_cast<int>(p.strip);
        kernels_.sweep[sum_](job);
      } else {
        sweep_along(work, line + first, rows, k, job);
      }
    }
  }

  void sweep_along(const Work& work, int64_t line, int64_t rows, int64_t k, SweepJob& job) const {
    std::byte* values = storage(work.round, kLines, work.lane);
    const int64_t width = line_width(job.k);
    work.fill.along(line, rows, k, job.k, width, values);
    job.rows = static_cast<int>(rows);
    if (sum_ == static_cast<size_t>(Sum::kF32)) {
      job.a = values;
      job.a_row_stride = width;
      kernels_.sweep_lines(job);
      return;
    }
    std::byte* packed = storage(work.round, kFilled, work.lane);
    kernels_.pack[sum_]({{values, sum_dtype(), width, 1},
                         rows,
                         job.k,
                         job.rows,
                         0,
                         packed,
                         storage(work.round, kPackBuffer, work.lane)});
    job.a = packed;
    kernels_.sweep[sum_](job);
  }

  // Features are rows, lines columns.
  void multiply_positions(const Work& work, int64_t line, int64_t lines, int64_t k,
                          int64_t depth) const {
    const Phase& p = work.phase;
    std::byte* filled = storage(work.round, kFilled, work.lane);
    work.fill.across(line, lines, k, depth, kPanel, filled, storage(work.round, kRow, work.lane));
    const int64_t columns = round_up(lines, kPanel);
    for (int64_t panel = 0; panel < p.panels; ++panel) {
      SweepJob job{};
      job.k = depth;
      job.a = packed(work, k) + panel * depth * p.width * element_;
      job.rows = static_cast<int>(p.width);
      job.b = filled;
      job.b_k_stride = kPanel;
      job.b_panel_stride = depth * kPanel;
      job.to = {work.tile + panel * p.width * columns * element_, columns, kPanel};
      job.from = k == 0 ? Sums{} : job.to;
      job.columns = columns;
      kernels_.sweep[sum_](job);
    }
  }

  void finish(const Work& work, int64_t line, int64_t lines) const {
    const Phase& p = work.phase;
    std::array<int64_t, kMaxTileViews> bases;
    for (size_t v = 0; v < strides_.size(); ++v) {
      bases[v] = p.bases[v] + work.job.group * strides_[v][0];
    }
    const int64_t features = op_.kernel.dims[2];
    const TileEpilogue::Tile tile =
        p.feature_columns
            ? TileEpilogue::Tile{p.lines,  p.features, bases.data(),    line, lines, 0,
                                 features, work.tile,  p.tile_columns()}
            : TileEpilogue::Tile{p.features, p.lines,   bases.data(),           0, features, line,
                                 lines,      work.tile, round_up(lines, kPanel)};
    if (!epilogue_.run(work.round.context, tile)) {
      work.round.failed.store(true, std::memory_order_relaxed);
    }
  }

  const ncx::Conv op_;
  const Kernels& kernels_;
  const size_t sum_;       // gemm_detail::Sum
  const int64_t element_;  // bytes of a sum
  const ConvRelayout relayout_;
  const Strides& input_strides_;
  const TileEpilogue epilogue_;
  const std::vector<Strides> strides_;  // of the epilogue's views
  std::vector<std::vector<ConvAxisPhase>> axes_;
  int64_t phase_count_ = 0;
  bool empty_ = false;
  std::vector<Phase> cached_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::Conv& op, const ExecutorOptions& options) {
  return conv_is_grouped(op) ? make_grouped_conv(op, options)
                             : std::make_unique<ConvExecutor>(op, options);
}

}  // namespace onrt
