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

using Bytes = std::vector<std::byte>;

std::span<const std::byte> as_span(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void append(Bytes& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// CRC-32 as zlib has it; zlib takes 32-bit lengths only in crc32().
uint32_t crc_of(std::span<const std::byte> bytes, uint32_t start = 0) {
  return static_cast<uint32_t>(
      crc32_z(start, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

constexpr std::array<std::byte, kTarEndBytes> kZeros{};

std::span<const std::byte> tar_padding(uint64_t size) {
  return std::span(kZeros).first(static_cast<size_t>(tar_member_bytes(size) - kTarBlock - size));
}

// Everything but the programs, ready to be laid out.
struct Layout {
  NeffManifest manifest;
  std::string first_member;  // tar header, manifest, padding
  std::vector<std::string> tar_headers;
  uint64_t tar_bytes = 0;
};

Result<Layout> make_layout(const NeffPackage& package) {
  Layout layout;
  std::vector<uint64_t> sizes;
  for (const NeffSubgraph& subgraph : package.subgraphs) {
    sizes.push_back(subgraph.program.size());
  }
  ONRT_RETURN_IF_ERROR(check_neff_package(package, sizes));
  NeffPackage& copy = layout.manifest.package;
  copy.name = package.name;
  copy.architecture = package.architecture;
  copy.lnc_size = package.lnc_size;
  copy.compiler_version = package.compiler_version;
  copy.tensors = package.tensors;
  layout.manifest.header_md5.assign(kManifestDigestBytes, '0');
  layout.tar_bytes = kTarEndBytes;
  for (const NeffSubgraph& subgraph : package.subgraphs) {
    copy.subgraphs.push_back({subgraph.name,
                              {},
                              subgraph.code_bytes,
                              subgraph.constants_offset,
                              subgraph.scratch_bytes});
    const std::string path = neff_program_path(subgraph.name);
    const uint64_t size = subgraph.program.size();
    layout.manifest.members.push_back({path, size, crc_of(subgraph.program)});
    layout.tar_headers.push_back(make_tar_header(path, size));
    layout.tar_bytes += tar_member_bytes(size);
  }
  const std::string text = write_neff_manifest(layout.manifest);
  layout.first_member = make_tar_header(kNeffManifest, text.size()) + text;
  layout.first_member.resize(tar_member_bytes(text.size()));
  layout.tar_bytes += layout.first_member.size();
  return layout;
}

// RFC 9562 version 8: the content decides, so the same model has the same id everywhere.
std::array<uint8_t, 16> content_uuid(const Layout& layout, const NeffPackage& package) {
  Md5 digest;
  digest.update(as_span(layout.first_member));
  for (const NeffSubgraph& subgraph : package.subgraphs) {
    digest.update(subgraph.program);
  }
  std::array<uint8_t, 16> uuid = digest.finish();
  uuid[6] = static_cast<uint8_t>((uuid[6] & 0x0F) | 0x80);
  uuid[8] = static_cast<uint8_t>((uuid[8] & 0x3F) | 0x80);
  return uuid;
}

NeffRawHeader make_header(const Layout& layout, const NeffPackage& package, uint64_t data_size) {
  NeffRawHeader header{};
  header.package_version = kNeffPackageMd5;
  header.header_size = sizeof(header);
  header.data_size = data_size;
  header.version_major = kNeffMajor;
  header.version_minor = kNeffMinor;
  const std::string build = std::string(kNeffBuildPrefix) + package.compiler_version;
  build.copy(header.build_version, sizeof(header.build_version) - 1);
  header.core_count = static_cast<uint32_t>(package.subgraphs.size()) * package.lnc_size;
  header.requested_core_count = header.core_count;
  header.cores_per_node[0] = static_cast<uint8_t>(std::min<uint32_t>(header.core_count, 255));
  const auto uuid = content_uuid(layout, package);
  std::copy(uuid.begin(), uuid.end(), header.uuid);
  package.name.copy(header.name, sizeof(header.name) - 1);
  header.feature_bits = 0;
  header.lnc_size = package.lnc_size;
  return header;
}

// Appends the payload with the manifest's digest still zero; returns the CRC of what follows the
// first member (gzip only).
Result<uint32_t> write_payload(Bytes& out, const Layout& layout, const NeffPackage& package,
                               NeffCompression compression) {
  if (compression == NeffCompression::kNone) {
    append(out, as_span(layout.first_member));
    for (size_t i = 0; i < package.subgraphs.size(); ++i) {
      const Bytes& program = package.subgraphs[i].program;
      append(out, as_span(layout.tar_headers[i]));
      append(out, program);
      append(out, tar_padding(program.size()));
    }
    append(out, kZeros);
    return uint32_t{0};
  }
  GzipWriter gzip(out);
  gzip.stored(as_span(layout.first_member));
  uint32_t crc = 0;
  for (size_t i = 0; i < package.subgraphs.size(); ++i) {
    const Bytes& program = package.subgraphs[i].program;
    const auto padding = tar_padding(program.size());
    gzip.stored(as_span(layout.tar_headers[i]));
    ONRT_RETURN_IF_ERROR(gzip.deflated(program));
    gzip.stored(padding);
    crc = crc_of(padding, crc_of(program, crc_of(as_span(layout.tar_headers[i]), crc)));
  }
  gzip.stored(kZeros);
  crc = crc_of(kZeros, crc);
  return crc;
}

// The digest lies at a known place because the first member is never compressed.
void set_digest(Bytes& out, Layout& layout, const NeffRawHeader& header,
                NeffCompression compression) {
  const std::string digest = to_hex(md5(std::as_bytes(std::span(&header, 1))));
  const size_t at = kTarBlock + kManifestDigestOffset;
  layout.first_member.replace(at, digest.size(), digest);
  const size_t lead = compression == NeffCompression::kGzip
                          ? GzipWriter::kHeaderBytes + GzipWriter::kStoredHeaderBytes
                          : 0;
  std::memcpy(out.data() + sizeof(header) + lead + at, digest.data(), digest.size());
}

}  // namespace

Result<std::vector<std::byte>> write_neff(const NeffPackage& package, NeffCompression compression) {
  ONRT_ASSIGN_OR_RETURN(Layout layout, make_layout(package));
  Bytes out;
  constexpr size_t kGzipTail = GzipWriter::kStoredHeaderBytes + 8;
  if (compression == NeffCompression::kNone) {
    out.reserve(sizeof(NeffRawHeader) + layout.tar_bytes);
  }
  out.resize(sizeof(NeffRawHeader));
  ONRT_ASSIGN_OR_RETURN(const uint32_t rest_crc, write_payload(out, layout, package, compression));
  const bool gzip = compression == NeffCompression::kGzip;
  const uint64_t data_size = out.size() - sizeof(NeffRawHeader) + (gzip ? kGzipTail : 0);
  if (gzip && layout.tar_bytes > gzip_expansion_limit(data_size)) {
    return write_neff(package, NeffCompression::kNone);  // readers would take it for a bomb
  }
  NeffRawHeader header = make_header(layout, package, data_size);
  set_digest(out, layout, header, compression);
  if (gzip) {
    const uint32_t first_crc = crc_of(as_span(layout.first_member));
    const uint64_t rest = layout.tar_bytes - layout.first_member.size();
    const auto crc =
        static_cast<uint32_t>(crc32_combine(first_crc, rest_crc, static_cast<z_off_t>(rest)));
    GzipWriter::finish(out, crc, layout.tar_bytes);
  }
  const auto hash = md5(std::span(out).subspan(sizeof(header)));
  std::copy(hash.begin(), hash.end(), header.hash);
  std::memcpy(out.data(), &header, sizeof(header));
  return out;
}

}  // namespace onrt
