// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/message.h"

#include <zlib.h>

#include <array>

#include "runtime/base/format.h"

namespace onrt::cc {

std::string_view message_kind_name(MessageKind kind) {
  static constexpr std::array<std::string_view, 7> kNames = {"put",    "reply", "signal", "arrival",
                                                             "record", "words", "receipt"};
  const auto number = static_cast<size_t>(kind);
  return number < kNames.size() ? kNames[number] : "unknown";
}

uint32_t checksum_of(const Message& message) {
  const std::array<uint64_t, 8> header = {static_cast<uint64_t>(message.kind),
                                          static_cast<uint64_t>(message.from),
                                          static_cast<uint64_t>(message.to),
                                          message.sequence,
                                          static_cast<uint64_t>(message.ref.file),
                                          message.ref.offset,
                                          message.number,
                                          message.amount};
  uLong sum = ::crc32(0, reinterpret_cast<const Bytef*>(header.data()), sizeof(header));
  if (!message.data.empty()) {  // zlib takes a null pointer for a wish to begin anew
    sum = ::crc32_z(sum, reinterpret_cast<const Bytef*>(message.data.data()), message.data.size());
  }
  return static_cast<uint32_t>(sum);
}

std::string describe(const Message& message) {
  return format("message {} from rank {} to rank {} ({}, {} bytes)", message.sequence, message.from,
                message.to, message_kind_name(message.kind), message.data.size());
}

}  // namespace onrt::cc
