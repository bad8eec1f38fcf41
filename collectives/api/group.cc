// SPDX-License-Identifier: Apache-2.0
// Operations of a group: on the caller's thread, or in order on a worker that the first
// asynchronous one starts. Messages move whenever a thread of the group waits.
#include <algorithm>

#include "collectives/api/job.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

// There is one writer at a time.
void add_to(std::atomic<uint64_t>& sum, uint64_t value) {
  sum.store(sum.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

}  // namespace

Group::Group(Job& job, std::vector<int> ranks, uint64_t id, std::unique_ptr<Area> area,
             const EngineOptions& options)
    : job_(job),
      fork_generation_(cc::fork_generation()),
      area_(std::move(area)),
      options_(options),
      engine_(*job.boot_, std::move(ranks), id, *area_, job.files_, job.flight_.get(), options_),
      pipes_(*area_, engine_.rank()),
      worker_waiter_(*area_, *job.boot_, engine_.rank(), options_),
      sent_(engine_.ranks().size()),
      received_(engine_.ranks().size()) {
  engine_.set_side_work([this] {
    if (pipes_.idle()) {
      return false;
    }
    Status failure;
    const bool moved = move_messages(&failure);
    if (!failure.ok()) {
      end_messages(failure);
    }
    return moved;
  });
}

Group::~Group() {
  std::thread worker;
  {
    const MutexLock lock(queue_mutex_);
    stop_ = true;
    // Nobody waits for a peer here.
    if (working_ || !queue_.empty() || !pipes_.idle()) {
      job_.abort(
          format("rank {} gave up group {} with operations in it", job_.rank(), engine_.id()));
    }
    queue_changed_.notify_all();
    worker = std::move(worker_);
  }
  area_->ring(rank());
  if (worker.joinable()) {
    worker.join();
  }
  pipes_.drop(Status(NRT_CLOSED, "the group was given up"));
}

Status Group::check_process() const {
  if (fork_generation_ != cc::fork_generation()) {
    return Status(NRT_INVALID,
                  "this process was forked from one with a communicator: make one of its own");
  }
  return ok_status();
}

Status Group::run_now(const Call& call) {
  const MutexLock lock(engine_mutex_);
  const Status status = engine_.run(call);
  const Runner& runner = engine_.runner();
  if (last_plan_ != runner.plan_number()) {
    note_plan();
  }
  calls_.store(runner.calls(), std::memory_order_relaxed);
  if (status.ok()) {
    const auto to = runner.bytes_to();
    const auto from = runner.bytes_from();
    for (size_t i = 0; i < sent_.size(); ++i) {
      add_to(sent_[i], to[i]);
      add_to(received_[i], from[i]);
    }
  }
  return status;
}

// The operation runs in another way than the one before.
void Group::note_plan() {
  const Runner& runner = engine_.runner();
  last_plan_ = runner.plan_number();
  const MutexLock lock(last_mutex_);
  if (last_.algorithm == runner.algorithm() && last_.why == runner.why()) {
    return;
  }
  last_.algorithm = runner.algorithm();
  last_.why = runner.why();
  if (options_.log != nullptr) {
    ONRT_LOG(options_.log, Nrt, Info, "{} #{} of group {}: {} over shm, {}",
             describe(runner.record()), runner.calls(), engine_.id(), last_.algorithm, last_.why);
  }
}

Status Group::run(const Call& call) {
  ONRT_RETURN_IF_ERROR(check_process());
  if (has_worker_.load()) {
    bool queued = false;
    {
      const MutexLock lock(queue_mutex_);
      queued = working_ || !queue_.empty();
    }
    if (queued) {
      ONRT_ASSIGN_OR_RETURN(const RequestRef request, start(call));
      return request->wait();
    }
  }
  return run_now(call);
}

void Group::ensure_worker() {
  if (!worker_.joinable()) {
    worker_ = std::thread([this] { work(); });
    has_worker_.store(true);
  }
}

Result<RequestRef> Group::start(Call call, std::shared_ptr<void> keep) {
  ONRT_RETURN_IF_ERROR(check_process());
  ONRT_RETURN_IF_ERROR(job_.status());
  auto request = std::make_shared<Request>();
  {
    const MutexLock lock(queue_mutex_);
    ensure_worker();
    queue_.push_back({std::move(call), request, std::move(keep)});
    queue_changed_.notify_all();
  }
  area_->wake(rank());
  return request;
}

Result<RequestRef> Group::start_message(Message message, std::shared_ptr<void> keep) {
  ONRT_RETURN_IF_ERROR(check_process());
  ONRT_RETURN_IF_ERROR(job_.status());
  if (message.peer < 0 || message.peer >= size() || message.peer == rank()) {
    return Status(NRT_INVALID, format("a message with rank {}: expected another one of 0 to {}",
                                      message.peer, size() - 1));
  }
  auto request = std::make_shared<Request>();
  message.done = [request, keep = std::move(keep)](Status status) mutable {
    keep.reset();  // before the waiter goes on
    request->finish(std::move(status));
  };
  pipes_.add(std::move(message));
  {
    const MutexLock lock(queue_mutex_);
    ensure_worker();
    queue_changed_.notify_all();
  }
  area_->wake(rank());
  return request;
}

Status Group::run_message(Message message) {
  ONRT_RETURN_IF_ERROR(check_process());
  ONRT_RETURN_IF_ERROR(job_.status());
  if (message.peer < 0 || message.peer >= size() || message.peer == rank()) {
    return Status(NRT_INVALID, format("a message with rank {}: expected another one of 0 to {}",
                                      message.peer, size() - 1));
  }
  auto request = std::make_shared<Request>();
  message.done = [request](Status status) { request->finish(std::move(status)); };
  pipes_.add(std::move(message));
  return drive_messages(*request);
}

bool Group::move_messages(Status* failure) {
  auto moved = pipes_.progress();
  if (!moved.ok()) {
    *failure = std::move(moved).status();
    return true;
  }
  return *moved;
}

// The failure of a message is that of the job.
void Group::end_messages(const Status& status) {
  if (!job_.boot().failed()) {
    Cause cause;
    cause.kind = CauseKind::kMismatch;
    cause.code = status.code();
    cause.reporter = job_.rank();
    cause.text = format("group {}: {}", engine_.id(), status.message());
    job_.boot().abort(cause);
  }
  pipes_.drop(status);
}

// One turn of a thread that waits for messages: moves what can be moved, else waits until some can
// or `enough()`.
template <class Enough>
void Group::take_turn(Waiter& waiter, const Enough& enough) {
  Status failure;
  bool moved = move_messages(&failure);
  WaitRecord wait;
  if (failure.ok() && !moved && pipes_.waits(&wait)) {
    const bool in_time = waiter.pause(wait, [&] {
      moved = move_messages(&failure);
      return moved || enough();
    });
    if (!in_time && failure.ok()) {
      const bool sends = wait.kind == static_cast<uint32_t>(WaitKind::kSend);
      failure = engine_.fail_wait(
          {format("{} of group {}", sends ? "send" : "receive", engine_.id()), wait}, {wait.rank});
    }
  }
  if (!failure.ok()) {
    end_messages(failure);
  }
  if (moved) {
    waiter.start();
  }
}

Status Group::drive_messages(const Request& until) {
  Waiter waiter(*area_, job_.boot(), rank(), options_);
  waiter.start();
  Status result;
  while (!until.test(&result)) {
    take_turn(waiter, [&] { return until.test(&result); });
  }
  return result;
}

void Group::work() {
  queue_mutex_.lock();
  while (!stop_) {
    if (!queue_.empty()) {
      Task task = std::move(queue_.front());
      queue_.pop_front();
      working_ = true;
      queue_mutex_.unlock();
      Status status = run_now(task.call);
      // Before waiters wake: who asks then finds nothing at work.
      queue_mutex_.lock();
      working_ = false;
      queue_mutex_.unlock();
      task.keep.reset();  // before the waiter goes on
      task.request->finish(std::move(status));
      worker_waiter_.start();
      queue_mutex_.lock();
    } else if (!pipes_.idle()) {
      queue_mutex_.unlock();
      take_turn(worker_waiter_, [this] {
        const MutexLock lock(queue_mutex_);
        return stop_ || !queue_.empty();
      });
      queue_mutex_.lock();
    } else {
      worker_waiter_.start();
      queue_changed_.wait(queue_mutex_);
    }
  }
  std::deque<Task> left = std::move(queue_);
  queue_.clear();
  queue_mutex_.unlock();
  for (const Task& task : left) {
    task.request->finish(Status(NRT_CLOSED, "the group was given up"));
  }
}

Group::LastCall Group::last() const {
  const MutexLock lock(last_mutex_);
  LastCall last = last_;
  last.calls = calls_.load();
  return last;
}

void Group::traffic(std::vector<uint64_t>* to, std::vector<uint64_t>* from) const {
  to->assign(sent_.begin(), sent_.end());
  from->assign(received_.begin(), received_.end());
  for (int peer = 0; peer < size(); ++peer) {
    (*to)[static_cast<size_t>(peer)] += pipes_.bytes_to(peer);
    (*from)[static_cast<size_t>(peer)] += pipes_.bytes_from(peer);
  }
}

}  // namespace onrt::cc
