// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/testing/fake_machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "runtime/base/format.h"

namespace onrt::testing {
namespace {

constexpr uint64_t kPage = 4096;

Status broken(std::string_view text) { return Status(NRT_FAILURE, format("fake: {}", text)); }

}  // namespace

NeffPackage fake_package(FakeProgram program, int64_t elements,
                         const std::vector<float>& constants) {
  NeffPackage package;
  package.name = "fake";
  package.architecture = "trn2";
  package.lnc_size = 2;
  package.compiler_version = "test";
  const uint64_t bytes = static_cast<uint64_t>(elements) * 4;
  for (uint32_t i = 0; i < program.inputs + program.outputs; ++i) {
    const bool output = i >= program.inputs;
    NeffTensor tensor;
    tensor.name = output ? format("output{}", i - program.inputs) : format("input{}", i);
    tensor.usage = output ? TensorUsage::kOutput : TensorUsage::kInput;
    tensor.dims = {elements};
    tensor.size_bytes = bytes;
    package.tensors.push_back(tensor);
  }
  NeffSubgraph graph;
  graph.name = "sg00";
  graph.code_bytes = 64;
  graph.constants_offset = 64;
  graph.scratch_bytes = program.scratch_bytes;
  graph.program.resize(64 + constants.size() * 4);
  std::memcpy(graph.program.data(), &program, sizeof program);
  if (!constants.empty()) {
    std::memcpy(graph.program.data() + 64, constants.data(), constants.size() * 4);
  }
  package.subgraphs.push_back(graph);
  return package;
}

// ---- FakeBoard ----------------------------------------------------------------------------------

FakeBoard::FakeBoard(int devices, int cores_per_device, int stacks_per_device,
                     uint64_t stack_bytes) {
  info.instance_type = "trn2.3xlarge";
  info.emulated = true;
  info.architecture = Architecture::kV3;
  info.device_count = devices;
  info.physical_cores_per_device = cores_per_device * 2;
  info.default_logical_core_size = 2;
  info.max_logical_core_size = 2;
  info.hbm_per_device = stacks_per_device;
  info.hbm_bytes = stack_bytes;
  for (int i = 0; i < devices * stacks_per_device; ++i) {
    void* memory = ::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    stacks.push_back({static_cast<std::byte*>(memory),
                      OffsetAllocator::create(stack_bytes, kPage).value(),
                      {},
                      {}});
    if (i < stacks_per_device) {
      info.hbm_base.push_back(kHbmBase + static_cast<uint64_t>(i) * kStackSpan);
    }
  }
  for (int i = 0; i < devices; ++i) {
    DeviceInfo device;
    device.index = i;
    info.devices.push_back(device);
  }
}

FakeBoard::~FakeBoard() {
  for (const Stack& stack : stacks) {
    ::munmap(stack.memory, info.hbm_bytes);
  }
}

// ---- cores --------------------------------------------------------------------------------------

FakeMachine::FakeMachine(std::shared_ptr<FakeBoard> board, int pid, int logical_core_size)
    : board_(std::move(board)), pid_(pid), info_(board_->info) {
  info_.logical_core_size =
      logical_core_size == 0 ? info_.default_logical_core_size : logical_core_size;
}

FakeMachine::~FakeMachine() {
  const std::lock_guard lock(board_->mutex);
  std::erase_if(board_->core_owner, [&](const auto& entry) { return entry.second == pid_; });
}

Result<CoreRange> FakeMachine::claim_cores(const CoreRequest& request) {
  const std::lock_guard lock(board_->mutex);
  const int total = info_.logical_cores();
  const int first = std::max(0, request.start);
  const int last = request.start < 0 ? total - request.count : request.start;
  for (int start = first; start <= last; ++start) {
    bool free = true;
    for (int core = start; core < start + request.count; ++core) {
      free = free && core < total && !board_->core_owner.contains(core);
    }
    if (free) {
      for (int core = start; core < start + request.count; ++core) {
        board_->core_owner[core] = pid_;
      }
      return CoreRange{start, request.count};
    }
  }
  return Status(NRT_RESOURCE, "cores are taken");
}

Status FakeMachine::release_cores(const CoreRange& range) {
  const std::lock_guard lock(board_->mutex);
  for (int core = range.start; core < range.start + range.count; ++core) {
    if (board_->core_owner.erase(core) == 0) {
      return broken(format("core {} is not claimed", core));
    }
  }
  return ok_status();
}

Result<std::vector<CoreOwner>> FakeMachine::core_owners() {
  const std::lock_guard lock(board_->mutex);
  std::vector<CoreOwner> owners;
  for (const auto& [core, pid] : board_->core_owner) {
    owners.push_back({core, pid, "train.py"});
  }
  return owners;
}

Status FakeMachine::reset_core(int core) {
  const std::lock_guard lock(board_->mutex);
  ++board_->resets[core];
  return ok_status();
}

Result<HbmId> FakeMachine::hbm_of_core(int core) {
  const int per_device = info_.logical_cores_per_device();
  const int index = core % per_device;
  return HbmId{core / per_device, index * info_.hbm_per_device / per_device};
}

// ---- memory -------------------------------------------------------------------------------------

Result<FakeBoard::Stack*> FakeMachine::stack(const HbmId& hbm) {
  if (hbm.device < 0 || hbm.device >= info_.device_count || hbm.stack < 0 ||
      hbm.stack >= info_.hbm_per_device) {
    return broken(format("no HBM {} on device {}", hbm.stack, hbm.device));
  }
  return &board_->stacks[static_cast<size_t>(hbm.device * info_.hbm_per_device + hbm.stack)];
}

// Device address spaces don't overlap here: device d's stacks start at d times all stacks.
static DeviceAddress base_of(const MachineInfo& info, const HbmId& hbm) {
  return info.hbm_base[static_cast<size_t>(hbm.stack)] +
         static_cast<uint64_t>(hbm.device * info.hbm_per_device) * FakeBoard::kStackSpan;
}

Result<HbmExtent> FakeMachine::allocate_extent(HbmId hbm, uint64_t size, uint64_t alignment) {
  const std::lock_guard lock(board_->mutex);
  ONRT_ASSIGN_OR_RETURN(FakeBoard::Stack* const found, stack(hbm));
  const auto block = found->space.allocate(size, alignment);
  if (!block) {
    return Status(NRT_RESOURCE, format("{} bytes asked, {} free", size, found->space.free_bytes()));
  }
  const DeviceAddress address = base_of(info_, hbm) + block->offset;
  found->extents[address] = *block;
  return HbmExtent{hbm, address, block->size};
}

Status FakeMachine::free_extent(const HbmExtent& extent) {
  const std::lock_guard lock(board_->mutex);
  ONRT_ASSIGN_OR_RETURN(FakeBoard::Stack* const found, stack(extent.hbm));
  const auto block = found->extents.find(extent.address);
  if (block == found->extents.end() || !found->space.free(block->second)) {
    return broken("extent is not owned");
  }
  const uint64_t first = block->second.offset / kPage;
  found->committed.erase(found->committed.lower_bound(first),
                         found->committed.lower_bound(first + block->second.size / kPage));
  ::madvise(found->memory + block->second.offset, block->second.size, MADV_DONTNEED);
  found->extents.erase(block);
  return ok_status();
}

Result<HbmUsage> FakeMachine::hbm_usage(HbmId hbm) {
  const std::lock_guard lock(board_->mutex);
  ONRT_ASSIGN_OR_RETURN(FakeBoard::Stack* const found, stack(hbm));
  return HbmUsage{found->space.size_bytes(), found->space.used_bytes(),
                  found->space.statistics().largest_free};
}

Status FakeMachine::commit(HbmId hbm, DeviceAddress address, uint64_t size) {
  const std::lock_guard lock(board_->mutex);
  ONRT_ASSIGN_OR_RETURN(FakeBoard::Stack* const found, stack(hbm));
  ++board_->commits;
  const uint64_t offset = address - base_of(info_, hbm);
  for (uint64_t page = offset / kPage; page <= (offset + size - 1) / kPage; ++page) {
    found->committed.insert(page);
  }
  return ok_status();
}

Result<std::byte*> FakeMachine::reach(DeviceAddress address, uint64_t size) {
  if (address < FakeBoard::kHbmBase) {
    const std::lock_guard lock(mutex_);
    auto mapping = host_.upper_bound(address);
    if (mapping != host_.begin()) {
      --mapping;
      const uint64_t offset = address - mapping->first;
      if (offset < mapping->second.second && size <= mapping->second.second - offset) {
        return mapping->second.first + offset;
      }
    }
    return broken(format("bus address {:#x} is not mapped", address));
  }
  const auto index = static_cast<size_t>((address - FakeBoard::kHbmBase) / FakeBoard::kStackSpan);
  const uint64_t offset = (address - FakeBoard::kHbmBase) % FakeBoard::kStackSpan;
  const std::lock_guard lock(board_->mutex);
  if (index >= board_->stacks.size() || offset + size > info_.hbm_bytes) {
    return broken(format("no memory at {:#x}", address));
  }
  FakeBoard::Stack& found = board_->stacks[index];
  const uint64_t first = offset / kPage;
  const uint64_t last = (offset + size - 1) / kPage;
  const auto begin = found.committed.lower_bound(first);
  if (static_cast<uint64_t>(std::distance(begin, found.committed.upper_bound(last))) !=
      last - first + 1) {
    return broken(format("{} bytes at {:#x} are touched before commit()", size, address));
  }
  return found.memory + offset;
}

Result<std::byte*> FakeMachine::map(HbmId, DeviceAddress address, uint64_t size) {
  return reach(address, size);
}

Result<int> FakeMachine::share(HbmId hbm, DeviceAddress address, uint64_t size, uint64_t* offset) {
  ONRT_RETURN_IF_ERROR(reach(address, size).status());
  const int fd = ::memfd_create("fake_hbm", MFD_CLOEXEC);
  *offset = address - base_of(info_, hbm);
  return fd;
}

Status FakeMachine::account(int core, MemoryCategory category, int64_t bytes) {
  const std::lock_guard lock(board_->mutex);
  board_->accounted[{core, category}] += bytes;
  return ok_status();
}

// ---- DMA ----------------------------------------------------------------------------------------

Result<DeviceAddress> FakeMachine::map_host(int, void* data, uint64_t size) {
  const std::lock_guard lock(mutex_);
  const DeviceAddress bus = next_bus_;
  next_bus_ += (size / kPage + 2) * kPage;
  host_[bus] = {static_cast<std::byte*>(data), size};
  return bus;
}

Status FakeMachine::unmap_host(int, DeviceAddress address) {
  const std::lock_guard lock(mutex_);
  return host_.erase(address) == 1 ? ok_status() : broken("address is not mapped");
}

Result<DmaQueueId> FakeMachine::create_dma_queue(int device, int) {
  const std::lock_guard lock(mutex_);
  const auto number = static_cast<int>(queues_.size());
  queues_[number] = NRT_SUCCESS;
  return DmaQueueId{device, 0, number};
}

Status FakeMachine::destroy_dma_queue(const DmaQueueId& queue) {
  const std::lock_guard lock(mutex_);
  return queues_.contains(queue.queue) ? ok_status() : broken("no such queue");
}

Status FakeMachine::dma_submit(const DmaQueueId& queue, std::span<const DmaDescriptor> ring) {
  bool fails = false;
  {
    const std::lock_guard lock(board_->mutex);
    fails = board_->fail_dma_in != 0 && --board_->fail_dma_in == 0;
    board_->counters.dma_descriptors += ring.size();
  }
  for (const DmaDescriptor& item : ring) {
    if (item.size == 0 || item.size > kMaxDescriptorBytes) {
      return broken(format("descriptor of {} bytes", item.size));
    }
    ONRT_ASSIGN_OR_RETURN(std::byte* const to, reach(item.destination, item.size));
    if ((item.flags & kDmaFlagFill) != 0) {
      std::memset(to, static_cast<int>(item.source & 0xFF), item.size);
    } else {
      ONRT_ASSIGN_OR_RETURN(std::byte* const from, reach(item.source, item.size));
      std::memcpy(to, from, item.size);
    }
  }
  const std::lock_guard lock(mutex_);
  queues_[queue.queue] = fails ? NRT_EXEC_HW_ERR_DMA_ABORT : NRT_SUCCESS;
  return ok_status();
}

Status FakeMachine::dma_wait(const DmaQueueId& queue, std::chrono::steady_clock::time_point) {
  const std::lock_guard lock(mutex_);
  const NRT_STATUS status = std::exchange(queues_[queue.queue], NRT_SUCCESS);
  return status == NRT_SUCCESS ? ok_status() : Status(status, "descriptor 0 failed");
}

// ---- notifications ------------------------------------------------------------------------------

Status FakeMachine::create_notification_queue(int core, NotificationType, int) {
  const std::lock_guard lock(mutex_);
  notifications_[core] = std::make_unique<Queue>();
  return ok_status();
}

Result<bool> FakeMachine::poll_notification(int core, NotificationType, Notification* out) {
  Queue& queue = *notifications_.at(core);
  const std::lock_guard lock(queue.mutex);
  if (queue.notes.empty()) {
    return false;
  }
  *out = queue.notes.front();
  queue.notes.pop_front();
  return true;
}

Status FakeMachine::wait_notification(int core, NotificationType,
                                      std::chrono::steady_clock::time_point deadline,
                                      Notification* out) {
  Queue& queue = *notifications_.at(core);
  std::unique_lock lock(queue.mutex);
  if (!queue.filled.wait_until(lock, deadline, [&] { return !queue.notes.empty(); })) {
    return Status(NRT_TIMEOUT, "no notification");
  }
  *out = queue.notes.front();
  queue.notes.pop_front();
  return ok_status();
}

// ---- programs -----------------------------------------------------------------------------------

Result<ProgramInfo> FakeMachine::program_load(int, const ProgramImage& image) {
  {
    const std::lock_guard lock(board_->mutex);
    if (board_->fail_load_in != 0 && --board_->fail_load_in == 0) {
      return Status(NRT_RESOURCE, "no room for the program");
    }
  }
  Program program;
  ONRT_ASSIGN_OR_RETURN(std::byte* const code, reach(image.code, image.code_size));
  std::memcpy(&program.code, code, sizeof program.code);
  if (program.code.magic != FakeProgram{}.magic) {
    return Status(NRT_INVALID, "offset 0: not a fake program");
  }
  if (image.constants_size != 0) {
    ONRT_ASSIGN_OR_RETURN(std::byte* const data, reach(image.constants, image.constants_size));
    program.constants.resize(image.constants_size / 4);
    std::memcpy(program.constants.data(), data, program.constants.size() * 4);
  }
  const std::lock_guard lock(mutex_);
  ProgramInfo out;
  out.id = next_program_++;
  out.io_slots = program.code.inputs + program.code.outputs;
  out.scratch_bytes = program.code.scratch_bytes;
  programs_[out.id] = program;
  return out;
}

Status FakeMachine::program_unload(int, ProgramId program) {
  {
    const std::lock_guard lock(board_->mutex);
    if (board_->fail_unload_in != 0 && --board_->fail_unload_in == 0) {
      return Status(NRT_HW_ERROR, "the program did not stop");
    }
  }
  const std::lock_guard lock(mutex_);
  return programs_.erase(program) == 1 ? ok_status() : broken("no such program");
}

Status FakeMachine::program_start(int core, ProgramId id, const ProgramStart& start) {
  Program program;
  {
    const std::lock_guard lock(mutex_);
    program = programs_.at(id);
  }
  if (program.code.op == FakeOp::kSilent) {
    return ok_status();
  }
  ONRT_ASSIGN_OR_RETURN(const int32_t status, run(program, start));
  Notification note;
  note.status = status;
  note.program = id;
  note.sequence = start.sequence;
  note.device_start_ns = 1000;
  note.device_end_ns = 3000;
  Queue& queue = *notifications_.at(core);
  {
    const std::lock_guard lock(queue.mutex);
    queue.notes.push_back(note);
  }
  queue.filled.notify_one();
  return ok_status();
}

Result<int32_t> FakeMachine::run(const Program& program, const ProgramStart& start) {
  switch (program.code.op) {
    case FakeOp::kStatus:
      return program.code.value;
    case FakeOp::kHang:
      std::this_thread::sleep_until(start.deadline);
      return NRT_TIMEOUT;
    case FakeOp::kInc:
      ONRT_RETURN_IF_ERROR(increment(program, start));
      return 0;
    case FakeOp::kNan:
      ONRT_RETURN_IF_ERROR(fill_nan(program, start));
      return 0;
    case FakeOp::kHook: {
      std::function<void()> hook;
      {
        const std::lock_guard lock(board_->mutex);
        hook = board_->hook;
      }
      if (hook) {
        hook();
      }
      break;
    }
    case FakeOp::kScratch: {
      ONRT_ASSIGN_OR_RETURN(std::byte* const scratch,
                            reach(start.scratch, program.code.scratch_bytes));
      std::memset(scratch, 0xEE, program.code.scratch_bytes);
      break;
    }
    default:
      break;
  }
  ONRT_RETURN_IF_ERROR(add(program, start));
  return 0;
}

Status FakeMachine::add(const Program& program, const ProgramStart& start) {
  const size_t elements = start.io_bytes[0] / 4;
  std::vector<float> sum(elements, program.constants.empty() ? 0.0F : program.constants[0]);
  std::vector<float> input(elements);
  for (size_t i = 0; i < program.code.inputs; ++i) {
    ONRT_ASSIGN_OR_RETURN(std::byte* const from, reach(start.io[i], start.io_bytes[i]));
    std::memcpy(input.data(), from, start.io_bytes[i]);
    for (size_t k = 0; k < elements; ++k) {
      sum[k] += input[k];
    }
  }
  for (size_t i = program.code.inputs; i < start.io.size(); ++i) {
    ONRT_ASSIGN_OR_RETURN(std::byte* const to, reach(start.io[i], start.io_bytes[i]));
    std::memcpy(to, sum.data(), start.io_bytes[i]);
  }
  return ok_status();
}

Status FakeMachine::increment(const Program& program, const ProgramStart& start) {
  for (size_t i = 0; i < program.code.outputs; ++i) {
    const size_t slot = program.code.inputs + i;
    ONRT_ASSIGN_OR_RETURN(std::byte* const from, reach(start.io[i], start.io_bytes[i]));
    ONRT_ASSIGN_OR_RETURN(std::byte* const to, reach(start.io[slot], start.io_bytes[slot]));
    std::vector<float> values(start.io_bytes[i] / 4);
    std::memcpy(values.data(), from, start.io_bytes[i]);
    for (float& value : values) {
      value += static_cast<float>(program.code.value);
    }
    std::memcpy(to, values.data(), start.io_bytes[slot]);
  }
  return ok_status();
}

Status FakeMachine::fill_nan(const Program& program, const ProgramStart& start) {
  for (size_t slot = program.code.inputs; slot < start.io.size(); ++slot) {
    ONRT_ASSIGN_OR_RETURN(std::byte* const to, reach(start.io[slot], start.io_bytes[slot]));
    const std::vector<float> values(start.io_bytes[slot] / 4,
                                    std::numeric_limits<float>::quiet_NaN());
    std::memcpy(to, values.data(), values.size() * 4);
  }
  return ok_status();
}

size_t FakeMachine::programs() const {
  const std::lock_guard lock(mutex_);
  return programs_.size();
}

size_t FakeMachine::host_mappings() const {
  const std::lock_guard lock(mutex_);
  return host_.size();
}

}  // namespace onrt::testing
