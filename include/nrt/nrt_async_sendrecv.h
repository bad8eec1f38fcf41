/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Point-to-point transfer of tensors between cores of different hosts. `lnc` is the host's number
 * of a logical core, whatever a container or NEURON_RT_VISIBLE_CORES makes of it. Experimental
 * upstream; enabled by NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED. Common rules: nrt/nrt.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "nrt/nrt.h"
#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct nrt_async_sendrecv_comm nrt_async_sendrecv_comm_t;
typedef struct nrt_async_sendrecv_request nrt_async_sendrecv_request_t;

/* Limits: communicators per core, unfinished requests per communicator. */
NRT_STATUS nrt_async_sendrecv_get_max_num_communicators_per_lnc(int* num);
NRT_STATUS nrt_async_sendrecv_get_max_num_pending_request(int* num);

/* Bracket all other use of the core; close before nrt_close(). Closing fails while a communicator
 * is still connecting or a request is unfinished, and ends the life of all handles of the core. */
NRT_STATUS nrt_async_sendrecv_init(int lnc);
NRT_STATUS nrt_async_sendrecv_close(int lnc);

/* The two ends of a connection. They return at once; nrt_async_sendrecv_test_comm() tells when the
 * peer has answered. NRT_RESOURCE beyond the limit. */
NRT_STATUS nrt_async_sendrecv_connect(const char* peer_ip, int peer_lnc, int lnc,
                                      nrt_async_sendrecv_comm_t** send_comm);
NRT_STATUS nrt_async_sendrecv_accept(const char* peer_ip, int peer_lnc, int lnc,
                                     nrt_async_sendrecv_comm_t** recv_comm);

/* NRT_TIMEOUT when the connection could not be made in time. */
NRT_STATUS nrt_async_sendrecv_test_comm(nrt_async_sendrecv_comm_t* comm, bool* done);

/* Start moving `length` bytes at `offset`, over a connected communicator. NRT_RESOURCE when too
 * many requests are unfinished. */
NRT_STATUS nrt_async_sendrecv_send_tensor(nrt_tensor_t* tensor, size_t offset, size_t length,
                                          nrt_async_sendrecv_comm_t* send_comm,
                                          nrt_async_sendrecv_request_t** request);
NRT_STATUS nrt_async_sendrecv_recv_tensor(nrt_tensor_t* tensor, size_t offset, size_t length,
                                          nrt_async_sendrecv_comm_t* recv_comm,
                                          nrt_async_sendrecv_request_t** request);

/* After *done the request is gone; one thread at a time may ask about it. *size: bytes moved. */
NRT_STATUS nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t* request, bool* done,
                                           size_t* size);

/* Makes everything that was reported received visible in the memory of the core. */
NRT_STATUS nrt_async_sendrecv_flush(int lnc);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
