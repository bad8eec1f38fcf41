// SPDX-License-Identifier: Apache-2.0
// NEFF container: reader (hostile input) and writer. Format: docs/neff.md, neff_format.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/neff/neff_package.h"

namespace onrt {

// Fields of the 1024-byte header, as found.
struct NeffHeader {
  uint64_t package_version = 0;
  uint64_t header_size = 0;
  uint64_t data_size = 0;
  uint64_t version_major = 0;
  uint64_t version_minor = 0;
  std::string build_version;
  uint32_t core_count = 0;
  std::array<uint8_t, 32> hash{};
  std::array<uint8_t, 16> uuid{};
  std::string name;
  uint32_t requested_core_count = 0;
  uint64_t feature_bits = 0;
  uint32_t lnc_size = 0;
};

struct NeffMember {
  std::string path;
  std::span<const std::byte> data;  // into NeffArchive::payload
};

// Any NEFF, ours or the vendor's: header and members, for neuron-packager.
struct NeffArchive {
  NeffHeader header;
  std::vector<std::byte> payload;  // the tar, decompressed
  std::vector<NeffMember> members;
  bool compressed = false;  // the payload was gzip
  bool hash_matches = false;
};

// "bit 8, bit 9": the meaning of the vendor's bits is not public. "none" for 0.
std::string neff_feature_names(uint64_t bits);

enum class NeffHashCheck : uint8_t { kSkip, kRequire };

// Errors: NRT_INVALID for a malformed file (names the part and the offset).
Result<NeffArchive> read_neff_archive(std::span<const std::byte> file);

// Errors: NRT_INVALID for a malformed file or header and payload that disagree;
// NRT_UNSUPPORTED_NEFF_VERSION for a version, feature bit or encoding we don't have, with the
// found and supported values in hex, and for a NEFF of the vendor's compiler.
Result<NeffPackage> read_neff(std::span<const std::byte> file, NeffHashCheck check);

enum class NeffCompression : uint8_t { kGzip, kNone };

// Deterministic: the same package gives the same bytes.
Result<std::vector<std::byte>> write_neff(const NeffPackage& package, NeffCompression compression);

}  // namespace onrt
