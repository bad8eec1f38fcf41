// SPDX-License-Identifier: Apache-2.0
// Layout of a NEFF file: a header of 1024 bytes, little-endian and without a magic number, then a
// tar archive, plain or compressed by gzip.
// Source: AWS Neuron SDK documentation, neuron-runtime/explore/work-with-neff-files.rst at commit
// db1586c3 (field names, order and types; the offsets follow from the C rules of x86-64).
// Package versions (1: SHA-256, 2: MD5 of the payload) as in the public KLR writer.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace onrt {

struct NeffRawHeader {
  uint64_t package_version;
  uint64_t header_size;
  uint64_t data_size;
  uint64_t version_major;
  uint64_t version_minor;
  char build_version[128];
  uint32_t core_count;  // physical cores
  uint8_t hash[32];     // of the payload; MD5 fills the first 16 and leaves the others zero
  uint8_t uuid[16];
  char name[256];
  uint32_t requested_core_count;
  uint8_t cores_per_node[64];
  uint64_t feature_bits;
  uint32_t lnc_size;
  uint8_t padding[468];
};
static_assert(std::endian::native == std::endian::little, "the header is read as it lies");
static_assert(sizeof(NeffRawHeader) == 1024);
static_assert(offsetof(NeffRawHeader, build_version) == 0x28);
static_assert(offsetof(NeffRawHeader, core_count) == 0xA8);
static_assert(offsetof(NeffRawHeader, hash) == 0xAC);
static_assert(offsetof(NeffRawHeader, uuid) == 0xCC);
static_assert(offsetof(NeffRawHeader, name) == 0xDC);
static_assert(offsetof(NeffRawHeader, requested_core_count) == 0x1DC);
static_assert(offsetof(NeffRawHeader, cores_per_node) == 0x1E0);
static_assert(offsetof(NeffRawHeader, feature_bits) == 0x220);
static_assert(offsetof(NeffRawHeader, lnc_size) == 0x228);
static_assert(offsetof(NeffRawHeader, padding) == 0x22C);

inline constexpr uint64_t kNeffPackageSha256 = 1;
inline constexpr uint64_t kNeffPackageMd5 = 2;

// What this runtime writes and loads. The vendor's feature bits stand for encodings that are not
// public, so none is supported.
inline constexpr uint64_t kNeffMajor = 2;
inline constexpr uint64_t kNeffMinor = 0;
inline constexpr uint64_t kNeffSupportedFeatures = 0;

// Start of build_version in files of our compiler.
inline constexpr std::string_view kNeffBuildPrefix = "OpenNRT ";

// Members that mark a NEFF as ours (docs/neff.md).
inline constexpr std::string_view kNeffManifest = "opennrt.json";
inline constexpr int64_t kNeffManifestSchema = 1;

}  // namespace onrt
