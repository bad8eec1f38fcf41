// SPDX-License-Identifier: Apache-2.0
// nrtcc_options_t as the compiler takes it, and how a result goes to the caller.
#pragma once

#include <string_view>

#include "compiler/cache/entry.h"
#include "compiler/lowering/compile.h"
#include "opennrt/nrtcc.h"
#include "runtime/neff/neff.h"

namespace onrt::nrtcc {

struct CompileRequest {
  CompileOptions compile;
  NeffCompression compression = NeffCompression::kNone;
};

// Fields that a caller with an older, shorter struct doesn't have keep their defaults.
template <class Struct, class Field>
bool has_field(const Struct& given, const Field& field) {
  const auto end =
      reinterpret_cast<uintptr_t>(&field) + sizeof(Field) - reinterpret_cast<uintptr_t>(&given);
  return given.struct_size >= end;
}

// `options` may be null. Errors name the option.
Result<CompileRequest> read_options(const nrtcc_options_t* options);

Result<cache::Program> compile(const hir::Graph& graph, const CompileRequest& request);

// To the caller's pointers; warnings and remarks go to nrtcc_last_warnings().
Status give(const cache::Program& program, std::string_view remarks, uint8_t** neff, size_t* size);

}  // namespace onrt::nrtcc
