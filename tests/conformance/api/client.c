/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other process of a test, as small as a client can be.
 *   client count   prints "pre <status>:<visible> init <status> post <visible>"
 *   client hold    initialises, prints "ready" and waits to be killed
 * The text of a failure goes to stderr. Exit status: 0, or 1 when nrt_init() failed.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "nrt/nrt.h"
#include "opennrt/opennrt.h"

int main(int argc, char** argv) {
  uint32_t before = 77;
  uint32_t after = 77;
  NRT_STATUS count_status = nrt_get_visible_vnc_count(&before);
  NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
  if (status != NRT_SUCCESS) {
    fprintf(stderr, "%s\n", onrt_last_error());
  } else {
    nrt_get_visible_vnc_count(&after);
  }
  if (argc > 1 && strcmp(argv[1], "hold") == 0 && status == NRT_SUCCESS) {
    puts("ready");
    fflush(stdout);
    for (;;) {
      pause();
    }
  }
  printf("pre %d:%u init %d post %u\n", (int)count_status, before, (int)status, after);
  nrt_close();
  return status != NRT_SUCCESS;
}
