// SPDX-License-Identifier: Apache-2.0
// Strided copies: rows by memcpy, broadcasts by fills, transposes in tiles.
#include <cstring>

#include "emulator/exec/executor.h"
#include "emulator/exec/layout.h"

namespace onrt {
namespace {

constexpr int64_t kTile = 32;  // a transposed tile of 4-byte elements fits the first cache
constexpr int64_t kColumns = 16 * 1024;  // elements of a row that one unit copies

enum class Mode : uint8_t { kRows, kFill, kStrided, kTranspose };

template <class T>
void copy_strided(std::byte* out, int64_t out_stride, const std::byte* in, int64_t in_stride,
                  int64_t n) {
  auto* o = reinterpret_cast<T*>(out);
  const auto* x = reinterpret_cast<const T*>(in);
  for (int64_t i = 0; i < n; ++i) {
    o[i * out_stride] = x[i * in_stride];
  }
}

template <class T>
void fill_row(std::byte* out, const std::byte* in, int64_t n) {
  std::fill_n(reinterpret_cast<T*>(out), n, *reinterpret_cast<const T*>(in));
}

// out[a * out_stride + b] = in[a + b * in_stride].
template <class T>
void copy_tile(std::byte* out, int64_t out_stride, const std::byte* in, int64_t in_stride,
               int64_t rows, int64_t columns) {
  auto* o = reinterpret_cast<T*>(out);
  const auto* x = reinterpret_cast<const T*>(in);
  if (rows == kTile && columns == kTile) {
    for (int64_t a = 0; a < kTile; ++a) {
      for (int64_t b = 0; b < kTile; ++b) {
        o[a * out_stride + b] = x[a + b * in_stride];
      }
    }
    return;
  }
  for (int64_t a = 0; a < rows; ++a) {
    for (int64_t b = 0; b < columns; ++b) {
      o[a * out_stride + b] = x[a + b * in_stride];
    }
  }
}

// Rows of a few vectors, which are copied in registers.
void copy_bytes(std::byte* out, const std::byte* in, int64_t bytes) {
  switch (bytes) {
    case 16:
      std::memmove(out, in, 16);
      return;
    case 32:
      std::memmove(out, in, 32);
      return;
    case 64:
      std::memmove(out, in, 64);
      return;
    default:
      std::memmove(out, in, static_cast<size_t>(bytes));
  }
}

// Calls f.template operator()<T>() with an unsigned type of `width` bytes.
template <class F>
void with_width(int64_t width, F f) {
  switch (width) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

class PieceCopy {
 public:
  explicit PieceCopy(const ncx::Copy::Piece& piece)
      : source_(piece.source),
        destination_(piece.destination),
        width_(dtype_bytes(piece.source.dtype)),
        nest_(nest_of(piece)) {
    choose_mode();
  }

  Status execute(const ExecContext& context) const {
    const std::byte* in = context.at(source_);
    std::byte* out = context.at(destination_);
    if (nest_.elements == 0 || (in == out && nest_.strides[0] == nest_.strides[1])) {
      return ok_status();
    }
    return for_units(context, units_, work_per_unit_, [&](int64_t first, int64_t last) {
      if (mode_ != Mode::kTranspose && parts_ == 1) {
        copy_rows(out, in, first, last);
        return true;
      }
      for (int64_t unit = first; unit < last; ++unit) {
        if (mode_ == Mode::kTranspose) {
          copy_one_tile(out, in, unit);
        } else {
          copy_part_of_row(out, in, unit);
        }
      }
      return true;
    });
  }

 private:
  static LoopNest nest_of(const ncx::Copy::Piece& piece) {
    const Strides strides[] = {piece.source.strides, piece.destination.strides};
    return make_nest({piece.source.dims.data(), piece.source.rank}, strides, LoopOrder::kFree);
  }

  void choose_mode() {
    const int64_t in_stride = nest_.inner_stride(0);
    const int64_t out_stride = nest_.inner_stride(1);
    mode_ = Mode::kStrided;
    if (out_stride == 1) {
      mode_ = in_stride == 1 ? Mode::kRows : (in_stride == 0 ? Mode::kFill : Mode::kStrided);
    }
    for (int d = 0; mode_ == Mode::kStrided && out_stride == 1 && d < nest_.rank - 1; ++d) {
      if (nest_.strides[0][static_cast<size_t>(d)] == 1 && nest_.inner() >= 4 &&
          nest_.dims[static_cast<size_t>(d)] >= 4) {
        mode_ = Mode::kTranspose;
        // The unit-stride loop of the source becomes the second innermost.
        for (int e = d; e < nest_.rank - 2; ++e) {
          const auto outer = static_cast<size_t>(e);
          std::swap(nest_.dims[outer], nest_.dims[outer + 1]);
          for (Strides& strides : nest_.strides) {
            std::swap(strides[outer], strides[outer + 1]);
          }
        }
      }
    }
    if (mode_ == Mode::kTranspose) {
      const int64_t rows = nest_.dims[static_cast<size_t>(nest_.rank - 2)];
      tile_rows_ = (rows + kTile - 1) / kTile;
      tile_columns_ = (nest_.inner() + kTile - 1) / kTile;
      units_ = nest_.elements == 0
                   ? 0
                   : nest_.elements / (rows * nest_.inner()) * tile_rows_ * tile_columns_;
      work_per_unit_ = kTile * kTile * width_ * 2;
    } else {
      parts_ = std::max<int64_t>(1, (nest_.inner() + kColumns - 1) / kColumns);
      units_ = nest_.elements / std::max<int64_t>(1, nest_.inner()) * parts_;
      work_per_unit_ = std::min(kColumns, nest_.inner()) * width_ * 2;
    }
  }

  // Whole rows, one after the other: finding each one's place by divisions costs more than a short
  // row itself.
  void copy_rows(std::byte* out, const std::byte* in, int64_t first, int64_t last) const {
    int64_t offsets[2];
    int64_t index[ncx::kMaxRank];
    row_offsets(nest_, first, offsets);
    int64_t rest = first;
    for (int d = nest_.rank - 2; d >= 0; --d) {
      index[d] = rest % nest_.dims[static_cast<size_t>(d)];
      rest /= nest_.dims[static_cast<size_t>(d)];
    }
    for (int64_t row = first; row < last; ++row) {
      copy_elements(out + offsets[1] * width_, in + offsets[0] * width_, nest_.inner());
      for (int d = nest_.rank - 2; d >= 0; --d) {
        const auto dim = static_cast<size_t>(d);
        offsets[0] += nest_.strides[0][dim];
        offsets[1] += nest_.strides[1][dim];
        if (++index[d] < nest_.dims[dim]) {
          break;
        }
        offsets[0] -= nest_.strides[0][dim] * nest_.dims[dim];
        offsets[1] -= nest_.strides[1][dim] * nest_.dims[dim];
        index[d] = 0;
      }
    }
  }

  void copy_part_of_row(std::byte* out, const std::byte* in, int64_t unit) const {
    const int64_t row = unit / parts_;
    const int64_t column = unit % parts_ * kColumns;
    int64_t offsets[2];
    row_offsets(nest_, row, offsets);
    copy_elements(out + (offsets[1] + column * nest_.inner_stride(1)) * width_,
                  in + (offsets[0] + column * nest_.inner_stride(0)) * width_,
                  std::min(kColumns, nest_.inner() - column));
  }

  // n elements of a row.
  void copy_elements(std::byte* out, const std::byte* in, int64_t n) const {
    switch (mode_) {
      case Mode::kRows:
        copy_bytes(out, in, n * width_);
        return;
      case Mode::kFill:
        with_width(width_, [&]<class T>() { fill_row<T>(out, in, n); });
        return;
      default:
        with_width(width_, [&]<class T>() {
          copy_strided<T>(out, nest_.inner_stride(1), in, nest_.inner_stride(0), n);
        });
    }
  }

  void copy_one_tile(std::byte* out, const std::byte* in, int64_t unit) const {
    const int64_t column = unit % tile_columns_ * kTile;
    unit /= tile_columns_;
    const int64_t row = unit % tile_rows_ * kTile;
    const int64_t rows = nest_.dims[static_cast<size_t>(nest_.rank - 2)];
    int64_t offsets[2];
    row_offsets(nest_, unit / tile_rows_ * rows + row, offsets);
    const int64_t in_stride = nest_.inner_stride(0);
    const int64_t out_stride = nest_.strides[1][static_cast<size_t>(nest_.rank - 2)];
    with_width(width_, [&]<class T>() {
      copy_tile<T>(out + (offsets[1] + column) * width_, out_stride,
                   in + (offsets[0] + column * in_stride) * width_, in_stride,
                   std::min(kTile, rows - row), std::min(kTile, nest_.inner() - column));
    });
  }

  ncx::View source_;
  ncx::View destination_;
  int64_t width_;
  LoopNest nest_;
  Mode mode_ = Mode::kStrided;
  int64_t parts_ = 1;
  int64_t tile_rows_ = 1;
  int64_t tile_columns_ = 1;
  int64_t units_ = 0;
  int64_t work_per_unit_ = 0;
};

class CopyExecutor final : public Executor {
 public:
  explicit CopyExecutor(const ncx::Copy& op) {
    pieces_.reserve(op.pieces.size());
    for (const ncx::Copy::Piece& piece : op.pieces) {
      pieces_.emplace_back(piece);
    }
  }
  Status execute(const ExecContext& context) const override {
    for (const PieceCopy& piece : pieces_) {
      ONRT_RETURN_IF_ERROR(piece.execute(context));
    }
    return ok_status();
  }

 private:
  std::vector<PieceCopy> pieces_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::Copy& op, const ExecutorOptions&) {
  return std::make_unique<CopyExecutor>(op);
}

}  // namespace onrt
