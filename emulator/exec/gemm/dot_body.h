// SPDX-License-Identifier: Apache-2.0
// 8-bit integers, several steps of k in one 32-bit word, multiplied and added by one instruction.
// Part of kernel_body.h for levels that define ONRT_DOT_WIDTH, the steps in a word, and DotPanel:
//   2  signed 16-bit halves of A times signed ones of B
//   4  signed bytes of A times unsigned ones of B
// Bytes of the other signedness are moved by 128, which the last step of a panel puts right: word
// i of A's holds what to add to all sums of row i, word j of B's what to add to those of column j.
// Everything is modulo 2^32, hence exact.
#pragma once

namespace onrt::gemm_detail {
namespace {

constexpr int kDotWidth = ONRT_DOT_WIDTH;

// `count` steps of k of one line as words, zeros up to a whole one.
ONRT_INLINE void dot_words(const PackJob& job, int64_t line, uint8_t flip, uint8_t* __restrict to) {
  const uint8_t* from =
      static_cast<const uint8_t*>(job.source.data) + line * job.source.line_stride;
  const int64_t stride = job.source.k_stride;
  const int64_t steps = job.k;
  const int64_t padded = (steps + kDotWidth - 1) / kDotWidth * kDotWidth;
  if constexpr (kDotWidth == 4) {
    if (job.source.dtype == kPredType) {
      for (int64_t k = 0; k < steps; ++k) {
        to[k] = from[k * stride] != 0 ? 1 : 0;
      }
    } else if (stride == 1) {
      for (int64_t k = 0; k < steps; ++k) {
        to[k] = from[k] ^ flip;
      }
    } else {
      for (int64_t k = 0; k < steps; ++k) {
        to[k] = from[k * stride] ^ flip;
      }
    }
    for (int64_t k = steps; k < padded; ++k) {
      to[k] = 0;
    }
  } else {
    int16_t* halves = reinterpret_cast<int16_t*>(to);
    read_line<int16_t>(job.source, line * job.source.line_stride, stride, steps, halves);
    for (int64_t k = steps; k < padded; ++k) {
      halves[k] = 0;
    }
  }
  __asm__ volatile("" ::: "memory");  // they are read as words
}

// One word of each of kPanel lines that lie side by side; `row` are the steps of k in it.
ONRT_INLINE void interleave(const uint8_t (*row)[kPanel], bool is_signed, uint32_t* to) {
  if constexpr (kDotWidth == 4) {
    typedef uint8_t Bytes __attribute__((vector_size(kPanel), may_alias));
    typedef uint16_t Halves __attribute__((vector_size(kPanel), may_alias));
    Bytes r[4];
    __builtin_memcpy(r, row, sizeof r);
    const Halves low01 = (Halves)__builtin_shufflevector(r[0], r[1], 0, 16, 1, 17, 2, 18, 3, 19, 4,
                                                         20, 5, 21, 6, 22, 7, 23);
    const Halves high01 = (Halves)__builtin_shufflevector(r[0], r[1], 8, 24, 9, 25, 10, 26, 11, 27,
                                                          12, 28, 13, 29, 14, 30, 15, 31);
    const Halves low23 = (Halves)__builtin_shufflevector(r[2], r[3], 0, 16, 1, 17, 2, 18, 3, 19, 4,
                                                         20, 5, 21, 6, 22, 7, 23);
    const Halves high23 = (Halves)__builtin_shufflevector(r[2], r[3], 8, 24, 9, 25, 10, 26, 11, 27,
                                                          12, 28, 13, 29, 14, 30, 15, 31);
    const Halves words[4] = {__builtin_shufflevector(low01, low23, 0, 8, 1, 9, 2, 10, 3, 11),
                             __builtin_shufflevector(low01, low23, 4, 12, 5, 13, 6, 14, 7, 15),
                             __builtin_shufflevector(high01, high23, 0, 8, 1, 9, 2, 10, 3, 11),
                             __builtin_shufflevector(high01, high23, 4, 12, 5, 13, 6, 14, 7, 15)};
    __builtin_memcpy(to, words, sizeof words);
  } else if (is_signed) {
    for (int i = 0; i < kPanel; ++i) {
      to[i] = static_cast<uint16_t>(static_cast<int8_t>(row[0][i])) |
              static_cast<uint32_t>(static_cast<int8_t>(row[1][i])) << 16;
    }
  } else {
    for (int i = 0; i < kPanel; ++i) {
      to[i] = row[0][i] | static_cast<uint32_t>(row[1][i]) << 16;
    }
  }
}

// A panel of kPanel lines that lie side by side.
ONRT_INLINE void dot_across_k(const PackJob& job, int64_t first, int lines, uint8_t flip,
                              uint32_t* to) {
  const uint8_t* from = static_cast<const uint8_t*>(job.source.data) + first;
  const bool is_pred = job.source.dtype == kPredType;
  for (int64_t k = 0; k < job.k; k += kDotWidth, to += kPanel) {
    uint8_t row[kDotWidth][kPanel] = {};
    for (int i = 0; i < kDotWidth && k + i < job.k; ++i) {
      const uint8_t* line = from + (k + i) * job.source.k_stride;
      if (lines == kPanel && !is_pred) {
        for (int j = 0; j < kPanel; ++j) {
          row[i][j] = line[j] ^ flip;
        }
      } else {
        for (int j = 0; j < lines; ++j) {
          row[i][j] = is_pred ? line[j] != 0 : line[j] ^ flip;
        }
      }
    }
    interleave(row, job.source.dtype == kS8Type, to);
  }
}

ONRT_INLINE void dot_along_k(const PackJob& job, int64_t first, int lines, uint8_t flip,
                             uint32_t* to) {
  const int64_t steps = (job.k + kDotWidth - 1) / kDotWidth;
  uint32_t* buffer = static_cast<uint32_t*>(job.buffer);
  for (int line = 0; line < lines; line += 8) {
    const int count = lines - line < 8 ? lines - line : 8;
    const uint32_t* from[8];
    for (int i = 0; i < count; ++i) {
      dot_words(job, first + line + i, flip, reinterpret_cast<uint8_t*>(buffer + i * steps));
      from[i] = buffer + i * steps;
    }
    if (count == 8) {
      transpose_lines(from, steps, job.width, to + line);
      continue;
    }
    for (int64_t k = 0; k < steps; ++k) {
      for (int i = 0; i < count; ++i) {
        to[k * job.width + line + i] = from[i][k];
      }
    }
  }
}

// Sums of the bytes of each line of a panel, signed in A and unsigned in B.
template <bool kIsA, class Panel = DotPanel>
ONRT_INLINE void add_bytes(const uint32_t* panel, int64_t steps, int width, uint32_t* sums) {
  int i = 0;
  // The last vector of several begins early enough to end with the panel.
  for (; width >= kPanel && i < width; i += kPanel) {
    i = i + kPanel > width ? width - kPanel : i;
    Panel sum;
    sum.zero();
    for (int64_t k = 0; k < steps; ++k) {
      Panel words;
      words.load(reinterpret_cast<const Dot*>(panel + k * width + i));
      sum.template add_bytes<kIsA>(words);
    }
    sum.store(reinterpret_cast<Dot*>(sums + i));
  }
  for (; i < width; ++i) {
    sums[i] = 0;
    for (int64_t k = 0; k < steps; ++k) {
      const uint32_t word = panel[k * width + i];
      for (int shift = 0; shift < 32; shift += 8) {
        const auto byte = static_cast<uint8_t>(word >> shift);
        sums[i] += kIsA ? static_cast<uint32_t>(static_cast<int8_t>(byte)) : byte;
      }
    }
  }
}

// The last step of a panel. With A = a + ca and B = b - cb (ca, cb: 0 or 128), the sum of A * B is
// that of a * b, plus ca times that of b, less cb times that of a, less k * ca * cb.
template <bool kIsA>
ONRT_INLINE void dot_corrections(const PackJob& job, uint8_t flip, uint32_t* panel) {
  const int64_t steps = (job.k + kDotWidth - 1) / kDotWidth;
  uint32_t* last = panel + steps * job.width;
  if (kDotWidth != 4 || job.other_moved == 0) {
    for (int i = 0; i < job.width; ++i) {
      last[i] = 0;
    }
    return;
  }
  if constexpr (kDotWidth == 4) {
    add_bytes<kIsA>(panel, steps, job.width, last);
  }
  const uint32_t other = kIsA ? 0u - job.other_moved : job.other_moved;
  const uint32_t own = kIsA ? 0u : static_cast<uint32_t>(job.k) * flip;
  for (int i = 0; i < job.width; ++i) {
    last[i] = other * (last[i] - own);
  }
}

template <bool kIsA>
void pack_dots(const PackJob& job) {
  constexpr uint8_t kMovedType = kIsA ? kU8Type : kS8Type;
  const uint8_t flip = kDotWidth == 4 && job.source.dtype == kMovedType ? 128 : 0;
  const int64_t words = ((job.k + kDotWidth - 1) / kDotWidth + 1) * job.width;
  for (int64_t first = 0; first < job.lines; first += job.width) {
    const int64_t left = job.lines - first;
    const int lines = left < job.width ? static_cast<int>(left) : job.width;
    uint32_t* to = static_cast<uint32_t*>(job.packed) + first / job.width * job.panel_stride;
    if (lines < job.width) {
      for (int64_t i = 0; i < words; ++i) {
        to[i] = 0;
      }
    }
    if (job.source.line_stride == 1 && job.source.k_stride != 1 && job.width == kPanel) {
      dot_across_k(job, first, lines, flip, to);
    } else {
      dot_along_k(job, first, lines, flip, to);
    }
    dot_corrections<kIsA>(job, flip, to);
  }
}

template <>
struct PanelOf<Dot> {
  using Type = DotPanel;
  static constexpr int kRows = kF32Rows;
  static constexpr int kTiles = kF32Tiles;
};

constexpr Dots kDots = {kDotWidth, PanelOf<Dot>::kRows, pack_dots<true>, pack_dots<false>,
                        sweep<Dot>};

}  // namespace
}  // namespace onrt::gemm_detail
