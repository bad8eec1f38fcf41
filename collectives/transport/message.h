// SPDX-License-Identifier: Apache-2.0
// What travels between endpoints that can't load and store in each other's memory. Every message
// has a place in the stream of its pair of ranks, and a checksum of all that it says: whoever gets
// one knows whether the stream is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/transport/memory_ref.h"
#include "runtime/base/status.h"

namespace onrt::cc {

enum class MessageKind : uint8_t {
  kPut,      // data for a place in the target's memory
  kReply,    // data that a get asked for
  kSignal,   // a counter grows
  kArrival,  // a barrier's number grows
  kRecord,   // a CallRecord
  kWords,    // words that travel with it
  kReceipt,  // so many messages of the pair have come
};
std::string_view message_kind_name(MessageKind kind);

struct Message {
  MessageKind kind = MessageKind::kSignal;
  int from = -1;
  int to = -1;
  uint64_t sequence = 0;  // in the stream from -> to, from 1
  MemoryRef ref;
  uint32_t number = 0;  // counter or channel
  uint64_t amount = 0;  // what a counter grows by, a barrier's number, a call's number
  std::vector<std::byte> data;
  uint32_t checksum = 0;
};

// CRC-32 (IEEE 802.3) of everything else in the message.
uint32_t checksum_of(const Message& message);

// "message 17 from rank 1 to rank 2 (put, 4096 bytes)".
std::string describe(const Message& message);

}  // namespace onrt::cc
