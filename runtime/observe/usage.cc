// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/usage.h"

#include <algorithm>
#include <cmath>

namespace onrt::observe {
namespace {

constexpr std::array<double, 7> kPercents = {0, 1, 25, 50, 75, 99, 100};

// The first physical core of each logical one, of those that the process holds whole.
struct LogicalCore {
  int logical = 0;
  std::vector<int> physical;
};

std::vector<LogicalCore> logical_cores(const emu::ProcessSnapshot& process) {
  std::vector<LogicalCore> cores;
  for (const int physical : process.physical_cores) {
    const int logical = physical / process.logical_core_size;
    if (cores.empty() || cores.back().logical != logical) {
      cores.push_back({logical, {}});
    }
    cores.back().physical.push_back(physical);
  }
  return cores;
}

// The core in `before` while the same process held it, else null.
const emu::CoreSnapshot* core_before(const emu::MachineSnapshot* before,
                                     const emu::ProcessSnapshot& process, int physical) {
  if (before == nullptr || static_cast<size_t>(physical) >= before->cores.size()) {
    return nullptr;
  }
  const emu::CoreSnapshot& core = before->cores[static_cast<size_t>(physical)];
  const emu::ProcessSnapshot* same = find_process(*before, process);
  const bool held = same != nullptr && core.owner >= 0 &&
                    &before->processes[static_cast<size_t>(core.owner)] == same;
  return held ? &core : nullptr;
}

uint64_t grown(uint64_t now, uint64_t before) { return now - std::min(now, before); }

void add_differences(const LatencyHistogram& now, const LatencyHistogram* before,
                     std::vector<uint64_t>* sums) {
  for (size_t i = 0; i < kLatencyBuckets; ++i) {
    // 32 bits wrap; so does the difference.
    (*sums)[i] += static_cast<uint32_t>(now.buckets[i] - (before ? before->buckets[i] : 0U));
  }
}

std::optional<Percentiles> percentiles(const std::vector<uint64_t>& buckets) {
  uint64_t count = 0;
  for (const uint64_t bucket : buckets) {
    count += bucket;
  }
  if (count == 0) {
    return std::nullopt;
  }
  Percentiles values{};
  for (size_t p = 0; p < kPercents.size(); ++p) {
    // Nearest rank.
    const auto rank = std::max<uint64_t>(
        1, static_cast<uint64_t>(std::ceil(kPercents[p] / 100 * static_cast<double>(count))));
    uint64_t seen = 0;
    size_t bucket = 0;
    while (bucket + 1 < buckets.size() && seen + buckets[bucket] < rank) {
      seen += buckets[bucket++];
    }
    values[p] = static_cast<double>(latency_of_bucket(bucket)) * 1e-9;
  }
  return values;
}

}  // namespace

DeviceMemory& DeviceMemory::operator+=(const DeviceMemory& other) {
  constants += other.constants;
  model_code += other.model_code;
  scratchpad += other.scratchpad;
  runtime += other.runtime;
  tensors += other.tensors;
  return *this;
}

HostMemory& HostMemory::operator+=(const HostMemory& other) {
  application += other.application;
  constants += other.constants;
  dma_buffers += other.dma_buffers;
  tensors += other.tensors;
  return *this;
}

DeviceMemory device_memory(const emu::CoreSnapshot& core) {
  DeviceMemory memory;
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    const uint64_t bytes = core.bytes[i];
    switch (static_cast<MemoryCategory>(i)) {
      case MemoryCategory::kConstants:
        memory.constants += bytes;
        break;
      case MemoryCategory::kModelCode:
        memory.model_code += bytes;
        break;
      case MemoryCategory::kTensors:
        memory.tensors += bytes;
        break;
      case MemoryCategory::kScratchpad:
      case MemoryCategory::kSharedScratchpad:
        memory.scratchpad += bytes;
        break;
      default:
        memory.runtime += bytes;
    }
  }
  return memory;
}

HostMemory host_memory(const emu::ProcessSnapshot& process, uint64_t resident_bytes) {
  const auto of = [&](HostCategory category) {
    return process.host_bytes[static_cast<size_t>(category)];
  };
  HostMemory memory;
  memory.tensors = of(HostCategory::kTensors);
  memory.constants = of(HostCategory::kConstants);
  memory.dma_buffers = of(HostCategory::kDmaBuffers);
  memory.application = grown(resident_bytes, memory.total());
  return memory;
}

const emu::ProcessSnapshot* find_process(const emu::MachineSnapshot& snapshot,
                                         const emu::ProcessSnapshot& process) {
  for (const emu::ProcessSnapshot& candidate : snapshot.processes) {
    if (candidate.slot == process.slot && candidate.generation == process.generation) {
      return &candidate;
    }
  }
  return nullptr;
}

std::vector<CoreUse> core_use(const emu::MachineSnapshot* before, const emu::MachineSnapshot& now,
                              const emu::ProcessSnapshot& process) {
  std::vector<CoreUse> uses;
  const uint64_t elapsed = before == nullptr ? 0 : grown(now.read_at_ns, before->read_at_ns);
  const int per_device =
      std::max(1, now.info.physical_cores_per_device / process.logical_core_size);
  for (const LogicalCore& core : logical_cores(process)) {
    CoreUse use;
    use.core = core.logical;
    use.device = core.logical / per_device;
    use.index = core.logical % per_device;
    for (const int physical : core.physical) {
      const emu::CoreSnapshot* earlier = core_before(before, process, physical);
      const uint64_t busy = grown(now.cores[static_cast<size_t>(physical)].owner_busy_ns,
                                  earlier == nullptr ? 0 : earlier->owner_busy_ns);
      const double percent =
          elapsed == 0
              ? 0
              : std::min(100.0, 100.0 * static_cast<double>(busy) / static_cast<double>(elapsed));
      use.physical.push_back({physical, percent});
      use.percent += percent / static_cast<double>(core.physical.size());
    }
    const auto& first = now.cores[static_cast<size_t>(core.physical.front())];
    const emu::CoreSnapshot* earlier = core_before(before, process, core.physical.front());
    const uint64_t macs =
        grown(first.counter(CoreCounter::kMultiplyAccumulates),
              earlier == nullptr ? 0 : earlier->counter(CoreCounter::kMultiplyAccumulates));
    const double flops = 2e9 * static_cast<double>(macs) / static_cast<double>(elapsed);
    use.flops = elapsed == 0 ? 0 : std::min(flops, kMostFlops);
    uses.push_back(std::move(use));
  }
  return uses;
}

ExecutionUse execution_use(const emu::MachineSnapshot* before, const emu::MachineSnapshot& now,
                           const emu::ProcessSnapshot& process) {
  static constexpr std::array<CoreCounter, 6> kErrors = {
      CoreCounter::kErrorGeneric, CoreCounter::kErrorNumerical, CoreCounter::kErrorTransient,
      CoreCounter::kErrorModel,   CoreCounter::kErrorRuntime,   CoreCounter::kErrorHardware};
  static constexpr std::array<CoreCounter, 6> kOutcomes = {
      CoreCounter::kCompleted,
      CoreCounter::kCompletedWithError,
      CoreCounter::kCompletedWithNumericalError,
      CoreCounter::kTimedOut,
      CoreCounter::kIncorrectInput,
      CoreCounter::kFailedToQueue};
  ExecutionUse use;
  std::vector<uint64_t> total(kLatencyBuckets);
  std::vector<uint64_t> device(kLatencyBuckets);
  for (const LogicalCore& core : logical_cores(process)) {
    const int physical = core.physical.front();
    const emu::CoreSnapshot& counted = now.cores[static_cast<size_t>(physical)];
    const emu::CoreSnapshot* earlier = core_before(before, process, physical);
    const auto difference = [&](CoreCounter counter) {
      return grown(counted.counter(counter), earlier == nullptr ? 0 : earlier->counter(counter));
    };
    for (size_t i = 0; i < kErrors.size(); ++i) {
      use.errors[i] += difference(kErrors[i]);
      use.outcomes[i] += difference(kOutcomes[i]);
    }
    add_differences(counted.total_latency, earlier ? &earlier->total_latency : nullptr, &total);
    add_differences(counted.device_latency, earlier ? &earlier->device_latency : nullptr, &device);
  }
  use.total_latency = percentiles(total);
  use.device_latency = percentiles(device);
  return use;
}

std::vector<ModelUse> models_of(const emu::MachineSnapshot& snapshot,
                                const emu::ProcessSnapshot& process) {
  std::vector<ModelUse> models;
  const int per_device =
      std::max(1, snapshot.info.physical_cores_per_device / process.logical_core_size);
  for (const emu::ModelSnapshot& model : process.models) {
    const auto physical = static_cast<int64_t>(model.core) * process.logical_core_size;
    if (model.core < 0 || static_cast<size_t>(physical) >= snapshot.cores.size()) {
      continue;
    }
    const emu::CoreSnapshot& core = snapshot.cores[static_cast<size_t>(physical)];
    models.push_back({&model, model.core / per_device, model.core % per_device,
                      core.owner >= 0 && core.running_model == model.model &&
                          &snapshot.processes[static_cast<size_t>(core.owner)] == &process});
  }
  return models;
}

std::string core_version(const MachineInfo& info) {
  return info.neuroncore_version + (info.logical_core_size > 1 ? "d" : "");
}

}  // namespace onrt::observe
