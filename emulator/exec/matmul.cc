// SPDX-License-Identifier: Apache-2.0
// Gemm instructions: batches and epilogues around the packed matrix multiplication of gemm/gemm.h.
#include "emulator/exec/executor.h"
#include "emulator/exec/gemm/gemm.h"
#include "emulator/exec/tile_epilogue.h"

namespace onrt {
namespace {

using ncx::View;

// One call of gemm() does about this many multiplications, so that a deadline is seen in time.
constexpr double kWorkPerCall = 8e9;
constexpr int64_t kRowsPerCall = 512;

class MatmulExecutor final : public Executor {
 public:
  MatmulExecutor(const ncx::Gemm& op, const ExecutorOptions& options)
      : simd_(options.simd),
        op_(op),
        rank_(op.lhs.rank),
        m_(op.lhs.dims[rank_ - 2]),
        k_(op.lhs.dims[rank_ - 1]),
        n_(op.rhs.dims[rank_ - 1]),
        epilogue_(op_.type, op_.epilogue_inputs, op_.epilogue, op_.outputs, *options.kernels) {
    make_nests(epilogue_.strides());
    stores_directly_ =
        op_.epilogue.ops.empty() && op_.outputs.size() == 1 && op_.epilogue.results[0] == 0;
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

  // Batch dimensions are loops over lhs, rhs and then the epilogue's views; rows and columns are
  // the nests of a tile, over the epilogue's views alone.
  void make_nests(const std::vector<Strides>& tile_strides) {
    std::vector<Strides> strides = {op_.lhs.strides, op_.rhs.strides};
    strides.insert(strides.end(), tile_strides.begin(), tile_strides.end());
    batches_ = make_nest({op_.lhs.dims.data(), rank_ - 2}, strides, LoopOrder::kKept);
    if (rank_ == 2) {
      for (Strides& s : batches_.strides) {
        s[0] = 0;  // a single batch
      }
    }
    const auto one_loop = [&](size_t dim, int64_t size) {
      LoopNest nest;
      nest.dims[0] = size;
      nest.elements = size;
      for (const Strides& s : tile_strides) {
        nest.strides.push_back(Strides{s[dim]});
      }
      return nest;
    };
    rows_ = one_loop(rank_ - 2, m_);
    columns_ = one_loop(rank_ - 1, n_);
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
      const size_t view = batches_.strides.size() - 1;
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

  void finish_tile(const Call& call, const GemmTile& tile) const {
    std::array<int64_t, kMaxTileViews> bases;
    for (size_t v = 0; v < rows_.strides.size(); ++v) {
      bases[v] = row_offset(batches_, kEpilogueViews + v, call.batch_row) +
                 tile.batch * batches_.inner_stride(kEpilogueViews + v);
    }
    TileEpilogue::Tile sums{rows_, columns_, bases.data()};
    sums.row = call.first_row + tile.row;
    sums.rows = tile.rows;
    sums.column = tile.column;
    sums.columns = tile.columns;
    // Only read, as they are rounded.
    sums.values = static_cast<std::byte*>(const_cast<void*>(tile.values));
    sums.row_stride = tile.row_stride;
    sums.rounded = true;
    if (!epilogue_.run(call.context, sums)) {
      call.failed.store(true, std::memory_order_relaxed);
    }
  }

  static constexpr size_t kEpilogueViews = 2;  // in batches_, after lhs and rhs

  SimdLevel simd_;
  ncx::Gemm op_;
  size_t rank_;
  int64_t m_;
  int64_t k_;
  int64_t n_;
  TileEpilogue epilogue_;
  int64_t rows_per_call_ = 0;
  LoopNest batches_;
  LoopNest rows_;
  LoopNest columns_;
  bool stores_directly_ = false;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::Gemm& op, const ExecutorOptions& options) {
  return std::make_unique<MatmulExecutor>(op, options);
}

}  // namespace onrt
