/* SPDX-License-Identifier: Apache-2.0 */
/* Linked against vendor_stub.c, that is against the vendor's version nodes, run on ours. */
#include <stdio.h>
#include <string.h>

#include "nrt/nrt.h"
#include "nrt/nrt_async.h"
#include "nrt/nrt_version.h"

int main(void) {
  nrt_version_t version;
  nrt_tensor_t* tensor = NULL;
  if (nrt_get_version(&version, sizeof version) != NRT_SUCCESS || version.rt_major != 2 ||
      strncmp(version.rt_detail, "OpenNRT", 7) != 0) {
    fprintf(stderr, "not the library under test\n");
    return 1;
  }
  /* Resolved although the program has no device and never initialises the runtime. */
  if (nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, NULL, &tensor) == NRT_SUCCESS ||
      nrt_tensor_copy(NULL, 0, NULL, 0, 1) == NRT_SUCCESS || tensor != NULL) {
    fprintf(stderr, "a call before nrt_init() succeeded\n");
    return 1;
  }
  if (nrta_event_register_xu_completion(0, NRTA_XU_COMPUTE, 0, -1) == NRT_SUCCESS) {
    fprintf(stderr, "nrta_event_register_xu_completion before nrt_init() succeeded\n");
    return 1;
  }
  return 0;
}
