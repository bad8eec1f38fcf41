// SPDX-License-Identifier: Apache-2.0
// How a rank gets its place in the tree: everything of Node until join() returns.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "collectives/boot/net.h"
#include "collectives/boot/node.h"
#include "collectives/boot/secret.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr std::chrono::seconds kHandshakePatience{5};
constexpr std::chrono::milliseconds kLongestPause{250};
// A job that ends may still hold the port, and answer on it.
constexpr std::chrono::seconds kOldJobPatience{3};
// Ranks that come late are told why the job failed.
constexpr std::chrono::seconds kLinger{1};
constexpr std::chrono::milliseconds kListenPause{20};
constexpr std::chrono::milliseconds kBeforeDeadline{100};
constexpr std::chrono::milliseconds kCancelPause{20};
constexpr std::chrono::seconds kMissingPause{15};
constexpr size_t kMostStrangers = 128;
constexpr uint64_t kMostRefusalLines = 20;

double seconds(Node::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

uint32_t children_of(uint32_t place, uint32_t size) {
  const uint64_t first = uint64_t{place} * kTreeFanOut + 1;
  return first >= size ? 0 : static_cast<uint32_t>(std::min<uint64_t>(kTreeFanOut, size - first));
}

}  // namespace

Node::Node(BootOptions options) : options_(std::move(options)) {}

// ---- on the caller's thread ----

Status Node::prepare() {
  if (options_.size < 1 || options_.size > kMostBootRanks || options_.rank < 0 ||
      options_.rank >= options_.size) {
    return Status(NRT_INVALID,
                  format("rank {} of {}: expected 1 to {} ranks and a rank below their number",
                         options_.rank, options_.size, kMostBootRanks));
  }
  join_start_ = Clock::now();
  join_deadline_ = join_start_ + options_.join_timeout;
  ONRT_ASSIGN_OR_RETURN(folder_, open_private_folder(options_.directory));
  remove_stale_sockets(folder_.get());
  host_id_ = options_.host_id.empty() ? host_identity(folder_.get()) : options_.host_id;
  ONRT_ASSIGN_OR_RETURN(HmacKey local, local_secret(folder_.get()));
  keys_.local = local;
  if (!options_.secret_file.empty()) {
    ONRT_ASSIGN_OR_RETURN(HmacKey given, secret_from_file(options_.secret_file));
    keys_.given = given;
  } else if (options_.secret_fd >= 0) {
    ONRT_ASSIGN_OR_RETURN(HmacKey given, secret_from_fd(options_.secret_fd));
    keys_.given = given;
  }
  return ok_status();
}

Status Node::join() {
  ONRT_RETURN_IF_ERROR(prepare());
  if (options_.size == 1) {
    return join_alone();
  }
  ONRT_ASSIGN_OR_RETURN(reactor_, Reactor::create([this](const char* what) {
                          fail(make_cause(CauseKind::kAborted, NRT_RESOURCE, options_.rank,
                                          format("rank {}: {}", options_.rank, what)));
                        }));
  const auto start = [this] { return options_.rank == 0 ? start_root() : start_member(); };
  Status status = start();
  if (status.ok()) {
    reactor_->run([this] {
      last_tick_ = Clock::now();
      last_told_missing_ = last_tick_;
      tick();
      check_cancelled();
    });
    status = wait_for_place();
  }
  if (status.ok()) {
    status = share_page();
  }
  if (status.ok()) {
    status = wait_for_all();
  }
  if (!status.ok()) {
    abort(make_cause(CauseKind::kAborted, status.code(), options_.rank,
                     format("rank {}: {}", options_.rank, status.message())));
    linger();
    const Status first = this->status();
    return first.ok() ? std::move(status) : first;
  }
  return ok_status();
}

Status Node::join_alone() {
  ONRT_ASSIGN_OR_RETURN(page_, AbortPage::create());
  ONRT_ASSIGN_OR_RETURN(const Nonce random, random_nonce());
  std::memcpy(&job_, random.data(), sizeof(job_));
  PeerInfo self;
  self.local = true;
  self.pid = ::getpid();
  self.host_name = own_host_name();
  peers_.push_back(std::move(self));
  const MutexLock lock(mutex_);
  shared_page_ = page_.get();
  return ok_status();
}

JoinMessage Node::describe_self() const {
  JoinMessage self;
  self.rank = static_cast<uint32_t>(options_.rank);
  self.size = static_cast<uint32_t>(options_.size);
  self.pid = static_cast<uint32_t>(::getpid());
  self.host_id = host_id_;
  self.host_name = own_host_name();
  self.fingerprint = options_.fingerprint;
  return self;
}

int Node::listen_at(const std::string& address) {
  int error = 0;
  reactor_->run([&] {
    auto result = reactor_->listen(address, options_.root.port, [this](ConnectionPtr connection) {
      on_accepted(std::move(connection));
    });
    listener_ = std::move(result.listener);
    error = result.error;
  });
  return error;
}

Status Node::start_root() {
  ONRT_ASSIGN_OR_RETURN(const Nonce random, random_nonce());
  std::memcpy(&job_, random.data(), sizeof(job_));
  roster_.emplace(job_, describe_self());
  table_.emplace(static_cast<uint32_t>(options_.size));
  ONRT_ASSIGN_OR_RETURN(std::vector<std::string> addresses, resolve(options_.root));
  // A name may stand for the loopback too, where other hosts can't reach us.
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const std::string& a) { return !a.starts_with("127."); });
  const auto patience = std::min(join_deadline_, Clock::now() + kOldJobPatience);
  int error = 0;
  do {
    for (const std::string& address : addresses) {
      error = listen_at(address);
      if (error == 0) {
        const MutexLock lock(mutex_);
        has_place_ = true;
        return ok_status();
      }
    }
    std::this_thread::sleep_for(kListenPause);
  } while (error == EADDRINUSE && Clock::now() < patience && !is_cancelled());
  std::string own;
  for (const std::string& address : own_addresses()) {
    own += (own.empty() ? "" : ", ") + address;
  }
  return Status(NRT_INVALID,
                format("can't listen at {}: {}; this host's addresses: {}", options_.root.text(),
                       std::generic_category().message(error), own));
}

Status Node::start_member() {
  Target target;
  target.port = options_.root.port;
  target.what = options_.root.text();
  while (true) {
    auto addresses = resolve(options_.root);
    if (addresses.ok()) {
      target.addresses = std::move(*addresses);
      break;
    }
    if (Clock::now() + kLongestPause >= join_deadline_ || is_cancelled()) {
      return std::move(addresses).status().annotate("address of rank 0");
    }
    std::this_thread::sleep_for(kLongestPause);
  }
  reactor_->run([&] {
    target_ = std::move(target);
    connect_to_target();
  });
  return ok_status();
}

Status Node::wait_for_place() {
  const MutexLock lock(mutex_);
  bool in_time = true;
  while (!has_place_ && !cause_ && in_time) {
    in_time = changed_.wait_until(mutex_, join_deadline_) || Clock::now() < join_deadline_;
  }
  if (cause_) {
    return cause_->status();
  }
  if (has_place_) {
    return ok_status();
  }
  return Status(NRT_TIMEOUT,
                format("waited {:.1f} s for rank {}: {}", seconds(Clock::now() - join_start_),
                       target_rank_, target_problem_));
}

Status Node::share_page() {
  const bool leader =
      options_.rank == 0 || static_cast<int>(welcome_->leader_rank) == options_.rank;
  if (leader) {
    ONRT_ASSIGN_OR_RETURN(page_, AbortPage::create());
    ONRT_ASSIGN_OR_RETURN(
        FdServer server,
        FdServer::open(folder_.get(), socket_name(job_, format("{}", options_.rank)),
                       {page_->memory_fd(), page_->event_fd()}));
    reactor_->run([&] {
      page_server_.emplace(std::move(server));
      page_server_watch_ = reactor_->watch(page_server_->fd(), [this] { page_server_->serve(); });
    });
  } else {
    auto fds = fetch_fds(folder_.get(), socket_name(job_, format("{}", welcome_->leader_rank)), 2,
                         join_deadline_ - kBeforeDeadline, [this] { return !status().ok(); });
    if (!fds.ok()) {
      return std::move(fds).status().annotate(
          format("rank {}, the first of this host", welcome_->leader_rank));
    }
    ONRT_ASSIGN_OR_RETURN(page_, AbortPage::adopt(std::move((*fds)[0]), std::move((*fds)[1])));
  }
  {
    const MutexLock lock(mutex_);
    shared_page_ = page_.get();
    if (cause_) {
      shared_page_->set(*cause_);
      return cause_->status();
    }
  }
  reactor_->run([this] {
    page_event_watch_ = reactor_->watch(page_->event_fd(), [this] {
      if (const auto cause = page_->cause()) {
        fail(*cause);
      }
      // Without a cause somebody only played with the descriptor.
      reactor_->unwatch(page_event_watch_);
    });
  });
  return ok_status();
}

Status Node::wait_for_all() {
  ONRT_ASSIGN_OR_RETURN(const ByteVector result,
                        exchange(ExchangeKind::kJoinDone, 0, {}, {}, join_deadline_));
  const auto members = parse_description(result, static_cast<size_t>(options_.size));
  if (!members) {
    return Status(NRT_FAILURE, "rank 0 sent a list of ranks that no rank sends");
  }
  for (int rank = 0; rank < options_.size; ++rank) {
    const MemberDescription& member = (*members)[static_cast<size_t>(rank)];
    PeerInfo peer;
    peer.rank = rank;
    peer.local = member.host_id == host_id_;
    peer.host = static_cast<int>(member.host);
    peer.pid = static_cast<int>(member.pid);
    peer.host_name = member.host_name;
    peers_.push_back(std::move(peer));
  }
  reactor_->run([this] {
    joined_ = true;
    listener_.reset();
    reactor_->unwatch(page_server_watch_);
    page_server_.reset();
    for (const PeerLinkPtr& link : strangers_) {
      link->close();
    }
    strangers_.clear();
  });
  inform(format("{} ranks are together after {:.3f} s", options_.size,
                seconds(Clock::now() - join_start_)));
  return ok_status();
}

void Node::linger() {
  const auto until = Clock::now() + kLinger;
  reactor_->run([this] { check_all_told(); });
  const MutexLock lock(mutex_);
  while (!all_told_ && Clock::now() < until) {
    changed_.wait_until(mutex_, until);
  }
}

void Node::check_cancelled() {
  if (is_cancelled()) {
    fail(make_cause(CauseKind::kAborted, NRT_FAILURE, options_.rank,
                    format("rank {} gave up joining", options_.rank)));
  } else if (options_.cancel != nullptr && !joined_ && !closing_) {
    reactor_->after(kCancelPause, [this] { check_cancelled(); });
  }
}

void Node::tell_who_is_missing(Clock::time_point now) {
  if (joined_ || !roster_ || now - last_told_missing_ < kMissingPause) {
    return;
  }
  last_told_missing_ = now;
  const std::vector<uint32_t> absent = roster_->not_joined();
  warn(absent.empty() ? "all ranks have come; some have not answered yet"
                      : format("{:.0f} s at {}: still waiting for {}", seconds(now - join_start_),
                               options_.root.text(), rank_list(absent)));
}

// ---- going to the root and to the parent (control thread) ----

void Node::connect_to_target() {
  if (closing_ || cause()) {
    return;
  }
  const std::string& address = target_.addresses[target_.next++ % target_.addresses.size()];
  ++target_.attempts;
  {
    const MutexLock lock(mutex_);
    target_rank_ = target_.rank;
    target_problem_ =
        format("{} ({} attempts at {})", target_.last_problem, target_.attempts, target_.what);
  }
  reactor_->connect(address, target_.port, kHandshakePatience,
                    [this](ConnectionPtr connection, const std::string& why) {
                      on_connected(std::move(connection), why);
                    });
}

void Node::on_connected(ConnectionPtr connection, const std::string& why) {
  if (!connection) {
    retry_target(why);
    return;
  }
  if (closing_) {
    connection->close();
    return;
  }
  const auto nonce = random_nonce();
  if (!nonce.ok()) {
    retry_target(std::string(nonce.status().message()));
    return;
  }
  const KeyKind kind = keys_.given                                  ? KeyKind::kGiven
                       : is_own_address(connection->peer_address()) ? KeyKind::kLocal
                                                                    : KeyKind::kPublic;
  if (!listener_ && !welcome_) {
    // Where this rank would take children: on the way to the root, so others of it reach us there.
    auto result = reactor_->listen(connection->local_address(), 0,
                                   [this](ConnectionPtr child) { on_accepted(std::move(child)); });
    listener_ = std::move(result.listener);
  }
  pending_ = PeerLink::client(std::move(connection), keys_, kind, *nonce);
  const std::weak_ptr<PeerLink> weak = pending_;
  pending_->start({[this] { on_client_ready(); },
                   [this, weak](const Frame& frame) {
                     const PeerLinkPtr link = weak.lock();
                     if (link && link == pending_) {
                       on_client_frame(frame);
                     } else if (link) {
                       on_frame(link, frame);
                     }
                   },
                   [this, weak](PeerLink::Trouble trouble, const std::string& problem) {
                     const PeerLinkPtr link = weak.lock();
                     if (link && link == pending_) {
                       on_target_trouble(trouble, problem);
                     } else if (link) {
                       on_lost(link, trouble, problem);
                     }
                   }});
  reactor_->after(kHandshakePatience, [this, weak] {
    const PeerLinkPtr link = weak.lock();
    if (link && link == pending_ && !link->ready()) {
      link->close();
      on_target_trouble(PeerLink::Trouble::kClosed, "it accepts connections but does not answer");
    }
  });
}

void Node::on_client_ready() {
  tell_compatibility(pending_);
  said_who_ = true;
  if (welcome_) {
    LinkMessage message;
    message.job = job_;
    message.rank = static_cast<uint32_t>(options_.rank);
    message.pid = static_cast<uint32_t>(::getpid());
    message.host_id = host_id_;
    pending_->send(FrameType::kLink, message.encode());
    return;
  }
  JoinMessage message = describe_self();
  message.address = pending_->connection().local_address();
  message.port = listener_ ? listener_->port() : 0;
  const MutexLock lock(mutex_);
  target_problem_ = format("it knows this rank but has not answered ({})", target_.what);
  pending_->send(FrameType::kJoin, message.encode());
}

void Node::on_client_frame(const Frame& frame) {
  if (frame.type == FrameType::kAbort) {
    if (const auto cause = parse_cause(frame.payload)) {
      fail(*cause);
      return;
    }
  }
  if (frame.type == FrameType::kPing) {
    return;
  }
  if (frame.type == FrameType::kWelcome && !welcome_) {
    on_welcome(frame);
    return;
  }
  if (frame.type == FrameType::kLinked && welcome_) {
    on_linked();
    return;
  }
  fail(make_cause(CauseKind::kProtocol, NRT_FAILURE, target_.rank,
                  format("rank {} at {} sent a frame of type {} out of turn", target_.rank,
                         target_.what, static_cast<int>(frame.type))));
}

void Node::on_welcome(const Frame& frame) {
  auto welcome = WelcomeMessage::parse(frame.payload);
  if (!welcome) {
    fail(make_cause(CauseKind::kProtocol, NRT_FAILURE, 0,
                    "rank 0 sent a welcome that no rank sends"));
    return;
  }
  welcome_ = std::move(welcome);
  job_ = welcome_->job;
  if (children_of(welcome_->place, static_cast<uint32_t>(options_.size)) == 0) {
    listener_.reset();
  }
  if (welcome_->parent_address.empty()) {
    on_linked();
    return;
  }
  pending_->close();
  pending_.reset();
  said_who_ = false;
  target_ = Target();
  target_.addresses = {welcome_->parent_address};
  target_.port = welcome_->parent_port;
  target_.rank = static_cast<int>(welcome_->parent_rank);
  target_.what = format("{}:{}", welcome_->parent_address, welcome_->parent_port);
  connect_to_target();
}

void Node::on_linked() {
  const PeerLinkPtr link = std::move(pending_);
  pending_.reset();
  adopt(link, static_cast<int>(welcome_->parent_rank), welcome_->parent_is_local != 0,
        static_cast<int>(welcome_->parent_pid));
  const auto early = std::move(early_links_);
  early_links_.clear();
  for (const auto& [child, message] : early) {
    on_link(child, message);
  }
  const MutexLock lock(mutex_);
  has_place_ = true;
  changed_.notify_all();
}

void Node::on_target_trouble(PeerLink::Trouble trouble, const std::string& why) {
  pending_.reset();
  if (said_who_) {
    fail(make_cause(CauseKind::kPeerDied, NRT_EXEC_HW_ERR_COLLECTIVES, target_.rank,
                    format("rank {} at {} ended while rank {} joined: {}", target_.rank,
                           target_.what, options_.rank, why)));
    return;
  }
  if (trouble == PeerLink::Trouble::kRefused) {
    // A job that is ending may still answer here; a wrong secret stays wrong.
    if (!target_.first_refusal) {
      target_.first_refusal = Clock::now();
    }
    if (Clock::now() - *target_.first_refusal >= kOldJobPatience ||
        Clock::now() + kLongestPause >= join_deadline_) {
      fail(make_cause(CauseKind::kRefused, NRT_INVALID, options_.rank,
                      format("rank {} and rank {} at {} don't trust each other: {}", options_.rank,
                             target_.rank, target_.what, why)));
      return;
    }
  }
  retry_target(why);
}

void Node::retry_target(const std::string& why) {
  target_.last_problem = why;
  {
    const MutexLock lock(mutex_);
    target_problem_ = format("{} ({} attempts at {})", why, target_.attempts, target_.what);
  }
  reactor_->after(target_.pause, [this] { connect_to_target(); });
  target_.pause = std::min(target_.pause * 3 / 2 + std::chrono::milliseconds(1), kLongestPause);
}

// ---- whoever comes to us (control thread) ----

void Node::on_accepted(ConnectionPtr connection) {
  const auto nonce = random_nonce();
  if (closing_ || !nonce.ok()) {
    connection->close();
    return;
  }
  make_room_for_stranger();
  KeyPolicy policy;
  policy.allow_public = !is_own_address(connection->peer_address());
  const PeerLinkPtr link = PeerLink::server(std::move(connection), keys_, policy, *nonce);
  strangers_.push_back(link);
  const std::weak_ptr<PeerLink> weak = link;
  link->start({[this, weak] {
                 if (const PeerLinkPtr ready = weak.lock()) {
                   tell_compatibility(ready);
                 }
               },
               [this, weak](const Frame& frame) {
                 const PeerLinkPtr from = weak.lock();
                 if (from && from->rank < 0) {
                   on_first_frame(from, frame);
                 } else if (from) {
                   on_frame(from, frame);
                 }
               },
               [this, weak](PeerLink::Trouble trouble, const std::string& why) {
                 const PeerLinkPtr from = weak.lock();
                 if (from && from->rank < 0) {
                   on_stranger_trouble(from, why);
                 } else if (from) {
                   on_lost(from, trouble, why);
                 }
               }});
  reactor_->after(kHandshakePatience, [this, weak] {
    const PeerLinkPtr late = weak.lock();
    const bool waits = late &&
                       std::find(strangers_.begin(), strangers_.end(), late) != strangers_.end() &&
                       std::none_of(early_links_.begin(), early_links_.end(),
                                    [&](const auto& early) { return early.first == late; });
    if (waits) {
      refuse(late, format("it did not say who it is within {} s", kHandshakePatience.count()));
    }
  });
}

void Node::make_room_for_stranger() {
  if (strangers_.size() < kMostStrangers) {
    return;
  }
  // Ranks prove themselves within milliseconds: the oldest that hasn't is none.
  const auto oldest = std::find_if(strangers_.begin(), strangers_.end(),
                                   [](const PeerLinkPtr& link) { return !link->ready(); });
  refuse(oldest == strangers_.end() ? strangers_.front() : *oldest,
         format("more than {} connections that say nothing", kMostStrangers));
}

void Node::forget_stranger(const PeerLinkPtr& link) { std::erase(strangers_, link); }

void Node::refuse(const PeerLinkPtr& link, const std::string& why) {
  const PeerLinkPtr keep = link;  // may be an element of strangers_
  on_stranger_trouble(keep, why);
  keep->close();
}

void Node::on_stranger_trouble(const PeerLinkPtr& link, const std::string& why) {
  forget_stranger(link);
  if (closing_ || link->connection().peer_text().empty()) {
    return;
  }
  last_refusal_ = format("{}: {}", link->connection().peer_text(), why);
  if (++refused_ <= kMostRefusalLines) {
    warn(format("refused a connection from {}", last_refusal_));
  }
}

void Node::tell_compatibility(const PeerLinkPtr& link) {
  if (link->kind() != KeyKind::kPublic || warned_of_compatibility_) {
    return;
  }
  warned_of_compatibility_ = true;
  warn(
      format("NO SECRET: {} is on another host and neither side has NRT_COMM_SECRET_FILE or "
             "NRT_COMM_SECRET_FD set: anybody who reaches {} can join or end this job",
             link->connection().peer_text(), options_.root.text()));
}

void Node::tell_and_close(const PeerLinkPtr& link, int rank) {
  forget_stranger(link);
  link->send(FrameType::kAbort, encode_cause(*cause()));
  link->close_after_sending();
  told_.insert(rank);
  check_all_told();
}

void Node::check_all_told() {
  const auto size = static_cast<uint32_t>(options_.size);
  const uint32_t place = welcome_ ? welcome_->place : 0;
  const bool can_be_reached = options_.rank == 0 || (welcome_ && listener_);
  const size_t expected = options_.rank == 0 ? size - 1 : children_of(place, size);
  size_t told = told_.size();
  if (roster_) {
    // Ranks with another parent than the root hear it from that one.
    for (uint32_t rank = 1; rank < size; ++rank) {
      const bool elsewhere = roster_->has_joined(rank) && !told_.contains(static_cast<int>(rank));
      told += elsewhere ? 1 : 0;
    }
  }
  const MutexLock lock(mutex_);
  if (!can_be_reached || told >= expected) {
    all_told_ = true;
    changed_.notify_all();
  }
}

void Node::on_first_frame(const PeerLinkPtr& link, const Frame& frame) {
  if (frame.type == FrameType::kJoin && roster_) {
    on_join(link, frame);
    return;
  }
  const auto message =
      frame.type == FrameType::kLink ? LinkMessage::parse(frame.payload) : std::nullopt;
  if (!message) {
    refuse(link, format("its first frame is of type {}", static_cast<int>(frame.type)));
    return;
  }
  if (!welcome_ && !roster_) {
    // Our own welcome is on its way.
    early_links_.emplace_back(link, *message);
    return;
  }
  on_link(link, *message);
}

void Node::on_link(const PeerLinkPtr& link, const LinkMessage& message) {
  if (message.job != job_ || children_.size() >= kTreeFanOut ||
      children_.contains(static_cast<int>(message.rank))) {
    refuse(link,
           format("rank {} of job {:016x} is none of our children", message.rank, message.job));
    return;
  }
  if (cause()) {
    tell_and_close(link, static_cast<int>(message.rank));
    return;
  }
  adopt(link, static_cast<int>(message.rank), message.host_id == host_id_,
        static_cast<int>(message.pid));
  link->send(FrameType::kLinked, {});
}

void Node::on_join(const PeerLinkPtr& link, const Frame& frame) {
  const auto message = JoinMessage::parse(frame.payload);
  if (!message) {
    refuse(link, "its request to join is none");
    return;
  }
  const int rank = static_cast<int>(message->rank);
  if (cause()) {
    tell_and_close(link, rank);
    return;
  }
  const Roster::Verdict verdict = roster_->admit(*message, link->connection().peer_text());
  if (verdict.problem) {
    fail(*verdict.problem);
    tell_and_close(link, rank);
    return;
  }
  link->send(FrameType::kWelcome, verdict.welcome.encode());
  const bool is_local = message->host_id == host_id_;
  if (verdict.welcome.parent_address.empty()) {
    adopt(link, rank, is_local, static_cast<int>(message->pid));
    return;
  }
  forget_stranger(link);
  link->close_after_sending();
  if (is_local) {
    const uint64_t watch = watch_process(static_cast<int>(message->pid), rank);
    if (watch != 0) {
      watched_joiners_[rank] = watch;
    }
  }
}

}  // namespace onrt::cc
