// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowering/emit.h"

#include <algorithm>

#include "compiler/hir/status.h"
#include "compiler/ops/convolution.h"
#include "runtime/base/format.h"

namespace onrt::lowering {
namespace {

using hir::AttributeKey;
using ncx::ScalarOp;

// Longer names serve nobody and break the format's limit.
constexpr size_t kMostNameBytes = 255;

ncx::Extents extents(const std::vector<Run>& runs, const Dims& dims) {
  ncx::Extents made;
  for (const Run& run : runs) {
    int64_t size = 1;
    for (size_t d = run.begin; d < run.begin + run.count; ++d) {
      size *= dims[d];
    }
    made.dims[made.rank++] = size;
  }
  return made;
}

uint64_t iota_dims(const Micro& micro) {
  uint64_t fixed = 0;
  for (const Micro::Op& op : micro.ops) {
    fixed |= op.op == ScalarOp::kIota ? uint64_t{1} << op.immediate : 0;
  }
  return fixed;
}

std::vector<const Window*> windows_of(const Micro& micro, bool outputs) {
  std::vector<const Window*> made;
  for (const Window& window : micro.inputs) {
    made.push_back(&window);
  }
  for (const Micro::Output& output : micro.outputs) {
    if (outputs) {
      made.push_back(&output.window);
    }
  }
  return made;
}

// Transcendental functions belong to the activation engine.
bool is_transcendental(ScalarOp op) {
  switch (op) {
    case ScalarOp::kExp:
    case ScalarOp::kExpm1:
    case ScalarOp::kLog:
    case ScalarOp::kLog1p:
    case ScalarOp::kLogistic:
    case ScalarOp::kTanh:
    case ScalarOp::kSqrt:
    case ScalarOp::kRsqrt:
    case ScalarOp::kCbrt:
    case ScalarOp::kErf:
    case ScalarOp::kSin:
    case ScalarOp::kCos:
    case ScalarOp::kTan:
    case ScalarOp::kPower:
    case ScalarOp::kAtan2:
    case ScalarOp::kAcos:
    case ScalarOp::kAcosh:
    case ScalarOp::kAsin:
    case ScalarOp::kAsinh:
    case ScalarOp::kAtan:
    case ScalarOp::kAtanh:
    case ScalarOp::kCosh:
    case ScalarOp::kSinh:
      return true;
    default:
      return false;
  }
}

class Emitter {
 public:
  Emitter(const Flat& flat, Plan& plan) : flat_(flat), plan_(plan) {}

  Result<std::vector<ncx::Block>> run(std::vector<std::string>& names) {
    std::vector<ncx::Block> blocks(static_cast<size_t>(plan_.blocks));
    blocks[0].instructions.reserve(plan_.kernels.size());
    for (Kernel& kernel : plan_.kernels) {
      ncx::Instruction made;
      made.name = static_cast<uint32_t>(names.size());
      names.push_back(flat_.graph().label(kernel.origin).substr(0, kMostNameBytes));
      Status status = emit_kernel(kernel, made);
      if (!status.ok()) {
        return std::move(status).annotate(hir::describe(flat_.graph(), kernel.origin));
      }
      blocks[static_cast<size_t>(kernel.block)].instructions.push_back(std::move(made));
    }
    return blocks;
  }

 private:
  Status emit_kernel(Kernel& kernel, ncx::Instruction& made) {
    switch (kernel.kind) {
      case KernelKind::kEltwise:
        return emit_eltwise(kernel, made);
      case KernelKind::kReduce:
        return emit_reduce(kernel, made);
      case KernelKind::kGemm:
        return emit_gemm(kernel, made);
      case KernelKind::kConv:
        return emit_conv(kernel, made);
      case KernelKind::kCopy:
        return emit_copy(kernel, made);
      case KernelKind::kLoop:
      case KernelKind::kIf:
        return emit_control(kernel, made);
      case KernelKind::kNothing:
        return hir::internal("a kernel without purpose is left");
      case KernelKind::kSort:
        return emit_sort(kernel, made);
      case KernelKind::kReduceWindow:
        return emit_reduce_window(kernel, made);
      case KernelKind::kSelectScatter:
        return emit_select_scatter(kernel, made);
      default:
        made.engine = ncx::Engine::kPool;
        return emit_indexed(kernel, made);
    }
  }

  // A window of at most kMaxRank dimensions as it is.
  Result<ncx::View> view(const Window& window) {
    if (window.dims.size() > static_cast<size_t>(ncx::kMaxRank)) {
      return hir::unsupported(
          format("needs {} dimensions that cannot be merged; an instruction "
                 "has {}",
                 window.dims.size(), ncx::kMaxRank));
    }
    const Buffer& buffer = plan_.buffers[static_cast<size_t>(window.buffer)];
    ncx::View made;
    made.space = buffer.place == Place::kIo        ? ncx::Space::kIo
                 : buffer.place == Place::kScratch ? ncx::Space::kScratch
                                                   : ncx::Space::kConstants;
    made.slot = static_cast<uint16_t>(buffer.slot);
    made.dtype = window.dtype;
    made.rank = static_cast<uint8_t>(window.dims.size());
    made.offset = static_cast<uint64_t>(buffer.offset + window.offset);
    std::copy(window.dims.begin(), window.dims.end(), made.dims.begin());
    std::copy(window.strides.begin(), window.strides.end(), made.strides.begin());
    return made;
  }

  Status views(std::span<const Window> windows, std::span<const Run> runs,
               std::vector<ncx::View>& out) {
    for (const Window& window : windows) {
      ONRT_ASSIGN_OR_RETURN(const ncx::View made, view(merge(window, runs)));
      out.push_back(made);
    }
    return ok_status();
  }

  Status output_views(const Micro& micro, std::span<const Run> runs, std::vector<ncx::View>& out) {
    for (const Micro::Output& output : micro.outputs) {
      ONRT_ASSIGN_OR_RETURN(const ncx::View made, view(merge(output.window, runs)));
      out.push_back(made);
    }
    return ok_status();
  }

  // Iotas count along the run that holds their dimension; along one of size 1 they are 0.
  static ncx::MicroProgram program(const Micro& micro, std::span<const Run> runs,
                                   const Dims& dims) {
    ncx::MicroProgram made;
    const size_t inputs = micro.heads.size();
    const size_t ops = inputs + micro.inputs.size();
    const auto number = [&](Reg reg) {
      const size_t begin = reg.list == Reg::List::kHead    ? 0
                           : reg.list == Reg::List::kInput ? inputs
                                                           : ops;
      return static_cast<uint16_t>(begin + reg.index);
    };
    for (const Micro::Op& op : micro.ops) {
      ncx::MicroOp& out = made.ops.emplace_back();
      out.op = op.op;
      out.type = op.type;
      out.immediate = op.immediate;
      for (size_t i = 0; i < op.operands.size(); ++i) {
        out.operands[i] = op.operands[i].list == Reg::List::kNone ? 0 : number(op.operands[i]);
      }
      if (op.op == ScalarOp::kIota && dims[op.immediate] == 1) {
        out.op = ScalarOp::kConstant;
        out.immediate = 0;
      } else if (op.op == ScalarOp::kIota) {
        const auto found = std::ranges::find(runs, op.immediate, &Run::begin);
        out.immediate = static_cast<uint64_t>(found - runs.begin());
      }
    }
    for (const Micro::Output& output : micro.outputs) {
      made.results.push_back(number(output.reg));
    }
    return made;
  }

  Status emit_eltwise(const Kernel& kernel, ncx::Instruction& out) {
    const auto all = windows_of(kernel.tail, true);
    const std::vector<Run> runs =
        common_runs(all, kernel.dims, 0, kernel.dims.size(), iota_dims(kernel.tail));
    ncx::Eltwise made;
    ONRT_RETURN_IF_ERROR(views(kernel.tail.inputs, runs, made.inputs));
    ONRT_RETURN_IF_ERROR(output_views(kernel.tail, runs, made.outputs));
    made.domain = extents(runs, kernel.dims);
    made.program = program(kernel.tail, runs, kernel.dims);
    const bool act = std::ranges::any_of(
        kernel.tail.ops, [](const Micro::Op& op) { return is_transcendental(op.op); });
    out.engine = act ? ncx::Engine::kAct : ncx::Engine::kDve;
    out.payload = std::move(made);
    return ok_status();
  }

  Status emit_reduce(const Kernel& kernel, ncx::Instruction& out) {
    const size_t kept = kernel.dims.size();
    const size_t rank = kernel.domain.size();
    const uint64_t fixed = iota_dims(kernel.prologue) | iota_dims(kernel.tail);
    auto all = windows_of(kernel.prologue, false);
    std::vector<Run> reduced_runs = common_runs(all, kernel.domain, kept, rank, fixed);
    if (reduced_runs.empty()) {
      reduced_runs.push_back({kept, rank - kept});
    }
    const auto tail = windows_of(kernel.tail, true);
    all.insert(all.end(), tail.begin(), tail.end());
    const std::vector<Run> runs = common_runs(all, kernel.domain, 0, kept, fixed);
    std::vector<Run> domain_runs = runs;
    domain_runs.insert(domain_runs.end(), reduced_runs.begin(), reduced_runs.end());
    if (domain_runs.size() > static_cast<size_t>(ncx::kMaxRank)) {
      return hir::unsupported(
          format("needs {} dimensions that cannot be merged; an instruction "
                 "has {}",
                 domain_runs.size(), ncx::kMaxRank));
    }
    ncx::Reduce made;
    made.domain = extents(domain_runs, kernel.domain);
    made.reduced = static_cast<uint8_t>(reduced_runs.size());
    ONRT_RETURN_IF_ERROR(views(kernel.prologue.inputs, domain_runs, made.inputs));
    made.prologue = program(kernel.prologue, domain_runs, kernel.domain);
    for (size_t i = 0; i < kernel.inits.size(); ++i) {
      ncx::Reduce::Accumulator& accumulator = made.accumulators.emplace_back();
      accumulator.type = kernel.tail.heads[i];
      accumulator.combiner = kernel.combiners.empty() ? ScalarOp::kAdd : kernel.combiners[i];
      ONRT_ASSIGN_OR_RETURN(accumulator.init, view(kernel.inits[i]));
    }
    made.general = kernel.general;
    ONRT_RETURN_IF_ERROR(views(kernel.tail.inputs, runs, made.epilogue_inputs));
    made.epilogue = program(kernel.tail, runs, kernel.dims);
    ONRT_RETURN_IF_ERROR(output_views(kernel.tail, runs, made.outputs));
    out.engine = ncx::Engine::kDve;
    out.payload = std::move(made);
    return ok_status();
  }

  Status emit_gemm(const Kernel& kernel, ncx::Instruction& out) {
    ncx::Gemm made;
    ONRT_ASSIGN_OR_RETURN(made.lhs, view(kernel.lhs));
    ONRT_ASSIGN_OR_RETURN(made.rhs, view(kernel.rhs));
    made.type = kernel.tail.heads[0];
    ONRT_RETURN_IF_ERROR(views(kernel.tail.inputs, kernel.runs, made.epilogue_inputs));
    made.epilogue = program(kernel.tail, kernel.runs, kernel.dims);
    ONRT_RETURN_IF_ERROR(output_views(kernel.tail, kernel.runs, made.outputs));
    out.engine = ncx::Engine::kPe;
    out.payload = std::move(made);
    return ok_status();
  }

  Status emit_conv(const Kernel& kernel, ncx::Instruction& out) {
    const hir::Convolution conv(std::span(kernel.attributes, kernel.attribute_count));
    ncx::Conv made;
    ONRT_ASSIGN_OR_RETURN(made.input, view(kernel.lhs));
    ONRT_ASSIGN_OR_RETURN(made.kernel, view(kernel.rhs));
    made.type = kernel.tail.heads[0];
    for (size_t i = 0; i < conv.axes(); ++i) {
      const hir::WindowAxis axis = conv.axis(i);
      made.axes.push_back({axis.stride, axis.low, axis.dilation, axis.base_dilation});
    }
    for (const Window& window : kernel.tail.inputs) {
      ONRT_ASSIGN_OR_RETURN(const ncx::View input, view(conv_output_window(window, conv)));
      made.epilogue_inputs.push_back(input);
    }
    for (const Micro::Output& output : kernel.tail.outputs) {
      ONRT_ASSIGN_OR_RETURN(const ncx::View result, view(conv_output_window(output.window, conv)));
      made.outputs.push_back(result);
    }
    made.epilogue = program(kernel.tail, {}, kernel.dims);
    out.engine = ncx::Engine::kPe;
    out.payload = std::move(made);
    return ok_status();
  }

  Status emit_copy(const Kernel& kernel, ncx::Instruction& out) {
    ncx::Copy made;
    for (const CopyPiece& piece : kernel.pieces) {
      const Window* const both[] = {&piece.source, &piece.destination};
      const std::vector<Run> runs =
          common_runs(both, piece.source.dims, 0, piece.source.dims.size(), 0);
      ncx::Copy::Piece& copied = made.pieces.emplace_back();
      ONRT_ASSIGN_OR_RETURN(copied.source, view(merge(piece.source, runs)));
      ONRT_ASSIGN_OR_RETURN(copied.destination, view(merge(piece.destination, runs)));
    }
    out.engine = ncx::Engine::kSp;
    out.payload = std::move(made);
    return ok_status();
  }

  Status emit_control(const Kernel& kernel, ncx::Instruction& out) {
    ONRT_ASSIGN_OR_RETURN(const ncx::View decides, view(kernel.reads[0]));
    const std::vector<uint32_t> blocks(kernel.blocks.begin(), kernel.blocks.end());
    if (kernel.kind == KernelKind::kLoop) {
      out.payload = ncx::Loop{blocks[0], blocks[1], decides};
    } else {
      out.payload = ncx::If{decides, blocks};
    }
    out.engine = ncx::Engine::kSp;
    return ok_status();
  }

  Status emit_sort(const Kernel& kernel, ncx::Instruction& out) {
    std::vector<const Window*> all;
    for (const auto* windows : {&kernel.reads, &kernel.writes}) {
      for (const Window& window : *windows) {
        all.push_back(&window);
      }
    }
    const Dims& dims = kernel.reads[0].dims;
    const std::vector<Run> runs =
        common_runs(all, dims, 0, dims.size(), uint64_t{1} << kernel.dimension);
    ncx::Sort made;
    ONRT_RETURN_IF_ERROR(views(kernel.reads, runs, made.inputs));
    ONRT_RETURN_IF_ERROR(views(kernel.writes, runs, made.outputs));
    const auto along = std::ranges::find(runs, static_cast<size_t>(kernel.dimension), &Run::begin);
    made.dimension = static_cast<uint8_t>(along - runs.begin());
    made.comparator = kernel.combiner;
    out.engine = ncx::Engine::kPool;
    out.payload = std::move(made);
    return ok_status();
  }

  // Dimensions with windows stay as they are; runs of others become one where `all` can merge them.
  // `operand` and `windows` are the dims of both sides.
  static std::vector<Run> window_runs(const Kernel& kernel, std::span<const Window* const> all,
                                      const Dims& operand, const Dims& windows) {
    std::vector<Run> runs;
    bool open = false;  // the last run may grow
    for (size_t d = 0; d < operand.size(); ++d) {
      const ncx::WindowDimension& w = kernel.window[d];
      const bool trivial = w.size == 1 && w.stride == 1 && w.padding_low == 0 &&
                           w.base_dilation == 1 && operand[d] == windows[d];
      const bool grows = trivial && open && std::ranges::all_of(all, [&](const Window* window) {
                           return can_merge(*window, runs.back().begin, d + 1 - runs.back().begin);
                         });
      if (grows) {
        ++runs.back().count;
      } else if (!trivial || operand[d] != 1) {
        runs.push_back({d, 1});
        open = trivial;
      }
    }
    return runs;
  }

  static std::vector<ncx::WindowDimension> window_dimensions(const Kernel& kernel,
                                                             std::span<const Run> runs) {
    std::vector<ncx::WindowDimension> made;
    for (const Run& run : runs) {
      made.push_back(kernel.window[run.begin]);
    }
    return made;
  }

  Status emit_reduce_window(const Kernel& kernel, ncx::Instruction& out) {
    std::vector<const Window*> all;
    for (const auto* windows : {&kernel.reads, &kernel.writes}) {
      for (const Window& window : *windows) {
        all.push_back(&window);
      }
    }
    const std::vector<Run> runs =
        window_runs(kernel, all, kernel.reads[0].dims, kernel.writes[0].dims);
    ncx::ReduceWindow made;
    ONRT_RETURN_IF_ERROR(views(kernel.reads, runs, made.inputs));
    ONRT_RETURN_IF_ERROR(views(kernel.writes, runs, made.outputs));
    made.window = window_dimensions(kernel, runs);
    for (size_t i = 0; i < kernel.inits.size(); ++i) {
      ncx::Reduce::Accumulator& accumulator = made.accumulators.emplace_back();
      accumulator.type = kernel.inits[i].dtype;
      accumulator.combiner = kernel.combiners.empty() ? ScalarOp::kAdd : kernel.combiners[i];
      ONRT_ASSIGN_OR_RETURN(accumulator.init, view(kernel.inits[i]));
    }
    made.general = kernel.general;
    out.engine = ncx::Engine::kDve;
    out.payload = std::move(made);
    return ok_status();
  }

  Status emit_select_scatter(const Kernel& kernel, ncx::Instruction& out) {
    const Window& operand = kernel.reads[0];
    const Window& source = kernel.reads[1];
    const Window& output = kernel.writes[0];
    const Window* const all[] = {&operand, &source, &output};
    const std::vector<Run> runs = window_runs(kernel, all, operand.dims, source.dims);
    ncx::SelectScatter made;
    ONRT_ASSIGN_OR_RETURN(made.operand, view(merge(operand, runs)));
    ONRT_ASSIGN_OR_RETURN(made.source, view(merge(source, runs)));
    ONRT_ASSIGN_OR_RETURN(made.init, view(kernel.reads[2]));
    ONRT_ASSIGN_OR_RETURN(made.output, view(merge(output, runs)));
    made.window = window_dimensions(kernel, runs);
    made.select = kernel.select;
    made.scatter = kernel.combiner;
    out.engine = ncx::Engine::kPool;
    out.payload = std::move(made);
    return ok_status();
  }

  static std::vector<int64_t> ints(const Kernel& kernel, AttributeKey key) {
    const hir::Attribute* found =
        hir::find(std::span(kernel.attributes, kernel.attribute_count), key);
    return found == nullptr ? std::vector<int64_t>()
                            : std::vector<int64_t>(found->ints.begin(), found->ints.end());
  }

  Status emit_indexed(const Kernel& kernel, ncx::Instruction& out) {
    std::vector<ncx::View> reads;
    std::vector<ncx::View> writes;
    for (const Window& window : kernel.reads) {
      ONRT_ASSIGN_OR_RETURN(const ncx::View made, view(window));
      reads.push_back(made);
    }
    for (const Window& window : kernel.writes) {
      ONRT_ASSIGN_OR_RETURN(const ncx::View made, view(window));
      writes.push_back(made);
    }
    switch (kernel.kind) {
      case KernelKind::kGather:
        out.payload = gather(kernel, reads, writes);
        return ok_status();
      case KernelKind::kScatter:
        out.payload = scatter(kernel, reads, writes);
        return ok_status();
      case KernelKind::kDynamicSlice:
        out.payload = ncx::DynamicSlice{reads[0], writes[0], {reads.begin() + 1, reads.end()}};
        return ok_status();
      case KernelKind::kDynamicUpdateSlice:
        out.payload =
            ncx::DynamicUpdateSlice{writes[0], reads[0], {reads.begin() + 1, reads.end()}};
        return ok_status();
      case KernelKind::kLinalg: {
        const bool solve = kernel.linalg == ncx::LinalgKind::kTriangularSolve;
        out.payload = ncx::Linalg{kernel.linalg, static_cast<uint8_t>(kernel.unit_diagonal),
                                  reads[0], solve ? reads[1] : ncx::View{}, writes[0]};
        return ok_status();
      }
      default:
        out.payload = rng(kernel, reads, writes);
        return ok_status();
    }
  }

  static ncx::Gather gather(const Kernel& kernel, const std::vector<ncx::View>& reads,
                            const std::vector<ncx::View>& writes) {
    ncx::Gather made;
    made.operand = reads[0];
    made.indices = reads[1];
    made.output = writes[0];
    made.offset_dims = ints(kernel, AttributeKey::kOffsetDims);
    made.collapsed_slice_dims = ints(kernel, AttributeKey::kCollapsedDims);
    made.start_index_map = ints(kernel, AttributeKey::kIndexMap);
    made.operand_batching_dims = ints(kernel, AttributeKey::kOperandBatching);
    made.start_indices_batching_dims = ints(kernel, AttributeKey::kIndicesBatching);
    made.index_vector_dim = ints(kernel, AttributeKey::kIndexVectorDim)[0];
    made.slice_sizes = ints(kernel, AttributeKey::kSliceSizes);
    return made;
  }

  static ncx::Scatter scatter(const Kernel& kernel, const std::vector<ncx::View>& reads,
                              const std::vector<ncx::View>& writes) {
    ncx::Scatter made;
    made.outputs = writes;
    made.indices = reads[0];
    made.updates = {reads.begin() + 1, reads.end()};
    made.combiner = kernel.combiner;
    made.update_window_dims = ints(kernel, AttributeKey::kOffsetDims);
    made.inserted_window_dims = ints(kernel, AttributeKey::kCollapsedDims);
    made.scatter_dims_to_operand_dims = ints(kernel, AttributeKey::kIndexMap);
    made.input_batching_dims = ints(kernel, AttributeKey::kOperandBatching);
    made.scatter_indices_batching_dims = ints(kernel, AttributeKey::kIndicesBatching);
    made.index_vector_dim = ints(kernel, AttributeKey::kIndexVectorDim)[0];
    return made;
  }

  static ncx::Rng rng(const Kernel& kernel, const std::vector<ncx::View>& reads,
                      const std::vector<ncx::View>& writes) {
    ncx::Rng made;
    made.kind = kernel.rng;
    made.seed = kernel.seed;
    made.output = writes[0];
    if (kernel.rng == ncx::RngKind::kUniform || kernel.rng == ncx::RngKind::kNormal) {
      made.a = reads[0];
      made.b = reads[1];
    } else {
      made.state = reads[0];
      made.state_out = writes[1];
    }
    return made;
  }

  const Flat& flat_;
  Plan& plan_;
};

}  // namespace

Result<ncx::Program> emit(const Flat& flat, Plan& plan) {
  ncx::Program program;
  if (plan.blocks > static_cast<int32_t>(ncx::kMaxBlocks)) {
    return hir::unsupported(
        format("graph '{}': loops and branches make {} blocks; a program has at "
               "most {}",
               flat.graph().name(), plan.blocks, ncx::kMaxBlocks));
  }
  ONRT_ASSIGN_OR_RETURN(program.blocks, Emitter(flat, plan).run(program.names));
  program.constants_bytes = plan.constants.size();
  program.scratch_bytes = static_cast<uint64_t>(plan.scratch_bytes);
  return program;
}

}  // namespace onrt::lowering
