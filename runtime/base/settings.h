// SPDX-License-Identifier: Apache-2.0
// Environment variables, read once into a value that is passed around (Context). The rows are in
// settings.def.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace onrt {

enum class Setting : uint8_t {
#define ONRT_SETTING(name, variable, type, fallback, unit, allowed, doc) k##name,
#include "runtime/base/settings.def"
#undef ONRT_SETTING
};

enum class SettingType : uint8_t { kFlag, kInteger, kText };

struct SettingInfo {
  Setting setting;
  std::string_view variable;
  SettingType type;
  std::string_view fallback;
  std::string_view unit;
  std::string_view allowed;  // grammar in settings.def
  std::string_view doc;
};

// All rows, in the order of settings.def.
const std::vector<SettingInfo>& setting_table();

// A snapshot of the settings. Immutable after creation, hence thread-safe.
class Settings {
 public:
  // Reads `environ`. Never fails: values that are not allowed are kept as problems().
  static Settings from_environment();
  // For tests and fuzzing: `name=value` strings.
  static Settings from_strings(const std::vector<std::string>& variables);

  bool is_set(Setting setting) const { return values_[index(setting)].has_value(); }
  // Value as given, or the default.
  std::string_view text(Setting setting) const;
  bool flag(Setting setting) const { return integers_[index(setting)] != 0; }
  int64_t integer(Setting setting) const { return integers_[index(setting)]; }

  // One message per variable whose value is not allowed: names variable, value and what was
  // expected. nrt_init() refuses to start when there is one.
  const std::vector<std::string>& problems() const { return problems_; }
  // One message per unknown NEURON_RT_*/OPENNRT_* name, with the nearest known name.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void set(const SettingInfo& row, std::string_view value);
  static size_t index(Setting setting) { return static_cast<size_t>(setting); }
  static constexpr size_t kCount = 0
#define ONRT_SETTING(name, variable, type, fallback, unit, allowed, doc) +1
#include "runtime/base/settings.def"
#undef ONRT_SETTING
      ;

  std::array<std::optional<std::string>, kCount> values_;
  std::array<int64_t, kCount> integers_{};
  std::vector<std::string> problems_;
  std::vector<std::string> warnings_;
};

// "64MiB", "1g", "4096": bytes with an optional binary suffix (K, M, G, T with or without
// "iB"/"B").
std::optional<uint64_t> parse_bytes(std::string_view text);

}  // namespace onrt
