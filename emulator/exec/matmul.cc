// SPDX-License-Identifier: Apache-2.0
// Gemm instructions: batches and epilogues around the packed matrix multiplication of gemm/gemm.h.
#include "emulator/exec/executor.h"
#include "emulator/exec/gemm/gemm.h"
#include "emulator/exec/micro_plan.h"
#include "emulator/exec/tile_io.h"

namespace onrt {
namespace {

using ncx::View;

constexpr size_t kMaxLocations = ncx::kMaxMicroInputs + 2 * ncx::kMaxMicroOps;
// One call of gemm() does about this many multiplications, so that a deadline is seen in time.
constexpr double kWorkPerCall = 8e9;
constexpr int64_t kRowsPerCall = 512;

class MatmulExecutor final : public Executor {
 public:
  MatmulExecutor(const ncx::Gemm& op, const ExecutorOptions& options)
      : kernels_(*options.kernels), simd_(options.simd), op_(op), rank_(op.lhs.rank) {
    m_ = op.lhs.dims[rank_ - 2];
    k_ = op.lhs.dims[rank_ - 1];
    n_ = op.rhs.dims[rank_ - 1];
    make_batches();
    stores_directly_ =
        op.epilogue.ops.empty() && op.outputs.size() == 1 && op.epilogue.results[0] == 0;
    if (!stores_directly_) {
      plan_epilogue();
    }
    const double work = static_cast<double>(n_) * static_cast<double>(k_) + 1;
    rows_per_call_ = std::max<int64_t>(
        kRowsPerCall, static_cast<int64_t>(kWorkPerCall / work) / kRowsPerCall * kRowsPerCall);
  }

  Status execute(const ExecContext& context) const override {
    if (batches_.elements == 0 || m_ == 0 || n_ == 0) {
      return ok_status();
    }
    // Packing buffers, kept by the thread between instructions.
    thread_local GemmScratch scratch;
    const int64_t inner = batches_.inner();
    for (int64_t row = 0; row < batches_.elements / inner; ++row) {
      for (int64_t first = 0; first < m_; first += rows_per_call_) {
        if (context.stop->raised()) {
          return context.stop->status();
        }
        Call call{*this, context, row, first, {}};
        ONRT_RETURN_IF_ERROR(run(call, std::min(rows_per_call_, m_ - first), scratch));
      }
    }
    return ok_status();
  }

 private:
  // One call of gemm(): a run of batches and a range of rows.
  struct Call {
    const MatmulExecutor& matmul;
    const ExecContext& context;
    int64_t batch_row;
    int64_t first_row;
    // An epilogue had no memory. Set by workers, read after they are done.
    mutable std::atomic<bool> failed{false};
  };

  size_t epilogue_view(size_t i) const { return 2 + i; }
  size_t iota_view(size_t i) const { return 2 + op_.epilogue_inputs.size() + i; }
  size_t output_view(size_t i) const { return iota_view(iotas_.size()) + i; }

  // Views: lhs, rhs, epilogue inputs, iotas, outputs. Batch dimensions become loops, rows and
  // columns the nests of a tile.
  void make_batches() {
    for (const ncx::MicroOp& op : op_.epilogue.ops) {
      if (op.op == ncx::ScalarOp::kIota) {
        iotas_.push_back({0, op.immediate, nullptr});
      }
    }
    std::vector<Strides> strides = {op_.lhs.strides, op_.rhs.strides};
    for (const View& view : op_.epilogue_inputs) {
      strides.push_back(view.strides);
    }
    for (const MicroIota& iota : iotas_) {
      Strides unit{};
      unit[iota.dimension] = 1;
      strides.push_back(unit);
    }
    for (const View& view : op_.outputs) {
      strides.push_back(view.strides);
    }
    batches_ = make_nest({op_.lhs.dims.data(), rank_ - 2}, strides, LoopOrder::kKept);
    const auto one_loop = [&](size_t dim, int64_t size) {
      LoopNest nest;
      nest.dims[0] = size;
      nest.elements = size;
      for (const Strides& s : strides) {
        nest.strides.push_back(Strides{s[dim]});
      }
      return nest;
    };
    rows_ = one_loop(rank_ - 2, m_);
    columns_ = one_loop(rank_ - 1, n_);
    if (rank_ == 2) {
      for (Strides& s : batches_.strides) {
        s[0] = 0;  // a single batch
      }
    }
  }

  void plan_epilogue() {
    std::vector<Dtype> types = {op_.type};
    bool external[ncx::kMaxMicroInputs + 1] = {true};
    bool constant[ncx::kMaxMicroInputs + 1] = {};
    bool none[ncx::kMaxOutputs] = {};
    for (const View& view : op_.epilogue_inputs) {
      types.push_back(view.dtype);
    }
    plan_ = plan_micro(
        op_.epilogue,
        {types, {external, types.size()}, {constant, types.size()}, {none, op_.outputs.size()}},
        kernels_);
  }

  GemmOperand operand(const View& view, size_t index, const ExecContext& context, int64_t batch_row,
                      int64_t first_row) const {
    const int64_t width = dtype_bytes(view.dtype);
    const int64_t offset = row_offset(batches_, index, batch_row) +
                           (index == 0 ? first_row * view.strides[rank_ - 2] : 0);
    return {context.at(view) + offset * width, view.dtype, batches_.inner_stride(index),
            view.strides[rank_ - 2], view.strides[rank_ - 1]};
  }

  Status run(Call& call, int64_t rows, GemmScratch& scratch) const {
    GemmProblem problem;
    problem.batch = batches_.inner();
    problem.m = rows;
    problem.n = n_;
    problem.k = k_;
    problem.a = operand(op_.lhs, 0, call.context, call.batch_row, call.first_row);
    problem.b = operand(op_.rhs, 1, call.context, call.batch_row, call.first_row);
    problem.c.dtype = op_.type;
    if (stores_directly_) {
      const View& out = op_.outputs[0];
      const size_t view = output_view(0);
      const int64_t offset =
          row_offset(batches_, view, call.batch_row) + call.first_row * out.strides[rank_ - 2];
      problem.c = {call.context.at(out) + offset * static_cast<int64_t>(dtype_bytes(out.dtype)),
                   out.dtype, batches_.inner_stride(view), out.strides[rank_ - 2],
                   out.strides[rank_ - 1]};
    } else {
      problem.epilogue = [](void* context, const GemmTile& tile) {
        const Call& c = *static_cast<const Call*>(context);
        c.matmul.finish_tile(c, tile);
      };
      problem.epilogue_context = &call;
    }
    ONRT_RETURN_IF_ERROR(gemm(problem, simd_, call.context.pool, scratch));
    return call.failed.load(std::memory_order_relaxed) ? no_buffer_memory() : ok_status();
  }

  // Runs the epilogue on a tile of results, in blocks of whole rows or parts of a row.
  void finish_tile(const Call& call, const GemmTile& tile) const {
    std::byte* arena = thread_arena(static_cast<size_t>(plan_.buffers + 2) * kBufferStride);
    if (arena == nullptr) {
      call.failed.store(true, std::memory_order_relaxed);
      return;
    }
    void* pointers[kMaxLocations];
    for (size_t i = 0; i < plan_.locations(); ++i) {
      pointers[i] = arena + static_cast<size_t>(std::max(plan_.buffer[i], 0)) * kBufferStride;
    }
    place_constants(plan_, pointers, static_cast<size_t>(kBlock));
    std::byte* dense = arena + static_cast<size_t>(plan_.buffers) * kBufferStride;
    const int64_t columns = std::min(tile.columns, kBlock);
    const int64_t rows = columns == tile.columns ? std::max<int64_t>(1, kBlock / columns) : 1;
    for (int64_t r = 0; r < tile.rows; r += rows) {
      for (int64_t c = 0; c < tile.columns; c += columns) {
        finish_block(call, tile,
                     {r, std::min(rows, tile.rows - r), c, std::min(columns, tile.columns - c)},
                     pointers, dense);
      }
    }
  }

  struct Block {
    int64_t row, rows, column, columns;
  };

  void finish_block(const Call& call, const GemmTile& tile, const Block& block, void** pointers,
                    std::byte* dense) const {
    const int64_t width = register_bytes(ncx::register_class(op_.type));
    const auto* values = static_cast<const std::byte*>(tile.values) +
                         (block.row * tile.row_stride + block.column) * width;
    if (block.rows == 1 || tile.row_stride == block.columns) {
      pointers[plan_.inputs[0]] = const_cast<std::byte*>(values);
    } else {
      for (int64_t r = 0; r < block.rows; ++r) {
        std::copy_n(values + r * tile.row_stride * width, block.columns * width,
                    dense + r * block.columns * width);
      }
      pointers[plan_.inputs[0]] = dense;
    }
    TileCursor cursor(rows_, columns_);
    cursor.seek(call.first_row + tile.row + block.row, block.rows, tile.column + block.column,
                block.columns);
    const auto base = [&](const View& view, size_t index) {
      const int64_t offset =
          row_offset(batches_, index, call.batch_row) + tile.batch * batches_.inner_stride(index);
      return call.context.at(view) + offset * static_cast<int64_t>(dtype_bytes(view.dtype));
    };
    for (size_t i = 0; i < op_.epilogue_inputs.size(); ++i) {
      const View& view = op_.epilogue_inputs[i];
      cursor.load(epilogue_view(i), base(view, epilogue_view(i)), kernels_, view.dtype,
                  pointers[plan_.inputs[i + 1]]);
    }
    count_iotas(call, tile, cursor, pointers, reinterpret_cast<int64_t*>(dense + kBufferStride));
    run_steps(plan_, pointers, cursor.size());
    for (size_t i = 0; i < op_.outputs.size(); ++i) {
      const View& view = op_.outputs[i];
      cursor.store(output_view(i), base(view, output_view(i)), kernels_, view.dtype,
                   pointers[plan_.results[i]]);
    }
  }

  void count_iotas(const Call& call, const GemmTile& tile, const TileCursor& cursor,
                   void** pointers, int64_t* positions) const {
    for (const MicroIota& iota : plan_.iotas) {
      size_t view = iota_view(0);
      for (size_t i = 0; i < iotas_.size(); ++i) {
        view = iotas_[i].dimension == iota.dimension ? iota_view(i) : view;
      }
      const int64_t start =
          row_offset(batches_, view, call.batch_row) + tile.batch * batches_.inner_stride(view);
      cursor.count(view, positions);
      for (size_t i = 0; i < cursor.size(); ++i) {
        positions[i] += start;
      }
      iota.convert(pointers[iota.location], positions, nullptr, nullptr, cursor.size(), 0);
    }
  }

  const KernelTable& kernels_;
  SimdLevel simd_;
  ncx::Gemm op_;
  size_t rank_;
  int64_t m_ = 0;
  int64_t n_ = 0;
  int64_t k_ = 0;
  int64_t rows_per_call_ = 0;
  std::vector<MicroIota> iotas_;
  LoopNest batches_;
  LoopNest rows_;
  LoopNest columns_;
  bool stores_directly_ = false;
  MicroPlan plan_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::Gemm& op, const ExecutorOptions& options) {
  return std::make_unique<MatmulExecutor>(op, options);
}

}  // namespace onrt
