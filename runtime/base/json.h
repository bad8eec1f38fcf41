// SPDX-License-Identifier: Apache-2.0
// A strict JSON reader (RFC 8259) for hostile input and an ordered writer. Small on purpose: it is
// part of libnrt's load path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace onrt {

enum class JsonType : uint8_t { kNull, kBool, kInteger, kReal, kString, kArray, kObject };
std::string_view json_type_name(JsonType type);

// A parsed value. Objects keep the order of the text. Thread-compatible.
class JsonValue {
 public:
  using Member = std::pair<std::string, JsonValue>;

  JsonType type() const { return type_; }
  bool boolean() const { return integer_ != 0; }
  int64_t integer() const { return integer_; }
  double real() const {
    return type_ == JsonType::kInteger ? static_cast<double>(integer_) : real_;
  }
  const std::string& string() const { return string_; }
  const std::vector<JsonValue>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }

  // Null when this is no object or has no such member.
  const JsonValue* find(std::string_view key) const;

  // The member's value; NRT_INVALID that names the key and what was expected and found.
  Result<int64_t> get_integer(std::string_view key, int64_t least, int64_t most) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<const JsonValue*> get_array(std::string_view key) const;

 private:
  friend class JsonParser;
  Result<const JsonValue*> get(std::string_view key, JsonType type) const;

  JsonType type_ = JsonType::kNull;
  int64_t integer_ = 0;
  double real_ = 0;
  std::string string_;
  std::vector<JsonValue> items_;
  std::vector<Member> members_;
};

// Whole text is one value. NRT_INVALID with the byte offset for a syntax error, invalid UTF-8, a
// duplicate key, an integer beyond 64 bits or nesting deeper than kJsonDepth.
inline constexpr int kJsonDepth = 64;
Result<JsonValue> parse_json(std::string_view text);

// True for well-formed UTF-8 (no surrogates, no overlong forms).
bool is_utf8(std::string_view text);

// Appends JSON text in the order of the calls. indent 0: no white space at all; else one member a
// line. The caller keeps keys and values in step; strings must be UTF-8 (other bytes are written
// as U+FFFD, so that the output always parses).
class JsonWriter {
 public:
  explicit JsonWriter(int indent = 0) : indent_(indent) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& string(std::string_view text);
  JsonWriter& integer(int64_t number);
  JsonWriter& unsigned_integer(uint64_t number);
  JsonWriter& real(double number);  // shortest form that reads back equal; not finite: null
  JsonWriter& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }

  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& raw(std::string_view text);
  void begin_value();
  void new_line();
  void quote(std::string_view text);

  std::string text_;
  int indent_;
  int depth_ = 0;
  bool after_key_ = false;
  bool first_ = true;  // nothing written yet in the innermost container
};

}  // namespace onrt
