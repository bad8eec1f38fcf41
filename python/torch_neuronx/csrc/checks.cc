// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/checks.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "python/torch_neuronx/csrc/device.h"

namespace tnx {
namespace {

struct Message {
  std::string operation;
  std::string text;
  bool index = false;
};

std::mutex mutex;

std::unordered_map<int64_t, Message>& messages() {
  static auto& all = *new std::unordered_map<int64_t, Message>();
  return all;
}

// More devices than any instance has.
constexpr size_t kMostDevices = 1024;
std::array<std::atomic<Block*>, kMostDevices> records{};
std::array<std::atomic<bool>, kMostDevices> pending{};

bool blocking() {
  static const bool value = [] {
    const char* text = std::getenv("NEURON_LAUNCH_BLOCKING");
    return text != nullptr && std::string(text) == "1";
  }();
  return value;
}

std::string told(const Message& message, int64_t value) {
  std::string text = message.text;
  if (const size_t at = text.find("{}"); at != std::string::npos) {
    text.replace(at, 2, std::to_string(value));
  }
  text += " (aten::" + message.operation + " on device neuron";
  if (!blocking()) {
    text += "; found when the device was waited for, NEURON_LAUNCH_BLOCKING=1 raises at the call";
  }
  return text + ")";
}

}  // namespace

int64_t check_number(const std::string& operation, const std::string& text, bool index) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const std::string* part : {&operation, &text}) {
    for (const char c : *part) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    hash = (hash ^ (index ? 1U : 2U)) * 0x100000001b3;
  }
  const auto number = static_cast<int64_t>(hash >> 1 | 1);
  const std::lock_guard lock(mutex);
  messages()[number] = {operation, text, index};
  return number;
}

Block* check_record(int device) {
  std::atomic<Block*>& record = records.at(static_cast<size_t>(device));
  if (Block* known = record.load(std::memory_order_acquire)) {
    return known;
  }
  const std::lock_guard lock(mutex);
  if (record.load() == nullptr) {
    Block* block = allocate(device, kCheckBytes);
    const std::array<char, kCheckBytes> none{};
    write(block, 0, none.data(), none.size());
    record.store(block, std::memory_order_release);
  }
  return record.load();
}

void checks_queued(int device) {
  pending.at(static_cast<size_t>(device)).store(true, std::memory_order_release);
  if (blocking()) {
    throw_failed_check(device);
  }
}

void throw_failed_check(int device) {
  if (device < 0 || static_cast<size_t>(device) >= kMostDevices ||
      !pending[static_cast<size_t>(device)].exchange(false)) {
    return;
  }
  Block* record = records[static_cast<size_t>(device)].load(std::memory_order_acquire);
  std::array<int64_t, 2> found{};
  read(record, 0, found.data(), kCheckBytes);
  if (found[0] == 0) {
    return;
  }
  const std::array<int64_t, 2> none{};
  write(record, 0, none.data(), kCheckBytes);
  Message message{"?", "a check failed with {}", false};
  {
    const std::lock_guard lock(mutex);
    if (const auto at = messages().find(found[0]); at != messages().end()) {
      message = at->second;
    }
  }
  throw CheckFailed(told(message, found[1]), message.index);
}

}  // namespace tnx
