// SPDX-License-Identifier: Apache-2.0
#include "compiler/cache/entry.h"

#include <algorithm>
#include <limits>

#include "runtime/base/format.h"
#include "runtime/base/json.h"

namespace onrt::cache {
namespace {

constexpr int64_t kFormat = 1;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

bool is_hex(std::string_view text, size_t size) {
  return text.size() == size &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

struct TextField {
  std::string_view name;
  std::string EntryInfo::* member;
};
constexpr TextField kTexts[] = {
    {"key", &EntryInfo::key},       {"compiler", &EntryInfo::compiler},
    {"graph", &EntryInfo::graph},   {"warnings", &EntryInfo::warnings},
    {"sha256", &EntryInfo::sha256},
};

}  // namespace

std::string write_entry_info(const EntryInfo& info) {
  JsonWriter writer(1);
  writer.begin_object().key("format").integer(kFormat);
  for (const TextField& field : kTexts) {
    writer.key(field.name).string(info.*field.member);
  }
  writer.key("neff_bytes").unsigned_integer(info.neff_bytes);
  writer.key("created").integer(info.created);
  writer.key("compile_us").integer(info.compile_us);
  writer.end_object();
  return writer.take() + "\n";
}

Result<EntryInfo> read_entry_info(std::string_view text) {
  if (text.size() > kMostDoneBytes) {
    return Status(NRT_INVALID,
                  format("expected at most {} bytes, found {}", kMostDoneBytes, text.size()));
  }
  ONRT_ASSIGN_OR_RETURN(const JsonValue value, parse_json(text));
  ONRT_RETURN_IF_ERROR(value.get_integer("format", kFormat, kFormat).status());
  EntryInfo info;
  for (const TextField& field : kTexts) {
    ONRT_ASSIGN_OR_RETURN(info.*field.member, value.get_string(field.name));
  }
  ONRT_ASSIGN_OR_RETURN(const int64_t bytes, value.get_integer("neff_bytes", 1, kMost));
  info.neff_bytes = static_cast<uint64_t>(bytes);
  ONRT_ASSIGN_OR_RETURN(info.created, value.get_integer("created", 0, kMost));
  ONRT_ASSIGN_OR_RETURN(info.compile_us, value.get_integer("compile_us", 0, kMost));
  const std::string_view key = info.key;
  if (key.size() != 129 || key[64] != '+' || !is_hex(key.substr(0, 64), 64) ||
      !is_hex(key.substr(65), 64)) {
    return Status(NRT_INVALID, format("key: expected two SHA-256 digests, found '{}'", key));
  }
  if (!is_hex(info.sha256, 64)) {
    return Status(NRT_INVALID,
                  format("sha256: expected a SHA-256 digest, found '{}'", info.sha256));
  }
  return info;
}

}  // namespace onrt::cache
