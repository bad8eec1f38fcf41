// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <unordered_set>

#include "runtime/base/format.h"
#include "tools/common/npy.h"

namespace onrt::tools {
namespace {

// Signatures and sizes of APPNOTE.TXT, 4.3.
constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kCentralHeader = 0x02014b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr size_t kLocalBytes = 30;
constexpr size_t kCentralBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kLocatorBytes = 20;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLongestComment = 65535;
constexpr uint32_t kIn64 = 0xFFFFFFFF;  // the value is in the zip64 extra field
constexpr uint16_t kExtra64 = 1;
constexpr uint64_t kMostExpansion = 1032;  // of deflate
constexpr std::string_view kSuffix = ".npy";

Status malformed(std::string_view why) { return Status(NRT_INVALID, format("npz file: {}", why)); }

uint32_t crc_of(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// Little-endian number at `at`, which the caller has checked.
template <class T>
T number(std::span<const std::byte> file, size_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof(value));
  return value;
}

struct Entry {
  std::string name;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0;
  uint64_t size = 0;
  uint64_t offset = 0;
};

struct Directory {
  uint64_t offset = 0;
  uint64_t count = 0;
};

Result<Directory> find_directory(std::span<const std::byte> file) {
  if (file.size() < kEndBytes) {
    return malformed("it is too short");
  }
  const size_t last = file.size() - kEndBytes;
  const size_t least = last > kLongestComment ? last - kLongestComment : 0;
  size_t at = last;
  while (number<uint32_t>(file, at) != kEnd) {
    if (at == least) {
      return malformed("it has no end record; it is truncated or no zip archive");
    }
    --at;
  }
  Directory directory{number<uint32_t>(file, at + 16), number<uint16_t>(file, at + 10)};
  if (at >= kLocatorBytes && number<uint32_t>(file, at - kLocatorBytes) == kEnd64Locator) {
    const auto end64 = number<uint64_t>(file, at - kLocatorBytes + 8);
    if (end64 > at || at - end64 < kEnd64Bytes || number<uint32_t>(file, end64) != kEnd64) {
      return malformed("its zip64 end record is damaged");
    }
    directory = {number<uint64_t>(file, end64 + 48), number<uint64_t>(file, end64 + 32)};
  }
  if (directory.offset > file.size() || directory.count > file.size() / kCentralBytes) {
    return malformed("its directory lies outside");
  }
  return directory;
}

// Replaces the values that are kept in the zip64 extra field, in the order of APPNOTE 4.5.3.
Status read_extra64(std::span<const std::byte> extra, Entry& entry) {
  while (extra.size() >= 4) {
    const auto id = number<uint16_t>(extra, 0);
    const auto bytes = number<uint16_t>(extra, 2);
    if (bytes > extra.size() - 4) {
      return malformed("an extra field is damaged");
    }
    auto field = extra.subspan(4, bytes);
    extra = extra.subspan(4 + bytes);
    if (id != kExtra64) {
      continue;
    }
    for (uint64_t* value : {&entry.size, &entry.packed, &entry.offset}) {
      if (*value == kIn64) {
        if (field.size() < sizeof(*value)) {
          return malformed("a zip64 field is too short");
        }
        *value = number<uint64_t>(field, 0);
        field = field.subspan(sizeof(*value));
      }
    }
  }
  return ok_status();
}

// Reads the entry at `at` and moves `at` behind it.
Result<Entry> read_entry(std::span<const std::byte> file, size_t& at) {
  if (file.size() - at < kCentralBytes || number<uint32_t>(file, at) != kCentralHeader) {
    return malformed("its directory is damaged");
  }
  if ((number<uint16_t>(file, at + 8) & 1u) != 0) {
    return malformed("it is encrypted");
  }
  Entry entry;
  entry.method = number<uint16_t>(file, at + 10);
  entry.crc = number<uint32_t>(file, at + 16);
  entry.packed = number<uint32_t>(file, at + 20);
  entry.size = number<uint32_t>(file, at + 24);
  entry.offset = number<uint32_t>(file, at + 42);
  const size_t name = number<uint16_t>(file, at + 28);
  const size_t extra = number<uint16_t>(file, at + 30);
  const size_t comment = number<uint16_t>(file, at + 32);
  if (name + extra + comment > file.size() - at - kCentralBytes) {
    return malformed("its directory is damaged");
  }
  entry.name.assign(reinterpret_cast<const char*>(file.data()) + at + kCentralBytes, name);
  ONRT_RETURN_IF_ERROR(read_extra64(file.subspan(at + kCentralBytes + name, extra), entry));
  at += kCentralBytes + name + extra + comment;
  return entry;
}

Result<std::vector<std::byte>> inflate_entry(std::span<const std::byte> packed, uint64_t size) {
  if (size / kMostExpansion > packed.size()) {
    return malformed("a member claims more than deflate can hold");
  }
  std::vector<std::byte> out(size + 1);  // room to see that it is too long
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    return Status(NRT_RESOURCE, "no memory to decompress");
  }
  const auto end = [](z_stream* s) { inflateEnd(s); };
  const std::unique_ptr<z_stream, decltype(end)> guard(&stream, end);
  constexpr size_t kStep = std::numeric_limits<uInt>::max();
  size_t in_at = 0;
  size_t out_at = 0;
  int code = Z_OK;
  while (code == Z_OK) {
    const size_t in_step = std::min(kStep, packed.size() - in_at);
    const size_t out_step = std::min(kStep, out.size() - out_at);
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data() + in_at));
    stream.avail_in = static_cast<uInt>(in_step);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + out_at);
    stream.avail_out = static_cast<uInt>(out_step);
    code = inflate(&stream, Z_NO_FLUSH);
    in_at += in_step - stream.avail_in;
    out_at += out_step - stream.avail_out;
  }
  if (code != Z_STREAM_END || out_at != size) {
    return malformed("a member is damaged");
  }
  out.resize(size);
  return out;
}

Result<std::vector<std::byte>> read_data(std::span<const std::byte> file, const Entry& entry) {
  if (entry.offset > file.size() || file.size() - entry.offset < kLocalBytes ||
      number<uint32_t>(file, entry.offset) != kLocalHeader) {
    return malformed("a member lies outside");
  }
  const uint64_t start = entry.offset + kLocalBytes + number<uint16_t>(file, entry.offset + 26) +
                         number<uint16_t>(file, entry.offset + 28);
  if (start > file.size() || entry.packed > file.size() - start) {
    return malformed("a member lies outside");
  }
  const auto packed = file.subspan(start, entry.packed);
  std::vector<std::byte> data;
  if (entry.method == 0) {
    if (entry.size != entry.packed) {
      return malformed("a stored member has two sizes");
    }
    data.assign(packed.begin(), packed.end());
  } else if (entry.method == 8) {
    ONRT_ASSIGN_OR_RETURN(data, inflate_entry(packed, entry.size));
  } else {
    return malformed(format("compression method {} is not supported", entry.method));
  }
  if (crc_of(data) != entry.crc) {
    return malformed("a member is damaged: its CRC-32 differs");
  }
  return data;
}

class Writer {
 public:
  void add(const NamedArray& named) {
    const std::string name = named.first + std::string(kSuffix);
    const std::vector<std::byte> data = make_npy(named.second);
    const uint32_t crc = crc_of(data);
    const uint64_t offset = file_.size();
    put(file_, kLocalHeader);
    put_common(file_, crc, name, 20);
    put(file_, uint16_t{kExtra64});
    put(file_, uint16_t{16});
    put(file_, uint64_t{data.size()});
    put(file_, uint64_t{data.size()});
    file_.insert(file_.end(), data.begin(), data.end());
    put(directory_, kCentralHeader);
    put(directory_, kVersion);
    put_common(directory_, crc, name, 28);
    directory_.resize(directory_.size() - name.size());  // the name comes later here
    put(directory_, uint16_t{0});                        // comment
    put(directory_, uint16_t{0});                        // disk
    put(directory_, uint16_t{0});                        // internal attributes
    put(directory_, uint32_t{0});                        // external attributes
    put(directory_, kIn64);                              // offset
    put_text(directory_, name);
    put(directory_, uint16_t{kExtra64});
    put(directory_, uint16_t{24});
    put(directory_, uint64_t{data.size()});
    put(directory_, uint64_t{data.size()});
    put(directory_, offset);
    ++count_;
  }

  std::vector<std::byte> finish() {
    const uint64_t start = file_.size();
    file_.insert(file_.end(), directory_.begin(), directory_.end());
    const uint64_t end64 = file_.size();
    put(file_, kEnd64);
    put(file_, uint64_t{kEnd64Bytes - 12});
    put(file_, kVersion);
    put(file_, kVersion);
    put(file_, uint32_t{0});  // this disk, and that of the directory
    put(file_, uint32_t{0});
    put(file_, count_);
    put(file_, count_);
    put(file_, uint64_t{directory_.size()});
    put(file_, start);
    put(file_, kEnd64Locator);
    put(file_, uint32_t{0});
    put(file_, end64);
    put(file_, uint32_t{1});
    put(file_, kEnd);
    put(file_, uint32_t{0});
    put(file_, uint16_t{0xFFFF});
    put(file_, uint16_t{0xFFFF});
    put(file_, kIn64);
    put(file_, kIn64);
    put(file_, uint16_t{0});
    return std::move(file_);
  }

 private:
  static constexpr uint16_t kVersion = 45;  // zip64
  static constexpr uint16_t kMidnight = 0;  // DOS time and date: 1980-01-01 00:00
  static constexpr uint16_t kFirstDay = 1 << 5 | 1;

  // The fields from "version needed" to the name, which both headers have.
  static void put_common(std::vector<std::byte>& out, uint32_t crc, const std::string& name,
                         uint16_t extra_bytes) {
    put(out, kVersion);
    put(out, uint16_t{0x800});  // names are UTF-8
    put(out, uint16_t{0});      // stored
    put(out, kMidnight);
    put(out, kFirstDay);
    put(out, crc);
    put(out, kIn64);
    put(out, kIn64);
    put(out, static_cast<uint16_t>(name.size()));
    put(out, extra_bytes);
    put_text(out, name);
  }

  template <class T>
  static void put(std::vector<std::byte>& out, T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  static void put_text(std::vector<std::byte>& out, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }

  std::vector<std::byte> file_;
  std::vector<std::byte> directory_;
  uint64_t count_ = 0;
};

}  // namespace

Result<std::vector<NamedArray>> parse_npz(std::span<const std::byte> file) {
  ONRT_ASSIGN_OR_RETURN(const Directory directory, find_directory(file));
  std::vector<NamedArray> arrays;
  std::unordered_set<std::string> names;
  size_t at = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) {
    ONRT_ASSIGN_OR_RETURN(Entry entry, read_entry(file, at));
    if (!entry.name.ends_with(kSuffix)) {
      return malformed(format("member {} is no .npy file", i));
    }
    entry.name.resize(entry.name.size() - kSuffix.size());
    if (!names.insert(entry.name).second) {
      return malformed(format("'{}' is there twice", entry.name));
    }
    ONRT_ASSIGN_OR_RETURN(const std::vector<std::byte> data, read_data(file, entry));
    auto array = parse_npy(data);
    if (!array.ok()) {
      return std::move(array).status().annotate(format("'{}'", entry.name));
    }
    arrays.emplace_back(std::move(entry.name), std::move(array).value());
  }
  return arrays;
}

std::vector<std::byte> make_npz(const std::vector<NamedArray>& arrays) {
  Writer writer;
  for (const NamedArray& named : arrays) {
    writer.add(named);
  }
  return writer.finish();
}

}  // namespace onrt::tools
