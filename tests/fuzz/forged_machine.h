// SPDX-License-Identifier: Apache-2.0
// For fuzz targets: a machine of its own whose control file is patched by the input.
//
// An input is a list of patches: {region, offset (2 bytes), length, bytes}. Region 255 cuts the
// file off.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "emulator/machine_control.h"
#include "emulator/testing.h"
#include "runtime/base/unique_fd.h"

namespace onrt::emu::testing {

inline constexpr uint8_t kCut = 255;

struct Region {
  size_t offset;
  size_t size;
};

// The parts of the file that mean something for the small machine of this target.
inline constexpr Region kRegions[] = {
    {0, sizeof(ControlHeader)},
    {offsetof(ControlFile, journal), sizeof(JournalRecord)},
    {offsetof(ControlFile, profile), sizeof(ProfileRecord)},
    {offsetof(ControlFile, devices), 3 * sizeof(DeviceRecord)},
    {offsetof(ControlFile, counters), 2 * sizeof(DeviceCounterRecord)},
    {offsetof(ControlFile, stacks), 4 * sizeof(StackRecord)},
    {offsetof(ControlFile, processes), 1024},
    {offsetof(ControlFile, processes) + 1024, 2048},
    {offsetof(ControlFile, processes) + sizeof(ProcessRecord), 1024},
    {offsetof(ControlFile, cores), 8 * sizeof(CoreRecord)},
    {offsetof(ControlFile, sync), sizeof(SyncRecord)},
    {offsetof(ControlFile, extents), 8 * sizeof(ExtentRecord)},
    {offsetof(ControlFile, statistics), 2 * sizeof(CoreStatisticsRecord)},
    {offsetof(ControlFile, extents) + kMaxExtentsPerStack * sizeof(ExtentRecord),
     8 * sizeof(ExtentRecord)},
};

struct Piece {
  size_t offset;
  std::string bytes;
};

// What the machine holds when it is not patched is up to `inhabit`, which runs once.
class ForgedMachine {
 public:
  template <class Inhabit>
  explicit ForgedMachine(const Inhabit& inhabit)
      : machine_(),
        context_(machine_.context({"OPENNRT_EMU_HBM_BACKING=64MiB", "NEURON_RT_LOG_LEVEL=QUIET"})) {
    inhabit(machine_, context_);
    const UniqueFd fd(::open(control().c_str(), O_RDONLY));
    for (const Region& region : kRegions) {
      Piece piece{region.offset, std::string(region.size, '\0')};
      if (::pread(fd.get(), piece.bytes.data(), region.size, static_cast<off_t>(region.offset)) !=
          static_cast<ssize_t>(region.size)) {
        std::abort();
      }
      pieces_.push_back(std::move(piece));
    }
  }

  const TestMachine& machine() const { return machine_; }
  const Context& context() const { return context_; }

  // As it was before all patches.
  void restore() const {
    const UniqueFd fd(::open(control().c_str(), O_RDWR));
    if (::ftruncate(fd.get(), 0) != 0 || ::ftruncate(fd.get(), sizeof(ControlFile)) != 0) {
      std::abort();
    }
    for (const Piece& piece : pieces_) {
      write(fd.get(), piece.offset, piece.bytes.data(), piece.bytes.size());
    }
  }

  void patch(std::span<const uint8_t> input) const {
    const UniqueFd fd(::open(control().c_str(), O_RDWR));
    while (input.size() >= 4) {
      const uint8_t region = input[0];
      const size_t offset = static_cast<size_t>(input[1]) | static_cast<size_t>(input[2]) << 8;
      const size_t length = std::min<size_t>(input[3], input.size() - 4);
      if (region == kCut) {
        if (::ftruncate(fd.get(), static_cast<off_t>(offset << (input[3] % 12))) != 0) {
          std::abort();
        }
        input = input.subspan(4);
        continue;
      }
      const Region& where = kRegions[region % std::size(kRegions)];
      const size_t start = offset % where.size;
      write(fd.get(), where.offset + start, input.data() + 4, std::min(length, where.size - start));
      input = input.subspan(4 + length);
    }
  }

 private:
  std::string control() const { return machine_.directory() + "/control"; }
  static void write(int fd, size_t offset, const void* bytes, size_t size) {
    if (::pwrite(fd, bytes, size, static_cast<off_t>(offset)) != static_cast<ssize_t>(size)) {
      std::abort();
    }
  }

  TestMachine machine_;
  Context context_;
  std::vector<Piece> pieces_;
};

}  // namespace onrt::emu::testing
