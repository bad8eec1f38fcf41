// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/fault.h"

#include <algorithm>
#include <array>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr std::array<std::string_view, kFaults> kNames = {
    "none", "delay", "drop", "duplicate", "reorder", "corrupt", "black-hole"};

}  // namespace

std::string_view fault_name(Fault fault) { return kNames[static_cast<size_t>(fault)]; }

Result<Fault> parse_fault(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    std::string known;
    for (const std::string_view each : kNames) {
      known += (known.empty() ? "" : ", ") + std::string(each);
    }
    return Status(NRT_INVALID, format("fault '{}': expected one of {}", name, known));
  }
  return static_cast<Fault>(found - kNames.begin());
}

bool FaultInjector::matches(const Message& message) const {
  // A reply comes once and at once, or not at all.
  if (message.kind == MessageKind::kReply &&
      (plan_.fault == Fault::kDelay || plan_.fault == Fault::kDuplicate ||
       plan_.fault == Fault::kReorder)) {
    return false;
  }
  return (plan_.from < 0 || plan_.from == message.from) &&
         (plan_.to < 0 || plan_.to == message.to) && (!plan_.only || *plan_.only == message.kind);
}

Fault FaultInjector::decide(Message& message) {
  const std::pair<int, int> pair(message.from, message.to);
  if (std::find(holes_.begin(), holes_.end(), pair) != holes_.end()) {
    return Fault::kBlackHole;
  }
  if (plan_.fault == Fault::kNone || made_ >= plan_.most || !matches(message) ||
      seen_++ < plan_.after ||
      std::uniform_real_distribution<double>()(chooser_) >= plan_.probability) {
    return Fault::kNone;
  }
  ++made_;
  if (plan_.fault == Fault::kBlackHole) {
    holes_.push_back(pair);
  } else if (plan_.fault == Fault::kCorrupt) {
    corrupt(message);
  }
  return plan_.fault;
}

// One bit: of the data if there is any, else of what the message says.
void FaultInjector::corrupt(Message& message) {
  const uint64_t bit = chooser_();
  if (!message.data.empty()) {
    std::byte& hit = message.data[bit / 8 % message.data.size()];
    hit ^= std::byte{1} << (bit % 8);
  } else if (message.kind == MessageKind::kSignal && bit % 2 == 0) {
    message.number ^= 1;
  } else {
    message.amount ^= uint64_t{1} << (bit % 64);
  }
}

}  // namespace onrt::cc
