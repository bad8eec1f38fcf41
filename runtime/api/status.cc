// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/last_error.h"

namespace onrt::api {

const char* status_text(NRT_STATUS status) {
  switch (status) {
#define ONRT_NAME(name) \
  case name:            \
    return #name
    ONRT_NAME(NRT_SUCCESS);
    ONRT_NAME(NRT_FAILURE);
    ONRT_NAME(NRT_INVALID);
    ONRT_NAME(NRT_INVALID_HANDLE);
    ONRT_NAME(NRT_RESOURCE);
    ONRT_NAME(NRT_TIMEOUT);
    ONRT_NAME(NRT_HW_ERROR);
    ONRT_NAME(NRT_QUEUE_FULL);
    ONRT_NAME(NRT_LOAD_NOT_ENOUGH_NC);
    ONRT_NAME(NRT_UNSUPPORTED_NEFF_VERSION);
    ONRT_NAME(NRT_FAIL_HOST_MEM_ALLOC);
    ONRT_NAME(NRT_UNINITIALIZED);
    ONRT_NAME(NRT_CLOSED);
    ONRT_NAME(NRT_QUEUE_EMPTY);
    ONRT_NAME(NRT_EXEC_UNIT_UNRECOVERABLE);
    ONRT_NAME(NRT_EXEC_BAD_INPUT);
    ONRT_NAME(NRT_EXEC_COMPLETED_WITH_NUM_ERR);
    ONRT_NAME(NRT_EXEC_COMPLETED_WITH_ERR);
    ONRT_NAME(NRT_EXEC_NC_BUSY);
    ONRT_NAME(NRT_EXEC_OOB);
    ONRT_NAME(NRT_COLL_PENDING);
    ONRT_NAME(NRT_EXEC_HW_ERR_COLLECTIVES);
    ONRT_NAME(NRT_EXEC_HW_ERR_HBM_UE);
    ONRT_NAME(NRT_EXEC_HW_ERR_NC_UE);
    ONRT_NAME(NRT_EXEC_HW_ERR_DMA_ABORT);
    ONRT_NAME(NRT_EXEC_SW_NQ_OVERFLOW);
    ONRT_NAME(NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE);
    ONRT_NAME(NRT_NETWORK_PROXY_FAILURE);
#undef ONRT_NAME
  }
  return "Unknown NRT_STATUS";
}

}  // namespace onrt::api

// A program may define this name itself, so nothing of ours calls it.
extern "C" const char* nrt_get_status_as_str(NRT_STATUS status) {
  return onrt::api::status_text(status);
}
