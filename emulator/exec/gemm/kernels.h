// SPDX-License-Identifier: Apache-2.0
// The inner parts of gemm(), compiled once per SIMD level. They know nothing of threads or
// blocking; the driver in gemm.cc does.
//
// Packed B is a row of panels, kPanel columns wide: element (k, n) of a panel is at [k][n], columns
// beyond the matrix are zero. Packed A holds `rows` <= max_rows rows: element (m, k) is at
// [k][m], [k] being `rows` long. A sweep along lines reads A row by row instead, where the rows lie
// or from a copy of them: nothing is transposed, but fewer rows fit in registers.
// These headers are included by code for processors that the host may not be: no inline function
// here and none from the standard library, or the linker could keep that copy for everyone.
#pragma once

#include <stdint.h>

namespace onrt::gemm_detail {

constexpr int kPanel = 16;
constexpr int kMaxRows = 28;  // largest max_rows of any level

// Type of packed elements and sums.
enum class Sum : uint8_t { kF32, kU32, kU64 };

// A word of 8-bit integers, see dot_body.h, or a sum of their products.
enum Dot : uint32_t {};

// Numbers of runtime/base/dtype.def; dispatch.cc asserts that they agree.
enum : uint8_t {
  kPredType = 1,
  kS8Type = 2,
  kS16Type = 3,
  kS32Type = 4,
  kS64Type = 5,
  kU8Type = 6,
  kU16Type = 7,
  kU32Type = 8,
  kU64Type = 9,
  kF16Type = 10,
  kF32Type = 11,
  kF64Type = 12,
  kBf16Type = 16,
};

// How the source elements are stored; the numbers of runtime/base/dtype.h.
struct Source {
  const void* data;
  uint8_t dtype;
  int64_t line_stride;  // between rows of A, columns of B
  int64_t k_stride;
};

// Packs `lines` rows of A or columns of B over `k` steps into panels of `width` lines,
// `panel_stride` elements apart. The last panel is filled with zeros up to `width`. `buffer` is
// scratch for kPackBuffer elements of 8 bytes; a panel is at most that wide.
struct PackJob {
  Source source;
  int64_t lines;
  int64_t k;
  int width;
  int64_t panel_stride;
  void* packed;
  void* buffer;
  uint32_t other_moved;  // for Dots: what the other operand's elements are moved by
};
constexpr int64_t kPackBuffer = 8 * 256;  // elements of 8 bytes

// Where a sweep finds or leaves the sums of its rows; elements. For rows side by side in memory
// panel_stride is kPanel; when sums wait for the next block of k they lie panel by panel.
struct Sums {
  void* data;
  int64_t row_stride;
  int64_t panel_stride;
};

// Memory that the caller reads after the sweep: `rows` times row_bytes, fetched into the second
// cache between tiles. rows = 0: nothing.
struct Ahead {
  const char* data;
  int64_t rows;
  int64_t row_bytes;
  int64_t row_stride;  // bytes
  int64_t position;    // 0
};

// to[rows][columns] = from + a * b over k steps, from.data null for nothing.
struct SweepJob {
  int64_t k;
  const void* a;
  int rows;
  int64_t a_row_stride;  // sweep_lines: elements from row to row, those of a row side by side
  const void* b;
  int64_t b_k_stride;  // elements from k to k + 1: kPanel when packed
  int64_t b_panel_stride;
  Sums from;
  Sums to;
  int64_t columns;  // of `to`; all panels of b and `from` are readable in full
  Ahead ahead;
};

// Products of 8-bit integers (and pred) with sums of 32 bits. A panel has a step per `width` steps
// of k and one more, and so has SweepJob::k less that one. width = 0: none, use Sum::kU32.
struct Dots {
  int width;
  int max_rows;
  void (*pack_a)(const PackJob& job);
  void (*pack_b)(const PackJob& job);
  void (*sweep)(const SweepJob& job);
};

struct Kernels {
  int max_rows[3];                      // by Sum
  void (*pack[3])(const PackJob& job);  // k at most 256
  void (*sweep[3])(const SweepJob& job);
  // to[i] = element first + i * stride of the source, i < n, as the type of the sums.
  void (*read[3])(const Source& source, int64_t first, int64_t stride, int64_t n, void* to);
  int line_rows;  // of sweep_lines, at most
  // lines[line][k] as f32, `width` elements between lines; the rest of PackJob is not read.
  void (*copy_lines)(const PackJob& job);
  void (*sweep_lines)(const SweepJob& job);  // f32
  // sums[i] = (sums[i] if `add`) + sum over t of x[t][i] * w[t][i], i < n, a multiple of kPanel.
  void (*multiply_rows)(const float* const* x, const float* const* w, int64_t terms, int64_t n,
                        bool add, float* sums);
  // values[0..n) to bf16 or f16 (dtype number), nearest even.
  void (*store_half)(const float* values, int64_t n, uint8_t dtype, uint16_t* output);
  // The same and back to f32, in place.
  void (*round_half)(float* values, int64_t n, uint8_t dtype);
  Dots dots;
};

// The 256 values of an 8-bit floating type (dtype number).
const float* fp8_table(uint8_t dtype);

extern const Kernels kPlainKernels;
#if defined(__x86_64__)
extern const Kernels kSse4Kernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512VnniKernels;
#elif defined(__aarch64__)
extern const Kernels kNeonKernels;
#endif

}  // namespace onrt::gemm_detail
