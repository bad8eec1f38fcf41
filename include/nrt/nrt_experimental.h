/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the runtime interface that the vendor calls experimental. Most clients need the tensor
 * information of a model, which lives here. Common rules: nrt/nrt.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nrt/nrt.h"
#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ---- what a loaded model expects ---- */

typedef enum nrt_tensor_usage {
  NRT_TENSOR_USAGE_INPUT = 0,
  NRT_TENSOR_USAGE_OUTPUT,
} nrt_tensor_usage_t;

#define NRT_TENSOR_NAME_MAX 256

typedef struct nrt_tensor_info {
  char name[NRT_TENSOR_NAME_MAX];
  nrt_tensor_usage_t usage;
  size_t size; /* bytes; trust this rather than shape and dtype */
  nrt_dtype_t dtype;
  uint32_t* shape; /* ndim extents */
  uint32_t ndim;
} nrt_tensor_info_t;

typedef struct nrt_tensor_info_array {
  uint64_t tensor_count;
  nrt_tensor_info_t tensor_array[];
} nrt_tensor_info_array_t;

/* Inputs by number, then outputs. The array belongs to the caller: nrt_free_model_tensor_info(). */
NRT_STATUS nrt_get_model_tensor_info(nrt_model_t* model, nrt_tensor_info_array_t** tensor_info);
NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t* tensor_info);

/* How many threads can usefully call nrt_execute() on the model at once. Deprecated upstream. */
NRT_STATUS nrt_get_model_instance_count(nrt_model_t* model, uint32_t* instance_count);

/* Fields are only appended. */
typedef struct nrt_model_info {
  uint32_t vnc; /* first virtual core of the model */
} nrt_model_info_t;

/* Fills min(info_size_in, what the library knows) bytes of *info and says how many. */
NRT_STATUS nrt_get_model_info(const nrt_model_t* model, nrt_model_info_t* info, size_t info_size_in,
                              size_t* info_size_out);

/* ---- tracing of the runtime itself ---- */

/* Starts recording on all visible cores; `trace_mem` adds memory allocations. */
NRT_STATUS nrt_trace_start(bool trace_mem);
/* Writes what was recorded to `filename` and stops. */
NRT_STATUS nrt_trace_stop(const char* filename);

/* ---- device start-up ---- */

typedef struct nrt_ucode_img {
  uint8_t* bin;
  size_t size;
} nrt_ucode_img;

typedef struct nrt_ucode_info {
  nrt_ucode_img iram;
  nrt_ucode_img dram;
} nrt_ucode_info;

/* Images for the pooling engine, loaded by the next nrt_init(). Only before nrt_init(). */
NRT_STATUS nrt_set_pool_eng_ucode(const nrt_ucode_info* ucode_info);

/* ---- memory ---- */

/* Copies from host memory to device memory at an address from nrt_tensor_get_va(). */
NRT_STATUS nrt_memcpy_to_device(void* dest, const void* src, size_t size);

/* ---- implicit asynchronous execution (removed by the vendor in 2.34) ---- */

typedef void (*NRT_ASYNC_EXEC_STATUS_CALLBACK)(void* params, uint32_t model_id, uint32_t vnc,
                                               uint64_t job_id, NRT_STATUS status);

/* One callback per process; a new one replaces it. `params` may be NULL. */
NRT_STATUS nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK callback, void* params);

/* Returns when no queued execution of the core is left. */
NRT_STATUS nrt_async_drain_queued_execs(int32_t vnc);

/* ---- collectives over all workers ---- */

/* Returns when all `g_device_count` workers have called it. */
NRT_STATUS nrt_barrier(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count);

/* Gathers `rank_input_size` bytes of every worker into `output`, ordered by worker; `output` has
 * room for g_device_count * rank_input_size bytes. */
NRT_STATUS nrt_all_gather(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count,
                          uint32_t rank_input_size, void* input, void* output);

/* Handle of the network plugin, or NULL with *err and a text in err_msg. */
void* nrt_get_libnccl_net(int* err, char* err_msg, size_t err_msg_size);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
