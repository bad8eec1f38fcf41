// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "runtime/base/format.h"
#include "runtime/base/json.h"

namespace onrt {

std::string_view json_type_name(JsonType type) {
  switch (type) {
    case JsonType::kNull:
      return "null";
    case JsonType::kBool:
      return "a boolean";
    case JsonType::kInteger:
      return "an integer";
    case JsonType::kReal:
      return "a real number";
    case JsonType::kString:
      return "a string";
    case JsonType::kArray:
      return "an array";
    case JsonType::kObject:
      return "an object";
  }
  return "an unknown type";
}

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const Member& member : members_) {
    if (member.first == key) {
      return &member.second;
    }
  }
  return nullptr;
}

Result<const JsonValue*> JsonValue::get(std::string_view key, JsonType type) const {
  const JsonValue* value = find(key);
  if (value == nullptr) {
    return Status(NRT_INVALID, format("'{}' is missing", key));
  }
  if (value->type() != type) {
    return Status(NRT_INVALID, format("'{}': expected {}, found {}", key, json_type_name(type),
                                      json_type_name(value->type())));
  }
  return value;
}

Result<int64_t> JsonValue::get_integer(std::string_view key, int64_t least, int64_t most) const {
  ONRT_ASSIGN_OR_RETURN(const JsonValue* value, get(key, JsonType::kInteger));
  if (value->integer() < least || value->integer() > most) {
    return Status(NRT_INVALID,
                  format("'{}': expected {} to {}, found {}", key, least, most, value->integer()));
  }
  return value->integer();
}

Result<std::string_view> JsonValue::get_string(std::string_view key) const {
  ONRT_ASSIGN_OR_RETURN(const JsonValue* value, get(key, JsonType::kString));
  return std::string_view(value->string());
}

Result<const JsonValue*> JsonValue::get_array(std::string_view key) const {
  return get(key, JsonType::kArray);
}

namespace {

// Length of the UTF-8 sequence at the start of `text`; 0 when it is malformed.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return tail(1) ? 2 : 0;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) > 0x9F;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool beyond = lead == 0xF4 && byte(1) > 0x8F;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 63));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 63));
    out += static_cast<char>(0x80 | (code & 63));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 63));
    out += static_cast<char>(0x80 | (code >> 6 & 63));
    out += static_cast<char>(0x80 | (code & 63));
  }
}

}  // namespace

class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}

  Result<JsonValue> parse() {
    JsonValue value;
    if (!parse_value(value, 0)) {
      return failure();
    }
    skip_space();
    if (at_ != text_.size()) {
      fail("text after the value");
      return failure();
    }
    return value;
  }

 private:
  Status failure() const { return Status(NRT_INVALID, format("JSON byte {}: {}", at_, error_)); }

  bool fail(std::string_view why) {
    error_ = why;
    return false;
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }

  bool next_is(char c) {
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }

  bool parse_value(JsonValue& out, int depth) {
    skip_space();
    if (depth > kJsonDepth) {
      return fail(format("nested deeper than {}", kJsonDepth));
    }
    if (at_ >= text_.size()) {
      return fail("unexpected end");
    }
    switch (text_[at_]) {
      case '{':
        return parse_object(out, depth);
      case '[':
        return parse_array(out, depth);
      case '"':
        out.type_ = JsonType::kString;
        return parse_string(out.string_);
      case 't':
        out.integer_ = 1;
        return parse_word(out, "true", JsonType::kBool);
      case 'f':
        return parse_word(out, "false", JsonType::kBool);
      case 'n':
        return parse_word(out, "null", JsonType::kNull);
      default:
        return parse_number(out);
    }
  }

  bool parse_word(JsonValue& out, std::string_view word, JsonType type) {
    if (text_.substr(at_, word.size()) != word) {
      return fail("unknown word");
    }
    at_ += word.size();
    out.type_ = type;
    return true;
  }

  bool parse_object(JsonValue& out, int depth) {
    out.type_ = JsonType::kObject;
    ++at_;
    skip_space();
    if (next_is('}')) {
      return true;
    }
    do {
      skip_space();
      if (at_ >= text_.size() || text_[at_] != '"') {
        return fail("expected a key");
      }
      std::string key;
      if (!parse_string(key)) {
        return false;
      }
      skip_space();
      if (!next_is(':')) {
        return fail("expected ':'");
      }
      out.members_.emplace_back(std::move(key), JsonValue());
      if (!parse_value(out.members_.back().second, depth + 1)) {
        return false;
      }
      skip_space();
    } while (next_is(','));
    return next_is('}') ? check_keys(out) : fail("expected ',' or '}'");
  }

  // Sorted copy: a hostile object may have very many keys.
  bool check_keys(const JsonValue& object) {
    std::vector<std::string_view> keys;
    keys.reserve(object.members_.size());
    for (const JsonValue::Member& member : object.members_) {
      keys.push_back(member.first);
    }
    std::sort(keys.begin(), keys.end());
    const auto twin = std::adjacent_find(keys.begin(), keys.end());
    return twin == keys.end() || fail(format("duplicate key '{}'", *twin));
  }

  bool parse_array(JsonValue& out, int depth) {
    out.type_ = JsonType::kArray;
    ++at_;
    skip_space();
    if (next_is(']')) {
      return true;
    }
    do {
      out.items_.emplace_back();
      if (!parse_value(out.items_.back(), depth + 1)) {
        return false;
      }
      skip_space();
    } while (next_is(','));
    return next_is(']') || fail("expected ',' or ']'");
  }

  // Printable ASCII that stands for itself.
  static bool is_plain(char c) { return c >= 0x20 && c != '"' && c != '\\'; }

  bool parse_string(std::string& out) {
    ++at_;
    while (at_ < text_.size()) {
      size_t plain = at_;
      while (plain < text_.size() && is_plain(text_[plain])) {
        ++plain;
      }
      out.append(text_, at_, plain - at_);
      at_ = plain;
      if (at_ == text_.size()) {
        break;
      }
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c == '\\') {
        if (!parse_escape(out)) {
          return false;
        }
        continue;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        return fail("control character in a string");
      }
      const size_t length = utf8_length(text_.substr(at_, 4));
      if (length == 0) {
        return fail("not UTF-8");
      }
      out.append(text_.substr(at_, length));
      at_ += length;
    }
    return fail("string without end");
  }

  bool parse_escape(std::string& out) {
    static constexpr std::string_view kFrom = "\"\\/bfnrt";
    static constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    ++at_;
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (const size_t index = kFrom.find(c); c != '\0' && index != std::string_view::npos) {
      out += kTo[index];
      ++at_;
      return true;
    }
    uint32_t code = 0;
    if (c != 'u' || !parse_hex(code)) {
      return fail("bad escape");
    }
    if (code >= 0xD800 && code <= 0xDFFF) {
      uint32_t low = 0;
      const bool pair = code < 0xDC00 && next_is('\\') && at_ < text_.size() && text_[at_] == 'u' &&
                        parse_hex(low) && low >= 0xDC00 && low <= 0xDFFF;
      if (!pair) {
        return fail("lone surrogate");
      }
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(out, code);
    return true;
  }

  // At 'u'; leaves at_ behind the four digits.
  bool parse_hex(uint32_t& code) {
    const std::string_view digits = text_.substr(at_ + 1, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || digits.size() != 4 || end != digits.data() + 4) {
      return false;
    }
    at_ += 5;
    return true;
  }

  size_t skip_digits(size_t from) const {
    while (from < text_.size() && text_[from] >= '0' && text_[from] <= '9') {
      ++from;
    }
    return from;
  }

  bool parse_number(JsonValue& out) {
    size_t end = at_ + (text_[at_] == '-' ? 1 : 0);
    const size_t digits = end;
    end = skip_digits(digits);
    if (end == digits || (text_[digits] == '0' && end > digits + 1)) {
      return fail("expected a value");
    }
    bool whole = true;
    if (end < text_.size() && text_[end] == '.') {
      whole = false;
      const size_t fraction = end + 1;
      end = skip_digits(fraction);
      if (end == fraction) {
        return fail("digits missing after '.'");
      }
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      whole = false;
      size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) {
        ++exponent;
      }
      end = skip_digits(exponent);
      if (end == exponent) {
        return fail("digits missing in the exponent");
      }
    }
    const char* first = text_.data() + at_;
    const char* last = text_.data() + end;
    out.type_ = whole ? JsonType::kInteger : JsonType::kReal;
    const std::errc error = whole ? std::from_chars(first, last, out.integer_).ec
                                  : std::from_chars(first, last, out.real_).ec;
    if (error != std::errc()) {
      return fail("number out of range");
    }
    at_ = end;
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string error_;
};

bool is_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const size_t length = utf8_length(text.substr(at, 4));
    if (length == 0) {
      return false;
    }
    at += length;
  }
  return true;
}

Result<JsonValue> parse_json(std::string_view text) { return JsonParser(text).parse(); }

}  // namespace onrt
