// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowering/tile_access.h"

#include <algorithm>

namespace onrt::lowering {
namespace {

bool counts_along(const Micro& micro, size_t axis) {
  return std::ranges::any_of(micro.ops, [&](const Micro::Op& op) {
    return op.op == ncx::ScalarOp::kIota && op.immediate == axis;
  });
}

// The two sides of a product. False when the axis is not the outermost of its run.
bool add_sides(Kernel& kernel, size_t axis, std::vector<Access>& out) {
  const size_t batch = kernel.runs.size() - 2;
  for (size_t r = 0; r < kernel.runs.size(); ++r) {
    const Run& run = kernel.runs[r];
    if (axis < run.begin || axis >= run.begin + run.count) {
      continue;
    }
    int64_t rest = 1;
    for (size_t d = run.begin; d < run.begin + run.count; ++d) {
      if (d < axis && kernel.dims[d] != 1) {
        return false;
      }
      rest *= d > axis ? kernel.dims[d] : 1;
    }
    const int dim = static_cast<int>(r);
    out.push_back({&kernel.lhs, r <= batch ? dim : -1, rest, false});
    out.push_back({&kernel.rhs, r < batch || r == batch + 1 ? dim : -1, rest, false});
    return true;
  }
  return false;  // a dimension of size 1 that belongs to no run
}

}  // namespace

const Dims& domain_of(const Kernel& kernel) {
  return kernel.kind == KernelKind::kCopy ? kernel.pieces[0].source.dims : kernel.dims;
}

std::vector<Access> accesses_of(Kernel& kernel, size_t axis) {
  std::vector<Access> made;
  const int dim = static_cast<int>(axis);
  switch (kernel.kind) {
    case KernelKind::kCopy:
      for (CopyPiece& piece : kernel.pieces) {
        if (piece.source.dims.size() != domain_of(kernel).size() ||
            piece.source.dims[axis] != domain_of(kernel)[axis]) {
          return {};
        }
        made.push_back({&piece.source, dim, 1, false});
        made.push_back({&piece.destination, dim, 1, true});
      }
      return made;
    case KernelKind::kGemm:
      if (!add_sides(kernel, axis, made)) {
        return {};
      }
      break;
    case KernelKind::kEltwise:
    case KernelKind::kReduce:
      break;
    default:
      return {};
  }
  if (counts_along(kernel.tail, axis) || counts_along(kernel.prologue, axis)) {
    return {};
  }
  for (Micro* micro : {&kernel.prologue, &kernel.tail}) {
    for (Window& window : micro->inputs) {
      made.push_back({&window, dim, 1, false});
    }
  }
  for (Window& window : kernel.inits) {
    made.push_back({&window, -1, 1, false});
  }
  for (Micro::Output& output : kernel.tail.outputs) {
    made.push_back({&output.window, dim, 1, true});
  }
  return made;
}

bool lies_along(const Access& access, const Axis& axis) {
  const Window& window = *access.window;
  const int64_t width = dtype_bytes(window.dtype);
  if (access.dim < 0 || window.dims[static_cast<size_t>(access.dim)] != axis.count * access.rest ||
      access.step() != axis.step || window.offset / axis.step % axis.count != 0) {
    return false;
  }
  int64_t inner = window.offset % axis.step + width;
  for (size_t d = 0; d < window.dims.size(); ++d) {
    const int64_t stride = window.strides[d] * width;
    if (window.dims[d] == 1) {
      continue;
    }
    if (static_cast<int>(d) == access.dim) {
      inner += stride * (access.rest - 1);
    } else if (stride < 0 || (stride >= axis.step && stride % axis.period() != 0)) {
      return false;
    } else if (stride < axis.step) {
      inner += stride * (window.dims[d] - 1);
    }
  }
  return inner <= axis.step;
}

}  // namespace onrt::lowering
