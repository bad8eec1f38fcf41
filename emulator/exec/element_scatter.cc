// SPDX-License-Identifier: Apache-2.0
#include "emulator/exec/element_scatter.h"

#include <cstring>

#include "emulator/exec/index_shape.h"
#include "emulator/exec/index_walk.h"
#include "emulator/exec/layout.h"
#include "emulator/exec/micro_plan.h"
#include "emulator/exec/window_offsets.h"
#include "emulator/isa/scalar_ops.h"

namespace onrt {
namespace {

// Applies n updates in order: array[offsets[v] + v * array_step] and updates[v * update_step].
using Apply = void (*)(std::byte* array, int64_t array_step, const std::byte* updates,
                       int64_t update_step, const int64_t* offsets, size_t n);

template <class T, class Combine>
void apply(std::byte* array, int64_t array_step, const std::byte* updates, int64_t update_step,
           const int64_t* offsets, size_t n) {
  auto* whole = reinterpret_cast<T*>(array);
  const auto* update = reinterpret_cast<const T*>(updates);
  for (size_t v = 0; v < n; ++v) {
    const auto at = static_cast<int64_t>(v);
    if (offsets[v] != kOutside) {
      T& element = whole[offsets[v] + at * array_step];
      element = Combine()(element, update[at * update_step]);
    }
  }
}

template <class T>
struct Replace {
  T operator()(T, T update) const { return update; }
};
template <class T>
struct Add {
  T operator()(T a, T b) const { return ncx::scalar_add(a, b); }
};
template <class T>
struct Multiply {
  T operator()(T a, T b) const { return ncx::scalar_multiply(a, b); }
};
template <class T>
struct Maximum {
  T operator()(T a, T b) const { return ncx::scalar_maximum(a, b); }
};
template <class T>
struct Minimum {
  T operator()(T a, T b) const { return ncx::scalar_minimum(a, b); }
};

// kConstant stands for "replace".
template <class T>
Apply apply_of(ncx::ScalarOp op) {
  switch (op) {
    case ncx::ScalarOp::kConstant:
      return apply<T, Replace<T>>;
    case ncx::ScalarOp::kAdd:
      return apply<T, Add<T>>;
    case ncx::ScalarOp::kMultiply:
      return apply<T, Multiply<T>>;
    case ncx::ScalarOp::kMaximum:
      return apply<T, Maximum<T>>;
    case ncx::ScalarOp::kMinimum:
      return apply<T, Minimum<T>>;
    default:
      return nullptr;
  }
}

Apply apply_of(ncx::ScalarOp op, Dtype dtype) {
  switch (ncx::register_class(dtype)) {
    case ncx::RegisterClass::kF32:
      return apply_of<float>(op);
    case ncx::RegisterClass::kI32:
      return apply_of<int32_t>(op);
    case ncx::RegisterClass::kU32:
      return apply_of<uint32_t>(op);
    case ncx::RegisterClass::kI64:
      return apply_of<int64_t>(op);
    default:
      return apply_of<uint64_t>(op);
  }
}

// The one operation of the combiner on (current, update), in that order; kIota: none of ours.
ncx::ScalarOp combiner_of(const ncx::MicroProgram& combiner) {
  const auto& ops = combiner.ops;
  const uint16_t result = combiner.results[0];
  if (ops.empty()) {
    return result == 1 ? ncx::ScalarOp::kConstant : ncx::ScalarOp::kIota;
  }
  const bool plain =
      ops.size() == 1 && result == 2 && ops[0].operands[0] == 0 && ops[0].operands[1] == 1;
  return plain && ops[0].op != ncx::ScalarOp::kConstant ? ops[0].op : ncx::ScalarOp::kIota;
}

class ElementScatter final : public Executor {
 public:
  ElementScatter(const ncx::Scatter& op, IndexShape shape, Apply apply)
      : array_(op.outputs[0]),
        indices_(op.indices),
        updates_(op.updates[0]),
        shape_(std::move(shape)),
        apply_(apply) {
    Strides strides[3] = {};
    std::ranges::copy(shape_.batch_indices_strides, strides[0].begin());
    std::ranges::copy(shape_.batch_result_strides, strides[1].begin());
    std::ranges::copy(shape_.batch_whole_strides, strides[2].begin());
    vectors_ = make_nest(shape_.batch_dims, strides, LoopOrder::kKept);
  }

  // On one thread: two vectors may name one element, and their order counts.
  Status execute(const ExecContext& context) const override {
    if (vectors_.elements == 0) {
      return ok_status();
    }
    const int64_t width = dtype_bytes(array_.dtype);
    const int64_t index_width = dtype_bytes(indices_.dtype);
    int64_t offsets[kBatch];
    int64_t starts[3];
    for (int64_t row = 0; row < vectors_.elements / vectors_.inner(); ++row) {
      row_offsets(vectors_, row, starts);
      for (int64_t at = 0; at < vectors_.inner(); at += kBatch) {
        const auto place = [&](size_t view) {
          return starts[view] + at * vectors_.inner_stride(view);
        };
        const auto n = static_cast<size_t>(std::min(kBatch, vectors_.inner() - at));
        window_offsets(shape_, indices_.dtype, context.at(indices_) + place(0) * index_width,
                       vectors_.inner_stride(0), n, OutOfRange::kSkip, offsets);
        apply_(context.at(array_) + place(2) * width, vectors_.inner_stride(2),
               context.at(updates_) + place(1) * width, vectors_.inner_stride(1), offsets, n);
        if (context.stop->raised()) {
          return context.stop->status();
        }
      }
    }
    return ok_status();
  }

 private:
  static constexpr int64_t kBatch = 1024;

  ncx::View array_;
  ncx::View indices_;
  ncx::View updates_;
  IndexShape shape_;
  Apply apply_;
  LoopNest vectors_;  // over the index vectors: indices, updates, array
};

}  // namespace

std::unique_ptr<Executor> make_element_scatter(const ncx::Scatter& op) {
  if (op.outputs.size() != 1 || !register_is_memory(op.outputs[0].dtype)) {
    return nullptr;
  }
  IndexShape shape({op.outputs[0], op.indices, op.updates[0], op.update_window_dims,
                    op.inserted_window_dims, op.scatter_dims_to_operand_dims,
                    op.input_batching_dims, op.scatter_indices_batching_dims, op.index_vector_dim});
  const Apply apply = apply_of(combiner_of(op.combiner), op.outputs[0].dtype);
  if (count_of(shape.window_sizes) != 1 || apply == nullptr) {
    return nullptr;
  }
  return std::make_unique<ElementScatter>(op, std::move(shape), apply);
}

}  // namespace onrt
