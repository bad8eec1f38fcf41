// SPDX-License-Identifier: Apache-2.0
#include "collectives/boot/boot.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <numeric>

#include "collectives/boot/node.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

// A page that a forked child finds zeroed: tells parent from child without a system call.
class ForkMark {
 public:
  ForkMark() : pid_(::getpid()) {
    void* place =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) {
      return;
    }
    if (::madvise(place, kBytes, MADV_WIPEONFORK) != 0) {
      ::munmap(place, kBytes);
      return;
    }
    mark_ = static_cast<volatile int*>(place);
    *mark_ = 1;
  }
  ~ForkMark() {
    if (mark_ != nullptr) {
      ::munmap(const_cast<int*>(mark_), kBytes);
    }
  }
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;
  bool is_child() const { return mark_ != nullptr ? *mark_ == 0 : ::getpid() != pid_; }

 private:
  static constexpr size_t kBytes = 4096;
  volatile int* mark_ = nullptr;
  pid_t pid_;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read only
  return value == nullptr ? std::string() : std::string(value);
}

std::string default_folder() {
  const std::string runtime = environment("XDG_RUNTIME_DIR");
  if (!runtime.empty() && ::access(runtime.c_str(), W_OK) == 0) {
    return runtime + "/opennrt";
  }
  std::string parent = "/dev/shm";
  if (::access(parent.c_str(), W_OK) != 0) {
    parent = environment("TMPDIR");
    parent = parent.empty() ? "/tmp" : parent;
  }
  return format("{}/opennrt-{}", parent, ::geteuid());
}

std::string absolute(const std::string& path) {
  if (path.starts_with('/')) {
    return path;
  }
  std::array<char, PATH_MAX> here{};
  const bool known = ::getcwd(here.data(), here.size()) != nullptr;
  return known ? std::string(here.data()) + "/" + path : path;
}

}  // namespace

Result<BootOptions> boot_options(const Context& context) {
  const Settings& settings = context.settings;
  BootOptions options;
  options.log = context.log.get();
  const std::string_view root = settings.text(Setting::kRootCommId);
  if (!root.empty()) {
    ONRT_ASSIGN_OR_RETURN(options.root, parse_root_address(root, "NEURON_RT_ROOT_COMM_ID"));
  }
  const std::string folder(settings.text(Setting::kMachineDir));
  // A folder of this user's own, also where a machine is shared by a group.
  options.directory =
      format("{}/cc-{}", folder.empty() ? default_folder() : absolute(folder), ::geteuid());
  options.secret_file = std::string(settings.text(Setting::kCommSecretFile));
  options.secret_fd = settings.is_set(Setting::kCommSecretFd)
                          ? static_cast<int>(settings.integer(Setting::kCommSecretFd))
                          : -1;
  options.fingerprint = standard_fingerprint(settings);
  options.join_timeout = std::chrono::seconds(settings.integer(Setting::kCommJoinTimeout));
  options.heartbeat.interval = std::chrono::milliseconds(settings.integer(Setting::kCommHeartbeat));
  options.heartbeat.suspect = std::chrono::milliseconds(settings.integer(Setting::kCommSuspect));
  options.heartbeat.dead = std::chrono::milliseconds(settings.integer(Setting::kCommDead));
  const HeartbeatTimes& times = options.heartbeat;
  if (times.interval >= times.suspect || times.suspect >= times.dead) {
    return Status(NRT_INVALID,
                  format("expected OPENNRT_COMM_HEARTBEAT < OPENNRT_COMM_SUSPECT < "
                         "OPENNRT_COMM_DEAD, found {}, {} and {} ms",
                         times.interval.count(), times.suspect.count(), times.dead.count()));
  }
  return options;
}

class Bootstrap::Impl {
 public:
  explicit Impl(BootOptions options) : node(std::make_unique<Node>(std::move(options))) {}
  ~Impl() {
    if (mark.is_child()) {
      // Thread and locks are the parent's.
      [[maybe_unused]] Node* leaked = node.release();
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Status check() const {
    if (mark.is_child()) {
      return Status(NRT_INVALID,
                    "this process was forked from a rank of the job: it is no rank itself");
    }
    return node->status();
  }
  Status check_group(const RankGroup& group, std::string_view call) const;
  Result<ByteVector> exchange(ExchangeKind kind, int source, std::span<const std::byte> mine,
                              const RankGroup& group, Deadline deadline);
  std::vector<int> ranks_of(const RankGroup& group) const;
  Result<std::vector<std::vector<UniqueFd>>> fetch(const std::vector<Payload>& offers,
                                                   const RankGroup& group, Deadline deadline);

  ForkMark mark;
  std::unique_ptr<Node> node;
};

Status Bootstrap::Impl::check_group(const RankGroup& group, std::string_view call) const {
  const std::vector<int>& ranks = group.ranks;
  const int size = node->options().size;
  const bool sorted =
      std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) == ranks.end();
  const bool in_range = ranks.empty() || (ranks.front() >= 0 && ranks.back() < size);
  if (!sorted || !in_range) {
    return Status(NRT_INVALID,
                  format("{}: expected a group of ranks in ascending order, each once, "
                         "from 0 to {}",
                         call, size - 1));
  }
  if (!ranks.empty() && !std::binary_search(ranks.begin(), ranks.end(), node->options().rank)) {
    return Status(NRT_INVALID,
                  format("{}: rank {} is not in the group", call, node->options().rank));
  }
  return ok_status();
}

std::vector<int> Bootstrap::Impl::ranks_of(const RankGroup& group) const {
  if (!group.ranks.empty()) {
    return group.ranks;
  }
  std::vector<int> all(static_cast<size_t>(node->options().size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Result<ByteVector> Bootstrap::Impl::exchange(ExchangeKind kind, int source,
                                             std::span<const std::byte> mine,
                                             const RankGroup& group, Deadline deadline) {
  ONRT_RETURN_IF_ERROR(check());
  ONRT_RETURN_IF_ERROR(check_group(group, name_of(kind)));
  if (mine.size() > kLargestPayload) {
    return Status(NRT_INVALID, format("{}: at most {} bytes a rank, found {}", name_of(kind),
                                      kLargestPayload, mine.size()));
  }
  if (ranks_of(group).size() == 1) {
    if (kind == ExchangeKind::kBroadcast) {
      return ByteVector(mine.begin(), mine.end());
    }
    return pack_payloads({ByteVector(mine.begin(), mine.end())});
  }
  return node->exchange(kind, static_cast<uint32_t>(source), mine, group, deadline);
}

// The groups' local ranks in turn, each beginning after itself, so that they don't queue at one.
Result<std::vector<std::vector<UniqueFd>>> Bootstrap::Impl::fetch(
    const std::vector<Payload>& offers, const RankGroup& group, Deadline deadline) {
  const std::vector<int> ranks = ranks_of(group);
  std::vector<std::vector<UniqueFd>> fds(ranks.size());
  const auto self = static_cast<size_t>(
      std::find(ranks.begin(), ranks.end(), node->options().rank) - ranks.begin());
  for (size_t step = 1; step < ranks.size(); ++step) {
    const size_t at = (self + step) % ranks.size();
    const PeerInfo& peer = node->peers()[static_cast<size_t>(ranks[at])];
    if (!peer.local || offers[at].empty()) {
      continue;
    }
    const auto count = static_cast<size_t>(offers[at][0]);
    const std::string name(reinterpret_cast<const char*>(offers[at].data()) + 1,
                           offers[at].size() - 1);
    const bool plain = name.find('/') == std::string::npos && name.starts_with("cc.");
    if (!plain || count > kMostSharedFds) {
      return Status(NRT_INVALID, format("rank {} offers descriptors at '{}', which no rank does",
                                        peer.rank, one_line(name)));
    }
    auto got =
        fetch_fds(node->folder(), name, count, deadline, [this] { return !node->status().ok(); });
    ONRT_RETURN_IF_ERROR(node->status());
    if (!got.ok()) {
      return std::move(got).status().annotate(format("descriptors of rank {}", peer.rank));
    }
    fds[at] = std::move(*got);
  }
  return fds;
}

Bootstrap::Bootstrap(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Bootstrap::~Bootstrap() { leave(); }

Result<std::unique_ptr<Bootstrap>> Bootstrap::join(BootOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  ONRT_RETURN_IF_ERROR(impl->node->join());
  return std::unique_ptr<Bootstrap>(new Bootstrap(std::move(impl)));
}

int Bootstrap::rank() const { return impl_->node->options().rank; }
int Bootstrap::size() const { return impl_->node->options().size; }
uint64_t Bootstrap::job_id() const { return impl_->node->job(); }
const PeerInfo& Bootstrap::peer(int rank) const {
  return impl_->node->peers()[static_cast<size_t>(rank)];
}

Result<std::vector<Payload>> Bootstrap::all_gather(std::span<const std::byte> mine,
                                                   Deadline deadline, const RankGroup& group) {
  ONRT_ASSIGN_OR_RETURN(const ByteVector packed,
                        impl_->exchange(ExchangeKind::kAllGather, 0, mine, group, deadline));
  auto payloads = unpack_payloads(packed, impl_->ranks_of(group).size());
  if (!payloads) {
    return Status(NRT_FAILURE, "all_gather: rank 0 sent a result that no rank sends");
  }
  return std::move(*payloads);
}

Result<Payload> Bootstrap::broadcast(int root, std::span<const std::byte> payload,
                                     Deadline deadline, const RankGroup& group) {
  const std::vector<int> ranks = impl_->ranks_of(group);
  if (std::find(ranks.begin(), ranks.end(), root) == ranks.end()) {
    return Status(NRT_INVALID, format("broadcast: rank {} is not in the group", root));
  }
  const auto mine = root == rank() ? payload : std::span<const std::byte>();
  return impl_->exchange(ExchangeKind::kBroadcast, root, mine, group, deadline);
}

Status Bootstrap::barrier(Deadline deadline, const RankGroup& group) {
  return impl_->exchange(ExchangeKind::kBarrier, 0, {}, group, deadline).status();
}

Result<std::vector<std::vector<UniqueFd>>> Bootstrap::exchange_fds(std::span<const int> mine,
                                                                   Deadline deadline,
                                                                   const RankGroup& group) {
  ONRT_RETURN_IF_ERROR(impl_->check());
  ONRT_ASSIGN_OR_RETURN(const Nonce random, random_nonce());
  std::optional<FdServer> server;
  uint64_t watch = 0;
  Payload offer;
  const bool shares = !mine.empty() && size() > 1;
  if (shares) {
    const std::string name = socket_name(
        job_id(),
        format("{}.{}", rank(), to_hex({reinterpret_cast<const uint8_t*>(random.data()), 8})));
    ONRT_ASSIGN_OR_RETURN(FdServer opened,
                          FdServer::open(impl_->node->folder(), name, {mine.begin(), mine.end()}));
    server.emplace(std::move(opened));
    offer.push_back(static_cast<std::byte>(mine.size()));
    const auto text = bytes_of(name);
    offer.insert(offer.end(), text.begin(), text.end());
    Reactor& reactor = impl_->node->reactor();
    reactor.run([&] { watch = reactor.watch(server->fd(), [&server] { server->serve(); }); });
  }
  const auto unwatch = [&](void*) {
    if (shares) {
      Reactor& reactor = impl_->node->reactor();
      reactor.run([&] { reactor.unwatch(watch); });
    }
  };
  const std::unique_ptr<void, decltype(unwatch)> guard(&watch, unwatch);
  ONRT_ASSIGN_OR_RETURN(const ByteVector packed,
                        impl_->exchange(ExchangeKind::kDescriptors, 0, offer, group, deadline));
  const auto offers = unpack_payloads(packed, impl_->ranks_of(group).size());
  if (!offers) {
    return Status(NRT_FAILURE, "descriptors: rank 0 sent a result that no rank sends");
  }
  ONRT_ASSIGN_OR_RETURN(auto fds, impl_->fetch(*offers, group, deadline));
  // The others may still fetch ours.
  ONRT_RETURN_IF_ERROR(barrier(deadline, group));
  return fds;
}

const std::atomic<uint32_t>& Bootstrap::failed_word() const { return impl_->node->page().word(); }

std::optional<Cause> Bootstrap::cause() const { return impl_->node->cause(); }

Status Bootstrap::status() const { return impl_->check(); }

void Bootstrap::abort(Cause cause) {
  if (!impl_->mark.is_child()) {
    impl_->node->abort(std::move(cause));
  }
}

uint64_t Bootstrap::subscribe(std::function<void()> wake) {
  return impl_->mark.is_child() ? 0 : impl_->node->subscribe(std::move(wake));
}

void Bootstrap::unsubscribe(uint64_t id) {
  if (!impl_->mark.is_child()) {
    impl_->node->unsubscribe(id);
  }
}

void Bootstrap::leave() {
  if (!impl_->mark.is_child()) {
    impl_->node->leave();
  }
}

Bootstrap::Counters Bootstrap::counters() const {
  return impl_->mark.is_child() ? Counters() : impl_->node->counters();
}

}  // namespace onrt::cc
