/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Neuron runtime: devices, tensors, models and blocking execution. Names, values and layouts are
 * those of the vendor's libnrt.so.1; the words are ours.
 *
 * Unless a comment says otherwise a function is thread-safe, needs a successful nrt_init() (status
 * NRT_UNINITIALIZED before it, NRT_CLOSED after nrt_close()), returns NRT_INVALID for a NULL that
 * is not optional, and writes its output parameters on success only. `vnc` is a virtual (logical)
 * NeuronCore counted from the first core this process owns. onrt_last_error() in
 * opennrt/opennrt.h gives the text of the calling thread's last failure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ndl/neuron_driver_shared_tensor_batch_op.h"
#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Version of this interface; nrt_get_version() tells that of the library. */
#define NRT_MAJOR_VERSION 2
#define NRT_MINOR_VERSION 0

typedef struct nrt_model nrt_model_t;
typedef struct nrt_tensor nrt_tensor_t;
typedef struct nrt_cc_context nrt_cc_context_t;

/* A set of named tensors: the inputs or the outputs of one execution. */
typedef void nrt_tensor_set_t;

/* ---- enumerations: values are part of the ABI, new ones are only appended ---- */

typedef enum {
  NRT_TENSOR_PLACEMENT_DEVICE,  /* HBM of the core */
  NRT_TENSOR_PLACEMENT_HOST,    /* host memory that the device can reach; deprecated upstream */
  NRT_TENSOR_PLACEMENT_VIRTUAL, /* plain host memory */
} nrt_tensor_placement_t;

typedef enum {
  NRT_FRAMEWORK_TYPE_INVALID = 0,
  NRT_FRAMEWORK_TYPE_NO_FW = 1, /* a program without a framework */
  NRT_FRAMEWORK_TYPE_TENSORFLOW,
  NRT_FRAMEWORK_TYPE_PYTORCH,
  NRT_FRAMEWORK_TYPE_MXNET,
  NRT_FRAMEWORK_TYPE_PRECHECK, /* node health checks */
} nrt_framework_type_t;

/* nrt_instance_info_t.family */
enum {
  NRT_INSTANCE_UNKNOWN = 0,
  NRT_INSTANCE_INF1 = 1,
  NRT_INSTANCE_TRN1 = 2,
  NRT_INSTANCE_TRN1N = 3,
  NRT_INSTANCE_INF2 = 4,
  NRT_INSTANCE_TRN2 = 5,
  NRT_INSTANCE_TRN2N = 6,
  NRT_INSTANCE_INF2E = 7,
  NRT_INSTANCE_TRN2P = 8,
  NRT_INSTANCE_TRN2U = 9,
  NRT_INSTANCE_TRN2E = 10,
  NRT_INSTANCE_TRN2EU = 11,
  NRT_INSTANCE_TRN2AC = 12,
  NRT_INSTANCE_TRN2UAC = 13,
  NRT_INSTANCE_TRN3 = 14,
  NRT_INSTANCE_TRN3PDS98 = 15
};

/* nrt_instance_info_t.size */
enum {
  NRT_INSTANCE_SIZE_1XL,
  NRT_INSTANCE_SIZE_2XL,
  NRT_INSTANCE_SIZE_4XL,
  NRT_INSTANCE_SIZE_6XL,
  NRT_INSTANCE_SIZE_8XL,
  NRT_INSTANCE_SIZE_24XL,
  NRT_INSTANCE_SIZE_32XL,
  NRT_INSTANCE_SIZE_48XL,
  NRT_INSTANCE_SIZE_3XL,

  NRT_INSTANCE_SIZE_UNKNOWN, /* moves when a size is appended before it */
  NRT_INSTANCE_SIZE_NUM = NRT_INSTANCE_SIZE_UNKNOWN,
};

typedef enum nrt_op_type {
  NRT_OP_ADD = 0x0,
  NRT_OP_FMA = 0x1,
  NRT_OP_MAX = 0x2,
  NRT_OP_MIN = 0x3,
  NRT_OP_INVALID = 0xF,
} nrt_op_type_t;

typedef enum nrt_dtype {
  NRT_DTYPE_UNKNOWN = 0x0,
  NRT_DTYPE_INVALID = 0x0,
  NRT_DTYPE_FP8_E3 = 0xD,
  NRT_DTYPE_FP8_E4 = 0xE,
  NRT_DTYPE_FP8_E5 = 0xF,
  NRT_DTYPE_FLOAT16 = 0x7,
  NRT_DTYPE_BFLOAT16 = 0x6,
  NRT_DTYPE_FLOAT32 = 0xA,
  NRT_DTYPE_FP32R = 0xB,
  NRT_DTYPE_UINT8 = 0x3,
  NRT_DTYPE_UINT16 = 0x5,
  NRT_DTYPE_UINT32 = 0x9,
  NRT_DTYPE_UINT64 = 0x1,
  NRT_DTYPE_INT8 = 0x2,
  NRT_DTYPE_INT16 = 0x4,
  NRT_DTYPE_INT32 = 0x8,
  NRT_DTYPE_INT64 = 0xC,
} nrt_dtype_t;

typedef enum nrt_cc_op_type {
  NRT_CC_ALLGATHER,
  NRT_CC_ALLREDUCE,
  NRT_CC_REDUCESCATTER
} nrt_cc_op_type_t;

/* ---- process ---- */

typedef struct nrt_instance_info {
  uint32_t family; /* NRT_INSTANCE_* */
  uint32_t size;   /* NRT_INSTANCE_SIZE_* */
  char arch_name[16];
  char device_revision[8];
} nrt_instance_info_t;

/* Fills the first `instance_info_len` bytes of *info with what kind of host this is. */
NRT_STATUS nrt_get_instance_info(nrt_instance_info_t* info, size_t instance_info_len);

/*
 * Takes the cores that NEURON_RT_VISIBLE_CORES or NEURON_RT_NUM_CORES ask for (default: all) until
 * nrt_close() or the end of the process. `framework` and the two version texts, which may be NULL,
 * only describe the caller. A second call changes nothing and succeeds; init after close works.
 * Errors: NRT_RESOURCE when a core is held by another process (named in the text); NRT_INVALID for
 * a setting that does not parse; NRT_FAILURE without a device and in a forked child.
 */
NRT_STATUS nrt_init(nrt_framework_type_t framework, const char* fw_version,
                    const char* fal_version);

/* Unloads models, frees device memory and gives the cores back. Handles that are still alive may
 * only be freed afterwards. Harmless when the runtime is not open. */
void nrt_close(void);

/* Device number that the host uses for `neuron_dev`, which may be a container's number.
 * NRT_INVALID when there is no such device. */
NRT_STATUS nrt_host_device_id_get(int neuron_dev, uint32_t* host_device_id);

/* Routing identifiers by host device number. *count: entries the table has room for; on return the
 * entries written. */
NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t* count, uint32_t* host_did_to_rid_map);

/* Core counts in virtual cores. All four may be called before nrt_init(). "total" counts the whole
 * instance, "visible" what the environment leaves to this process. The nc forms are older names. */
NRT_STATUS nrt_get_total_nc_count(uint32_t* vnc_count);
NRT_STATUS nrt_get_total_vnc_count(uint32_t* vnc_count);
NRT_STATUS nrt_get_visible_nc_count(uint32_t* vnc_count);
NRT_STATUS nrt_get_visible_vnc_count(uint32_t* vnc_count);

/* ---- models ---- */

/*
 * Loads a NEFF onto core `vnc` (-1: the first free one). `vnc_count` is obsolete: pass -1. The
 * bytes are not needed after the call. Errors: NRT_INVALID for a malformed NEFF; NRT_RESOURCE
 * without enough device memory; NRT_LOAD_NOT_ENOUGH_NC; NRT_UNSUPPORTED_NEFF_VERSION for a version,
 * feature or program encoding that this runtime does not know. A failed load leaves nothing behind.
 */
NRT_STATUS nrt_load(const void* neff_bytes, size_t size, int32_t vnc, int32_t vnc_count,
                    nrt_model_t** model);

/* As nrt_load(), for a NEFF with collectives: this process is participant `ctx_device_id` of
 * `ctx_device_count`. Builds the global communicator from these two if there is none yet. */
NRT_STATUS nrt_load_collectives(const void* neff_bytes, size_t size, int32_t vnc, int32_t vnc_count,
                                uint32_t ctx_device_id, uint32_t ctx_device_count,
                                nrt_model_t** model);

/* Waits for executions in flight, then frees the model and what it holds on the device. */
NRT_STATUS nrt_unload(nrt_model_t* model);

/* Virtual cores that a loaded model uses; both names do the same. Deprecated upstream. */
NRT_STATUS nrt_get_model_nc_count(const nrt_model_t* model, uint32_t* vnc_count);
NRT_STATUS nrt_get_model_vnc_count(const nrt_model_t* model, uint32_t* vnc_count);

/*
 * Runs the model once and returns when the outputs are written. The names in the sets are matched
 * to the model's; surplus tensors are ignored. Errors: NRT_INVALID or NRT_EXEC_BAD_INPUT for a
 * missing or badly sized tensor; NRT_TIMEOUT; the NRT_EXEC_* codes for what happened on the device.
 */
NRT_STATUS nrt_execute(nrt_model_t* model, const nrt_tensor_set_t* input_set,
                       nrt_tensor_set_t* output_set);

/* Runs `repeat_count` times; from the second run on the outputs are fed to the inputs they belong
 * to. NRT_INVALID for a NEFF whose outputs cannot be fed back or a count below 1. */
NRT_STATUS nrt_execute_repeat(nrt_model_t* model, const nrt_tensor_set_t* input_set,
                              nrt_tensor_set_t* output_set, int repeat_count);

/* ---- tensor sets ---- */

NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t** result);

/* Frees the set, not its tensors, and sets *tensor_set to NULL. */
void nrt_destroy_tensor_set(nrt_tensor_set_t** tensor_set);

/* Puts `tensor` into the set under `tensor_name`, in place of one of that name. The tensor stays
 * the caller's and must outlive its use through the set. */
NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t* tensor_set, const char* tensor_name,
                                        nrt_tensor_t* tensor);

/* NRT_FAILURE, and *tensor untouched, when the set has no such name. */
NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t* tensor_set, const char* tensor_name,
                                          nrt_tensor_t** tensor);

/* ---- tensors ---- */

/* `vnc` is -1 for placements in host memory. `name` may be NULL; it is used in messages only. The
 * contents are undefined. NRT_INVALID for a size of 0; NRT_RESOURCE when memory runs out. */
NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t tensor_placement, int vnc, size_t size,
                               const char* name, nrt_tensor_t** tensor);

/* Frees the tensor and sets *tensor to NULL. Storage shared with slices lives until the last of
 * them is freed. Harmless for NULL, and after nrt_close(). */
void nrt_tensor_free(nrt_tensor_t** tensor);

/* Copy `size` bytes out of or into the tensor at `offset`; block while an execution uses it.
 * NRT_INVALID when the range is not inside the tensor. */
NRT_STATUS nrt_tensor_read(const nrt_tensor_t* tensor, void* buf, size_t offset, size_t size);
NRT_STATUS nrt_tensor_write(nrt_tensor_t* tensor, const void* buf, size_t offset, size_t size);

/* Transfers on one tensor. nrt_tensor_batch_op_t is in neuron_driver_shared_tensor_batch_op.h. */
typedef struct nrt_tensor_batch {
  const nrt_tensor_t* tensor;
  const nrt_tensor_batch_op_t* ops;
  uint32_t num_ops;
} nrt_tensor_batch_t;

/* Many transfers in one call. All are checked first: after NRT_INVALID nothing was moved. `unsafe`
 * leaves out waiting for executions that use the tensors. */
NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t* batches, uint64_t num_batches,
                                 bool unsafe);
NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t* batches, uint64_t num_batches,
                                  bool unsafe);

/* Copies between two tensors. Two device tensors must be in the same HBM: NRT_INVALID otherwise. */
NRT_STATUS nrt_tensor_copy(const nrt_tensor_t* src, size_t src_offset, nrt_tensor_t* dst,
                           size_t dst_offset, size_t size);

/* Size in bytes; 0 for NULL or a tensor without storage. */
size_t nrt_tensor_get_size(const nrt_tensor_t* tensor);

/* Sets `size` bytes at `offset` to the low byte of `value`. */
NRT_STATUS nrt_tensor_memset(nrt_tensor_t* tensor, uint64_t offset, int value, size_t size);

/* A tensor without storage, to be given some by nrt_tensor_attach_buffer(). */
NRT_STATUS nrt_tensor_allocate_empty(const char* name, nrt_tensor_t** tensor);

/* Makes the caller's memory the tensor's storage; what the tensor owned before is freed. The memory
 * stays the caller's and must live as long as the tensor. */
NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t* tensor, void* buffer, size_t size);

/* A tensor over [offset, offset + size) of another one's storage, which it keeps alive. */
NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t* tensor_source, size_t offset, size_t size,
                                     const char* name, nrt_tensor_t** tensor_slice);

/* Address at which the host sees the tensor's storage, or NULL. */
void* nrt_tensor_get_va(const nrt_tensor_t* tensor);

typedef struct nrt_tensor_device_allocation_info {
  uint64_t physical_address; /* in the device's address space */
  size_t size;               /* of the allocation: at least the tensor's */
  int hbm_index;             /* which HBM of the device */
} nrt_tensor_device_allocation_info_t;

NRT_STATUS nrt_tensor_get_device_allocation_info(const nrt_tensor_t* tensor,
                                                 nrt_tensor_device_allocation_info_t* alloc_info);

/*
 * Waits until the tensor was an output of `expected_completion_count` completed executions since
 * its counter was last reset. `timeout` is in microseconds; negative waits for ever, with a warning
 * after 30 seconds. NRT_TIMEOUT when the count is not reached in time.
 */
NRT_STATUS nrt_tensor_check_output_completion(const nrt_tensor_t* output_tensor, int64_t timeout,
                                              uint64_t expected_completion_count);

NRT_STATUS nrt_tensor_reset_output_completion(nrt_tensor_t* output_tensor);

/*
 * Data-type conversion and element-wise ADD, MAX or MIN over `num_src` tensors on the device, with
 * no NEFF. In the vendor's library since 2.35; their prototypes are in no public header, so these
 * are our reading of the release notes and may change when the vendor publishes them.
 */
NRT_STATUS nrt_tensor_cast(const nrt_tensor_t* src, nrt_dtype_t src_dtype, nrt_tensor_t* dst,
                           nrt_dtype_t dst_dtype);
NRT_STATUS nrt_tensor_compute(nrt_op_type_t op, nrt_dtype_t dtype, const nrt_tensor_t* const* srcs,
                              size_t num_src, nrt_tensor_t* dst);

/* ---- device memory seen from elsewhere ---- */

/* A dma-buf descriptor for device memory that the host sees at [va, va + size). `va` must be the
 * start of a page-aligned allocation. The caller closes the descriptor. */
NRT_STATUS nrt_get_dmabuf_fd(uint64_t va, uint64_t size, int* fd);

/* As above for any address: *offset is where `va` lies in the dma-buf. In no public header; the
 * prototype is the one that libfabric resolves with dlsym. */
NRT_STATUS nrt_get_dmabuf_fd_v2(uint64_t va, uint64_t size, int* fd, uint64_t* offset);

/* Host mapping of a whole HBM. NRT_INVALID_HANDLE past the device's last HBM; NRT_INVALID for bad
 * arguments or where such a mapping cannot be had. */
NRT_STATUS nrt_get_hbm_mmap_va(int device_id, int hbm_idx, void** addr, size_t* size);

/* PCI address of the EFA adapter nearest to the device that owns the memory at `va`. *len: size of
 * the buffer with NUL; on return the length without it. NRT_RESOURCE when the buffer is too small.
 */
NRT_STATUS nrt_get_attached_efa_bdf(const void* va, char* efa_bdf, size_t* len);

/* ---- memory statistics ---- */

/* Fields are only appended. */
typedef struct nrt_vnc_memory_stats {
  size_t bytes_used;
  size_t bytes_limit;
} nrt_vnc_memory_stats_t;

/* Fills min(stats_size_in, what the library knows) bytes of *stats and says how many. */
NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t* stats,
                                    size_t stats_size_in, size_t* stats_size_out);

/* Logs the table of device memory by category, as an allocation failure does. In the vendor's
 * library since 2.33; in no public header, the prototype is our reading of the release notes. */
NRT_STATUS nrt_debug_log_oom_report(void);

/* Writes the device allocations of one core as text to `filename`. In the vendor's library since
 * 2.33; in no public header, the prototype is our reading of the release notes. */
NRT_STATUS nrt_dump_device_allocation_info(uint32_t vnc, const char* filename);

/* ---- collectives driven by the host ---- */

typedef struct nrt_cc_comm {
  uint32_t* replica_group; /* global ranks of the participants */
  uint32_t rank;           /* this process' position in replica_group */
  uint32_t rank_n;         /* length of replica_group */

  uint32_t ctx_device_id;
  uint32_t ctx_device_count;
  uint32_t vnc;
} nrt_cc_comm_t;

typedef struct nrt_tensor_list {
  nrt_tensor_t** tensors;
  size_t num_tensors;
} nrt_tensor_list_t;

/* Joins the communicator of all `g_device_count` workers as number `g_device_id`: the first form
 * for collectives in NEFFs, the second for those the host starts. */
NRT_STATUS nrt_build_global_comm(int32_t vnc, uint32_t g_device_id, uint32_t g_device_count);
NRT_STATUS nrt_cc_global_comm_init(uint32_t vnc, uint32_t g_device_id, uint32_t g_device_count);

/* Sets up `num_ops` collectives that are scheduled as one. In the vendor's library since 2.33; in
 * no public header, the prototype is our reading of the release notes. */
NRT_STATUS nrt_cc_prepare_coalesced(nrt_cc_comm_t* comm, nrt_tensor_list_t* inputs,
                                    nrt_tensor_list_t* outputs, const nrt_dtype_t* dtypes,
                                    const nrt_op_type_t* ops, const nrt_cc_op_type_t* cc_ops,
                                    size_t num_ops, nrt_cc_context_t** cc_ctx);

/* Sets up the stream that collectives started by the host run on. Added by the vendor in 2.31. */
NRT_STATUS nrt_cc_create_stream(uint32_t stream_id);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
