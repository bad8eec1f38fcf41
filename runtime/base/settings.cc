// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <limits>

#include "runtime/base/format.h"

namespace onrt {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::optional<int64_t> parse_value(SettingType type, std::string_view text) {
  if (type == SettingType::kFlag) {
    const std::string word = lower(text);
    if (word == "1" || word == "true") {
      return 1;
    }
    if (word == "0" || word == "false") {
      return 0;
    }
    return std::nullopt;
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

std::optional<int64_t> parse_whole(std::string_view text) {
  return parse_value(SettingType::kInteger, text);
}

struct Range {
  int64_t least;
  int64_t most;
};

// "1..1024"; nothing for other grammars.
std::optional<Range> range_of(std::string_view allowed) {
  const size_t dots = allowed.find("..");
  if (dots == std::string_view::npos) {
    return std::nullopt;
  }
  const auto least = parse_whole(allowed.substr(0, dots));
  const auto most = parse_whole(allowed.substr(dots + 2));
  return least && most ? std::optional<Range>({*least, *most}) : std::nullopt;
}

// `word` of the grammar: itself, in any case when it is in capitals, or what it starts with.
bool is_word(std::string_view value, std::string_view word) {
  if (word.ends_with('*')) {
    return value.size() >= word.size() && value.starts_with(word.substr(0, word.size() - 1));
  }
  const bool capitals = std::all_of(word.begin(), word.end(), [](char c) { return c < 'a'; });
  return value == word || (capitals && lower(value) == lower(word));
}

template <class Function>
bool any_part(std::string_view text, char separator, const Function& function) {
  while (true) {
    const size_t end = text.find(separator);
    if (function(text.substr(0, end))) {
      return true;
    }
    if (end == std::string_view::npos) {
      return false;
    }
    text.remove_prefix(end + 1);
  }
}

bool is_allowed(std::string_view value, std::string_view allowed) {
  if (allowed.empty()) {
    return true;
  }
  if (const auto range = range_of(allowed)) {
    const auto number = parse_whole(value);
    return number && *number >= range->least && *number <= range->most;
  }
  const bool list = allowed.starts_with(',');
  const std::string_view words = allowed.substr(list ? 1 : 0);
  const auto known = [&](std::string_view part) {
    return any_part(words, '|', [&](std::string_view word) { return is_word(part, word); });
  };
  return list ? !any_part(value, ',', [&](std::string_view part) { return !known(part); })
              : known(value);
}

// What a value of this row must be, for messages.
std::string expected_of(const SettingInfo& row) {
  if (row.type == SettingType::kFlag) {
    return "0, 1, true or false";
  }
  if (const auto range = range_of(row.allowed)) {
    const std::string_view unit = row.unit == "s" ? " seconds" : "";
    return format("a whole number, {} to {}{}", range->least, range->most, unit);
  }
  if (row.type == SettingType::kInteger) {
    return "a whole number";
  }
  const bool list = row.allowed.starts_with(',');
  std::string words(row.allowed.substr(list ? 1 : 0));
  for (size_t at = 0; (at = words.find('|', at)) != std::string::npos; at += 2) {
    words.replace(at, 1, ", ");
  }
  return format("{}{}", list ? "a comma separated list of " : "one of ", words);
}

// Levenshtein distance; names are short.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string_view nearest_name(std::string_view name) {
  std::string_view best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (const SettingInfo& row : setting_table()) {
    const size_t distance = edit_distance(name, row.variable);
    if (distance < best_distance) {
      best_distance = distance;
      best = row.variable;
    }
  }
  return best;
}

constexpr std::string_view kVendorOnly[] = {
#define ONRT_VENDOR_SETTING(variable) variable,
#include "runtime/base/settings_vendor.def"
#undef ONRT_VENDOR_SETTING
};

std::string unknown_name(std::string_view name) {
  if (std::find(std::begin(kVendorOnly), std::end(kVendorOnly), name) != std::end(kVendorOnly)) {
    return format("{} has no effect in OpenNRT", name);
  }
  return format("unknown variable {} (nearest known name: {})", name, nearest_name(name));
}

// Longest name worth comparing: hostile environments may hold megabytes.
constexpr size_t kLongestName = 128;

}  // namespace

const std::vector<SettingInfo>& setting_table() {
  static const std::vector<SettingInfo> kTable = {
#define ONRT_SETTING(name, variable, type, fallback, unit, allowed, doc) \
  SettingInfo{Setting::k##name, variable, SettingType::k##type, fallback, unit, allowed, doc},
#include "runtime/base/settings.def"
#undef ONRT_SETTING
  };
  return kTable;
}

Settings Settings::from_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("NEURON_") || text.starts_with("OPENNRT_") ||
        text.starts_with("NRT_COMM_")) {
      variables.emplace_back(text);
    }
  }
  return from_strings(variables);
}

Settings Settings::from_strings(const std::vector<std::string>& variables) {
  Settings settings;
  for (const SettingInfo& row : setting_table()) {
    if (row.type != SettingType::kText) {
      settings.integers_[index(row.setting)] = parse_value(row.type, row.fallback).value_or(0);
    }
  }
  for (const std::string& variable : variables) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos) {
      continue;
    }
    const std::string_view name = std::string_view(variable).substr(0, equals);
    const std::string_view value = std::string_view(variable).substr(equals + 1);
    const auto& table = setting_table();
    const auto row = std::find_if(table.begin(), table.end(),
                                  [&](const SettingInfo& info) { return info.variable == name; });
    if (row == table.end()) {
      const bool ours = name.starts_with("OPENNRT_") && !name.starts_with("OPENNRT_TEST");
      if ((ours || name.starts_with("NEURON_RT_")) && name.size() <= kLongestName) {
        settings.warnings_.push_back(unknown_name(name));
      }
      continue;
    }
    settings.set(*row, value);
  }
  return settings;
}

void Settings::set(const SettingInfo& row, std::string_view value) {
  const size_t i = index(row.setting);
  if (value.empty()) {
    values_[i].reset();
    integers_[i] =
        row.type == SettingType::kText ? 0 : parse_value(row.type, row.fallback).value_or(0);
    return;
  }
  values_[i] = std::string(value);
  const auto number = row.type == SettingType::kText ? 0 : parse_value(row.type, value);
  if (!number || !is_allowed(value, row.allowed)) {
    problems_.push_back(format("{}='{}': expected {}", row.variable, value, expected_of(row)));
  } else if (row.type != SettingType::kText) {
    integers_[i] = *number;
  }
}

std::string_view Settings::text(Setting setting) const {
  const auto& value = values_[index(setting)];
  return value ? std::string_view(*value) : setting_table()[index(setting)].fallback;
}

std::optional<uint64_t> parse_bytes(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) {
    return std::nullopt;
  }
  const std::string suffix = lower(text.substr(static_cast<size_t>(end - text.data())));
  static constexpr std::string_view kUnits = "kmgt";
  int shift = 0;
  if (!suffix.empty() && suffix != "b") {
    const size_t unit = kUnits.find(suffix[0]);
    const std::string_view rest = std::string_view(suffix).substr(1);
    if (unit == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) {
      return std::nullopt;
    }
    shift = 10 * (static_cast<int>(unit) + 1);
  }
  if (number > (std::numeric_limits<uint64_t>::max() >> shift)) {
    return std::nullopt;
  }
  return number << shift;
}

}  // namespace onrt
