// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/node.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr size_t kPartBytes = 48 * 1024;
// What the root may take to say who is missing.
constexpr std::chrono::milliseconds kAnswerPatience{1000};
// A process' last frames may still be on their way when its end is noticed.
constexpr std::chrono::milliseconds kLastWords{20};
constexpr std::chrono::milliseconds kFlushPatience{300};

double seconds(Node::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Node::~Node() {
  if (reactor_) {
    reactor_->run([this] { close_everything(); });
    reactor_.reset();
  }
}

void Node::close_everything() {
  closing_ = true;
  listener_.reset();
  for (const PeerLinkPtr& link : strangers_) {
    link->close();
  }
  strangers_.clear();
  early_links_.clear();
  if (pending_) {
    pending_->close();
  }
  pending_.reset();
  for (const PeerLinkPtr& link : links()) {
    link->close_after_sending();
  }
  children_.clear();
  parent_.reset();
  for (const auto& [watch, fd] : watched_processes_) {
    reactor_->unwatch(watch);
  }
  watched_processes_.clear();
  reactor_->unwatch(page_server_watch_);
  page_server_.reset();
  reactor_->unwatch(page_event_watch_);
  reactor_->cancel(tick_timer_);
}

void Node::warn(const std::string& text) const {
  if (options_.log != nullptr) {
    ONRT_LOG(options_.log, Nrt, Warning, "rank {}: {}", options_.rank, text);
  }
}

void Node::inform(const std::string& text) const {
  if (options_.log != nullptr) {
    ONRT_LOG(options_.log, Nrt, Info, "rank {}: {}", options_.rank, text);
  }
}

Cause Node::make_cause(CauseKind kind, NRT_STATUS code, int rank, std::string text) const {
  Cause cause;
  cause.kind = kind;
  cause.code = code;
  cause.rank = rank;
  cause.reporter = options_.rank;
  cause.text = std::move(text);
  return cause;
}

std::vector<PeerLinkPtr> Node::links() const {
  std::vector<PeerLinkPtr> out;
  for (const auto& [rank, link] : children_) {
    out.push_back(link);
  }
  if (parent_) {
    out.push_back(parent_);
  }
  return out;
}

void Node::to_all(FrameType type, ByteSpan payload, const PeerLinkPtr& except) {
  for (const PeerLinkPtr& link : links()) {
    if (link != except) {
      link->send(type, payload);
    }
  }
}

// ---- failure ----

bool Node::record(const Cause& cause) {
  const MutexLock lock(mutex_);
  if (cause_) {
    return false;
  }
  cause_ = cause;
  cause_->text.resize(std::min(cause_->text.size(), kLongestCause));
  if (shared_page_ != nullptr && !shared_page_->set(*cause_)) {
    cause_ = shared_page_->cause();  // somebody on this host was first
  }
  changed_.notify_all();
  return true;
}

void Node::abort(Cause cause) {
  const auto valid = [this](int rank) { return rank >= 0 && rank < options_.size; };
  cause.code = cause.code == NRT_SUCCESS ? NRT_FAILURE : cause.code;
  cause.rank = valid(cause.rank) ? cause.rank : -1;
  cause.reporter = valid(cause.reporter) ? cause.reporter : options_.rank;
  record(cause);
  if (reactor_) {
    reactor_->post([this, cause] { fail(cause); });
  }
}

void Node::fail(const Cause& cause, const PeerLinkPtr& from) {
  record(cause);
  if (broadcast_cause_ || closing_) {
    return;
  }
  broadcast_cause_ = true;
  reactor_->unwatch(page_event_watch_);
  const Cause first = *this->cause();
  for (const auto& [rank, link] : children_) {
    told_.insert(rank);
  }
  to_all(FrameType::kAbort, encode_cause(first), from);
  check_all_told();
  const MutexLock lock(wake_mutex_);
  woke_subscribers_ = true;
  for (const auto& [id, wake] : subscribers_) {
    wake();
  }
}

uint64_t Node::subscribe(std::function<void()> wake) {
  const MutexLock lock(wake_mutex_);
  const uint64_t id = ++last_subscriber_;
  if (woke_subscribers_ || !reactor_) {
    if (cause()) {
      wake();
    }
  }
  subscribers_[id] = std::move(wake);
  return id;
}

void Node::unsubscribe(uint64_t id) {
  const MutexLock lock(wake_mutex_);
  subscribers_.erase(id);
}

std::optional<Cause> Node::cause() const {
  const MutexLock lock(mutex_);
  if (!cause_ && shared_page_ != nullptr) {
    return shared_page_->cause();
  }
  return cause_;
}

Status Node::status() const {
  const std::optional<Cause> first = cause();
  return first ? first->status() : ok_status();
}

Bootstrap::Counters Node::counters() const {
  Bootstrap::Counters counters;
  counters.sockets = reactor_ ? reactor_->open_sockets() : 0;
  counters.refused_connections = refused_.load(std::memory_order_relaxed);
  return counters;
}

// ---- neighbours ----

void Node::adopt(const PeerLinkPtr& link, int rank, bool is_local, int pid) {
  forget_stranger(link);
  link->rank = rank;
  link->is_local = is_local;
  link->pid = pid;
  if (is_local) {
    link->watch = watch_process(pid, rank);
  }
  if (welcome_ && static_cast<int>(welcome_->parent_rank) == rank && !parent_) {
    parent_ = link;
  } else {
    children_[rank] = link;
  }
}

uint64_t Node::watch_process(int pid, int rank) {
  // EOF would do, were it not for forked children of a dead rank that keep its sockets open.
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  fd = above_standard_streams(std::move(fd));
  if (!fd.valid()) {
    return 0;
  }
  const uint64_t watch =
      reactor_->watch(fd.get(), [this, pid, rank] { on_process_end(pid, rank); });
  if (watch != 0) {
    watched_processes_[watch] = std::move(fd);
  }
  return watch;
}

void Node::unwatch_process(uint64_t watch) {
  reactor_->unwatch(watch);
  watched_processes_.erase(watch);
}

void Node::on_process_end(int pid, int rank) {
  for (const PeerLinkPtr& link : links()) {
    if (link->rank == rank) {
      unwatch_process(link->watch);
      link->watch = 0;
      reactor_->after(kLastWords, [this, link] {
        if (!link->closed()) {
          on_lost(link, PeerLink::Trouble::kClosed, "its process has ended");
        }
      });
      return;
    }
  }
  const auto joiner = watched_joiners_.find(rank);
  if (joiner != watched_joiners_.end()) {
    unwatch_process(joiner->second);
    watched_joiners_.erase(joiner);
    fail(make_cause(CauseKind::kPeerDied, NRT_EXEC_HW_ERR_COLLECTIVES, rank,
                    format("rank {} (pid {}) ended while the job was starting", rank, pid)));
  }
}

void Node::drop(const PeerLinkPtr& link) {
  if (link->watch != 0) {
    unwatch_process(link->watch);
    link->watch = 0;
  }
  link->close();
  if (parent_ == link) {
    parent_.reset();
  }
  const auto child = children_.find(link->rank);
  if (child != children_.end() && child->second == link) {
    children_.erase(child);
  }
}

void Node::on_lost(const PeerLinkPtr& link, PeerLink::Trouble trouble, const std::string& why) {
  drop(link);
  if (closing_) {
    return;
  }
  if (trouble == PeerLink::Trouble::kRefused) {
    fail(make_cause(CauseKind::kProtocol, NRT_FAILURE, link->rank,
                    format("rank {} at {} sent what no rank sends: {}", link->rank,
                           link->connection().peer_text(), why)));
    return;
  }
  fail(make_cause(CauseKind::kPeerDied, NRT_EXEC_HW_ERR_COLLECTIVES, link->rank,
                  format("rank {} (pid {}, {}) ended without leaving the job: {}", link->rank,
                         link->pid, link->connection().peer_text(), why)));
}

void Node::tick() {
  const auto now = Clock::now();
  const auto interval = options_.heartbeat.interval;
  // This process was stopped or starved itself: what peers sent meanwhile is still unread.
  const bool slept = now - last_tick_ > 2 * interval;
  last_tick_ = now;
  for (const PeerLinkPtr& link : links()) {
    if (slept) {
      link->forgive_silence();
    }
    if (now - link->last_sent() >= interval) {
      link->send(FrameType::kPing, {});
    }
    check_link(link, now);
  }
  tell_who_is_missing(now);
  if (!closing_) {
    tick_timer_ = reactor_->after(interval, [this] { tick(); });
  }
}

void Node::check_link(const PeerLinkPtr& link, Clock::time_point now) {
  const auto silence = now - link->last_received();
  if (silence >= options_.heartbeat.dead && !link->is_local) {
    drop(link);
    fail(make_cause(CauseKind::kPeerSilent, NRT_TIMEOUT, link->rank,
                    format("rank {} at {} has given no sign of life for {:.1f} s", link->rank,
                           link->connection().peer_text(), seconds(silence))));
  } else if (silence >= options_.heartbeat.suspect && !link->suspected) {
    link->suspected = true;
    warn(format("rank {} (pid {}, {}) has given no sign of life for {:.1f} s", link->rank,
                link->pid, link->connection().peer_text(), seconds(silence)));
  }
}

void Node::on_frame(const PeerLinkPtr& link, const Frame& frame) {
  switch (frame.type) {
    case FrameType::kContribute:
      on_contribute(link, frame);
      return;
    case FrameType::kResult:
      on_result(frame);
      return;
    case FrameType::kAsk:
      on_ask(frame);
      return;
    case FrameType::kAbort:
      if (const auto cause = parse_cause(frame.payload)) {
        fail(*cause, link);
        return;
      }
      break;
    case FrameType::kLeave:
      on_leave(link, frame);
      return;
    case FrameType::kPing:
      return;
    default:
      break;
  }
  protocol_error(link, frame);
}

void Node::protocol_error(const PeerLinkPtr& link, const Frame& frame) {
  on_lost(
      link, PeerLink::Trouble::kRefused,
      format("frame of type {} with {} bytes", static_cast<int>(frame.type), frame.payload.size()));
}

// ---- exchanges ----

Result<ByteVector> Node::exchange(ExchangeKind kind, uint32_t source, ByteSpan mine,
                                  const RankGroup& group, Deadline deadline) {
  const auto start = Clock::now();
  const auto size = static_cast<uint32_t>(options_.size);
  ContributeMessage message;
  message.kind = kind;
  message.source = source;
  message.rank = static_cast<uint32_t>(options_.rank);
  message.members = member_bits(group.ranks, size);
  message.id.group = group_key(message.members, group.id);
  auto call = std::make_shared<Call>();
  {
    const MutexLock lock(mutex_);
    if (left_job_) {
      return Status(NRT_INVALID, format("rank {} has left the job", options_.rank));
    }
    message.id.number = next_number_[message.id.group]++;
    calls_[message.id] = call;
    // Posted under the lock: contributions travel in the order of their numbers.
    message.bytes.assign(mine.begin(), mine.end());
    reactor_->post([this, message] { contribute(message); });
  }
  const Status waited = wait_for(message.id, kind, start, deadline);
  const MutexLock lock(mutex_);
  calls_.erase(message.id);
  if (!call->done) {
    return waited;
  }
  return std::move(call->result);
}

Status Node::wait_for(const ExchangeId& id, ExchangeKind kind, Clock::time_point start,
                      Deadline deadline) {
  bool asked = false;
  while (true) {
    {
      const MutexLock lock(mutex_);
      const auto call = calls_.find(id);
      const auto until = asked ? deadline + kAnswerPatience : deadline;
      bool in_time = true;
      while (!cause_ && !call->second->done && in_time) {
        in_time = changed_.wait_until(mutex_, until) || Clock::now() < until;
      }
      if (cause_) {
        return cause_->status();
      }
      if (call->second->done) {
        return ok_status();
      }
    }
    if (asked) {
      abort(make_cause(
          CauseKind::kTimeout, NRT_TIMEOUT, 0,
          format("{} number {}: rank {} waited {:.1f} s and rank 0 gave no answer", name_of(kind),
                 id.number, options_.rank, seconds(Clock::now() - start))));
      return status();
    }
    asked = true;
    AskMessage message;
    message.id = id;
    message.kind = kind;
    message.rank = static_cast<uint32_t>(options_.rank);
    message.waited_ms = static_cast<uint32_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count());
    reactor_->post([this, message] { ask(message); });
  }
}

void Node::contribute(const ContributeMessage& message) {
  ContributeMessage part = message;
  part.total = static_cast<uint32_t>(message.bytes.size());
  size_t offset = 0;
  do {
    const size_t size = std::min(kPartBytes, message.bytes.size() - offset);
    part.offset = static_cast<uint32_t>(offset);
    const auto from = message.bytes.begin() + static_cast<std::ptrdiff_t>(offset);
    part.bytes.assign(from, from + static_cast<std::ptrdiff_t>(size));
    if (offset > 0) {
      part.members.clear();
    }
    if (table_) {
      settle(table_->add(part), part);
    } else if (parent_) {
      parent_->send(FrameType::kContribute, part.encode());
    } else {
      fail(make_cause(CauseKind::kMismatch, NRT_INVALID, -1,
                      format("{}: the ranks between rank {} and rank 0 have left the job",
                             name_of(message.kind), options_.rank)));
    }
    offset += size;
  } while (offset < message.bytes.size());
}

void Node::on_contribute(const PeerLinkPtr& link, const Frame& frame) {
  auto part = ContributeMessage::parse(frame.payload);
  if (!part || link == parent_ || part->rank >= static_cast<uint32_t>(options_.size)) {
    protocol_error(link, frame);
  } else if (table_) {
    settle(table_->add(*part), *part);
  } else if (parent_) {
    parent_->send(FrameType::kContribute, frame.payload);
  }
}

void Node::settle(const ExchangeTable::Outcome& outcome, const ContributeMessage& part) {
  if (outcome.problem) {
    fail(*outcome.problem);
    return;
  }
  if (part.kind == ExchangeKind::kJoinDone) {
    const auto joiner = watched_joiners_.find(static_cast<int>(part.rank));
    if (joiner != watched_joiners_.end()) {
      unwatch_process(joiner->second);
      watched_joiners_.erase(joiner);
    }
  }
  if (outcome.result) {
    send_result(part.id,
                part.kind == ExchangeKind::kJoinDone ? roster_->describe() : *outcome.result);
  }
}

void Node::send_result(const ExchangeId& id, const ByteVector& result) {
  ResultMessage message;
  message.id = id;
  message.total = static_cast<uint32_t>(result.size());
  size_t offset = 0;
  do {
    const size_t size = std::min(kPartBytes, result.size() - offset);
    message.offset = static_cast<uint32_t>(offset);
    const auto from = result.begin() + static_cast<std::ptrdiff_t>(offset);
    message.bytes.assign(from, from + static_cast<std::ptrdiff_t>(size));
    Frame frame;
    frame.payload = message.encode();
    on_result(frame);
    offset += size;
  } while (offset < result.size());
}

void Node::on_result(const Frame& frame) {
  const auto message = ResultMessage::parse(frame.payload);
  if (!message) {
    fail(make_cause(CauseKind::kProtocol, NRT_FAILURE, 0, "a result that no rank sends"));
    return;
  }
  for (const auto& [rank, link] : children_) {
    link->send(FrameType::kResult, frame.payload);
  }
  const MutexLock lock(mutex_);
  const auto at = calls_.find(message->id);
  if (at == calls_.end()) {
    return;  // of a group without this rank
  }
  Call& call = *at->second;
  if (message->offset != call.result.size() || call.done) {
    return;
  }
  call.result.insert(call.result.end(), message->bytes.begin(), message->bytes.end());
  if (call.result.size() == message->total) {
    call.done = true;
    changed_.notify_all();
  }
}

void Node::ask(const AskMessage& message) {
  if (!table_) {
    if (parent_) {
      parent_->send(FrameType::kAsk, message.encode());
    }
    return;
  }
  if (!table_->is_over(message.id)) {
    fail(cause_of_asking(message));
  }
}

void Node::on_ask(const Frame& frame) {
  if (const auto message = AskMessage::parse(frame.payload)) {
    ask(*message);
  }
}

Cause Node::cause_of_asking(const AskMessage& message) const {
  const double waited = static_cast<double>(message.waited_ms) / 1000;
  const std::vector<uint32_t> absent = roster_->not_joined();
  std::vector<uint32_t> missing = table_->missing(message.id).value_or(std::vector<uint32_t>());
  std::erase_if(missing, [&](uint32_t rank) { return !roster_->has_joined(rank); });
  const std::vector<uint32_t> foremost = roster_->foremost(missing);
  std::string text = format("rank {} waited {:.1f} s in {} number {}", message.rank, waited,
                            name_of(message.kind), message.id.number);
  if (message.kind == ExchangeKind::kJoinDone) {
    text = format("rank {} waited {:.1f} s for the job to start at {}", message.rank, waited,
                  options_.root.text());
  }
  if (!absent.empty()) {
    text +=
        format(": {} of {} ranks came; {} did not", options_.size - static_cast<int>(absent.size()),
               options_.size, rank_list(absent));
  }
  if (!foremost.empty()) {
    text += format("; {} did not answer", rank_list(foremost));
    for (const uint32_t rank : foremost) {
      text += format(" (rank {} is pid {} on {})", rank, roster_->member(rank).pid,
                     one_line(roster_->member(rank).host_name));
      if (text.size() > kLongestCause / 2) {
        break;
      }
    }
    if (missing.size() > foremost.size()) {
      text += format("; {} more wait behind", missing.size() - foremost.size());
    }
  }
  if (refused_ > 0 && !joined_) {
    text +=
        format("; {} connections were refused, the last one: {}", refused_.load(), last_refusal_);
  }
  const int culprit = !foremost.empty() ? static_cast<int>(foremost[0])
                      : absent.empty()  ? -1
                                        : static_cast<int>(absent[0]);
  Cause cause = make_cause(CauseKind::kTimeout, NRT_TIMEOUT, culprit, std::move(text));
  cause.reporter = static_cast<int>(message.rank);
  return cause;
}

// ---- leaving ----

void Node::on_leave(const PeerLinkPtr& link, const Frame& frame) {
  const auto rank = parse_leave(frame.payload);
  if (!rank) {
    protocol_error(link, frame);
    return;
  }
  if (static_cast<int>(*rank) == link->rank) {
    drop(link);
  }
  if (table_) {
    if (const auto cause = table_->leave(*rank)) {
      fail(*cause);
    }
  } else if (parent_) {
    parent_->send(FrameType::kLeave, frame.payload);
  }
}

void Node::leave() {
  {
    const MutexLock lock(mutex_);
    if (left_job_) {
      return;
    }
    left_job_ = true;
  }
  if (!reactor_) {
    return;
  }
  reactor_->run([this] {
    to_all(FrameType::kLeave, encode_leave(static_cast<uint32_t>(options_.rank)));
    close_everything();
  });
  // Frames that the kernel would not take at once.
  const auto patience = Clock::now() + kFlushPatience;
  while (reactor_->open_sockets() > 0 && Clock::now() < patience) {
    ::usleep(1000);
  }
}

}  // namespace onrt::cc
