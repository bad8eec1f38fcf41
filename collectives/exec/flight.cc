// SPDX-License-Identifier: Apache-2.0
#include "collectives/exec/flight.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>

#include "collectives/plan/schedule.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr size_t kJobsKept = 8;
constexpr size_t kFileBytes = sizeof(FlightHeader) + kFlightEntries * sizeof(FlightEntry);

uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000ull + static_cast<uint64_t>(now.tv_nsec);
}

// Removes the files of all but the latest jobs.
void prune(const std::string& folder) {
  DIR* const listing = ::opendir(folder.c_str());
  if (listing == nullptr) {
    return;
  }
  std::map<std::string, std::pair<int64_t, std::vector<std::string>>> jobs;
  while (const dirent* const entry = ::readdir(listing)) {  // NOLINT(concurrency-mt-unsafe)
    const std::string name = entry->d_name;
    const size_t dot = name.find('.');
    struct stat status{};
    if (dot == 0 || dot == std::string::npos ||
        ::fstatat(::dirfd(listing), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode)) {
      continue;
    }
    auto& job = jobs[name.substr(0, dot)];
    job.first = std::max(job.first, static_cast<int64_t>(status.st_mtime));
    job.second.push_back(name);
  }
  std::vector<std::pair<int64_t, std::string>> by_age;
  for (const auto& [name, job] : jobs) {
    by_age.emplace_back(job.first, name);
  }
  std::sort(by_age.begin(), by_age.end());
  for (size_t i = 0; i + kJobsKept < by_age.size(); ++i) {
    for (const std::string& file : jobs[by_age[i].second].second) {
      ::unlinkat(::dirfd(listing), file.c_str(), 0);
    }
  }
  ::closedir(listing);
}

}  // namespace

Result<std::unique_ptr<FlightRecord>> FlightRecord::open(const std::string& directory, uint64_t job,
                                                         int rank, int size) {
  const std::string folder = directory + "/flight";
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return Status(NRT_RESOURCE,
                  format("flight records: making {}: {}", folder, std::strerror(errno)));
  }
  if (rank == 0) {
    prune(folder);
  }
  const std::string path = format("{}/{:016x}.{}", folder, job, rank);
  const UniqueFd fd = open_file(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(kFileBytes)) != 0) {
    return Status(NRT_RESOURCE, format("flight record {}: {}", path, std::strerror(errno)));
  }
  void* data =
      ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    return Status(NRT_RESOURCE, format("flight record {}: {}", path, std::strerror(errno)));
  }
  ::madvise(data, kFileBytes, MADV_DONTFORK);
  auto* header = new (data) FlightHeader;
  header->job = job;
  header->rank = rank;
  header->size = size;
  header->pid = ::getpid();
  header->epoch_ns = static_cast<int64_t>(clock_ns(CLOCK_REALTIME)) -
                     static_cast<int64_t>(clock_ns(CLOCK_MONOTONIC));
  return std::unique_ptr<FlightRecord>(new FlightRecord(path, header));
}

FlightRecord::~FlightRecord() {
  ::munmap(header_, kFileBytes);
  if (!keep_) {
    ::unlink(path_.c_str());
  }
}

FlightEntry& FlightRecord::entry(uint64_t number) const {
  return reinterpret_cast<FlightEntry*>(header_ + 1)[(number - 1) % kFlightEntries];
}

uint64_t FlightRecord::begin(uint64_t group, const CallRecord& call, int peer) {
  const uint64_t number = std::atomic_ref(header_->last).fetch_add(1) + 1;
  FlightEntry& target = entry(number);
  target.number = number;
  target.group = group;
  target.start_ns = clock_ns(CLOCK_MONOTONIC);
  target.end_ns = 0;
  target.call = call;
  target.state = static_cast<uint32_t>(FlightState::kRunning);
  target.status = 0;
  target.peer = peer;
  target.step = 0;
  target.algorithm[0] = 0;
  return number;
}

void FlightRecord::end(uint64_t number, NRT_STATUS status, const std::string& algorithm, int peer,
                       uint32_t step) {
  FlightEntry& target = entry(number);
  const size_t length = std::min(algorithm.size(), sizeof(target.algorithm) - 1);
  std::memcpy(target.algorithm, algorithm.data(), length);
  target.algorithm[length] = 0;
  target.status = status;
  if (status != NRT_SUCCESS) {
    target.peer = peer;
    target.step = step;
  }
  target.end_ns = clock_ns(CLOCK_MONOTONIC);
  target.state =
      static_cast<uint32_t>(status == NRT_SUCCESS ? FlightState::kDone : FlightState::kFailed);
}

Result<FlightFile> read_flight_file(const std::string& path) {
  ONRT_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_file(path, kFileBytes));
  return parse_flight(bytes, path);
}

Result<FlightFile> parse_flight(std::span<const std::byte> bytes, const std::string& path) {
  FlightFile file;
  file.path = path;
  if (bytes.size() != kFileBytes) {
    return Status(NRT_INVALID, format("{}: a flight record has {} bytes, this has {}", path,
                                      kFileBytes, bytes.size()));
  }
  std::memcpy(static_cast<void*>(&file.header), bytes.data(), sizeof(FlightHeader));
  if (file.header.magic != kFlightMagic || file.header.entries != kFlightEntries) {
    return Status(NRT_INVALID, format("{}: no flight record", path));
  }
  const FlightHeader& header = file.header;
  if (header.size < 1 || header.size > kMaxRanks || header.rank < 0 || header.rank >= header.size) {
    return Status(NRT_INVALID, format("{}: no flight record: it is of rank {} of {}, of at most {}",
                                      path, header.rank, header.size, kMaxRanks));
  }
  for (uint32_t i = 0; i < kFlightEntries; ++i) {
    FlightEntry entry;
    std::memcpy(static_cast<void*>(&entry),
                bytes.data() + sizeof(FlightHeader) + i * sizeof(FlightEntry), sizeof(entry));
    entry.algorithm[sizeof(entry.algorithm) - 1] = 0;
    if (entry.number != 0 && (entry.number - 1) % kFlightEntries == i &&
        entry.number <= file.header.last) {
      file.entries.push_back(entry);
    }
  }
  std::sort(file.entries.begin(), file.entries.end(),
            [](const FlightEntry& a, const FlightEntry& b) { return a.number < b.number; });
  return file;
}

}  // namespace onrt::cc
