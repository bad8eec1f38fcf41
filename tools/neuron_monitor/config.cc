// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_monitor/config.h"

#include <algorithm>
#include <charconv>

#include "runtime/base/format.h"
#include "runtime/base/json.h"

namespace onrt::tools {
namespace {

// A filter is matched by a backtracking machine: this bounds what a slip can cost.
constexpr size_t kLongestFilter = 255;

struct Unit {
  std::string_view name;
  double nanoseconds;
};
// Longer names first: "ms" before "m".
constexpr Unit kUnits[] = {{"ns", 1},  {"us", 1e3}, {"ms", 1e6},
                           {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};

Status check_keys(const JsonValue& object, std::initializer_list<std::string_view> known,
                  std::string_view what) {
  if (object.type() != JsonType::kObject) {
    return Status(NRT_INVALID,
                  format("{}: expected an object, found {}", what, json_type_name(object.type())));
  }
  for (const auto& [key, value] : object.members()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::string names;
      for (const std::string_view name : known) {
        names += (names.empty() ? "" : ", ") + std::string(name);
      }
      return Status(NRT_INVALID, format("{}: unknown key '{}'; expected {}", what, key, names));
    }
  }
  return ok_status();
}

Result<Period> period_of(const JsonValue& object, Period inherited, std::string_view what) {
  if (object.find("period") == nullptr) {
    return inherited;
  }
  ONRT_ASSIGN_OR_RETURN(const std::string_view text, object.get_string("period"));
  return parse_period(text, format("{}: period", what));
}

template <size_t N>
Result<std::vector<GroupConfig>> parse_groups(const JsonValue& object, std::string_view key,
                                              const std::array<std::string_view, N>& names,
                                              Period inherited) {
  std::vector<GroupConfig> groups;
  if (object.find(key) == nullptr) {
    return groups;
  }
  ONRT_ASSIGN_OR_RETURN(const JsonValue* const list, object.get_array(key));
  for (size_t i = 0; i < list->items().size(); ++i) {
    const JsonValue& item = list->items()[i];
    const std::string what = format("{}[{}]", key, i);
    ONRT_RETURN_IF_ERROR(check_keys(item, {"type", "period"}, what));
    auto type = item.get_string("type");
    if (!type.ok()) {
      return std::move(type).status().annotate(what);
    }
    const auto found = std::find(names.begin(), names.end(), *type);
    if (found == names.end()) {
      std::string all;
      for (const std::string_view name : names) {
        all += (all.empty() ? "" : ", ") + std::string(name);
      }
      return Status(NRT_INVALID,
                    format("{}: unknown metric group '{}'; expected one of {}", what, *type, all));
    }
    GroupConfig group;
    group.group = static_cast<int>(found - names.begin());
    ONRT_ASSIGN_OR_RETURN(group.period, period_of(item, inherited, what));
    std::erase_if(groups, [&](const GroupConfig& other) { return other.group == group.group; });
    groups.push_back(group);
  }
  return groups;
}

Result<RuntimeConfig> parse_runtime(const JsonValue& item, Period inherited,
                                    const std::string& what) {
  ONRT_RETURN_IF_ERROR(check_keys(item, {"tag_filter", "metrics", "period"}, what));
  RuntimeConfig runtime;
  ONRT_ASSIGN_OR_RETURN(const Period period, period_of(item, inherited, what));
  auto groups = parse_groups(item, "metrics", kRuntimeGroupNames, period);
  if (!groups.ok()) {
    return std::move(groups).status().annotate(what);
  }
  runtime.groups = std::move(groups).value();
  if (item.find("tag_filter") == nullptr) {
    return runtime;
  }
  auto filter = item.get_string("tag_filter");
  if (!filter.ok()) {
    return std::move(filter).status().annotate(what);
  }
  if (filter->size() > kLongestFilter) {
    return Status(NRT_INVALID, format("{}: tag_filter has {} bytes, at most {} are allowed", what,
                                      filter->size(), kLongestFilter));
  }
  try {
    runtime.tag_filter = std::regex(filter->begin(), filter->end());
  } catch (const std::regex_error&) {
    return Status(NRT_INVALID,
                  format("{}: tag_filter '{}' is no regular expression", what, *filter));
  }
  return runtime;
}

template <size_t N>
std::vector<GroupConfig> all_groups(const std::array<std::string_view, N>&) {
  std::vector<GroupConfig> groups;
  groups.reserve(N);
  for (size_t i = 0; i < N; ++i) {
    groups.push_back({static_cast<int>(i), kDefaultPeriod});
  }
  return groups;
}

}  // namespace

Result<Period> parse_period(std::string_view text, std::string_view what) {
  const Status wrong(NRT_INVALID,
                     format("{} '{}': expected a time from 10ms to 24h, such as 1s", what, text));
  double sum = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    double number = 0;
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
    if (error != std::errc() || !(number >= 0) || number > 1e15) {
      return wrong;
    }
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    const Unit* const unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                          [&](const Unit& u) { return rest.starts_with(u.name); });
    if (unit == std::end(kUnits)) {
      return wrong;
    }
    rest.remove_prefix(unit->name.size());
    sum += number * unit->nanoseconds;
  }
  if (!(sum >= static_cast<double>(kShortestPeriod.count())) ||
      sum > static_cast<double>(kLongestPeriod.count())) {
    return wrong;
  }
  return Period(static_cast<int64_t>(sum));
}

MonitorConfig default_config() {
  MonitorConfig config;
  config.runtimes.emplace_back();
  config.runtimes.back().groups = all_groups(kRuntimeGroupNames);
  config.system = all_groups(kSystemGroupNames);
  return config;
}

Result<MonitorConfig> parse_config(std::string_view text) {
  ONRT_ASSIGN_OR_RETURN(const JsonValue root, parse_json(text));
  ONRT_RETURN_IF_ERROR(check_keys(root, {"period", "neuron_runtimes", "system_metrics"}, "root"));
  ONRT_ASSIGN_OR_RETURN(const Period period, period_of(root, kDefaultPeriod, "root"));
  MonitorConfig config;
  ONRT_ASSIGN_OR_RETURN(config.system,
                        parse_groups(root, "system_metrics", kSystemGroupNames, period));
  if (root.find("neuron_runtimes") != nullptr) {
    ONRT_ASSIGN_OR_RETURN(const JsonValue* const list, root.get_array("neuron_runtimes"));
    for (size_t i = 0; i < list->items().size(); ++i) {
      ONRT_ASSIGN_OR_RETURN(RuntimeConfig runtime, parse_runtime(list->items()[i], period,
                                                                 format("neuron_runtimes[{}]", i)));
      config.runtimes.push_back(std::move(runtime));
    }
  }
  return config;
}

}  // namespace onrt::tools
