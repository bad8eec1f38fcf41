// SPDX-License-Identifier: Apache-2.0
// The cores that this process owns, from nrt_init() to nrt_close().
#pragma once

#include <memory>

#include "runtime/driver/driver.h"

namespace onrt {

// Owner of a run of cores; the destructor gives them back. Thread-compatible.
class CoreLease {
 public:
  // Claims what the settings ask for. NRT_RESOURCE says "NeuronCore(s) not available", how many
  // were asked for and are free, and who holds the others.
  static Result<CoreLease> claim(Machine& machine, const Context& context);

  CoreLease(CoreLease&& other) noexcept
      : machine_(std::exchange(other.machine_, nullptr)),
        context_(other.context_),
        range_(other.range_) {}
  CoreLease& operator=(CoreLease&&) = delete;
  ~CoreLease();

  const CoreRange& range() const { return range_; }

 private:
  CoreLease(Machine& machine, const Context& context, const CoreRange& range)
      : machine_(&machine), context_(&context), range_(range) {}

  Machine* machine_;        // outlives this; null when moved from
  const Context* context_;  // outlives this
  CoreRange range_;
};

}  // namespace onrt
