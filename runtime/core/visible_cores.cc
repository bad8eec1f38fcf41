// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/visible_cores.h"

#include <charconv>
#include <optional>

#include "runtime/base/format.h"

namespace onrt {
namespace {

// Larger than any machine; keeps sums far from overflow.
constexpr int kLargestCore = 1 << 20;

constexpr std::string_view kGrammar =
    "expected a core, an ascending range or an ascending list without gaps, e.g. 4 or 0-3 or 0,1";

// Digits only: no sign, no blank, nothing after the number.
std::optional<int> parse_core(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || text[0] == '-' || error != std::errc() || end != text.data() + text.size() ||
      number > kLargestCore) {
    return std::nullopt;
  }
  return number;
}

Status bad(std::string_view what) { return Status(NRT_INVALID, format("{}: {}", what, kGrammar)); }

Result<CoreRange> parse_range(std::string_view text, size_t dash) {
  const auto first = parse_core(text.substr(0, dash));
  const auto last = parse_core(text.substr(dash + 1));
  if (!first || !last) {
    return bad("not a range of two core numbers");
  }
  if (*last < *first) {
    return bad(format("the range ends at {} before its start {}", *last, *first));
  }
  return CoreRange{*first, *last - *first + 1};
}

std::string_view name_of(Setting setting) {
  return setting_table()[static_cast<size_t>(setting)].variable;
}

Status wrong_value(Setting setting, std::string_view value, std::string_view problem) {
  return Status(NRT_INVALID, format("{}='{}': {}", name_of(setting), value, problem));
}

}  // namespace

Result<CoreRange> parse_visible_cores(std::string_view text) {
  if (const size_t dash = text.find('-'); dash != std::string_view::npos) {
    return parse_range(text, dash);
  }
  CoreRange range;
  while (true) {
    const size_t comma = text.find(',');
    const auto core = parse_core(text.substr(0, comma));
    if (!core) {
      return bad("not a list of core numbers");
    }
    if (range.count == 0) {
      range.start = *core;
    } else if (*core != range.start + range.count) {
      return bad(format("core {} does not follow core {}", *core, range.start + range.count - 1));
    }
    ++range.count;
    if (comma == std::string_view::npos) {
      return range;
    }
    text.remove_prefix(comma + 1);
  }
}

Result<CoreRequest> requested_cores(const Settings& settings, int total) {
  const std::string_view visible = settings.text(Setting::kVisibleCores);
  if (!visible.empty()) {
    const auto range = parse_visible_cores(visible);
    if (!range.ok()) {
      return wrong_value(Setting::kVisibleCores, visible, range.status().message());
    }
    if (range->start + range->count > total) {
      return wrong_value(
          Setting::kVisibleCores, visible,
          total == 0 ? std::string("this machine has no cores")
                     : format("this machine has {} cores, numbered 0 to {}", total, total - 1));
    }
    return CoreRequest{range->start, range->count};
  }
  const std::string_view number = settings.text(Setting::kNumCores);
  if (!number.empty()) {
    const auto count = parse_core(number);
    if (!count) {
      return wrong_value(Setting::kNumCores, number, "expected a number of cores, 0 for all");
    }
    if (*count > total) {
      return wrong_value(Setting::kNumCores, number, format("this machine has {} cores", total));
    }
    if (*count > 0) {
      return CoreRequest{-1, *count};
    }
  }
  return CoreRequest{0, total};
}

Result<int> requested_logical_core_size(const Settings& settings) {
  for (const Setting setting : {Setting::kLogicalNcConfig, Setting::kVirtualCoreSize}) {
    const std::string_view text = settings.text(setting);
    if (!text.empty()) {
      if (text != "1" && text != "2") {
        return wrong_value(setting, text, "expected 1 or 2 physical cores per logical core");
      }
      return text[0] - '0';
    }
  }
  return 0;
}

std::string_view core_request_source(const Settings& settings) {
  for (const Setting setting : {Setting::kVisibleCores, Setting::kNumCores}) {
    if (!settings.text(setting).empty()) {
      return name_of(setting);
    }
  }
  return "";
}

}  // namespace onrt
