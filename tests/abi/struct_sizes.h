/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and offsets of the public structs, asserted where this is included (C11 and C++). */
#pragma once

#include <assert.h>
#include <stddef.h>

#define ONRT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type)
#define ONRT_OFFSET(type, field, bytes) \
  static_assert(offsetof(type, field) == (bytes), #type "." #field)

ONRT_SIZE(NRT_STATUS, 4);
ONRT_SIZE(nrt_version_t, 224);
ONRT_OFFSET(nrt_version_t, rt_detail, 32);
ONRT_OFFSET(nrt_version_t, git_hash, 160);
ONRT_SIZE(nrt_instance_info_t, 32);
ONRT_OFFSET(nrt_instance_info_t, arch_name, 8);
ONRT_OFFSET(nrt_instance_info_t, device_revision, 24);
ONRT_SIZE(nrt_tensor_info_t, 296);
ONRT_OFFSET(nrt_tensor_info_t, usage, 256);
ONRT_OFFSET(nrt_tensor_info_t, size, 264);
ONRT_OFFSET(nrt_tensor_info_t, dtype, 272);
ONRT_OFFSET(nrt_tensor_info_t, shape, 280);
ONRT_OFFSET(nrt_tensor_info_t, ndim, 288);
ONRT_SIZE(nrt_tensor_info_array_t, 8);
ONRT_OFFSET(nrt_tensor_info_array_t, tensor_array, 8);
ONRT_SIZE(nrt_tensor_batch_t, 24);
ONRT_SIZE(nrt_tensor_batch_op_t, 24);
ONRT_SIZE(nrt_tensor_device_allocation_info_t, 24);
ONRT_SIZE(nrt_vnc_memory_stats_t, 16);
ONRT_SIZE(nrt_cc_comm_t, 32);
ONRT_SIZE(nrt_tensor_list_t, 16);
ONRT_SIZE(nrt_model_info_t, 4);
ONRT_SIZE(nrt_ucode_info, 32);
ONRT_SIZE(nrta_seq_t, 8);
ONRT_SIZE(ndebug_stream_event_header_t, 64);
ONRT_SIZE(ndebug_stream_payload_debug_tensor_read_t, 1024);
ONRT_SIZE(ndl_device_t, 632);
ONRT_OFFSET(ndl_device_t, device_type, 1);
ONRT_OFFSET(ndl_device_t, hbm_va, 552);
ONRT_OFFSET(ndl_device_t, hbm_size, 584);
ONRT_SIZE(ndl_version_info_t, 40);
ONRT_SIZE(ndl_copy_buf_t, 56);
ONRT_SIZE(struct neuron_app_info, 152);
ONRT_SIZE(neuron_memcpy_batch_t, 40);
ONRT_SIZE(struct enc_comm, 561856);
ONRT_SIZE(struct enc_glb_comm, 564360);
ONRT_SIZE(enc_neuron_device_info_t, 216);
ONRT_SIZE(nccl_comm_info_t, 1376);
ONRT_SIZE(nec_version_info_t, 56);
ONRT_SIZE(net_ops_info_t, 88);
ONRT_SIZE(net_src_addr_t, 72);
ONRT_SIZE(net_dest_addr_t, 48);
ONRT_SIZE(nds_model_node_info_t, 284);
ONRT_SIZE(nds_process_info_t, 60);
ONRT_SIZE(nds_process_info_ext_t, 256);
static_assert(NDS_EXT_NEURONCORE_COUNTERS_START == 55936, "extended counters");
static_assert(NDS_EXT_NEURONCORE_NC_DATA_START == 57984, "data of further cores");
static_assert(NDS_EXT_NEURONCORE_NC_DATA_START + NDS_EXT_NEURONCORE_NC_DATA_SIZE == 67200,
              "whole data store");
