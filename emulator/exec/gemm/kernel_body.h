// SPDX-License-Identifier: Apache-2.0
// Body of one kernels_<level>.cc. That file has defined, in the anonymous namespace of
// onrt::gemm_detail:
//   struct F32Panel         kPanel floats in registers, with load, store, zero, add and
//                           fused multiply-add by a scalar in memory
//   constexpr int kF32Rows  rows of the largest register tile
//   constexpr int kF32Tiles F32Panels that fit in registers as sums
//   constexpr int kF32LineRows, kF32LineTiles  the same for sweeps along lines
//   void half_to_f32(const uint16_t*, int64_t, float*), f32_to_half(...)  for f16
// Everything is in the anonymous namespace; see kernels.h for why.
#pragma once

#include "emulator/exec/gemm/kernels.h"

#define ONRT_UNROLL _Pragma("GCC unroll 32")
#define ONRT_INLINE inline __attribute__((always_inline))

namespace onrt::gemm_detail {
namespace {

// kPanel integers. The compiler splits the vector into what the level has.
template <class T>
struct IntegerPanel {
  typedef T Vector __attribute__((vector_size(kPanel * sizeof(T)), aligned(sizeof(T)), may_alias));
  Vector v;
  ONRT_INLINE void zero() { v = Vector{}; }
  ONRT_INLINE void load(const T* from) { v = *reinterpret_cast<const Vector*>(from); }
  ONRT_INLINE void store(T* to) const { *reinterpret_cast<Vector*>(to) = v; }
  ONRT_INLINE void add(const IntegerPanel& other) { v += other.v; }
  ONRT_INLINE void multiply_add(const T* scalar, const IntegerPanel& b) { v += b.v * *scalar; }
};

template <class T>
struct PanelOf {
  using Type = IntegerPanel<T>;
  static constexpr int kRows = 4;
  static constexpr int kTiles = 4;
};
template <>
struct PanelOf<float> {
  using Type = F32Panel;
  static constexpr int kRows = kF32Rows;
  static constexpr int kTiles = kF32Tiles;
};

// Where a tile finds A: packed, kRows side by side at each step of k, or along lines.
enum class RowsOfA { kPacked, kLines };

// ---- register tiles ---------------------------------------------------------------------------

// One tile of the sweep: kRows rows and kPanels panels.
template <class T, RowsOfA kForm, int kRows, int kPanels>
void multiply_tile(const SweepJob& job) {
  using Panel = typename PanelOf<T>::Type;
  const T* a = static_cast<const T*>(job.a);
  const T* b = static_cast<const T*>(job.b);
  const int64_t b_k_stride = job.b_k_stride;
  const int64_t b_panel_stride = job.b_panel_stride;
  const int64_t a_row_stride = kForm == RowsOfA::kPacked ? 1 : job.a_row_stride;
  Panel sum[kRows][kPanels];
  ONRT_UNROLL for (int i = 0; i < kRows; ++i) {
    // Into the second cache only: rows of C may all fall into one set of the first.
    __builtin_prefetch(static_cast<T*>(job.to.data) + i * job.to.row_stride, 0, 2);
    ONRT_UNROLL for (int j = 0; j < kPanels; ++j) { sum[i][j].zero(); }
  }
  for (int64_t k = job.k; k > 0; --k) {
    Panel row[kPanels];
    ONRT_UNROLL for (int j = 0; j < kPanels; ++j) { row[j].load(b + j * b_panel_stride); }
    ONRT_UNROLL for (int i = 0; i < kRows; ++i) {
      ONRT_UNROLL for (int j = 0; j < kPanels; ++j) {
        sum[i][j].multiply_add(a + i * a_row_stride, row[j]);
      }
    }
    a += kForm == RowsOfA::kPacked ? kRows : 1;
    b += b_k_stride;
  }
  if constexpr (__is_same(T, Dot)) {
    ONRT_UNROLL for (int j = 0; j < kPanels; ++j) {
      Panel column;
      column.load(b + j * b_panel_stride);
      ONRT_UNROLL for (int i = 0; i < kRows; ++i) {
        sum[i][j].add(column);
        sum[i][j].add_scalar(a + i);
      }
    }
  }
  if (job.from.data != nullptr) {
    const T* from = static_cast<const T*>(job.from.data);
    ONRT_UNROLL for (int i = 0; i < kRows; ++i) {
      ONRT_UNROLL for (int j = 0; j < kPanels; ++j) {
        Panel before;
        before.load(from + i * job.from.row_stride + j * job.from.panel_stride);
        sum[i][j].add(before);
      }
    }
  }
  T* to = static_cast<T*>(job.to.data);
  ONRT_UNROLL for (int i = 0; i < kRows; ++i) {
    ONRT_UNROLL for (int j = 0; j < kPanels; ++j) {
      sum[i][j].store(to + i * job.to.row_stride + j * job.to.panel_stride);
    }
  }
}

template <class T>
void advance(SweepJob& job, int panels) {
  job.b = static_cast<const T*>(job.b) + panels * job.b_panel_stride;
  job.to.data = static_cast<T*>(job.to.data) + panels * job.to.panel_stride;
  if (job.from.data != nullptr) {
    job.from.data = static_cast<T*>(job.from.data) + panels * job.from.panel_stride;
  }
  job.columns -= panels * kPanel;
}

// Fetches a share of what the caller reads next.
ONRT_INLINE void fetch_ahead(Ahead& ahead) {
  constexpr int kLines = 8;
  for (int i = 0; i < kLines && ahead.rows > 0; ++i) {
    __builtin_prefetch(ahead.data + ahead.position, 0, 2);
    ahead.position += 64;
    if (ahead.position >= ahead.row_bytes) {
      ahead.position = 0;
      ahead.data += ahead.row_stride;
      --ahead.rows;
    }
  }
}

// As many whole groups of kPanels panels as fit, then half as many, down to one.
template <class T, RowsOfA kForm, int kRows, int kPanels>
void sweep_rows(SweepJob job) {
  while (job.columns >= kPanels * kPanel) {
    multiply_tile<T, kForm, kRows, kPanels>(job);
    advance<T>(job, kPanels);
    fetch_ahead(job.ahead);
  }
  if (job.columns == 0) {
    return;
  }
  if constexpr (kPanels > 1) {
    sweep_rows<T, kForm, kRows, kPanels / 2>(job);
  } else {
    // Part of a panel: compute it whole, copy what belongs to the result. What follows the part in
    // C's last row may be the end of memory: it is neither read nor written.
    T tile[kRows * kPanel];
    T before[kRows * kPanel] = {};
    if (job.from.data != nullptr) {
      const T* from = static_cast<const T*>(job.from.data);
      for (int i = 0; i < kRows; ++i) {
        for (int64_t j = 0; j < job.columns; ++j) {
          before[i * kPanel + j] = from[i * job.from.row_stride + j];
        }
      }
      job.from.data = before;
      job.from.row_stride = kPanel;
    }
    T* to = static_cast<T*>(job.to.data);
    job.to.data = tile;
    const int64_t row_stride = job.to.row_stride;
    job.to.row_stride = kPanel;
    multiply_tile<T, kForm, kRows, 1>(job);
    for (int i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < job.columns; ++j) {
        to[i * row_stride + j] = tile[i * kPanel + j];
      }
    }
  }
}

constexpr int panels_for(int rows, int tiles) {
  int panels = 8;
  while (panels > 1 && panels * rows > tiles) {
    panels /= 2;
  }
  return panels;
}

template <class T, RowsOfA kForm, int kRows, int kTiles>
void sweep_from(const SweepJob& job) {
  if constexpr (kRows > 0) {
    if (job.rows == kRows) {
      sweep_rows<T, kForm, kRows, panels_for(kRows, kTiles)>(job);
    } else {
      sweep_from<T, kForm, kRows - 1, kTiles>(job);
    }
  }
}

template <class T>
void sweep(const SweepJob& job) {
  sweep_from<T, RowsOfA::kPacked, PanelOf<T>::kRows, PanelOf<T>::kTiles>(job);
}

void sweep_lines(const SweepJob& job) {
  sweep_from<float, RowsOfA::kLines, kF32LineRows, kF32LineTiles>(job);
}

// ---- rows times rows ---------------------------------------------------------------------------

template <int kPanels>
void multiply_row_panels(const float* const* x, const float* const* w, int64_t terms, int64_t at,
                         bool add, float* sums) {
  F32Panel sum[kPanels];
  ONRT_UNROLL for (int j = 0; j < kPanels; ++j) { sum[j].zero(); }
  for (int64_t t = 0; t < terms; ++t) {
    ONRT_UNROLL for (int j = 0; j < kPanels; ++j) {
      F32Panel a;
      F32Panel b;
      a.load(x[t] + at + j * kPanel);
      b.load(w[t] + at + j * kPanel);
      sum[j].multiply_add(a, b);
    }
  }
  ONRT_UNROLL for (int j = 0; j < kPanels; ++j) {
    if (add) {
      F32Panel before;
      before.load(sums + at + j * kPanel);
      sum[j].add(before);
    }
    sum[j].store(sums + at + j * kPanel);
  }
}

void multiply_rows(const float* const* x, const float* const* w, int64_t terms, int64_t n, bool add,
                   float* sums) {
  constexpr int kMany = kF32Tiles >= 8 ? 8 : 4;
  int64_t at = 0;
  for (; at + kMany * kPanel <= n; at += kMany * kPanel) {
    multiply_row_panels<kMany>(x, w, terms, at, add, sums);
  }
  for (; at < n; at += kPanel) {
    multiply_row_panels<1>(x, w, terms, at, add, sums);
  }
}

// ---- reading elements -------------------------------------------------------------------------

template <class From, class To>
void convert_line(const void* data, int64_t first, int64_t stride, int64_t n, To* to) {
  const From* from = static_cast<const From*>(data) + first;
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) {
      to[i] = static_cast<To>(from[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      to[i] = static_cast<To>(from[i * stride]);
    }
  }
}

ONRT_INLINE float float_of_bits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
ONRT_INLINE uint32_t bits_of_float(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

void bf16_line(const uint16_t* from, int64_t stride, int64_t n, float* to) {
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) {
      to[i] = float_of_bits(static_cast<uint32_t>(from[i]) << 16);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      to[i] = float_of_bits(static_cast<uint32_t>(from[i * stride]) << 16);
    }
  }
}

void f16_line(const uint16_t* from, int64_t stride, int64_t n, float* to) {
  if (stride == 1) {
    half_to_f32(from, n, to);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    half_to_f32(from + i * stride, 1, to + i);
  }
}

void read_line(const Source& source, int64_t first, int64_t stride, int64_t n, float* to) {
  switch (source.dtype) {
    case kF32Type:
      convert_line<float>(source.data, first, stride, n, to);
      return;
    case kF64Type:
      convert_line<double>(source.data, first, stride, n, to);
      return;
    case kBf16Type:
      bf16_line(static_cast<const uint16_t*>(source.data) + first, stride, n, to);
      return;
    case kF16Type:
      f16_line(static_cast<const uint16_t*>(source.data) + first, stride, n, to);
      return;
    default: {
      const float* table = fp8_table(source.dtype);
      const uint8_t* from = static_cast<const uint8_t*>(source.data) + first;
      for (int64_t i = 0; i < n; ++i) {
        to[i] = table[from[i * stride]];
      }
    }
  }
}

template <class T>
void read_line(const Source& source, int64_t first, int64_t stride, int64_t n, T* to) {
  switch (source.dtype) {
    case kPredType:
      for (int64_t i = 0; i < n; ++i) {
        to[i] = static_cast<const uint8_t*>(source.data)[first + i * stride] != 0 ? 1 : 0;
      }
      return;
    case kS8Type:
      return convert_line<int8_t>(source.data, first, stride, n, to);
    case kU8Type:
      return convert_line<uint8_t>(source.data, first, stride, n, to);
    case kS16Type:
      return convert_line<int16_t>(source.data, first, stride, n, to);
    case kU16Type:
      return convert_line<uint16_t>(source.data, first, stride, n, to);
    case kS32Type:
      return convert_line<int32_t>(source.data, first, stride, n, to);
    case kU32Type:
      return convert_line<uint32_t>(source.data, first, stride, n, to);
    default:
      return convert_line<uint64_t>(source.data, first, stride, n, to);
  }
}

template <class T>
void read(const Source& source, int64_t first, int64_t stride, int64_t n, void* to) {
  read_line(source, first, stride, n, static_cast<T*>(to));
}

// ---- packing ----------------------------------------------------------------------------------

template <class T>
struct PackedType;
template <>
struct PackedType<float> {
  static constexpr uint8_t kDtype = kF32Type;
};
template <>
struct PackedType<uint32_t> {
  static constexpr uint8_t kDtype = kU32Type;
};
template <>
struct PackedType<uint64_t> {
  static constexpr uint8_t kDtype = kU64Type;
};

// lines[0..8)[0..k) to to[k][0..8), `width` elements between steps of k. Four steps at a time; the
// lower and the upper half of a vector hold lines 0..3 and 4..7, so that no element crosses 128
// bits.
template <class T>
void transpose_lines(const T* const lines[8], int64_t k, int width, T* to) {
  typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
  typedef T Eight __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T)), may_alias));
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    Eight r[4];
    ONRT_UNROLL for (int j = 0; j < 4; ++j) {
      r[j] = __builtin_shufflevector(*reinterpret_cast<const Four*>(lines[j] + i),
                                     *reinterpret_cast<const Four*>(lines[j + 4] + i), 0, 1, 2, 3,
                                     4, 5, 6, 7);
    }
    const Eight low01 = __builtin_shufflevector(r[0], r[1], 0, 8, 1, 9, 4, 12, 5, 13);
    const Eight high01 = __builtin_shufflevector(r[0], r[1], 2, 10, 3, 11, 6, 14, 7, 15);
    const Eight low23 = __builtin_shufflevector(r[2], r[3], 0, 8, 1, 9, 4, 12, 5, 13);
    const Eight high23 = __builtin_shufflevector(r[2], r[3], 2, 10, 3, 11, 6, 14, 7, 15);
    T* row = to + i * width;
    *reinterpret_cast<Eight*>(row) =
        __builtin_shufflevector(low01, low23, 0, 1, 8, 9, 4, 5, 12, 13);
    *reinterpret_cast<Eight*>(row + width) =
        __builtin_shufflevector(low01, low23, 2, 3, 10, 11, 6, 7, 14, 15);
    *reinterpret_cast<Eight*>(row + 2 * width) =
        __builtin_shufflevector(high01, high23, 0, 1, 8, 9, 4, 5, 12, 13);
    *reinterpret_cast<Eight*>(row + 3 * width) =
        __builtin_shufflevector(high01, high23, 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (; i < k; ++i) {
    for (int line = 0; line < 8; ++line) {
      to[i * width + line] = lines[line][i];
    }
  }
}

template <class T>
void transpose_four_lines(const T* const lines[4], int64_t k, int width, T* to) {
  typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    Four r[4];
    ONRT_UNROLL for (int j = 0; j < 4; ++j) { r[j] = *reinterpret_cast<const Four*>(lines[j] + i); }
    const Four low01 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    const Four high01 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    const Four low23 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    const Four high23 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    T* row = to + i * width;
    *reinterpret_cast<Four*>(row) = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    *reinterpret_cast<Four*>(row + width) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    *reinterpret_cast<Four*>(row + 2 * width) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    *reinterpret_cast<Four*>(row + 3 * width) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
  }
  for (; i < k; ++i) {
    for (int line = 0; line < 4; ++line) {
      to[i * width + line] = lines[line][i];
    }
  }
}

// Lines run along k: transpose eight at a time, through `buffer` if they must be converted.
template <class T>
void pack_along_k(const PackJob& job, int64_t first, int lines, T* to) {
  T* buffer = static_cast<T*>(job.buffer);
  const bool in_place = job.source.dtype == PackedType<T>::kDtype && job.source.k_stride == 1;
  for (int line = 0; line < lines; line += 8) {
    const int count = lines - line < 8 ? lines - line : 8;
    const T* from[8];
    for (int i = 0; i < count; ++i) {
      const int64_t offset = (first + line + i) * job.source.line_stride;
      if (in_place) {
        from[i] = static_cast<const T*>(job.source.data) + offset;
      } else {
        read_line(job.source, offset, job.source.k_stride, job.k, buffer + i * job.k);
        from[i] = buffer + i * job.k;
      }
    }
    if (count == 8) {
      transpose_lines(from, job.k, job.width, to + line);
    } else if (count == 4) {
      transpose_four_lines(from, job.k, job.width, to + line);
    } else {
      for (int64_t k = 0; k < job.k; ++k) {
        for (int i = 0; i < count; ++i) {
          to[k * job.width + line + i] = from[i][k];
        }
      }
    }
  }
}

// Copies n lines of one step of k into panels.
template <class T>
ONRT_INLINE void copy_step(const T* from, int64_t n, int width, int64_t panel_stride, T* to) {
  using Panel = typename PanelOf<T>::Type;
  if (width == kPanel) {
    for (; n >= kPanel; n -= kPanel) {
      Panel panel;
      panel.load(from);
      panel.store(to);
      from += kPanel;
      to += panel_stride;
    }
  }
  for (; n > 0; n -= width) {
    const int64_t count = n < width ? n : width;
    for (int64_t i = 0; i < count; ++i) {
      to[i] = from[i];
    }
    from += width;
    to += panel_stride;
  }
}

// Steps of k may be a page apart, where the processor does not look ahead by itself.
constexpr int64_t kAheadSteps = 4;

template <class T>
ONRT_INLINE void fetch_line(const T* from, int64_t n) {
  for (int64_t i = 0; i < n; i += 64 / static_cast<int64_t>(sizeof(T))) {
    __builtin_prefetch(from + i);
  }
}

// Lines lie side by side: copy a stretch of each step of k.
template <class T>
void pack_across_k(const PackJob& job) {
  constexpr int64_t kStretch = 256;  // lines per pass: several panels, so that pages are read once
  const int64_t stretch = job.width > kStretch ? job.width : kStretch / job.width * job.width;
  const bool in_place = job.source.dtype == PackedType<T>::kDtype;
  T* buffer = static_cast<T*>(job.buffer);
  for (int64_t first = 0; first < job.lines; first += stretch) {
    const int64_t n = job.lines - first < stretch ? job.lines - first : stretch;
    T* to = static_cast<T*>(job.packed) + first / job.width * job.panel_stride;
    for (int64_t k = 0; k < job.k; ++k) {
      const int64_t offset = first + k * job.source.k_stride;
      const T* from = buffer;
      if (in_place) {
        from = static_cast<const T*>(job.source.data) + offset;
        fetch_line(from + kAheadSteps * job.source.k_stride, n);
      } else {
        read_line(job.source, offset, 1, n, buffer);
      }
      copy_step(from, n, job.width, job.panel_stride, to + k * job.width);
    }
  }
}

template <class T>
void pack(const PackJob& job) {
  const int rest = static_cast<int>(job.lines % job.width);
  if (rest != 0) {
    T* last = static_cast<T*>(job.packed) + job.lines / job.width * job.panel_stride;
    for (int64_t k = 0; k < job.k; ++k) {
      for (int line = rest; line < job.width; ++line) {
        last[k * job.width + line] = 0;
      }
    }
  }
  if (job.source.line_stride == 1 && job.source.k_stride != 1) {
    pack_across_k<T>(job);
    return;
  }
  for (int64_t first = 0; first < job.lines; first += job.width) {
    const int64_t left = job.lines - first;
    pack_along_k<T>(job, first, left < job.width ? static_cast<int>(left) : job.width,
                    static_cast<T*>(job.packed) + first / job.width * job.panel_stride);
  }
}

void copy_lines(const PackJob& job) {
  float* to = static_cast<float*>(job.packed);
  for (int64_t line = 0; line < job.lines; ++line, to += job.width) {
    read_line(job.source, line * job.source.line_stride, job.source.k_stride, job.k, to);
  }
}

// ---- writing 16-bit floats --------------------------------------------------------------------

void store_half(const float* values, int64_t n, uint8_t dtype, uint16_t* output) {
  if (dtype == kF16Type) {
    f32_to_half(values, n, output);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = bits_of_float(values[i]);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const uint32_t nan = (bits >> 16 & 0x8000u) | 0x7fc0u;
    output[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

void round_half(float* values, int64_t n, uint8_t dtype) {
  constexpr int64_t kStep = 64;
  uint16_t half[kStep];
  for (int64_t i = 0; i < n; i += kStep) {
    const int64_t count = n - i < kStep ? n - i : kStep;
    store_half(values + i, count, dtype, half);
    if (dtype == kF16Type) {
      half_to_f32(half, count, values + i);
    } else {
      bf16_line(half, 1, count, values + i);
    }
  }
}

}  // namespace
}  // namespace onrt::gemm_detail

#ifdef ONRT_DOT_WIDTH
#include "emulator/exec/gemm/dot_body.h"
#endif

namespace onrt::gemm_detail {
namespace {

constexpr Kernels kKernels = {
    {PanelOf<float>::kRows, PanelOf<uint32_t>::kRows, PanelOf<uint64_t>::kRows},
    {pack<float>, pack<uint32_t>, pack<uint64_t>},
    {sweep<float>, sweep<uint32_t>, sweep<uint64_t>},
    {read<float>, read<uint32_t>, read<uint64_t>},
    kF32LineRows,
    copy_lines,
    sweep_lines,
    multiply_rows,
    store_half,
    round_half,
#ifdef ONRT_DOT_WIDTH
    kDots
#else
    {0, 0, nullptr, nullptr, nullptr}
#endif
};

}  // namespace
}  // namespace onrt::gemm_detail
