// SPDX-License-Identifier: Apache-2.0
#include "collectives/exec/call.h"

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

// splitmix64's last steps.
uint64_t mix(uint64_t state, uint64_t value) {
  uint64_t x = state * 0x9e3779b97f4a7c15ull + value;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

bool has_pieces(const Call& call) { return call.op == Op::kAllGatherV || call.op == Op::kPermute; }

// Root alone says whether these are in place; the others learn it from its record.
bool root_decides(Op op) { return op == Op::kReduce || op == Op::kGather || op == Op::kScatter; }

}  // namespace

bool Call::in_place(int rank) const {
  const uint64_t bytes = count * dtype_bytes(dtype);
  const auto at = [](const LocalBuffer& buffer, uint64_t offset) {
    return buffer.data == nullptr ? nullptr : buffer.data + offset;
  };
  if (in.data == nullptr || out.data == nullptr) {
    return op == Op::kBroadcast;
  }
  switch (op) {
    case Op::kAllGather:
    case Op::kGather:
      return in.data == at(out, static_cast<uint64_t>(rank) * bytes);
    case Op::kAllGatherV:
      return in.data == at(out, offsets[static_cast<size_t>(rank)] * dtype_bytes(dtype));
    case Op::kReduceScatter:
    case Op::kScatter:
      return out.data == at(in, static_cast<uint64_t>(rank) * bytes);
    default:
      return in.data == out.data;
  }
}

CallRecord record_of(const Call& call, uint64_t number, int rank) {
  CallRecord record;
  record.call = number;
  record.count = call.count;
  record.op = static_cast<uint8_t>(call.op);
  record.dtype = static_cast<uint8_t>(call.dtype);
  record.reduce_op = static_cast<uint8_t>(call.reduce_op);
  record.in_place = call.in_place(rank) ? 1 : 0;
  record.root = call.root;
  record.in_file = call.in.ref.file;
  record.out_file = call.out.ref.file;
  record.in_offset = call.in.ref.offset;
  record.out_offset = call.out.ref.offset;
  const uint64_t in_place = root_decides(call.op) ? 0 : record.in_place;
  uint64_t digest =
      mix(call.count, static_cast<uint64_t>(record.op) | static_cast<uint64_t>(record.dtype) << 8 |
                          static_cast<uint64_t>(record.reduce_op) << 16 | in_place << 24 |
                          static_cast<uint64_t>(static_cast<uint32_t>(call.root)) << 32);
  if (has_pieces(call)) {
    for (const uint64_t value : call.counts) {
      digest = mix(digest, value);
    }
    for (const uint64_t value : call.offsets) {
      digest = mix(digest, value);
    }
    for (const auto& [source, target] : call.pairs) {
      digest = mix(digest, static_cast<uint64_t>(source) << 32 | static_cast<uint64_t>(target));
    }
  }
  record.digest = mix(digest, number);
  return record;
}

std::string describe(const CallRecord& record) {
  if (record.op >= kOps) {
    return format("operation {}", record.op);
  }
  const Op op = static_cast<Op>(record.op);
  if (op == Op::kBarrier) {
    return "barrier()";
  }
  const DtypeInfo* dtype = find_dtype(static_cast<uint32_t>(record.dtype));
  std::string text = format("{}(", op_name(op));
  if (op_reduces(op) && record.reduce_op < kReduceOps) {
    text += format("{}, ", reduce_op_name(static_cast<ReduceOp>(record.reduce_op)));
  }
  text += dtype == nullptr ? format("type {}", record.dtype) : std::string(dtype->name);
  if (op == Op::kAllToAllV || op == Op::kAllGatherV) {
    text += format(", {} elements here", record.count);
  } else {
    text += format(", {} elements", record.count);
  }
  if (op_has_root(op)) {
    text += format(", root {}", record.root);
  }
  return text + (record.in_place != 0 ? ", in place)" : ")");
}

}  // namespace onrt::cc
