// SPDX-License-Identifier: Apache-2.0
// Blocking, threads and the end of the tiles; the arithmetic is in kernel_body.h.
//
// Blocked: for a block of columns and a block of k, B is packed once and then sits in the second
// cache; every panel of rows of A is packed by the thread that multiplies it with all of that B.
// Sums that wait for the next block of k lie panel by panel, where no two rows of a register tile
// fall into one cache set.
// Rows of A that lie along k are read as lines, without packing, where packing would not be repaid.
// Narrow (few rows): A is packed whole, and each chunk of columns runs through all of k, reading B
// where it lies if it can. A product with few columns is computed transposed.
#include "emulator/exec/gemm/gemm.h"

#include <algorithm>
#include <array>

#include "emulator/exec/gemm/dispatch.h"
#include "emulator/exec/gemm/finish.h"
#include "emulator/isa/reduce_order.h"
#include "runtime/base/format.h"

namespace onrt {
namespace {

using gemm_detail::Finish;
using gemm_detail::Kernels;
using gemm_detail::kPanel;
using gemm_detail::PackJob;
using gemm_detail::Source;
using gemm_detail::Sum;
using gemm_detail::Sums;
using gemm_detail::SweepJob;

constexpr int64_t kDepth = ncx::kDotBlock;
constexpr int64_t kBlockColumns = 1024;  // a block of B is 1 MiB of f32
constexpr int64_t kBlockRows = 2048;     // bounds the waiting sums: 8 MiB
// B is read where it lies if there are few rows to repay packing it, and it fits the second cache.
constexpr int64_t kInPlaceRows = 256;
constexpr int64_t kInPlaceElements = 1 << 18;
constexpr int64_t kNarrowColumns = 128;
// Packing rows of A costs what multiplying them with about 16 columns does; with fewer columns than
// this the slower sweep along lines wins. Types that must be converted save more.
constexpr int64_t kLineColumns = 384;
constexpr int64_t kLineColumnsConverted = 768;
// Rows whose distance is a multiple of this share few sets of the first cache: they are copied.
constexpr int64_t kLineConflict = 2048;
constexpr int64_t kPackColumns = 256;
// Less is not worth a thread's attention (about 5 us). Chunks change who computes what, never what
// is computed: the order of every sum is fixed by kDepth alone.
constexpr int64_t kChunkOperations = 1 << 20;
constexpr int64_t kChunksPerThread = 4;
constexpr int64_t kEnoughBatches = 16;

// Storages of one lane in GemmScratch.
enum Storage : size_t { kPackedA, kPackedB, kSums, kTile, kTurned, kBuffer, kStorages };

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }
int64_t divide_up(int64_t value, int64_t step) { return (value + step - 1) / step; }

// Sizes with strides of 0 may exceed any memory.
int64_t multiply_saturated(int64_t a, int64_t b) {
  int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

// Multiply-adds of one item of the batch, at least 1.
int64_t operations(const GemmProblem& problem) {
  const int64_t k = std::max<int64_t>(problem.k, 1);
  return multiply_saturated(multiply_saturated(problem.m, problem.n), k);
}

// Whether threads share the items of the batch rather than the inside of each.
bool batches_are_chunks(const GemmProblem& problem) {
  return problem.batch >= kEnoughBatches ||
         (problem.batch > 1 && operations(problem) < 4 * kChunkOperations);
}

// C^T = B^T * A^T.
GemmProblem transposed(const GemmProblem& problem) {
  GemmProblem result = problem;
  std::swap(result.m, result.n);
  std::swap(result.a, result.b);
  std::swap(result.a.row_stride, result.a.column_stride);
  std::swap(result.b.row_stride, result.b.column_stride);
  std::swap(result.c.row_stride, result.c.column_stride);
  return result;
}

// Whether the kernels, which run along columns, should see the transposed product.
bool better_transposed(const GemmProblem& problem) {
  if (problem.n < kPanel && problem.m > problem.n) {
    return true;
  }
  return problem.epilogue == nullptr && problem.c.column_stride != 1 && problem.c.row_stride == 1 &&
         problem.m >= kPanel;
}

// One gemm() call. Thread-compatible; parallel parts share it read-only.
class Multiplication {
 public:
  Multiplication(const GemmProblem& problem, const Kernels& kernels, GemmScratch& scratch)
      : turned_(better_transposed(problem)),
        p_(turned_ ? transposed(problem) : problem),
        kernels_(kernels),
        scratch_(scratch),
        sum_(sum_of(p_.c.dtype)),
        element_(sum_ == Sum::kU64 ? 8 : 4),
        dots_(sum_ == Sum::kU32 && kernels.dots.width != 0 && p_.k > 0 && is_byte(p_.a.dtype) &&
              is_byte(p_.b.dtype)),
        max_rows_(dots_ ? kernels.dots.max_rows : kernels.max_rows[static_cast<size_t>(sum_)]),
        narrow_(p_.m <= max_rows_),
        lines_(!narrow_ && reads_lines(p_, sum_)),
        strip_rows_(lines_ ? even_share(std::min(p_.m, kBlockRows), kernels.line_rows) : max_rows_),
        share_batches_(batches_are_chunks(p_)),
        direct_(p_.epilogue == nullptr && p_.c.column_stride == 1 &&
                (p_.c.dtype == Dtype::kF32 || p_.c.dtype == Dtype::kS32 ||
                 p_.c.dtype == Dtype::kU32 || p_.c.dtype == Dtype::kS64 ||
                 p_.c.dtype == Dtype::kU64)),
        finish_(p_, kernels, turned_) {}

  Status run(ThreadPool* pool) {
    const int lanes = pool == nullptr ? 1 : pool->threads();
    if (!reserve(static_cast<size_t>(lanes))) {
      return Status(NRT_RESOURCE,
                    format("matrix multiplication {}x{}x{}: no memory for packing buffers", p_.m,
                           p_.n, p_.k));
    }
    if (pool == nullptr || !share_batches_) {
      for (int64_t batch = 0; batch < p_.batch; ++batch) {
        multiply(batch, pool, 0);
      }
      return ok_status();
    }
    const int64_t group = std::max<int64_t>(1, kChunkOperations / operations(p_));
    pool->parallel_for(static_cast<size_t>(divide_up(p_.batch, group)),
                       [&](size_t chunk, int lane) {
                         const int64_t first = static_cast<int64_t>(chunk) * group;
                         const int64_t end = std::min(first + group, p_.batch);
                         for (int64_t batch = first; batch < end; ++batch) {
                           multiply(batch, nullptr, lane);
                         }
                       });
    return ok_status();
  }

 private:
  static Sum sum_of(Dtype c) {
    switch (gemm_accumulator(c)) {
      case Dtype::kF32:
        return Sum::kF32;
      case Dtype::kS32:
        return Sum::kU32;
      default:
        return Sum::kU64;
    }
  }

  static bool is_byte(Dtype dtype) {
    return dtype == Dtype::kS8 || dtype == Dtype::kU8 || dtype == Dtype::kPred;
  }

  // Steps of a sweep over `depth` steps of k, and steps that a packed panel has for them.
  int64_t sweep_depth(int64_t depth) const {
    return dots_ ? divide_up(depth, kernels_.dots.width) : depth;
  }
  int64_t packed_depth(int64_t depth) const { return sweep_depth(depth) + (dots_ ? 1 : 0); }

  static bool reads_lines(const GemmProblem& p, Sum sum) {
    return sum == Sum::kF32 && p.a.column_stride == 1 &&
           p.n <= (p.a.dtype == Dtype::kF32 ? kLineColumns : kLineColumnsConverted);
  }

  // The least number of rows with which no more strips are needed than with `most`.
  static int even_share(int64_t rows, int64_t most) {
    return static_cast<int>(divide_up(rows, divide_up(rows, most)));
  }

  // Elements between the copies of two lines: no multiple of the cache's period.
  static int line_width(int64_t depth) {
    return static_cast<int>(round_up(depth, kPanel)) + kPanel;
  }

  bool reserve(size_t lanes) {
    const int64_t columns =
        round_up(std::min(p_.n, narrow_ ? kNarrowColumns : kBlockColumns), kPanel);
    const int64_t depth = std::min(p_.k, kDepth);
    const int64_t rows = std::min<int64_t>(p_.m, max_rows_);
    std::array<int64_t, kStorages> elements{};
    elements[kPackedA] = narrow_ ? p_.m * divide_up(p_.k, kDepth) * packed_depth(depth)
                                 : rows * (lines_ ? line_width(depth) : packed_depth(depth));
    elements[kPackedB] =
        b_stays() ? 0 : packed_depth(depth) * (b_lines() ? columns + kPanel : columns);
    elements[kSums] = p_.k <= kDepth ? 0 : (narrow_ ? rows : std::min(p_.m, kBlockRows)) * columns;
    elements[kTile] = direct_ ? 0 : rows * columns;
    elements[kTurned] = turned_ && p_.epilogue != nullptr ? rows * columns : 0;
    elements[kBuffer] = gemm_detail::kPackBuffer;
    scratch_.set_count(lanes * kStorages);
    for (size_t i = 0; i < lanes * kStorages; ++i) {
      const size_t which = i % kStorages;
      const bool shared = (which == kPackedB || which == kSums) && !narrow_ && !share_batches_;
      const auto bytes = static_cast<size_t>(elements[which] * element_);
      if (bytes != 0 && !(shared && i >= kStorages) && scratch_.reserve(i, bytes) == nullptr) {
        return false;
      }
    }
    return true;
  }

  std::byte* storage(Storage which, int lane) const {
    return static_cast<std::byte*>(
        scratch_.reserve(static_cast<size_t>(lane) * kStorages + which, 0));
  }

  template <class Function>
  static void for_chunks(ThreadPool* pool, int lane, int64_t chunks, const Function& function) {
    if (pool != nullptr) {
      pool->parallel_for(static_cast<size_t>(chunks), [&](size_t chunk, int worker) {
        function(static_cast<int64_t>(chunk), worker);
      });
      return;
    }
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      function(chunk, lane);
    }
  }

  void multiply(int64_t batch, ThreadPool* pool, int lane) const {
    if (narrow_) {
      multiply_narrow(batch, pool, lane);
    } else {
      multiply_blocked(batch, pool, lane);
    }
  }

  // ---- parts of A, B and C --------------------------------------------------------------------

  void pack_a(int64_t batch, int64_t row, int64_t rows, int64_t k, int64_t depth, int lane,
              std::byte* packed) const {
    const Source source = source_of(p_.a, batch, p_.a.row_stride, row, p_.a.column_stride, k);
    const PackJob job{source,
                      rows,
                      depth,
                      static_cast<int>(rows),
                      0,
                      packed,
                      storage(kBuffer, lane),
                      moved(p_.b.dtype, Dtype::kS8)};
    dots_ ? kernels_.dots.pack_a(job) : pack(job);
  }

  void pack_b(int64_t batch, int64_t column, int64_t columns, int64_t k, int64_t depth, int lane,
              std::byte* packed) const {
    const Source source = source_of(p_.b, batch, p_.b.column_stride, column, p_.b.row_stride, k);
    const PackJob job{source,
                      columns,
                      depth,
                      kPanel,
                      packed_depth(depth) * kPanel,
                      packed,
                      storage(kBuffer, lane),
                      moved(p_.a.dtype, Dtype::kU8)};
    dots_ ? kernels_.dots.pack_b(job) : pack(job);
  }

  // What dots move the elements of an operand by.
  static uint32_t moved(Dtype dtype, Dtype moved_type) { return dtype == moved_type ? 128 : 0; }

  static Source source_of(const GemmOperand& operand, int64_t batch, int64_t line_stride,
                          int64_t line, int64_t k_stride, int64_t k) {
    const int64_t offset = batch * operand.batch_stride + line * line_stride + k * k_stride;
    const auto* data = static_cast<const std::byte*>(operand.data);
    return {data + offset * static_cast<int64_t>(dtype_bytes(operand.dtype)),
            static_cast<uint8_t>(operand.dtype), line_stride, k_stride};
  }

  void pack(const PackJob& job) const { kernels_.pack[static_cast<size_t>(sum_)](job); }
  void sweep(const SweepJob& job) const {
    dots_ ? kernels_.dots.sweep(job) : kernels_.sweep[static_cast<size_t>(sum_)](job);
  }

  std::byte* c_at(int64_t batch, int64_t row, int64_t column) const {
    const int64_t offset =
        batch * p_.c.batch_stride + row * p_.c.row_stride + column * p_.c.column_stride;
    return static_cast<std::byte*>(p_.c.data) + offset * element_;
  }

  // Whole panels of B may be read in place: f32, columns side by side.
  bool b_in_place() const {
    return sum_ == Sum::kF32 && p_.b.dtype == Dtype::kF32 && p_.b.column_stride == 1;
  }

  // Gives the job rows of A as lines: where they are if they can be used as they are.
  void use_lines(int64_t batch, int64_t row, int64_t k, int lane, SweepJob& job) const {
    const Source source = source_of(p_.a, batch, p_.a.row_stride, row, 1, k);
    if (p_.a.dtype == Dtype::kF32 && p_.a.row_stride * element_ % kLineConflict != 0) {
      job.a = source.data;
      job.a_row_stride = p_.a.row_stride;
      return;
    }
    std::byte* lines = storage(kPackedA, lane);
    const int width = line_width(job.k);
    kernels_.copy_lines({source, job.rows, job.k, width, 0, lines, nullptr});
    job.a = lines;
    job.a_row_stride = width;
  }

  void use_b_in_place(int64_t batch, int64_t column, int64_t k, SweepJob& job) const {
    job.b = source_of(p_.b, batch, 1, column, p_.b.row_stride, k).data;
    job.b_k_stride = p_.b.row_stride;
    job.b_panel_stride = kPanel;
  }

  void use_packed_b(const std::byte* packed_b, int64_t depth, SweepJob& job) const {
    job.b = packed_b;
    job.b_k_stride = kPanel;
    job.b_panel_stride = packed_depth(depth) * kPanel;
  }

  // ---- narrow ---------------------------------------------------------------------------------

  void multiply_narrow(int64_t batch, ThreadPool* pool, int lane) const {
    std::byte* packed_a = storage(kPackedA, lane);
    for (int64_t k = 0; k < p_.k; k += kDepth) {
      pack_a(batch, 0, p_.m, k, std::min(kDepth, p_.k - k), lane,
             packed_a + k / kDepth * packed_depth(kDepth) * p_.m * element_);
    }
    const int64_t chunk_work =
        multiply_saturated(p_.m * kNarrowColumns, std::max<int64_t>(p_.k, 1));
    const int64_t strips = divide_up(p_.n, kNarrowColumns);
    const int64_t group = std::max<int64_t>(1, kChunkOperations / 4 / chunk_work);
    for_chunks(pool, lane, divide_up(strips, group), [&](int64_t chunk, int worker) {
      for (int64_t strip = chunk * group; strip < std::min(strips, (chunk + 1) * group); ++strip) {
        const int64_t column = strip * kNarrowColumns;
        narrow_strip(batch, column, std::min(kNarrowColumns, p_.n - column), packed_a, worker);
      }
    });
  }

  void narrow_strip(int64_t batch, int64_t column, int64_t columns, const std::byte* packed_a,
                    int lane) const {
    const bool in_place = b_in_place() && columns % kPanel == 0;
    const int64_t padded = round_up(columns, kPanel);
    // Between blocks of k the sums wait in whole panels; a row of C may end within one.
    const Sums waiting{storage(kSums, lane), padded, kPanel};
    SweepJob job{};
    job.rows = static_cast<int>(p_.m);
    for (int64_t k = 0; k == 0 || k < p_.k; k += kDepth) {
      const int64_t depth = std::min(kDepth, p_.k - k);
      job.k = sweep_depth(depth);
      const bool last = k + depth == p_.k;
      job.from = k == 0 ? Sums{} : waiting;
      job.to = !last     ? waiting
               : direct_ ? Sums{c_at(batch, 0, column), p_.c.row_stride, kPanel}
                         : Sums{storage(kTile, lane), padded, kPanel};
      job.columns = last && direct_ ? columns : padded;
      job.a = packed_a + k / kDepth * packed_depth(kDepth) * p_.m * element_;
      if (in_place) {
        use_b_in_place(batch, column, k, job);
      } else {
        std::byte* packed_b = storage(kPackedB, lane);
        pack_b(batch, column, columns, k, depth, lane, packed_b);
        use_packed_b(packed_b, depth, job);
      }
      sweep(job);
    }
    if (!direct_) {
      finish_.tile(batch, 0, p_.m, column, columns, job.to.data, padded, storage(kTurned, lane));
    }
  }

  // ---- blocked --------------------------------------------------------------------------------

  // What one block of B is multiplied with.
  struct Block {
    int64_t batch, row, rows, column, columns, k, depth;
    std::byte* packed_b;
    std::byte* sums;  // null when k is one block
  };
  // Part of a block, within one panel of rows; rows and columns of C.
  struct Strip {
    int64_t row, rows, column, columns;
  };

  // Few rows and a small B of whole panels: its rows are used as they are.
  bool b_is_small() const {
    return !narrow_ && p_.b.column_stride == 1 && p_.n % kPanel == 0 && p_.m <= kInPlaceRows &&
           p_.n <= kBlockColumns && multiply_saturated(p_.k, p_.n) <= kInPlaceElements;
  }
  bool b_stays() const { return b_is_small() && b_in_place(); }
  // Converted row by row, but not packed into panels.
  bool b_lines() const { return b_is_small() && !b_in_place() && sum_ == Sum::kF32; }

  void multiply_blocked(int64_t batch, ThreadPool* pool, int lane) const {
    for (int64_t row = 0; row < p_.m; row += kBlockRows) {
      for (int64_t column = 0; column < p_.n; column += kBlockColumns) {
        for (int64_t k = 0; k == 0 || k < p_.k; k += kDepth) {
          const Block block{batch,
                            row,
                            std::min(kBlockRows, p_.m - row),
                            column,
                            std::min(kBlockColumns, p_.n - column),
                            k,
                            std::min(kDepth, p_.k - k),
                            storage(kPackedB, lane),
                            p_.k > kDepth ? storage(kSums, lane) : nullptr};
          if (!b_stays()) {
            pack_block(block, pool, lane);
          }
          multiply_block(block, pool, lane);
        }
      }
    }
  }

  void pack_block(const Block& block, ThreadPool* pool, int lane) const {
    if (b_lines()) {
      const Source source = source_of(p_.b, block.batch, p_.b.row_stride, block.k, 1, 0);
      kernels_.copy_lines({source, block.depth, block.columns, line_width(block.columns), 0,
                           block.packed_b, nullptr});
      return;
    }
    for_chunks(pool, lane, divide_up(block.columns, kPackColumns), [&](int64_t chunk, int worker) {
      const int64_t first = chunk * kPackColumns;
      pack_b(block.batch, block.column + first, std::min(kPackColumns, block.columns - first),
             block.k, block.depth, worker,
             block.packed_b + first * packed_depth(block.depth) * element_);
    });
  }

  // Columns of a chunk: all of the block if the panels of rows are chunks enough, since every chunk
  // packs its rows of A.
  int64_t column_step(const Block& block, const ThreadPool* pool) const {
    if (pool == nullptr || pool->threads() == 1) {
      return round_up(block.columns, kPanel);
    }
    const int64_t panels = divide_up(block.rows, strip_rows_);
    const int64_t wanted = divide_up(kChunksPerThread * pool->threads(), panels);
    const int64_t smallest = kChunkOperations / (strip_rows_ * std::max<int64_t>(block.depth, 1));
    return round_up(std::max({block.columns / wanted, smallest, int64_t{64}}), kPanel);
  }

  void multiply_block(const Block& block, ThreadPool* pool, int lane) const {
    const int64_t step = column_step(block, pool);
    const int64_t steps = divide_up(block.columns, step);
    const int64_t chunks = divide_up(block.rows, strip_rows_) * steps;
    for_chunks(pool, lane, chunks, [&](int64_t chunk, int worker) {
      const int64_t row = chunk / steps * strip_rows_;
      const int64_t column = chunk % steps * step;
      multiply_strip(block,
                     {block.row + row, std::min<int64_t>(strip_rows_, block.rows - row),
                      block.column + column, std::min(step, block.columns - column)},
                     worker);
    });
  }

  void multiply_strip(const Block& block, const Strip& strip, int lane) const {
    SweepJob job{};
    job.k = sweep_depth(block.depth);
    job.rows = static_cast<int>(strip.rows);
    if (lines_) {
      use_lines(block.batch, strip.row, block.k, lane, job);
    } else {
      std::byte* packed_a = storage(kPackedA, lane);
      pack_a(block.batch, strip.row, strip.rows, block.k, block.depth, lane, packed_a);
      job.a = packed_a;
    }
    if (b_stays()) {
      use_b_in_place(block.batch, strip.column, block.k, job);
    } else if (b_lines()) {
      job.b = block.packed_b + (strip.column - block.column) * element_;
      job.b_k_stride = line_width(block.columns);
      job.b_panel_stride = kPanel;
    } else {
      use_packed_b(
          block.packed_b + (strip.column - block.column) * packed_depth(block.depth) * element_,
          block.depth, job);
    }
    const Sums waiting = waiting_sums(block, strip);
    const bool last = block.k + block.depth == p_.k;
    job.from = block.k == 0 ? Sums{} : waiting;
    job.columns = round_up(strip.columns, kPanel);
    if (!last) {
      job.to = waiting;
    } else if (direct_) {
      job.to = {c_at(block.batch, strip.row, strip.column), p_.c.row_stride, kPanel};
      job.columns = strip.columns;
    } else {
      job.to = {storage(kTile, lane), job.columns, kPanel};
    }
    job.ahead = next_rows(block, strip);
    if (lines_) {
      kernels_.sweep_lines(job);
    } else {
      sweep(job);
    }
    if (last && !direct_) {
      finish_.tile(block.batch, strip.row, strip.rows, strip.column, strip.columns, job.to.data,
                   job.to.row_stride, storage(kTurned, lane));
    }
  }

  // The rows of A below the strip, if they lie along k: probably packed next.
  gemm_detail::Ahead next_rows(const Block& block, const Strip& strip) const {
    const int64_t row = strip.row + strip.rows;
    const int64_t rows = std::min<int64_t>(strip_rows_, block.row + block.rows - row);
    if (rows <= 0 || p_.a.column_stride != 1) {
      return {};
    }
    const auto bytes = static_cast<int64_t>(dtype_bytes(p_.a.dtype));
    const Source source = source_of(p_.a, block.batch, p_.a.row_stride, row, 1, block.k);
    return {static_cast<const char*>(source.data), rows, block.depth * bytes,
            p_.a.row_stride * bytes, 0};
  }

  // The block's panels of rows one after the other, each as panels of columns.
  Sums waiting_sums(const Block& block, const Strip& strip) const {
    const int64_t columns = round_up(block.columns, kPanel);
    const int64_t offset =
        (strip.row - block.row) * columns + (strip.column - block.column) * strip.rows;
    return {block.sums == nullptr ? nullptr : block.sums + offset * element_, kPanel,
            strip.rows * kPanel};
  }

  const bool turned_;
  const GemmProblem p_;
  const Kernels& kernels_;
  GemmScratch& scratch_;
  const Sum sum_;
  const int64_t element_;  // bytes of a packed element
  const bool dots_;        // 8-bit integers in words
  const int max_rows_;
  const bool narrow_;
  const bool lines_;      // A is read along its rows
  const int strip_rows_;  // of A that are multiplied at once when not narrow
  const bool share_batches_;
  const bool direct_;  // sums are built in C itself
  const Finish finish_;
};

}  // namespace

Status gemm(const GemmProblem& problem, SimdLevel level, ThreadPool* pool, GemmScratch& scratch) {
  ONRT_RETURN_IF_ERROR(check_gemm(problem));
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) {
    return ok_status();
  }
  return gemm_detail::gemm_with(problem, gemm_detail::kernels_for(level), pool, scratch);
}

namespace gemm_detail {

Status gemm_with(const GemmProblem& problem, const Kernels& kernels, ThreadPool* pool,
                 GemmScratch& scratch) {
  return Multiplication(problem, kernels, scratch).run(pool);
}

}  // namespace gemm_detail

}  // namespace onrt
