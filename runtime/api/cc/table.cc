// SPDX-License-Identifier: Apache-2.0
// The functions of onrt_cc_api_t: argument checks, and one call each.
#include <algorithm>
#include <cstring>

#include "runtime/api/cc/objects.h"
#include "runtime/api/handles.h"

namespace onrt::api {
namespace {

template <class T, class Handle>
Result<T*> find(const Handle* handle, const char* name) {
  return object_of<T>(handle, name);
}
template <class Handle, class T>
Handle* handle_of(const T* object) {
  return static_cast<Handle*>(HandleTable<T>::handle_of(object));
}

// ---- communicators and groups -------------------------------------------------------------------

NRT_STATUS init(const onrt_cc_init_t* init, onrt_cc_comm_t** comm) {
  return c_boundary(
      [&]() -> Status {
        ONRT_RETURN_IF_ERROR(check_not_null(init, "init"));
        ONRT_RETURN_IF_ERROR(check_not_null(comm, "comm"));
        if (init->struct_size < sizeof(size_t)) {
          return Status(NRT_INVALID, format("init.struct_size: expected {}, found {}",
                                            sizeof(onrt_cc_init_t), init->struct_size));
        }
        onrt_cc_init_t known{};
        std::memcpy(&known, init, std::min(sizeof(known), init->struct_size));
        CommRequest request;
        request.root = known.root == nullptr ? "" : known.root;
        request.rank = known.rank;
        request.size = known.size;
        request.timeout_ms = known.timeout_ms;
        request.join_timeout_ms = known.join_timeout_ms;
        request.algorithm = known.algorithm == nullptr ? "" : known.algorithm;
        request.deterministic = known.deterministic != 0;
        if (Runtime::instance().state() != RuntimeState::kInit) {
          refresh_context();
        }
        ONRT_ASSIGN_OR_RETURN(auto made, CcComm::join(request));
        *comm = handle_of<onrt_cc_comm_t>(
            HandleTable<CcCommHandle>::instance().create(std::move(made)));
        return ok_status();
      },
      "onrt_cc_api_t::init");
}

Result<CcComm*> comm_of(const onrt_cc_comm_t* handle) {
  ONRT_ASSIGN_OR_RETURN(CcCommHandle* const found, find<CcCommHandle>(handle, "comm"));
  return found->comm.get();
}

NRT_STATUS destroy(onrt_cc_comm_t* handle) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcCommHandle* const found, find<CcCommHandle>(handle, "comm"));
        if (!found->comm->owned_here()) {
          static_cast<void>(found->comm.release());  // the parent's: nothing here is ours to end
        }
        found->drop_world();
        HandleTable<CcCommHandle>::instance().destroy(found);
        return ok_status();
      },
      "onrt_cc_api_t::destroy");
}

NRT_STATUS comm_rank(const onrt_cc_comm_t* handle, int32_t* rank, int32_t* size) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcComm* const comm, comm_of(handle));
        ONRT_RETURN_IF_ERROR(check_not_null(rank, "rank"));
        ONRT_RETURN_IF_ERROR(check_not_null(size, "size"));
        *rank = comm->job().rank();
        *size = comm->job().size();
        return ok_status();
      },
      "onrt_cc_api_t::rank");
}

NRT_STATUS comm_status(const onrt_cc_comm_t* handle) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcComm* const comm, comm_of(handle));
        return comm->job().status();
      },
      "onrt_cc_api_t::status");
}

NRT_STATUS comm_abort(onrt_cc_comm_t* handle, const char* text) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcComm* const comm, comm_of(handle));
        comm->job().abort(format("rank {} aborted the job{}{}", comm->job().rank(),
                                 text == nullptr ? "" : ": ", text == nullptr ? "" : text));
        return ok_status();
      },
      "onrt_cc_api_t::abort");
}

NRT_STATUS world(onrt_cc_comm_t* handle, onrt_cc_group_t** group) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcCommHandle* const found, find<CcCommHandle>(handle, "comm"));
        ONRT_RETURN_IF_ERROR(check_not_null(group, "group"));
        *group = handle_of<onrt_cc_group_t>(found->world);
        return ok_status();
      },
      "onrt_cc_api_t::world");
}

NRT_STATUS make_group(onrt_cc_comm_t* handle, const uint32_t* ranks, size_t count,
                      onrt_cc_group_t** group) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcComm* const comm, comm_of(handle));
        ONRT_RETURN_IF_ERROR(check_not_null(ranks, "ranks"));
        ONRT_RETURN_IF_ERROR(check_not_null(group, "group"));
        if (count > static_cast<size_t>(comm->job().size())) {
          return Status(NRT_INVALID,
                        format("group of {} ranks: the job has {}", count, comm->job().size()));
        }
        std::vector<int> members;
        for (size_t i = 0; i < count; ++i) {
          members.push_back(ranks[i] > INT32_MAX ? -1 : static_cast<int>(ranks[i]));
        }
        ONRT_ASSIGN_OR_RETURN(auto made, comm->job().make_group(std::move(members)));
        *group = handle_of<onrt_cc_group_t>(
            HandleTable<CcGroup>::instance().create(*comm, std::move(made)));
        return ok_status();
      },
      "onrt_cc_api_t::group");
}

NRT_STATUS split(onrt_cc_group_t* parent, int32_t colour, onrt_cc_group_t** group) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcGroup* const from, find<CcGroup>(parent, "parent"));
        ONRT_RETURN_IF_ERROR(check_not_null(group, "group"));
        ONRT_ASSIGN_OR_RETURN(auto made, from->comm.job().split(from->members(), colour));
        *group = made == nullptr
                     ? nullptr
                     : handle_of<onrt_cc_group_t>(
                           HandleTable<CcGroup>::instance().create(from->comm, std::move(made)));
        return ok_status();
      },
      "onrt_cc_api_t::split");
}

NRT_STATUS group_destroy(onrt_cc_group_t* handle) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcGroup* const group, find<CcGroup>(handle, "group"));
        if (group->group == nullptr) {
          return Status(NRT_INVALID, "group: the group of all ranks ends with its communicator");
        }
        if (!group->comm.owned_here()) {
          static_cast<void>(group->group.release());
        }
        HandleTable<CcGroup>::instance().destroy(group);
        return ok_status();
      },
      "onrt_cc_api_t::group_destroy");
}

NRT_STATUS group_rank(const onrt_cc_group_t* handle, int32_t* rank, int32_t* size) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcGroup* const group, find<CcGroup>(handle, "group"));
        ONRT_RETURN_IF_ERROR(check_not_null(rank, "rank"));
        ONRT_RETURN_IF_ERROR(check_not_null(size, "size"));
        *rank = group->members().rank();
        *size = group->members().size();
        return ok_status();
      },
      "onrt_cc_api_t::group_rank");
}

// ---- operations ---------------------------------------------------------------------------------

// What an operation was asked to do, and how it is then started.
class Builder {
 public:
  explicit Builder(const onrt_cc_group_t* handle) : group_(find<CcGroup>(handle, "group")) {}

  Status ok(onrt_cc_dtype_t dtype) {
    ONRT_RETURN_IF_ERROR(group_.status());
    uint32_t number = 0;
    std::memcpy(&number, &dtype, sizeof(number));
    const DtypeInfo* info = find_dtype(number);
    if (info == nullptr) {
      return Status(NRT_INVALID, format("dtype: {} is no element type", number));
    }
    call.dtype = info->dtype;
    return ok_status();
  }
  CcGroup& group() { return **group_; }
  cc::Group& members() { return group().members(); }
  uint64_t ranks() { return static_cast<uint64_t>(members().size()); }

  Status count(size_t count) {
    // So that no product of a count, the ranks and a type's size overflows.
    if (count > (1ull << 48)) {
      return Status(NRT_INVALID, format("count: expected at most 2^48, found {}", count));
    }
    call.count = count;
    return ok_status();
  }

  Status op(onrt_cc_reduce_t op) {
    uint32_t number = 0;
    std::memcpy(&number, &op, sizeof(number));
    if (number >= static_cast<uint32_t>(cc::kReduceOps)) {
      return Status(NRT_INVALID, format("op: expected 0 (sum) to 4 (avg), found {}", number));
    }
    call.reduce_op = static_cast<cc::ReduceOp>(number);
    return ok_status();
  }

  // `blocks` blocks of call.count elements.
  Status buffer(const onrt_cc_buffer_t* buffer, uint64_t blocks, const char* name,
                cc::LocalBuffer* out) {
    return bytes(buffer, blocks * call.count * dtype_bytes(call.dtype), name, out);
  }
  Status bytes(const onrt_cc_buffer_t* buffer, uint64_t bytes, const char* name,
               cc::LocalBuffer* out) {
    if (bytes == 0 &&
        (buffer == nullptr || (buffer->tensor == nullptr && buffer->host == nullptr))) {
      return ok_status();
    }
    ONRT_RETURN_IF_ERROR(check_not_null(buffer, name));
    if ((buffer->tensor == nullptr) == (buffer->host == nullptr)) {
      return Status(NRT_INVALID, format("{}: expected either a tensor or host memory, found {}",
                                        name, buffer->tensor == nullptr ? "neither" : "both"));
    }
    if (buffer->host != nullptr) {
      *out =
          group().comm.resolve_host(static_cast<std::byte*>(buffer->host) + buffer->offset, bytes);
      return ok_status();
    }
    ONRT_ASSIGN_OR_RETURN(
        *out, group().comm.resolve_tensor(buffer->tensor, buffer->offset, bytes, name, &keep_));
    return ok_status();
  }

  Status counts(const uint64_t* counts, const uint64_t* offsets, const char* name,
                std::vector<uint64_t>* out_counts, std::vector<uint64_t>* out_offsets,
                uint64_t* elements) {
    ONRT_RETURN_IF_ERROR(check_not_null(counts, name));
    uint64_t next = 0;
    *elements = 0;
    for (uint64_t i = 0; i < ranks(); ++i) {
      const uint64_t offset = offsets == nullptr ? next : offsets[i];
      if (counts[i] > (1ull << 48) || offset > (1ull << 48)) {
        return Status(NRT_INVALID, format("{}[{}]: {} elements at {}; expected at most 2^48", name,
                                          i, counts[i], offset));
      }
      out_counts->push_back(counts[i]);
      out_offsets->push_back(offset);
      next = offset + counts[i];
      *elements = std::max(*elements, counts[i] == 0 ? 0 : next);
    }
    return ok_status();
  }

  Status start(onrt_cc_request_t** request) {
    if (request == nullptr) {
      return members().run(call);
    }
    ONRT_ASSIGN_OR_RETURN(auto made, members().start(std::move(call), keep()));
    give(std::move(made), request);
    return ok_status();
  }
  Status start_message(cc::Message message, onrt_cc_request_t** request) {
    if (request == nullptr) {
      return members().run_message(std::move(message));
    }
    ONRT_ASSIGN_OR_RETURN(auto made, members().start_message(std::move(message), keep()));
    give(std::move(made), request);
    return ok_status();
  }

  cc::Call call;

 private:
  std::shared_ptr<void> keep() { return std::make_shared<Keep>(std::move(keep_)); }
  static void give(cc::RequestRef made, onrt_cc_request_t** request) {
    *request =
        handle_of<onrt_cc_request_t>(HandleTable<CcRequest>::instance().create(std::move(made)));
  }

  Result<CcGroup*> group_;
  Keep keep_;
};

// An operation with `in_blocks` and `out_blocks` blocks of `count`; 0: no such buffer here.
Status run_blocks(Builder& builder, cc::Op op, const onrt_cc_buffer_t* in, uint64_t in_blocks,
                  const onrt_cc_buffer_t* out, uint64_t out_blocks, onrt_cc_request_t** request) {
  builder.call.op = op;
  if (in_blocks != 0) {
    ONRT_RETURN_IF_ERROR(builder.buffer(in, in_blocks, "in", &builder.call.in));
  }
  if (out_blocks != 0) {
    ONRT_RETURN_IF_ERROR(builder.buffer(out, out_blocks, "out", &builder.call.out));
  }
  return builder.start(request);
}

NRT_STATUS all_reduce(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                      const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                      onrt_cc_reduce_t op, onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(dtype));
        ONRT_RETURN_IF_ERROR(builder.op(op));
        ONRT_RETURN_IF_ERROR(builder.count(count));
        return run_blocks(builder, cc::Op::kAllReduce, in, 1, out, 1, request);
      },
      "onrt_cc_api_t::all_reduce");
}

NRT_STATUS all_gather(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                      const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                      onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(dtype));
        ONRT_RETURN_IF_ERROR(builder.count(count));
        return run_blocks(builder, cc::Op::kAllGather, in, 1, out, builder.ranks(), request);
      },
      "onrt_cc_api_t::all_gather");
}

NRT_STATUS all_gather_v(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                        const onrt_cc_buffer_t* out, const uint64_t* counts,
                        const uint64_t* offsets, onrt_cc_dtype_t dtype,
                        onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(dtype));
        cc::Call& call = builder.call;
        call.op = cc::Op::kAllGatherV;
        uint64_t elements = 0;
        ONRT_RETURN_IF_ERROR(
            builder.counts(counts, offsets, "counts", &call.counts, &call.offsets, &elements));
        const auto rank = static_cast<size_t>(builder.members().rank());
        const uint64_t bytes = dtype_bytes(call.dtype);
        ONRT_RETURN_IF_ERROR(builder.bytes(in, call.counts[rank] * bytes, "in", &call.in));
        ONRT_RETURN_IF_ERROR(builder.bytes(out, elements * bytes, "out", &call.out));
        return builder.start(request);
      },
      "onrt_cc_api_t::all_gather_v");
}

NRT_STATUS reduce_scatter(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                          const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                          onrt_cc_reduce_t op, onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(dtype));
        ONRT_RETURN_IF_ERROR(builder.op(op));
        ONRT_RETURN_IF_ERROR(builder.count(count));
        return run_blocks(builder, cc::Op::kReduceScatter, in, builder.ranks(), out, 1, request);
      },
      "onrt_cc_api_t::reduce_scatter");
}

NRT_STATUS broadcast(onrt_cc_group_t* group, const onrt_cc_buffer_t* buffer, size_t count,
                     onrt_cc_dtype_t dtype, int32_t root, onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(dtype));
        ONRT_RETURN_IF_ERROR(builder.count(count));
        builder.call.op = cc::Op::kBroadcast;
        builder.call.root = root;
        ONRT_RETURN_IF_ERROR(builder.buffer(buffer, 1, "buffer", &builder.call.out));
        builder.call.in = builder.call.out;
        return builder.start(request);
      },
      "onrt_cc_api_t::broadcast");
}

NRT_STATUS reduce(onrt_cc_group_t* group, const onrt_cc_buffer_t* in, const onrt_cc_buffer_t* out,
                  size_t count, onrt_cc_dtype_t dtype, onrt_cc_reduce_t op, int32_t root,
                  onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(dtype));
        ONRT_RETURN_IF_ERROR(builder.op(op));
        ONRT_RETURN_IF_ERROR(builder.count(count));
        builder.call.root = root;
        const bool here = builder.members().rank() == root;
        return run_blocks(builder, cc::Op::kReduce, in, 1, out, here ? 1 : 0, request);
      },
      "onrt_cc_api_t::reduce");
}

NRT_STATUS gather(onrt_cc_group_t* group, const onrt_cc_buffer_t* in, const onrt_cc_buffer_t* out,
                  size_t count, onrt_cc_dtype_t dtype, int32_t root, onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(dtype));
        ONRT_RETURN_IF_ERROR(builder.count(count));
        builder.call.root = root;
        const bool here = builder.members().rank() == root;
        return run_blocks(builder, cc::Op::kGather, in, 1, out, here ? builder.ranks() : 0,
                          request);
      },
      "onrt_cc_api_t::gather");
}

NRT_STATUS scatter(onrt_cc_group_t* group, const onrt_cc_buffer_t* in, const onrt_cc_buffer_t* out,
                   size_t count, onrt_cc_dtype_t dtype, int32_t root, onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(dtype));
        ONRT_RETURN_IF_ERROR(builder.count(count));
        builder.call.root = root;
        const bool here = builder.members().rank() == root;
        return run_blocks(builder, cc::Op::kScatter, in, here ? builder.ranks() : 0, out, 1,
                          request);
      },
      "onrt_cc_api_t::scatter");
}

NRT_STATUS all_to_all(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                      const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                      onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(dtype));
        ONRT_RETURN_IF_ERROR(builder.count(count));
        return run_blocks(builder, cc::Op::kAllToAll, in, builder.ranks(), out, builder.ranks(),
                          request);
      },
      "onrt_cc_api_t::all_to_all");
}

NRT_STATUS all_to_all_v(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                        const onrt_cc_buffer_t* out, const uint64_t* send_counts,
                        const uint64_t* send_offsets, const uint64_t* receive_counts,
                        const uint64_t* receive_offsets, onrt_cc_dtype_t dtype,
                        onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(dtype));
        cc::Call& call = builder.call;
        call.op = cc::Op::kAllToAllV;
        uint64_t sent = 0;
        uint64_t received = 0;
        ONRT_RETURN_IF_ERROR(builder.counts(send_counts, send_offsets, "send_counts", &call.counts,
                                            &call.offsets, &sent));
        ONRT_RETURN_IF_ERROR(builder.counts(receive_counts, receive_offsets, "receive_counts",
                                            &call.receive_counts, &call.receive_offsets,
                                            &received));
        const uint64_t bytes = dtype_bytes(call.dtype);
        ONRT_RETURN_IF_ERROR(builder.bytes(in, sent * bytes, "in", &call.in));
        ONRT_RETURN_IF_ERROR(builder.bytes(out, received * bytes, "out", &call.out));
        return builder.start(request);
      },
      "onrt_cc_api_t::all_to_all_v");
}

NRT_STATUS permute(onrt_cc_group_t* group, const onrt_cc_buffer_t* in, const onrt_cc_buffer_t* out,
                   size_t count, onrt_cc_dtype_t dtype, const int32_t* pairs, size_t count_pairs,
                   onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(dtype));
        ONRT_RETURN_IF_ERROR(builder.count(count));
        if (count_pairs > builder.ranks()) {
          return Status(NRT_INVALID, format("pairs: {} of {} ranks; each is a source at most once",
                                            count_pairs, builder.ranks()));
        }
        if (count_pairs != 0) {
          ONRT_RETURN_IF_ERROR(check_not_null(pairs, "pairs"));
        }
        for (size_t i = 0; i < count_pairs; ++i) {
          builder.call.pairs.emplace_back(pairs[2 * i], pairs[2 * i + 1]);
        }
        return run_blocks(builder, cc::Op::kPermute, in, 1, out, 1, request);
      },
      "onrt_cc_api_t::permute");
}

NRT_STATUS barrier(onrt_cc_group_t* group, onrt_cc_request_t** request) {
  return c_boundary(
      [&]() -> Status {
        Builder builder(group);
        ONRT_RETURN_IF_ERROR(builder.ok(ONRT_CC_U8));
        builder.call.op = cc::Op::kBarrier;
        return builder.start(request);
      },
      "onrt_cc_api_t::barrier");
}

Status message(onrt_cc_group_t* group, const onrt_cc_buffer_t* buffer, size_t count,
               onrt_cc_dtype_t dtype, int32_t peer, bool send, onrt_cc_request_t** request) {
  Builder builder(group);
  ONRT_RETURN_IF_ERROR(builder.ok(dtype));
  ONRT_RETURN_IF_ERROR(builder.count(count));
  cc::LocalBuffer local;
  ONRT_RETURN_IF_ERROR(builder.buffer(buffer, 1, "buffer", &local));
  cc::Message message;
  message.peer = peer;
  message.send = send;
  message.data = local.data;
  message.bytes = count * dtype_bytes(builder.call.dtype);
  message.dtype = builder.call.dtype;
  return builder.start_message(std::move(message), request);
}

NRT_STATUS send(onrt_cc_group_t* group, const onrt_cc_buffer_t* buffer, size_t count,
                onrt_cc_dtype_t dtype, int32_t peer, onrt_cc_request_t** request) {
  return c_boundary([&] { return message(group, buffer, count, dtype, peer, true, request); },
                    "onrt_cc_api_t::send");
}

NRT_STATUS receive(onrt_cc_group_t* group, const onrt_cc_buffer_t* buffer, size_t count,
                   onrt_cc_dtype_t dtype, int32_t peer, onrt_cc_request_t** request) {
  return c_boundary([&] { return message(group, buffer, count, dtype, peer, false, request); },
                    "onrt_cc_api_t::receive");
}

// ---- requests, memory, statistics ---------------------------------------------------------------

NRT_STATUS request_test(onrt_cc_request_t* handle, int32_t* done) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcRequest* const found, find<CcRequest>(handle, "request"));
        ONRT_RETURN_IF_ERROR(check_not_null(done, "done"));
        Status status;
        *done = found->request->test(&status) ? 1 : 0;
        return status;
      },
      "onrt_cc_api_t::request_test");
}

NRT_STATUS request_wait(onrt_cc_request_t* handle) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcRequest* const found, find<CcRequest>(handle, "request"));
        return found->request->wait();
      },
      "onrt_cc_api_t::request_wait");
}

NRT_STATUS request_free(onrt_cc_request_t* handle) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcRequest* const found, find<CcRequest>(handle, "request"));
        HandleTable<CcRequest>::instance().destroy(found);
        return ok_status();
      },
      "onrt_cc_api_t::request_free");
}

NRT_STATUS host_allocate(onrt_cc_comm_t* handle, size_t bytes, void** data) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcComm* const comm, comm_of(handle));
        ONRT_RETURN_IF_ERROR(check_not_null(data, "data"));
        ONRT_ASSIGN_OR_RETURN(*data, comm->pool().allocate(bytes));
        return ok_status();
      },
      "onrt_cc_api_t::host_allocate");
}

NRT_STATUS host_free(onrt_cc_comm_t* handle, void* data) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcComm* const comm, comm_of(handle));
        return data == nullptr ? ok_status() : comm->pool().free(data);
      },
      "onrt_cc_api_t::host_free");
}

NRT_STATUS traffic(const onrt_cc_group_t* handle, uint64_t* to, uint64_t* from) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcGroup* const group, find<CcGroup>(handle, "group"));
        ONRT_RETURN_IF_ERROR(check_not_null(to, "to"));
        ONRT_RETURN_IF_ERROR(check_not_null(from, "from"));
        std::vector<uint64_t> sent;
        std::vector<uint64_t> received;
        group->members().traffic(&sent, &received);
        std::copy(sent.begin(), sent.end(), to);
        std::copy(received.begin(), received.end(), from);
        return ok_status();
      },
      "onrt_cc_api_t::traffic");
}

template <size_t N>
void copy_text(const std::string& text, char (&out)[N]) {
  const size_t length = std::min(text.size(), N - 1);
  std::memcpy(out, text.data(), length);
  out[length] = 0;
}

NRT_STATUS last_call(const onrt_cc_group_t* handle, onrt_cc_last_call_t* call) {
  return c_boundary(
      [&]() -> Status {
        ONRT_ASSIGN_OR_RETURN(CcGroup* const group, find<CcGroup>(handle, "group"));
        ONRT_RETURN_IF_ERROR(check_not_null(call, "call"));
        const cc::Group::LastCall last = group->members().last();
        onrt_cc_last_call_t filled{};
        filled.struct_size = call->struct_size;
        filled.calls = last.calls;
        copy_text(last.algorithm, filled.algorithm);
        copy_text("shm", filled.transport);
        copy_text(last.why, filled.why);
        std::memcpy(call, &filled, std::min(sizeof(filled), call->struct_size));
        return ok_status();
      },
      "onrt_cc_api_t::last_call");
}

constexpr onrt_cc_api_t kTable = {ONRT_CC_VERSION,
                                  sizeof(onrt_cc_api_t),
                                  init,
                                  destroy,
                                  comm_rank,
                                  comm_status,
                                  comm_abort,
                                  world,
                                  make_group,
                                  split,
                                  group_destroy,
                                  group_rank,
                                  all_reduce,
                                  all_gather,
                                  all_gather_v,
                                  reduce_scatter,
                                  broadcast,
                                  reduce,
                                  gather,
                                  scatter,
                                  all_to_all,
                                  all_to_all_v,
                                  permute,
                                  barrier,
                                  send,
                                  receive,
                                  request_test,
                                  request_wait,
                                  request_free,
                                  host_allocate,
                                  host_free,
                                  traffic,
                                  last_call};

}  // namespace
}  // namespace onrt::api

extern "C" const onrt_cc_api_t* onrt_cc_api(uint32_t version) {
  return version == ONRT_CC_VERSION ? &onrt::api::kTable : nullptr;
}
