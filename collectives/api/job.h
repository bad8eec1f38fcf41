// SPDX-License-Identifier: Apache-2.0
// A process' membership of a job: its control plane, the memory it offers, and groups of ranks.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/api/request.h"
#include "collectives/boot/boot.h"
#include "collectives/exec/engine.h"
#include "collectives/exec/pipes.h"

namespace onrt::cc {

struct JobOptions {
  BootOptions boot;
  EngineOptions engine;
  bool flight = true;
  // Files that buffers may lie in (MemoryRef::file is the index): HBM stacks, pools.
  std::vector<UniqueFd> files;
};

// NRT_CC_* and NEURON_RT_EXEC_TIMEOUT. NRT_INVALID names the variable.
Result<EngineOptions> engine_options(const Context& context);

class Job;

// Some ranks of a job in their order, this one among them. Thread-safe: operations of several
// threads take effect one after another; peers must see the same order.
class Group {
 public:
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return engine_.rank(); }
  int size() const { return static_cast<int>(engine_.ranks().size()); }
  const std::vector<int>& ranks() const { return engine_.ranks(); }

  // Returns when this rank's part is done.
  Status run(const Call& call);
  // Returns at once; the call's buffers stay the operation's until it has ended, and `keep` lives
  // as long. Operations of a group run in the order in which they were given.
  Result<RequestRef> start(Call call, std::shared_ptr<void> keep = nullptr);
  // Messages between two ranks are independent of collective operations and of other pairs.
  Result<RequestRef> start_message(Message message, std::shared_ptr<void> keep = nullptr);
  Status run_message(Message message);

  struct LastCall {
    std::string algorithm;
    std::string why;
    uint64_t calls = 0;
  };
  LastCall last() const;
  // Bytes moved to and from each rank of the group since it was made.
  void traffic(std::vector<uint64_t>* to, std::vector<uint64_t>* from) const;

 private:
  friend class Job;
  Group(Job& job, std::vector<int> ranks, uint64_t id, std::unique_ptr<Area> area,
        const EngineOptions& options);

  struct Task {
    Call call;
    RequestRef request;
    std::shared_ptr<void> keep;
  };
  Status check_process() const;
  Status run_now(const Call& call);
  void note_plan() ONRT_REQUIRES(engine_mutex_);
  void work();
  void ensure_worker() ONRT_REQUIRES(queue_mutex_);
  bool move_messages(Status* failure);
  Status drive_messages(const Request& until);
  void end_messages(const Status& status);
  template <class Enough>
  void take_turn(Waiter& waiter, const Enough& enough);

  Job& job_;
  const uint64_t fork_generation_;
  std::unique_ptr<Area> area_;
  EngineOptions options_;
  Mutex engine_mutex_;
  Engine engine_;
  Pipes pipes_;
  Waiter worker_waiter_;

  mutable Mutex queue_mutex_;
  CondVar queue_changed_;
  std::deque<Task> queue_ ONRT_GUARDED_BY(queue_mutex_);
  bool working_ ONRT_GUARDED_BY(queue_mutex_) = false;  // the worker runs a task
  bool stop_ ONRT_GUARDED_BY(queue_mutex_) = false;
  std::thread worker_ ONRT_GUARDED_BY(queue_mutex_);
  std::atomic<bool> has_worker_{false};

  // Written by who holds engine_mutex_, read by anyone.
  std::atomic<uint64_t> calls_{0};
  std::vector<std::atomic<uint64_t>> sent_;
  std::vector<std::atomic<uint64_t>> received_;
  uint64_t last_plan_ ONRT_GUARDED_BY(engine_mutex_) = 0;  // last_ is of this one
  mutable Mutex last_mutex_;
  LastCall last_ ONRT_GUARDED_BY(last_mutex_);  // but for the number of calls
};

// Thread-safe. Groups must end before their job.
class Job {
 public:
  static Result<std::unique_ptr<Job>> join(JobOptions options);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const { return boot_->rank(); }
  int size() const { return boot_->size(); }
  Bootstrap& boot() { return *boot_; }

  // All members of the new group call this with the same ranks, in the same order of such calls.
  // NRT_INVALID when `ranks` repeats one, lacks this one or has one outside the job.
  Result<std::unique_ptr<Group>> make_group(std::vector<int> ranks);
  // Every rank of `parent` calls it. Those with the same colour become a group; a negative colour
  // gives none (null).
  Result<std::unique_ptr<Group>> split(Group& parent, int colour);

  // Ends the job for all ranks; any thread, any time.
  void abort(const std::string& why);
  Status status() const;

 private:
  friend class Group;
  Job() = default;
  Status offer_files(std::vector<UniqueFd> files, Deadline deadline);
  Result<int> count_processors(Deadline deadline);  // that the ranks may use, together

  std::unique_ptr<Bootstrap> boot_;
  PeerFiles files_;
  EngineOptions engine_;
  std::unique_ptr<FlightRecord> flight_;
  Mutex mutex_;
  std::map<std::vector<int>, uint64_t> made_ ONRT_GUARDED_BY(mutex_);  // groups, by their ranks
  uint64_t fork_generation_ = 0;
};

// Changes in a child of fork().
uint64_t fork_generation();

}  // namespace onrt::cc
