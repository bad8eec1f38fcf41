// SPDX-License-Identifier: Apache-2.0
#include "collectives/api/job.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

std::atomic<uint64_t> forks{0};

void count_fork() { forks.fetch_add(1); }

// Processors that this process may use; the first one when the host has too many for a cpu_set_t.
cpu_set_t own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) {
    CPU_SET(0, &set);
  }
  return set;
}

// Looks before the first sched_yield(): about what a wake-up costs.
constexpr int kSpins = 2000;

}  // namespace

uint64_t fork_generation() {
  static const int kRegistered = ::pthread_atfork(nullptr, nullptr, count_fork);
  static_cast<void>(kRegistered);
  return forks.load(std::memory_order_relaxed);
}

Result<EngineOptions> engine_options(const Context& context) {
  EngineOptions options;
  const Settings& settings = context.settings;
  options.timeout = std::chrono::seconds(settings.integer(Setting::kExecTimeout));
  options.planner.deterministic = settings.flag(Setting::kCcDeterministic);
  options.planner.algorithm = std::string(settings.text(Setting::kCcAlgorithm));
  options.log = context.log.get();
  return options;
}

Status Job::offer_files(std::vector<UniqueFd> files, Deadline deadline) {
  std::vector<int> numbers;
  numbers.reserve(files.size());
  for (const UniqueFd& file : files) {
    numbers.push_back(file.get());
  }
  ONRT_ASSIGN_OR_RETURN(auto offered, boot_->exchange_fds(numbers, deadline));
  for (int rank = 0; rank < size(); ++rank) {
    auto& theirs = rank == boot_->rank() ? files : offered[static_cast<size_t>(rank)];
    ONRT_RETURN_IF_ERROR(
        files_.add(rank, std::move(theirs)).annotate(format("memory of rank {}", rank)));
  }
  return ok_status();
}

// Algorithms are chosen by it, so it has to be one number: launchers bind each rank to processors
// of its own, and a rank alone sees only those.
Result<int> Job::count_processors(Deadline deadline) {
  const cpu_set_t own = own_processors();
  ONRT_ASSIGN_OR_RETURN(const auto sets,
                        boot_->all_gather(std::as_bytes(std::span(&own, 1)), deadline));
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const auto& payload : sets) {
    cpu_set_t theirs;
    if (payload.size() != sizeof(theirs)) {
      return Status(NRT_INVALID, format("processors of a rank: expected {} bytes, found {}",
                                        sizeof(theirs), payload.size()));
    }
    std::memcpy(&theirs, payload.data(), sizeof(theirs));
    CPU_OR(&all, &all, &theirs);
  }
  return std::max(1, CPU_COUNT(&all));
}

Result<std::unique_ptr<Job>> Job::join(JobOptions options) {
  auto job = std::unique_ptr<Job>(new Job);
  job->fork_generation_ = cc::fork_generation();
  const Deadline deadline = std::chrono::steady_clock::now() + options.boot.join_timeout;
  const std::string directory = options.boot.directory;
  ONRT_ASSIGN_OR_RETURN(job->boot_, Bootstrap::join(std::move(options.boot)));
  for (int rank = 0; rank < job->size(); ++rank) {
    if (!job->boot_->peer(rank).local) {
      return Status(NRT_INVALID,
                    format("rank {} runs on host {} with another machine directory: collectives "
                           "need all ranks on one host",
                           rank, job->boot_->peer(rank).host_name));
    }
  }
  ONRT_RETURN_IF_ERROR(job->offer_files(std::move(options.files), deadline));
  job->engine_ = options.engine;
  ONRT_ASSIGN_OR_RETURN(const int cpus, job->count_processors(deadline));
  job->engine_.planner.scratch_bytes = kScratchBytes / 2;
  job->engine_.planner.window_bytes = kPipeSlotBytes;
  job->engine_.planner.ranks_per_core =
      std::max(1.0, static_cast<double>(job->size()) / static_cast<double>(cpus));
  job->engine_.spins = job->size() > cpus ? 0 : kSpins;
  if (options.flight) {
    auto flight = FlightRecord::open(directory, job->boot_->job_id(), job->rank(), job->size());
    if (flight.ok()) {
      job->flight_ = std::move(flight).value();
    } else if (options.engine.log != nullptr) {
      ONRT_LOG(options.engine.log, Nrt, Warning, "{}", flight.status().message());
    }
  }
  return job;
}

Job::~Job() {
  if (flight_ != nullptr && !boot_->failed()) {
    flight_->discard();
  }
}

Result<std::unique_ptr<Group>> Job::make_group(std::vector<int> ranks) {
  if (fork_generation_ != cc::fork_generation()) {
    return Status(NRT_INVALID,
                  "this process was forked from one with a communicator: make one of its own");
  }
  std::sort(ranks.begin(), ranks.end());
  const bool repeated = std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end();
  if (ranks.empty() || repeated || ranks.front() < 0 || ranks.back() >= size() ||
      !std::binary_search(ranks.begin(), ranks.end(), rank())) {
    std::string list;
    for (const int member : ranks) {
      list += format("{}{}", list.empty() ? "" : ", ", member);
    }
    return Status(NRT_INVALID, format("group [{}]: expected different ranks of 0 to {}, among them "
                                      "this one, {}",
                                      list, size() - 1, rank()));
  }
  uint64_t nth = 0;
  {
    const MutexLock lock(mutex_);
    nth = made_[ranks]++;
  }
  // Same on all members, and theirs alone: the ranks, and how many groups of them there were.
  uint64_t id = nth;
  for (const int member : ranks) {
    id = (id * 1000003 + static_cast<uint64_t>(member) + 1) & 0xffffffffffull;
  }
  const bool whole = static_cast<int>(ranks.size()) == size();
  id = whole ? nth : id | 1ull << 40;
  const cc::Deadline deadline =
      std::chrono::steady_clock::now() + engine_.timeout + std::chrono::seconds(30);
  const RankGroup members = {ranks, id};
  UniqueFd fd;
  std::vector<int> mine;
  if (rank() == ranks.front()) {
    ONRT_ASSIGN_OR_RETURN(fd, Area::create(static_cast<int>(ranks.size())));
    mine.push_back(fd.get());
  }
  if (ranks.size() > 1) {
    ONRT_ASSIGN_OR_RETURN(auto offered, boot_->exchange_fds(mine, deadline, members));
    if (!fd.valid()) {
      if (offered.front().size() != 1) {
        return Status(NRT_FAILURE, format("rank {} offers no memory for the group", ranks.front()));
      }
      fd = std::move(offered.front().front());
    }
  }
  ONRT_ASSIGN_OR_RETURN(std::unique_ptr<Area> area, Area::map(fd, static_cast<int>(ranks.size())));
  return std::unique_ptr<Group>(new Group(*this, std::move(ranks), id, std::move(area), engine_));
}

Result<std::unique_ptr<Group>> Job::split(Group& parent, int colour) {
  const auto n = static_cast<size_t>(parent.size());
  std::vector<int32_t> colours(n);
  int32_t mine = colour;
  Call call;
  call.op = Op::kAllGather;
  call.dtype = Dtype::kS32;
  call.count = 1;
  call.in = {reinterpret_cast<std::byte*>(&mine), sizeof(mine), {}};
  call.out = {reinterpret_cast<std::byte*>(colours.data()), n * sizeof(int32_t), {}};
  ONRT_RETURN_IF_ERROR(parent.run(call));
  if (colour < 0) {
    return std::unique_ptr<Group>();
  }
  std::vector<int> ranks;
  for (size_t i = 0; i < n; ++i) {
    if (colours[i] == colour) {
      ranks.push_back(parent.ranks()[i]);
    }
  }
  return make_group(std::move(ranks));
}

void Job::abort(const std::string& why) {
  Cause cause;
  cause.kind = CauseKind::kAborted;
  cause.code = NRT_FAILURE;
  cause.rank = rank();
  cause.reporter = rank();
  cause.text = why;
  boot_->abort(cause);
}

Status Job::status() const { return failure_of(*boot_); }

}  // namespace onrt::cc
