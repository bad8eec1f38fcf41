// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/runtime.h"

#include <pthread.h>

#include "runtime/base/format.h"
#include "runtime/core/visible_cores.h"

namespace onrt {

std::string_view runtime_state_name(RuntimeState state) {
  static constexpr std::string_view kNames[] = {"START", "INIT", "CLOSED", "CHILD"};
  return kNames[static_cast<size_t>(state)];
}

Runtime& Runtime::instance() {
  // Never destroyed: clients call in from their own static destructors.
  static Runtime* const kInstance = new Runtime;
  return *kInstance;
}

Runtime::Runtime() { pthread_atfork(nullptr, nullptr, &Runtime::after_fork_in_child); }

// The child has one thread, and locks may be held by others that it does not have: it only marks
// the state, which every call reads before it takes a lock. The parent's cores stay the parent's:
// nothing is released here.
void Runtime::after_fork_in_child() {
  Runtime& runtime = instance();
  if (runtime.state_.load() == RuntimeState::kInit || runtime.changing_.load()) {
    runtime.state_.store(RuntimeState::kChild);
    runtime.gate_.shut();
  }
}

Status Runtime::wrong_state(RuntimeState state) {
  switch (state) {
    case RuntimeState::kChild:
      return Status(NRT_FAILURE,
                    "runtime state CHILD: this process was forked from one that had initialised "
                    "the runtime and can't use it; initialise after the fork, or exec");
    case RuntimeState::kClosed:
      return Status(NRT_CLOSED, "runtime state CLOSED: nrt_close() was called");
    default:
      return Status(NRT_UNINITIALIZED, "runtime state START: call nrt_init() first");
  }
}

Result<SessionUse> Runtime::enter() {
  while (true) {
    SessionUse session(gate_);
    if (session) {
      return session;
    }
    // The gate is open whenever the state is INIT, so this means: opened between the two looks.
    if (const RuntimeState found = state_.load(); found != RuntimeState::kInit) {
      return wrong_state(found);
    }
  }
}

Status Runtime::init(std::shared_ptr<const Context> context, const MachineFactory& factory) {
  if (state_.load() == RuntimeState::kChild) {
    return wrong_state(RuntimeState::kChild);
  }
  MutexLock lock(lifecycle_);
  if (session_ != nullptr) {
    return ok_status();
  }
  changing_.store(true);
  auto session = Session::open(std::move(context), factory, gate_);
  if (session.ok()) {
    session_ = std::move(session).value();
    gate_.open(session_.get(), session_->generation());
    state_.store(RuntimeState::kInit);
  }
  changing_.store(false);
  return session.ok() ? ok_status() : std::move(session).status();
}

void Runtime::close(const Context& context) {
  const RuntimeState found = state_.load();
  if (found != RuntimeState::kInit) {
    ONRT_LOG(context.log, Nrt, Warning, "nrt_close() in unexpected state {}: nothing to close",
             runtime_state_name(found));
    return;
  }
  MutexLock lock(lifecycle_);
  if (session_ == nullptr) {
    return;  // another thread was faster
  }
  changing_.store(true);
  state_.store(RuntimeState::kClosed);
  gate_.shut_and_drain();
  session_.reset();
  changing_.store(false);
}

void Runtime::close_if_idle() {
  if (state_.load() != RuntimeState::kInit || !lifecycle_.try_lock()) {
    return;
  }
  state_.store(RuntimeState::kClosed);
  if (gate_.shut_if_idle()) {
    session_.reset();
  }
  lifecycle_.unlock();
}

Result<std::unique_ptr<Machine>> Runtime::look(const Context& context,
                                               const MachineFactory& factory) const {
  if (state_.load() == RuntimeState::kChild) {
    return wrong_state(RuntimeState::kChild);
  }
  MachineRequest request;
  request.attach = false;
  ONRT_ASSIGN_OR_RETURN(request.logical_core_size, requested_logical_core_size(context.settings));
  return factory(context, request);
}

Result<int> Runtime::total_cores(const Context& context, const MachineFactory& factory) {
  if (const SessionUse session(gate_); session) {
    return session->info().logical_cores();
  }
  ONRT_ASSIGN_OR_RETURN(const auto machine, look(context, factory));
  return machine->info().logical_cores();
}

Result<int> Runtime::visible_cores(const Context& context, const MachineFactory& factory) {
  if (const SessionUse session(gate_); session) {
    return session->core_count();
  }
  ONRT_ASSIGN_OR_RETURN(const auto machine, look(context, factory));
  ONRT_ASSIGN_OR_RETURN(const CoreRequest request,
                        requested_cores(context.settings, machine->info().logical_cores()));
  return request.count;
}

}  // namespace onrt
