/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective operations between the processes of a job, started by the host.
 *
 * A program fetches the table once:
 *     const onrt_cc_api_t* cc = onrt_cc_api(ONRT_CC_VERSION);
 * libnrt.so.1 exports onrt_cc_api; a program that must also run on the vendor's library looks it up
 * with dlsym().
 *
 * Ranks. A communicator is this process' membership of a job of `size` ranks. Operations belong to
 * a group: some of the job's ranks, in their order. All ranks of a group call the same operations
 * with the same arguments in the same order. The library compares the calls before any byte reaches
 * an output: when they differ every rank gets NRT_INVALID, and onrt_last_error() holds both calls.
 *
 * Buffers are tensors of nrt_tensor_allocate() or host memory. Tensors in device memory (their
 * runtime must have been initialised before init()) and memory of host_allocate() are read and
 * written in place by all ranks; other memory is copied through memory that the ranks share. An
 * operation may be in place, on all ranks alike: the smaller buffer is then its part of the larger
 * one (all_gather: `in` is block `rank` of `out`; reduce_scatter: `out` is block `rank` of `in`;
 * else both are the same). Buffers must not overlap otherwise. Counts are elements, of one block
 * where buffers have one block a rank.
 *
 * Results. A reduction of bf16, f16 or an 8-bit float accumulates in f32 and rounds once to nearest
 * even; integers wrap around; avg divides the sum (integers: towards zero); a NaN stays a NaN. All
 * ranks get the same bits. With deterministic mode (NRT_CC_DETERMINISTIC=1, or init) inputs are
 * folded in the order of ranks, so results do not depend on algorithm, chunk size or placement.
 *
 * Asynchronous forms. `request` NULL: the function returns when this rank's part is done: its
 * outputs hold the result, its inputs may be changed. Otherwise it returns at once, *request tells
 * of the end (request_test, request_wait; then request_free), and buffers must stay until then.
 * Operations of a group run in the order in which they were called; send and receive run beside
 * them, in order per pair of ranks. Nothing needs to be called for an operation to go on.
 *
 * Errors. Every function returns an NRT_STATUS and leaves a text in onrt_last_error(). NRT_INVALID:
 * arguments of this rank (nothing was started) or calls that differ; NRT_INVALID_HANDLE;
 * NRT_TIMEOUT when a rank did not come or go on within the time-out, with its number, what it was
 * waited for in, and the step; NRT_EXEC_HW_ERR_COLLECTIVES when a rank's process ended; NRT_FAILURE
 * after abort(). The first failure ends the job: every call of every rank returns it from then on,
 * with the first cause. Only calls refused for this rank's own arguments leave the job as it was.
 *
 * Threads. Every function may be called by any thread at any time; calls of one group by several
 * threads take effect one after another, in an order that is up to the caller. destroy functions
 * must be the last call on their object. After fork() the child must not use what it inherited:
 * operations return NRT_INVALID there.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define ONRT_CC_VERSION 1u

typedef struct onrt_cc_comm onrt_cc_comm_t;
typedef struct onrt_cc_group onrt_cc_group_t;
typedef struct onrt_cc_request onrt_cc_request_t;

/* Element types: numbers of XLA's PrimitiveType, as in nrtcc.h. */
typedef enum onrt_cc_dtype {
  ONRT_CC_PRED = 1, /* moved, not reduced */
  ONRT_CC_S8 = 2,
  ONRT_CC_S16 = 3,
  ONRT_CC_S32 = 4,
  ONRT_CC_S64 = 5,
  ONRT_CC_U8 = 6,
  ONRT_CC_U16 = 7,
  ONRT_CC_U32 = 8,
  ONRT_CC_U64 = 9,
  ONRT_CC_F16 = 10,
  ONRT_CC_F32 = 11,
  ONRT_CC_F64 = 12,
  ONRT_CC_BF16 = 16,
  ONRT_CC_F8E5M2 = 19,
  ONRT_CC_F8E4M3FN = 20,
  ONRT_CC_F8E4M3 = 28
} onrt_cc_dtype_t;

typedef enum onrt_cc_reduce {
  ONRT_CC_SUM = 0,
  ONRT_CC_MIN = 1,
  ONRT_CC_MAX = 2,
  ONRT_CC_PROD = 3,
  ONRT_CC_AVG = 4
} onrt_cc_reduce_t;

/* Exactly one of `tensor` and `host` is set. */
typedef struct onrt_cc_buffer {
  nrt_tensor_t* tensor;
  void* host;
  size_t offset; /* bytes from the beginning of either */
} onrt_cc_buffer_t;

/* What init() needs. Zero the struct, set struct_size; fields are only appended. */
typedef struct onrt_cc_init {
  size_t struct_size; /* sizeof(onrt_cc_init_t) */
  const char* root;   /* "host:port" of rank 0; NULL: NEURON_RT_ROOT_COMM_ID, else the launcher's */
  int32_t rank;       /* with size > 0 */
  int32_t size; /* 0: rank and size from the launcher's environment (torchrun, mpirun, srun) */
  uint64_t timeout_ms;      /* of an operation; 0: NEURON_RT_EXEC_TIMEOUT */
  uint64_t join_timeout_ms; /* until all ranks have come; 0: OPENNRT_COMM_JOIN_TIMEOUT */
  const char* algorithm;    /* forced where it applies; NULL: NRT_CC_ALGORITHM */
  int32_t deterministic;    /* 1: on; 0: NRT_CC_DETERMINISTIC */
} onrt_cc_init_t;

/* What last_call() tells. Fields are only appended. */
typedef struct onrt_cc_last_call {
  size_t struct_size; /* set by the caller */
  uint64_t calls;     /* collective operations of the group so far */
  char algorithm[32]; /* "direct", "ring", ... */
  char transport[16]; /* "shm" */
  char why[256];      /* why this algorithm */
} onrt_cc_last_call_t;

typedef struct onrt_cc_table {
  uint32_t version; /* ONRT_CC_VERSION of the library; functions are only appended */
  size_t struct_size;

  /* Joins the job. Blocks until all ranks have joined. NRT_TIMEOUT names the ranks that are
   * missing. Settings that must agree (version, machine, NRT_CC_*) are compared: NRT_INVALID. */
  NRT_STATUS (*init)(const onrt_cc_init_t* init, onrt_cc_comm_t** comm);
  /* Leaves; waits for no peer. Groups and requests of the communicator must have been freed. */
  NRT_STATUS (*destroy)(onrt_cc_comm_t* comm);
  NRT_STATUS (*rank)(const onrt_cc_comm_t* comm, int32_t* rank, int32_t* size);
  /* The job's first failure, or NRT_SUCCESS. */
  NRT_STATUS (*status)(const onrt_cc_comm_t* comm);
  /* Ends the job for all ranks with `text` as the cause (NULL: none). Blocks for nobody. */
  NRT_STATUS (*abort)(onrt_cc_comm_t* comm, const char* text);

  /* The group of all ranks; it belongs to the communicator and must not be destroyed. */
  NRT_STATUS (*world)(onrt_cc_comm_t* comm, onrt_cc_group_t** group);
  /* A group of `count` of the job's ranks, this one among them; its order is that of the ranks.
   * Only members call it; all of them, blocking until they have. */
  NRT_STATUS (*group)(onrt_cc_comm_t* comm, const uint32_t* ranks, size_t count,
                      onrt_cc_group_t** group);
  /* Every rank of `parent` calls it; those of equal `colour` become a group. A negative colour
   * gives none: *group is NULL. */
  NRT_STATUS (*split)(onrt_cc_group_t* parent, int32_t colour, onrt_cc_group_t** group);
  NRT_STATUS (*group_destroy)(onrt_cc_group_t* group);
  NRT_STATUS (*group_rank)(const onrt_cc_group_t* group, int32_t* rank, int32_t* size);

  /* in, out: count elements. */
  NRT_STATUS (*all_reduce)(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                           const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                           onrt_cc_reduce_t op, onrt_cc_request_t** request);
  /* in: count elements; out: one block of count a rank. */
  NRT_STATUS (*all_gather)(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                           const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                           onrt_cc_request_t** request);
  /* in: counts[rank] elements; out: counts[i] of rank i at element offsets[i] (NULL: side by side).
   * Both arrays have one number a rank and are equal on all ranks. */
  NRT_STATUS (*all_gather_v)(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                             const onrt_cc_buffer_t* out, const uint64_t* counts,
                             const uint64_t* offsets, onrt_cc_dtype_t dtype,
                             onrt_cc_request_t** request);
  /* in: one block of count a rank; out: count elements, the reduction of block `rank`. */
  NRT_STATUS (*reduce_scatter)(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                               const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                               onrt_cc_reduce_t op, onrt_cc_request_t** request);
  /* buffer: count elements, of root before, of all ranks after. */
  NRT_STATUS (*broadcast)(onrt_cc_group_t* group, const onrt_cc_buffer_t* buffer, size_t count,
                          onrt_cc_dtype_t dtype, int32_t root, onrt_cc_request_t** request);
  /* in: count elements; out: count, used at root only (else NULL). */
  NRT_STATUS (*reduce)(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                       const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                       onrt_cc_reduce_t op, int32_t root, onrt_cc_request_t** request);
  /* in: count elements; out: one block of count a rank, used at root only (else NULL). */
  NRT_STATUS (*gather)(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                       const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                       int32_t root, onrt_cc_request_t** request);
  /* in: one block of count a rank, used at root only (else NULL); out: count elements. */
  NRT_STATUS (*scatter)(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                        const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                        int32_t root, onrt_cc_request_t** request);
  /* in, out: one block of count a rank; block j of out is block `rank` of rank j's in. */
  NRT_STATUS (*all_to_all)(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                           const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                           onrt_cc_request_t** request);
  /* Arrays with one number a rank: send_counts[j] elements at element send_offsets[j] of in go to
   * rank j; receive_counts[j] from it arrive at receive_offsets[j] of out (offsets NULL: side by
   * side). What one sends must be what the other expects: NRT_INVALID on all ranks. Not in place.
   */
  NRT_STATUS (*all_to_all_v)(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                             const onrt_cc_buffer_t* out, const uint64_t* send_counts,
                             const uint64_t* send_offsets, const uint64_t* receive_counts,
                             const uint64_t* receive_offsets, onrt_cc_dtype_t dtype,
                             onrt_cc_request_t** request);
  /* `pairs`: count_pairs times (source, target), the same on all ranks, each rank at most once as
   * source and as target. out of a target gets in of its source; other outs stay as they are. */
  NRT_STATUS (*permute)(onrt_cc_group_t* group, const onrt_cc_buffer_t* in,
                        const onrt_cc_buffer_t* out, size_t count, onrt_cc_dtype_t dtype,
                        const int32_t* pairs, size_t count_pairs, onrt_cc_request_t** request);
  /* Returns (or ends) when all ranks of the group have called it. */
  NRT_STATUS (*barrier)(onrt_cc_group_t* group, onrt_cc_request_t** request);
  /* A message to, from rank `peer` of the group, not this one. Either side may come first; sizes
   * and types must be equal. */
  NRT_STATUS (*send)(onrt_cc_group_t* group, const onrt_cc_buffer_t* buffer, size_t count,
                     onrt_cc_dtype_t dtype, int32_t peer, onrt_cc_request_t** request);
  NRT_STATUS (*receive)(onrt_cc_group_t* group, const onrt_cc_buffer_t* buffer, size_t count,
                        onrt_cc_dtype_t dtype, int32_t peer, onrt_cc_request_t** request);

  /* *done: 0 or 1; when 1 the result is the operation's status. */
  NRT_STATUS (*request_test)(onrt_cc_request_t* request, int32_t* done);
  /* Blocks until the end; the operation's status. */
  NRT_STATUS (*request_wait)(onrt_cc_request_t* request);
  /* The request may still be running: it then ends by itself. */
  NRT_STATUS (*request_free)(onrt_cc_request_t* request);

  /* Host memory that all ranks of the job reach without a copy; zero at first. */
  NRT_STATUS (*host_allocate)(onrt_cc_comm_t* comm, size_t bytes, void** data);
  NRT_STATUS (*host_free)(onrt_cc_comm_t* comm, void* data);

  /* Bytes that this rank has moved to and from the memory of each rank of the group: what its
   * schedules say. Arrays of the group's size. */
  NRT_STATUS (*traffic)(const onrt_cc_group_t* group, uint64_t* to, uint64_t* from);
  /* About the group's latest collective operation on this rank. */
  NRT_STATUS (*last_call)(const onrt_cc_group_t* group, onrt_cc_last_call_t* call);
} onrt_cc_api_t;

/* The table of that version; NULL for a version that this library does not know. It lives as long
 * as the library. At any time. */
const onrt_cc_api_t* onrt_cc_api(uint32_t version);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
