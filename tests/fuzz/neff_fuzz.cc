// SPDX-License-Identifier: Apache-2.0
// NEFF reader on hostile bytes. Checksums and the header's digest stop most mutations early, so the
// parts behind them (tar, gzip, manifest) are also run on the bytes alone.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "runtime/base/json.h"
#include "runtime/neff/gzip.h"
#include "runtime/neff/neff.h"
#include "runtime/neff/neff_manifest.h"
#include "runtime/neff/tar.h"

namespace {

constexpr size_t kHeaderBytes = 1024;
constexpr uint64_t kGunzipLimit = 1 << 20;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

// A manifest that was understood is written and understood again, with the same result.
void check_manifest(std::string_view text) {
  const auto manifest = onrt::parse_neff_manifest(text);
  if (!manifest.ok()) {
    return;
  }
  const std::string once = onrt::write_neff_manifest(*manifest);
  const auto again = onrt::parse_neff_manifest(once);
  require(again.ok() && onrt::write_neff_manifest(*again) == once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto package = onrt::read_neff(file, onrt::NeffHashCheck::kSkip);
  if (package.ok()) {
    require(onrt::write_neff(*package, onrt::NeffCompression::kNone).ok());
  }
  const auto archive = onrt::read_neff_archive(file);
  const auto payload = size > kHeaderBytes ? file.subspan(kHeaderBytes) : file;
  if (const auto members = onrt::read_tar(payload); members.ok()) {
    for (const onrt::TarMember& member : *members) {
      require(!member.path.empty() && member.path[0] != '/');
      check_manifest({reinterpret_cast<const char*>(member.data.data()), member.data.size()});
    }
  }
  if (const auto unpacked = onrt::gunzip(payload, kGunzipLimit); unpacked.ok()) {
    require(unpacked->size() <= kGunzipLimit);
  }
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_manifest(text);
  if (const auto value = onrt::parse_json(text); value.ok()) {
    require(onrt::is_utf8(text));
  }
  return 0;
}
