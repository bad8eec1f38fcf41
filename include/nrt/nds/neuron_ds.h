/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Neuron data store: counters and small records that a process keeps in driver memory, one
 * store per process and device, so that tools can read them. Its memory layout is in
 * ndl/neuron_driver_shared.h. Functions that return int give 0 on success.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ndl/ndl.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct nds_instance nds_instance_t;

/* ---- records ---- */

typedef void* nds_obj_handle_t;

#define OBJECT_TYPE_MODEL_NODE_INFO (0)
#define OBJECT_TYPE_PROCESS_INFO (1)
#define OBJECT_TYPE_PROCESS_INFO_EXT (2)

#define MODEL_MEM_USAGE_LOCATION_COUNT 2 /* host, device */

/* Kinds of memory; the store has room for 12. */
enum {
  NDS_DMA_MEM_USAGE_SLOT_CODE,
  NDS_DMA_MEM_USAGE_SLOT_TENSORS,
  NDS_DMA_MEM_USAGE_SLOT_CONSTANTS,
  NDS_DMA_MEM_USAGE_SLOT_SCRATCHPAD,
  NDS_DMA_MEM_USAGE_SLOT_MISC,
  NDS_DMA_MEM_USAGE_SLOT_COUNT = 12
};

typedef struct nds_mem_usage_info {
  size_t total_size;
  uint32_t chunk_count;
} nds_mem_usage_info_t;

typedef struct nds_model_node_info {
  uint32_t model_id;
  uint32_t model_node_id;
  char name[256];
  char uuid[16];
  uint8_t nc_index;
  uint8_t sg_index;
} nds_model_node_info_t;

typedef struct nds_model_node_mem_usage_info {
  nds_mem_usage_info_t model_mem_usage[MODEL_MEM_USAGE_LOCATION_COUNT]
                                      [NDS_DMA_MEM_USAGE_SLOT_COUNT];
} nds_model_node_mem_usage_info_t;

typedef struct nds_version_info {
  uint8_t major;
  uint8_t minor;
  uint32_t build;
} nds_version_info_t;

typedef struct nds_process_info {
  int8_t framework_type; /* nrt_framework_type_t */
  char tag[32];          /* NEURON_PROCESS_TAG, cut */
  nds_version_info_t framework_version;
  nds_version_info_t fal_version;
  nds_version_info_t runtime_version;
} nds_process_info_t;

typedef struct nds_process_info_ext {
  char tag[256];
} nds_process_info_ext_t;

/* Bits of NDS_ND_COUNTER_FEATURE_BITMAP. */
typedef enum feature_bitmap_bit_index {
  BIT_INDEX_TEST_FEATURE = 0,
  BIT_INDEX_MULTICORE_FEATURE = 1,

  BIT_INDEX_COUNT = BIT_INDEX_MULTICORE_FEATURE + 1
} feature_bitmap_bit_index_t;

/* Store of process `pid`, to read; of this process, to read and write, when `pid` is 0. */
int nds_open(ndl_device_t* device, pid_t pid, nds_instance_t** inst);
int nds_close(nds_instance_t* inst);

/* ---- counters: NDS_NC_COUNTER_* and NDS_EXT_NC_COUNTER_* per core, NDS_ND_COUNTER_* per device
 * ---- */

int nds_increment_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                             uint64_t increment);
int nds_decrement_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                             uint64_t decrement);
int nds_get_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                       uint64_t* value);
int nds_set_nc_counter(nds_instance_t* inst, int pnc_index, uint32_t counter_index,
                       uint64_t* value);

/* These may wrap. */
int nds_increment_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t increment);
int nds_decrement_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t decrement);
/* Sets bit `bit_index`. */
int nds_or_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t bit_index);
int nds_get_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t* value);
int nds_set_nd_counter(nds_instance_t* inst, uint32_t counter_index, uint64_t* value);

/* ---- access to records ---- */

/* A new record is local until committed; deleting takes it out of the store as well. */
nds_obj_handle_t nds_obj_new(nds_instance_t* inst, int type);
int nds_obj_commit(nds_obj_handle_t obj);
int nds_obj_delete(nds_obj_handle_t obj);

/* The record behind a handle, or NULL when the handle is of another type. */
nds_model_node_info_t* nds_obj_handle_to_model_node_info(nds_obj_handle_t obj);
nds_model_node_mem_usage_info_t* nds_obj_handle_to_model_node_mem_usage(nds_obj_handle_t obj);
nds_process_info_t* nds_obj_handle_to_process_info(nds_obj_handle_t obj);
nds_process_info_ext_t* nds_obj_handle_to_process_info_ext(nds_obj_handle_t obj);

/* All models of the process; free() the array after deleting its handles. */
int nds_read_all_model_nodes(nds_instance_t* inst, nds_obj_handle_t** models, size_t* count);
nds_obj_handle_t nds_read_process_info(nds_instance_t* inst);
nds_obj_handle_t nds_read_process_info_ext(nds_instance_t* inst);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
