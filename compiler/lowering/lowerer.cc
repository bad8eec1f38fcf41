// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowering/lowerer.h"

#include <algorithm>
#include <cstring>

#include "compiler/hir/scalar.h"
#include "compiler/hir/status.h"
#include "runtime/base/format.h"

namespace onrt::lowering {
namespace {

constexpr int64_t kConstantAlignment = 64;
// Arrays of less than this share of a tile are not worth much thought.
constexpr int64_t kWorthShare = 8;

// Room for a computation's last operations: a node adds one op and at most three inputs.
constexpr size_t kMostOps = ncx::kMaxMicroOps - 4;
constexpr size_t kMostInputs = ncx::kMaxMicroInputs - 3;

bool is_leaf(hir::Opcode opcode) {
  return opcode == hir::Opcode::kConstant || opcode == hir::Opcode::kIota;
}

}  // namespace

Lowerer::Lowerer(const Flat& flat, const LoweringOptions& options)
    : flat_(flat), options_(options), values_(flat.value_count()) {
  plan_.kernels.reserve(flat.nodes().size());
  for (size_t i = 0; i < flat.nodes().size(); ++i) {
    for (size_t r = 0; r < flat.nodes()[i].results.size(); ++r) {
      const Ref ref{static_cast<int32_t>(i), static_cast<int32_t>(r)};
      value(ref).pending = flat.uses(ref);
    }
  }
}

Result<Plan> Lowerer::run() {
  for (size_t i = 0; i < flat_.parameters().size(); ++i) {
    const Ref parameter = flat_.parameters()[i];
    const Type& type = this->type(parameter);
    plan_.buffers.push_back(
        {Place::kIo, static_cast<int32_t>(i), 0, static_cast<int64_t>(type.bytes())});
    buffers_.emplace_back();
    set_window(parameter,
               dense_window(static_cast<BufferId>(plan_.buffers.size() - 1), type.dtype, type.dims),
               -1);
  }
  ONRT_RETURN_IF_ERROR(lower_region(0));
  std::vector<Window> outputs;
  for (const Ref output : flat_.outputs()) {
    outputs.push_back(type(output).elements == 0 ? Window{} : window(output));
  }
  ONRT_RETURN_IF_ERROR(lowering::place_outputs(flat_, plan_, outputs));
  if (options_.fuse) {
    simplify_integers(plan_);
  }
  drop_unused(plan_);
  const bool tiles = options_.fuse && options_.tile_bytes > 0;
  if (tiles) {
    recompute(flat_, plan_, options_.tile_bytes / kWorthShare);
    tile(flat_, plan_, options_.tile_bytes);
  }
  place_scratch(plan_, options_.fuse);
  if (tiles) {
    tile_small(flat_, plan_, options_.tile_bytes);
    borrow_results(flat_, plan_, options_.tile_bytes / kWorthShare);
  }
  return std::move(plan_);
}

Status Lowerer::lower_region(int32_t region) {
  for (const int32_t index : flat_.region(region).order) {
    ONRT_RETURN_IF_ERROR(lower_node(index));
  }
  return ok_status();
}

Status Lowerer::lower_node(int32_t index) {
  const Node& node = flat_[index];
  if (node.opcode == hir::Opcode::kParameter || is_leaf(node.opcode)) {
    return ok_status();
  }
  bool empty = true;
  for (const Type& type : node.results) {
    empty = empty && type.elements == 0;
  }
  if (empty) {  // nothing to compute; windows of no elements are never read
    for (size_t r = 0; r < node.results.size(); ++r) {
      set_window({index, static_cast<int32_t>(r)}, new_buffer(node.results[r]), -1);
    }
  } else {
    const size_t before = plan_.kernels.size();
    ONRT_RETURN_IF_ERROR(lower(*this, node, index));
    if (node.regions.empty()) {  // a lowering may have replaced all of a kernel
      for (size_t k = before; k < plan_.kernels.size(); ++k) {
        plan_.kernels[k].block = block_;
      }
    }
  }
  if (node.regions.empty()) {  // loops and conditionals do it themselves
    release_operands(node);
  }
  return ok_status();
}

void Lowerer::release_operands(const Node& node) {
  for (const Ref operand : node.operands) {
    release(operand);
  }
}

// One use less to come. A result of a growing kernel that nobody waits for any more needs no room
// for an output.
void Lowerer::release(Ref ref) {
  Value& used = value(ref);
  --used.pending;
  if (used.window) {
    --buffers_[static_cast<size_t>(used.window->buffer)].pending;
  } else if (used.pending == 0 && used.reg.list != Reg::List::kNone) {
    --kernel(used.kernel).tail.expected;
  }
}

// The value is this window from now on.
void Lowerer::attach(Value& made, const Window& window, int32_t kernel_number) {
  if (made.window) {
    buffers_[static_cast<size_t>(made.window->buffer)].pending -= made.pending;
  }
  made.kernel = kernel_number;
  if (made.window) {
    *made.window = window;
  } else {
    made.window = std::make_unique<Window>(window);
  }
  buffers_[static_cast<size_t>(window.buffer)].pending += made.pending;
}

// True for all of a scratch buffer that is new in every turn of the loop in hand, if only one use
// of what is in it is still to come.
bool Lowerer::may_overwrite(const Window& window) const {
  const Buffer& buffer = plan_.buffers[static_cast<size_t>(window.buffer)];
  const BufferState& state = buffers_[static_cast<size_t>(window.buffer)];
  return options_.fuse && buffer.place == Place::kScratch && state.pending == 1 &&
         state.loop == blocks_[static_cast<size_t>(block_)].loop && window.offset == 0 &&
         is_dense(window) &&
         element_count(window.dims) * static_cast<int64_t>(dtype_bytes(window.dtype)) ==
             buffer.bytes;
}

Window Lowerer::new_buffer(const Type& type) {
  plan_.buffers.push_back({Place::kScratch, 0, 0, static_cast<int64_t>(type.bytes())});
  buffers_.push_back({block_, blocks_[static_cast<size_t>(block_)].loop, -1, 0});
  return dense_window(static_cast<BufferId>(plan_.buffers.size() - 1), type.dtype, type.dims);
}

int32_t Lowerer::add_kernel(KernelKind kind, const Node& node) {
  Kernel& made = plan_.kernels.emplace_back();
  made.kind = kind;
  made.block = block_;
  made.origin = node.origin;
  made.attributes = node.attributes.data();
  made.attribute_count = node.attributes.size();
  return static_cast<int32_t>(plan_.kernels.size() - 1);
}

void Lowerer::set_register(Ref result, int32_t kernel_number, Reg reg) {
  Value& made = value(result);
  made.kernel = kernel_number;
  made.reg = reg;
  kernel(kernel_number).tail.expected += made.pending > 0 ? 1 : 0;
}

void Lowerer::set_window(Ref result, const Window& window, int32_t kernel_number) {
  attach(value(result), window, kernel_number);
}

void Lowerer::set_view(Ref result, const Window& window, Ref base) {
  set_window(result, window, value(base).kernel);
}

Window Lowerer::add_constant(const Type& type, std::span<const std::byte> data) {
  const int64_t at = (static_cast<int64_t>(plan_.constants.size()) + kConstantAlignment - 1) /
                     kConstantAlignment * kConstantAlignment;
  plan_.constants.resize(static_cast<size_t>(at) + data.size());
  std::copy(data.begin(), data.end(), plan_.constants.begin() + at);  // which may be none
  plan_.buffers.push_back({Place::kConstants, 0, at, static_cast<int64_t>(data.size())});
  buffers_.emplace_back();
  return dense_window(static_cast<BufferId>(plan_.buffers.size() - 1), type.dtype, type.dims);
}

Window Lowerer::constant(Dtype dtype, uint64_t bits) {
  return add_constant({dtype, {}, 1}, std::as_bytes(std::span(&bits, 1)).first(dtype_bytes(dtype)));
}

Window Lowerer::window(Ref ref) {
  Value& wanted = value(ref);
  const Node& node = flat_[ref.node];
  const bool iota = node.opcode == hir::Opcode::kIota;
  // An iota that a block made for itself may not be there for another block.
  if (wanted.window && (!iota || blocks_[static_cast<size_t>(kernel(wanted.kernel).block)].open)) {
    return *wanted.window;
  }
  if (node.opcode == hir::Opcode::kConstant) {
    const Window made =
        add_constant(type(ref), find(node.attributes, hir::AttributeKey::kLiteral)->data);
    set_window(ref, made, -1);
    return made;
  }
  if (splat(ref)) {  // a broadcast constant: lower_broadcast() left it to its users
    const Window base = window(node.operands[0]);
    Window made = dense_window(base.buffer, base.dtype, type(ref).dims);
    made.strides.resize(0);
    made.strides.resize(made.dims.size(), 0);
    set_window(ref, made, -1);
    return made;
  }
  if (iota) {
    const int32_t number = add_kernel(KernelKind::kEltwise, node);
    kernel(number).dims = Dims(type(ref).dims);
    const Reg reg = operand_register(kernel(number), number, ref);
    set_register(ref, number, reg);
  }
  const Window made = new_buffer(type(ref));
  Value& value_now = value(ref);
  Micro& tail = kernel(value_now.kernel).tail;
  tail.outputs.push_back({value_now.reg, made});
  tail.expected -= value_now.pending > 0 ? 1 : 0;
  attach(value_now, made, value_now.kernel);
  BufferState& state = buffers_[static_cast<size_t>(made.buffer)];
  state.block = kernel(value_now.kernel).block;
  state.loop = blocks_[static_cast<size_t>(state.block)].loop;
  return made;
}

bool Lowerer::is_unchanged(Ref ref) const {
  const Value& used = value(ref);
  return !used.window || buffers_[static_cast<size_t>(used.window->buffer)].updated <= used.kernel;
}

Window Lowerer::dense(Ref ref, const Node& user) {
  const Window from = window(ref);
  if (is_dense(from)) {
    return from;
  }
  const Window to = new_buffer(type(ref));
  const int32_t number = add_kernel(KernelKind::kCopy, user);
  kernel(number).pieces.push_back({from, to});
  return to;
}

std::optional<uint64_t> Lowerer::splat(Ref ref) const {
  const Node& node = flat_[ref.node];
  if (node.opcode == hir::Opcode::kBroadcast || node.opcode == hir::Opcode::kReshape) {
    const Node& operand = flat_[node.operands[0].node];
    return operand.opcode == hir::Opcode::kConstant ? splat(node.operands[0]) : std::nullopt;
  }
  if (node.opcode != hir::Opcode::kConstant || type(ref).elements == 0) {
    return std::nullopt;
  }
  const auto data = find(node.attributes, hir::AttributeKey::kLiteral)->data;
  const size_t bytes = dtype_bytes(type(ref).dtype);
  if (data.size() > bytes &&
      std::memcmp(data.data(), data.data() + bytes, data.size() - bytes) != 0) {
    return std::nullopt;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, data.data(), bytes);
  return bits;
}

bool Lowerer::can_join(const Type& result, std::span<const Ref> operands, int32_t number) const {
  const Kernel& kernel = plan_.kernels[static_cast<size_t>(number)];
  return kernel.fusible() && kernel.block == block_ &&
         std::ranges::equal(kernel.dims, result.dims) && fits(kernel, operands, number);
}

// A kernel that can grow by this operation; -1 if there is none. A broadcast scalar that would come
// too late is computed again inside of it.
int32_t Lowerer::fusion_target(const Type& result, std::span<const Ref> operands) const {
  if (!options_.fuse) {
    return -1;
  }
  const int32_t found = joinable(result, operands, false);
  return found >= 0 ? found : joinable(result, operands, true);
}

// First choice is the last kernel that an operand comes from, second the last one that reads an
// operand, if all of them are complete before it. `repeats`: scalars that are cheap to repeat don't
// count.
int32_t Lowerer::joinable(const Type& result, std::span<const Ref> operands, bool repeats) const {
  int32_t producer = -1;
  int32_t reader = -1;
  for (const Ref operand : operands) {
    if (repeats && cheap_scalar(operand).node >= 0) {
      continue;
    }
    producer = std::max(producer, value(operand).kernel);
    reader = std::max(reader, value(operand).reader);
  }
  if (producer >= 0 && can_join(result, operands, producer)) {
    return producer;
  }
  return reader > producer && can_join(result, operands, reader) ? reader : -1;
}

// What `ref` is a broadcast of, if that is the result of one cheap operation on scalars.
Ref Lowerer::cheap_scalar(Ref ref) const {
  constexpr Ref kNone{-1, 0};
  const Node& node = flat_[ref.node];
  if (node.opcode != hir::Opcode::kBroadcast || !type(node.operands[0]).dims.empty()) {
    return kNone;
  }
  switch (flat_[node.operands[0].node].opcode) {
    case hir::Opcode::kAdd:
    case hir::Opcode::kSubtract:
    case hir::Opcode::kMultiply:
      return node.operands[0];
    default:
      return kNone;
  }
}

// Whether kernel `number` can compute what `ref` is a broadcast of.
bool Lowerer::can_repeat(Ref ref, int32_t number) const {
  const Ref scalar = cheap_scalar(ref);
  if (scalar.node < 0) {
    return false;
  }
  return std::ranges::all_of(flat_[scalar.node].operands, [&](Ref operand) {
    const Value& used = value(operand);
    return splat(operand) ||
           (used.window != nullptr && used.kernel < number && is_unchanged(operand));
  });
}

Reg Lowerer::repeat(Kernel& kernel, int32_t number, Ref operand) {
  const Node& node = flat_[cheap_scalar(operand).node];
  const Dtype dtype = node.results[0].dtype;
  Micro::Op made{*hir::scalar_op(node.opcode, node.attributes, dtype, dtype), dtype, {}, 0};
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (const auto bits = splat(node.operands[i])) {
      made.operands[i] = kernel.tail.add_op({ncx::ScalarOp::kConstant, dtype, {}, *bits});
      continue;
    }
    Value& used = value(node.operands[i]);
    used.reader = std::max(used.reader, number);
    made.operands[i] = kernel.tail.add_input(broadcast(*used.window, kernel.dims, {}));
  }
  return kernel.tail.add_op(made);
}

bool Lowerer::fits(const Kernel& kernel, std::span<const Ref> operands, int32_t number) const {
  const Micro& tail = kernel.tail;
  size_t repeated = 0;
  for (const Ref operand : operands) {
    repeated += value(operand).kernel > number ? 1 : 0;
  }
  if (tail.ops.size() + 3 * repeated >= kMostOps ||
      tail.inputs.size() + tail.heads.size() + repeated >= kMostInputs ||
      tail.outputs.size() + static_cast<size_t>(tail.expected) + 1 >=
          static_cast<size_t>(ncx::kMaxOutputs)) {
    return false;
  }
  for (const Ref operand : operands) {
    const Value& used = value(operand);
    const Node& node = flat_[operand.node];
    if (used.reg.list == Reg::List::kNone ? used.kernel == number : used.kernel > number) {
      return false;  // a view of what this kernel itself writes
    }
    if (used.kernel > number && !can_repeat(operand, number)) {
      return false;
    }
    if (!kernel.is_product() || used.kernel == number || splat(operand)) {
      continue;
    }
    if (node.opcode == hir::Opcode::kIota) {
      return false;  // its place in the product's dimensions is not one dimension's
    }
    if (!used.window || type(operand).dims.empty()) {
      continue;  // dense or one element: any run of dimensions can be one
    }
    for (const Run& run : kernel.runs) {
      if (!can_merge(*used.window, run.begin, run.count)) {
        return false;
      }
    }
  }
  return true;
}

Window Lowerer::operand_window(Ref operand, std::span<const int64_t> dims) {
  const Window found = window(operand);
  return found.dims.size() == dims.size() ? found : broadcast(found, dims, {});
}

Reg Lowerer::operand_register(Kernel& kernel, int32_t number, Ref operand) {
  const Node& node = flat_[operand.node];
  const Dtype dtype = type(operand).dtype;
  if (value(operand).kernel == number && value(operand).reg.list != Reg::List::kNone) {
    return value(operand).reg;
  }
  if (const auto bits = splat(operand)) {
    return kernel.tail.add_op({ncx::ScalarOp::kConstant, dtype, {}, *bits});
  }
  if (node.opcode == hir::Opcode::kIota && type(operand).dims.size() == kernel.dims.size()) {
    return kernel.tail.add_op(
        {ncx::ScalarOp::kIota,
         dtype,
         {},
         static_cast<uint64_t>(node.ints(hir::AttributeKey::kDimensions)[0])});
  }
  if (value(operand).kernel > number) {
    return repeat(kernel, number, operand);
  }
  const Dims dims = kernel.dims;
  const Window found = operand_window(operand, dims);
  value(operand).reader = std::max(value(operand).reader, number);
  return plan_.kernels[static_cast<size_t>(number)].tail.add_input(found);
}

Status Lowerer::append_scalar(const Node& node, Ref result, const Micro::Op& op,
                              std::span<const Ref> operands) {
  int32_t target = fusion_target(type(result), operands);
  if (target < 0) {
    for (const Ref operand : operands) {  // iotas of other dims make kernels of their own first
      const bool leaf = is_leaf(flat_[operand.node].opcode);
      if (!splat(operand) && (!leaf || type(operand).dims.size() != type(result).dims.size())) {
        window(operand);
      }
    }
    target = add_kernel(KernelKind::kEltwise, node);
    kernel(target).dims = Dims(type(result).dims);
  }
  Micro::Op made = op;
  for (size_t i = 0; i < operands.size(); ++i) {
    made.operands[i] = operand_register(kernel(target), target, operands[i]);
  }
  set_register(result, target, kernel(target).tail.add_op(made));
  return ok_status();
}

Window Lowerer::updatable(Ref operand, const Node& node) {
  const Window found = window(operand);
  if (may_overwrite(found)) {
    buffers_[static_cast<size_t>(found.buffer)].updated = last_kernel() + 1;
    return found;
  }
  const Window made = new_buffer(type(operand));
  const int32_t number = add_kernel(KernelKind::kCopy, node);
  kernel(number).pieces.push_back({found, made});
  return made;
}

std::optional<Kernel> Lowerer::take_producer(std::span<const Ref> operands) {
  const int32_t number = value(operands[0]).kernel;
  if (!options_.fuse || number < 0 || kernel(number).kind != KernelKind::kEltwise ||
      kernel(number).block != block_) {
    return std::nullopt;
  }
  Kernel& producer = kernel(number);
  const bool changed = std::ranges::any_of(producer.tail.inputs, [&](const Window& input) {
    return buffers_[static_cast<size_t>(input.buffer)].updated > number;
  });
  if (changed || !producer.tail.outputs.empty() ||
      producer.tail.expected != static_cast<int>(operands.size())) {
    return std::nullopt;
  }
  for (const Ref operand : operands) {
    const Value& used = value(operand);
    if (used.kernel != number || used.reg.list == Reg::List::kNone || used.pending != 1) {
      return std::nullopt;
    }
  }
  Kernel taken = producer;
  for (const Ref operand : operands) {
    taken.tail.outputs.push_back({value(operand).reg, Window{}});
  }
  producer.kind = KernelKind::kNothing;
  producer.tail.inputs.clear();
  return taken;
}

}  // namespace onrt::lowering
