// SPDX-License-Identifier: Apache-2.0
// The state of the process: before, between and after nrt_init() and nrt_close(), and in the child
// of a fork.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/base/mutex.h"
#include "runtime/core/session.h"

namespace onrt {

enum class RuntimeState : uint8_t {
  kStart,   // never initialised
  kInit,    // initialised
  kClosed,  // after nrt_close()
  kChild,   // child of a process that forked while initialised: nothing works until it execs
};
std::string_view runtime_state_name(RuntimeState state);  // "START", "INIT", "CLOSED", "CHILD"

// Thread-safe. One per process, never destroyed.
class Runtime {
 public:
  static Runtime& instance();

  RuntimeState state() const { return state_.load(); }
  SessionGate& gate() { return gate_; }

  // Success, and nothing happens, when the runtime is initialised already.
  Status init(std::shared_ptr<const Context> context, const MachineFactory& factory);
  // Waits for calls in progress. In another state than INIT: a line in the log.
  void close(const Context& context);
  // At the end of the process: closes when no call is in progress, else does nothing.
  void close_if_idle();

  // The session, which stays open while the result lives. NRT_UNINITIALIZED, NRT_CLOSED, or
  // NRT_FAILURE in a child.
  Result<SessionUse> enter();

  // Logical cores of the machine, and those that this process has or would get. At any time.
  Result<int> total_cores(const Context& context, const MachineFactory& factory);
  Result<int> visible_cores(const Context& context, const MachineFactory& factory);

 private:
  Runtime();

  static void after_fork_in_child();
  static Status wrong_state(RuntimeState state);
  // A look at the machine when there is no session.
  Result<std::unique_ptr<Machine>> look(const Context& context,
                                        const MachineFactory& factory) const;

  std::atomic<RuntimeState> state_{RuntimeState::kStart};
  std::atomic<bool> changing_{false};  // init() or close() is at work
  SessionGate gate_;
  Mutex lifecycle_;
  std::unique_ptr<Session> session_ ONRT_GUARDED_BY(lifecycle_);
};

}  // namespace onrt
