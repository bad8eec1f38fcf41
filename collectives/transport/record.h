// SPDX-License-Identifier: Apache-2.0
// What a rank says about the call it makes, and about what it is waiting for: plain bytes in shared
// memory. Untrusted as everything there: numbers are checked before they index anything.
#pragma once

#include <cstdint>
#include <type_traits>

#include "collectives/transport/memory_ref.h"

namespace onrt::cc {

struct CallRecord {
  uint64_t call = 0;  // number of the call in its group, from 1
  // Must be equal on all ranks:
  uint64_t digest = 0;  // of everything below that must be equal, and of counts and pairs
  uint64_t count = 0;   // elements
  uint8_t op = 0;       // Op
  uint8_t dtype = 0;    // Dtype
  uint8_t reduce_op = 0;
  uint8_t in_place = 0;
  int32_t root = 0;
  // May differ:
  int32_t in_file = -1;
  int32_t out_file = -1;
  uint64_t in_offset = 0;
  uint64_t out_offset = 0;
  uint64_t unused = 0;
};
static_assert(std::is_trivially_copyable_v<CallRecord> && sizeof(CallRecord) == 64);

// Of scratch memory beside a record.
inline constexpr uint64_t kSmallBytes = 8192;

enum class WaitKind : uint32_t { kNone = 0, kEntry, kBarrier, kSignal, kSend, kReceive, kFlush };

// What a rank that is not running waits for; for peers that look for the culprit.
struct WaitRecord {
  uint32_t kind = 0;  // WaitKind
  int32_t rank = -1;  // kSignal, kSend, kReceive: whom; else any that is behind
  uint64_t call = 0;
  uint32_t channel = 0;
  uint32_t step = 0;
  uint64_t target = 0;  // value of the counter that it waits for
  uint64_t window = 0;  // which piece of a long message
};

}  // namespace onrt::cc
