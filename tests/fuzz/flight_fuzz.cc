// SPDX-License-Identifier: Apache-2.0
// Flight records of three ranks as a dying or hostile process may leave them: read, merged, judged.
//
// An input is a list of patches to records of a job in which rank 2 is late:
// {rank, place, offset, length, bytes}; place 0 is the header, others are entries. Rank 255 cuts
// the file of rank `place` off at `offset` times 512 bytes.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "collectives/exec/flight.h"
#include "tools/opennrt_flight/merge.h"

namespace onrt::tools {
namespace {

using cc::FlightEntry;
using cc::FlightHeader;
using cc::FlightState;

constexpr int kRanks = 3;
constexpr uint8_t kCut = 255;
constexpr size_t kFileBytes = sizeof(FlightHeader) + cc::kFlightEntries * sizeof(FlightEntry);

using File = std::vector<std::byte>;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

File record_of(int rank) {
  FlightHeader header;
  header.job = 7;
  header.rank = rank;
  header.size = kRanks;
  header.pid = 100 + rank;
  header.last = rank == 2 ? 1 : 2;
  File file(kFileBytes);
  std::memcpy(file.data(), &header, sizeof(header));
  for (uint64_t number = 1; number <= header.last; ++number) {
    FlightEntry entry;
    entry.number = number;
    entry.start_ns = 1000 * number;
    entry.call.call = number;
    entry.call.digest = number;
    entry.call.count = 16;
    entry.state = static_cast<uint32_t>(number == 1 ? FlightState::kDone : FlightState::kFailed);
    std::memcpy(file.data() + sizeof(header) + (number - 1) * sizeof(entry), &entry, sizeof(entry));
  }
  return file;
}

void patch(std::array<File, kRanks>& files, std::span<const std::byte> input) {
  while (input.size() >= 4) {
    const auto rank = static_cast<uint8_t>(input[0]);
    const auto place = static_cast<size_t>(input[1]);
    const auto offset = static_cast<size_t>(input[2]);
    const size_t length = std::min(static_cast<size_t>(input[3]), input.size() - 4);
    File& file = files[(rank == kCut ? place : rank) % kRanks];
    if (rank == kCut) {
      file.resize(std::min(file.size(), offset * 512));
      input = input.subspan(4);
      continue;
    }
    // The header is as large as an entry.
    const size_t begin = place % 8 * sizeof(FlightEntry) + offset % sizeof(FlightEntry);
    if (begin < file.size()) {
      std::memcpy(file.data() + begin, input.data() + 4, std::min(length, file.size() - begin));
    }
    input = input.subspan(4 + length);
  }
}

void judge_all(const std::array<File, kRanks>& files) {
  std::vector<cc::FlightFile> read;
  for (const File& bytes : files) {
    auto file = cc::parse_flight(bytes, "record");
    require(file.ok() || !file.status().message().empty());
    if (file.ok()) {
      for (const FlightEntry& entry : file->entries) {
        require(!describe(entry).empty() && !state_name(entry.state).empty());
      }
      read.push_back(std::move(*file));
    }
  }
  const auto job = merge(std::move(read));
  if (!job.ok()) {
    require(!job.status().message().empty());
    return;
  }
  const Verdict verdict = judge(*job);
  require(verdict.kind != VerdictKind::kNothing || verdict.culprits.empty());
  for (const int rank : verdict.culprits) {
    require(rank >= 0 && rank < job->size);
  }
}

}  // namespace
}  // namespace onrt::tools

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::array<onrt::tools::File, onrt::tools::kRanks> files;
  for (int rank = 0; rank < onrt::tools::kRanks; ++rank) {
    files[static_cast<size_t>(rank)] = onrt::tools::record_of(rank);
  }
  onrt::tools::patch(files, std::as_bytes(std::span(data, size)));
  onrt::tools::judge_all(files);
  return 0;
}
