// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/neff_manifest.h"

#include <algorithm>
#include <array>
#include <limits>

#include "runtime/base/format.h"
#include "runtime/base/json.h"
#include "runtime/neff/neff_format.h"

namespace onrt {
namespace {

constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();
constexpr std::array<std::string_view, 2> kUsageNames = {"input", "output"};

Result<NeffTensor> parse_tensor(const JsonValue& row) {
  NeffTensor tensor;
  ONRT_ASSIGN_OR_RETURN(const std::string_view name, row.get_string("name"));
  tensor.name = name;
  ONRT_ASSIGN_OR_RETURN(const std::string_view usage, row.get_string("usage"));
  const auto known = std::find(kUsageNames.begin(), kUsageNames.end(), usage);
  if (known == kUsageNames.end()) {
    return Status(NRT_INVALID, format("'usage': expected input or output, found '{}'", usage));
  }
  tensor.usage = static_cast<TensorUsage>(known - kUsageNames.begin());
  ONRT_ASSIGN_OR_RETURN(const std::string_view dtype, row.get_string("dtype"));
  const DtypeInfo* info = find_dtype(dtype);
  if (info == nullptr) {
    return Status(NRT_INVALID, format("'dtype': unknown element type '{}'", dtype));
  }
  tensor.dtype = info->dtype;
  ONRT_ASSIGN_OR_RETURN(const JsonValue* dims, row.get_array("dims"));
  tensor.dims.reserve(dims->items().size());
  for (const JsonValue& dim : dims->items()) {
    if (dim.type() != JsonType::kInteger) {
      return Status(NRT_INVALID,
                    format("'dims': expected integers, found {}", json_type_name(dim.type())));
    }
    tensor.dims.push_back(dim.integer());
  }
  ONRT_ASSIGN_OR_RETURN(const int64_t size, row.get_integer("size", 0, kMostBytes));
  tensor.size_bytes = static_cast<uint64_t>(size);
  if (row.find("alias_of") != nullptr) {
    ONRT_ASSIGN_OR_RETURN(const int64_t alias,
                          row.get_integer("alias_of", 0, std::numeric_limits<int>::max()));
    tensor.alias_of = static_cast<int>(alias);
  }
  return tensor;
}

Status parse_subgraph(const JsonValue& row, NeffManifest& out) {
  NeffSubgraph subgraph;
  NeffManifest::Member member;
  ONRT_ASSIGN_OR_RETURN(const std::string_view name, row.get_string("name"));
  subgraph.name = name;
  ONRT_ASSIGN_OR_RETURN(const std::string_view path, row.get_string("program"));
  member.path = path;
  ONRT_ASSIGN_OR_RETURN(const int64_t bytes, row.get_integer("bytes", 0, kMostBytes));
  member.bytes = static_cast<uint64_t>(bytes);
  ONRT_ASSIGN_OR_RETURN(const int64_t crc,
                        row.get_integer("crc32", 0, std::numeric_limits<uint32_t>::max()));
  member.crc32 = static_cast<uint32_t>(crc);
  ONRT_ASSIGN_OR_RETURN(const int64_t code, row.get_integer("code_bytes", 0, kMostBytes));
  subgraph.code_bytes = static_cast<uint64_t>(code);
  ONRT_ASSIGN_OR_RETURN(const int64_t offset, row.get_integer("constants_offset", 0, kMostBytes));
  subgraph.constants_offset = static_cast<uint64_t>(offset);
  ONRT_ASSIGN_OR_RETURN(const int64_t scratch, row.get_integer("scratch_bytes", 0, kMostBytes));
  subgraph.scratch_bytes = static_cast<uint64_t>(scratch);
  out.package.subgraphs.push_back(std::move(subgraph));
  out.members.push_back(std::move(member));
  return ok_status();
}

Status parse_schema(const JsonValue& root) {
  ONRT_ASSIGN_OR_RETURN(const int64_t schema, root.get_integer("schema", 0, kMostBytes));
  if (schema != kNeffManifestSchema) {
    return Status(NRT_UNSUPPORTED_NEFF_VERSION,
                  format("found schema 0x{:x}, supported is 0x{:x}; compile the model again with "
                         "the neuronx-cc of this release",
                         schema, kNeffManifestSchema));
  }
  return ok_status();
}

Status parse_package(const JsonValue& root, NeffPackage& package) {
  ONRT_ASSIGN_OR_RETURN(const std::string_view name, root.get_string("name"));
  package.name = name;
  ONRT_ASSIGN_OR_RETURN(const std::string_view architecture, root.get_string("architecture"));
  package.architecture = architecture;
  ONRT_ASSIGN_OR_RETURN(const int64_t lnc, root.get_integer("lnc_size", 1, 255));
  package.lnc_size = static_cast<uint32_t>(lnc);
  ONRT_ASSIGN_OR_RETURN(const std::string_view version, root.get_string("compiler_version"));
  package.compiler_version = version;
  return ok_status();
}

}  // namespace

std::string neff_program_path(const std::string& subgraph) {
  return "opennrt/" + subgraph + ".ncx";
}

Result<NeffManifest> parse_neff_manifest(std::string_view text) {
  ONRT_ASSIGN_OR_RETURN(const JsonValue root, parse_json(text));
  ONRT_RETURN_IF_ERROR(parse_schema(root));
  NeffManifest manifest;
  ONRT_ASSIGN_OR_RETURN(const std::string_view digest, root.get_string("header_md5"));
  manifest.header_md5 = digest;
  ONRT_RETURN_IF_ERROR(parse_package(root, manifest.package));
  ONRT_ASSIGN_OR_RETURN(const JsonValue* tensors, root.get_array("tensors"));
  manifest.package.tensors.reserve(tensors->items().size());
  for (const JsonValue& row : tensors->items()) {
    auto tensor = parse_tensor(row);
    if (!tensor.ok()) {
      return std::move(tensor).status().annotate(
          format("tensor {}", manifest.package.tensors.size()));
    }
    manifest.package.tensors.push_back(std::move(tensor).value());
  }
  ONRT_ASSIGN_OR_RETURN(const JsonValue* subgraphs, root.get_array("subgraphs"));
  for (const JsonValue& row : subgraphs->items()) {
    ONRT_RETURN_IF_ERROR(
        parse_subgraph(row, manifest).annotate(format("subgraph {}", manifest.members.size())));
  }
  return manifest;
}

std::string write_neff_manifest(const NeffManifest& manifest) {
  const NeffPackage& package = manifest.package;
  JsonWriter out;
  out.begin_object().key("header_md5").string(manifest.header_md5);
  out.key("schema").integer(kNeffManifestSchema);
  out.key("name").string(package.name).key("architecture").string(package.architecture);
  out.key("lnc_size").unsigned_integer(package.lnc_size);
  out.key("compiler_version").string(package.compiler_version);
  out.key("tensors").begin_array();
  for (const NeffTensor& tensor : package.tensors) {
    out.begin_object().key("name").string(tensor.name);
    out.key("usage").string(kUsageNames[static_cast<size_t>(tensor.usage)]);
    out.key("dtype").string(dtype_name(tensor.dtype)).key("dims").begin_array();
    for (const int64_t dim : tensor.dims) {
      out.integer(dim);
    }
    out.end_array().key("size").unsigned_integer(tensor.size_bytes);
    if (tensor.alias_of >= 0) {
      out.key("alias_of").integer(tensor.alias_of);
    }
    out.end_object();
  }
  out.end_array().key("subgraphs").begin_array();
  for (size_t i = 0; i < package.subgraphs.size(); ++i) {
    const NeffSubgraph& subgraph = package.subgraphs[i];
    const NeffManifest::Member& member = manifest.members[i];
    out.begin_object().key("name").string(subgraph.name).key("program").string(member.path);
    out.key("bytes").unsigned_integer(member.bytes).key("crc32").unsigned_integer(member.crc32);
    out.key("code_bytes").unsigned_integer(subgraph.code_bytes);
    out.key("constants_offset").unsigned_integer(subgraph.constants_offset);
    out.key("scratch_bytes").unsigned_integer(subgraph.scratch_bytes).end_object();
  }
  out.end_array().end_object();
  return out.take();
}

}  // namespace onrt
