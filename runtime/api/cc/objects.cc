// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/cc/objects.h"

#include <fcntl.h>

#include "collectives/boot/rank_env.h"
#include "runtime/api/handles.h"

namespace onrt::api {
namespace {

// Rank 0's address; alone it needs none.
Status check_root(const cc::BootOptions& boot) {
  if (boot.root.port != 0 || boot.size == 1) {
    return ok_status();
  }
  return Status(
      NRT_INVALID,
      format("address of rank 0 of {} ranks: expected host:port in NEURON_RT_ROOT_COMM_ID, "
             "in the call or from torchrun, found none",
             boot.size));
}

// Rank, size and root: of the request, else of the launcher.
Status place(const CommRequest& request, cc::BootOptions* boot) {
  if (!request.root.empty()) {
    ONRT_ASSIGN_OR_RETURN(boot->root, cc::parse_root_address(request.root, "root"));
  }
  if (request.size > 0) {
    boot->rank = request.rank;
    boot->size = request.size;
    return check_root(*boot);
  }
  ONRT_ASSIGN_OR_RETURN(const auto found, cc::discover_rank());
  if (!found) {
    return Status(NRT_INVALID,
                  "rank and size: neither given nor in the environment of a launcher (torchrun, "
                  "mpirun, srun)");
  }
  boot->rank = found->rank;
  boot->size = found->size;
  if (boot->root.port == 0 && found->root) {
    boot->root = *found->root;
  }
  return check_root(*boot);
}

}  // namespace

// One tensor on each core shows the file of its memory.
Status CcComm::add_hbm_files(Session& session, std::vector<UniqueFd>* files) {
  session_generation_ = session.generation();
  for (int core = 0; core < session.core_count(); ++core) {
    ONRT_ASSIGN_OR_RETURN(Tensor* const probe, Tensor::allocate(session, TensorPlacement::kDevice,
                                                                core, 4096, "collectives"));
    const HbmId hbm = probe->storage().hbm();
    const bool known = std::any_of(hbm_files_.begin(), hbm_files_.end(),
                                   [&](const HbmFile& file) { return file.hbm == hbm; });
    Status shared;
    if (!known) {
      uint64_t offset = 0;
      auto fd = session.machine().share(hbm, probe->address(), 4096, &offset);
      if (fd.ok()) {
        hbm_files_.push_back({hbm, probe->address() - offset, static_cast<int32_t>(files->size())});
        files->emplace_back(*fd);
      } else {
        shared = std::move(fd).status();
      }
    }
    free_tensor(probe);
    if (!shared.ok()) {
      ONRT_LOG(context_->log, Nrt, Warning,
               "device memory of core {} can't be shared, collectives copy it: {}", core,
               shared.message());
    }
  }
  return ok_status();
}

Status CcComm::collect_files(std::vector<UniqueFd>* files) {
  const Status pool = pool_.create();
  if (pool.ok()) {
    files->emplace_back(::fcntl(pool_.fd(), F_DUPFD_CLOEXEC, 3));
  } else {
    ONRT_LOG(context_->log, Nrt, Warning, "{}", pool.message());
  }
  if (Runtime::instance().state() != RuntimeState::kInit) {
    return ok_status();
  }
  ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
  return add_hbm_files(*session, files);
}

Result<std::unique_ptr<CcComm>> CcComm::join(const CommRequest& request) {
  auto comm = std::make_unique<CcComm>();
  comm->context_ = context();
  cc::JobOptions options;
  ONRT_ASSIGN_OR_RETURN(options.boot, cc::boot_options(*comm->context_));
  ONRT_RETURN_IF_ERROR(place(request, &options.boot));
  ONRT_ASSIGN_OR_RETURN(options.engine, cc::engine_options(*comm->context_));
  if (request.timeout_ms != 0) {
    options.engine.timeout = std::chrono::milliseconds(request.timeout_ms);
  }
  if (request.join_timeout_ms != 0) {
    options.boot.join_timeout = std::chrono::milliseconds(request.join_timeout_ms);
  }
  if (!request.algorithm.empty()) {
    options.engine.planner.algorithm = request.algorithm;
  }
  options.engine.planner.deterministic |= request.deterministic;
  options.boot.fingerprint.push_back({"collective algorithm", options.engine.planner.algorithm});
  options.boot.fingerprint.push_back(
      {"deterministic", options.engine.planner.deterministic ? "1" : "0"});
  ONRT_RETURN_IF_ERROR(comm->collect_files(&options.files));
  ONRT_ASSIGN_OR_RETURN(comm->job_, cc::Job::join(std::move(options)));
  std::vector<int> all;
  for (int rank = 0; rank < comm->job_->size(); ++rank) {
    all.push_back(rank);
  }
  ONRT_ASSIGN_OR_RETURN(comm->world_, comm->job_->make_group(std::move(all)));
  return comm;
}

cc::LocalBuffer CcComm::resolve_host(void* data, uint64_t bytes) const {
  cc::LocalBuffer buffer{static_cast<std::byte*>(data), bytes, {}};
  if (const auto offset = pool_.offset_of(data, bytes)) {
    buffer.ref = {0, *offset};
  }
  return buffer;
}

Result<cc::LocalBuffer> CcComm::resolve_tensor(nrt_tensor_t* handle, size_t offset, uint64_t bytes,
                                               const char* name, Keep* keep) {
  ONRT_ASSIGN_OR_RETURN(SessionUse session, Runtime::instance().enter());
  ONRT_ASSIGN_OR_RETURN(Tensor* const tensor, object_of<Tensor>(handle, name));
  ONRT_RETURN_IF_ERROR(tensor->check_usable(*session));
  ONRT_RETURN_IF_ERROR(tensor->check_range(name, offset, bytes));
  ONRT_ASSIGN_OR_RETURN(void* const address, tensor->host_address(*session));
  tensor->storage().wait_idle();
  cc::LocalBuffer buffer = resolve_host(static_cast<std::byte*>(address) + offset, bytes);
  if (tensor->storage().is_device()) {
    const HbmId hbm = tensor->storage().hbm();
    for (const HbmFile& file : hbm_files_) {
      if (file.hbm == hbm && session->generation() == session_generation_) {
        buffer.ref = {file.number, tensor->address() - file.base + offset};
      }
    }
  }
  TensorStorage& storage = tensor->storage();
  storage.retain();
  keep->storage.emplace_back(StorageRef(&storage));
  keep->session.push_back(std::move(session));
  return buffer;
}

}  // namespace onrt::api
