// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "runtime/base/json.h"

namespace onrt {

JsonWriter& JsonWriter::open(char bracket) {
  begin_value();
  text_ += bracket;
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  --depth_;
  if (!first_) {
    new_line();
  }
  text_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  begin_value();
  quote(name);
  text_ += indent_ > 0 ? ": " : ":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
  begin_value();
  quote(text);
  return *this;
}

JsonWriter& JsonWriter::integer(int64_t number) {
  std::array<char, 24> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return raw(std::string_view(buffer.data(), static_cast<size_t>(result.ptr - buffer.data())));
}

JsonWriter& JsonWriter::unsigned_integer(uint64_t number) {
  std::array<char, 24> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return raw(std::string_view(buffer.data(), static_cast<size_t>(result.ptr - buffer.data())));
}

JsonWriter& JsonWriter::real(double number) {
  if (!std::isfinite(number)) {
    return null();
  }
  std::array<char, 40> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return raw(std::string_view(buffer.data(), static_cast<size_t>(result.ptr - buffer.data())));
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  begin_value();
  text_ += text;
  return *this;
}

void JsonWriter::begin_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) {
    text_ += ',';
  }
  if (depth_ > 0) {
    new_line();
  }
  first_ = false;
}

void JsonWriter::new_line() {
  if (indent_ > 0) {
    text_ += '\n';
    text_.append(static_cast<size_t>(indent_ * depth_), ' ');
  }
}

void JsonWriter::quote(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto plain = [](char c) { return c >= 0x20 && c != 0x7F && c != '"' && c != '\\'; };
  text_ += '"';
  if (std::all_of(text.begin(), text.end(), plain)) {
    text_ += text;
    text_ += '"';
    return;
  }
  const bool clean = is_utf8(text);
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (c == '\n') {
      text_ += "\\n";
    } else if (c == '\t') {
      text_ += "\\t";
    } else if (c == '\r') {
      text_ += "\\r";
    } else if (code < 0x20 || code == 0x7F) {
      text_ += "\\u00";
      text_ += kDigits[code >> 4];
      text_ += kDigits[code & 15];
    } else if (code >= 0x80 && !clean) {
      text_ += "\xEF\xBF\xBD";
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

}  // namespace onrt
