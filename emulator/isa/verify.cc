// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include "emulator/isa/encoding.h"
#include "emulator/isa/verify_parts.h"
#include "runtime/base/format.h"

namespace onrt::ncx {
namespace {

Status invalid(std::string message) { return Status(NRT_INVALID, std::move(message)); }

enum class Access { kRead, kWrite };

// Blocks inside blocks; the engine walks them by recursion.
constexpr size_t kMaxNesting = 64;

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  Status run() {
    ONRT_RETURN_IF_ERROR(check_tables());
    nesting_.assign(program_.blocks.size(), 0);
    for (size_t b = 0; b < program_.blocks.size(); ++b) {
      const auto& instructions = program_.blocks[b].instructions;
      for (size_t i = 0; i < instructions.size(); ++i) {
        Status status = check_instruction(instructions[i], b);
        if (!status.ok()) {
          return std::move(status).annotate(
              format("NCX block {} instruction {}{}", b, i, name_of(instructions[i])));
        }
      }
    }
    return ok_status();
  }

 private:
  std::string name_of(const Instruction& instruction) const {
    return instruction.name < program_.names.size()
               ? format(" ({})", printable(program_.names[instruction.name]))
               : std::string();
  }

  Status check_tables() const {
    if (program_.core_version < 2 || program_.core_version > 4) {
      return invalid(format("NCX program: core version {} where 2, 3 or 4 is expected",
                            program_.core_version));
    }
    if (program_.flags != 0) {
      return Status(NRT_UNSUPPORTED_NEFF_VERSION,
                    format("NCX program: flags {:#x} where 0 is expected", program_.flags));
    }
    if (program_.blocks.empty() || program_.blocks.size() > kMaxBlocks ||
        program_.io.size() > kMaxIoSlots || program_.semaphores > kMaxSemaphores ||
        program_.scratch_bytes > static_cast<uint64_t>(kMaxElements) ||
        program_.names.size() > kMaxInstructions) {
      return invalid(
          format("NCX program: {} blocks, {} io slots, {} semaphores, {} bytes of scratch, "
                 "{} names: one of them is out of range",
                 program_.blocks.size(), program_.io.size(), program_.semaphores,
                 program_.scratch_bytes, program_.names.size()));
    }
    for (size_t i = 0; i < program_.io.size(); ++i) {
      ONRT_RETURN_IF_ERROR(check_slot(program_.io[i]).annotate(format("NCX io slot {}", i)));
    }
    for (const std::string& name : program_.names) {
      if (name.size() > kMaxNameBytes) {
        return invalid(format("NCX program: a name of {} bytes where {} are allowed", name.size(),
                              kMaxNameBytes));
      }
    }
    return ok_status();
  }

  static Status check_slot(const IoSlot& slot) {
    if (slot.dims.size() > kMaxIoRank) {
      return invalid(format("rank {} where at most {} is allowed", slot.dims.size(), kMaxIoRank));
    }
    ONRT_RETURN_IF_ERROR(verify_dims(slot.dims));
    uint64_t elements = 1;
    for (const int64_t dim : slot.dims) {
      elements *= static_cast<uint64_t>(dim);
    }
    const uint64_t width = dtype_bytes(slot.dtype);
    if (elements > static_cast<uint64_t>(kMaxElements) / width || slot.bytes != elements * width) {
      return invalid(format("{} bytes where the dims and {} need {} elements", slot.bytes,
                            dtype_name(slot.dtype), elements));
    }
    return ok_status();
  }

  Status check_instruction(const Instruction& instruction, size_t block) const {
    if (instruction.name >= std::max<size_t>(1, program_.names.size())) {
      return invalid(format("name {} of {}", instruction.name, program_.names.size()));
    }
    for (const SemaphoreWait& wait : instruction.waits) {
      ONRT_RETURN_IF_ERROR(check_semaphore(wait.semaphore));
    }
    for (const SemaphoreIncrement& increment : instruction.increments) {
      ONRT_RETURN_IF_ERROR(check_semaphore(increment.semaphore));
    }
    return std::visit([&](const auto& op) { return check(op, block); }, instruction.payload);
  }

  Status check_semaphore(uint16_t semaphore) const {
    return semaphore < program_.semaphores
               ? ok_status()
               : invalid(format("semaphore {} of {}", semaphore, program_.semaphores));
  }

  Status check_view(const View& view, Access access) const {
    ONRT_RETURN_IF_ERROR(verify_dims({view.dims.data(), view.rank}));
    uint64_t limit = 0;
    switch (view.space) {
      case Space::kIo:
        if (view.slot >= program_.io.size()) {
          return invalid(format("io slot {} of {}", view.slot, program_.io.size()));
        }
        limit = program_.io[view.slot].bytes;
        if (access == Access::kWrite && program_.io[view.slot].usage == SlotUsage::kInput) {
          return invalid(format("writes to input slot {}", view.slot));
        }
        break;
      case Space::kScratch:
        limit = program_.scratch_bytes;
        break;
      case Space::kConstants:
        limit = program_.constants_bytes;
        if (access == Access::kWrite) {
          return invalid("writes to constants");
        }
        break;
    }
    if (view.space != Space::kIo && view.slot != 0) {
      return invalid(format("slot {} where 0 is expected", view.slot));
    }
    if (view.offset % dtype_bytes(view.dtype) != 0) {
      return invalid(format("offset {} is not a multiple of the {} bytes of {}", view.offset,
                            dtype_bytes(view.dtype), dtype_name(view.dtype)));
    }
    ONRT_ASSIGN_OR_RETURN(const Reach reach, reach_of(view));
    if (reach.low < 0 || static_cast<uint64_t>(reach.high) > limit) {
      return invalid(format("touches bytes [{}, {}) of {} bytes", reach.low, reach.high, limit));
    }
    if (access == Access::kWrite && overlaps_itself(view)) {
      return invalid("an output names an element twice");
    }
    return ok_status();
  }

  Status check_views(std::span<const View> views, std::span<const int64_t> dims, Access access,
                     std::string_view what) const {
    for (size_t i = 0; i < views.size(); ++i) {
      Status status = check_view(views[i], access);
      if (status.ok() &&
          !std::ranges::equal(std::span(views[i].dims.data(), views[i].rank), dims)) {
        status = invalid("dims differ from the domain's");
      }
      if (!status.ok()) {
        return std::move(status).annotate(format("{} {}", what, i));
      }
    }
    return ok_status();
  }

  Status check_scalar(const View& view, std::string_view what) const {
    Status status = check_view(view, Access::kRead);
    if (status.ok() && view.rank != 0) {
      status = invalid(format("rank {} where a scalar is expected", view.rank));
    }
    return std::move(status).annotate(what);
  }

  static std::vector<Dtype> types_of(std::span<const View> views) {
    std::vector<Dtype> types;
    types.reserve(views.size());
    for (const View& view : views) {
      types.push_back(view.dtype);
    }
    return types;
  }

  static Status check_counts(size_t inputs, size_t outputs) {
    if (inputs > kMaxMicroInputs || outputs == 0 || outputs > kMaxOutputs) {
      return invalid(format("{} inputs and {} outputs where at most {} and 1 to {} are allowed",
                            inputs, outputs, kMaxMicroInputs, kMaxOutputs));
    }
    return ok_status();
  }

  Status check(const Eltwise& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_counts(op.inputs.size(), op.outputs.size()));
    const std::span<const int64_t> dims(op.domain.dims.data(), op.domain.rank);
    ONRT_RETURN_IF_ERROR(verify_dims(dims));
    ONRT_RETURN_IF_ERROR(check_views(op.inputs, dims, Access::kRead, "input"));
    ONRT_RETURN_IF_ERROR(check_views(op.outputs, dims, Access::kWrite, "output"));
    return verify_micro(op.program, types_of(op.inputs), types_of(op.outputs), op.domain.rank,
                        "micro-program");
  }

  Status check(const Reduce& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_counts(op.inputs.size(), op.outputs.size()));
    const std::span<const int64_t> dims(op.domain.dims.data(), op.domain.rank);
    ONRT_RETURN_IF_ERROR(verify_dims(dims));
    if (op.reduced > op.domain.rank) {
      return invalid(format("{} reduced dimensions of {}", op.reduced, op.domain.rank));
    }
    const auto kept = dims.first(op.domain.rank - op.reduced);
    ONRT_RETURN_IF_ERROR(check_views(op.inputs, dims, Access::kRead, "input"));
    ONRT_RETURN_IF_ERROR(check_views(op.epilogue_inputs, kept, Access::kRead, "epilogue input"));
    ONRT_RETURN_IF_ERROR(check_views(op.outputs, kept, Access::kWrite, "output"));
    ONRT_RETURN_IF_ERROR(
        check_counts(op.epilogue_inputs.size() + op.accumulators.size(), op.accumulators.size()));
    std::vector<Dtype> accumulators;
    for (size_t i = 0; i < op.accumulators.size(); ++i) {
      const Reduce::Accumulator& accumulator = op.accumulators[i];
      accumulators.push_back(accumulator.type);
      ONRT_RETURN_IF_ERROR(check_scalar(accumulator.init, "initial value"));
      if (accumulator.init.dtype != accumulator.type) {
        return invalid(format("accumulator {} is {} and its initial value {}", i,
                              dtype_name(accumulator.type), dtype_name(accumulator.init.dtype)));
      }
      if (op.general.results.empty() && !is_combiner(accumulator.combiner, accumulator.type)) {
        return invalid(format("accumulator {} combines {} by {}", i, dtype_name(accumulator.type),
                              scalar_op_info(accumulator.combiner).name));
      }
    }
    ONRT_RETURN_IF_ERROR(
        verify_micro(op.prologue, types_of(op.inputs), accumulators, op.domain.rank, "prologue"));
    if (!op.general.results.empty()) {
      std::vector<Dtype> pairs = accumulators;
      pairs.insert(pairs.end(), accumulators.begin(), accumulators.end());
      ONRT_RETURN_IF_ERROR(verify_micro(op.general, pairs, accumulators, 0, "combiner"));
    }
    std::vector<Dtype> epilogue = accumulators;
    for (const View& view : op.epilogue_inputs) {
      epilogue.push_back(view.dtype);
    }
    return verify_micro(op.epilogue, epilogue, types_of(op.outputs), static_cast<int>(kept.size()),
                        "epilogue");
  }

  Status check(const Gemm& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_counts(op.epilogue_inputs.size() + 1, op.outputs.size()));
    ONRT_RETURN_IF_ERROR(check_view(op.lhs, Access::kRead).annotate("lhs"));
    ONRT_RETURN_IF_ERROR(check_view(op.rhs, Access::kRead).annotate("rhs"));
    const int rank = op.lhs.rank;
    bool fits = rank >= 2 && rank <= 6 && op.rhs.rank == rank &&
                op.lhs.dims[rank - 1] == op.rhs.dims[rank - 2];
    for (int d = 0; fits && d < rank - 2; ++d) {
      fits = op.lhs.dims[d] == op.rhs.dims[d];
    }
    if (!fits) {
      return invalid("lhs and rhs are not [batch.., m, k] and [batch.., k, n]");
    }
    if (is_floating(op.lhs.dtype) != is_floating(op.rhs.dtype) ||
        is_floating(op.lhs.dtype) != is_floating(op.type)) {
      return invalid(format("{} times {} giving {}", dtype_name(op.lhs.dtype),
                            dtype_name(op.rhs.dtype), dtype_name(op.type)));
    }
    Extents out{static_cast<uint8_t>(rank), op.lhs.dims};
    out.dims[rank - 1] = op.rhs.dims[rank - 1];
    const std::span<const int64_t> dims(out.dims.data(), out.rank);
    ONRT_RETURN_IF_ERROR(verify_dims(dims));
    ONRT_RETURN_IF_ERROR(check_views(op.epilogue_inputs, dims, Access::kRead, "epilogue input"));
    ONRT_RETURN_IF_ERROR(check_views(op.outputs, dims, Access::kWrite, "output"));
    std::vector<Dtype> types = {op.type};
    for (const View& view : op.epilogue_inputs) {
      types.push_back(view.dtype);
    }
    return verify_micro(op.epilogue, types, types_of(op.outputs), rank, "epilogue");
  }

  // Coordinates along an axis stay below 2^62.
  static Status check_axis(const Conv::Axis& axis, int64_t in, int64_t size, int64_t out) {
    for (const int64_t step : {axis.stride, axis.dilation, axis.base_dilation}) {
      if (step < 1 || step > kMaxAxisStep) {
        return invalid(format("a step of {} where 1 to 2^31 is allowed", step));
      }
    }
    if (axis.low < -kMaxAxisStep || axis.low > kMaxAxisStep) {
      return invalid(format("padding of {} where -2^31 to 2^31 is allowed", axis.low));
    }
    constexpr int64_t kMost = (int64_t{1} << 62) / kMaxAxisStep / 4;
    if (in > kMost || size > kMost || out > kMost) {
      return invalid(format("more than {} positions", kMost));
    }
    return ok_status();
  }

  Status check_axes(const Conv& op) const {
    if (op.axes.size() + 3 != op.input.rank || op.axes.size() + 3 != op.kernel.rank ||
        op.outputs[0].rank != op.input.rank) {
      return invalid(format("{} axes for ranks {}, {} and {}", op.axes.size(), op.input.rank,
                            op.kernel.rank, op.outputs[0].rank));
    }
    const auto& out = op.outputs[0].dims;
    if (op.kernel.dims[0] != op.input.dims[0] || op.kernel.dims[1] != op.input.dims[2] ||
        out[0] != op.input.dims[0] || out[1] != op.input.dims[1] || out[2] != op.kernel.dims[2]) {
      return invalid("groups, batch or features of input, kernel and output differ");
    }
    for (size_t i = 0; i < op.axes.size(); ++i) {
      ONRT_RETURN_IF_ERROR(
          check_axis(op.axes[i], op.input.dims[3 + i], op.kernel.dims[3 + i], out[3 + i])
              .annotate(format("axis {}", i)));
    }
    return ok_status();
  }

  Status check(const Conv& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_counts(op.epilogue_inputs.size() + 1, op.outputs.size()));
    ONRT_RETURN_IF_ERROR(check_view(op.input, Access::kRead).annotate("input"));
    ONRT_RETURN_IF_ERROR(check_view(op.kernel, Access::kRead).annotate("kernel"));
    ONRT_RETURN_IF_ERROR(check_axes(op));
    const bool floats =
        is_floating(op.input.dtype) && is_floating(op.kernel.dtype) && is_floating(op.type);
    const bool integers =
        is_integer(op.input.dtype) && is_integer(op.kernel.dtype) && is_integer(op.type);
    if (!floats && !integers) {
      return invalid(format("{} times {} giving {}", dtype_name(op.input.dtype),
                            dtype_name(op.kernel.dtype), dtype_name(op.type)));
    }
    const std::span<const int64_t> dims(op.outputs[0].dims.data(), op.outputs[0].rank);
    ONRT_RETURN_IF_ERROR(verify_dims(dims));
    ONRT_RETURN_IF_ERROR(check_views(op.epilogue_inputs, dims, Access::kRead, "epilogue input"));
    ONRT_RETURN_IF_ERROR(check_views(op.outputs, dims, Access::kWrite, "output"));
    std::vector<Dtype> types = {op.type};
    for (const View& view : op.epilogue_inputs) {
      types.push_back(view.dtype);
    }
    return verify_micro(op.epilogue, types, types_of(op.outputs), op.outputs[0].rank, "epilogue");
  }

  Status check(const Linalg& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_view(op.a, Access::kRead).annotate("a"));
    ONRT_RETURN_IF_ERROR(check_view(op.output, Access::kWrite).annotate("output"));
    const bool solve = op.kind == LinalgKind::kTriangularSolve;
    const View& b = solve ? op.b : op.a;
    if (solve) {
      ONRT_RETURN_IF_ERROR(check_view(op.b, Access::kRead).annotate("b"));
    }
    const int rank = op.a.rank;
    bool fits = rank >= 2 && same_dims(op.output, b) && b.rank == rank &&
                op.a.dims[rank - 1] == op.a.dims[rank - 2] &&
                b.dims[rank - 2] == op.a.dims[rank - 1];
    for (int d = 0; fits && d < rank - 2; ++d) {
      fits = op.a.dims[d] == b.dims[d];
    }
    if (!fits) {
      return invalid("operands are not [batch.., n, n] and [batch.., n, columns]");
    }
    for (const View* view : {&op.a, &b, &op.output}) {
      if (!is_floating(view->dtype)) {
        return invalid(format("elements of type {}", dtype_name(view->dtype)));
      }
    }
    return op.unit_diagonal <= 1 ? ok_status()
                                 : invalid(format("unit diagonal is {}", op.unit_diagonal));
  }

  Status check(const Copy& op, size_t) const {
    if (op.pieces.size() > kMaxCopyPieces) {
      return invalid(format("{} pieces where {} are allowed", op.pieces.size(), kMaxCopyPieces));
    }
    for (size_t i = 0; i < op.pieces.size(); ++i) {
      const Copy::Piece& piece = op.pieces[i];
      Status status = check_view(piece.source, Access::kRead).annotate("source");
      if (status.ok()) {
        status = check_view(piece.destination, Access::kWrite).annotate("destination");
      }
      if (status.ok() && (!same_dims(piece.source, piece.destination) ||
                          piece.source.dtype != piece.destination.dtype)) {
        status = invalid("source and destination differ in dims or type");
      }
      if (!status.ok()) {
        return std::move(status).annotate(format("piece {}", i));
      }
    }
    return ok_status();
  }

  Status check(const Gather& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_view(op.operand, Access::kRead).annotate("operand"));
    ONRT_RETURN_IF_ERROR(check_view(op.indices, Access::kRead).annotate("indices"));
    ONRT_RETURN_IF_ERROR(check_view(op.output, Access::kWrite).annotate("output"));
    return verify_gather(op);
  }

  Status check(const Scatter& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_counts(0, op.outputs.size()));
    ONRT_RETURN_IF_ERROR(check_view(op.indices, Access::kRead).annotate("indices"));
    if (op.outputs.size() != op.updates.size()) {
      return invalid(format("{} operands and {} updates", op.outputs.size(), op.updates.size()));
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      ONRT_RETURN_IF_ERROR(check_view(op.outputs[i], Access::kWrite).annotate("operand"));
      ONRT_RETURN_IF_ERROR(check_view(op.updates[i], Access::kRead).annotate("updates"));
      if (!same_dims(op.outputs[i], op.outputs[0]) || !same_dims(op.updates[i], op.updates[0]) ||
          op.outputs[i].dtype != op.updates[i].dtype) {
        return invalid(format("operand or updates {} differ in dims or type", i));
      }
    }
    ONRT_RETURN_IF_ERROR(verify_scatter(op));
    const std::vector<Dtype> types = types_of(op.outputs);
    std::vector<Dtype> pairs = types;
    pairs.insert(pairs.end(), types.begin(), types.end());
    return verify_micro(op.combiner, pairs, types, 0, "combiner");
  }

  Status check_starts(std::span<const View> starts, int rank) const {
    if (starts.size() != static_cast<size_t>(rank)) {
      return invalid(format("{} start indices for rank {}", starts.size(), rank));
    }
    for (const View& start : starts) {
      ONRT_RETURN_IF_ERROR(check_scalar(start, "start index"));
      if (!is_integer(start.dtype)) {
        return invalid(format("a start index of type {}", dtype_name(start.dtype)));
      }
    }
    return ok_status();
  }

  // `window` lies inside `whole`.
  static Status check_window(const View& whole, const View& window) {
    bool fits = whole.rank == window.rank && whole.dtype == window.dtype;
    for (int d = 0; fits && d < whole.rank; ++d) {
      fits = window.dims[d] <= whole.dims[d];
    }
    return fits ? ok_status() : invalid("the slice does not fit the array in rank, size or type");
  }

  Status check(const DynamicSlice& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_view(op.source, Access::kRead).annotate("source"));
    ONRT_RETURN_IF_ERROR(check_view(op.destination, Access::kWrite).annotate("destination"));
    ONRT_RETURN_IF_ERROR(check_starts(op.starts, op.source.rank));
    return check_window(op.source, op.destination);
  }

  Status check(const DynamicUpdateSlice& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_view(op.destination, Access::kWrite).annotate("destination"));
    ONRT_RETURN_IF_ERROR(check_view(op.update, Access::kRead).annotate("update"));
    ONRT_RETURN_IF_ERROR(check_starts(op.starts, op.destination.rank));
    return check_window(op.destination, op.update);
  }

  Status check(const Rng& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_view(op.output, Access::kWrite).annotate("output"));
    if (op.kind == RngKind::kUniform || op.kind == RngKind::kNormal) {
      ONRT_RETURN_IF_ERROR(check_scalar(op.a, "parameter a"));
      ONRT_RETURN_IF_ERROR(check_scalar(op.b, "parameter b"));
      const bool typed = op.output.dtype != Dtype::kPred && op.a.dtype == op.output.dtype &&
                         op.b.dtype == op.output.dtype &&
                         (op.kind == RngKind::kUniform || is_floating(op.output.dtype));
      return typed ? ok_status()
                   : invalid(format("rng of {} with parameters {} and {}",
                                    dtype_name(op.output.dtype), dtype_name(op.a.dtype),
                                    dtype_name(op.b.dtype)));
    }
    if (op.kind != RngKind::kThreeFry && op.kind != RngKind::kPhilox) {
      return invalid(format("rng kind {}", static_cast<int>(op.kind)));
    }
    ONRT_RETURN_IF_ERROR(check_view(op.state, Access::kRead).annotate("state"));
    ONRT_RETURN_IF_ERROR(check_view(op.state_out, Access::kWrite).annotate("new state"));
    const int64_t words = op.state.rank == 1 ? op.state.dims[0] : 0;
    const bool state_fits = op.state.dtype == Dtype::kU64 && op.state_out.dtype == Dtype::kU64 &&
                            same_dims(op.state, op.state_out) &&
                            (words == 2 || (words == 3 && op.kind == RngKind::kPhilox));
    if (!state_fits || !is_integer(op.output.dtype)) {
      return invalid("the state is not u64[2] (philox: or u64[3]), or the bits are not integers");
    }
    return ok_status();
  }

  // Nested blocks come after the block that names them, so there is no recursion.
  Status check_block(uint32_t nested, size_t block) const {
    if (nested <= block || nested >= program_.blocks.size()) {
      return invalid(
          format("block {} named by block {} of {}", nested, block, program_.blocks.size()));
    }
    // Blocks are checked in order, so this block's own nesting is known.
    nesting_[nested] = std::max(nesting_[nested], nesting_[block] + 1);
    return nesting_[nested] <= kMaxNesting
               ? ok_status()
               : invalid(format("block {} is nested more than {} deep", nested, kMaxNesting));
  }

  Status check(const Loop& op, size_t block) const {
    ONRT_RETURN_IF_ERROR(check_block(op.condition, block));
    ONRT_RETURN_IF_ERROR(check_block(op.body, block));
    ONRT_RETURN_IF_ERROR(check_scalar(op.predicate, "predicate"));
    return op.predicate.dtype == Dtype::kPred
               ? ok_status()
               : invalid(format("predicate of type {}", dtype_name(op.predicate.dtype)));
  }

  Status check(const If& op, size_t block) const {
    ONRT_RETURN_IF_ERROR(check_scalar(op.selector, "selector"));
    for (const uint32_t branch : op.branches) {
      ONRT_RETURN_IF_ERROR(check_block(branch, block));
    }
    const bool two_way = op.selector.dtype == Dtype::kPred && op.branches.size() == 2;
    const bool indexed = op.selector.dtype == Dtype::kS32 && !op.branches.empty();
    return two_way || indexed ? ok_status()
                              : invalid(format("{} branches chosen by {}", op.branches.size(),
                                               dtype_name(op.selector.dtype)));
  }

  Status check(const Call& op, size_t block) const { return check_block(op.block, block); }

  Status check_all(std::span<const View> views, Access access, std::string_view what) const {
    for (size_t i = 0; i < views.size(); ++i) {
      ONRT_RETURN_IF_ERROR(check_view(views[i], access).annotate(format("{} {}", what, i)));
    }
    return ok_status();
  }

  Status check(const Sort& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_all(op.inputs, Access::kRead, "input"));
    ONRT_RETURN_IF_ERROR(check_all(op.outputs, Access::kWrite, "output"));
    ONRT_RETURN_IF_ERROR(verify_sort(op));
    std::vector<Dtype> pairs;
    for (const View& view : op.inputs) {
      pairs.insert(pairs.end(), 2, view.dtype);
    }
    constexpr Dtype kResult[] = {Dtype::kPred};
    return verify_micro(op.comparator, pairs, kResult, 0, "comparator");
  }

  Status check(const ReduceWindow& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_all(op.inputs, Access::kRead, "input"));
    ONRT_RETURN_IF_ERROR(check_all(op.outputs, Access::kWrite, "output"));
    for (const Reduce::Accumulator& accumulator : op.accumulators) {
      ONRT_RETURN_IF_ERROR(check_scalar(accumulator.init, "initial value"));
    }
    ONRT_RETURN_IF_ERROR(verify_reduce_window(op));
    if (op.general.results.empty()) {
      return ok_status();
    }
    const std::vector<Dtype> types = types_of(op.inputs);
    std::vector<Dtype> pairs = types;
    pairs.insert(pairs.end(), types.begin(), types.end());
    return verify_micro(op.general, pairs, types, 0, "combiner");
  }

  Status check(const SelectScatter& op, size_t) const {
    ONRT_RETURN_IF_ERROR(check_view(op.operand, Access::kRead).annotate("operand"));
    ONRT_RETURN_IF_ERROR(check_view(op.source, Access::kRead).annotate("source"));
    ONRT_RETURN_IF_ERROR(check_scalar(op.init, "initial value"));
    ONRT_RETURN_IF_ERROR(check_view(op.output, Access::kWrite).annotate("output"));
    ONRT_RETURN_IF_ERROR(verify_select_scatter(op));
    const Dtype pair[] = {op.operand.dtype, op.operand.dtype};
    constexpr Dtype kSelected[] = {Dtype::kPred};
    ONRT_RETURN_IF_ERROR(verify_micro(op.select, pair, kSelected, 0, "select"));
    return verify_micro(op.scatter, pair, std::span(pair).first(1), 0, "scatter");
  }

  const Program& program_;
  mutable std::vector<size_t> nesting_;  // by block; filled while the blocks are checked
};

}  // namespace

Status verify(const Program& program) { return Verifier(program).run(); }

bool same_dims(const View& a, const View& b) {
  return a.rank == b.rank && std::equal(a.dims.begin(), a.dims.begin() + a.rank, b.dims.begin());
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out;
}

}  // namespace onrt::ncx
