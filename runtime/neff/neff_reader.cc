// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/digest.h"
#include "runtime/base/format.h"
#include "runtime/neff/gzip.h"
#include "runtime/neff/neff.h"
#include "runtime/neff/neff_format.h"
#include "runtime/neff/neff_manifest.h"
#include "runtime/neff/tar.h"

namespace onrt {
namespace {

constexpr size_t kManifestMost = size_t{64} << 20;

template <size_t kSize>
std::string text_field(const char (&field)[kSize]) {
  return {field, strnlen(field, kSize)};
}

// Header fields and the bytes behind the header.
struct Frame {
  NeffRawHeader raw{};
  std::span<const std::byte> payload;
};

Result<Frame> read_frame(std::span<const std::byte> file) {
  Frame frame;
  if (file.size() < sizeof(frame.raw)) {
    return Status(NRT_INVALID, format("NEFF of {} bytes is shorter than its header of {} bytes",
                                      file.size(), sizeof(frame.raw)));
  }
  std::memcpy(&frame.raw, file.data(), sizeof(frame.raw));
  const uint64_t header_size = frame.raw.header_size;
  if (header_size < sizeof(frame.raw) || header_size > file.size()) {
    return Status(
        NRT_INVALID,
        format("NEFF header size (offset 0x8): expected {} to {}, found {}; this is not a "
               "NEFF or it is damaged",
               sizeof(frame.raw), file.size(), header_size));
  }
  frame.payload = file.subspan(header_size);
  // Some writers count the header in.
  if (frame.raw.data_size != frame.payload.size() && frame.raw.data_size != file.size()) {
    return Status(NRT_INVALID,
                  format("NEFF data size (offset 0x10): the header says {} bytes, the file has {} "
                         "after the header; it is truncated or damaged",
                         frame.raw.data_size, frame.payload.size()));
  }
  return frame;
}

NeffHeader public_header(const NeffRawHeader& raw) {
  NeffHeader header;
  header.package_version = raw.package_version;
  header.header_size = raw.header_size;
  header.data_size = raw.data_size;
  header.version_major = raw.version_major;
  header.version_minor = raw.version_minor;
  header.build_version = text_field(raw.build_version);
  header.core_count = raw.core_count;
  std::copy(std::begin(raw.hash), std::end(raw.hash), header.hash.begin());
  std::copy(std::begin(raw.uuid), std::end(raw.uuid), header.uuid.begin());
  header.name = text_field(raw.name);
  header.requested_core_count = raw.requested_core_count;
  header.feature_bits = raw.feature_bits;
  header.lnc_size = raw.lnc_size;
  return header;
}

bool hash_matches(const Frame& frame) {
  std::array<uint8_t, 32> expected{};
  if (frame.raw.package_version == kNeffPackageSha256) {
    expected = sha256(frame.payload);
  } else {
    const auto digest = md5(frame.payload);
    std::copy(digest.begin(), digest.end(), expected.begin());
  }
  return std::equal(expected.begin(), expected.end(), std::begin(frame.raw.hash));
}

std::string origin(const NeffRawHeader& raw) {
  return format("NEFF version {}.{}, features 0x{:x}, built by '{}'", raw.version_major,
                raw.version_minor, raw.feature_bits, text_field(raw.build_version));
}

Status check_versions(const NeffRawHeader& raw) {
  const std::string advice =
      text_field(raw.build_version).starts_with(kNeffBuildPrefix)
          ? "compile the model again with the neuronx-cc of this release"
          : "NEFFs of the vendor's compiler do not run here: their instruction encoding is not "
            "public";
  if (raw.package_version != kNeffPackageMd5 && raw.package_version != kNeffPackageSha256) {
    return Status(
        NRT_UNSUPPORTED_NEFF_VERSION,
        format("package version: found 0x{:x}, supported are 0x1 (SHA-256) and 0x2 (MD5); "
               "{}",
               raw.package_version, advice));
  }
  if (raw.version_major != kNeffMajor || raw.version_minor != kNeffMinor) {
    return Status(
        NRT_UNSUPPORTED_NEFF_VERSION,
        format("NEFF version: found 0x{:x}.0x{:x}, supported is 0x{:x}.0x{:x}; {} ({})",
               raw.version_major, raw.version_minor, kNeffMajor, kNeffMinor, advice, origin(raw)));
  }
  if (const uint64_t unknown = raw.feature_bits & ~kNeffSupportedFeatures; unknown != 0) {
    return Status(
        NRT_UNSUPPORTED_NEFF_VERSION,
        format("NEFF features: found 0x{:x}, supported are 0x{:x}, unsupported: {}; {} ({})",
               raw.feature_bits, kNeffSupportedFeatures, neff_feature_names(unknown), advice,
               origin(raw)));
  }
  return ok_status();
}

// The tar of a payload. `unpacked` holds it when the payload is compressed.
Result<std::span<const std::byte>> unpack(std::span<const std::byte> payload,
                                          std::vector<std::byte>& unpacked) {
  if (!is_gzip(payload)) {
    return payload;
  }
  ONRT_ASSIGN_OR_RETURN(unpacked, gunzip(payload, gzip_expansion_limit(payload.size())));
  return std::span<const std::byte>(unpacked);
}

const TarMember* find_member(const std::vector<TarMember>& members, std::string_view path) {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const TarMember& member) { return member.path == path; });
  return found == members.end() ? nullptr : &*found;
}

Status check_agreement(const NeffRawHeader& raw, const NeffManifest& manifest) {
  NeffRawHeader blank = raw;
  std::fill(std::begin(blank.hash), std::end(blank.hash), uint8_t{0});
  const std::string digest = to_hex(md5(std::as_bytes(std::span(&blank, 1))));
  if (digest != manifest.header_md5) {
    return Status(NRT_INVALID,
                  format("the NEFF's header and payload disagree: the header's MD5 is {}, {} "
                         "says {}; the file is damaged or was put together from two",
                         digest, kNeffManifest, manifest.header_md5));
  }
  if (raw.lnc_size != manifest.package.lnc_size) {
    return Status(NRT_INVALID, format("lnc_size is {} in the NEFF's header and {} in {}",
                                      raw.lnc_size, manifest.package.lnc_size, kNeffManifest));
  }
  return ok_status();
}

Status take_program(const std::vector<TarMember>& members, const NeffManifest::Member& row,
                    NeffSubgraph& subgraph) {
  const TarMember* member = find_member(members, row.path);
  if (member == nullptr || row.path != neff_program_path(subgraph.name)) {
    return Status(NRT_INVALID,
                  format("the NEFF has no member '{}' for subgraph {}", row.path, subgraph.name));
  }
  if (member->data.size() != row.bytes) {
    return Status(NRT_INVALID, format("member '{}' has {} bytes, {} says {}", row.path,
                                      member->data.size(), kNeffManifest, row.bytes));
  }
  const auto crc = static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(member->data.data()), member->data.size()));
  if (crc != row.crc32) {
    return Status(NRT_INVALID, format("member '{}' is damaged: its CRC-32 is 0x{:08x}, {} says "
                                      "0x{:08x}",
                                      row.path, crc, kNeffManifest, row.crc32));
  }
  subgraph.program.assign(member->data.begin(), member->data.end());
  return ok_status();
}

Result<NeffPackage> read_members(const NeffRawHeader& raw, std::span<const std::byte> tar) {
  ONRT_ASSIGN_OR_RETURN(const std::vector<TarMember> members, read_tar(tar));
  const TarMember* text = find_member(members, kNeffManifest);
  if (text == nullptr) {
    return Status(NRT_UNSUPPORTED_NEFF_VERSION,
                  format("this NEFF comes from another compiler ({}): it has no {}. NEFFs of the "
                         "vendor's compiler do not run here because their instruction encoding is "
                         "not public; compile the model with OpenNRT's neuronx-cc",
                         origin(raw), kNeffManifest));
  }
  if (text->data.size() > kManifestMost) {
    return Status(NRT_INVALID, format("{} has {} bytes, more than {}", kNeffManifest,
                                      text->data.size(), kManifestMost));
  }
  auto parsed =
      parse_neff_manifest({reinterpret_cast<const char*>(text->data.data()), text->data.size()});
  if (!parsed.ok()) {
    return std::move(parsed).status().annotate(kNeffManifest);
  }
  NeffManifest& manifest = *parsed;
  ONRT_RETURN_IF_ERROR(check_agreement(raw, manifest));
  std::vector<uint64_t> sizes;
  for (size_t i = 0; i < manifest.members.size(); ++i) {
    sizes.push_back(manifest.members[i].bytes);
  }
  ONRT_RETURN_IF_ERROR(check_neff_package(manifest.package, sizes).annotate(kNeffManifest));
  for (size_t i = 0; i < manifest.members.size(); ++i) {
    ONRT_RETURN_IF_ERROR(take_program(members, manifest.members[i], manifest.package.subgraphs[i]));
  }
  std::copy(std::begin(raw.uuid), std::end(raw.uuid), manifest.package.uuid.begin());
  return std::move(manifest.package);
}

}  // namespace

std::string neff_feature_names(uint64_t bits) {
  std::string names;
  for (int bit = 0; bit < 64; ++bit) {
    if ((bits >> bit & 1) != 0) {
      names += format("{}bit {}", names.empty() ? "" : ", ", bit);
    }
  }
  return names.empty() ? "none" : names;
}

Result<NeffArchive> read_neff_archive(std::span<const std::byte> file) {
  ONRT_ASSIGN_OR_RETURN(const Frame frame, read_frame(file));
  NeffArchive archive;
  archive.header = public_header(frame.raw);
  archive.compressed = is_gzip(frame.payload);
  archive.hash_matches = hash_matches(frame);
  std::vector<std::byte> unpacked;
  ONRT_ASSIGN_OR_RETURN(const std::span<const std::byte> tar, unpack(frame.payload, unpacked));
  if (archive.compressed) {
    archive.payload = std::move(unpacked);
  } else {
    archive.payload.assign(tar.begin(), tar.end());
  }
  ONRT_ASSIGN_OR_RETURN(std::vector<TarMember> members, read_tar(archive.payload));
  archive.members.reserve(members.size());
  for (TarMember& member : members) {
    archive.members.push_back({std::move(member.path), member.data});
  }
  return archive;
}

Result<NeffPackage> read_neff(std::span<const std::byte> file, NeffHashCheck check) {
  ONRT_ASSIGN_OR_RETURN(const Frame frame, read_frame(file));
  ONRT_RETURN_IF_ERROR(check_versions(frame.raw));
  if (check == NeffHashCheck::kRequire && !hash_matches(frame)) {
    return Status(NRT_INVALID,
                  format("the NEFF's payload of {} bytes does not match the {} hash in its header",
                         frame.payload.size(),
                         frame.raw.package_version == kNeffPackageSha256 ? "SHA-256" : "MD5"));
  }
  std::vector<std::byte> unpacked;
  ONRT_ASSIGN_OR_RETURN(const std::span<const std::byte> tar, unpack(frame.payload, unpacked));
  return read_members(frame.raw, tar);
}

}  // namespace onrt
