// SPDX-License-Identifier: Apache-2.0
// What only the device can see of a call's arguments, such as an index that is out of range:
// programs note the first check that fails in a record of their device, and the next call that
// waits for the device (with NEURON_LAUNCH_BLOCKING=1 the call itself) throws it. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "python/torch_neuronx/csrc/memory.h"

namespace tnx {

// A check that failed; becomes IndexError or RuntimeError.
class CheckFailed : public Error {
 public:
  CheckFailed(const std::string& what, bool index) : Error(what), index_(index) {}
  bool is_index() const { return index_; }

 private:
  bool index_;
};

// The record: s64[2], the number of the check that failed first (0: none), and the value it saw.
inline constexpr size_t kCheckBytes = 16;

// The number of a check in records: the same in every process, so that programs can be shared.
// "{}" in `text` stands for the value.
int64_t check_number(const std::string& operation, const std::string& text, bool index);

Block* check_record(int device);
// A program that checks was queued; throws if calls are to throw themselves.
void checks_queued(int device);
// What was queued is done: throws CheckFailed if a check failed, and clears the record.
void throw_failed_check(int device);

}  // namespace tnx
