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
#define ONRT_SETTING(name, variable, type, fallback, unit, doc) \
  SettingInfo{Setting::k##name, variable, SettingType::k##type, fallback, unit, doc},
#include "runtime/base/settings.def"
#undef ONRT_SETTING
  };
  return kTable;
}

Settings Settings::from_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("NEURON_") || text.starts_with("OPENNRT_")) {
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
    settings.values_[index(row->setting)] = std::string(value);
    if (row->type != SettingType::kText) {
      if (const auto number = parse_value(row->type, value)) {
        settings.integers_[index(row->setting)] = *number;
      } else {
        settings.problems_.push_back(
            format("{}='{}': expected {}", name, value,
                   row->type == SettingType::kFlag ? "0, 1, true or false" : "a whole number"));
      }
    }
  }
  return settings;
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
