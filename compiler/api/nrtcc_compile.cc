// SPDX-License-Identifier: Apache-2.0
// The C API: from a graph to NEFF bytes.
#include <cstddef>
#include <string>

#include "compiler/api/graph_handle.h"
#include "compiler/lowering/compile.h"
#include "opennrt/nrtcc.h"
#include "runtime/base/format.h"
#include "runtime/neff/neff.h"

namespace onrt::nrtcc {
namespace {

thread_local std::string last_warnings;

struct Settings {
  CompileOptions compile;
  NeffCompression compression = NeffCompression::kNone;
};

// Fields that a caller with an older, shorter struct doesn't have keep their defaults.
template <class Field>
bool has_field(const nrtcc_options_t& options, const Field& field) {
  const auto end =
      reinterpret_cast<uintptr_t>(&field) + sizeof(Field) - reinterpret_cast<uintptr_t>(&options);
  return options.struct_size >= end;
}

Status read_auto_cast(const nrtcc_options_t& options, Settings& settings) {
  if (!has_field(options, options.auto_cast) || options.auto_cast == 0) {
    return ok_status();
  }
  if (options.auto_cast == 2) {
    return hir::unsupported("option auto_cast: 2 (all) is not supported; use 1 (matmult) or 0");
  }
  if (options.auto_cast != 1) {
    return hir::invalid(
        format("option auto_cast: expected 0, 1 or 2, found {}", options.auto_cast));
  }
  const int type = has_field(options, options.auto_cast_type) ? options.auto_cast_type : 0;
  if (type != NRTCC_BF16 && type != NRTCC_F16) {
    return hir::unsupported(
        format("option auto_cast_type: expected {} (bf16) or {} (f16), found "
               "{}",
               static_cast<int>(NRTCC_BF16), static_cast<int>(NRTCC_F16), type));
  }
  settings.compile.dot_type = static_cast<Dtype>(type);
  return ok_status();
}

Result<Settings> read_options(const nrtcc_options_t* options) {
  Settings settings;
  if (options == nullptr) {
    return settings;
  }
  if (options->struct_size < sizeof(size_t)) {
    return hir::invalid(format("option struct_size: expected sizeof(nrtcc_options_t), found {}",
                               options->struct_size));
  }
  if (has_field(*options, options->target) && options->target != nullptr) {
    settings.compile.target = options->target;
  }
  if (has_field(*options, options->lnc)) {
    if (options->lnc < 0 || options->lnc > 2) {
      return hir::invalid(format("option lnc: expected 0, 1 or 2, found {}", options->lnc));
    }
    settings.compile.lnc = static_cast<uint32_t>(options->lnc);
  }
  if (has_field(*options, options->optimization) && options->optimization != -1) {
    if (options->optimization < 0 || options->optimization > 3) {
      return hir::invalid(
          format("option optimization: expected -1 to 3, found {}", options->optimization));
    }
    settings.compile.optimization = options->optimization;
  }
  if (has_field(*options, options->compress) && options->compress != 0) {
    settings.compression = NeffCompression::kGzip;
  }
  if (has_field(*options, options->dump_dir) && options->dump_dir != nullptr) {
    settings.compile.dump_dir = options->dump_dir;
  }
  ONRT_RETURN_IF_ERROR(read_auto_cast(*options, settings));
  return settings;
}

}  // namespace
}  // namespace onrt::nrtcc

using onrt::Status;
using onrt::nrtcc::boundary;

extern "C" {

const char* nrtcc_last_warnings(void) { return onrt::nrtcc::last_warnings.c_str(); }

nrtcc_status_t nrtcc_compile(const nrtcc_graph_t* graph, const nrtcc_options_t* options,
                             uint8_t** neff, size_t* size) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(onrt::nrtcc::check_graph(graph));
    ONRT_RETURN_IF_ERROR(onrt::nrtcc::check_pointer(neff, "neff"));
    ONRT_RETURN_IF_ERROR(onrt::nrtcc::check_pointer(size, "size"));
    ONRT_ASSIGN_OR_RETURN(const auto settings, onrt::nrtcc::read_options(options));
    std::string warnings;
    ONRT_ASSIGN_OR_RETURN(const onrt::NeffPackage package,
                          compile_package(graph->graph, settings.compile, &warnings));
    ONRT_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                          write_neff(package, settings.compression));
    ONRT_ASSIGN_OR_RETURN(void* copy, onrt::nrtcc::allocate_copy(bytes.data(), bytes.size()));
    onrt::nrtcc::last_warnings = std::move(warnings);
    *neff = static_cast<uint8_t*>(copy);
    *size = bytes.size();
    return onrt::ok_status();
  });
}

}  // extern "C"
