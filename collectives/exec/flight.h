// SPDX-License-Identifier: Apache-2.0
// Flight record: the last operations of a rank, in a mapped file that outlives the process. One
// file a rank and job, DIRECTORY/flight/JOB.RANK; a rank that leaves in order removes its own,
// unless an operation failed. `opennrt-flight` merges them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "collectives/transport/record.h"
#include "runtime/base/status.h"

namespace onrt::cc {

inline constexpr uint64_t kFlightMagic = 0x314854474c465943ull;  // "CYFLGTH1"
inline constexpr uint32_t kFlightEntries = 1024;

enum class FlightState : uint32_t { kEmpty = 0, kRunning, kDone, kFailed };

struct FlightEntry {
  uint64_t number = 0;  // of the rank's operations, from 1
  uint64_t group = 0;
  uint64_t start_ns = 0;  // CLOCK_MONOTONIC of the host
  uint64_t end_ns = 0;
  CallRecord call;
  uint32_t state = 0;  // FlightState
  int32_t status = 0;  // NRT_STATUS
  int32_t peer = -1;   // send, receive: with whom; on failure: the rank that was waited for
  uint32_t step = 0;
  char algorithm[16] = {};
};
static_assert(std::is_trivially_copyable_v<FlightEntry> && sizeof(FlightEntry) == 128);

struct FlightHeader {
  uint64_t magic = kFlightMagic;
  uint64_t job = 0;
  int32_t rank = 0;
  int32_t size = 0;
  int32_t pid = 0;
  uint32_t entries = kFlightEntries;
  uint64_t last = 0;     // number of the latest entry; it lies at (number - 1) % entries
  int64_t epoch_ns = 0;  // CLOCK_REALTIME - CLOCK_MONOTONIC when the file was made
  uint8_t unused[80] = {};
};
static_assert(sizeof(FlightHeader) == 128);

// Thread-safe.
class FlightRecord {
 public:
  // Keeps the files of the last 8 jobs in the directory.
  static Result<std::unique_ptr<FlightRecord>> open(const std::string& directory, uint64_t job,
                                                    int rank, int size);
  ~FlightRecord();
  FlightRecord(const FlightRecord&) = delete;
  FlightRecord& operator=(const FlightRecord&) = delete;

  // Returns the entry's number.
  uint64_t begin(uint64_t group, const CallRecord& call, int peer = -1);
  void end(uint64_t number, NRT_STATUS status, const std::string& algorithm, int peer,
           uint32_t step);
  // The file goes with this object.
  void discard() { keep_ = false; }
  const std::string& path() const { return path_; }

 private:
  FlightRecord(std::string path, FlightHeader* header) : path_(std::move(path)), header_(header) {}
  FlightEntry& entry(uint64_t number) const;

  std::string path_;
  FlightHeader* header_;
  bool keep_ = true;
};

struct FlightFile {
  std::string path;
  FlightHeader header;
  std::vector<FlightEntry> entries;  // oldest first
};
// NRT_INVALID when it is no flight record; `path` names it.
Result<FlightFile> parse_flight(std::span<const std::byte> bytes, const std::string& path);
Result<FlightFile> read_flight_file(const std::string& path);

}  // namespace onrt::cc
