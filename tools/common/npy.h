// SPDX-License-Identifier: Apache-2.0
// Arrays in NumPy's file formats: .npy and .npz (a zip archive of .npy files). Files are untrusted.
// Source of the layouts: numpy.lib.format (NEP 1) and PKWARE's APPNOTE.TXT 6.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace onrt::tools {

struct Array {
  std::string type;  // as in the header: "<f4", "|u1", "|b1", "<V2"
  std::vector<int64_t> shape;
  std::vector<std::byte> data;  // row-major, little-endian
};

// "<f4[2,3]": for messages.
std::string array_text(const std::string& type, std::span<const int64_t> shape);

// NRT_INVALID with one sentence for a malformed file; also for what isn't a dense array of numbers
// in row-major, little-endian order (objects, structures, Fortran order).
Result<Array> parse_npy(std::span<const std::byte> file);
std::vector<std::byte> make_npy(const Array& array);

using NamedArray = std::pair<std::string, Array>;

// Arrays by name, in the order of the archive; members are stored or deflated.
Result<std::vector<NamedArray>> parse_npz(std::span<const std::byte> file);
// Members are stored. Readable by numpy.load and any zip tool; no limit of 4 GiB.
std::vector<std::byte> make_npz(const std::vector<NamedArray>& arrays);

}  // namespace onrt::tools
