// SPDX-License-Identifier: Apache-2.0
// What exists between nrt_init() and nrt_close(): the machine, the cores that this process owns,
// their memory and the models loaded on them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "allocator/hbm_pool.h"
#include "allocator/scratchpad.h"
#include "runtime/base/mutex.h"
#include "runtime/core/constant_store.h"
#include "runtime/core/core_lease.h"
#include "runtime/core/dma_mover.h"
#include "runtime/core/io_table.h"
#include "runtime/core/parking.h"
#include "runtime/driver/driver.h"

namespace onrt {

class Model;
class Session;

using MachineFactory =
    std::function<Result<std::unique_ptr<Machine>>(const Context&, const MachineRequest&)>;

// The backend that the settings choose.
Result<std::unique_ptr<Machine>> open_chosen_machine(const Context& context,
                                                     const MachineRequest& request);

struct DeviceContext {
  DeviceContext(Machine& machine, const Context& context, int number)
      : index(number), dma(machine, context, number) {}

  const int index;
  DmaMover dma;
};

// One logical core that this process owns. Fields without a guard are constant.
struct CoreContext {
  // `counts` is the machine's; null: nobody else will read them.
  CoreContext(int local_index, int machine_index, int index_in_device, DeviceContext& on_device,
              HbmPool& own_pool, CoreStatistics* counts)
      : local(local_index),
        core(machine_index),
        label(format("ND {}:NC {}", on_device.index, index_in_device)),
        device(on_device),
        pool(own_pool),
        statistics(counts == nullptr ? own_statistics_ : *counts),
        scratch(own_pool, machine_index) {}

  const int local;          // index in the C API: the first core owned is 0
  const int core;           // index in the machine
  const std::string label;  // "ND 0:NC 1"
  DeviceContext& device;
  HbmPool& pool;
  CoreStatistics& statistics;
  std::atomic<int> models{0};
  std::atomic<bool> lost{false};  // after a fatal error, until the runtime is initialised again

  // Held by whoever runs a program on the core: one at a time, as on the device.
  Mutex execution;
  Scratchpad scratch ONRT_GUARDED_BY(execution);
  IoTable io ONRT_GUARDED_BY(execution);
  uint64_t sequence ONRT_GUARDED_BY(execution) = 0;

 private:
  CoreStatistics own_statistics_{};
};

// The door to the session of the process. Outlives every session and every handle. Thread-safe.
class SessionGate {
 public:
  // The session, or null when there is none or it is not generation `wanted` (0: any). The caller
  // of a successful enter() calls leave(); close waits for it.
  Session* enter(uint64_t wanted = 0);
  void leave() { gate_.leave(); }
  bool is_open() const { return gate_.is_open(); }

  void open(Session* session, uint64_t generation);
  // Returns when every user has left.
  void shut_and_drain();
  // Shuts; true when nobody is inside.
  bool shut_if_idle() {
    gate_.shut();
    return gate_.is_idle();
  }
  // For the child of a fork: nobody gets in again.
  void shut() { gate_.shut(); }

 private:
  Gate gate_;
  // Written only while the gate is shut; opening it publishes them.
  std::atomic<Session*> session_{nullptr};
  std::atomic<uint64_t> generation_{0};
};

// RAII for SessionGate::enter().
class SessionUse {
 public:
  explicit SessionUse(SessionGate& gate, uint64_t generation = 0)
      : gate_(&gate), session_(gate.enter(generation)) {}
  SessionUse(SessionUse&& other) noexcept
      : gate_(other.gate_), session_(std::exchange(other.session_, nullptr)) {}
  SessionUse& operator=(SessionUse&&) = delete;
  ~SessionUse() {
    if (session_ != nullptr) {
      gate_->leave();
    }
  }
  explicit operator bool() const { return session_ != nullptr; }
  Session& operator*() const { return *session_; }
  Session* operator->() const { return session_; }

 private:
  SessionGate* gate_;
  Session* session_;
};

// Host addresses of device memory that were given to the caller. Thread-safe.
class HostViews {
 public:
  struct View {
    HbmId hbm;
    DeviceAddress address = 0;
    uint64_t size = 0;
  };

  void add(const void* start, const View& view);
  void remove(const void* start);
  // The view that holds [start, start + size) and how far into it that begins.
  Result<std::pair<View, uint64_t>> find(uint64_t start, uint64_t size) const;

 private:
  mutable Mutex mutex_;
  std::map<uint64_t, View> views_ ONRT_GUARDED_BY(mutex_);
};

// Thread-safe after open().
class Session {
 public:
  // Opens the machine, checks the settings, claims and resets cores, creates their queues.
  static Result<std::unique_ptr<Session>> open(std::shared_ptr<const Context> context,
                                               const MachineFactory& factory, SessionGate& gate,
                                               const std::string& table_folder = "/tmp");
  // Unloads what is still loaded and gives everything back.
  ~Session();

  const Context& context() const { return *context_; }
  SessionGate& gate() const { return gate_; }
  uint64_t generation() const { return generation_; }
  Machine& machine() { return *machine_; }
  const MachineInfo& info() const { return machine_->info(); }

  int core_count() const { return static_cast<int>(cores_.size()); }
  const CoreRange& core_range() const { return lease_->range(); }
  // NRT_INVALID names the index and what there is.
  Result<CoreContext*> core(int local);
  CoreContext& core_at(int local) { return *cores_[static_cast<size_t>(local)]; }

  ConstantStore& constants() { return constants_; }
  HostViews& views() { return views_; }

  uint32_t new_model_id() { return next_model_.fetch_add(1); }
  void add_model(Model* model);
  void remove_model(Model* model);

 private:
  Session(std::shared_ptr<const Context> context, SessionGate& gate)
      : context_(std::move(context)), gate_(gate), generation_(next_generation()) {}

  static uint64_t next_generation();
  Status make_cores(const std::string& table_folder);
  Result<HbmPool*> pool_of(const HbmId& hbm, const std::string& table_folder);

  std::shared_ptr<const Context> context_;
  SessionGate& gate_;
  const uint64_t generation_;
  std::unique_ptr<Machine> machine_;  // destroyed after everything below
  std::optional<CoreLease> lease_;
  std::vector<std::unique_ptr<HbmPool>> pools_;
  std::vector<std::unique_ptr<DeviceContext>> devices_;
  std::vector<std::unique_ptr<CoreContext>> cores_;
  ConstantStore constants_;
  HostViews views_;
  std::atomic<uint32_t> next_model_{1001};  // numbers that users know from the vendor's logs

  Mutex mutex_;
  std::vector<Model*> models_ ONRT_GUARDED_BY(mutex_);
};

}  // namespace onrt
