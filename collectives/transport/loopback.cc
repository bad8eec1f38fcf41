// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/loopback.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr int32_t kScratchFile = 1 << 30;  // stands for a rank's scratch memory in a MemoryRef

Status broken(std::string text) { return Status(NRT_EXEC_HW_ERR_COLLECTIVES, std::move(text)); }

template <class T>
std::vector<std::byte> bytes_of(const T* values, size_t count) {
  const auto* const begin = reinterpret_cast<const std::byte*>(values);
  return {begin, begin + count * sizeof(T)};
}

}  // namespace

LoopbackNetwork::LoopbackNetwork(int ranks, LoopbackOptions options)
    : ranks_(ranks),
      options_(options),
      injector_(options.faults),
      chooser_(options.seed),
      streams_(static_cast<size_t>(ranks) * static_cast<size_t>(ranks)),
      puts_posted_(static_cast<size_t>(ranks)),
      puts_ended_(static_cast<size_t>(ranks)) {
  for (int rank = 0; rank < ranks; ++rank) {
    endpoints_.push_back(std::make_unique<LoopbackEndpoint>(*this, rank));
  }
}

LoopbackNetwork::~LoopbackNetwork() = default;

Endpoint& LoopbackNetwork::endpoint(int rank) { return *endpoints_[static_cast<size_t>(rank)]; }

MemoryRef LoopbackNetwork::offer(int rank, std::span<std::byte> memory) {
  auto& offered = endpoints_[static_cast<size_t>(rank)]->offered_;
  offered.push_back(memory);
  return {static_cast<int32_t>(offered.size() - 1), 0};
}

void LoopbackNetwork::post(Message message) {
  const auto from = static_cast<size_t>(message.from);
  Flight flight;
  flight.puts_before = puts_posted_[from];
  puts_posted_[from] += message.kind == MessageKind::kPut ? 1 : 0;
  const Fault fault = injector_.decide(message);
  Stream& target = stream(message.from, message.to);
  flight.message = std::move(message);
  enqueue(target, std::move(flight), fault);
}

void LoopbackNetwork::enqueue(Stream& stream, Flight flight, Fault fault) {
  const bool put = flight.message.kind == MessageKind::kPut;
  switch (fault) {
    case Fault::kDrop:
    case Fault::kBlackHole:
      puts_ended_[static_cast<size_t>(flight.message.from)] += put ? 1 : 0;
      return;
    case Fault::kDelay:
      flight.not_before = clock_ + options_.faults.ticks;
      break;
    case Fault::kDuplicate:
      puts_posted_[static_cast<size_t>(flight.message.from)] += put ? 1 : 0;
      stream.push_back(flight);
      break;
    case Fault::kReorder:
      // Ahead of what waits; when nothing does, the next one goes ahead of it.
      if (!stream.empty()) {
        flight.puts_before = 0;
        stream.insert(stream.end() - 1, std::move(flight));
        return;
      }
      flight.not_before = UINT64_MAX;
      break;
    default:
      break;
  }
  const bool overtakes = !stream.empty() && stream.back().not_before == UINT64_MAX;
  if (overtakes) {
    stream.back().not_before = 0;
    flight.puts_before = 0;
    stream.insert(stream.end() - 1, std::move(flight));
  } else {
    stream.push_back(std::move(flight));
  }
}

bool LoopbackNetwork::deliverable(const Stream& stream) const {
  if (stream.empty() || stream.front().not_before > clock_) {
    return false;
  }
  const Flight& head = stream.front();
  const MessageKind kind = head.message.kind;
  return (kind != MessageKind::kSignal && kind != MessageKind::kArrival) ||
         puts_ended_[static_cast<size_t>(head.message.from)] >= head.puts_before;
}

void LoopbackNetwork::deliver() {
  ++clock_;
  const size_t start = chooser_() % streams_.size();
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[(start + i) % streams_.size()];
    if (deliverable(stream)) {
      const Message message = std::move(stream.front().message);
      stream.pop_front();
      endpoints_[static_cast<size_t>(message.to)]->receive(message);
      puts_ended_[static_cast<size_t>(message.from)] += message.kind == MessageKind::kPut ? 1 : 0;
      return;
    }
  }
}

std::optional<Message> LoopbackNetwork::fetch(int to, int from, const MemoryRef& ref,
                                              uint64_t bytes) {
  const std::span<std::byte> memory = endpoints_[static_cast<size_t>(from)]->memory(ref, bytes);
  Message reply;
  reply.kind = MessageKind::kReply;
  reply.from = from;
  reply.to = to;
  reply.ref = ref;
  reply.data = bytes_of(memory.data(), memory.size());
  reply.checksum = checksum_of(reply);
  const Fault fault = injector_.decide(reply);
  if (fault == Fault::kDrop || fault == Fault::kBlackHole) {
    return std::nullopt;
  }
  return reply;
}

LoopbackEndpoint::LoopbackEndpoint(LoopbackNetwork& network, int rank)
    : network_(network),
      rank_(rank),
      scratch_(kScratchAreas * kLoopbackScratchBytes + 2 * kSmallBytes),
      peers_(static_cast<size_t>(network.ranks_)) {
  caps_.name = "loopback";
}

std::span<std::byte> LoopbackEndpoint::memory(const MemoryRef& ref, uint64_t bytes) {
  std::span<std::byte> whole;
  if (ref.file == kScratchFile) {
    whole = scratch_;
  } else if (ref.file >= 0 && static_cast<size_t>(ref.file) < offered_.size()) {
    whole = offered_[static_cast<size_t>(ref.file)];
  }
  const bool inside = ref.offset <= whole.size() && bytes <= whole.size() - ref.offset;
  return inside ? whole.subspan(ref.offset, bytes) : std::span<std::byte>();
}

Result<std::byte*> LoopbackEndpoint::map(int rank, const MemoryRef& ref, uint64_t bytes) {
  if (rank != rank_) {
    return Status(NRT_INVALID,
                  format("rank {}: the memory of rank {} can't be mapped here", rank_, rank));
  }
  const std::span<std::byte> found = memory(ref, bytes);
  if (found.size() != bytes) {
    return Status(NRT_INVALID, format("rank {}: {} bytes at {} of file {} are not offered", rank_,
                                      bytes, ref.offset, ref.file));
  }
  return found.data();
}

MemoryRef LoopbackEndpoint::scratch(int /*rank*/, int area) const {
  return {kScratchFile, static_cast<uint64_t>(area) * kLoopbackScratchBytes};
}

// Behind the other areas.
MemoryRef LoopbackEndpoint::small(int /*rank*/, uint64_t call) const {
  return {kScratchFile, kScratchAreas * kLoopbackScratchBytes + call % 2 * kSmallBytes};
}

void LoopbackEndpoint::send(Message message) {
  Peer& target = peer(message.to);
  message.from = rank_;
  message.sequence = ++target.sent;
  message.checksum = checksum_of(message);
  if (message.kind != MessageKind::kReceipt) {
    target.waiting.emplace_back(message.sequence, network_.clock_);
  }
  network_.post(std::move(message));
}

Status LoopbackEndpoint::put(int to, const MemoryRef& ref, const std::byte* from, uint64_t bytes) {
  if (to == rank_) {
    ONRT_ASSIGN_OR_RETURN(std::byte* const target, map(to, ref, bytes));
    std::memmove(target, from, bytes);
    return ok_status();
  }
  Message message;
  message.kind = MessageKind::kPut;
  message.to = to;
  message.ref = ref;
  message.data = bytes_of(from, bytes);
  send(std::move(message));
  return failure_;
}

Status LoopbackEndpoint::get(int from, const MemoryRef& ref, std::byte* to, uint64_t bytes) {
  const std::optional<Message> reply = network_.fetch(rank_, from, ref, bytes);
  if (!reply) {
    return broken(format("rank {}: no reply of rank {} to a get of {} bytes at {} of file {}",
                         rank_, from, bytes, ref.offset, ref.file));
  }
  if (reply->data.size() != bytes) {
    return Status(NRT_INVALID, format("rank {}: rank {} offers no {} bytes at {} of file {}", rank_,
                                      from, bytes, ref.offset, ref.file));
  }
  if (network_.options_.check && checksum_of(*reply) != reply->checksum) {
    return broken(format("rank {}: {} is damaged: checksum {:#x}, sent with {:#x}", rank_,
                         describe(*reply), checksum_of(*reply), reply->checksum));
  }
  std::memcpy(to, reply->data.data(), bytes);
  return failure_;
}

Status LoopbackEndpoint::signal(int to, uint32_t number, uint32_t amount) {
  if (to == rank_) {
    peer(to).counters[number] += amount;
    return ok_status();
  }
  Message message;
  message.kind = MessageKind::kSignal;
  message.to = to;
  message.number = number;
  message.amount = amount;
  send(std::move(message));
  return failure_;
}

uint64_t LoopbackEndpoint::counter(int from, uint32_t number) {
  return peer(from).counters[number];
}

Result<bool> LoopbackEndpoint::flush() {
  ONRT_RETURN_IF_ERROR(failure_);
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const Peer& each) { return each.waiting.empty(); });
}

uint64_t LoopbackEndpoint::arrive(uint32_t channel) {
  const uint64_t value = ++peer(rank_).arrivals[channel];
  for (int to = 0; to < ranks(); ++to) {
    if (to != rank_) {
      Message message;
      message.kind = MessageKind::kArrival;
      message.to = to;
      message.number = channel;
      message.amount = value;
      send(std::move(message));
    }
  }
  return value;
}

uint64_t LoopbackEndpoint::arrived(int rank, uint32_t channel) {
  return peer(rank).arrivals[channel];
}

void LoopbackEndpoint::enter(const CallRecord& record) {
  peer(rank_).records[record.call % 2] = record;
  for (int to = 0; to < ranks(); ++to) {
    if (to != rank_) {
      Message message;
      message.kind = MessageKind::kRecord;
      message.to = to;
      message.amount = record.call;
      message.data = bytes_of(&record, 1);
      send(std::move(message));
    }
  }
}

bool LoopbackEndpoint::entered(int rank, uint64_t call) {
  return peer(rank).records[call % 2].call == call;
}

CallRecord LoopbackEndpoint::record(int rank, uint64_t call) {
  return peer(rank).records[call % 2];
}

void LoopbackEndpoint::publish_words(uint64_t call, std::span<const uint64_t> mine) {
  peer(rank_).words[call % 2].assign(mine.begin(), mine.end());
  for (int to = 0; to < ranks(); ++to) {
    if (to != rank_) {
      Message message;
      message.kind = MessageKind::kWords;
      message.to = to;
      message.amount = call;
      message.data = bytes_of(mine.data(), mine.size());
      send(std::move(message));
    }
  }
}

std::span<const uint64_t> LoopbackEndpoint::words(int rank, uint64_t call, size_t count) {
  std::vector<uint64_t>& words = peer(rank).words[call % 2];
  words.resize(count);
  return words;
}

// Something was sent and nobody says that it has come.
Status LoopbackEndpoint::progress() {
  network_.deliver();
  ONRT_RETURN_IF_ERROR(failure_);
  for (int to = 0; network_.options_.check && to < ranks(); ++to) {
    const auto& waiting = peer(to).waiting;
    if (!waiting.empty() && network_.clock_ - waiting.front().second > network_.options_.patience) {
      failure_ =
          broken(format("rank {}: no receipt of message {} to rank {}: it is lost, or the "
                        "rank can't be reached",
                        rank_, waiting.front().first, to));
    }
  }
  return failure_;
}

// In the place of the receiver's network card: needs no call of the receiver.
void LoopbackEndpoint::receive(const Message& message) {
  Peer& from = peer(message.from);
  if (network_.options_.check && failure_.ok()) {
    failure_ = verify(message, from);
  }
  if (!failure_.ok()) {
    return;
  }
  from.received = message.sequence;
  failure_ = apply(message, from);
  if (failure_.ok() && message.kind != MessageKind::kReceipt) {
    Message receipt;
    receipt.kind = MessageKind::kReceipt;
    receipt.to = message.from;
    receipt.amount = message.sequence;
    send(std::move(receipt));
  }
}

Status LoopbackEndpoint::verify(const Message& message, Peer& from) const {
  const uint32_t found = checksum_of(message);
  if (found != message.checksum) {
    return broken(format("rank {}: {} is damaged: checksum {:#x}, sent with {:#x}", rank_,
                         describe(message), found, message.checksum));
  }
  if (message.sequence != from.received + 1) {
    return broken(format("rank {}: {} came {}", rank_, describe(message),
                         message.sequence <= from.received
                             ? format("again, or late: {} is the last one", from.received)
                             : format("where {} was expected", from.received + 1)));
  }
  return ok_status();
}

Status LoopbackEndpoint::apply(const Message& message, Peer& from) {
  const bool numbered =
      message.kind == MessageKind::kSignal || message.kind == MessageKind::kArrival;
  if (numbered && message.number >= kAreaChannels) {
    return broken(format("rank {}: {}: number {} of {}", rank_, describe(message), message.number,
                         kAreaChannels));
  }
  switch (message.kind) {
    case MessageKind::kPut: {
      const std::span<std::byte> target = memory(message.ref, message.data.size());
      if (target.size() != message.data.size()) {
        return broken(format("rank {}: {} is for {} of file {}, which is not offered", rank_,
                             describe(message), message.ref.offset, message.ref.file));
      }
      std::copy(message.data.begin(), message.data.end(), target.begin());
      break;
    }
    case MessageKind::kSignal:
      from.counters[message.number] += message.amount;
      break;
    case MessageKind::kArrival:
      from.arrivals[message.number] = message.amount;
      break;
    case MessageKind::kRecord:
      if (message.data.size() == sizeof(CallRecord)) {
        std::memcpy(static_cast<void*>(&from.records[message.amount % 2]), message.data.data(),
                    sizeof(CallRecord));
      }
      break;
    case MessageKind::kWords: {
      std::vector<uint64_t>& words = from.words[message.amount % 2];
      words.resize(message.data.size() / sizeof(uint64_t));
      std::memcpy(words.data(), message.data.data(), words.size() * sizeof(uint64_t));
      break;
    }
    case MessageKind::kReceipt:
      while (!from.waiting.empty() && from.waiting.front().first <= message.amount) {
        from.waiting.pop_front();
      }
      break;
    case MessageKind::kReply:
      break;  // fetch() hands it over
  }
  return ok_status();
}

}  // namespace onrt::cc
