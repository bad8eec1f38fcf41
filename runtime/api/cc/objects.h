// SPDX-License-Identifier: Apache-2.0
// What the handles of opennrt/collectives.h stand for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/api/job.h"
#include "nrt/nrt.h"
#include "opennrt/collectives.h"
#include "runtime/api/cc/host_pool.h"
#include "runtime/core/runtime.h"
#include "runtime/core/tensor.h"

namespace onrt::api {

// Values of init(), with what the environment says where they are not set.
struct CommRequest {
  std::string root;
  int rank = 0;
  int size = 0;  // 0: the launcher's
  uint64_t timeout_ms = 0;
  uint64_t join_timeout_ms = 0;
  std::string algorithm;
  bool deterministic = false;
};

class CcRequest {
 public:
  static constexpr uint32_t kTag = 0x51524343;
  explicit CcRequest(cc::RequestRef made) : request(std::move(made)) {}
  cc::RequestRef request;
};

// Keeps tensors and the session alive that an operation uses.
struct Keep {
  std::vector<StorageRef> storage;
  std::vector<SessionUse> session;
};

class CcComm {
 public:
  static Result<std::unique_ptr<CcComm>> join(const CommRequest& request);

  cc::Job& job() { return *job_; }
  const cc::Job& job() const { return *job_; }
  HostPool& pool() { return pool_; }
  cc::Group& world() { return *world_; }
  // False in the child of a fork.
  bool owned_here() const { return fork_generation_ == cc::fork_generation(); }

  // Where a tensor's or host memory lies; `bytes` of it are used. NRT_INVALID names what is wrong
  // with the buffer, `name` in messages.
  Result<cc::LocalBuffer> resolve_tensor(nrt_tensor_t* tensor, size_t offset, uint64_t bytes,
                                         const char* name, Keep* keep);
  cc::LocalBuffer resolve_host(void* data, uint64_t bytes) const;

 private:
  struct HbmFile {
    HbmId hbm;
    DeviceAddress base;  // address of the file's first byte
    int32_t number;      // MemoryRef::file
  };
  Status collect_files(std::vector<UniqueFd>* files);
  Status add_hbm_files(Session& session, std::vector<UniqueFd>* files);

  std::shared_ptr<const Context> context_;
  HostPool pool_;
  std::vector<HbmFile> hbm_files_;
  const uint64_t fork_generation_ = cc::fork_generation();
  uint64_t session_generation_ = 0;  // of the files
  std::unique_ptr<cc::Job> job_;
  std::unique_ptr<cc::Group> world_;
};

class CcGroup {
 public:
  static constexpr uint32_t kTag = 0x47524343;
  // `made` null: the group of all ranks, which the communicator owns.
  CcGroup(CcComm& owner, std::unique_ptr<cc::Group> made) : comm(owner), group(std::move(made)) {}
  cc::Group& members() const { return group == nullptr ? comm.world() : *group; }

  CcComm& comm;
  std::unique_ptr<cc::Group> group;
};

// Ends what nrt_cc_global_comm_init() and its kin have made: in nrt_close() and at the end of the
// process, so that peers don't take it for a death.
void leave_global_communicators();

class CcCommHandle {
 public:
  static constexpr uint32_t kTag = 0x4d4f4343;
  explicit CcCommHandle(std::unique_ptr<CcComm> made)
      : comm(std::move(made)),
        world(HandleTable<CcGroup>::instance().create(*comm, std::unique_ptr<cc::Group>())) {}
  void drop_world() { HandleTable<CcGroup>::instance().destroy(world); }

  std::unique_ptr<CcComm> comm;
  CcGroup* world;
};

}  // namespace onrt::api
