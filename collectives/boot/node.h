// SPDX-License-Identifier: Apache-2.0
// One rank's place in the control tree: joining, exchanges, life signs, aborts. Bootstrap is a thin
// cover of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives/boot/abort_page.h"
#include "collectives/boot/boot.h"
#include "collectives/boot/exchange.h"
#include "collectives/boot/fd_share.h"
#include "collectives/boot/messages.h"
#include "collectives/boot/peer_link.h"
#include "collectives/boot/reactor.h"
#include "collectives/boot/roster.h"
#include "runtime/base/mutex.h"

namespace onrt::cc {

class Node {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Node(BootOptions options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  Status join();  // once
  // What all members of the group get; see ExchangeTable::take_result.
  Result<ByteVector> exchange(ExchangeKind kind, uint32_t source, ByteSpan mine,
                              const RankGroup& group, Deadline deadline);
  void abort(Cause cause);
  void leave();
  uint64_t subscribe(std::function<void()> wake);
  void unsubscribe(uint64_t id);
  std::optional<Cause> cause() const;
  Status status() const;

  const BootOptions& options() const { return options_; }
  const std::vector<PeerInfo>& peers() const { return peers_; }
  uint64_t job() const { return job_; }
  int folder() const { return folder_.get(); }
  const AbortPage& page() const { return *page_; }
  Bootstrap::Counters counters() const;
  Reactor& reactor() { return *reactor_; }

 private:
  struct Call {
    bool done = false;
    uint32_t received = 0;
    ByteVector result;
  };
  struct Target {
    std::vector<std::string> addresses;
    uint16_t port = 0;
    std::string what;  // for messages
    int rank = 0;
    size_t next = 0;
    int attempts = 0;
    std::chrono::milliseconds pause{5};
    std::string last_problem = "nothing tried yet";
    std::optional<Clock::time_point> first_refusal;
  };

  // joining.cc: on the caller's thread
  Status prepare();
  Status join_alone();
  Status start_root();
  Status start_member();
  Status wait_for_place();
  Status share_page();
  Status wait_for_all();
  void linger();
  bool is_cancelled() const {
    return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed);
  }
  int listen_at(const std::string& address);
  JoinMessage describe_self() const;

  // joining.cc: on the control thread
  void connect_to_target();
  void on_connected(ConnectionPtr connection, const std::string& why);
  void retry_target(const std::string& why);
  void on_client_ready();
  void on_client_frame(const Frame& frame);
  void on_target_trouble(PeerLink::Trouble trouble, const std::string& why);
  void on_accepted(ConnectionPtr connection);
  void on_stranger_trouble(const PeerLinkPtr& link, const std::string& why);
  void on_first_frame(const PeerLinkPtr& link, const Frame& frame);
  void on_join(const PeerLinkPtr& link, const Frame& frame);
  void on_link(const PeerLinkPtr& link, const LinkMessage& message);
  void on_welcome(const Frame& frame);
  void on_linked();
  void got_place();
  void forget_stranger(const PeerLinkPtr& link);
  void make_room_for_stranger();
  void refuse(const PeerLinkPtr& link, const std::string& why);
  void tell_compatibility(const PeerLinkPtr& link);
  void tell_and_close(const PeerLinkPtr& link, int rank);
  void check_all_told();
  void check_cancelled();
  void tell_who_is_missing(Clock::time_point now);

  // node.cc: on the control thread
  void adopt(const PeerLinkPtr& link, int rank, bool is_local, int pid);
  void on_frame(const PeerLinkPtr& link, const Frame& frame);
  void on_contribute(const PeerLinkPtr& link, const Frame& frame);
  void on_result(const Frame& frame);
  void on_ask(const Frame& frame);
  void on_leave(const PeerLinkPtr& link, const Frame& frame);
  void on_lost(const PeerLinkPtr& link, PeerLink::Trouble trouble, const std::string& why);
  uint64_t watch_process(int pid, int rank);
  void unwatch_process(uint64_t watch);
  void on_process_end(int pid, int rank);
  void drop(const PeerLinkPtr& link);
  void tick();
  void check_link(const PeerLinkPtr& link, Clock::time_point now);
  void contribute(const ContributeMessage& message);
  void settle(const ExchangeTable::Outcome& outcome, const ContributeMessage& part);
  void send_result(const ExchangeId& id, const ByteVector& result);
  void ask(const AskMessage& message);
  void protocol_error(const PeerLinkPtr& link, const Frame& frame);
  void fail(const Cause& cause, const PeerLinkPtr& from = nullptr);
  void to_all(FrameType type, ByteSpan payload, const PeerLinkPtr& except = nullptr);
  std::vector<PeerLinkPtr> links() const;
  void close_everything();
  Cause cause_of_asking(const AskMessage& message) const;
  Cause make_cause(CauseKind kind, NRT_STATUS code, int rank, std::string text) const;

  // any thread
  bool record(const Cause& cause);
  Status wait_for(const ExchangeId& id, ExchangeKind kind, Clock::time_point start,
                  Deadline deadline);
  void warn(const std::string& text) const;
  void inform(const std::string& text) const;

  BootOptions options_;
  KeyRing keys_;
  UniqueFd folder_;
  std::string host_id_;
  Clock::time_point join_start_;
  Deadline join_deadline_;
  std::unique_ptr<AbortPage> page_;  // set before join() returns
  std::vector<PeerInfo> peers_;
  uint64_t job_ = 0;

  // Control thread only.
  std::unique_ptr<Listener> listener_;
  std::vector<PeerLinkPtr> strangers_;  // accepted, not identified, oldest first
  std::map<int, PeerLinkPtr> children_;
  PeerLinkPtr parent_;
  PeerLinkPtr pending_;  // outgoing, while joining
  Target target_;
  std::optional<Roster> roster_;        // root
  std::optional<ExchangeTable> table_;  // root
  std::optional<WelcomeMessage> welcome_;
  std::set<int> told_;  // ranks that were sent the cause
  std::map<uint64_t, UniqueFd> watched_processes_;
  std::map<int, uint64_t> watched_joiners_;  // root: rank -> watch, until it has its parent
  std::vector<std::pair<PeerLinkPtr, LinkMessage>> early_links_;  // came before our own welcome
  bool said_who_ = false;  // to the target: trying again would count as a second rank
  std::optional<FdServer> page_server_;
  uint64_t page_server_watch_ = 0;
  uint64_t page_event_watch_ = 0;
  uint64_t tick_timer_ = 0;
  Clock::time_point last_tick_;
  Clock::time_point last_told_missing_;
  bool warned_of_compatibility_ = false;
  bool broadcast_cause_ = false;
  bool closing_ = false;
  bool joined_ = false;
  std::string last_refusal_;
  std::set<int> left_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<Cause> cause_ ONRT_GUARDED_BY(mutex_);
  bool has_place_ ONRT_GUARDED_BY(mutex_) = false;
  bool all_told_ ONRT_GUARDED_BY(mutex_) = false;
  bool left_job_ ONRT_GUARDED_BY(mutex_) = false;
  std::map<ExchangeId, std::shared_ptr<Call>> calls_ ONRT_GUARDED_BY(mutex_);
  std::map<uint64_t, uint32_t> next_number_ ONRT_GUARDED_BY(mutex_);
  Mutex wake_mutex_;  // held while subscribers run; before mutex_
  std::map<uint64_t, std::function<void()>> subscribers_ ONRT_GUARDED_BY(wake_mutex_);
  uint64_t last_subscriber_ ONRT_GUARDED_BY(wake_mutex_) = 0;
  bool woke_subscribers_ ONRT_GUARDED_BY(wake_mutex_) = false;
  std::string target_problem_ ONRT_GUARDED_BY(mutex_);  // why there is no place yet
  int target_rank_ ONRT_GUARDED_BY(mutex_) = 0;
  AbortPage* shared_page_ ONRT_GUARDED_BY(mutex_) = nullptr;
  // Of connections that were refused; a figure, no order needed.
  std::atomic<uint64_t> refused_{0};

  std::unique_ptr<Reactor> reactor_;  // last: its thread uses all of the above
};

}  // namespace onrt::cc
