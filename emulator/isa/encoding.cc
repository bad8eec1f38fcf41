// SPDX-License-Identifier: Apache-2.0
#include "emulator/isa/encoding.h"

#include <cstring>

#include "emulator/isa/fields.h"
#include "runtime/base/format.h"

// Layout, all numbers little-endian:
//    0  8 bytes  magic
//    8  u32      kEncodingVersion
//   12  u32      kHeaderBytes
//   16  u64      bytes of the code section, header included
//   24  u64      bytes of the constants
//   32  u64      digest of the constants
//   40  u64      digest of the code section with this field as zeros
//   48           the program: fields.h
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "NCX is read and written in place");

namespace onrt::ncx {
namespace {

constexpr char kMagic[8] = {'\x7f', 'N', 'C', 'X', '\r', '\n', '\x1a', '\n'};
constexpr size_t kHeaderBytes = 48;
constexpr size_t kDigestOffset = 40;

// Detects damage, not forgery: 64 bits, four independent lanes. Each step is a bijection of the
// word and of the lane, so one changed word always changes the digest.
class Digest {
 public:
  static uint64_t of(std::span<const std::byte> data) {
    Digest digest;
    const std::byte* at = data.data();
    size_t left = data.size();
    for (; left >= 32; at += 32, left -= 32) {
      for (int lane = 0; lane < 4; ++lane) {
        digest.step(lane, load(at + lane * 8, 8));
      }
    }
    for (int lane = 0; left > 0; ++lane) {
      const size_t bytes = left < 8 ? left : 8;
      digest.step(lane, load(at, bytes));
      at += bytes;
      left -= bytes;
    }
    return digest.finish(data.size());
  }

 private:
  static uint64_t rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }
  static uint64_t load(const std::byte* at, size_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, at, bytes);
    return word;
  }
  void step(int lane, uint64_t word) {
    lanes_[lane] = rotate(lanes_[lane] + word * 0xc2b2ae3d27d4eb4full, 31) * 0x9e3779b185ebca87ull;
  }
  uint64_t finish(uint64_t size) const {
    uint64_t h = size * 0x165667b19e3779f9ull;
    for (const uint64_t lane : lanes_) {
      h = rotate(h ^ lane, 27) * 0x9e3779b185ebca87ull + 0x85ebca77c2b2ae63ull;
    }
    h ^= h >> 33;
    h *= 0xc2b2ae3d27d4eb4full;
    return h ^ (h >> 29);
  }
  uint64_t lanes_[4] = {0x60ea27eeadc0b5d6ull, 0xc2b2ae3d27d4eb4full, 0, 0x61c8864e7a143579ull};
};

class Writer {
 public:
  explicit Writer(std::vector<std::byte>& out) : out_(out) {}

  template <class T>
  void number(const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out_.insert(out_.end(), bytes, bytes + sizeof(T));
  }
  template <class T>
  void enumeration(T& value, uint32_t) {
    number(static_cast<uint8_t>(value));
  }
  void dtype(Dtype& value) { number(static_cast<uint8_t>(value)); }
  void rank(uint8_t& value) { number(value); }
  template <class T>
  void vector(std::vector<T>& values, uint32_t) {
    number(static_cast<uint32_t>(values.size()));
    for (T& value : values) {
      fields(*this, value);
    }
  }
  void text(std::string& value, uint32_t) {
    number(static_cast<uint32_t>(value.size()));
    const auto* bytes = reinterpret_cast<const std::byte*>(value.data());
    out_.insert(out_.end(), bytes, bytes + value.size());
  }
  void payload(Payload& value) {
    number(static_cast<uint16_t>(value.index()));
    std::visit([&](auto& op) { fields(*this, op); }, value);
  }

 private:
  std::vector<std::byte>& out_;
};

// Reads until the first fault; afterwards every read gives zeros and status() tells the fault.
class Reader {
 public:
  Reader(std::span<const std::byte> data, size_t at) : data_(data), at_(at) {}

  const Status& status() const { return status_; }
  size_t at() const { return at_; }

  template <class T>
  void number(T& value) {
    value = T{};
    if (!take(sizeof(T))) {
      return;
    }
    std::memcpy(&value, data_.data() + at_ - sizeof(T), sizeof(T));
  }
  template <class T>
  void enumeration(T& value, uint32_t count) {
    uint8_t raw = 0;
    number(raw);
    if (raw >= count) {
      fail(format("value {} where less than {} is expected", raw, count), 1);
      raw = 0;
    }
    value = static_cast<T>(raw);
  }
  void dtype(Dtype& value) {
    uint8_t raw = 0;
    number(raw);
    value = Dtype::kF32;
    if (status_.ok()) {
      if (find_dtype(raw) == nullptr) {
        fail(format("element type {} is not known", raw), 1);
      } else {
        value = static_cast<Dtype>(raw);
      }
    }
  }
  void rank(uint8_t& value) {
    number(value);
    if (value > kMaxRank) {
      fail(format("rank {} where at most {} is allowed", value, kMaxRank), 1);
      value = 0;
    }
  }
  // No element is smaller than a byte, so a count beyond the rest of the file is a fault and
  // nothing is allocated for it.
  template <class T>
  void vector(std::vector<T>& values, uint32_t limit) {
    uint32_t count = 0;
    number(count);
    if (!check_count(count, limit)) {
      return;
    }
    for (uint32_t i = 0; i < count && status_.ok(); ++i) {
      fields(*this, values.emplace_back());
    }
  }
  void text(std::string& value, uint32_t limit) {
    uint32_t count = 0;
    number(count);
    if (check_count(count, limit) && take(count)) {
      value.assign(reinterpret_cast<const char*>(data_.data()) + at_ - count, count);
    }
  }
  void payload(Payload& value) {
    uint16_t opcode = 0;
    number(opcode);
    if (opcode >= std::variant_size_v<Payload>) {
      if (status_.ok()) {
        status_ = Status(NRT_UNSUPPORTED_NEFF_VERSION,
                         format("NCX opcode {} at offset {}: this build knows 0 to {}", opcode,
                                at_ - sizeof(opcode), std::variant_size_v<Payload> - 1));
      }
      return;
    }
    emplace(value, opcode);
    std::visit([&](auto& op) { fields(*this, op); }, value);
  }

 private:
  template <size_t kIndex = 0>
  static void emplace(Payload& value, size_t index) {
    if constexpr (kIndex < std::variant_size_v<Payload>) {
      if (index == kIndex) {
        value.emplace<kIndex>();
      } else {
        emplace<kIndex + 1>(value, index);
      }
    }
  }
  bool take(size_t bytes) {
    if (!status_.ok()) {
      return false;
    }
    if (bytes > data_.size() - at_) {
      fail(format("{} more bytes expected, {} left", bytes, data_.size() - at_), 0);
      return false;
    }
    at_ += bytes;
    return true;
  }
  bool check_count(uint32_t count, uint32_t limit) {
    if (status_.ok() && (count > limit || count > data_.size() - at_)) {
      fail(format("count {} where at most {} fit", count,
                  std::min<uint64_t>(limit, data_.size() - at_)),
           sizeof(count));
    }
    return status_.ok();
  }
  void fail(const std::string& what, size_t back) {
    if (status_.ok()) {
      status_ = Status(NRT_INVALID, format("NCX code, offset {}: {}", at_ - back, what));
    }
  }

  std::span<const std::byte> data_;
  size_t at_;
  Status status_;
};

struct Header {
  uint64_t code_bytes = 0;
  uint64_t constants_bytes = 0;
  uint64_t constants_digest = 0;
  uint64_t code_digest = 0;
};

uint64_t digest_of_code(std::span<const std::byte> code) {
  // The field itself counts as zeros; copying the header avoids copying the rest.
  std::byte head[kHeaderBytes];
  std::memcpy(head, code.data(), kHeaderBytes);
  std::memset(head + kDigestOffset, 0, sizeof(uint64_t));
  return Digest::of(head) ^ Digest::of(code.subspan(kHeaderBytes));
}

Result<Header> read_header(std::span<const std::byte> code) {
  if (code.size() < kHeaderBytes) {
    return Status(NRT_INVALID, format("NCX code is {} bytes, its header alone has {}", code.size(),
                                      kHeaderBytes));
  }
  if (std::memcmp(code.data(), kMagic, sizeof(kMagic)) != 0) {
    return Status(NRT_INVALID, "NCX code, offset 0: the magic number is not that of NCX");
  }
  Reader reader(code, sizeof(kMagic));
  uint32_t version = 0;
  uint32_t header_bytes = 0;
  Header header;
  reader.number(version);
  reader.number(header_bytes);
  reader.number(header.code_bytes);
  reader.number(header.constants_bytes);
  reader.number(header.constants_digest);
  reader.number(header.code_digest);
  if (version != kEncodingVersion) {
    return Status(NRT_UNSUPPORTED_NEFF_VERSION,
                  format("NCX encoding version {} at offset 8; this build reads version {}",
                         version, kEncodingVersion));
  }
  if (header_bytes != kHeaderBytes || header.code_bytes != code.size()) {
    return Status(NRT_INVALID, format("NCX code, offset 12: header says {} + {} bytes, expected {} "
                                      "+ {} (header, code section)",
                                      header_bytes, header.code_bytes, kHeaderBytes, code.size()));
  }
  return header;
}

}  // namespace

Result<std::vector<std::byte>> encode(const Program& program,
                                      std::span<const std::byte> constants) {
  Program copy = program;  // the archive's fields are mutable references
  copy.constants_bytes = constants.size();
  ONRT_RETURN_IF_ERROR(verify(copy));
  std::vector<std::byte> out;
  out.reserve(1024);
  Writer writer(out);
  for (const char c : kMagic) {
    writer.number(c);
  }
  writer.number(kEncodingVersion);
  writer.number(static_cast<uint32_t>(kHeaderBytes));
  writer.number(uint64_t{0});
  writer.number(static_cast<uint64_t>(constants.size()));
  writer.number(Digest::of(constants));
  writer.number(uint64_t{0});
  fields(writer, copy);
  seal(out);
  return out;
}

void seal(std::span<std::byte> code) {
  if (code.size() < kHeaderBytes) {
    return;
  }
  const uint64_t size = code.size();
  std::memcpy(code.data() + 16, &size, sizeof(size));
  const uint64_t digest = digest_of_code(code);
  std::memcpy(code.data() + kDigestOffset, &digest, sizeof(digest));
}

Result<Program> decode(std::span<const std::byte> code) {
  ONRT_ASSIGN_OR_RETURN(const Header header, read_header(code));
  const uint64_t digest = digest_of_code(code);
  if (digest != header.code_digest) {
    return Status(NRT_INVALID,
                  format("NCX code, offset {}: digest {:016x} does not match the {} bytes of code, "
                         "whose digest is {:016x}: the program is damaged",
                         kDigestOffset, header.code_digest, code.size(), digest));
  }
  Program program;
  Reader reader(code, kHeaderBytes);
  fields(reader, program);
  ONRT_RETURN_IF_ERROR(reader.status());
  if (reader.at() != code.size()) {
    return Status(NRT_INVALID, format("NCX code, offset {}: {} bytes after the program",
                                      reader.at(), code.size() - reader.at()));
  }
  program.constants_bytes = header.constants_bytes;
  ONRT_RETURN_IF_ERROR(verify(program));
  return program;
}

Status check_constants(std::span<const std::byte> code, std::span<const std::byte> constants) {
  ONRT_ASSIGN_OR_RETURN(const Header header, read_header(code));
  if (header.constants_bytes != constants.size()) {
    return Status(NRT_INVALID, format("NCX code, offset 24: the program has {} bytes of constants, "
                                      "found {}",
                                      header.constants_bytes, constants.size()));
  }
  const uint64_t digest = Digest::of(constants);
  if (digest != header.constants_digest) {
    return Status(NRT_INVALID,
                  format("NCX code, offset 32: digest {:016x} does not match the {} bytes of "
                         "constants, whose digest is {:016x}: they are damaged",
                         header.constants_digest, constants.size(), digest));
  }
  return ok_status();
}

}  // namespace onrt::ncx
