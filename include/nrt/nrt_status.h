/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes of the Neuron runtime. Names and values are those of libnrt.so.1. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef enum {
  NRT_SUCCESS = 0,
  NRT_FAILURE = 1,                   /* no more precise code applies */
  NRT_INVALID = 2,                   /* bad NEFF, argument, tensor name or size */
  NRT_INVALID_HANDLE = 3,            /* a handle that is not, or no longer, alive */
  NRT_RESOURCE = 4,                  /* device memory, cores or another resource ran out */
  NRT_TIMEOUT = 5,                   /* not finished within the allowed time */
  NRT_HW_ERROR = 6,                  /* hardware failure */
  NRT_QUEUE_FULL = 7,                /* no room in the submission queue */
  NRT_LOAD_NOT_ENOUGH_NC = 9,        /* the NEFF needs more NeuronCores than there are */
  NRT_UNSUPPORTED_NEFF_VERSION = 10, /* NEFF version or feature this runtime does not know */
  NRT_FAIL_HOST_MEM_ALLOC = 11,      /* kept for old callers; not returned any more */
  NRT_UNINITIALIZED = 13,            /* called before nrt_init() */
  NRT_CLOSED = 14,                   /* called after nrt_close() */
  NRT_QUEUE_EMPTY = 15,              /* nothing to read */
  NRT_EXEC_UNIT_UNRECOVERABLE = 101, /* the core is lost until the runtime is initialised again */
  NRT_EXEC_BAD_INPUT = 1002,         /* input submitted to execute does not fit the model */
  NRT_EXEC_COMPLETED_WITH_NUM_ERR = 1003,   /* completed; NaN was produced */
  NRT_EXEC_COMPLETED_WITH_ERR = 1004,       /* completed with another error */
  NRT_EXEC_NC_BUSY = 1005,                  /* core in use by another model or process */
  NRT_EXEC_OOB = 1006,                      /* an indirect access was out of bounds */
  NRT_COLL_PENDING = 1100,                  /* collective not finished */
  NRT_EXEC_HW_ERR_COLLECTIVES = 1200,       /* stuck in a collective */
  NRT_EXEC_HW_ERR_HBM_UE = 1201,            /* uncorrectable HBM error */
  NRT_EXEC_HW_ERR_NC_UE = 1202,             /* parity error in on-chip memory */
  NRT_EXEC_HW_ERR_DMA_ABORT = 1203,         /* a DMA engine stopped with an error */
  NRT_EXEC_SW_NQ_OVERFLOW = 1204,           /* a notification queue overflowed */
  NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205, /* uncorrectable but repairable HBM error */
  NRT_NETWORK_PROXY_FAILURE = 1206          /* an EFA network proxy operation failed */
} NRT_STATUS;

/* Static text for a status; "Unknown" style text for a value that is not in the enum. Never NULL.
 */
const char* nrt_get_status_as_str(NRT_STATUS status);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
