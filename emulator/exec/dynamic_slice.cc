// SPDX-License-Identifier: Apache-2.0
// Slices whose position is an operand: a copy whose start is read when it runs.
#include <cstring>

#include "emulator/exec/executor.h"
#include "emulator/exec/index_walk.h"
#include "emulator/exec/layout.h"

namespace onrt {
namespace {

class DynamicCopy final : public Executor {
 public:
  // `moving` is the array in which the window moves; `window` has the window's dims.
  enum class Direction : uint8_t { kRead, kWrite };
  DynamicCopy(const ncx::View& moving, const ncx::View& window, std::span<const ncx::View> starts,
              Direction direction)
      : moving_(moving),
        window_(window),
        starts_(starts.begin(), starts.end()),
        direction_(direction),
        width_(dtype_bytes(moving.dtype)) {
    const Strides strides[] = {direction == Direction::kRead ? moving.strides : window.strides,
                               direction == Direction::kRead ? window.strides : moving.strides};
    nest_ = make_nest({window.dims.data(), window.rank}, strides, LoopOrder::kFree);
  }

  Status execute(const ExecContext& context) const override {
    if (nest_.elements == 0) {
      return ok_status();
    }
    std::byte* moving = context.at(moving_) + start(context) * width_;
    std::byte* window = context.at(window_);
    const std::byte* in = direction_ == Direction::kRead ? moving : window;
    std::byte* out = direction_ == Direction::kRead ? window : moving;
    const int64_t inner = nest_.inner();
    const int64_t parts = (inner + kPart - 1) / kPart;
    return for_units(context, nest_.elements / inner * parts, std::min(inner, kPart) * width_ * 2,
                     [&](int64_t first, int64_t last) {
                       for (int64_t unit = first; unit < last; ++unit) {
                         int64_t offsets[2];
                         row_offsets(nest_, unit / parts, offsets);
                         const int64_t column = unit % parts * kPart;
                         copy_row(out + (offsets[1] + column * nest_.inner_stride(1)) * width_,
                                  in + (offsets[0] + column * nest_.inner_stride(0)) * width_,
                                  std::min(kPart, inner - column));
                       }
                       return true;
                     });
  }

 private:
  static constexpr int64_t kPart = 16 * 1024;

  int64_t start(const ExecContext& context) const {
    int64_t at = 0;
    for (size_t d = 0; d < starts_.size(); ++d) {
      const int64_t index = load_index(starts_[d].dtype, context.at(starts_[d]));
      at += clamp_index(index, moving_.dims[d] - window_.dims[d]) * moving_.strides[d];
    }
    return at;
  }

  void copy_row(std::byte* out, const std::byte* in, int64_t n) const {
    const int64_t in_stride = nest_.inner_stride(0);
    const int64_t out_stride = nest_.inner_stride(1);
    if (in_stride == 1 && out_stride == 1) {
      std::memmove(out, in, static_cast<size_t>(n * width_));
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(out + i * out_stride * width_, in + i * in_stride * width_,
                  static_cast<size_t>(width_));
    }
  }

  ncx::View moving_;
  ncx::View window_;
  std::vector<ncx::View> starts_;
  Direction direction_;
  int64_t width_;
  LoopNest nest_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::DynamicSlice& op, const ExecutorOptions&) {
  return std::make_unique<DynamicCopy>(op.source, op.destination, op.starts,
                                       DynamicCopy::Direction::kRead);
}

std::unique_ptr<Executor> make_executor(const ncx::DynamicUpdateSlice& op, const ExecutorOptions&) {
  return std::make_unique<DynamicCopy>(op.destination, op.update, op.starts,
                                       DynamicCopy::Direction::kWrite);
}

}  // namespace onrt
