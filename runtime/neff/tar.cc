// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/tar.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_set>

#include "runtime/base/format.h"

namespace onrt {
namespace {

struct RawTarHeader {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link_name[100];
  char magic[6];
  char version[2];
  char user[32];
  char group[32];
  char device_major[8];
  char device_minor[8];
  char prefix[155];
  char padding[12];
};
static_assert(sizeof(RawTarHeader) == kTarBlock);
static_assert(offsetof(RawTarHeader, checksum) == 148 && offsetof(RawTarHeader, magic) == 257);

template <size_t kSize>
std::string_view text_field(const char (&field)[kSize]) {
  return {field, strnlen(field, kSize)};
}

// Octal with spaces or NUL around it, or base 256 when the first bit is set (GNU).
template <size_t kSize>
std::optional<uint64_t> number_field(const char (&field)[kSize]) {
  if ((static_cast<unsigned char>(field[0]) & 0x80u) != 0) {
    uint64_t value = static_cast<unsigned char>(field[0]) & 0x7Fu;
    for (size_t i = 1; i < kSize; ++i) {
      if (value >> 55 != 0) {
        return std::nullopt;
      }
      value = value << 8 | static_cast<unsigned char>(field[i]);
    }
    return value;
  }
  size_t at = 0;
  while (at < kSize && field[at] == ' ') {
    ++at;
  }
  uint64_t value = 0;
  for (; at < kSize && field[at] != '\0' && field[at] != ' '; ++at) {
    if (field[at] < '0' || field[at] > '7') {
      return std::nullopt;
    }
    value = value << 3 | static_cast<uint64_t>(field[at] - '0');
  }
  return value;
}

uint64_t checksum(const RawTarHeader& header) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  uint64_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) {
    const size_t field = offsetof(RawTarHeader, checksum);
    sum += i >= field && i < field + sizeof(header.checksum) ? ' ' : bytes[i];
  }
  return sum;
}

bool is_zero_block(std::span<const std::byte> block) {
  return std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Relative and clean, or why not.
Result<std::string> clean_path(std::string_view path) {
  if (path.size() > kTarLongestPath) {
    return Status(NRT_INVALID,
                  format("path of {} bytes is longer than {}", path.size(), kTarLongestPath));
  }
  if (path.starts_with('/')) {
    return Status(NRT_INVALID, "absolute path");
  }
  std::string clean;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (part == "..") {
      return Status(NRT_INVALID, "path with '..'");
    }
    const bool control = std::any_of(part.begin(), part.end(), [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    });
    if (control) {
      return Status(NRT_INVALID, "path with control characters");
    }
    if (!part.empty() && part != ".") {
      clean += clean.empty() ? "" : "/";
      clean += part;
    }
  }
  return clean;
}

// Walks an archive; keeps what extension headers say about the next member.
class TarReader {
 public:
  explicit TarReader(std::span<const std::byte> archive) : archive_(archive) {}

  Result<std::vector<TarMember>> read() {
    for (;;) {
      if (archive_.size() - at_ < kTarBlock) {
        return failure("the archive ends without an end marker");
      }
      const auto block = archive_.subspan(at_, kTarBlock);
      if (is_zero_block(block)) {
        return std::move(members_);
      }
      std::memcpy(&header_, block.data(), kTarBlock);
      ONRT_RETURN_IF_ERROR(read_member());
    }
  }

 private:
  Status failure(std::string_view why) const {
    return Status(NRT_INVALID, format("tar member at offset {}: {}", at_, why));
  }

  Status read_member() {
    const auto expected = number_field(header_.checksum);
    if (!expected || *expected != checksum(header_)) {
      return failure("the checksum of the header is wrong");
    }
    const auto field = number_field(header_.size);
    const uint64_t left = archive_.size() - at_ - kTarBlock;
    const uint64_t size = pax_size_.value_or(field.value_or(std::numeric_limits<uint64_t>::max()));
    if (size > left) {
      return failure(format("a size of {} bytes, but only {} follow", size, left));
    }
    const auto data = archive_.subspan(at_ + kTarBlock, size);
    ONRT_RETURN_IF_ERROR(take(data));
    const uint64_t whole = tar_member_bytes(size);
    if (whole > archive_.size() - at_) {
      return failure("the last block is incomplete");
    }
    at_ += whole;
    return ok_status();
  }

  Status take(std::span<const std::byte> data) {
    switch (header_.type) {
      case 'L':
        long_path_ = std::string(text(data).substr(0, text(data).find('\0')));
        return ok_status();
      case 'x':
        return take_pax(text(data));
      case 'g':
        return ok_status();  // says nothing about a single member
      case '5':
        return take_folder();
      case '\0':
      case '0':
      case '7':
        return take_file(data);
      case '1':
      case '2':
        return failure("links are not allowed in a NEFF");
      default:
        return failure(format("type 0x{:02x} is not allowed in a NEFF",
                              static_cast<unsigned char>(header_.type)));
    }
  }

  static std::string_view text(std::span<const std::byte> data) {
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }

  // Path of the member at hand; forgets what extension headers said about it.
  Result<std::string> take_path() {
    std::string path(text_field(header_.name));
    if (std::memcmp(header_.magic, "ustar", 6) == 0 && header_.prefix[0] != '\0') {
      path = std::string(text_field(header_.prefix)) + "/" + path;
    }
    if (!long_path_.empty()) {
      path = std::move(long_path_);
    }
    long_path_.clear();
    pax_size_.reset();
    auto clean = clean_path(path);
    if (!clean.ok()) {
      return failure(clean.status().message());
    }
    return clean;
  }

  Status take_folder() {
    ONRT_ASSIGN_OR_RETURN([[maybe_unused]] const std::string path, take_path());
    return ok_status();
  }

  Status take_file(std::span<const std::byte> data) {
    ONRT_ASSIGN_OR_RETURN(std::string path, take_path());
    if (path.empty()) {
      return failure("a file without a name");
    }
    if (!paths_.insert(path).second) {
      return failure(format("'{}' is there twice", path));
    }
    if (members_.size() >= kTarMostMembers) {
      return failure(format("more than {} files", kTarMostMembers));
    }
    members_.push_back(TarMember{std::move(path), data});
    return ok_status();
  }

  // Records are "<length> <key>=<value>\n".
  Status take_pax(std::string_view records) {
    while (!records.empty()) {
      size_t length = 0;
      size_t at = 0;
      for (; at < records.size() && records[at] >= '0' && records[at] <= '9' && at < 10; ++at) {
        length = length * 10 + static_cast<size_t>(records[at] - '0');
      }
      if (at == 0 || at >= records.size() || records[at] != ' ' || length <= at + 1 ||
          length > records.size() || records[length - 1] != '\n') {
        return failure("a malformed extended header");
      }
      const std::string_view record = records.substr(at + 1, length - at - 2);
      records.remove_prefix(length);
      if (record.starts_with("path=")) {
        long_path_ = std::string(record.substr(5));
      } else if (record.starts_with("size=")) {
        ONRT_RETURN_IF_ERROR(take_pax_size(record.substr(5)));
      }
    }
    return ok_status();
  }

  Status take_pax_size(std::string_view digits) {
    uint64_t value = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9' || value > std::numeric_limits<uint64_t>::max() / 10 - 1) {
        return failure("a malformed size in an extended header");
      }
      value = value * 10 + static_cast<uint64_t>(c - '0');
    }
    pax_size_ = value;
    return ok_status();
  }

  std::span<const std::byte> archive_;
  size_t at_ = 0;
  RawTarHeader header_{};
  std::string long_path_;
  std::optional<uint64_t> pax_size_;
  std::unordered_set<std::string> paths_;
  std::vector<TarMember> members_;
};

// `digits` octal digits with leading zeros and a NUL.
void put_octal(char* field, int digits, uint64_t value) {
  for (int i = digits - 1; i >= 0; --i) {
    field[i] = static_cast<char>('0' + (value & 7));
    value >>= 3;
  }
  field[digits] = '\0';
}

}  // namespace

Result<std::vector<TarMember>> read_tar(std::span<const std::byte> archive) {
  return TarReader(archive).read();
}

std::string make_tar_header(std::string_view path, uint64_t size) {
  RawTarHeader header{};
  path.copy(header.name, sizeof(header.name) - 1);
  put_octal(header.mode, 7, 0644);
  put_octal(header.uid, 7, 0);
  put_octal(header.gid, 7, 0);
  if (size >> 33 == 0) {
    put_octal(header.size, 11, size);
  } else {
    header.size[0] = static_cast<char>(0x80);
    for (size_t i = 0; i < 8; ++i) {
      header.size[11 - i] = static_cast<char>(size >> (8 * i));
    }
  }
  put_octal(header.mtime, 11, 0);
  header.type = '0';
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  put_octal(header.checksum, 6, checksum(header));
  header.checksum[7] = ' ';
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

}  // namespace onrt
