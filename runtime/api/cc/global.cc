// SPDX-License-Identifier: Apache-2.0
// Collectives of the vendor's interface that the host starts: the global communicator, and contexts
// that are prepared once and scheduled on a queue.
#include <algorithm>
#include <map>
#include <set>

#include "nrt/nrt_async.h"
#include "nrt/nrt_experimental.h"
#include "runtime/api/cc/objects.h"
#include "runtime/api/handles.h"

namespace onrt::api {
namespace {

// Queues of the collectives unit; a queue above 0 needs its stream.
constexpr int kQueues = 3;

// One operation of a context: tensors are looked up again when it is scheduled.
struct Prepared {
  cc::Call call;
  nrt_tensor_t* in = nullptr;
  nrt_tensor_t* out = nullptr;
  uint64_t in_bytes = 0;
  uint64_t out_bytes = 0;
};

// Requests of one queue, in order. `ret` is written before completion is seen.
struct Scheduled {
  uint64_t number = 0;
  std::vector<cc::RequestRef> requests;
  NRT_STATUS* ret = nullptr;
};
struct Queue {
  uint64_t last = 0;
  uint64_t completed = 0;
  std::deque<Scheduled> pending;
};

// The communicator that a core of this process belongs to.
struct Member {
  int rank = 0;
  int size = 0;
  std::unique_ptr<CcComm> comm;
  std::map<std::vector<int>, std::unique_ptr<cc::Group>> groups;
  std::map<uint32_t, std::unique_ptr<cc::Group>> streams;
  Queue queues[kQueues];
};

class Global {
 public:
  static Global& instance() {
    static Global* const kInstance = new Global;  // used until the end of the process
    return *kInstance;
  }

  // Joins, when the core is no member yet. Blocks for the other ranks.
  Result<Member*> join(int64_t vnc, uint32_t rank, uint32_t size) {
    if (size == 0 || size > INT32_MAX || rank >= size || vnc < 0 || vnc > INT16_MAX) {
      return Status(NRT_INVALID, format("worker {} of {} on core {}: expected a worker below the "
                                        "number of workers and a core of this process",
                                        rank, size, vnc));
    }
    const MutexLock lock(mutex_);
    auto& member = members_[static_cast<int>(vnc)];
    if (member != nullptr && member->comm->owned_here() && member->comm->job().status().ok()) {
      if (member->rank != static_cast<int>(rank) || member->size != static_cast<int>(size)) {
        return Status(NRT_INVALID,
                      format("core {} is worker {} of {} already, it can't be worker {} of {}", vnc,
                             member->rank, member->size, rank, size));
      }
      return member.get();
    }
    if (member != nullptr && !member->comm->job().status().ok()) {
      return member.get();  // its calls return the first cause
    }
    CommRequest request;
    request.rank = static_cast<int>(rank);
    request.size = static_cast<int>(size);
    static const int kRegistered = std::atexit(leave_global_communicators);
    static_cast<void>(kRegistered);
    auto made = std::make_unique<Member>();
    made->rank = request.rank;
    made->size = request.size;
    ONRT_ASSIGN_OR_RETURN(made->comm, CcComm::join(request));
    static_cast<void>(member.release());  // of a parent process, if there was one
    member = std::move(made);
    return member.get();
  }
  Result<Member*> find(int64_t vnc) {
    const MutexLock lock(mutex_);
    const auto found = members_.find(static_cast<int>(vnc));
    if (found == members_.end() || found->second == nullptr) {
      return Status(NRT_INVALID, format("core {} belongs to no communicator: call "
                                        "nrt_cc_global_comm_init() first",
                                        vnc));
    }
    return found->second.get();
  }
  // Groups before their communicator; those of a parent process are only forgotten.
  void leave() {
    const MutexLock lock(mutex_);
    for (auto& [vnc, member] : members_) {
      if (member != nullptr && !member->comm->owned_here()) {
        static_cast<void>(member.release());
      }
    }
    members_.clear();
  }
  Mutex& mutex() { return mutex_; }
  std::vector<Member*> all() {
    std::vector<Member*> list;
    for (const auto& [vnc, member] : members_) {
      list.push_back(member.get());
    }
    return list;
  }

 private:
  Mutex mutex_;
  std::map<int, std::unique_ptr<Member>> members_;
};

Result<Dtype> dtype_of(nrt_dtype_t dtype) {
  uint32_t number = 0;
  std::memcpy(&number, &dtype, sizeof(number));
  switch (number) {
    case NRT_DTYPE_FP8_E4:
      return Dtype::kF8E4M3;
    case NRT_DTYPE_FP8_E5:
      return Dtype::kF8E5M2;
    case NRT_DTYPE_FLOAT16:
      return Dtype::kF16;
    case NRT_DTYPE_BFLOAT16:
      return Dtype::kBF16;
    case NRT_DTYPE_FLOAT32:
      return Dtype::kF32;
    case NRT_DTYPE_UINT8:
      return Dtype::kU8;
    case NRT_DTYPE_UINT16:
      return Dtype::kU16;
    case NRT_DTYPE_UINT32:
      return Dtype::kU32;
    case NRT_DTYPE_UINT64:
      return Dtype::kU64;
    case NRT_DTYPE_INT8:
      return Dtype::kS8;
    case NRT_DTYPE_INT16:
      return Dtype::kS16;
    case NRT_DTYPE_INT32:
      return Dtype::kS32;
    case NRT_DTYPE_INT64:
      return Dtype::kS64;
    default:
      return Status(NRT_INVALID, format("dtype: {} has no collectives", number));
  }
}

Result<cc::ReduceOp> reduce_of(nrt_op_type_t op) {
  uint32_t number = 0;
  std::memcpy(&number, &op, sizeof(number));
  switch (number) {
    case NRT_OP_ADD:
      return cc::ReduceOp::kSum;
    case NRT_OP_MAX:
      return cc::ReduceOp::kMax;
    case NRT_OP_MIN:
      return cc::ReduceOp::kMin;
    default:
      return Status(NRT_INVALID, format("op: expected add, max or min, found {:#x}", number));
  }
}

Result<uint64_t> bytes_of(nrt_tensor_t* handle, const char* name) {
  ONRT_ASSIGN_OR_RETURN(const Tensor* const tensor, object_of<Tensor>(handle, name));
  return tensor->size();
}

// A pair of tensors; its element count comes from the smaller one.
Result<Prepared> prepare_pair(nrt_tensor_t* in, nrt_tensor_t* out, nrt_dtype_t dtype,
                              nrt_op_type_t op, nrt_cc_op_type_t cc_op, uint64_t ranks) {
  Prepared prepared;
  prepared.in = in;
  prepared.out = out;
  cc::Call& call = prepared.call;
  ONRT_ASSIGN_OR_RETURN(call.dtype, dtype_of(dtype));
  ONRT_ASSIGN_OR_RETURN(prepared.in_bytes, bytes_of(in, "input"));
  ONRT_ASSIGN_OR_RETURN(prepared.out_bytes, bytes_of(out, "output"));
  uint32_t number = 0;
  std::memcpy(&number, &cc_op, sizeof(number));
  uint64_t in_blocks = 1;
  uint64_t out_blocks = 1;
  switch (number) {
    case NRT_CC_ALLGATHER:
      call.op = cc::Op::kAllGather;
      out_blocks = ranks;
      break;
    case NRT_CC_ALLREDUCE:
      call.op = cc::Op::kAllReduce;
      break;
    case NRT_CC_REDUCESCATTER:
      call.op = cc::Op::kReduceScatter;
      in_blocks = ranks;
      break;
    default:
      return Status(NRT_INVALID, format("cc_op: expected 0 to 2, found {}", number));
  }
  if (cc::op_reduces(call.op)) {
    ONRT_ASSIGN_OR_RETURN(call.reduce_op, reduce_of(op));
  }
  const uint64_t element = dtype_bytes(call.dtype);
  call.count = prepared.in_bytes / element / in_blocks;
  if (call.count * element * in_blocks != prepared.in_bytes ||
      call.count * element * out_blocks != prepared.out_bytes) {
    return Status(NRT_INVALID,
                  format("{} of {} ranks: input of {} bytes and output of {} don't fit",
                         cc::op_name(call.op), ranks, prepared.in_bytes, prepared.out_bytes));
  }
  return prepared;
}

}  // namespace
}  // namespace onrt::api

// What nrta_cc_prepare() makes; a handle of its own kind.
struct nrt_cc_context {
  onrt::api::Member* member = nullptr;
  onrt::cc::Group* group = nullptr;
  int64_t vnc = 0;
  std::vector<onrt::api::Prepared> operations;
};

namespace onrt::api {
namespace {

Result<cc::Group*> group_of(Member& member, const nrt_cc_comm_t& comm) {
  if (comm.rank_n == 0 || comm.rank_n > static_cast<uint32_t>(member.size)) {
    return Status(NRT_INVALID,
                  format("comm.rank_n: expected 1 to {}, found {}", member.size, comm.rank_n));
  }
  ONRT_RETURN_IF_ERROR(check_not_null(comm.replica_group, "comm.replica_group"));
  std::vector<int> ranks;
  for (uint32_t i = 0; i < comm.rank_n; ++i) {
    ranks.push_back(comm.replica_group[i] > INT32_MAX ? -1
                                                      : static_cast<int>(comm.replica_group[i]));
  }
  if (!std::is_sorted(ranks.begin(), ranks.end())) {
    return Status(NRT_INVALID, "comm.replica_group: expected ranks in ascending order");
  }
  if (static_cast<int>(ranks.size()) == member.size) {
    return &member.comm->world();
  }
  auto& group = member.groups[ranks];
  if (group == nullptr) {
    ONRT_ASSIGN_OR_RETURN(group, member.comm->job().make_group(ranks));
  }
  return group.get();
}

Status prepare(nrt_cc_comm_t* comm, const nrt_tensor_list_t* inputs,
               const nrt_tensor_list_t* outputs, const nrt_dtype_t* dtypes,
               const nrt_op_type_t* ops, const nrt_cc_op_type_t* cc_ops, size_t count, bool one,
               nrt_cc_context_t** out) {
  ONRT_RETURN_IF_ERROR(check_not_null(comm, "comm"));
  ONRT_RETURN_IF_ERROR(check_not_null(inputs, "inputs"));
  ONRT_RETURN_IF_ERROR(check_not_null(outputs, "outputs"));
  ONRT_RETURN_IF_ERROR(check_not_null(out, "cc_ctx"));
  ONRT_ASSIGN_OR_RETURN(
      Member* const member,
      Global::instance().join(comm->vnc, comm->ctx_device_id, comm->ctx_device_count));
  auto context = std::make_unique<nrt_cc_context>();
  context->member = member;
  context->vnc = comm->vnc;
  ONRT_ASSIGN_OR_RETURN(context->group, group_of(*member, *comm));
  for (size_t i = 0; i < count; ++i) {
    // A list an operation (coalesced), or one list with the tensors of one kind of operation.
    const nrt_tensor_list_t& in = one ? *inputs : inputs[i];
    const nrt_tensor_list_t& from = one ? *outputs : outputs[i];
    if (in.num_tensors != from.num_tensors || in.num_tensors == 0 || in.tensors == nullptr ||
        from.tensors == nullptr) {
      return Status(NRT_INVALID, format("operation {}: {} inputs and {} outputs; expected pairs", i,
                                        in.num_tensors, from.num_tensors));
    }
    for (size_t k = 0; k < in.num_tensors; ++k) {
      ONRT_ASSIGN_OR_RETURN(Prepared prepared,
                            prepare_pair(in.tensors[k], from.tensors[k], dtypes[i], ops[i],
                                         cc_ops[i], static_cast<uint64_t>(context->group->size())));
      context->operations.push_back(std::move(prepared));
    }
  }
  *out = context.release();
  return ok_status();
}

Status prepare_coalesced(nrt_cc_comm_t* comm, nrt_tensor_list_t* inputs, nrt_tensor_list_t* outputs,
                         const nrt_dtype_t* dtypes, const nrt_op_type_t* ops,
                         const nrt_cc_op_type_t* cc_ops, size_t num_ops,
                         nrt_cc_context_t** cc_ctx) {
  if (num_ops == 0 || num_ops > 4096) {
    return Status(NRT_INVALID, format("num_ops: expected 1 to 4096, found {}", num_ops));
  }
  ONRT_RETURN_IF_ERROR(check_not_null(dtypes, "dtypes"));
  ONRT_RETURN_IF_ERROR(check_not_null(ops, "ops"));
  ONRT_RETURN_IF_ERROR(check_not_null(cc_ops, "cc_ops"));
  return prepare(comm, inputs, outputs, dtypes, ops, cc_ops, num_ops, false, cc_ctx);
}

// Units of collectives: bit 15 tells them from others, then core and queue.
uint16_t unit_of(int64_t vnc, int queue) {
  return static_cast<uint16_t>(0x8000 | static_cast<int>(vnc) << 2 | queue);
}

void reap(Queue& queue) {
  while (!queue.pending.empty()) {
    Scheduled& front = queue.pending.front();
    NRT_STATUS result = NRT_SUCCESS;
    for (const cc::RequestRef& request : front.requests) {
      Status status;
      if (!request->test(&status)) {
        return;
      }
      result = result == NRT_SUCCESS ? status.code() : result;
    }
    if (front.ret != nullptr) {
      *front.ret = result;
    }
    queue.completed = front.number;
    queue.pending.pop_front();
  }
}

Status schedule(nrt_cc_context_t** cc_ctx, int queue, NRT_STATUS* ret, nrta_seq_t* sequence) {
  ONRT_RETURN_IF_ERROR(check_not_null(cc_ctx, "cc_ctx"));
  ONRT_RETURN_IF_ERROR(check_not_null(*cc_ctx, "*cc_ctx"));
  ONRT_RETURN_IF_ERROR(check_not_null(sequence, "req_sequence"));
  nrt_cc_context& context = **cc_ctx;
  if (queue < 0 || queue >= kQueues) {
    return Status(NRT_INVALID, format("queue: expected 0 to {}, found {}", kQueues - 1, queue));
  }
  const MutexLock lock(Global::instance().mutex());
  cc::Group* group = context.group;
  if (queue != 0) {
    const auto stream = context.member->streams.find(static_cast<uint32_t>(queue));
    if (stream == context.member->streams.end() || group != &context.member->comm->world()) {
      return Status(NRT_INVALID, format("queue {}: it takes operations of all ranks, after "
                                        "nrt_cc_create_stream({})",
                                        queue, queue));
    }
    group = stream->second.get();
  }
  Scheduled scheduled;
  scheduled.ret = ret;
  for (Prepared& prepared : context.operations) {
    auto keep = std::make_shared<Keep>();
    CcComm& comm = *context.member->comm;
    ONRT_ASSIGN_OR_RETURN(prepared.call.in, comm.resolve_tensor(prepared.in, 0, prepared.in_bytes,
                                                                "input", keep.get()));
    ONRT_ASSIGN_OR_RETURN(
        prepared.call.out,
        comm.resolve_tensor(prepared.out, 0, prepared.out_bytes, "output", keep.get()));
    ONRT_ASSIGN_OR_RETURN(auto request, group->start(prepared.call, std::move(keep)));
    scheduled.requests.push_back(std::move(request));
  }
  Queue& target = context.member->queues[queue];
  scheduled.number = ++target.last;
  *sequence = static_cast<uint64_t>(unit_of(context.vnc, queue)) << 48 | scheduled.number;
  target.pending.push_back(std::move(scheduled));
  delete *cc_ctx;
  *cc_ctx = nullptr;
  return ok_status();
}

Result<Queue*> queue_of(uint16_t unit) {
  const int queue = unit & 3;
  if ((unit & 0x8000) == 0 || queue >= kQueues) {
    return Status(NRT_INVALID, format("unit {:#x}: it never got a request", unit));
  }
  ONRT_ASSIGN_OR_RETURN(Member* const member, Global::instance().find((unit & 0x7fff) >> 2));
  return &member->queues[queue];
}

}  // namespace

void leave_global_communicators() { Global::instance().leave(); }

}  // namespace onrt::api

using onrt::api::c_boundary;
using onrt::api::check_not_null;
using onrt::api::Global;

extern "C" NRT_STATUS nrt_build_global_comm(int32_t vnc, uint32_t g_device_id,
                                            uint32_t g_device_count) {
  return c_boundary(
      [&] { return Global::instance().join(vnc, g_device_id, g_device_count).status(); });
}

extern "C" NRT_STATUS nrt_cc_global_comm_init(uint32_t vnc, uint32_t g_device_id,
                                              uint32_t g_device_count) {
  return c_boundary(
      [&] { return Global::instance().join(vnc, g_device_id, g_device_count).status(); });
}

extern "C" NRT_STATUS nrt_barrier(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count) {
  return c_boundary([&]() -> onrt::Status {
    ONRT_ASSIGN_OR_RETURN(onrt::api::Member* const member,
                          Global::instance().join(vnc, g_device_id, g_device_count));
    return member->comm->world().run(onrt::cc::Call());
  });
}

extern "C" NRT_STATUS nrt_all_gather(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count,
                                     uint32_t rank_input_size, void* input, void* output) {
  return c_boundary([&]() -> onrt::Status {
    if (rank_input_size != 0) {
      ONRT_RETURN_IF_ERROR(check_not_null(input, "input"));
      ONRT_RETURN_IF_ERROR(check_not_null(output, "output"));
    }
    ONRT_ASSIGN_OR_RETURN(onrt::api::Member* const member,
                          Global::instance().join(vnc, g_device_id, g_device_count));
    onrt::cc::Call call;
    call.op = onrt::cc::Op::kAllGather;
    call.count = rank_input_size;
    call.in = member->comm->resolve_host(input, rank_input_size);
    call.out =
        member->comm->resolve_host(output, static_cast<uint64_t>(rank_input_size) * g_device_count);
    return member->comm->world().run(call);
  });
}

extern "C" NRT_STATUS nrt_cc_create_stream(uint32_t stream_id) {
  return c_boundary([&]() -> onrt::Status {
    if (stream_id >= static_cast<uint32_t>(onrt::api::kQueues)) {
      return {NRT_INVALID, onrt::format("stream_id: expected 0 to {}, found {}",
                                        onrt::api::kQueues - 1, stream_id)};
    }
    const onrt::MutexLock lock(Global::instance().mutex());
    const auto members = Global::instance().all();
    if (members.empty()) {
      return {NRT_INVALID, "no communicator: call nrt_cc_global_comm_init() first"};
    }
    for (onrt::api::Member* const member : members) {
      auto& stream = member->streams[stream_id];
      if (stream == nullptr) {
        ONRT_ASSIGN_OR_RETURN(stream,
                              member->comm->job().make_group(member->comm->world().ranks()));
      }
    }
    return onrt::ok_status();
  });
}

extern "C" NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t* comm, nrt_tensor_list_t* input,
                                      nrt_tensor_list_t* output, nrt_dtype_t dtype,
                                      nrt_op_type_t op, nrt_cc_op_type_t cc_op,
                                      nrt_cc_context_t** cc_ctx) {
  return c_boundary([&] {
    return onrt::api::prepare(comm, input, output, &dtype, &op, &cc_op, 1, true, cc_ctx);
  });
}

extern "C" NRT_STATUS nrta_cc_prepare_coalesced(nrt_cc_comm_t* comm, nrt_tensor_list_t* inputs,
                                                nrt_tensor_list_t* outputs,
                                                const nrt_dtype_t* dtypes, const nrt_op_type_t* ops,
                                                const nrt_cc_op_type_t* cc_ops, size_t num_ops,
                                                nrt_cc_context_t** cc_ctx) {
  return c_boundary([&] {
    return onrt::api::prepare_coalesced(comm, inputs, outputs, dtypes, ops, cc_ops, num_ops,
                                        cc_ctx);
  });
}

extern "C" NRT_STATUS nrt_cc_prepare_coalesced(nrt_cc_comm_t* comm, nrt_tensor_list_t* inputs,
                                               nrt_tensor_list_t* outputs,
                                               const nrt_dtype_t* dtypes, const nrt_op_type_t* ops,
                                               const nrt_cc_op_type_t* cc_ops, size_t num_ops,
                                               nrt_cc_context_t** cc_ctx) {
  return c_boundary([&] {
    return onrt::api::prepare_coalesced(comm, inputs, outputs, dtypes, ops, cc_ops, num_ops,
                                        cc_ctx);
  });
}

extern "C" NRT_STATUS nrta_cc_schedule(nrt_cc_context_t** cc_ctx, int queue, NRT_STATUS* ret,
                                       nrta_seq_t* req_sequence) {
  return c_boundary([&] { return onrt::api::schedule(cc_ctx, queue, ret, req_sequence); });
}

extern "C" NRT_STATUS nrta_is_completed(nrta_seq_t seq, bool* is_completed) {
  return c_boundary([&]() -> onrt::Status {
    ONRT_RETURN_IF_ERROR(check_not_null(is_completed, "is_completed"));
    const uint64_t number = NRTA_SEQ_GET_SEQ_NUM(seq);
    ONRT_ASSIGN_OR_RETURN(onrt::api::Queue* const queue,
                          onrt::api::queue_of(static_cast<uint16_t>(NRTA_SEQ_GET_XU_ID(seq))));
    const onrt::MutexLock lock(Global::instance().mutex());
    if (number == 0 || number > queue->last) {
      return {NRT_INVALID, onrt::format("request {} was never given out", number)};
    }
    onrt::api::reap(*queue);
    *is_completed = number <= queue->completed;
    return onrt::ok_status();
  });
}

extern "C" NRT_STATUS nrta_get_sequence(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t* seq) {
  return c_boundary([&]() -> onrt::Status {
    ONRT_RETURN_IF_ERROR(check_not_null(seq, "seq"));
    if (xu != NRTA_XU_COLLECTIVES || queue < 0 || queue >= onrt::api::kQueues ||
        lnc > INT16_MAX / 4) {
      return {NRT_INVALID,
              onrt::format("unit of core {}, type {}, queue {}: it never got a request", lnc,
                           static_cast<int>(xu), queue)};
    }
    const uint16_t unit = onrt::api::unit_of(lnc, queue);
    ONRT_ASSIGN_OR_RETURN(onrt::api::Queue* const found, onrt::api::queue_of(unit));
    const onrt::MutexLock lock(Global::instance().mutex());
    onrt::api::reap(*found);
    *seq = static_cast<uint64_t>(unit) << 48 | found->completed;
    return onrt::ok_status();
  });
}
