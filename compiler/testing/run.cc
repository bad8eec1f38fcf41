// SPDX-License-Identifier: Apache-2.0
#include "compiler/testing/run.h"

#include <bit>
#include <cstring>
#include <memory>

#include "compiler/hir/text.h"
#include "emulator/exec/engine.h"
#include "emulator/exec/thread_pool.h"
#include "emulator/isa/encoding.h"
#include "emulator/isa/scalar_value.h"

namespace onrt::testing {
namespace {

bool is_nan(Dtype dtype, const std::byte* element) {
  if (!is_floating(dtype)) {
    return false;
  }
  const float value = std::bit_cast<float>(static_cast<uint32_t>(ncx::load_boxed(dtype, element)));
  return value != value;
}

// Element types of the outputs that have elements.
std::vector<Dtype> output_types(const hir::Graph& graph) {
  std::vector<Dtype> types;
  const hir::Computation& entry = graph.computation(hir::kEntry);
  const auto add = [&](const hir::Shape& shape) {
    if (shape.element_count > 0) {
      types.push_back(shape.dtype);
    }
  };
  const hir::Shape& root = graph.shape_of(entry.root);
  if (!root.is_tuple()) {
    add(root);
  }
  for (const hir::ShapeId id : root.elements) {
    add(graph.shapes()[id]);
  }
  return types;
}

}  // namespace

std::string difference(const hir::Graph& graph, const std::vector<Bytes>& expected,
                       const std::vector<Bytes>& found) {
  const std::vector<Dtype> types = output_types(graph);
  if (expected.size() != found.size()) {
    return std::to_string(found.size()) + " outputs instead of " + std::to_string(expected.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const size_t width = dtype_bytes(types[i]);
    for (size_t at = 0; at < expected[i].size(); at += width) {
      const std::byte* a = expected[i].data() + at;
      const std::byte* b = found[i].data() + at;
      if (std::memcmp(a, b, width) != 0 && !(is_nan(types[i], a) && is_nan(types[i], b))) {
        return "output " + std::to_string(i) + ", element " + std::to_string(at / width) +
               ": expected " + hir::element_text(types[i], a) + ", found " +
               hir::element_text(types[i], b);
      }
    }
  }
  return {};
}

Result<std::vector<Bytes>> run_graph(const hir::Graph& graph, const std::vector<Bytes>& inputs,
                                     const RunOptions& options) {
  CompileOptions compile;
  compile.optimization = options.optimization;
  compile.tile_bytes = options.tile_bytes;
  ONRT_ASSIGN_OR_RETURN(const Compiled compiled, compile_program(graph, compile));
  ONRT_ASSIGN_OR_RETURN(const auto code, ncx::encode(compiled.program, compiled.constants));
  ONRT_ASSIGN_OR_RETURN(const auto engine, EngineProgram::load(code, compiled.constants));
  std::vector<Bytes> memory;
  for (const NeffTensor& tensor : compiled.tensors) {
    memory.push_back(tensor.usage == TensorUsage::kInput ? inputs[memory.size()]
                                                         : Bytes(tensor.size_bytes));
  }
  std::vector<std::byte*> io;
  std::vector<uint64_t> io_bytes;
  for (size_t i = 0; i < memory.size(); ++i) {
    const int alias = compiled.tensors[i].alias_of;
    io.push_back(options.same_memory && alias >= 0 ? memory[static_cast<size_t>(alias)].data()
                                                   : memory[i].data());
    io_bytes.push_back(memory[i].size());
  }
  Bytes scratch(compiled.program.scratch_bytes + 64, std::byte{0xA5});
  EngineBinding binding;
  binding.io = io;
  binding.io_bytes = io_bytes;
  binding.constants = compiled.constants.data();
  binding.scratch = scratch.data() + (-reinterpret_cast<uintptr_t>(scratch.data()) & 63);
  binding.scratch_bytes = compiled.program.scratch_bytes;
  ThreadPool pool(options.threads);
  EngineRun run;
  run.pool = options.threads > 1 ? &pool : nullptr;
  ONRT_RETURN_IF_ERROR(engine->execute(binding, run).status());
  std::vector<Bytes> outputs;
  for (size_t i = 0; i < memory.size(); ++i) {
    if (compiled.tensors[i].usage == TensorUsage::kOutput) {
      outputs.emplace_back(io[i], io[i] + io_bytes[i]);
    }
  }
  return outputs;
}

Result<std::vector<Bytes>> run_text(std::string_view text, const std::vector<Bytes>& inputs,
                                    const RunOptions& options) {
  ONRT_ASSIGN_OR_RETURN(const auto graph, hir::parse(text));
  return run_graph(*graph, inputs, options);
}

}  // namespace onrt::testing
