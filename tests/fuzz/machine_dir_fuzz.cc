// SPDX-License-Identifier: Apache-2.0
// Hostile bytes in the control file of an emulated machine: readers and members must come back with
// a value or one sentence, never crash, hang or reach outside the file.
//
// An input is a list of patches to the control file of a machine whose last owner died with cores
// and memory: {region, offset (2 bytes), length, bytes}. Region 255 cuts the file off.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>

#include "emulator/machine_snapshot.h"
#include "emulator/testing.h"
#include "runtime/base/unique_fd.h"

namespace onrt::emu {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint8_t kCut = 255;

struct Region {
  size_t offset;
  size_t size;
};

// The parts of the file that mean something for the small machine of this target.
constexpr Region kRegions[] = {
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

class Target {
 public:
  Target()
      : context_(machine_.context({"OPENNRT_EMU_HBM_BACKING=64MiB", "NEURON_RT_LOG_LEVEL=QUIET"})) {
    leave_a_dead_owner();
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

  void run(std::span<const uint8_t> input) {
    restore();
    patch(input);
    observe();
    join();
  }

 private:
  std::string control() const { return machine_.directory() + "/control"; }

  void leave_a_dead_owner() {
    const int status = testing::in_child([&] {
      const auto file = machine_.attach(context_);
      if (!file.ok() || !(*file)->claim(1, 3, 1).ok()) {
        return 1;
      }
      const auto a = (*file)->allocate(0, kMiB, 4096);
      const auto b = (*file)->allocate(1, 64 * kMiB, 4096);
      (*file)->list_model(1, 2, ProgramImage{.name = "model"});
      return a.ok() && b.ok() ? ::kill(::getpid(), SIGKILL) : 2;
    });
    if (status != 128 + SIGKILL) {
      std::abort();
    }
  }

  void restore() const {
    const UniqueFd fd(::open(control().c_str(), O_RDWR));
    if (::ftruncate(fd.get(), 0) != 0 || ::ftruncate(fd.get(), sizeof(ControlFile)) != 0) {
      std::abort();
    }
    for (const Piece& piece : pieces_) {
      write(fd.get(), piece.offset, piece.bytes.data(), piece.bytes.size());
    }
  }

  static void write(int fd, size_t offset, const void* bytes, size_t size) {
    if (::pwrite(fd, bytes, size, static_cast<off_t>(offset)) != static_cast<ssize_t>(size)) {
      std::abort();
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

  void observe() const {
    const auto snapshot = read_machine(machine_.directory());
    if (!snapshot.ok() && snapshot.status().message().empty()) {
      std::abort();
    }
    if (snapshot.ok()) {
      for (const ProcessSnapshot& process : snapshot->processes) {
        static_cast<void>(process.logical_cores());
      }
    }
  }

  void join() const {
    const auto file = machine_.attach(context_);
    if (!file.ok()) {
      if (file.status().message().empty()) {
        std::abort();
      }
      return;
    }
    MachineFile& member = **file;
    static_cast<void>(member.owners());
    const auto claimed = member.claim(-1, 2, 2);
    for (int stack = 0; stack < 2; ++stack) {
      static_cast<void>(member.usage(stack));
      const auto extent = member.allocate(stack, 3 * 4096, 4096);
      if (extent.ok() && member.commit(**extent, (*extent)->offset(), 4096).ok()) {
        (*extent)->data()[0] = std::byte{1};
        static_cast<void>(member.free(*extent));
      }
    }
    member.list_model(3, 0, ProgramImage{.name = "x"});
    member.unlist_model(3);
    if (claimed.ok()) {
      static_cast<void>(member.reset(*claimed));
      static_cast<void>(member.release(*claimed, 2));
    }
  }

  testing::TestMachine machine_;
  Context context_;
  std::vector<Piece> pieces_;
};

}  // namespace
}  // namespace onrt::emu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static onrt::emu::Target target;
  target.run({data, size});
  return 0;
}
