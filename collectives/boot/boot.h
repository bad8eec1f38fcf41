// SPDX-License-Identifier: Apache-2.0
// The control plane of a job: ranks find each other at NEURON_RT_ROOT_COMM_ID, prove that they know
// the job's secret, compare their environments, and from then on exchange small messages and learn
// of each other's death and of an abort. Data never travels here.
// Design: docs/adr/0011-bootstrap.md; for users: docs/collectives.md.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/boot/cause.h"
#include "collectives/boot/fingerprint.h"
#include "collectives/boot/root_address.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::cc {

using Deadline = std::chrono::steady_clock::time_point;

// Life signs between neighbours of the control tree.
struct HeartbeatTimes {
  std::chrono::milliseconds interval{1000};
  std::chrono::milliseconds suspect{3000};  // a warning names the silent rank
  std::chrono::milliseconds dead{10000};    // a silent rank of another host ends the job
};

struct BootOptions {
  RootAddress root;  // where rank 0 listens
  int rank = 0;
  int size = 1;
  // Absolute path of a folder of this user for the local secret and sockets (on an emulated machine
  // its directory); made when missing. Ranks that use the same folder of one host are `local` to
  // each other.
  std::string directory;
  std::string secret_file;  // NRT_COMM_SECRET_FILE; "" none
  int secret_fd = -1;       // NRT_COMM_SECRET_FD, read and left open; -1 none
  // Compared with rank 0's: any difference ends the job with a report of it.
  std::vector<FingerprintEntry> fingerprint;
  std::chrono::milliseconds join_timeout{120000};
  HeartbeatTimes heartbeat;
  // Borrowed; join() gives up soon after it becomes true, and all ranks are told.
  const std::atomic<bool>* cancel = nullptr;
  std::string host_id;    // tests: taken for another host; "" asks the system
  Logger* log = nullptr;  // Borrowed from the caller; outlives the Bootstrap
};

// Root address, secret, time-outs and directory from the settings; rank and size stay as they are.
// NRT_INVALID names the variable, the value and what was expected.
Result<BootOptions> boot_options(const Context& context);

struct PeerInfo {
  int rank = 0;
  bool local = false;  // same host and same directory: descriptors can be passed
  int host = 0;        // ranks of one host have the same number, 0, 1, ... by lowest rank
  int pid = 0;         // in its own pid namespace
  std::string host_name;
};

// Ranks that call a collective exchange. The default is all ranks. Those of a group must be sorted
// and hold the caller; `id` tells groups of the same ranks apart.
struct RankGroup {
  std::vector<int> ranks;
  uint64_t id = 0;
};

using Payload = std::vector<std::byte>;

// A rank's membership of a job. Thread-safe. All members of a group make the same calls in the same
// order; a difference, a rank that is missing at the deadline, a death or an abort fails the call
// on all ranks with the same cause, and so does every later call. A thread of its own answers peers
// also while the caller sleeps. A forked child can't use it: calls return NRT_INVALID, the
// destructor does nothing.
class Bootstrap {
 public:
  // Returns when all `size` ranks have joined with equal fingerprints. NRT_TIMEOUT names the ranks
  // that were waited for; NRT_INVALID: wrong size, rank or fingerprint, refused secret.
  static Result<std::unique_ptr<Bootstrap>> join(BootOptions options);
  ~Bootstrap();
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  int rank() const;
  int size() const;
  const PeerInfo& peer(int rank) const;
  // Same on all ranks and different for every job.
  uint64_t job_id() const;

  // Payloads in the order of the group's ranks. At most kLargestPayload bytes a rank.
  Result<std::vector<Payload>> all_gather(std::span<const std::byte> mine, Deadline deadline,
                                          const RankGroup& group = {});
  // `payload` of rank `root` (a rank of the job, not an index into the group).
  Result<Payload> broadcast(int root, std::span<const std::byte> payload, Deadline deadline,
                            const RankGroup& group = {});
  Status barrier(Deadline deadline, const RankGroup& group = {});
  // Each rank offers descriptors (memfds, files of HBM); the result holds duplicates of those that
  // the group's local ranks offered, in the order of the group's ranks. Empty for ranks of other
  // hosts and for the caller itself.
  Result<std::vector<std::vector<UniqueFd>>> exchange_fds(std::span<const int> mine,
                                                          Deadline deadline,
                                                          const RankGroup& group = {});
  static constexpr size_t kLargestPayload = 1 << 20;

  // For wait loops: not 0 as soon as the job has failed. Ranks of one host share the word, so it
  // tells of an abort before any message arrives. Valid as long as this object.
  const std::atomic<uint32_t>& failed_word() const;
  bool failed() const { return failed_word().load(std::memory_order_acquire) != 0; }
  // The first cause on this host; nothing while the job is well.
  std::optional<Cause> cause() const;
  // cause() as a Status; success while the job is well.
  Status status() const;

  // Ends the job: every rank's failed_word() becomes set. The first cause stays. Any thread, any
  // phase; never blocks for a peer.
  void abort(Cause cause);
  // `wake` is called once, from the control thread, when the job fails (at once if it has): to end
  // futex waits. It must not call into this object, except cause(). Returns an id for
  // unsubscribe(), after which it doesn't run.
  uint64_t subscribe(std::function<void()> wake);
  void unsubscribe(uint64_t id);

  // Leaves in order: peers don't take it for a death. Waits for no peer. The destructor does it
  // too.
  void leave();

  struct Counters {
    int sockets = 0;  // open now, in this process, for this job
    uint64_t refused_connections = 0;
  };
  Counters counters() const;

 private:
  class Impl;
  explicit Bootstrap(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace onrt::cc
