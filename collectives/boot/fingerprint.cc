// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/fingerprint.h"

#include <map>

#include "runtime/base/format.h"
#include "runtime/base/log.h"

namespace onrt::cc {
namespace {

constexpr size_t kMostLines = 16;
constexpr size_t kLongestShown = 80;

// Settings that change the bytes that ranks send each other, or the results.
constexpr Setting kCompared[] = {
    Setting::kLogicalNcConfig,
    Setting::kVirtualCoreSize,
};

std::string shown(const std::string* value) {
  if (value == nullptr || value->empty()) {
    return "not set";
  }
  return format("'{}'", one_line(value->substr(0, kLongestShown)));
}

using Values = std::map<std::string_view, const std::string*>;

Values by_name(std::span<const FingerprintEntry> entries) {
  Values values;
  for (const FingerprintEntry& entry : entries) {
    values[entry.name] = &entry.value;
  }
  return values;
}

}  // namespace

std::vector<FingerprintEntry> standard_fingerprint(const Settings& settings) {
  std::vector<FingerprintEntry> entries;
  entries.push_back({"library version", ONRT_VERSION});
  for (const Setting setting : kCompared) {
    const SettingInfo& row = setting_table()[static_cast<size_t>(setting)];
    entries.push_back({std::string(row.variable), std::string(settings.text(setting))});
  }
  return entries;
}

std::string fingerprint_difference(int rank_a, std::span<const FingerprintEntry> a, int rank_b,
                                   std::span<const FingerprintEntry> b) {
  const Values values_a = by_name(a);
  const Values values_b = by_name(b);
  Values names = values_a;
  names.insert(values_b.begin(), values_b.end());
  std::string text;
  size_t lines = 0;
  for (const auto& [name, unused] : names) {
    const auto in_a = values_a.find(name);
    const auto in_b = values_b.find(name);
    const std::string shown_a = shown(in_a == values_a.end() ? nullptr : in_a->second);
    const std::string shown_b = shown(in_b == values_b.end() ? nullptr : in_b->second);
    if (shown_a == shown_b && in_a != values_a.end() && in_b != values_b.end() &&
        *in_a->second == *in_b->second) {
      continue;
    }
    if (shown_a == "not set" && shown_b == "not set") {
      continue;
    }
    if (++lines > kMostLines) {
      continue;
    }
    text += format("{}{}: rank {} has {}, rank {} has {}", text.empty() ? "" : "; ",
                   one_line(name.substr(0, kLongestShown)), rank_a, shown_a, rank_b, shown_b);
  }
  if (lines > kMostLines) {
    text += format("; and {} more", lines - kMostLines);
  }
  return text;
}

}  // namespace onrt::cc
