// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver/fault_plan.h"

#include <charconv>

#include "runtime/base/format.h"

namespace onrt {
namespace {

constexpr std::array<std::string_view, kFaultOperations> kNames = {
    "open",      "claim", "release",      "reset",    "allocate", "free",
    "commit",    "map",   "share",        "map_host", "queue",    "dma",
    "semaphore", "event", "notification", "load",     "program"};

std::string known_operations() {
  std::string names;
  for (const std::string_view name : kNames) {
    names += names.empty() ? "" : ", ";
    names += name;
  }
  return names;
}

Status bad_item(std::string_view item, std::string_view why) {
  return Status(NRT_INVALID, format("OPENNRT_FAULTS: '{}': {}", item, why));
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return number;
}

// "12.5" percent -> 125000 per million.
std::optional<uint64_t> parse_percent(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number > 0 && number <= 100)) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(number * 10000.0);
}

Status parse_selector(std::string_view item, std::string_view selector, FaultRule* rule) {
  if (selector[0] == '%') {
    const auto percent = parse_percent(selector.substr(1));
    if (!percent) {
      return bad_item(item, "expected a percentage above 0 and up to 100 after '%'");
    }
    rule->per_million = *percent;
    return ok_status();
  }
  std::string_view digits = selector.substr(1);
  if (digits.ends_with('+')) {
    rule->from_nth_on = true;
    digits.remove_suffix(1);
  }
  const auto nth = parse_number(digits);
  if (!nth || *nth == 0) {
    return bad_item(item, "expected a call number from 1 after '@'");
  }
  rule->nth = *nth;
  return ok_status();
}

Status parse_effect(std::string_view item, std::string_view effect, FaultRule* rule) {
  if (effect == "endless") {
    if (rule->operation != FaultOperation::kProgram) {
      return bad_item(item, "'endless' is only possible for program");
    }
    rule->endless = true;
    rule->status = NRT_TIMEOUT;
    return ok_status();
  }
  const auto status = parse_number(effect);
  if (!status || *status == 0 || *status > 2047) {
    return bad_item(item, "expected a status number of nrt_status.h (not 0) or 'endless'");
  }
  rule->status = static_cast<NRT_STATUS>(*status);
  return ok_status();
}

Result<FaultRule> parse_rule(std::string_view item) {
  const size_t selector = item.find_first_of("@%");
  const size_t equals = item.find('=');
  if (selector == std::string_view::npos || equals == std::string_view::npos || equals < selector) {
    return bad_item(item, "expected operation@n=status, operation%percent=status or seed=n");
  }
  FaultRule rule;
  rule.text = std::string(item);
  const std::string_view name = item.substr(0, selector);
  size_t index = 0;
  while (index < kNames.size() && kNames[index] != name) {
    ++index;
  }
  if (index == kNames.size()) {
    return bad_item(
        item, format("unknown operation '{}', expected one of: {}", name, known_operations()));
  }
  rule.operation = static_cast<FaultOperation>(index);
  ONRT_RETURN_IF_ERROR(parse_selector(item, item.substr(selector, equals - selector), &rule));
  ONRT_RETURN_IF_ERROR(parse_effect(item, item.substr(equals + 1), &rule));
  return rule;
}

// splitmix64: small, seedable, the same on every platform.
uint64_t next_random(uint64_t* state) {
  uint64_t value = (*state += 0x9e3779b97f4a7c15ULL);
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

std::string_view fault_operation_name(FaultOperation operation) {
  return kNames[static_cast<size_t>(operation)];
}

Result<FaultPlan> FaultPlan::parse(std::string_view text) {
  FaultPlan plan;
  while (!text.empty()) {
    const size_t end = text.find(';');
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (item.empty()) {
      continue;
    }
    if (item.starts_with("seed=")) {
      const auto seed = parse_number(item.substr(5));
      if (!seed) {
        return bad_item(item, "expected a whole number after 'seed='");
      }
      plan.seed_ = *seed;
      continue;
    }
    ONRT_ASSIGN_OR_RETURN(FaultRule rule, parse_rule(item));
    plan.rules_.push_back(std::move(rule));
  }
  return plan;
}

const FaultRule* FaultCounter::next(FaultOperation operation) {
  const MutexLock lock(mutex_);
  const uint64_t call = ++calls_[static_cast<size_t>(operation)];
  for (const FaultRule& rule : plan_.rules()) {
    if (rule.operation != operation) {
      continue;
    }
    const bool hit = rule.nth != 0 ? call == rule.nth || (rule.from_nth_on && call > rule.nth)
                                   : next_random(&random_) % 1000000 < rule.per_million;
    if (hit) {
      return &rule;
    }
  }
  return nullptr;
}

}  // namespace onrt
