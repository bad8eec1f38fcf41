// SPDX-License-Identifier: Apache-2.0
// The word that all ranks of a host look at, with the cause behind it, and a descriptor that wakes
// their control threads. An abort so reaches ranks whose neighbours in the tree are stopped.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "collectives/boot/cause.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::cc {

// Thread-safe. What is in the page comes from other processes of this user and is checked.
class AbortPage {
 public:
  static Result<std::unique_ptr<AbortPage>> create();
  // Takes over what another rank's fds() were. NRT_INVALID when they are something else.
  static Result<std::unique_ptr<AbortPage>> adopt(UniqueFd memory, UniqueFd event);
  ~AbortPage();
  AbortPage(const AbortPage&) = delete;
  AbortPage& operator=(const AbortPage&) = delete;

  // Publishes `cause` and wakes everybody; false when there is an earlier one.
  bool set(const Cause& cause);
  std::optional<Cause> cause() const;
  const std::atomic<uint32_t>& word() const;

  int memory_fd() const { return memory_.get(); }
  // Readable once set; never read, so that it stays so for everybody.
  int event_fd() const { return event_.get(); }

 private:
  struct Shared;
  AbortPage(UniqueFd memory, UniqueFd event, Shared* shared)
      : memory_(std::move(memory)), event_(std::move(event)), shared_(shared) {}
  static Result<std::unique_ptr<AbortPage>> map(UniqueFd memory, UniqueFd event);

  UniqueFd memory_;
  UniqueFd event_;
  Shared* shared_;
};

}  // namespace onrt::cc
