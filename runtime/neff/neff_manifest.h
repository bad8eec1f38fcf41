// SPDX-License-Identifier: Apache-2.0
// opennrt.json, the member that makes a NEFF ours: what docs/neff.md calls the manifest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/neff/neff_package.h"

namespace onrt {

struct NeffManifest {
  std::string header_md5;  // of the file's header with its hash field zero; 32 hex digits
  NeffPackage package;     // subgraphs without their programs
  struct Member {
    std::string path;  // "opennrt/sg00.ncx"
    uint64_t bytes = 0;
    uint32_t crc32 = 0;  // so that damage is found in uncompressed files too
  };
  std::vector<Member> members;  // by subgraph
};

// NRT_INVALID for anything malformed; NRT_UNSUPPORTED_NEFF_VERSION for another schema.
Result<NeffManifest> parse_neff_manifest(std::string_view text);

// Compact JSON with the digest first: header_md5 starts at kManifestDigestOffset.
std::string write_neff_manifest(const NeffManifest& manifest);
inline constexpr size_t kManifestDigestOffset = sizeof(R"({"header_md5":")") - 1;
inline constexpr size_t kManifestDigestBytes = 32;

// Path of the member that holds a subgraph's program.
std::string neff_program_path(const std::string& subgraph);

// What writer and reader demand of a package. `program_bytes`: size of each subgraph's program.
Status check_neff_package(const NeffPackage& package, const std::vector<uint64_t>& program_bytes);

}  // namespace onrt
