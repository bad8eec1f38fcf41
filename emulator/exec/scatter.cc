// SPDX-License-Identifier: Apache-2.0
// HLO scatter, in place. Updates of one element happen in the order of the index vectors, whatever
// the number of threads: threads share the elements of the windows, or the rows of the array, not
// the index vectors.
#include <cstring>

#include "emulator/exec/element_scatter.h"
#include "emulator/exec/executor.h"
#include "emulator/exec/index_shape.h"
#include "emulator/exec/index_walk.h"
#include "emulator/exec/layout.h"
#include "emulator/exec/micro_plan.h"

namespace onrt {
namespace {

constexpr size_t kMaxLocations = 2 * ncx::kMaxOutputs + 2 * ncx::kMaxMicroOps;

int64_t dot(const int64_t* index, std::span<const int64_t> strides) {
  int64_t sum = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    sum += index[d] * strides[d];
  }
  return sum;
}

IndexShape shape_of(const ncx::Scatter& op, size_t array) {
  return IndexShape({op.outputs[array], op.indices, op.updates[array], op.update_window_dims,
                     op.inserted_window_dims, op.scatter_dims_to_operand_dims,
                     op.input_batching_dims, op.scatter_indices_batching_dims,
                     op.index_vector_dim});
}

class ScatterExecutor final : public Executor {
 public:
  ScatterExecutor(const ncx::Scatter& op, const ExecutorOptions& options)
      : kernels_(*options.kernels), op_(op) {
    std::vector<Strides> window;
    std::vector<Dtype> types;
    for (size_t a = 0; a < op.outputs.size(); ++a) {
      shapes_.push_back(shape_of(op, a));
      Strides update{};
      Strides whole{};
      std::ranges::copy(shapes_[a].window_result_strides, update.begin());
      std::ranges::copy(shapes_[a].window_whole_strides, whole.begin());
      window.push_back(update);
      window.push_back(whole);
      types.push_back(op.outputs[a].dtype);
    }
    window_ = make_nest(shapes_[0].window_sizes, window, LoopOrder::kFree);
    vectors_ = count_of(shapes_[0].batch_dims);
    types.insert(types.end(), types.begin(), types.end());
    bool no[2 * ncx::kMaxOutputs] = {};
    plan_ = plan_micro(op.combiner,
                       {types, {no, types.size()}, {no, types.size()}, {no, op.outputs.size()}},
                       kernels_);
    find_fast_path();
  }

  Status execute(const ExecContext& context) const override {
    if (vectors_ == 0 || window_.elements == 0) {
      return ok_status();
    }
    // Each unit is a part of every window: the order of updates of an element is kept.
    const int64_t parts = (window_.inner() + kPart - 1) / kPart;
    const int64_t work = vectors_ * (window_.elements / parts) * 8;
    return for_units(context, parts, work, [&](int64_t first, int64_t last) {
      return run(context, first * kPart, std::min(last * kPart, window_.inner()));
    });
  }

 private:
  static constexpr int64_t kPart = 64;

  // One array of plain registers with contiguous windows: the combiner is one kernel, or the new
  // value is the update.
  void find_fast_path() {
    if (op_.outputs.size() != 1 || !register_is_memory(op_.outputs[0].dtype) ||
        window_.inner_stride(0) != 1 || window_.inner_stride(1) != 1) {
      return;
    }
    const auto& ops = op_.combiner.ops;
    const uint16_t result = op_.combiner.results[0];
    if (ops.empty()) {
      assigns_ = result == 1;
    } else if (ops.size() == 1 && result == 2 && ops[0].operands[0] == 0 &&
               ops[0].operands[1] == 1 && ncx::scalar_op_info(ops[0].op).arity == 2 &&
               ncx::scalar_op_info(ops[0].op).result == ncx::ResultRule::kSame &&
               plan_.steps.size() == 1) {
      immediate_ = plan_.steps[0].immediate;  // of shifts: bits of the type
      kernel_ = kernels_.op[static_cast<size_t>(ops[0].op)]
                           [static_cast<size_t>(ncx::register_class(op_.outputs[0].dtype))];
    }
  }

  // Applies columns [begin, end) of the windows' innermost loop for all index vectors.
  bool run(const ExecContext& context, int64_t begin, int64_t end) const {
    std::byte* arena = thread_arena(static_cast<size_t>(plan_.buffers + 1) * kBufferStride);
    if (arena == nullptr) {
      return false;
    }
    void* pointers[kMaxLocations];
    place_buffers(plan_, arena, pointers);
    place_constants(plan_, pointers, static_cast<size_t>(kBlock));
    const IndexShape& shape = shapes_[0];
    const std::byte* indices = context.at(op_.indices);
    const int64_t index_width = dtype_bytes(op_.indices.dtype);
    IndexLoop batch(shape.batch_dims, 0);
    for (int64_t v = 0; v < vectors_; ++v, batch.advance()) {
      if (v % 4096 == 4095 && context.stop->raised()) {
        return true;  // reported before the next instruction
      }
      int64_t starts[ncx::kMaxRank];
      if (read_starts(indices + dot(batch.index(), shape.batch_indices_strides) * index_width,
                      starts)) {
        apply_window(context, batch.index(), starts, begin, end, pointers);
      }
    }
    return true;
  }

  // False if the window would leave the array.
  bool read_starts(const std::byte* vector, int64_t* starts) const {
    const IndexShape& shape = shapes_[0];
    const int64_t width = dtype_bytes(op_.indices.dtype);
    for (size_t i = 0; i < shape.start_limits.size(); ++i) {
      starts[i] = load_index(op_.indices.dtype,
                             vector + static_cast<int64_t>(i) * shape.vector_stride * width);
      if (starts[i] < 0 || starts[i] > shape.start_limits[i]) {
        return false;
      }
    }
    return true;
  }

  void apply_window(const ExecContext& context, const int64_t* batch, const int64_t* starts,
                    int64_t begin, int64_t end, void** pointers) const {
    std::byte* update[ncx::kMaxOutputs];
    std::byte* whole[ncx::kMaxOutputs];
    for (size_t a = 0; a < op_.outputs.size(); ++a) {
      const IndexShape& shape = shapes_[a];
      const int64_t width = dtype_bytes(op_.outputs[a].dtype);
      update[a] = context.at(op_.updates[a]) + dot(batch, shape.batch_result_strides) * width;
      whole[a] = context.at(op_.outputs[a]) +
                 (dot(starts, shape.start_strides) + dot(batch, shape.batch_whole_strides)) * width;
    }
    for (int64_t row = 0; row < window_.elements / window_.inner(); ++row) {
      for (int64_t at = begin; at < end; at += kBlock) {
        apply_run(update, whole, row, at, static_cast<size_t>(std::min(kBlock, end - at)),
                  pointers);
      }
    }
  }

  void apply_run(std::byte* const* update, std::byte* const* whole, int64_t row, int64_t column,
                 size_t n, void** pointers) const {
    const size_t arrays = op_.outputs.size();
    std::byte* target[ncx::kMaxOutputs];
    for (size_t a = 0; a < arrays; ++a) {
      const Dtype dtype = op_.outputs[a].dtype;
      const int64_t width = dtype_bytes(dtype);
      const auto address = [&](std::byte* base, size_t view) {
        return base +
               (row_offset(window_, view, row) + column * window_.inner_stride(view)) * width;
      };
      const std::byte* in = address(update[a], 2 * a);
      target[a] = address(whole[a], 2 * a + 1);
      if (assigns_) {
        std::memcpy(target[a], in, n * static_cast<size_t>(width));
        return;
      }
      if (kernel_ != nullptr) {
        kernel_(target[a], target[a], in, in, n, immediate_);
        return;
      }
      const MoveKernel load = kernels_.load_strided[static_cast<size_t>(dtype)];
      load(pointers[plan_.inputs[a]], target[a], window_.inner_stride(2 * a + 1), n);
      load(pointers[plan_.inputs[arrays + a]], in, window_.inner_stride(2 * a), n);
    }
    run_steps(plan_, pointers, n);
    for (size_t a = 0; a < arrays; ++a) {
      kernels_.store_strided[static_cast<size_t>(op_.outputs[a].dtype)](
          target[a], pointers[plan_.results[a]], window_.inner_stride(2 * a + 1), n);
    }
  }

  const KernelTable& kernels_;
  ncx::Scatter op_;
  std::vector<IndexShape> shapes_;  // by array
  LoopNest window_;                 // views: updates and array, alternating
  int64_t vectors_ = 0;
  MicroPlan plan_;
  OpKernel kernel_ = nullptr;
  uint64_t immediate_ = 0;
  bool assigns_ = false;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::Scatter& op, const ExecutorOptions& options) {
  std::unique_ptr<Executor> elements = make_element_scatter(op);
  return elements != nullptr ? std::move(elements) : std::make_unique<ScatterExecutor>(op, options);
}

}  // namespace onrt
