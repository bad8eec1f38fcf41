/* SPDX-License-Identifier: Apache-2.0 */
/* One element of a batched tensor transfer, as the runtime and the kernel driver exchange it. */
#pragma once

#ifdef __KERNEL__
#include <linux/types.h>
typedef __u64 nrt_tensor_batch_offset_t;
typedef __u64 nrt_tensor_batch_size_t;
#else
#include <stdint.h>
typedef uint64_t nrt_tensor_batch_offset_t;
typedef uint64_t nrt_tensor_batch_size_t;
#endif

typedef struct nrt_tensor_batch_op {
  nrt_tensor_batch_offset_t offset; /* bytes from the start of the tensor */
  nrt_tensor_batch_size_t size;     /* bytes to move */
  void* buffer;                     /* host memory: source of a write, destination of a read */
} nrt_tensor_batch_op_t;
