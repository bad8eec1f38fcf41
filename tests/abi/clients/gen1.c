/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the first generation of the asynchronous interface: what it calls must be the
 * functions of version node NRT_2.0.0, although NRT_3.0.0 is the default. */
#define _GNU_SOURCE
#define OPENNRT_ASYNC_GEN1
#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>

#include "nrt/nrt_async.h"

static_assert(sizeof(nrta_error_t) == 16, "nrta_error_t");
static_assert(NRTA_XU_COLLECTIVES == 4, "units of generation 1");

static int failures;

static void same(const char* name, void* linked) {
  void* old = dlvsym(RTLD_DEFAULT, name, "NRT_2.0.0");
  if (old == NULL || linked != old) {
    fprintf(stderr, "%s: linked %p, NRT_2.0.0 %p\n", name, linked, old);
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
  same("nrta_get_completion_handle", (void*)nrta_get_completion_handle);
  same("nrta_error_tracker_create", (void*)nrta_error_tracker_create);

  nrta_error_tracker_t* tracker = NULL;
  nrta_seq_t sequence = 42;
  if (nrta_error_tracker_create(0, &tracker) == NRT_SUCCESS ||
      nrta_get_sequence(0, NRTA_XU_COMPUTE, 0, &sequence) == NRT_SUCCESS || sequence != 42) {
    fprintf(stderr, "a call before nrt_init() succeeded\n");
    failures++;
  }
  return failures != 0;
}
