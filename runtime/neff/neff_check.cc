// SPDX-License-Identifier: Apache-2.0
// Rules of a NeffPackage, the same for the writer's input and the reader's result.
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "runtime/base/format.h"
#include "runtime/base/json.h"
#include "runtime/neff/neff_manifest.h"

namespace onrt {
namespace {

constexpr size_t kLongestName = 255;   // nrt_tensor_info_t::name holds 256 bytes
constexpr size_t kMostSubgraphs = 64;  // cores_per_node has 64 entries
constexpr uint32_t kMostLnc = 8;       // physical cores of one device, the largest there is
constexpr uint64_t kConstantsAlignment = 64;
constexpr size_t kMostDims = 64;

Status check_name(std::string_view what, std::string_view name) {
  if (name.empty() || name.size() > kLongestName || !is_utf8(name) ||
      name.find('\0') != std::string_view::npos) {
    return Status(NRT_INVALID,
                  format("{}: expected a name of 1 to {} bytes of UTF-8, found {} bytes", what,
                         kLongestName, name.size()));
  }
  return ok_status();
}

Status check_size(const NeffTensor& tensor) {
  if (tensor.dims.size() > kMostDims) {
    return Status(NRT_INVALID, format("tensor '{}' has {} dimensions, more than {}", tensor.name,
                                      tensor.dims.size(), kMostDims));
  }
  uint64_t size = dtype_bytes(tensor.dtype);
  for (const int64_t dim : tensor.dims) {
    if (dim < 0 || (dim > 0 && size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) /
                                          static_cast<uint64_t>(dim))) {
      return Status(NRT_INVALID,
                    format("tensor '{}' has an impossible dimension: {}", tensor.name, dim));
    }
    size *= static_cast<uint64_t>(dim);
  }
  if (size != tensor.size_bytes) {
    return Status(NRT_INVALID,
                  format("tensor '{}' ({}): its shape takes {} bytes, its size says {}",
                         tensor.name, dtype_name(tensor.dtype), size, tensor.size_bytes));
  }
  return ok_status();
}

Status check_alias(const NeffPackage& package, const NeffTensor& tensor, std::set<int>& taken) {
  if (tensor.alias_of == -1) {
    return ok_status();
  }
  const bool in_range =
      tensor.alias_of >= 0 && static_cast<size_t>(tensor.alias_of) < package.tensors.size();
  if (!in_range || tensor.usage != TensorUsage::kOutput ||
      package.tensors[static_cast<size_t>(tensor.alias_of)].usage != TensorUsage::kInput) {
    return Status(NRT_INVALID, format("tensor '{}': alias_of {} is not an output's input",
                                      tensor.name, tensor.alias_of));
  }
  const NeffTensor& input = package.tensors[static_cast<size_t>(tensor.alias_of)];
  if (input.size_bytes != tensor.size_bytes) {
    return Status(NRT_INVALID,
                  format("output '{}' of {} bytes cannot alias input '{}' of {} bytes", tensor.name,
                         tensor.size_bytes, input.name, input.size_bytes));
  }
  if (!taken.insert(tensor.alias_of).second) {
    return Status(NRT_INVALID, format("two outputs alias input '{}'", input.name));
  }
  return ok_status();
}

Status check_tensors(const NeffPackage& package) {
  std::set<std::pair<TensorUsage, std::string_view>> names;
  std::set<int> aliased;
  bool outputs = false;
  for (const NeffTensor& tensor : package.tensors) {
    ONRT_RETURN_IF_ERROR(check_name("tensor", tensor.name));
    if (outputs && tensor.usage == TensorUsage::kInput) {
      return Status(NRT_INVALID, format("input '{}' comes after an output", tensor.name));
    }
    outputs = tensor.usage == TensorUsage::kOutput;
    if (!names.emplace(tensor.usage, tensor.name).second) {
      return Status(NRT_INVALID,
                    format("{} '{}' is there twice", outputs ? "output" : "input", tensor.name));
    }
    ONRT_RETURN_IF_ERROR(check_size(tensor));
    ONRT_RETURN_IF_ERROR(check_alias(package, tensor, aliased));
  }
  return ok_status();
}

Status check_subgraph(const NeffSubgraph& subgraph, uint64_t bytes, size_t index) {
  const std::string expected = format("sg{:02}", index);
  if (subgraph.name != expected) {
    return Status(NRT_INVALID, format("subgraph {}: expected the name {}, found '{}'", index,
                                      expected, subgraph.name));
  }
  if (subgraph.code_bytes == 0 || subgraph.code_bytes > subgraph.constants_offset ||
      subgraph.constants_offset > bytes || subgraph.constants_offset % kConstantsAlignment != 0) {
    return Status(
        NRT_INVALID,
        format("subgraph {}: {} bytes of code, constants at offset {} of {} bytes; expected code, "
               "then constants at a multiple of {} within the program",
               expected, subgraph.code_bytes, subgraph.constants_offset, bytes,
               kConstantsAlignment));
  }
  return ok_status();
}

}  // namespace

Status check_neff_package(const NeffPackage& package, const std::vector<uint64_t>& program_bytes) {
  ONRT_RETURN_IF_ERROR(check_name("module", package.name));
  ONRT_RETURN_IF_ERROR(check_name("architecture", package.architecture));
  if (!is_utf8(package.compiler_version)) {
    return Status(NRT_INVALID, "the compiler version is not UTF-8");
  }
  if (package.lnc_size == 0 || package.lnc_size > kMostLnc) {
    return Status(NRT_INVALID,
                  format("lnc_size {} is not between 1 and {}", package.lnc_size, kMostLnc));
  }
  if (package.subgraphs.empty() || package.subgraphs.size() > kMostSubgraphs) {
    return Status(NRT_INVALID, format("{} subgraphs; expected 1 to {}", package.subgraphs.size(),
                                      kMostSubgraphs));
  }
  for (size_t i = 0; i < package.subgraphs.size(); ++i) {
    ONRT_RETURN_IF_ERROR(check_subgraph(package.subgraphs[i], program_bytes[i], i));
  }
  return check_tensors(package);
}

}  // namespace onrt
