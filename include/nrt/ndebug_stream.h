/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs on a core print: one stream per logical core, for the process that owns the core.
 * The descriptor may be polled; reading goes through nrt_debug_client_read_one_event(). Events
 * before the connection, and those that find the stream full (NEURON_RT_DEBUG_STREAM_BUFFER_SIZE),
 * are lost. One thread at a time per stream. Common rules: nrt/nrt.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef enum ndebug_stream_event_type {
  NDEBUG_STREAM_EVENT_TYPE_INVALID = 0,
  NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ = 1,
} ndebug_stream_event_type_t;

typedef struct ndebug_stream_event_header {
  uint64_t data_size; /* of the payload in bytes */
  uint32_t type;      /* ndebug_stream_event_type_t */
  char reserved[52];
} ndebug_stream_event_header_t;

/* Payload of NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ. */
typedef struct ndebug_stream_payload_debug_tensor_read {
  char prefix[512]; /* text that the program prints before the tensor */
  uint32_t logical_nc_id;
  uint32_t pipe;
  char tensor_dtype[16];
  uint64_t tensor_shape[8];
  uint64_t tensor_data_size;
  char reserved0[416];
  char tensor_data[];
} ndebug_stream_payload_debug_tensor_read_t;

/* One client per core: NRT_INVALID for a second one. */
NRT_STATUS nrt_debug_client_connect(int logical_nc_idx, int* stream_fd);
void nrt_debug_client_connect_close(int stream_fd);

/* Takes the oldest event; NRT_QUEUE_EMPTY when there is none. free() the payload. */
NRT_STATUS nrt_debug_client_read_one_event(int stream_fd, ndebug_stream_event_header_t* header,
                                           void** payload);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
