// SPDX-License-Identifier: Apache-2.0
// tar archives in memory. The reader takes what is needed to look into any NEFF (ustar, GNU long
// names, pax paths) and refuses what no NEFF needs (links, devices, paths that leave the folder).
// Source of the layout: POSIX.1-2017, pax, "ustar Interchange Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace onrt {

inline constexpr size_t kTarBlock = 512;
inline constexpr size_t kTarMostMembers = 1 << 16;
inline constexpr size_t kTarLongestPath = 4096;

struct TarMember {
  std::string path;                 // relative, without "." and ".."; unique in its archive
  std::span<const std::byte> data;  // into the archive
};

// The regular files, in order. NRT_INVALID names member, offset and what is wrong.
Result<std::vector<TarMember>> read_tar(std::span<const std::byte> archive);

// Bytes that a member of `size` bytes takes.
constexpr uint64_t tar_member_bytes(uint64_t size) {
  return kTarBlock + (size + kTarBlock - 1) / kTarBlock * kTarBlock;
}
inline constexpr size_t kTarEndBytes = 2 * kTarBlock;

// Header block of a regular file: mode 0644, owner 0, time 0. `path` has at most 99 bytes.
std::string make_tar_header(std::string_view path, uint64_t size);

}  // namespace onrt
