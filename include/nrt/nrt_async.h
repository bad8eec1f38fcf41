/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous requests: a request is put into the queue of an execution unit (XU) and gets a
 * sequence number; completion is asked for by that number or announced through an eventfd.
 *
 * Two generations of this interface exist under the same names. Libraries from NRT 2.31 on have
 * generation 2 as the default (version node NRT_3.0.0): a status pointer per request. Programs
 * built before that use generation 1 (node NRT_2.0.0): an error tracker. This library has both.
 * Include this file for generation 2; define OPENNRT_ASYNC_GEN1 before it to build against
 * generation 1 (not together with link-time optimisation, which loses the binding to the old node).
 *
 * A unit is (core, type, queue) and works strictly in order; between units there is no order. No
 * call here blocks. Common rules: nrt/nrt.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* A sequence number: the unit's identifier in the upper 16 bits, in the lower 48 a number that
 * rises by one with each request of that unit. */
typedef uint64_t nrta_seq_t;
typedef uint16_t nrta_xu_id_t;

#define NRTA_SEQ_NUM_MAX ((1ull << 48) - 1)
#define NRTA_SEQ_NUM_MASK NRTA_SEQ_NUM_MAX
#define NRTA_SEQ_GET_SEQ_NUM(seq_id) ((seq_id) & NRTA_SEQ_NUM_MASK)
#define NRTA_SEQ_GET_XU_ID(seq_id) ((seq_id) >> 48)

#ifndef OPENNRT_ASYNC_GEN1

/* ---- generation 2 ---- */

typedef enum {
  NRTA_XU_TENSOR_OP = 0, /* reads, writes, copies */
  NRTA_XU_COMPUTE,
  NRTA_XU_COLLECTIVES,
  NRTA_XU_TYPE_NUM
} nrta_xu_t;

/*
 * Requests. What they name (buffers, tensors, models, sets, *ret) must live until the request is
 * complete. *ret is written before completion can be seen. Errors of the call itself:
 * NRT_QUEUE_FULL without any effect; NRT_EXEC_UNIT_UNRECOVERABLE once the unit had a fatal error.
 */
NRT_STATUS nrta_tensor_write(nrt_tensor_t* tensor, const void* buf, uint64_t offset, uint64_t size,
                             int lnc_idx, int queue, NRT_STATUS* ret, nrta_seq_t* req_sequence);
NRT_STATUS nrta_tensor_read(void* buf, nrt_tensor_t* tensor, uint64_t offset, uint64_t size,
                            int lnc_idx, int queue, NRT_STATUS* ret, nrta_seq_t* req_sequence);
NRT_STATUS nrta_tensor_copy(nrt_tensor_t* src, uint64_t src_offset, nrt_tensor_t* dst,
                            uint64_t dst_offset, uint64_t size, int lnc_idx, int queue,
                            NRT_STATUS* ret, nrta_seq_t* req_sequence);

/* Asynchronous forms of nrt_tensor_cast() and nrt_tensor_compute(); see there for where the
 * prototypes come from. */
NRT_STATUS nrta_tensor_cast(const nrt_tensor_t* src, nrt_dtype_t src_dtype, nrt_tensor_t* dst,
                            nrt_dtype_t dst_dtype, int lnc_idx, int queue, NRT_STATUS* ret,
                            nrta_seq_t* req_sequence);
NRT_STATUS nrta_tensor_compute(nrt_op_type_t op, nrt_dtype_t dtype, const nrt_tensor_t* const* srcs,
                               size_t num_src, nrt_tensor_t* dst, int lnc_idx, int queue,
                               NRT_STATUS* ret, nrta_seq_t* req_sequence);

/* Runs a model on its core's compute unit; `queue` is 0. */
NRT_STATUS nrta_execute_schedule(nrt_model_t* model, const nrt_tensor_set_t* input,
                                 nrt_tensor_set_t* output, int queue, NRT_STATUS* ret,
                                 nrta_seq_t* req_sequence);

/* Sets up a collective; scheduling it uses the context up and clears *cc_ctx. */
NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t* comm, nrt_tensor_list_t* input, nrt_tensor_list_t* output,
                           nrt_dtype_t dtype, nrt_op_type_t op, nrt_cc_op_type_t cc_op,
                           nrt_cc_context_t** cc_ctx);
/* As above for `num_ops` collectives that run as one. In the vendor's library since 2.33; in no
 * public header, the prototype is our reading of the release notes. */
NRT_STATUS nrta_cc_prepare_coalesced(nrt_cc_comm_t* comm, nrt_tensor_list_t* inputs,
                                     nrt_tensor_list_t* outputs, const nrt_dtype_t* dtypes,
                                     const nrt_op_type_t* ops, const nrt_cc_op_type_t* cc_ops,
                                     size_t num_ops, nrt_cc_context_t** cc_ctx);
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t** cc_ctx, int queue, NRT_STATUS* ret,
                            nrta_seq_t* req_sequence);

/*
 * Completion. nrta_is_completed() knows one request (NRT_INVALID for a number that was never given
 * out); nrta_get_sequence() gives the latest completed request of a unit.
 */
NRT_STATUS nrta_is_completed(nrta_seq_t seq, bool* is_completed);
NRT_STATUS nrta_get_sequence(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t* seq);

/*
 * Announce completion through an eventfd that stays the caller's: of one request (at once when it
 * is complete already), or of every request of a unit (several may be announced by one signal). A
 * negative `fd` ends the registration; when that call returns nothing is written to the old one.
 */
NRT_STATUS nrta_event_register_seq_id_completion(nrta_seq_t seq, int fd);
NRT_STATUS nrta_event_register_xu_completion(int lnc, nrta_xu_t xu, int queue, int fd);

#else /* OPENNRT_ASYNC_GEN1 */

/* ---- generation 1 ---- */

/* Binds this file's use of `name` to the old version node. OPENNRT_ASYNC_GEN1_SUFFIX is for the
 * library's own build. */
#ifndef OPENNRT_ASYNC_GEN1_SUFFIX
#define OPENNRT_ASYNC_GEN1_SUFFIX ""
#endif
#define OPENNRT_ASYNC_GEN1_BIND(name) \
  __asm__(".symver " #name ", " #name "@NRT_2.0.0" OPENNRT_ASYNC_GEN1_SUFFIX)

typedef enum {
  NRTA_XU_TENSOR_READ = 0,
  NRTA_XU_TENSOR_WRITE,
  NRTA_XU_TENSOR_OP, /* copies */
  NRTA_XU_COMPUTE,
  NRTA_XU_COLLECTIVES,
  NRTA_XU_TYPE_NUM
} nrta_xu_t;

typedef struct nrta_error {
  nrta_seq_t seq_id;
  uint64_t error_code; /* an NRT_STATUS in a type of fixed width */
} nrta_error_t;

/* Collects the failures of requests of one core. */
typedef struct nrta_error_tracker nrta_error_tracker_t;

/* Requests: as in generation 2, but a failure goes to `err`. */
NRT_STATUS nrta_tensor_write(nrt_tensor_t* tensor, const void* buf, uint64_t offset, uint64_t size,
                             int queue, nrta_error_tracker_t* err, nrta_seq_t* req_sequence);
NRT_STATUS nrta_tensor_read(void* buf, nrt_tensor_t* tensor, uint64_t offset, uint64_t size,
                            int queue, nrta_error_tracker_t* err, nrta_seq_t* req_sequence);
NRT_STATUS nrta_tensor_copy(nrt_tensor_t* src, uint64_t src_offset, nrt_tensor_t* dst,
                            uint64_t dst_offset, uint64_t size, int queue,
                            nrta_error_tracker_t* err, nrta_seq_t* req_sequence);
NRT_STATUS nrta_execute_schedule(nrt_model_t* model, const nrt_tensor_set_t* input,
                                 nrt_tensor_set_t* output, int queue, nrta_error_tracker_t* err,
                                 nrta_seq_t* req_sequence);
NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t* comm, nrt_tensor_list_t* input, nrt_tensor_list_t* output,
                           nrt_dtype_t dtype, nrt_op_type_t op, nrt_cc_op_type_t cc_op,
                           nrt_cc_context_t** cc_ctx);
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t** cc_ctx, int queue, nrta_error_tracker_t* err,
                            nrta_seq_t* req_sequence);

NRT_STATUS nrta_is_completed(nrta_seq_t seq, bool* is_completed);
NRT_STATUS nrta_get_sequence(uint32_t lnc, nrta_xu_t xu, int queue, nrta_seq_t* seq);

/* A descriptor that polls readable once the request is complete. Only poll and close it. */
NRT_STATUS nrta_get_completion_handle(nrta_seq_t seq, int* fd);

NRT_STATUS nrta_error_tracker_create(uint32_t lnc_idx, nrta_error_tracker_t** error_tracker);
void nrta_error_tracker_destroy(nrta_error_tracker_t* error_tracker);
/* Hands over the failures since the last call and forgets them. The array lives until the next call
 * or the tracker's end. */
NRT_STATUS nrta_error_tracker_get_list(nrta_error_tracker_t* error_tracker,
                                       const nrta_error_t** list, size_t* error_count);

OPENNRT_ASYNC_GEN1_BIND(nrta_tensor_write);
OPENNRT_ASYNC_GEN1_BIND(nrta_tensor_read);
OPENNRT_ASYNC_GEN1_BIND(nrta_tensor_copy);
OPENNRT_ASYNC_GEN1_BIND(nrta_execute_schedule);
OPENNRT_ASYNC_GEN1_BIND(nrta_cc_prepare);
OPENNRT_ASYNC_GEN1_BIND(nrta_cc_schedule);
OPENNRT_ASYNC_GEN1_BIND(nrta_is_completed);
OPENNRT_ASYNC_GEN1_BIND(nrta_get_sequence);

#endif /* OPENNRT_ASYNC_GEN1 */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
