// SPDX-License-Identifier: Apache-2.0
#include "tools/common/npy.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "runtime/base/format.h"

namespace onrt::tools {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostDims = 64;
constexpr size_t kMostHeader = 1 << 16;
constexpr size_t kAlignment = 64;

Status malformed(std::string_view why) { return Status(NRT_INVALID, format("npy file: {}", why)); }

// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<Array> parse() {
    if (!take('{')) {
      return malformed("the header is not a dictionary");
    }
    while (!take('}')) {
      ONRT_RETURN_IF_ERROR(parse_entry());
      if (!take(',') && !next_is('}')) {
        return malformed("expected ',' or '}' in the header");
      }
    }
    if (array_.type.empty() || !has_shape_ || !has_order_) {
      return malformed("the header lacks descr, fortran_order or shape");
    }
    if (fortran_order_ && array_.shape.size() > 1) {
      return malformed("the array is in Fortran order; save numpy.ascontiguousarray(x)");
    }
    return std::move(array_);
  }

 private:
  Status parse_entry() {
    const auto key = take_string();
    if (!key || !take(':')) {
      return malformed("expected a key in the header");
    }
    if (*key == "descr") {
      const auto type = take_string();
      if (!type) {
        return malformed("structured arrays are not supported");
      }
      array_.type = *type;
      return ok_status();
    }
    if (*key == "fortran_order") {
      fortran_order_ = take_word("True");
      has_order_ = fortran_order_ || take_word("False");
      return has_order_ ? ok_status() : malformed("fortran_order is neither True nor False");
    }
    if (*key == "shape") {
      return parse_shape();
    }
    return malformed(format("unknown key '{}' in the header", *key));
  }

  Status parse_shape() {
    if (!take('(')) {
      return malformed("the shape is not a tuple");
    }
    while (!take(')')) {
      skip_space();
      int64_t extent = 0;
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0 || array_.shape.size() >= kMostDims) {
        return malformed("the shape is not a tuple of whole numbers");
      }
      at_ = static_cast<size_t>(end - text_.data());
      array_.shape.push_back(extent);
      if (!take(',') && !next_is(')')) {
        return malformed("expected ',' or ')' in the shape");
      }
    }
    has_shape_ = true;
    return ok_status();
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  bool next_is(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    const bool found = next_is(c);
    at_ += found ? 1 : 0;
    return found;
  }
  bool take_word(std::string_view word) {
    skip_space();
    const bool found = text_.substr(at_).starts_with(word);
    at_ += found ? word.size() : 0;
    return found;
  }
  std::optional<std::string> take_string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const size_t end =
        quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string::npos;
    if (end == std::string::npos) {
      return std::nullopt;
    }
    std::string found(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return found;
  }

  std::string_view text_;
  size_t at_ = 0;
  Array array_;
  bool fortran_order_ = false;
  bool has_order_ = false;
  bool has_shape_ = false;
};

// Bytes of one element of "<f4" and the like.
Result<uint64_t> element_bytes(const std::string& type) {
  const std::string_view kinds = "biufcV";
  uint64_t bytes = 0;
  const char* first = type.data() + std::min<size_t>(2, type.size());
  const char* last = type.data() + type.size();
  const auto [end, error] = std::from_chars(first, last, bytes);
  if (type.size() < 3 || error != std::errc() || end != last || bytes == 0 || bytes > 16 ||
      kinds.find(type[1]) == std::string_view::npos) {
    return malformed(format("element type '{}' is not a number", type));
  }
  if (type[0] == '>' && bytes > 1) {
    return malformed(
        format("element type '{}' is big-endian; save x.astype(x.dtype.newbyteorder("
               "'<'))",
               type));
  }
  return bytes;
}

Result<uint64_t> data_bytes(const Array& array) {
  ONRT_ASSIGN_OR_RETURN(uint64_t bytes, element_bytes(array.type));
  for (const int64_t extent : array.shape) {
    const auto size = static_cast<uint64_t>(extent);
    if (size != 0 && bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / size) {
      return malformed("the shape is too large");
    }
    bytes *= size;
  }
  return bytes;
}

}  // namespace

std::string array_text(const std::string& type, std::span<const int64_t> shape) {
  std::string text = type + "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  }
  return text + "]";
}

Result<Array> parse_npy(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic) || text.size() < kMagic.size() + 4) {
    return malformed("it does not start with the magic of NumPy");
  }
  const int version = text[kMagic.size()];
  if (version < 1 || version > 3) {
    return malformed(format("version {} is not 1, 2 or 3", version));
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  size_t at = kMagic.size() + 2;
  if (text.size() < at + length_bytes) {
    return malformed("it is truncated");
  }
  size_t header_bytes = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    header_bytes |= static_cast<size_t>(static_cast<unsigned char>(text[at + i])) << (8 * i);
  }
  at += length_bytes;
  if (header_bytes > kMostHeader || header_bytes > text.size() - at) {
    return malformed(format("a header of {} bytes, but {} follow", header_bytes, text.size() - at));
  }
  ONRT_ASSIGN_OR_RETURN(Array array, HeaderParser(text.substr(at, header_bytes)).parse());
  at += header_bytes;
  ONRT_ASSIGN_OR_RETURN(const uint64_t bytes, data_bytes(array));
  if (bytes != text.size() - at) {
    return malformed(format("{} takes {} bytes, but {} follow the header",
                            array_text(array.type, array.shape), bytes, text.size() - at));
  }
  const auto data = file.subspan(at);
  array.data.assign(data.begin(), data.end());
  return array;
}

std::vector<std::byte> make_npy(const Array& array) {
  std::string shape;
  for (const int64_t extent : array.shape) {
    shape += std::to_string(extent) + (array.shape.size() == 1 ? "," : ", ");
  }
  if (array.shape.size() > 1) {
    shape.resize(shape.size() - 2);
  }
  std::string header =
      "{'descr': '" + array.type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr size_t kPrefix = 10;  // magic, version, length
  // The data starts at a multiple of 64; a newline ends the header.
  header.resize((kPrefix + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - kPrefix,
                ' ');
  header.back() = '\n';
  std::string prefix(kMagic);
  prefix += '\x01';
  prefix += '\0';
  prefix += static_cast<char>(header.size() & 0xFF);
  prefix += static_cast<char>(header.size() >> 8);
  std::vector<std::byte> file;
  file.reserve(kPrefix + header.size() + array.data.size());
  for (const std::string* part : {&prefix, &header}) {
    const auto bytes = std::as_bytes(std::span(*part));
    file.insert(file.end(), bytes.begin(), bytes.end());
  }
  file.insert(file.end(), array.data.begin(), array.data.end());
  return file;
}

}  // namespace onrt::tools
