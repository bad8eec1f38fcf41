// SPDX-License-Identifier: Apache-2.0
#include "collectives/transport/area.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kAreaMagic = 0x31414343'54524e4full;  // "ONRTCCA1"

struct AreaHeader {
  uint64_t magic;
  uint64_t ranks;
  uint64_t bytes;
};

uint64_t round_page(uint64_t value) { return (value + kPage - 1) / kPage * kPage; }

}  // namespace

AreaLayout::AreaLayout(int rank_count) : ranks(rank_count) {
  const auto n = static_cast<uint64_t>(rank_count);
  words_per_rank = 4 * n + 16;
  states = kPage;
  arrivals = round_page(states + n * sizeof(RankState));
  counters = round_page(arrivals + n * kAreaChannels * sizeof(Line));
  entered = round_page(counters + n * n * kAreaChannels * sizeof(Line));
  entries = round_page(entered + n * sizeof(Line));
  words = round_page(entries + n * 2 * sizeof(EntrySlot));
  pipes = round_page(words + n * 2 * words_per_rank * sizeof(uint64_t));
  pipe_data = round_page(pipes + n * n * sizeof(PipeHeader));
  scratch = round_page(pipe_data + n * n * kPipeSlots * kPipeSlotBytes);
  total = round_page(scratch + n * kScratchAreas * kScratchBytes);
}

Result<UniqueFd> Area::create(int ranks) {
  const AreaLayout layout(ranks);
  ONRT_RETURN_IF_ERROR(check_file_size_limit(layout.total, "the memory that ranks share"));
  UniqueFd fd =
      above_standard_streams(UniqueFd(::memfd_create("opennrt-collectives", MFD_CLOEXEC)));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(layout.total)) != 0) {
    return Status(NRT_RESOURCE, format("memory that {} ranks share ({}): {}", ranks,
                                       format_bytes(layout.total), std::strerror(errno)));
  }
  const AreaHeader header = {kAreaMagic, static_cast<uint64_t>(ranks), layout.total};
  if (::pwrite(fd.get(), &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header))) {
    return Status(NRT_RESOURCE,
                  format("memory that {} ranks share: {}", ranks, std::strerror(errno)));
  }
  return fd;
}

Result<std::unique_ptr<Area>> Area::map(const UniqueFd& fd, int ranks) {
  const AreaLayout layout(ranks);
  struct stat status{};
  AreaHeader header{};
  if (::fstat(fd.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) < layout.total ||
      ::pread(fd.get(), &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
      header.magic != kAreaMagic || header.ranks != static_cast<uint64_t>(ranks) ||
      header.bytes != layout.total) {
    return Status(NRT_INVALID, format("memory that ranks share: expected an area of {} ranks and "
                                      "{} bytes, found {} ranks and {} bytes",
                                      ranks, layout.total, header.ranks, status.st_size));
  }
  void* base = ::mmap(nullptr, layout.total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                      fd.get(), 0);
  if (base == MAP_FAILED) {
    return Status(NRT_RESOURCE, format("mapping the {} that {} ranks share: {}",
                                       format_bytes(layout.total), ranks, std::strerror(errno)));
  }
  ::madvise(base, layout.total, MADV_DONTDUMP);
  ::madvise(base, layout.total, MADV_DONTFORK);
  return std::unique_ptr<Area>(new Area(static_cast<std::byte*>(base), ranks));
}

Area::~Area() {
  // In a forked child there is no mapping (MADV_DONTFORK); engines know that and don't come here.
  ::munmap(base_, layout_.total);
}

void Area::ring(int rank) const {
  uint32_t& doorbell = state(rank).doorbell;
  std::atomic_ref(doorbell).fetch_add(1);
  ::syscall(SYS_futex, &doorbell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Area::set_wait(int rank, const WaitRecord& record) const {
  static_assert(sizeof(WaitRecord) <= sizeof(RankState::wait_words));
  RankState& target = state(rank);
  std::array<uint32_t, std::size(RankState{}.wait_words)> words{};
  std::memcpy(words.data(), &record, sizeof(record));
  const std::atomic_ref version(target.wait_version);
  const uint32_t before = version.load(std::memory_order_relaxed);
  version.store(before + 1);
  for (size_t i = 0; i < words.size(); ++i) {
    std::atomic_ref(target.wait_words[i]).store(words[i]);
  }
  version.store(before + 2);
}

std::optional<WaitRecord> Area::wait_of(int rank) const {
  RankState& source = state(rank);
  std::array<uint32_t, std::size(RankState{}.wait_words)> words{};
  const std::atomic_ref version(source.wait_version);
  const uint32_t before = version.load();
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = std::atomic_ref(source.wait_words[i]).load();
  }
  if (before % 2 != 0 || version.load() != before) {
    return std::nullopt;
  }
  WaitRecord record;
  std::memcpy(static_cast<void*>(&record), words.data(), sizeof(record));
  if (record.kind == 0) {
    return std::nullopt;
  }
  return record;
}

}  // namespace onrt::cc
