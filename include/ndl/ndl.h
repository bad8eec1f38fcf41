/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver library: devices, their memory, DMA rings, notifications and counters, below the runtime.
 * Monitoring tools use it. Functions that return int give 0 on success and another value (mostly -1
 * or a negative errno) otherwise, unless a comment says more.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ndl/neuron_driver_shared.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define MAX_NEURON_DEVICE_COUNT 64
#define NEURON_MAX_DEVICES MAX_NEURON_DEVICE_COUNT
#define MAX_NC_PER_DEVICE 8
#define MAX_HBM_PER_DEVICE 4
#define NEURON_DEVICE_PREFIX "/dev/neuron"
#define NEURON_DRIVER_LIBRARY_MAJOR 1
#define NEURON_DRIVER_LIB_MINOR 0

/* ---- versions ---- */

#define DRIVER_VERSION_MAX_SIZE 32
typedef struct ndl_version_info {
  uint16_t driver_major_version;
  uint16_t driver_minor_version;
  char driver_full_version[DRIVER_VERSION_MAX_SIZE];
  uint16_t library_major_version;
  uint16_t library_minor_version;
} ndl_version_info_t;

int ndl_get_version(ndl_version_info_t* version);
/* Versions of the runtime interface that the driver supports. */
int ndl_get_compatible_version(uint32_t* min_compatible_version, uint32_t* max_compatible_version);
/* Called with a text when driver and library fit badly but well enough. */
int ndl_register_soft_incompat_callback(void (*callback)(const char*));
bool ndl_feature_supported(int nd_fd, uint64_t feature);

/* ---- devices ---- */

typedef struct ndl_device_init_param {
  bool initialize_device; /* reset it while opening */
  int num_dram_regions;
  bool map_hbm; /* map all HBM while opening */
} ndl_device_init_param_t;

/* Host buffer of the driver through which copies go. */
#define NDL_COPY_BUF_SIZE (2ull * 1024 * 1024)
typedef struct ndl_copy_buf {
  uint64_t mem_handle;
  void* mmap_va;
  pthread_mutex_t lock;
} ndl_copy_buf_t;

typedef struct ndl_device {
  uint8_t device_index;
  uint8_t device_type; /* architecture */
  uint16_t device_revision;
  uint8_t connected_device_count;
  uint8_t connected_devices[MAX_NEURON_DEVICE_COUNT];
  uint64_t csr_base[2]; /* BAR 0 and 2 */
  uint64_t csr_size[2];
  ndl_copy_buf_t cpy_bufs[MAX_NC_PER_DEVICE];
  void* hbm_va[MAX_HBM_PER_DEVICE];
  size_t hbm_size; /* of one HBM */
  uint32_t hbm_va_cnt;
  uint32_t shift_hbm_size;
  uint64_t hbm_offset[MAX_HBM_PER_DEVICE];
  uint8_t context[]; /* the library's own */
} ndl_device_t;

typedef struct ndl_device_nc {
  ndl_device_t* device;
  uint32_t nc_id;
} ndl_device_nc_t;

typedef struct ndl_device_context {
  int nd_fd;
} ndl_device_context_t;

/* Numbers of the devices of this host; returns how many. `device_indexes_size` is in elements. */
int ndl_available_devices(int* device_indexes, int device_indexes_size);
int ndl_open_device(int device_index, ndl_device_init_param_t* params, ndl_device_t** device);
int ndl_close_device(ndl_device_t* device);
void ndl_device_cached_fd_close_all(void);

int ndl_get_board_info(uint32_t* architecture, uint32_t* revision);
/* PCI address; the first form is older and only for devices this process has open. */
int ndl_get_device_bdf(int device_index, uint32_t* bus_num, uint8_t* pci_slot, uint8_t* dev_func);
int ndl_get_device_bdf_ext(int device_index, uint32_t* domain, uint32_t* bus_num, uint8_t* pci_slot,
                           uint8_t* dev_func);
/* Numbers that the host uses, seen from a container; routing identifiers by host number. */
int ndl_get_host_device_id(ndl_device_t* device, uint32_t* host_device_id);
int ndl_get_host_device_id_to_rid_map(uint32_t* count, uint32_t* host_did_to_rid_map);
int ndl_get_logical_to_physical_nc_map(struct neuron_ioctl_nc_map* map, uint32_t max_num_entries,
                                       enum neuron_ioctl_nc_mapping_type mapping_version);

/* Resets cores (`nc_map` -1: the device) and tells when that is done (*result 1). */
int ndl_reset_ncs(int device_index, int nc_map, uint32_t* request_id);
int ndl_ready_ncs(int device_index, uint32_t request_id, uint8_t* result);
int ndl_set_performance_profile(ndl_device_t* device, uint32_t profile);
int ndl_enable_throttling_notifications(ndl_device_t* device, bool enable);
int ndl_metrics_ctrl(ndl_device_t* device, enum neuron_metrics_mode mode);
/* Writes a text to the kernel's log. */
int ndl_printk(char* str, uint32_t size, uint32_t action);

/* ---- registers ---- */

int ndl_bar_read(ndl_device_t* device, uint8_t bar, uint64_t* addresses, uint32_t count,
                 uint32_t* buffer);
int ndl_bar_write(ndl_device_t* device, uint8_t bar, uint64_t* addresses, uint32_t count,
                  uint32_t* data);
int ndl_read_hw_counters(ndl_device_t* device, uint64_t* addresses, uint32_t count, uint32_t* data);
int ndl_mmap_bar_region(ndl_device_t* device, enum neuron_dm_block_type block, uint32_t block_id,
                        enum neuron_dm_resource_type resource, void** va, uint64_t* size);

/* ---- memory ---- */

typedef struct ndl_mem_info {
  ndl_device_t* device;
  __u64 driver_handle;
  uint64_t pa;
  uint64_t mmap_offset;
  uint64_t size;
  uint32_t align;
  void* mmap_va;
  uint32_t host_memory;
  int nc_id;
} ndl_mem_info_t;

/* `mem_alloc_type` is a mem_alloc_category_t. */
int ndl_memory_alloc(ndl_device_t* device, size_t size, uint64_t align, uint32_t host_memory,
                     uint32_t dram_channel, uint32_t dram_region, uint32_t nc_id,
                     uint32_t mem_alloc_type, uint64_t* mem_handle);
int ndl_memory_free(uint64_t mem_handle);
int ndl_alloc_contiguous_scratchpad(ndl_device_t* device, uint64_t size, uint32_t hbm_index,
                                    uint32_t nc_id, uint64_t* mem_handle);
int ndl_memory_get_pa(uint64_t mem_handle, uint64_t* pa);
int ndl_memory_map(uint64_t mem_handle, void** va);
int ndl_memory_map_contiguous_scratchpad(uint64_t mem_handle, void** va, uint64_t size);
int ndl_memory_unmap(uint64_t mem_handle);
/* -EINVAL for a bad argument, -ENOENT past the last HBM. */
int ndl_get_hbm_va(ndl_device_t* device, int hbm_idx, void** va, size_t* size);
int ndl_get_va_placement(const void* va, int* device_index, int* hbm_index);
int ndl_mem_get_mc_mmap_info(ndl_device_t* device, uint64_t pa, uint64_t* mmap_offset,
                             uint64_t* size, uint64_t* mem_handle);
int ndl_get_dmabuf_fd(uint64_t addr, uint64_t size, int* fd);
int ndl_dump_device_allocation_info(ndl_device_t* device, uint32_t hbm_index,
                                    struct neuron_ioctl_mem_chunk_info* data,
                                    uint32_t* num_entries);

/* Between host memory and an allocation: through the copy buffer, or straight from pinned pages. */
int ndl_get_copy_buf(ndl_device_t* device, uint32_t nc_id, ndl_copy_buf_t** cpy_buf);
int ndl_memory_buf_copyin(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size);
int ndl_memory_buf_copyout(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size);
int ndl_memory_buf_zerocopyin(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size,
                              int qid, uint32_t bar4_wr_threshold);
int ndl_memory_buf_zerocopyout(uint64_t mem_handle, void* buffer, uint64_t offset, size_t size,
                               int qid);
/* `direction` 0 writes to the device, 1 reads. */
int ndl_memory_buf_batch_copy(neuron_memcpy_batch_t* batches, uint64_t num_batches,
                              uint32_t direction, int qid);
int ndl_program_engine(ndl_device_t* device, uint32_t nc_id, uint64_t dst, void* buffer,
                       uint64_t offset, size_t size);

/* On the device. */
int ndl_memset(const uint64_t addr, uint64_t offset, const int value, const size_t size);
int ndl_memory_copy(uint64_t src_mem_handle, uint64_t dst_mem_handle, uint64_t src_offset,
                    uint64_t dst_offset, size_t size);
int ndl_memory_copy_as(uint64_t src_mem_handle, uint64_t dst_mem_handle, uint64_t src_offset,
                       uint64_t dst_offset, size_t size, uint64_t prefetch_addr, int* wait_handle);
int ndl_memory_copy_as_wait(uint64_t mem_handle, int wait_handle);
/* Fills all HBM that clients can use. */
int ndl_hbm_scrub_start(ndl_device_t* device, uint32_t nc_id, uint32_t hbm_index, uint32_t axi_port,
                        uint32_t init_val);
int ndl_hbm_scrub_wait(ndl_device_t* device, uint32_t nc_id, uint32_t hbm_index);

/* ---- DMA engines and rings ---- */

int ndl_dma_eng_set_state(int device_index, uint32_t eng_id, uint32_t state);
int ndl_dma_eng_get_state(int device_index, uint32_t eng_id, struct neuron_dma_eng_state* state);
int ndl_dma_queue_get_state(int device_index, uint8_t eng_id, uint8_t qid,
                            struct neuron_dma_queue_state* tx, struct neuron_dma_queue_state* rx);
/* Needs root. */
int ndl_dma_descriptor_copyout(int device_index, uint8_t eng_id, uint8_t qid,
                               enum neuron_dma_queue_type type, uint32_t start_index,
                               uint32_t count, void* buffer);
int ndl_dma_queue_init(int device_index, uint32_t eng_id, uint32_t qid, uint32_t tx_desc_count,
                       uint32_t rx_desc_count, uint64_t tx_handle, uint64_t rx_handle,
                       uint64_t rxc_handle, uint32_t axi_port);

struct ndl_queue_init {
  __u32 eng_id;
  __u32 qid;
  __u32 tx_desc_count;
  __u32 rx_desc_count;
  __u64 tx_handle;
  __u64 rx_handle;
  __u64 rxc_handle; /* completion ring */
  __u32 axi_port;
};

#define MAX_NDL_QUEUE_INIT_BATCH 256
struct ndl_queue_init_batch {
  __u32 count;
  struct ndl_queue_init entries[MAX_NDL_QUEUE_INIT_BATCH];
};

int ndl_dma_queue_init_batch(int device_idx, struct ndl_queue_init_batch* batch);
int ndl_dma_queue_release(int device_index, uint32_t eng_id, uint32_t qid);
int ndl_dma_queue_copy_start(int device_index, uint32_t eng_id, uint32_t qid,
                             uint32_t tx_desc_count, uint32_t rx_desc_count);
int ndl_dma_ack_completed_desc(int device_index, uint32_t eng_id, uint32_t qid, uint32_t count);
int ndl_dma_copy_descriptors(uint64_t mem_handle, void* buffer, uint64_t offset, uint32_t num_descs,
                             enum neuron_dma_queue_type queue_type);
/* Rings for host-to-device traffic; bitmaps name the queues. */
int ndl_h2t_dma_queue_alloc(ndl_device_t* device, uint32_t nc_id, uint32_t copy_queue_cnt,
                            uint32_t service_queue_cnt, uint32_t* copy_queue_bmap,
                            uint32_t* service_queue_bmap, uint32_t* copy_default_queue);
int ndl_h2t_dma_queue_free(ndl_device_t* device, uint32_t nc_id, uint32_t queue_bmap);

/* ---- semaphores and events of a core ---- */

int ndl_nc_semaphore_increment(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                               uint32_t value);
int ndl_nc_semaphore_decrement(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                               uint32_t value);
int ndl_nc_semaphore_read(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                          uint32_t* value);
int ndl_nc_semaphore_write(ndl_device_t* device, int nc_index, uint32_t semaphore_index,
                           uint32_t value);
int ndl_nc_event_get(ndl_device_t* device, int nc_index, uint32_t event_index, uint32_t* value);
int ndl_nc_event_set(ndl_device_t* device, int nc_index, uint32_t event_index, uint32_t value);

/* ---- notification queues ---- */

typedef enum NQ_DEV_TYPE {
  NQ_DEV_TYPE_NEURON_CORE = 0,
  NQ_DEV_TYPE_TOPSP,
  NQ_DEV_TYPE_MAX,
} ndl_nq_dev_t;

typedef struct ndl_notification_context {
  union {
    uint8_t nc_id;
    uint8_t nq_dev_id;
  };
  ndl_nq_dev_t nq_dev_type;
  uint8_t nq_type; /* enum NQ_TYPE */
  uint8_t engine_index;
  uint32_t size;
  int fd;
  uint64_t offset;
  uint64_t mem_handle;
  void* va;

  ndl_mem_info_t* mem_info;
} ndl_notification_context_t;

/* `nq_dev_id` numbers cores or TOP_SPs, as `nq_dev_type` says. The second form can force new
 * memory. */
int ndl_notification_init(ndl_device_t* device, int nq_dev_id, ndl_nq_dev_t nq_dev_type,
                          uint8_t nq_type, uint8_t engine_index, uint32_t size, bool on_host_memory,
                          uint32_t dram_channel, uint32_t dram_region,
                          uint64_t* notification_context);
int ndl_notification_init_with_realloc(ndl_device_t* device, int nq_dev_id,
                                       ndl_nq_dev_t nq_dev_type, uint8_t nq_type,
                                       uint8_t engine_index, uint32_t size, bool on_host_memory,
                                       uint32_t dram_channel, uint32_t dram_region,
                                       bool force_alloc_mem, uint64_t* notification_context);
int ndl_notification_get_mem_handle(uint64_t notification_context, uint64_t* mem_handle);
int ndl_notification_get_size(uint64_t notification_context, uint32_t* size);
int ndl_notification_map(uint64_t notification_context, void** va);
int ndl_notification_destroy(uint64_t notification_context);

/* ---- data store of a process: nrt/nds/neuron_ds.h ---- */

int ndl_nds_open(ndl_device_t* device, int32_t pid, void** data, size_t* size);
int ndl_nds_close(ndl_device_t* device, int32_t pid, void* data, size_t size);

/* ---- who uses a device ---- */

/* free() the array. */
int ndl_get_all_apps_info(ndl_device_t* device, struct neuron_app_info** info, size_t* count,
                          uint16_t apps_info_flags);
int ndl_dump_nc_pid_info(uint32_t nc_id, bool filter_log_owner, uint32_t log_dump_limit);

/* Cores: mark the first free run of `nc_count` within [start_nc, end_nc], give it back. `size` is
 * that of the bitmap in bytes. */
int ndl_crwl_nc_range_mark(uint32_t nc_count, uint32_t start_nc, uint32_t end_nc,
                           uint32_t* max_nc_available, uint64_t* bitmap, size_t size);
int ndl_crwl_nc_range_unmark(uint64_t* bitmap, size_t size);

/* Models: many executions or one load at a time per core. */
int ndl_crwl_reader_enter(ndl_device_t* device, int nc_index, struct neuron_uuid uuid);
int ndl_crwl_reader_exit(ndl_device_t* device, int nc_index, struct neuron_uuid uuid);
int ndl_crwl_writer_enter(ndl_device_t* device, int nc_index, struct neuron_uuid uuid);
int ndl_crwl_writer_downgrade(ndl_device_t* device, int nc_index, struct neuron_uuid uuid);

/* Initialisation of a core by the first process: neuron_cinit_state. */
int ndl_nc_init_set_state(ndl_device_t* device, uint32_t nc_id, uint32_t state,
                          uint32_t* new_state);
int ndl_nc_model_started_count(ndl_device_t* device, uint32_t nc_id, uint64_t* started_count);

/* ---- pods ---- */

int ndl_pod_info(uint32_t* pod_type, uint32_t* pod_sz);
int ndl_pod_election_state(uint32_t* state);
/* *node_id is -1 outside a pod. */
int ndl_pod_mapping_info(int* node_id);
int ndl_pod_status(uint8_t* pod_id, uint32_t* state, uint32_t* pod_type, uint32_t* pod_sz,
                   int* node_id, enum neuron_ultraserver_mode* mode, uint32_t* modes_supported);
int ndl_pod_ctrl(uint32_t ctrl, enum neuron_ultraserver_mode mode, uint32_t timeout,
                 uint32_t* state);

/* ---- bitmaps of any length ---- */

#define NBM_NR_BITS(t) (sizeof(t) * 8)
#define NBM_NR_ENT(nr, t) (((nr) + NBM_NR_BITS(t) - 1) / NBM_NR_BITS(t))

static inline uint32_t nbitmap_test_bit(uint32_t nr, uint64_t* addr) {
  return (uint32_t)((addr[nr / 64] >> (nr % 64)) & 1);
}

static inline void nbitmap_set_bit(uint32_t nr, uint64_t* addr) {
  addr[nr / 64] |= (uint64_t)1 << (nr % 64);
}

static inline void nbitmap_clr_bit(uint32_t nr, uint64_t* addr) {
  addr[nr / 64] &= ~((uint64_t)1 << (nr % 64));
}

/* Position of the first set bit counted from 1, or 0: of a bitmap of `nr` bits. */
static inline uint32_t nbitmap_ffs1(uint32_t nr, uint64_t* addr) {
  uint32_t word;
  for (word = 0; word * 64 < nr; word++) {
    if (addr[word] != 0) {
      return word * 64 + (uint32_t)__builtin_ctzll(addr[word]) + 1;
    }
  }
  return 0;
}

/* Number of set bits. */
static inline uint32_t nbitmap_popcount(uint32_t nr, uint64_t* addr) {
  uint32_t word;
  uint32_t count = 0;
  for (word = 0; word * 64 < nr; word++) {
    count += (uint32_t)__builtin_popcountll(addr[word]);
  }
  return count;
}

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
