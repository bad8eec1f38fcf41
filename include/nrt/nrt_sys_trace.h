/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the runtime itself, kept in one ring per core and fetched as JSON while the program
 * runs. Options may be allocated, changed and freed before nrt_init(). Common rules: nrt/nrt.h. */
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

/* ---- recording ---- */

typedef struct nrt_sys_trace_config nrt_sys_trace_config_t;

NRT_STATUS nrt_sys_trace_config_allocate(nrt_sys_trace_config_t** options);
void nrt_sys_trace_config_set_defaults(nrt_sys_trace_config_t* options);
void nrt_sys_trace_config_free(nrt_sys_trace_config_t* options);
/* Length of each core's ring. */
void nrt_sys_trace_config_set_max_events_per_nc(nrt_sys_trace_config_t* options,
                                                uint64_t max_events_per_nc);
/* A core that is off has no ring. */
void nrt_sys_trace_config_set_capture_enabled_for_nc(nrt_sys_trace_config_t* options,
                                                     uint32_t nc_idx, bool enabled);
/* NRT_INVALID for a type that nrt_sys_trace_get_event_types() does not list. */
NRT_STATUS nrt_sys_trace_config_set_capture_enabled_for_event_type(nrt_sys_trace_config_t* options,
                                                                   const char* event_type,
                                                                   bool enabled);

/* The arrays and their texts belong to the caller: nrt_sys_trace_free_event_types(). */
NRT_STATUS nrt_sys_trace_get_event_types(const char*** event_types, size_t* count);
NRT_STATUS nrt_sys_trace_config_get_enabled_event_types(nrt_sys_trace_config_t* options,
                                                        const char*** event_types, size_t* count);
void nrt_sys_trace_free_event_types(const char** event_types, size_t count);

/* NULL records with the defaults. */
NRT_STATUS nrt_sys_trace_start(nrt_sys_trace_config_t* options);
NRT_STATUS nrt_sys_trace_stop(void);

/* ---- fetching ---- */

typedef struct nrt_sys_trace_fetch_options nrt_sys_trace_fetch_options_t;

NRT_STATUS nrt_sys_trace_fetch_options_allocate(nrt_sys_trace_fetch_options_t** options);
void nrt_sys_trace_fetch_options_set_defaults(nrt_sys_trace_fetch_options_t* options);
void nrt_sys_trace_fetch_options_free(nrt_sys_trace_fetch_options_t* options);
void nrt_sys_trace_fetch_options_set_max_events_per_nc(nrt_sys_trace_fetch_options_t* options,
                                                       uint64_t max_events_per_nc);
void nrt_sys_trace_fetch_options_set_nc_idx(nrt_sys_trace_fetch_options_t* options,
                                            uint64_t nc_idx);

/* Takes events out of the rings: JSON text with a terminating NUL that *written_size does not
 * count. The text belongs to the caller: nrt_sys_trace_buffer_free(). NULL options fetch
 * everything. */
NRT_STATUS nrt_sys_trace_fetch_events(char** buffer, size_t* written_size,
                                      const nrt_sys_trace_fetch_options_t* options);
void nrt_sys_trace_buffer_free(char* buffer);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
