// SPDX-License-Identifier: Apache-2.0
// Progress on the caller's thread: drives a group's Runner and its pipes, waits (spin, yield, sleep
// on a futex) with a deadline, and turns what goes wrong into one cause for all ranks.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/boot/boot.h"
#include "collectives/exec/flight.h"
#include "collectives/exec/runner.h"
#include "collectives/transport/area.h"
#include "collectives/transport/shm.h"
#include "runtime/base/log.h"
#include "runtime/base/mutex.h"

namespace onrt::cc {

struct EngineOptions {
  std::chrono::milliseconds timeout{30000};
  PlannerOptions planner;
  int spins = 0;     // looks without giving the processor away
  int yields = 500;  // then with, before the thread sleeps
  Logger* log = nullptr;
};

// The job's first failure as operations report it: the end of a rank is
// NRT_EXEC_HW_ERR_COLLECTIVES. Success while the job is well.
Status failure_of(const Bootstrap& boot);

// What a wait is for, in words and for the flight record.
struct Activity {
  std::string what;  // "all_reduce(sum, f32, 4 elements) #7 of group 0"
  WaitRecord wait;
};

// Waiting for peers of one group.
class Waiter {
 public:
  Waiter(const Area& area, Bootstrap& boot, int rank, const EngineOptions& options);

  void start() { rounds_ = 0; }
  // The caller has looked and found nothing new. `look` looks again just before the thread sleeps:
  // true ends the wait. False: the deadline has passed or the job has failed.
  template <class Look>
  bool pause(const WaitRecord& wait, Look&& look) {
    if (boot_.failed()) {
      return false;
    }
    ++rounds_;
    if (rounds_ <= options_.spins) {
      spin();
      return true;
    }
    if (rounds_ <= options_.spins + options_.yields) {
      return yield();
    }
    if (expired()) {
      return false;
    }
    prepare_sleep(wait);
    if (!look()) {
      sleep();
    }
    end_sleep();
    return true;
  }

 private:
  static void spin();
  bool yield();
  bool expired();
  void prepare_sleep(const WaitRecord& wait);
  void sleep();
  void end_sleep();

  const Area& area_;
  Bootstrap& boot_;
  const int rank_;
  const EngineOptions& options_;
  int rounds_ = 0;
  uint32_t bell_ = 0;
  std::chrono::steady_clock::time_point deadline_;
};

class Engine {
 public:
  // Everything is borrowed. `ranks`: those of the job in the group, sorted, with this one.
  Engine(Bootstrap& boot, std::vector<int> ranks, uint64_t id, const Area& area, PeerFiles& files,
         FlightRecord* flight, EngineOptions options);
  ~Engine();

  // Blocking. One thread at a time. Failures end the job for all ranks, except that a malformed
  // call is refused before anything was started.
  Status run(const Call& call);
  // Called in wait loops of run(): other work of this process in the same group. True when it did
  // something.
  void set_side_work(std::function<bool()> work) { side_work_ = std::move(work); }

  const Runner& runner() const { return runner_; }
  int rank() const { return endpoint_.rank(); }
  const std::vector<int>& ranks() const { return ranks_; }
  uint64_t id() const { return id_; }

  // For waits of pipes: the cause that a wait which ended badly stands for, told to all ranks.
  Status fail_wait(const Activity& activity, const std::vector<int>& behind);

 private:
  Status drive();
  Status fail(Status status);
  int find_culprit(const std::vector<int>& behind) const;
  std::vector<int> behind_of(int rank, const WaitRecord& wait) const;
  std::string state_of(int rank) const;

  Bootstrap& boot_;
  const std::vector<int> ranks_;
  const uint64_t id_;
  const Area& area_;
  FlightRecord* flight_;
  const EngineOptions options_;
  ShmEndpoint endpoint_;
  Runner runner_;
  Waiter waiter_;
  std::function<bool()> side_work_;
  uint64_t subscription_ = 0;
};

}  // namespace onrt::cc
