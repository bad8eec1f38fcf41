// SPDX-License-Identifier: Apache-2.0
#include "emulator/isa/encoding.h"
#include "emulator/isa/verify_parts.h"
#include "runtime/base/format.h"

namespace onrt::ncx {
namespace {

template <class Range>
std::string joined(const Range& values) {
  std::string out;
  for (const auto& value : values) {
    out += format("{}{}", out.empty() ? "" : ",", value);
  }
  return out;
}

std::string text_of(const View& view) {
  std::string place;
  switch (view.space) {
    case Space::kIo:
      place = format("io{}", view.slot);
      break;
    case Space::kScratch:
      place = "scratch";
      break;
    case Space::kConstants:
      place = "const";
      break;
  }
  std::string dims;
  std::string strides;
  for (int d = 0; d < view.rank; ++d) {
    dims += format("{}{}", d > 0 ? "," : "", view.dims[d]);
    strides += format("{}{}", d > 0 ? "," : "", view.strides[d]);
  }
  return format("{}+{} {}[{}]{{{}}}", place, view.offset, dtype_name(view.dtype), dims, strides);
}

std::string text_of(const std::vector<View>& views) {
  std::string out;
  for (const View& view : views) {
    out += (out.empty() ? "" : ", ") + text_of(view);
  }
  return "(" + out + ")";
}

std::string text_of(const MicroProgram& program, size_t inputs) {
  std::string out;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const MicroOp& op = program.ops[i];
    const ScalarOpInfo& info = scalar_op_info(op.op);
    out += format("r{} = {} {}", inputs + i, dtype_name(op.type), info.name);
    for (int k = 0; k < info.arity; ++k) {
      out += format(" r{}", op.operands[k]);
    }
    if (info.arity == 0 || op.op == ScalarOp::kReducePrecision) {
      out += format(" {:#x}", op.immediate);
    }
    out += "; ";
  }
  out += "->";
  for (const uint16_t result : program.results) {
    out += format(" r{}", result);
  }
  return "{" + out + "}";
}

std::string text_of(const Extents& extents) {
  return "[" + joined(std::span(extents.dims.data(), extents.rank)) + "]";
}

std::string text_of(const Eltwise& op) {
  return format("ELTWISE {} {} {} -> {}", text_of(op.domain), text_of(op.inputs),
                text_of(op.program, op.inputs.size()), text_of(op.outputs));
}

std::string text_of(const std::vector<Reduce::Accumulator>& accumulators, bool general) {
  std::string out;
  for (const Reduce::Accumulator& a : accumulators) {
    out += format("{}{} {} init {}", out.empty() ? "" : ", ", dtype_name(a.type),
                  general ? "general" : scalar_op_info(a.combiner).name, text_of(a.init));
  }
  return "(" + out + ")";
}

std::string text_of(const Reduce& op) {
  std::string general;
  if (!op.general.results.empty()) {
    general = " combine " + text_of(op.general, op.accumulators.size() * 2);
  }
  return format("REDUCE {} last {} {} {} {}{} epilogue {} {} -> {}", text_of(op.domain), op.reduced,
                text_of(op.inputs), text_of(op.prologue, op.inputs.size()),
                text_of(op.accumulators, !op.general.results.empty()), general,
                text_of(op.epilogue_inputs),
                text_of(op.epilogue, op.accumulators.size() + op.epilogue_inputs.size()),
                text_of(op.outputs));
}

std::string text_of(const Gemm& op) {
  return format("GEMM {} x {} as {} epilogue {} {} -> {}", text_of(op.lhs), text_of(op.rhs),
                dtype_name(op.type), text_of(op.epilogue_inputs),
                text_of(op.epilogue, op.epilogue_inputs.size() + 1), text_of(op.outputs));
}

std::string text_of(const Conv& op) {
  std::string axes;
  for (const Conv::Axis& axis : op.axes) {
    axes += format(" [stride {} low {} dilation {} base {}]", axis.stride, axis.low, axis.dilation,
                   axis.base_dilation);
  }
  return format("CONV {} by {}{} as {} epilogue {} {} -> {}", text_of(op.input), text_of(op.kernel),
                axes, dtype_name(op.type), text_of(op.epilogue_inputs),
                text_of(op.epilogue, op.epilogue_inputs.size() + 1), text_of(op.outputs));
}

std::string text_of(const Linalg& op) {
  if (op.kind == LinalgKind::kCholesky) {
    return format("CHOLESKY {} -> {}", text_of(op.a), text_of(op.output));
  }
  return format("SOLVE {}{} {} -> {}", text_of(op.a), op.unit_diagonal != 0 ? " unit" : "",
                text_of(op.b), text_of(op.output));
}

std::string text_of(const Copy& op) {
  std::string out = "COPY";
  for (const Copy::Piece& piece : op.pieces) {
    out += format(" {} -> {};", text_of(piece.source), text_of(piece.destination));
  }
  return out;
}

std::string text_of(const Gather& op) {
  return format(
      "GATHER {} by {} offset [{}] collapsed [{}] map [{}] batch [{}] [{}] vector {} "
      "sizes [{}] -> {}",
      text_of(op.operand), text_of(op.indices), joined(op.offset_dims),
      joined(op.collapsed_slice_dims), joined(op.start_index_map), joined(op.operand_batching_dims),
      joined(op.start_indices_batching_dims), op.index_vector_dim, joined(op.slice_sizes),
      text_of(op.output));
}

std::string text_of(const Scatter& op) {
  return format(
      "SCATTER {} by {} window [{}] inserted [{}] map [{}] batch [{}] [{}] vector {} {} "
      "-> {}",
      text_of(op.updates), text_of(op.indices), joined(op.update_window_dims),
      joined(op.inserted_window_dims), joined(op.scatter_dims_to_operand_dims),
      joined(op.input_batching_dims), joined(op.scatter_indices_batching_dims), op.index_vector_dim,
      text_of(op.combiner, op.outputs.size() * 2), text_of(op.outputs));
}

std::string text_of(const DynamicSlice& op) {
  return format("DYNAMIC_SLICE {} at {} -> {}", text_of(op.source), text_of(op.starts),
                text_of(op.destination));
}

std::string text_of(const DynamicUpdateSlice& op) {
  return format("DYNAMIC_UPDATE_SLICE {} at {} -> {}", text_of(op.update), text_of(op.starts),
                text_of(op.destination));
}

std::string text_of(const Rng& op) {
  switch (op.kind) {
    case RngKind::kUniform:
    case RngKind::kNormal:
      return format("RNG {} {} {} seed {} -> {}",
                    op.kind == RngKind::kUniform ? "uniform" : "normal", text_of(op.a),
                    text_of(op.b), op.seed, text_of(op.output));
    default:
      return format("RNG {} {} -> {}, {}", op.kind == RngKind::kThreeFry ? "threefry" : "philox",
                    text_of(op.state), text_of(op.state_out), text_of(op.output));
  }
}

std::string text_of(const Loop& op) {
  return format("LOOP while block {} gives {} do block {}", op.condition, text_of(op.predicate),
                op.body);
}
std::string text_of(const If& op) {
  return format("IF {} blocks [{}]", text_of(op.selector), joined(op.branches));
}
std::string text_of(const Call& op) { return format("CALL block {}", op.block); }

std::string text_of(const Sort& op) {
  return format("SORT {} along {} {} -> {}", text_of(op.inputs), op.dimension,
                text_of(op.comparator, op.inputs.size() * 2), text_of(op.outputs));
}

std::string text_of(const std::vector<WindowDimension>& window) {
  std::string out;
  for (const WindowDimension& d : window) {
    out += format("{}{}:stride {} pad {} dilate {},{}", out.empty() ? "" : " x ", d.size, d.stride,
                  d.padding_low, d.window_dilation, d.base_dilation);
  }
  return "[" + out + "]";
}

std::string text_of(const ReduceWindow& op) {
  const bool general = !op.general.results.empty();
  return format("REDUCE_WINDOW {} {} {}{} -> {}", text_of(op.inputs), text_of(op.window),
                text_of(op.accumulators, general),
                general ? " combine " + text_of(op.general, op.accumulators.size() * 2) : "",
                text_of(op.outputs));
}

std::string text_of(const SelectScatter& op) {
  return format("SELECT_SCATTER {} by {} {} select {} init {} scatter {} -> {}", text_of(op.source),
                text_of(op.operand), text_of(op.window), text_of(op.select, 2), text_of(op.init),
                text_of(op.scatter, 2), text_of(op.output));
}

std::string text_of(const Program& program, const Instruction& instruction) {
  std::string out = format("{:<4} ", engine_name(instruction.engine));
  for (const SemaphoreWait& wait : instruction.waits) {
    out += format("wait s{}>={} ", wait.semaphore, wait.value);
  }
  out += std::visit([](const auto& op) { return text_of(op); }, instruction.payload);
  for (const SemaphoreIncrement& increment : instruction.increments) {
    out += format(" inc s{}+={}", increment.semaphore, increment.value);
  }
  if (instruction.name < program.names.size()) {
    out += format("  # {}", printable(program.names[instruction.name]));
  }
  return out;
}

}  // namespace

std::string_view engine_name(Engine engine) {
  constexpr std::string_view kNames[kEngines] = {"PE", "ACT", "POOL", "DVE", "SP"};
  return kNames[static_cast<size_t>(engine)];
}

std::string disassemble(const Program& program) {
  std::string out = format("ncx version {} core v{} scratch {} constants {} semaphores {}\n",
                           kEncodingVersion, program.core_version, program.scratch_bytes,
                           program.constants_bytes, program.semaphores);
  for (size_t i = 0; i < program.io.size(); ++i) {
    const IoSlot& slot = program.io[i];
    out +=
        format("io{} {} {}[{}] {} bytes\n", i, slot.usage == SlotUsage::kInput ? "input" : "output",
               dtype_name(slot.dtype), joined(slot.dims), slot.bytes);
  }
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    out += format("block {}:\n", b);
    const auto& instructions = program.blocks[b].instructions;
    for (size_t i = 0; i < instructions.size(); ++i) {
      out += format("  {:>3} {}\n", i, text_of(program, instructions[i]));
    }
  }
  return out;
}

}  // namespace onrt::ncx
