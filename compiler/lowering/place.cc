// SPDX-License-Identifier: Apache-2.0
// Where results go: straight to their io slot if nothing forbids it, else through a copy.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/lowering/lowerer.h"
#include "compiler/lowering/nesting.h"

namespace onrt::lowering {
namespace {

struct Output {
  size_t number = 0;  // among the root's elements
  Window source;
  BufferId slot = -1;
  int32_t aliased = -1;  // parameter that may be the same memory
  bool direct = false;
};

class OutputPlacer {
 public:
  OutputPlacer(const Flat& flat, Plan& plan) : flat_(flat), plan_(plan) {}

  void run(std::span<const Window> windows) {
    add_slots(windows);
    choose_direct();
    save_aliased_sources();
    forbid_early_writes();
    for (Output& output : outputs_) {
      if (output.direct) {
        plan_.buffers[static_cast<size_t>(output.source.buffer)] =
            plan_.buffers[static_cast<size_t>(output.slot)];
      } else {
        const Window slot = dense_window(output.slot, output.source.dtype, output.source.dims);
        add_copy(output.source, slot, output.number);
      }
    }
  }

 private:
  Buffer& buffer(BufferId id) { return plan_.buffers[static_cast<size_t>(id)]; }

  void add_slots(std::span<const Window> windows) {
    auto slot = static_cast<int32_t>(flat_.parameters().size());
    const std::vector<int32_t> aliased = aliased_parameters(flat_);
    for (size_t i = 0; i < windows.size(); ++i) {
      const Type& type = flat_.type(flat_.outputs()[i]);
      if (type.elements == 0) {
        continue;
      }
      Output made;
      made.number = i;
      made.source = windows[i];
      plan_.buffers.push_back({Place::kIo, slot++, 0, static_cast<int64_t>(type.bytes())});
      made.slot = static_cast<BufferId>(plan_.buffers.size() - 1);
      made.aliased = aliased[i];
      if (made.aliased >= 0) {
        aliased_inputs_.insert(made.aliased);
      }
      outputs_.push_back(made);
    }
  }

  // A result that is all of a scratch buffer can be made in the slot, once.
  void choose_direct() {
    std::vector<bool> claimed(plan_.buffers.size(), false);
    for (Output& output : outputs_) {
      const Window& source = output.source;
      const auto id = static_cast<size_t>(source.buffer);
      output.direct =
          buffer(source.buffer).place == Place::kScratch && !claimed[id] && source.offset == 0 &&
          is_dense(source) &&
          element_count(source.dims) * dtype_bytes(source.dtype) == buffer(source.buffer).bytes;
      claimed[id] = claimed[id] || output.direct;
    }
  }

  bool is_aliased_input(BufferId id) {
    return buffer(id).place == Place::kIo && aliased_inputs_.contains(buffer(id).slot);
  }

  // Outputs that are copied at the end from an input that an output may overwrite: save it first.
  void save_aliased_sources() {
    for (Output& output : outputs_) {
      const BufferId id = output.source.buffer;
      if (output.direct || !is_aliased_input(id)) {
        continue;
      }
      const bool itself =
          output.aliased == buffer(id).slot && output.source.offset == 0 && is_dense(output.source);
      if (itself) {
        continue;  // the copy onto itself changes nothing
      }
      plan_.buffers.push_back({Place::kScratch, 0, 0,
                               element_count(output.source.dims) *
                                   static_cast<int64_t>(dtype_bytes(output.source.dtype))});
      const Window saved = dense_window(static_cast<BufferId>(plan_.buffers.size() - 1),
                                        output.source.dtype, output.source.dims);
      add_copy(output.source, saved, output.number);
      output.source = saved;
    }
  }

  // An aliased slot may not be written while its input is still to be read; in the last reading
  // kernel itself only element by element. Kernels of a loop or conditional count as one.
  void forbid_early_writes() {
    const Nesting nesting(plan_);
    std::unordered_map<int32_t, int32_t> last_read;     // by parameter: kernel of the main block
    std::unordered_map<BufferId, int32_t> first_write;  // by buffer
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      const int32_t number = nesting.in_block(static_cast<int32_t>(k), 0);
      for_each_read(plan_.kernels[k], [&](const Window& window) {
        if (is_aliased_input(window.buffer)) {
          last_read[buffer(window.buffer).slot] = number;
        }
      });
      for_each_write(plan_.kernels[k],
                     [&](const Window& window) { first_write.try_emplace(window.buffer, number); });
    }
    for (Output& output : outputs_) {
      if (!output.direct || output.aliased < 0) {
        continue;
      }
      const auto read = last_read.find(output.aliased);
      const auto write = first_write.find(output.source.buffer);
      if (read == last_read.end() || write == first_write.end() || read->second < write->second) {
        continue;
      }
      Kernel& kernel = plan_.kernels[static_cast<size_t>(write->second)];
      output.direct =
          read->second == write->second && !kernel.is_control() && in_step(kernel, output);
    }
  }

  bool is_parameter(const Window& window, int32_t parameter) {
    return buffer(window.buffer).place == Place::kIo && buffer(window.buffer).slot == parameter;
  }

  static bool writes_buffer(Kernel& kernel, BufferId id) {
    bool writes = false;
    for_each_write(kernel, [&](const Window& window) { writes = writes || window.buffer == id; });
    return writes;
  }

  bool same_place(const Window& read, const Window& written, int32_t parameter) {
    return is_parameter(read, parameter) && read.dtype == written.dtype &&
           read.offset == written.offset && read.dims == written.dims &&
           read.strides == written.strides;
  }

  // Every read of the parameter is of the element that is about to be written.
  bool in_step(Kernel& kernel, const Output& output) {
    int in_place = 0;
    for (const Micro::Output& result : kernel.tail.outputs) {
      if (result.window.buffer == output.source.buffer) {
        for (const Window& window : kernel.tail.inputs) {
          in_place += same_place(window, result.window, output.aliased) ? 1 : 0;
        }
      }
    }
    for (const CopyPiece& piece : kernel.pieces) {
      in_place += piece.destination.buffer == output.source.buffer &&
                          same_place(piece.source, piece.destination, output.aliased)
                      ? 1
                      : 0;
    }
    int reads = 0;
    for_each_read(kernel, [&](const Window& window) {
      reads += is_parameter(window, output.aliased) ? 1 : 0;
    });
    return reads == in_place;
  }

  void add_copy(const Window& from, const Window& to, size_t output) {
    Kernel& kernel = plan_.kernels.emplace_back();
    kernel.kind = KernelKind::kCopy;
    kernel.origin = flat_[flat_.outputs()[output].node].origin;
    kernel.pieces.push_back({from, to});
  }

  const Flat& flat_;
  Plan& plan_;
  std::vector<Output> outputs_;
  std::unordered_set<int32_t> aliased_inputs_;
};

// Leaves only what the outputs need, and gives registers their final order.
void prune(Micro& micro) {
  Needed needed(micro);
  for (const Micro::Output& output : micro.outputs) {
    needed.mark(output.reg);
  }
  needed.close(micro);
  std::vector<uint16_t> new_op(micro.ops.size());
  std::vector<uint16_t> new_input(micro.inputs.size());
  const auto renumber = [&](Reg& reg) {
    if (reg.list == Reg::List::kOp) {
      reg.index = new_op[reg.index];
    } else if (reg.list == Reg::List::kInput) {
      reg.index = new_input[reg.index];
    }
  };
  size_t kept = 0;
  for (size_t i = 0; i < micro.inputs.size(); ++i) {
    if (needed.inputs[i]) {
      new_input[i] = static_cast<uint16_t>(kept);
      micro.inputs[kept++] = micro.inputs[i];
    }
  }
  micro.inputs.resize(kept);
  kept = 0;
  for (size_t i = 0; i < micro.ops.size(); ++i) {
    if (needed.ops[i]) {
      new_op[i] = static_cast<uint16_t>(kept);
      micro.ops[kept] = micro.ops[i];
      for (Reg& operand : micro.ops[kept].operands) {
        renumber(operand);
      }
      ++kept;
    }
  }
  micro.ops.resize(kept);
  for (Micro::Output& output : micro.outputs) {
    renumber(output.reg);
  }
}

}  // namespace

std::vector<int32_t> aliased_parameters(const Flat& flat) {
  std::vector<int32_t> made(flat.outputs().size(), -1);
  for (const hir::Alias& alias : flat.graph().aliases()) {
    made[static_cast<size_t>(alias.output)] = alias.parameter;
  }
  return made;
}

Status place_outputs(const Flat& flat, Plan& plan, std::span<const Window> outputs) {
  OutputPlacer(flat, plan).run(outputs);
  return ok_status();
}

void drop_unused(Plan& plan) {
  std::vector<bool> needed(plan.buffers.size(), false);
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    needed[i] = plan.buffers[i].place == Place::kIo;
  }
  for (size_t k = plan.kernels.size(); k-- > 0;) {
    Kernel& kernel = plan.kernels[k];
    const auto is_needed = [&](const Window& window) {
      return needed[static_cast<size_t>(window.buffer)];
    };
    std::erase_if(kernel.tail.outputs,
                  [&](const Micro::Output& output) { return !is_needed(output.window); });
    // What a loop carries is needed by its kernels, which come before it.
    bool writes = kernel.is_control();
    for_each_write(kernel, [&](const Window& window) { writes = writes || is_needed(window); });
    if (!writes) {
      kernel.kind = KernelKind::kNothing;
      continue;
    }
    prune(kernel.tail);
    prune(kernel.prologue);
    const auto mark = [&](const Window& window) {
      needed[static_cast<size_t>(window.buffer)] = true;
    };
    for_each_read(kernel, mark);
    for_each_write(kernel, mark);
  }
  std::erase_if(plan.kernels,
                [](const Kernel& kernel) { return kernel.kind == KernelKind::kNothing; });
}

}  // namespace onrt::lowering
