// SPDX-License-Identifier: Apache-2.0
// The pipeline: graph -> flat form -> kernels -> NCX program -> NEFF.
#pragma once

#include <string>
#include <vector>

#include "compiler/hir/graph.h"
#include "emulator/isa/program.h"
#include "runtime/neff/neff_package.h"

namespace onrt {

struct CompileOptions {
  std::string target = "trn2";
  uint32_t lnc = 0;      // 0: default of the target
  int optimization = 2;  // 0: one instruction per operation
  // Chains over arrays larger than this run in slices: half of a second-level cache. 0: never.
  int64_t tile_bytes = 512 * 1024;
  Dtype dot_type = Dtype::kF32;  // f32 operands of dots are converted to it first
  std::string dump_dir;          // every stage as text; empty: none
};

struct Compiled {
  ncx::Program program;
  std::vector<std::byte> constants;
  std::vector<NeffTensor> tensors;  // one per io slot
  std::string warnings;             // lines; empty: none
};

// Architecture of a target: NEFF name, NeuronCore generation, default LNC.
struct Target {
  std::string_view name;
  std::string_view architecture;
  uint32_t core_version;
  uint32_t default_lnc;
};
// Null for an unknown name.
const Target* find_target(std::string_view name);

// Errors: NRT_INVALID (the graph), NRT_UNSUPPORTED_NEFF_VERSION (an operation is not lowered, a
// target is not known; both named), NRT_RESOURCE, NRT_FAILURE (a bug of the compiler).
Result<Compiled> compile_program(const hir::Graph& graph, const CompileOptions& options);
Result<NeffPackage> compile_package(const hir::Graph& graph, const CompileOptions& options,
                                    std::string* warnings);

}  // namespace onrt
