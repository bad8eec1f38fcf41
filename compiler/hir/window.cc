// SPDX-License-Identifier: Apache-2.0
#include "compiler/hir/window.h"

#include <algorithm>

#include "runtime/base/format.h"

namespace onrt::hir {
namespace {

// Places that `size` elements take with dilation.
int64_t dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

}  // namespace

std::vector<ncx::WindowDimension> window_of(std::span<const int64_t> attribute) {
  std::vector<ncx::WindowDimension> made;
  for (size_t at = 0; at < attribute.size(); at += kWindowInts) {
    made.push_back({attribute[at], attribute[at + 1], attribute[at + 2], attribute[at + 4],
                    attribute[at + 5]});
  }
  return made;
}

Result<std::vector<int64_t>> infer_windows(const InferContext& context,
                                           std::span<const int64_t> operand) {
  ONRT_ASSIGN_OR_RETURN(const auto ints,
                        context.exactly(AttributeKey::kWindow, operand.size() * kWindowInts));
  constexpr int64_t kMost = ncx::kMaxWindowNumber;
  std::vector<int64_t> windows;
  for (size_t d = 0; d < operand.size(); ++d) {
    const auto w = ints.subspan(d * kWindowInts, kWindowInts);
    constexpr const char* kNames[] = {"size",         "stride",          "padding low",
                                      "padding high", "window dilation", "base dilation"};
    for (size_t i = 0; i < 6; ++i) {
      const bool padding = i == 2 || i == 3;
      if (w[i] > kMost || w[i] < (padding ? -kMost : 1)) {
        return context.wrong(format("attribute window, dimension {}: expected {} {}, found {}", d,
                                    kNames[i], padding ? "of at most 2^40" : "in [1, 2^40]", w[i]));
      }
    }
    if (w[6] != 0) {
      return context.wrong(format(
          "attribute window, dimension {}: expected no reversal, which has no meaning here", d));
    }
    __extension__ using Wide = __int128;
    const Wide bound = static_cast<Wide>(operand[d] - 1) * w[5] + 1;
    const Wide inside = static_cast<Wide>(w[0] - 1) * w[4] + 1;
    if (bound > ncx::kMaxElements / 8 || inside > ncx::kMaxElements / 8) {
      return context.wrong(
          format("attribute window, dimension {}: places beyond 2^59 are not supported", d));
    }
    const int64_t padded = dilated(operand[d], w[5]) + w[2] + w[3];
    const int64_t reach = dilated(w[0], w[4]);
    windows.push_back(padded < reach ? 0 : (padded - reach) / w[1] + 1);
  }
  return windows;
}

}  // namespace onrt::hir
