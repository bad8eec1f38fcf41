// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_packager/report.h"

#include "runtime/base/digest.h"
#include "runtime/base/format.h"
#include "runtime/base/json.h"
#include "tools/common/table.h"

namespace onrt::tools {
namespace {

std::string shape_text(const NeffTensor& tensor) {
  std::string text = std::string(dtype_name(tensor.dtype)) + "[";
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(tensor.dims[i]);
  }
  return text + "]";
}

const char* usage_text(const NeffTensor& tensor) {
  return tensor.usage == TensorUsage::kInput ? "input" : "output";
}

const char* hash_kind(const NeffHeader& header) {
  return header.package_version == 1 ? "SHA-256" : "MD5";
}

std::string hash_hex(const NeffHeader& header) {
  return to_hex(std::span(header.hash).first(header.package_version == 1 ? 32 : 16));
}

std::string line(std::string_view name, const std::string& value) {
  std::string text(name);
  text.resize(18, ' ');
  return text + printable(value) + "\n";
}

std::string header_text(const NeffReport& report) {
  const NeffHeader& header = report.archive.header;
  std::string out = line("file", report.path);
  out += line("size", format("{} bytes", report.file_bytes));
  out += line("name", header.name);
  out += line("build version", header.build_version);
  out += line("package version", format("{} ({})", header.package_version, hash_kind(header)));
  out += line("NEFF version", format("{}.{}", header.version_major, header.version_minor));
  out += line("header size", format("{} bytes", header.header_size));
  out += line("data size", format("{} bytes, {}", header.data_size,
                                  report.archive.compressed ? "gzip" : "plain tar"));
  out += line("uuid", uuid_text(header.uuid));
  out += line("hash", hash_hex(header) +
                          (report.archive.hash_matches ? " (matches)" : " (DOES NOT MATCH)"));
  out += line("features",
              format("0x{:x} ({})", header.feature_bits, neff_feature_names(header.feature_bits)));
  out += line("cores", format("{} (requested {}), logical core size {}", header.core_count,
                              header.requested_core_count, header.lnc_size));
  if (report.package) {
    out += line("architecture", report.package->architecture);
    out += line("loads here", "yes");
  } else {
    out += line("loads here", format("no, status {}: {}", report.refusal_code, report.refusal));
  }
  return out;
}

std::string package_text(const NeffPackage& package) {
  Table tensors;
  for (const char* heading : {"SLOT", "USAGE", "NAME", "SHAPE", "BYTES", "ALIAS OF"}) {
    tensors.add_column({heading});
  }
  for (size_t i = 0; i < package.tensors.size(); ++i) {
    const NeffTensor& tensor = package.tensors[i];
    tensors.add_row({std::to_string(i), usage_text(tensor), printable(tensor.name),
                     shape_text(tensor), std::to_string(tensor.size_bytes),
                     tensor.alias_of < 0 ? "" : std::to_string(tensor.alias_of)});
  }
  Table subgraphs;
  for (const char* heading : {"SUBGRAPH", "CODE BYTES", "CONSTANT BYTES", "SCRATCH BYTES"}) {
    subgraphs.add_column({heading});
  }
  for (const NeffSubgraph& subgraph : package.subgraphs) {
    subgraphs.add_row({subgraph.name, std::to_string(subgraph.code_bytes),
                       std::to_string(subgraph.program.size() - subgraph.constants_offset),
                       std::to_string(subgraph.scratch_bytes)});
  }
  return "\n" + tensors.text(Rules::kOutside) + "\n" + subgraphs.text(Rules::kOutside);
}

void header_json(const NeffReport& report, JsonWriter& out) {
  const NeffHeader& header = report.archive.header;
  out.key("file").string(report.path).key("file_bytes").unsigned_integer(report.file_bytes);
  out.key("name").string(header.name).key("build_version").string(header.build_version);
  out.key("package_version").unsigned_integer(header.package_version);
  out.key("neff_version_major").unsigned_integer(header.version_major);
  out.key("neff_version_minor").unsigned_integer(header.version_minor);
  out.key("header_bytes").unsigned_integer(header.header_size);
  out.key("data_bytes").unsigned_integer(header.data_size);
  out.key("compression").string(report.archive.compressed ? "gzip" : "none");
  out.key("uuid").string(uuid_text(header.uuid));
  out.key("hash_algorithm").string(header.package_version == 1 ? "sha256" : "md5");
  out.key("hash").string(hash_hex(header));
  out.key("hash_matches").boolean(report.archive.hash_matches);
  out.key("feature_bits").string(format("0x{:x}", header.feature_bits));
  out.key("core_count").integer(header.core_count);
  out.key("requested_core_count").integer(header.requested_core_count);
  out.key("lnc_size").integer(header.lnc_size);
}

void package_json(const NeffPackage& package, JsonWriter& out) {
  out.key("architecture").string(package.architecture);
  out.key("tensors").begin_array();
  for (const NeffTensor& tensor : package.tensors) {
    out.begin_object().key("name").string(tensor.name).key("usage").string(usage_text(tensor));
    out.key("dtype").string(dtype_name(tensor.dtype)).key("shape").begin_array();
    for (const int64_t dim : tensor.dims) {
      out.integer(dim);
    }
    out.end_array().key("bytes").unsigned_integer(tensor.size_bytes).key("alias_of");
    if (tensor.alias_of < 0) {
      out.null();
    } else {
      out.integer(tensor.alias_of);
    }
    out.end_object();
  }
  out.end_array().key("subgraphs").begin_array();
  for (const NeffSubgraph& subgraph : package.subgraphs) {
    out.begin_object().key("name").string(subgraph.name);
    out.key("code_bytes").unsigned_integer(subgraph.code_bytes);
    out.key("constant_bytes").unsigned_integer(subgraph.program.size() - subgraph.constants_offset);
    out.key("scratch_bytes").unsigned_integer(subgraph.scratch_bytes).end_object();
  }
  out.end_array();
}

}  // namespace

std::string uuid_text(const std::array<uint8_t, 16>& uuid) {
  std::string text = to_hex(uuid);
  for (const size_t at : {20, 16, 12, 8}) {
    text.insert(at, "-");
  }
  return text;
}

std::string report_text(const NeffReport& report) {
  std::string out = header_text(report);
  Table members;
  members.add_column({"MEMBER"});
  members.add_column({"BYTES"});
  for (const NeffMember& member : report.archive.members) {
    members.add_row({printable(member.path), std::to_string(member.data.size())});
  }
  out += "\n" + members.text(Rules::kOutside);
  out += report.package ? package_text(*report.package) : "";
  out += report.cost ? "\n" + cost_text(*report.cost) : "";
  return out;
}

std::string report_json(const NeffReport& report) {
  JsonWriter out(2);
  out.begin_object();
  header_json(report, out);
  out.key("loads").boolean(report.package.has_value());
  out.key("status").integer(report.refusal_code).key("refusal").string(report.refusal);
  out.key("members").begin_array();
  for (const NeffMember& member : report.archive.members) {
    out.begin_object().key("path").string(member.path);
    out.key("bytes").unsigned_integer(member.data.size()).end_object();
  }
  out.end_array();
  if (report.package) {
    package_json(*report.package, out);
  }
  if (report.cost) {
    out.key("cost");
    cost_json(*report.cost, out);
  }
  out.end_object();
  return out.take() + "\n";
}

}  // namespace onrt::tools
