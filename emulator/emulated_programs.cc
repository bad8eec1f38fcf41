// SPDX-License-Identifier: Apache-2.0
// Programs of an emulated core: the part of EmulatedMachine that uses the engine.
#include <algorithm>
#include <thread>

#include "emulator/clock.h"
#include "emulator/cost.h"
#include "emulator/emulated_machine.h"
#include "emulator/exec/engine.h"
#include "emulator/exec/thread_pool.h"
#include "runtime/base/format.h"

namespace onrt::emu {

struct EmulatedMachine::LoadedProgram {
  int core = 0;
  int device = 0;
  std::unique_ptr<EngineProgram> engine;
  DeviceAddress constants = 0;
  uint64_t constants_size = 0;
};

// Host pointers of one execution, and the extents that keep them mapped.
struct EmulatedMachine::Binding {
  std::vector<std::byte*> io;
  std::byte* scratch = nullptr;
  const std::byte* constants = nullptr;
  std::vector<std::shared_ptr<Extent>> pinned;
};

namespace {

// One pool per process, shared by all sessions; gone when the last of them closes.
Result<std::shared_ptr<ThreadPool>> shared_pool(const Context& context) {
  static Mutex mutex;
  static std::weak_ptr<ThreadPool> shared;
  const MutexLock lock(mutex);
  if (auto pool = shared.lock()) {
    return pool;
  }
  const char* world = std::getenv("LOCAL_WORLD_SIZE");  // NOLINT(concurrency-mt-unsafe): read only
  ONRT_ASSIGN_OR_RETURN(const int threads,
                        choose_thread_count(context.settings.text(Setting::kEmuThreads),
                                            world == nullptr ? "" : world));
  auto pool = std::make_shared<ThreadPool>(threads);
  if (pool->threads() < threads) {
    ONRT_LOG(context.log, Tdrv, Warning,
             "the emulated engines have {} of {} threads: the system refuses more (ulimit -u, "
             "ulimit -v)",
             pool->threads(), threads);
  }
  shared = pool;
  return pool;
}

// Marks the physical cores of a logical one as busy for readers, from construction to end(). The
// caller holds the core, so plain stores do; what a reader needs is one word.
class BusyMark {
 public:
  BusyMark(MachineFile& file, int first, int count)
      : file_(file), first_(first), count_(count), begin_(monotonic_ns()) {
    for (int core = first_; core < first_ + count_; ++core) {
      CoreRecord& record = file_.core(core);
      const uint64_t sum = busy_sum(load(record.busy), load(record.busy_since_ns));
      store(record.busy_since_ns, begin_);
      publish(record.busy, busy_open(sum, begin_));
    }
  }
  // How long the cores were busy.
  uint64_t end() {
    const uint64_t now = monotonic_ns();
    for (int core = first_; core < first_ + count_; ++core) {
      CoreRecord& record = file_.core(core);
      publish(record.busy, busy_sum(load(record.busy), now));
    }
    return now - begin_;
  }
  uint64_t begin() const { return begin_; }

 private:
  MachineFile& file_;
  const int first_;
  const int count_;
  const uint64_t begin_;
};

}  // namespace

Result<ProgramInfo> EmulatedMachine::program_load(int core, const ProgramImage& image) {
  ONRT_RETURN_IF_ERROR(check_claimed(core));
  ONRT_RETURN_IF_ERROR(check_hbm(image.hbm));
  const int device = core / info_.logical_cores_per_device();
  if (image.hbm.device != device) {
    return Status(NRT_INVALID, format("program for core {} of ND {} lies in HBM of ND {}", core,
                                      device, image.hbm.device));
  }
  ExtentCache code_extent;
  ExtentCache constants_extent;
  ONRT_ASSIGN_OR_RETURN(const std::byte* code,
                        resolve_hbm(image.hbm, image.code, image.code_size, &code_extent));
  ONRT_ASSIGN_OR_RETURN(
      const std::byte* constants,
      resolve_hbm(image.hbm, image.constants, image.constants_size, &constants_extent));
  // A copy: the bytes in HBM could change while they are being verified.
  const std::vector<std::byte> private_code(code, code + image.code_size);
  auto program = std::make_shared<LoadedProgram>();
  program->core = core;
  program->device = device;
  program->constants = image.constants;
  program->constants_size = image.constants_size;
  ONRT_ASSIGN_OR_RETURN(const SimdLevel simd,
                        choose_simd_level(context_.settings.text(Setting::kEmuSimd)));
  ONRT_ASSIGN_OR_RETURN(program->engine,
                        EngineProgram::load(private_code, {constants, image.constants_size}, simd));
  const ncx::Program& decoded = program->engine->program();
  if (decoded.core_version != static_cast<uint32_t>(info_.architecture)) {
    return Status(NRT_INVALID,
                  format("the program is for NeuronCore v{}, core {} is a v{}",
                         decoded.core_version, core, static_cast<int>(info_.architecture)));
  }
  ProgramInfo info;
  info.io_slots = static_cast<uint32_t>(decoded.io.size());
  info.scratch_bytes = decoded.scratch_bytes;
  info.device_ns = program->engine->timeline().device_ns;
  info.multiply_accumulates =
      static_cast<uint64_t>(cost_of(decoded, program->engine->timeline()).flops / 2);
  const MutexLock lock(mutex_);
  if (pool_ == nullptr) {
    ONRT_ASSIGN_OR_RETURN(pool_, shared_pool(context_));
  }
  info.id = file_->new_program_id();
  programs_[info.id] = std::move(program);
  file_->list_model(info.id, core, image);
  return info;
}

Status EmulatedMachine::program_unload(int core, ProgramId id) {
  ONRT_RETURN_IF_ERROR(check_core(core));
  ONRT_RETURN_IF_ERROR(find_program(core, id).status());
  file_->unlist_model(id);
  const MutexLock lock(mutex_);
  programs_.erase(id);
  return ok_status();
}

Result<std::shared_ptr<EmulatedMachine::LoadedProgram>> EmulatedMachine::find_program(
    int core, ProgramId id) {
  const MutexLock lock(mutex_);
  const auto found = programs_.find(id);
  if (found == programs_.end() || found->second->core != core) {
    return Status(NRT_INVALID_HANDLE, format("core {} has no program {}", core, id));
  }
  return found->second;
}

// Like AddressSpace::resolve(), for a range that must lie in HBM. Null for an empty range.
Result<std::byte*> EmulatedMachine::resolve_hbm(HbmId hbm, DeviceAddress address, uint64_t size,
                                                ExtentCache* cache) {
  if (size == 0) {
    return static_cast<std::byte*>(nullptr);
  }
  if (HostMap::is_host(address)) {
    return Status(NRT_INVALID, format("program part at {:#x} is not in HBM", address));
  }
  return space_.resolve(hbm.device, address, size, cache);
}

Result<EmulatedMachine::Binding> EmulatedMachine::bind(const LoadedProgram& program,
                                                       const ProgramStart& start) {
  const ncx::Program& decoded = program.engine->program();
  if (start.io.size() != decoded.io.size() || start.io_bytes.size() != decoded.io.size()) {
    return Status(NRT_EXEC_BAD_INPUT,
                  format("program has {} tensors, {} addresses and {} sizes "
                         "were given",
                         decoded.io.size(), start.io.size(), start.io_bytes.size()));
  }
  if (start.scratch_size < decoded.scratch_bytes) {
    return Status(NRT_EXEC_BAD_INPUT, format("program needs {} bytes of scratch, {} were given",
                                             decoded.scratch_bytes, start.scratch_size));
  }
  Binding binding;
  ExtentCache cache;
  const auto resolve = [&](DeviceAddress address, uint64_t size) -> Result<std::byte*> {
    if (size == 0) {
      return static_cast<std::byte*>(nullptr);
    }
    ONRT_ASSIGN_OR_RETURN(std::byte * data, space_.resolve(program.device, address, size, &cache));
    if (cache.extent != nullptr &&
        (binding.pinned.empty() || binding.pinned.back() != cache.extent)) {
      binding.pinned.push_back(cache.extent);
    }
    return data;
  };
  binding.io.reserve(decoded.io.size());
  for (size_t i = 0; i < decoded.io.size(); ++i) {
    if (start.io_bytes[i] < decoded.io[i].bytes) {
      return Status(NRT_EXEC_BAD_INPUT, format("tensor {} has {} bytes, the program needs {}", i,
                                               start.io_bytes[i], decoded.io[i].bytes));
    }
    auto data = resolve(start.io[i], decoded.io[i].bytes);
    if (!data.ok()) {
      return std::move(data).status().annotate(format("tensor {}", i));
    }
    binding.io.push_back(data.value());
  }
  ONRT_ASSIGN_OR_RETURN(binding.scratch, resolve(start.scratch, decoded.scratch_bytes));
  ONRT_ASSIGN_OR_RETURN(binding.constants, resolve(program.constants, program.constants_size));
  return binding;
}

Status EmulatedMachine::program_start(int core, ProgramId id, const ProgramStart& start) {
  ONRT_RETURN_IF_ERROR(check_claimed(core));
  ONRT_ASSIGN_OR_RETURN(const auto program, find_program(core, id));
  ONRT_ASSIGN_OR_RETURN(const auto queue, find_notifications(core, NotificationType::kNotify));
  ONRT_ASSIGN_OR_RETURN(const Binding binding, bind(*program, start));
  EngineBinding memory;
  memory.io = binding.io;
  memory.io_bytes = start.io_bytes;
  memory.constants = binding.constants;
  memory.scratch = binding.scratch;
  memory.scratch_bytes = start.scratch_size;
  EngineRun run;
  run.pool = pool_.get();
  run.sequence = start.sequence;
  run.deadline = start.deadline;
  // A core runs one program at a time.
  const MutexLock running(*running_[static_cast<size_t>(core)]);
  Notification notification = run_program(core, *program, memory, run);
  notification.program = id;
  notification.sequence = start.sequence;
  queue->post(notification);
  return ok_status();
}

Notification EmulatedMachine::run_program(int core, const LoadedProgram& program,
                                          const EngineBinding& binding, const EngineRun& run) {
  CoreRecord& record = file_->core(physical(core));
  BusyMark busy(*file_, physical(core), info_.logical_core_size);
  Result<uint64_t> result = program.engine->execute(binding, run);
  if (result.ok() && context_.settings.flag(Setting::kEmuPace)) {
    const uint64_t took = monotonic_ns() - busy.begin();
    std::this_thread::sleep_for(std::chrono::nanoseconds(*result - std::min(*result, took)));
  }
  Notification notification;
  notification.busy_ns = busy.end();
  notification.device_start_ns = load(record.device_clock_ns);
  notification.device_end_ns = notification.device_start_ns;
  if (!result.ok()) {
    store(record.programs_failed, load(record.programs_failed) + 1);
    notification.status = result.status().code();
    ONRT_LOG(context_.log, Tdrv, Error, "core {}: {}", core, result.status().message());
    return notification;
  }
  notification.device_end_ns += *result;
  store(record.device_clock_ns, notification.device_end_ns);
  store(record.programs_completed, load(record.programs_completed) + 1);
  return notification;
}

}  // namespace onrt::emu
