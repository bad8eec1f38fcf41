// SPDX-License-Identifier: Apache-2.0
// Values and sizes that clients compiled against the vendor's headers have built in. Measured on
// the public headers of SDK 2.28 with gcc on x86-64; layout.c asserts the same in C.
#include <gtest/gtest.h>

#include <cstddef>

#include "ndl/ndl.h"
#include "nrt/ndebug_stream.h"
#include "nrt/nds/neuron_ds.h"
#include "nrt/nec.h"
#include "nrt/nrt.h"
#include "nrt/nrt_async.h"
#include "nrt/nrt_experimental.h"
#include "nrt/nrt_status.h"
#include "nrt/nrt_version.h"
#include "tests/abi/struct_sizes.h"

namespace {

struct EnumRow {
  const char* name;
  long value;
  long expected;
};

#define ROW(name, expected) {#name, static_cast<long>(name), expected}

constexpr EnumRow kEnums[] = {
    ROW(NRT_SUCCESS, 0),
    ROW(NRT_FAILURE, 1),
    ROW(NRT_INVALID, 2),
    ROW(NRT_INVALID_HANDLE, 3),
    ROW(NRT_RESOURCE, 4),
    ROW(NRT_TIMEOUT, 5),
    ROW(NRT_HW_ERROR, 6),
    ROW(NRT_QUEUE_FULL, 7),
    ROW(NRT_LOAD_NOT_ENOUGH_NC, 9),
    ROW(NRT_UNSUPPORTED_NEFF_VERSION, 10),
    ROW(NRT_FAIL_HOST_MEM_ALLOC, 11),
    ROW(NRT_UNINITIALIZED, 13),
    ROW(NRT_CLOSED, 14),
    ROW(NRT_QUEUE_EMPTY, 15),
    ROW(NRT_EXEC_UNIT_UNRECOVERABLE, 101),
    ROW(NRT_EXEC_BAD_INPUT, 1002),
    ROW(NRT_EXEC_COMPLETED_WITH_NUM_ERR, 1003),
    ROW(NRT_EXEC_COMPLETED_WITH_ERR, 1004),
    ROW(NRT_EXEC_NC_BUSY, 1005),
    ROW(NRT_EXEC_OOB, 1006),
    ROW(NRT_COLL_PENDING, 1100),
    ROW(NRT_EXEC_HW_ERR_COLLECTIVES, 1200),
    ROW(NRT_EXEC_HW_ERR_HBM_UE, 1201),
    ROW(NRT_EXEC_HW_ERR_NC_UE, 1202),
    ROW(NRT_EXEC_HW_ERR_DMA_ABORT, 1203),
    ROW(NRT_EXEC_SW_NQ_OVERFLOW, 1204),
    ROW(NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE, 1205),
    ROW(NRT_NETWORK_PROXY_FAILURE, 1206),
    ROW(NRT_TENSOR_PLACEMENT_DEVICE, 0),
    ROW(NRT_TENSOR_PLACEMENT_HOST, 1),
    ROW(NRT_TENSOR_PLACEMENT_VIRTUAL, 2),
    ROW(NRT_FRAMEWORK_TYPE_INVALID, 0),
    ROW(NRT_FRAMEWORK_TYPE_NO_FW, 1),
    ROW(NRT_FRAMEWORK_TYPE_TENSORFLOW, 2),
    ROW(NRT_FRAMEWORK_TYPE_PYTORCH, 3),
    ROW(NRT_FRAMEWORK_TYPE_MXNET, 4),
    ROW(NRT_FRAMEWORK_TYPE_PRECHECK, 5),
    ROW(NRT_INSTANCE_TRN1, 2),
    ROW(NRT_INSTANCE_INF2, 4),
    ROW(NRT_INSTANCE_TRN2, 5),
    ROW(NRT_INSTANCE_TRN2U, 9),
    ROW(NRT_INSTANCE_TRN3, 14),
    ROW(NRT_INSTANCE_TRN3PDS98, 15),
    ROW(NRT_INSTANCE_SIZE_1XL, 0),
    ROW(NRT_INSTANCE_SIZE_32XL, 6),
    ROW(NRT_INSTANCE_SIZE_48XL, 7),
    ROW(NRT_INSTANCE_SIZE_3XL, 8),
    ROW(NRT_INSTANCE_SIZE_UNKNOWN, 9),
    ROW(NRT_OP_ADD, 0),
    ROW(NRT_OP_FMA, 1),
    ROW(NRT_OP_MAX, 2),
    ROW(NRT_OP_MIN, 3),
    ROW(NRT_OP_INVALID, 15),
    ROW(NRT_DTYPE_UNKNOWN, 0),
    ROW(NRT_DTYPE_UINT64, 1),
    ROW(NRT_DTYPE_INT8, 2),
    ROW(NRT_DTYPE_UINT8, 3),
    ROW(NRT_DTYPE_INT16, 4),
    ROW(NRT_DTYPE_UINT16, 5),
    ROW(NRT_DTYPE_BFLOAT16, 6),
    ROW(NRT_DTYPE_FLOAT16, 7),
    ROW(NRT_DTYPE_INT32, 8),
    ROW(NRT_DTYPE_UINT32, 9),
    ROW(NRT_DTYPE_FLOAT32, 10),
    ROW(NRT_DTYPE_FP32R, 11),
    ROW(NRT_DTYPE_INT64, 12),
    ROW(NRT_DTYPE_FP8_E3, 13),
    ROW(NRT_DTYPE_FP8_E4, 14),
    ROW(NRT_DTYPE_FP8_E5, 15),
    ROW(NRT_CC_ALLGATHER, 0),
    ROW(NRT_CC_ALLREDUCE, 1),
    ROW(NRT_CC_REDUCESCATTER, 2),
    ROW(NRT_TENSOR_USAGE_INPUT, 0),
    ROW(NRT_TENSOR_USAGE_OUTPUT, 1),
    ROW(NRTA_XU_TENSOR_OP, 0),
    ROW(NRTA_XU_COMPUTE, 1),
    ROW(NRTA_XU_COLLECTIVES, 2),
    ROW(NRTA_XU_TYPE_NUM, 3),
    ROW(NDEBUG_STREAM_EVENT_TYPE_DEBUG_TENSOR_READ, 1),
    ROW(NQ_TYPE_TRACE, 0),
    ROW(NQ_TYPE_THROTTLE, 5),
    ROW(NEURON_MEMALLOC_TYPE_MAX, 20),
    ROW(NDS_ND_COUNTER_COUNT, 31),
    ROW(NDS_NC_COUNTER_COUNT, 31),
    ROW(NDS_EXT_NC_COUNTER_COUNT, 64),
    ROW(ENC_RDH_NUM_EVENT_TYPE, 52),
};

TEST(EnumValues, AreThoseThatClientsHaveBuiltIn) {
  for (const EnumRow& row : kEnums) {
    EXPECT_EQ(row.value, row.expected) << row.name;
  }
}

TEST(SequenceNumbers, HaveTheUnitInTheUpper16Bits) {
  const nrta_seq_t sequence = (nrta_seq_t{0x1234} << 48) | 77;
  EXPECT_EQ(NRTA_SEQ_GET_SEQ_NUM(sequence), 77u);
  EXPECT_EQ(NRTA_SEQ_GET_XU_ID(sequence), 0x1234u);
  EXPECT_EQ(NRTA_SEQ_NUM_MAX, 0xffffffffffffull);
}

TEST(Bitmap, FindsCountsAndClearsBits) {
  uint64_t map[2] = {0, 0};
  EXPECT_EQ(nbitmap_ffs1(128, map), 0u);
  nbitmap_set_bit(69, map);
  nbitmap_set_bit(127, map);
  EXPECT_EQ(nbitmap_test_bit(69, map), 1u);
  EXPECT_EQ(nbitmap_ffs1(128, map), 70u);
  EXPECT_EQ(nbitmap_popcount(128, map), 2u);
  nbitmap_clr_bit(69, map);
  EXPECT_EQ(nbitmap_ffs1(128, map), 128u);
}

}  // namespace
