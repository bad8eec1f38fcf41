// SPDX-License-Identifier: Apache-2.0
// Plan of faults to inject at the Driver seam: the value of OPENNRT_FAULTS.
//
//   plan      = item { ";" item }
//   item      = "seed=" number  |  operation selector "=" effect
//   selector  = "@" n        the nth call of the operation (counted from 1)
//             | "@" n "+"    the nth and every later call
//             | "%" p        each call with a probability of p percent (p may have decimals)
//   effect    = status number of nrt_status.h (not 0), or "endless" (program only)
//
// Example: dma@3=1203;allocate@1=4;program@2=endless
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"

namespace onrt {

enum class FaultOperation : uint8_t {
  kOpen,
  kClaim,
  kRelease,
  kReset,
  kAllocate,
  kFree,
  kCommit,
  kMap,
  kShare,
  kMapHost,
  kQueue,  // create_dma_queue
  kDma,
  kSemaphore,
  kEvent,
  kNotification,  // create_notification_queue
  kLoad,
  kProgram,
};
inline constexpr size_t kFaultOperations = 17;
std::string_view fault_operation_name(FaultOperation operation);

struct FaultRule {
  FaultOperation operation = FaultOperation::kDma;
  uint64_t nth = 0;  // 0: by probability
  bool from_nth_on = false;
  uint64_t per_million = 0;
  NRT_STATUS status = NRT_FAILURE;
  bool endless = false;
  std::string text;  // as written, for messages
};

class FaultPlan {
 public:
  static Result<FaultPlan> parse(std::string_view text);

  const std::vector<FaultRule>& rules() const { return rules_; }
  uint64_t seed() const { return seed_; }

 private:
  std::vector<FaultRule> rules_;
  uint64_t seed_ = 1;
};

// Counts calls and says which of them fail. Thread-safe.
class FaultCounter {
 public:
  explicit FaultCounter(FaultPlan plan) : plan_(std::move(plan)), random_(plan_.seed()) {}

  // Counts one call of `operation`; the rule that makes it fail, or null.
  const FaultRule* next(FaultOperation operation) ONRT_EXCLUDES(mutex_);

 private:
  const FaultPlan plan_;
  Mutex mutex_;
  std::array<uint64_t, kFaultOperations> calls_ ONRT_GUARDED_BY(mutex_){};
  uint64_t random_ ONRT_GUARDED_BY(mutex_);
};

}  // namespace onrt
