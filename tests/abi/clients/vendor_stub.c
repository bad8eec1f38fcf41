/* SPDX-License-Identifier: Apache-2.0 */
/* A library with the vendor's SONAME and version nodes to link a client against. It never runs. */
#include <stdlib.h>

void nrt_init(void) { abort(); }
void nrt_get_version(void) { abort(); }
void nrt_get_total_vnc_count(void) { abort(); }
void nrt_tensor_allocate(void) { abort(); }
void nrt_tensor_copy(void) { abort(); }
void nrta_execute_schedule(void) { abort(); }
void nrta_event_register_xu_completion(void) { abort(); }
