/* SPDX-License-Identifier: Apache-2.0 */
/* A program of today's asynchronous interface is linked to version node NRT_3.0.0. */
#define _GNU_SOURCE
#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>

#include "nrt/nrt_async.h"

static_assert(NRTA_XU_COLLECTIVES == 2, "units of generation 2");

static int failures;

static void same(const char* name, void* linked) {
  void* current = dlvsym(RTLD_DEFAULT, name, "NRT_3.0.0");
  if (current == NULL || linked != current || dlsym(RTLD_DEFAULT, name) != current) {
    fprintf(stderr, "%s: linked %p, NRT_3.0.0 %p\n", name, linked, current);
    failures++;
  }
}

int main(void) {
  same("nrta_tensor_write", (void*)nrta_tensor_write);
  same("nrta_tensor_read", (void*)nrta_tensor_read);
  same("nrta_tensor_copy", (void*)nrta_tensor_copy);
  same("nrta_execute_schedule", (void*)nrta_execute_schedule);
  same("nrta_cc_prepare", (void*)nrta_cc_prepare);
  same("nrta_cc_schedule", (void*)nrta_cc_schedule);
  same("nrta_is_completed", (void*)nrta_is_completed);
  same("nrta_get_sequence", (void*)nrta_get_sequence);
  same("nrta_event_register_seq_id_completion", (void*)nrta_event_register_seq_id_completion);
  same("nrta_event_register_xu_completion", (void*)nrta_event_register_xu_completion);

  nrta_seq_t sequence = 42;
  if (nrta_event_register_xu_completion(0, NRTA_XU_COMPUTE, 0, -1) == NRT_SUCCESS ||
      nrta_get_sequence(0, NRTA_XU_COMPUTE, 0, &sequence) == NRT_SUCCESS || sequence != 42) {
    fprintf(stderr, "a call before nrt_init() succeeded\n");
    failures++;
  }
  return failures != 0;
}
