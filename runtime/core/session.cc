// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/session.h"

#include <algorithm>

#include "runtime/base/format.h"
#include "runtime/core/loader.h"
#include "runtime/core/visible_cores.h"
#include "runtime/driver/registry.h"

namespace onrt {
namespace {

constexpr int kNotificationCapacity = 256;

}  // namespace

Result<std::unique_ptr<Machine>> open_chosen_machine(const Context& context,
                                                     const MachineRequest& request) {
  ONRT_ASSIGN_OR_RETURN(DriverChoice choice, choose_driver(context));
  return choice.driver->open(context, request);
}

// ---- SessionGate --------------------------------------------------------------------------------

Session* SessionGate::enter(uint64_t wanted) {
  if (!gate_.enter()) {
    return nullptr;
  }
  if (wanted != 0 && generation_.load(std::memory_order_relaxed) != wanted) {
    gate_.leave();
    return nullptr;
  }
  return session_.load(std::memory_order_relaxed);
}

void SessionGate::open(Session* session, uint64_t generation) {
  session_.store(session);
  generation_.store(generation);
  gate_.open();
}

void SessionGate::shut_and_drain() {
  gate_.shut();
  Parking::instance().wake();  // who waits for a tensor's completion leaves now
  gate_.drain();
}

// ---- HostViews ----------------------------------------------------------------------------------

void HostViews::add(const void* start, const View& view) {
  MutexLock lock(mutex_);
  views_.insert_or_assign(reinterpret_cast<uint64_t>(start), view);
}

void HostViews::remove(const void* start) {
  MutexLock lock(mutex_);
  views_.erase(reinterpret_cast<uint64_t>(start));
}

Result<std::pair<HostViews::View, uint64_t>> HostViews::find(uint64_t start, uint64_t size) const {
  MutexLock lock(mutex_);
  auto found = views_.upper_bound(start);
  if (found != views_.begin()) {
    --found;
    const uint64_t offset = start - found->first;
    if (offset < found->second.size && size <= found->second.size - offset) {
      return std::pair(found->second, offset);
    }
  }
  return Status(NRT_INVALID, format("{} bytes at {:#x} are not in a device tensor whose address "
                                    "nrt_tensor_get_va() gave",
                                    size, start));
}

// ---- Session ------------------------------------------------------------------------------------

uint64_t Session::next_generation() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1);
}

Result<std::unique_ptr<Session>> Session::open(std::shared_ptr<const Context> context,
                                               const MachineFactory& factory, SessionGate& gate,
                                               const std::string& table_folder) {
  std::string all = context->log ? context->log->problem() : std::string();
  for (const std::string& problem : context->settings.problems()) {
    all += (all.empty() ? "" : "; ") + problem;
  }
  if (!all.empty()) {
    return Status(NRT_INVALID, all);
  }
  MachineRequest request;
  request.runtime_version = ONRT_VERSION;
  ONRT_ASSIGN_OR_RETURN(request.logical_core_size, requested_logical_core_size(context->settings));
  std::unique_ptr<Session> session(new Session(std::move(context), gate));
  ONRT_ASSIGN_OR_RETURN(session->machine_, factory(session->context(), request));
  ONRT_ASSIGN_OR_RETURN(CoreLease lease, CoreLease::claim(*session->machine_, session->context()));
  session->lease_.emplace(std::move(lease));
  ONRT_RETURN_IF_ERROR(session->make_cores(table_folder));
  return session;
}

Status Session::make_cores(const std::string& table_folder) {
  const CoreRange& range = lease_->range();
  const int per_device = info().logical_cores_per_device();
  for (int local = 0; local < range.count; ++local) {
    const int core = range.start + local;
    const int device = core / per_device;
    if (devices_.empty() || devices_.back()->index != device) {
      devices_.push_back(std::make_unique<DeviceContext>(*machine_, *context_, device));
    }
    ONRT_ASSIGN_OR_RETURN(const HbmId hbm, machine_->hbm_of_core(core));
    ONRT_ASSIGN_OR_RETURN(HbmPool* const pool, pool_of(hbm, table_folder));
    ONRT_RETURN_IF_ERROR(machine_->create_notification_queue(core, NotificationType::kNotify,
                                                             kNotificationCapacity));
    const auto counts = machine_->statistics(core);
    cores_.push_back(std::make_unique<CoreContext>(local, core, core % per_device, *devices_.back(),
                                                   *pool, counts.ok() ? *counts : nullptr));
  }
  return ok_status();
}

Result<HbmPool*> Session::pool_of(const HbmId& hbm, const std::string& table_folder) {
  for (const auto& pool : pools_) {
    if (pool->hbm() == hbm) {
      return pool.get();
    }
  }
  pools_.push_back(std::make_unique<HbmPool>(*machine_, *context_, hbm, table_folder));
  return pools_.back().get();
}

Session::~Session() {
  std::vector<Model*> models;
  {
    MutexLock lock(mutex_);
    models = models_;
  }
  for (Model* model : models) {
    const Status status = unload_model(*this, model, 0);
    if (!status.ok()) {
      ONRT_LOG(context_->log, Nrt, Error, "{}", status.message());
    }
  }
}

Result<CoreContext*> Session::core(int local) {
  if (local < 0 || local >= core_count()) {
    return Status(NRT_INVALID, format("vnc {}: expected 0 to {} (this process has {} cores)", local,
                                      core_count() - 1, core_count()));
  }
  return cores_[static_cast<size_t>(local)].get();
}

void Session::add_model(Model* model) {
  MutexLock lock(mutex_);
  models_.push_back(model);
}

void Session::remove_model(Model* model) {
  MutexLock lock(mutex_);
  std::erase(models_, model);
}

}  // namespace onrt
