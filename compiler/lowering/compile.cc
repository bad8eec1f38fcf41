// SPDX-License-Identifier: Apache-2.0
#include "compiler/lowering/compile.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "compiler/hir/status.h"
#include "compiler/hir/text.h"
#include "compiler/lowering/emit.h"
#include "compiler/lowering/lowerer.h"
#include "compiler/passes/flat.h"
#include "emulator/isa/encoding.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt {
namespace {

// Names as neuronx-cc takes them. LNC defaults: 2 on trn2 and later (its compiler reference).
constexpr Target kTargets[] = {
    {"trn1", "trn1", 2, 1}, {"trn1n", "trn1", 2, 1}, {"inf2", "trn1", 2, 1},
    {"trn2", "trn2", 3, 2}, {"trn3", "trn3", 4, 2},
};

Status dump(const CompileOptions& options, std::string_view stage, const std::string& text) {
  const std::string path = format("{}/{}.txt", options.dump_dir, stage);
  const Status written = write_file(path, std::as_bytes(std::span(text)));
  if (!written.ok()) {
    return hir::invalid(format("dump: {}", written.message()));
  }
  return ok_status();
}

std::string name_of(const std::vector<std::string>& names, size_t index, std::string_view other) {
  return index < names.size() && !names[index].empty() ? names[index]
                                                       : format("{}{}", other, index);
}

NeffTensor make_tensor(const hir::Type& type, std::string name, TensorUsage usage) {
  NeffTensor made;
  made.name = std::move(name);
  made.usage = usage;
  made.dtype = type.dtype;
  made.dims.assign(type.dims.begin(), type.dims.end());
  made.size_bytes = type.bytes();
  return made;
}

// Inputs by parameter number, then outputs that have elements.
std::vector<NeffTensor> make_tensors(const hir::Flat& flat) {
  const hir::Graph& graph = flat.graph();
  std::vector<NeffTensor> tensors;
  for (size_t i = 0; i < flat.parameters().size(); ++i) {
    tensors.push_back(make_tensor(flat.type(flat.parameters()[i]),
                                  name_of(graph.input_names(), i, "input"), TensorUsage::kInput));
  }
  const std::vector<int32_t> aliased = lowering::aliased_parameters(flat);
  for (size_t i = 0; i < flat.outputs().size(); ++i) {
    const hir::Type& type = flat.type(flat.outputs()[i]);
    if (type.elements == 0) {
      continue;
    }
    NeffTensor made =
        make_tensor(type, name_of(graph.output_names(), i, "output"), TensorUsage::kOutput);
    made.alias_of = aliased[i];
    tensors.push_back(std::move(made));
  }
  return tensors;
}

std::string make_warnings(const hir::Flat& flat) {
  for (const hir::Node& node : flat.nodes()) {
    const bool arithmetic =
        node.opcode != hir::Opcode::kParameter && node.opcode != hir::Opcode::kConstant;
    for (const hir::Type& type : node.results) {
      if (node.live && arithmetic && type.dtype == Dtype::kF64) {
        return format("{}: f64 is stored as f64 and computed in f32 precision\n",
                      flat.describe(node));
      }
    }
  }
  return {};
}

void add_slots(const std::vector<NeffTensor>& tensors, ncx::Program& program) {
  for (const NeffTensor& tensor : tensors) {
    program.io.push_back(
        {tensor.dtype, tensor.dims, tensor.size_bytes,
         tensor.usage == TensorUsage::kInput ? ncx::SlotUsage::kInput : ncx::SlotUsage::kOutput});
  }
}

}  // namespace

const Target* find_target(std::string_view name) {
  const auto* found = std::ranges::find(kTargets, name, &Target::name);
  return found == std::end(kTargets) ? nullptr : found;
}

Result<Compiled> compile_program(const hir::Graph& graph, const CompileOptions& options) {
  const Target* target = find_target(options.target);
  if (target == nullptr) {
    return hir::unsupported(
        format("target '{}': expected trn1, trn1n, inf2, trn2 or trn3", options.target));
  }
  const bool optimize = options.optimization > 0;
  ONRT_ASSIGN_OR_RETURN(const hir::Flat flat,
                        hir::Flat::make(graph, {optimize, optimize, options.dot_type}));
  lowering::Lowerer lowerer(flat, {optimize, options.tile_bytes});
  ONRT_ASSIGN_OR_RETURN(lowering::Plan plan, lowerer.run());
  if (plan.kernels.size() > ncx::kMaxInstructions) {
    return hir::unsupported(format("graph '{}': {} instructions; a program has at most {}",
                                   graph.name(), plan.kernels.size(), ncx::kMaxInstructions));
  }
  Compiled made;
  made.tensors = make_tensors(flat);
  if (made.tensors.size() > ncx::kMaxIoSlots) {
    return hir::unsupported(format("graph '{}': {} inputs and outputs; a program has at most {}",
                                   graph.name(), made.tensors.size(), ncx::kMaxIoSlots));
  }
  ONRT_ASSIGN_OR_RETURN(made.program, lowering::emit(flat, plan));
  made.program.core_version = target->core_version;
  add_slots(made.tensors, made.program);
  std::vector<uint16_t> alias(made.tensors.size());
  for (size_t i = 0; i < alias.size(); ++i) {
    alias[i] = static_cast<uint16_t>(made.tensors[i].alias_of >= 0 ? made.tensors[i].alias_of
                                                                   : static_cast<int>(i));
  }
  lowering::add_semaphores(alias, made.program);
  made.constants = std::move(plan.constants);
  made.warnings = make_warnings(flat);
  if (!options.dump_dir.empty()) {
    ONRT_RETURN_IF_ERROR(dump(options, "1-hir", hir::print(graph)));
    ONRT_RETURN_IF_ERROR(dump(options, "2-flat", flat.text()));
    ONRT_RETURN_IF_ERROR(dump(options, "3-ncx", ncx::disassemble(made.program)));
  }
  return made;
}

Result<NeffPackage> compile_package(const hir::Graph& graph, const CompileOptions& options,
                                    std::string* warnings) {
  ONRT_ASSIGN_OR_RETURN(Compiled compiled, compile_program(graph, options));
  const Target& target = *find_target(options.target);
  Result<std::vector<std::byte>> code = ncx::encode(compiled.program, compiled.constants);
  if (!code.ok()) {
    return hir::internal(format("the lowered program is malformed: {}", code.status().message()));
  }
  NeffPackage package;
  package.name = graph.name().empty() ? "module" : graph.name();
  package.architecture = target.architecture;
  package.lnc_size = options.lnc == 0 ? target.default_lnc : options.lnc;
  package.compiler_version = ONRT_VERSION_TEXT;
  package.tensors = std::move(compiled.tensors);
  NeffSubgraph& subgraph = package.subgraphs.emplace_back();
  subgraph.name = "sg00";
  subgraph.program = std::move(*code);
  subgraph.code_bytes = subgraph.program.size();
  subgraph.constants_offset = (subgraph.code_bytes + 63) / 64 * 64;
  subgraph.program.resize(subgraph.constants_offset);
  subgraph.program.insert(subgraph.program.end(), compiled.constants.begin(),
                          compiled.constants.end());
  subgraph.scratch_bytes = compiled.program.scratch_bytes;
  if (warnings != nullptr) {
    *warnings = std::move(compiled.warnings);
  }
  return package;
}

}  // namespace onrt
