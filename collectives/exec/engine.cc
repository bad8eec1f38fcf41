// SPDX-License-Identifier: Apache-2.0
#include "collectives/exec/engine.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <fstream>
#include <set>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

using std::chrono::steady_clock;

// A sleeper looks that often whether the job has failed, should a wake-up be lost.
constexpr long kLongestSleepNs = 50'000'000;

int group_rank(const std::vector<int>& ranks, int rank) {
  const auto place = std::lower_bound(ranks.begin(), ranks.end(), rank);
  return static_cast<int>(place - ranks.begin());
}

// 'R', 'S', 'T' (stopped), ...; 0 when unknown.
char process_state(int pid) {
  std::ifstream file(format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(')');
  return end == std::string::npos || end + 2 >= text.size() ? '\0' : text[end + 2];
}

}  // namespace

Status failure_of(const Bootstrap& boot) {
  const auto cause = boot.cause();
  if (!cause) {
    return boot.status();
  }
  const bool lost = cause->kind == CauseKind::kPeerDied || cause->kind == CauseKind::kPeerSilent;
  return {lost ? NRT_EXEC_HW_ERR_COLLECTIVES : cause->code, cause->text};
}

Waiter::Waiter(const Area& area, Bootstrap& boot, int rank, const EngineOptions& options)
    : area_(area), boot_(boot), rank_(rank), options_(options) {}

void Waiter::spin() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

bool Waiter::yield() {
  if (rounds_ == options_.spins + 1) {
    deadline_ = steady_clock::now() + options_.timeout;
  }
  ::sched_yield();
  return true;
}

bool Waiter::expired() {
  if (rounds_ == options_.spins + 1) {
    deadline_ = steady_clock::now() + options_.timeout;
  }
  return steady_clock::now() >= deadline_;
}

void Waiter::prepare_sleep(const WaitRecord& wait) {
  area_.set_wait(rank_, wait);
  RankState& state = area_.state(rank_);
  bell_ = std::atomic_ref(state.doorbell).load();
  std::atomic_ref(state.sleeping).fetch_add(1);
}

void Waiter::sleep() {
  const timespec most = {0, kLongestSleepNs};
  ::syscall(SYS_futex, &area_.state(rank_).doorbell, FUTEX_WAIT, bell_, &most, nullptr, 0);
}

void Waiter::end_sleep() { std::atomic_ref(area_.state(rank_).sleeping).fetch_sub(1); }

Engine::Engine(Bootstrap& boot, std::vector<int> ranks, uint64_t id, const Area& area,
               PeerFiles& files, FlightRecord* flight, EngineOptions options)
    : boot_(boot),
      ranks_(std::move(ranks)),
      id_(id),
      area_(area),
      flight_(flight),
      options_(std::move(options)),
      endpoint_(area, files, ranks_, group_rank(ranks_, boot.rank())),
      runner_(endpoint_, options_.planner),
      waiter_(area, boot, endpoint_.rank(), options_) {
  std::atomic_ref(area_.state(rank()).pid).store(::getpid());
  subscription_ = boot_.subscribe([this] { area_.ring(rank()); });
}

Engine::~Engine() { boot_.unsubscribe(subscription_); }

Status Engine::run(const Call& call) {
  if (boot_.failed()) {
    return failure_of(boot_);
  }
  ONRT_RETURN_IF_ERROR(runner_.begin(call));
  const uint64_t entry = flight_ == nullptr ? 0 : flight_->begin(id_, runner_.record());
  const Status status = drive();
  if (flight_ != nullptr) {
    const std::vector<int> behind = status.ok() ? std::vector<int>() : runner_.behind();
    flight_->end(entry, status.code(), runner_.algorithm(),
                 behind.empty() ? -1 : ranks_[static_cast<size_t>(behind.front())],
                 runner_.wait().step);
  }
  return status;
}

Status Engine::drive() {
  waiter_.start();
  uint64_t window = 0;
  while (true) {
    auto done = runner_.advance();
    if (!done.ok()) {
      return fail(std::move(done).status());
    }
    if (*done) {
      return ok_status();
    }
    if (side_work_ && side_work_()) {
      continue;
    }
    // A long message has the time-out for each of its windows.
    if (runner_.wait().window != window) {
      window = runner_.wait().window;
      waiter_.start();
    }
    bool ended = false;
    Status failure;
    const bool in_time = waiter_.pause(runner_.wait(), [&] {
      auto again = runner_.advance();
      ended = again.ok() && *again;
      failure = again.ok() ? Status() : std::move(again).status();
      return ended || !failure.ok() || (side_work_ && side_work_());
    });
    if (!failure.ok()) {
      return fail(std::move(failure));
    }
    if (ended) {
      return ok_status();
    }
    if (!in_time) {
      const WaitRecord& wait = runner_.wait();
      return fail_wait(
          {format("{} #{} of group {}", describe(runner_.record()), runner_.calls(), id_), wait},
          runner_.behind());
    }
  }
}

// The failure of an operation is the failure of the job: peers would wait for ever.
Status Engine::fail(Status status) {
  if (boot_.failed()) {
    return failure_of(boot_);
  }
  Cause cause;
  cause.kind = status.code() == NRT_INVALID ? CauseKind::kMismatch : CauseKind::kAborted;
  cause.code = status.code();
  const int differing = runner_.differing_rank();
  cause.rank = differing < 0 ? -1 : ranks_[static_cast<size_t>(differing)];
  cause.reporter = boot_.rank();
  cause.text = format("group {}: {}", id_, status.message());
  boot_.abort(cause);
  return status;
}

std::vector<int> Engine::behind_of(int rank, const WaitRecord& wait) const {
  std::vector<int> behind;
  if (wait.channel >= kAreaChannels) {
    return behind;
  }
  const auto kind = static_cast<WaitKind>(wait.kind);
  if (kind == WaitKind::kEntry || kind == WaitKind::kBarrier) {
    for (int peer = 0; peer < area_.ranks(); ++peer) {
      const uint64_t there = kind == WaitKind::kEntry
                                 ? std::atomic_ref(area_.entered(peer)).load()
                                 : std::atomic_ref(area_.arrival(peer, wait.channel)).load();
      if (peer != rank && there < wait.target) {
        behind.push_back(peer);
      }
    }
  } else if (kind != WaitKind::kNone && wait.rank >= 0 && wait.rank < area_.ranks()) {
    const bool signal = kind == WaitKind::kSignal;
    if (!signal ||
        std::atomic_ref(area_.counter(wait.rank, rank, wait.channel)).load() < wait.target) {
      behind.push_back(wait.rank);
    }
  }
  return behind;
}

// Whoever is waited for may itself be waiting: follows that to a rank that isn't.
int Engine::find_culprit(const std::vector<int>& behind) const {
  std::set<int> seen;
  int rank = behind.front();
  for (const int candidate : behind) {  // a stopped one is it
    const int pid = std::atomic_ref(area_.state(candidate).pid).load();
    if (pid > 0 && process_state(pid) == 'T') {
      return candidate;
    }
  }
  while (seen.insert(rank).second) {
    const auto wait = area_.wait_of(rank);
    if (!wait || std::atomic_ref(area_.state(rank).sleeping).load() == 0) {
      return rank;
    }
    const std::vector<int> next = behind_of(rank, *wait);
    if (next.empty() || next.front() == endpoint_.rank()) {
      return rank;
    }
    rank = next.front();
  }
  return rank;
}

std::string Engine::state_of(int rank) const {
  const int pid = std::atomic_ref(area_.state(rank).pid).load();
  std::string text = format("rank {} (pid {}", ranks_[static_cast<size_t>(rank)], pid);
  switch (process_state(pid)) {
    case 'T':
      text += ", stopped by a signal";
      break;
    case 'Z':
    case 'X':
      text += ", ended";
      break;
    default:
      break;
  }
  text += ")";
  const uint64_t entered = std::atomic_ref(area_.entered(rank)).load();
  const uint64_t mine = std::atomic_ref(area_.entered(endpoint_.rank())).load();
  return text + (entered < mine ? " has not arrived" : " does not go on");
}

Status Engine::fail_wait(const Activity& activity, const std::vector<int>& behind) {
  const WaitRecord& wait = activity.wait;
  const std::string where = format("step {}, chunk {}", wait.step, wait.window);
  if (boot_.failed()) {
    const auto cause = boot_.cause();
    Status status = failure_of(boot_);
    return cause && cause->kind == CauseKind::kTimeout && cause->reporter == boot_.rank()
               ? std::move(status)
               : Status(status.code(),
                        format("{}; meanwhile rank {} was in {}, {}", status.message(),
                               boot_.rank(), activity.what, where));
  }
  Cause cause;
  cause.kind = CauseKind::kTimeout;
  cause.code = NRT_TIMEOUT;
  cause.reporter = boot_.rank();
  std::string waited = "nobody";
  if (!behind.empty()) {
    const int culprit = find_culprit(behind);
    cause.rank = ranks_[static_cast<size_t>(culprit)];
    waited = state_of(culprit);
  }
  cause.text = format("{}: {} within {} ms (NEURON_RT_EXEC_TIMEOUT); rank {} waited at {}",
                      activity.what, waited, options_.timeout.count(), boot_.rank(), where);
  boot_.abort(cause);
  return failure_of(boot_);
}

}  // namespace onrt::cc
