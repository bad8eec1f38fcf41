// SPDX-License-Identifier: Apache-2.0
// The C API: from a graph to NEFF bytes.
#include <cstddef>
#include <string>

#include "compiler/api/compile_request.h"
#include "compiler/api/graph_handle.h"
#include "opennrt/nrtcc.h"
#include "runtime/base/format.h"

namespace onrt::nrtcc {
namespace {

thread_local std::string last_warnings;

Status read_auto_cast(const nrtcc_options_t& options, CompileRequest& request) {
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
  request.compile.dot_type = static_cast<Dtype>(type);
  return ok_status();
}

}  // namespace

Result<CompileRequest> read_options(const nrtcc_options_t* options) {
  CompileRequest request;
  if (options == nullptr) {
    return request;
  }
  if (options->struct_size < sizeof(size_t)) {
    return hir::invalid(format("option struct_size: expected sizeof(nrtcc_options_t), found {}",
                               options->struct_size));
  }
  if (has_field(*options, options->target) && options->target != nullptr) {
    request.compile.target = options->target;
  }
  if (has_field(*options, options->lnc)) {
    if (options->lnc < 0 || options->lnc > 2) {
      return hir::invalid(format("option lnc: expected 0, 1 or 2, found {}", options->lnc));
    }
    request.compile.lnc = static_cast<uint32_t>(options->lnc);
  }
  if (has_field(*options, options->optimization) && options->optimization != -1) {
    if (options->optimization < 0 || options->optimization > 3) {
      return hir::invalid(
          format("option optimization: expected -1 to 3, found {}", options->optimization));
    }
    request.compile.optimization = options->optimization;
  }
  if (has_field(*options, options->compress) && options->compress != 0) {
    request.compression = NeffCompression::kGzip;
  }
  if (has_field(*options, options->dump_dir) && options->dump_dir != nullptr) {
    request.compile.dump_dir = options->dump_dir;
  }
  ONRT_RETURN_IF_ERROR(read_auto_cast(*options, request));
  return request;
}

Result<cache::Program> compile(const hir::Graph& graph, const CompileRequest& request) {
  cache::Program made;
  ONRT_ASSIGN_OR_RETURN(const NeffPackage package,
                        compile_package(graph, request.compile, &made.warnings));
  ONRT_ASSIGN_OR_RETURN(made.neff, write_neff(package, request.compression));
  return made;
}

Status give(const cache::Program& program, std::string_view remarks, uint8_t** neff, size_t* size) {
  ONRT_ASSIGN_OR_RETURN(void* copy, allocate_copy(program.neff.data(), program.neff.size()));
  last_warnings.assign(program.warnings).append(remarks);
  *neff = static_cast<uint8_t*>(copy);
  *size = program.neff.size();
  return ok_status();
}

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
    ONRT_ASSIGN_OR_RETURN(const auto request, onrt::nrtcc::read_options(options));
    ONRT_ASSIGN_OR_RETURN(const onrt::cache::Program program,
                          onrt::nrtcc::compile(graph->graph, request));
    return onrt::nrtcc::give(program, {}, neff, size);
  });
}

}  // extern "C"
