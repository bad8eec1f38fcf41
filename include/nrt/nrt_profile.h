/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: of single models (NTFF files), continuously, and of whole sessions ("inspect").
 * Configurations may be allocated, changed and freed before nrt_init(). Common rules: nrt/nrt.h. */
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

/* ---- one model ---- */

/* Executions of the model are recorded until nrt_profile_stop(), which writes the file; an existing
 * one is replaced. */
NRT_STATUS nrt_profile_start(nrt_model_t* model, const char* filename);
NRT_STATUS nrt_profile_stop(const char* filename);

/* ---- continuously: everything is recorded, what is asked for is written ---- */

typedef struct nrt_profile_continuous_options nrt_profile_continuous_options_t;

/* Output directory is ./output until set. */
NRT_STATUS nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t** options);
NRT_STATUS nrt_profile_continuous_options_free(nrt_profile_continuous_options_t* options);
NRT_STATUS nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t* options,
                                                         const char* output_dir);

NRT_STATUS nrt_profile_continuous_start(nrt_profile_continuous_options_t* options);
/* Writes the latest execution on core `vnc`, under a name that is free. Recording goes on. */
NRT_STATUS nrt_profile_continuous_save(uint32_t vnc, nrt_profile_continuous_options_t* options);
/* Writes nothing. */
NRT_STATUS nrt_profile_continuous_stop(void);

/* ---- sessions ---- */

/* Starts as the NEURON_RT_INSPECT_* variables say. */
NRT_STATUS nrt_inspect_begin(void);
/* Ends the session and writes what was recorded. */
NRT_STATUS nrt_inspect_stop(void);

/* What nrt_inspect_begin_with_options() starts. The variables do not influence it. Defaults:
 * session 1, ./output, all activities, all cores and event types, neither kind of recording
 * enabled. */
typedef struct nrt_inspect_config nrt_inspect_config_t;

NRT_STATUS nrt_inspect_config_allocate(nrt_inspect_config_t** options);
NRT_STATUS nrt_inspect_config_set_defaults(nrt_inspect_config_t* options);
NRT_STATUS nrt_inspect_config_free(nrt_inspect_config_t* options);
NRT_STATUS nrt_inspect_config_set_session_id(nrt_inspect_config_t* options, int session_id);
/* The text is copied; NRT_INVALID when empty. */
NRT_STATUS nrt_inspect_config_set_output_dir(nrt_inspect_config_t* options, const char* output_dir);
NRT_STATUS nrt_inspect_config_set_sys_trace_max_events_per_nc(nrt_inspect_config_t* options,
                                                              uint64_t sys_trace_max_events_per_nc);
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_nc(nrt_inspect_config_t* options,
                                                         uint32_t nc_idx, bool enabled);
/* Types are the texts of nrt_sys_trace_get_event_types(). */
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_event_type_string(
    nrt_inspect_config_t* options, const char* event_type, bool enabled);
/* Record every execution; record executions that fail. */
NRT_STATUS nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t* options,
                                                 bool enable_inspect);
NRT_STATUS nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t* options,
                                                         bool enable_inspect_on_fail);

/* Leave out the first executions of each model in device profiles. In the vendor's library since
 * 2.35; in no public header, the prototype is our reading of the release notes. */
NRT_STATUS nrt_inspect_config_set_device_profile_num_warmup(nrt_inspect_config_t* options,
                                                            uint32_t num_warmup);

/* When device profiles are taken. In no public header; the values are those that clients use. */
typedef enum nrt_inspect_device_profile_mode {
  NRT_INSPECT_DEVICE_PROFILE_MODE_DISABLED = 0,
  NRT_INSPECT_DEVICE_PROFILE_MODE_MODEL = 1,
  NRT_INSPECT_DEVICE_PROFILE_MODE_SESSION = 2,
} nrt_inspect_device_profile_mode_t;
NRT_STATUS nrt_inspect_config_set_inspect_device_profile_mode(
    nrt_inspect_config_t* options, nrt_inspect_device_profile_mode_t mode);

/* NULL starts with the defaults. */
NRT_STATUS nrt_inspect_begin_with_options(nrt_inspect_config_t* options);

/* Writes what was recorded so far; bits of `profile_types` choose what. In the vendor's library
 * since 2.34; in no public header, the prototype is our reading of the release notes. */
NRT_STATUS nrt_inspect_export(uint32_t profile_types);

/* Activities: system_profile, device_profile, host_memory, cpu_util. The arrays and their texts
 * belong to the caller: nrt_inspect_config_free_activity_types(). */
NRT_STATUS nrt_inspect_config_get_all_activity_types(const char*** activity_types, size_t* count);
NRT_STATUS nrt_inspect_config_get_enabled_activity_types(nrt_inspect_config_t* options,
                                                         const char*** activity_types,
                                                         size_t* count);
void nrt_inspect_config_free_activity_types(const char** activity_types, size_t count);
/* Also takes "all". */
NRT_STATUS nrt_inspect_config_set_activity(nrt_inspect_config_t* options, const char* activity_type,
                                           bool enabled);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
