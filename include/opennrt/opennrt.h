/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What OpenNRT's libnrt.so.1 offers beyond the vendor's interface (version node OPENNRT_1.0).
 *
 * A program that must also run on the vendor's library looks these functions up with dlsym().
 * Common rules: nrt/nrt.h.
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

/* Text of the last call of this thread that failed: which object, what was expected, what was
 * found.
 * "" when none failed. Never NULL; valid until the thread's next failure. At any time. */
const char* onrt_last_error(void);

/* "2.35.0": version of this library. At any time. */
const char* onrt_version(void);

/* One line of the table that an out-of-memory message prints. */
typedef struct onrt_memory_category {
  char name[32];  /* "tensors", "model code", ... */
  uint64_t bytes; /* in use on the core */
} onrt_memory_category_t;

/* Device memory of one core by category. *count: rows there is room for; on return the rows that
 * exist. NRT_RESOURCE, with *count set, when there is too little room. The rows add up to
 * nrt_vnc_memory_stats_t.bytes_used. */
NRT_STATUS onrt_get_memory_categories(uint32_t vnc, onrt_memory_category_t* rows, size_t* count);

/* Counters of one device since the machine was created. Fields are only appended. */
typedef struct onrt_device_counters {
  uint64_t dma_descriptors;
  uint64_t dma_bytes;
  uint64_t programs_started;
  uint64_t programs_failed;
  uint64_t hbm_corrected_errors;
  uint64_t hbm_uncorrected_errors;
} onrt_device_counters_t;

/* Fills min(size_in, what the library knows) bytes of *counters and says how many. */
NRT_STATUS onrt_get_device_counters(int device, onrt_device_counters_t* counters, size_t size_in,
                                    size_t* size_out);

/* Times of a model's executions. Device time is what the timing model says a NeuronCore would take
 * and no measurement; wall time is what the host took. Fields are only appended. */
typedef struct onrt_model_times {
  uint64_t executions;
  uint64_t last_device_ns;
  uint64_t total_device_ns;
  uint64_t last_wall_ns;
  uint64_t total_wall_ns;
} onrt_model_times_t;

NRT_STATUS onrt_get_model_times(const nrt_model_t* model, onrt_model_times_t* times, size_t size_in,
                                size_t* size_out);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
