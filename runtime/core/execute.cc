// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/execute.h"

#include <algorithm>

#include "runtime/base/format.h"
#include "runtime/core/bind.h"
#include "runtime/core/execution_counters.h"
#include "runtime/core/nan_check.h"
#include "runtime/core/tensor.h"

namespace onrt {
namespace {

using Clock = std::chrono::steady_clock;

// Polls before the thread goes to sleep in the driver: a short program is done within them.
constexpr int kPolls = 2000;
// The device ends a program at its deadline; one that has not by then is lost.
constexpr auto kGrace = std::chrono::seconds(1);
constexpr uint64_t kNanPieceBytes = 256 * 1024;

struct ReleaseTable {
  IoTable& io;
  ~ReleaseTable() { io.release(); }
};

std::string_view meaning(NRT_STATUS status) {
  switch (status) {
    case NRT_EXEC_UNIT_UNRECOVERABLE:
      return "the core failed and is lost until the runtime is initialised again";
    case NRT_EXEC_OOB:
      return "failed to run scatter/gather (indirect memory copy), due to out-of-bound access";
    case NRT_EXEC_HW_ERR_COLLECTIVES:
      return "stuck in a collective operation";
    case NRT_EXEC_HW_ERR_HBM_UE:
    case NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE:
      return "uncorrectable HBM error";
    case NRT_EXEC_HW_ERR_NC_UE:
      return "uncorrectable error in on-chip memory";
    case NRT_EXEC_HW_ERR_DMA_ABORT:
      return "a DMA engine stopped with an error";
    case NRT_EXEC_SW_NQ_OVERFLOW:
      return "a notification queue overflowed";
    default:
      return "the device reported a failure";
  }
}

Status timed_out(const Session& session, const Model& model) {
  return Status(NRT_TIMEOUT,
                format("{} did not finish within {} s (NEURON_RT_EXEC_TIMEOUT)", model.label(),
                       session.context().settings.integer(Setting::kExecTimeout)));
}

// The notification of the execution `sequence`; those of executions that were given up are skipped.
Status await(Machine& machine, int core, uint64_t sequence, Clock::time_point deadline,
             Notification* out) {
  for (int i = 0; i < kPolls; ++i) {
    const auto found = machine.poll_notification(core, NotificationType::kNotify, out);
    if (!found.ok()) {
      return found.status();
    }
    if (*found && out->sequence == sequence) {
      return ok_status();
    }
  }
  do {
    ONRT_RETURN_IF_ERROR(machine.wait_notification(core, NotificationType::kNotify, deadline, out));
  } while (out->sequence != sequence);
  return ok_status();
}

// For the one writer of a counter of this process.
void add_alone(std::atomic<uint64_t>& counter, uint64_t value) {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

void count_times(Model& model, CoreContext& core, const Notification& note, Clock::duration wall)
    ONRT_REQUIRES(core.execution) {
  const auto wall_ns =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count());
  const auto status = static_cast<NRT_STATUS>(note.status);
  count_execution(core.statistics,
                  {status, wall_ns, note.busy_ns, model.program.multiply_accumulates});
  if (status != NRT_SUCCESS && status != NRT_EXEC_COMPLETED_WITH_NUM_ERR) {
    return;
  }
  const uint64_t device_ns = note.device_end_ns - note.device_start_ns;
  add_alone(model.times.executions, 1);
  model.times.last_device_ns.store(device_ns, std::memory_order_relaxed);
  add_alone(model.times.total_device_ns, device_ns);
  model.times.last_wall_ns.store(wall_ns, std::memory_order_relaxed);
  add_alone(model.times.total_wall_ns, wall_ns);
}

// A failure that no notification reported.
Status count_failed(CoreContext& core, Status status) ONRT_REQUIRES(core.execution) {
  set_alone(core.statistics.running_model, 0);
  count_failed_execution(core.statistics, status.code());
  return status;
}

// One run of the program with the bound tensors. `core` is the model's.
Status run_program(Session& session, Model& model, CoreContext& core, const IoTable& io)
    ONRT_REQUIRES(core.execution) {
  const auto begin = Clock::now();
  const auto limit =
      std::chrono::seconds(session.context().settings.integer(Setting::kExecTimeout));
  ProgramStart start;
  start.io = io.addresses;
  start.io_bytes = io.bytes;
  start.scratch = core.scratch.address();
  start.scratch_size = core.scratch.size();
  start.sequence = ++core.sequence;
  start.deadline = begin + limit;
  Machine& machine = session.machine();
  set_alone(core.statistics.running_model, model.id());
  Status status = machine.program_start(core.core, model.program.id, start);
  if (!status.ok()) {
    return count_failed(core, std::move(status).annotate(model.label()));
  }
  Notification note;
  status = await(machine, core.core, start.sequence, start.deadline + kGrace, &note);
  if (status.code() == NRT_TIMEOUT) {
    core.lost.store(true);  // the program may still run and write
    return count_failed(core, timed_out(session, model));
  }
  if (!status.ok()) {
    return count_failed(core, std::move(status).annotate(model.label()));
  }
  const auto result = static_cast<NRT_STATUS>(note.status);
  count_times(model, core, note, Clock::now() - begin);
  if (result == NRT_SUCCESS) {
    return ok_status();
  }
  if (result == NRT_EXEC_UNIT_UNRECOVERABLE) {
    core.lost.store(true);
  }
  return result == NRT_TIMEOUT ? timed_out(session, model)
                               : Status(result, format("{}: {}", model.label(), meaning(result)));
}

bool nan_is_an_error(const Settings& settings) {
  return settings.flag(Setting::kFailOnNan) ||
         settings.text(Setting::kNumericalErrors) == "critical";
}

Status check_nans(const Model& model, const IoTable& io) {
  std::vector<std::byte> piece;
  for (size_t slot = model.input_count(); slot < model.tensors().size(); ++slot) {
    const NeffTensor& tensor = model.tensors()[slot];
    if (!is_floating(tensor.dtype)) {
      continue;
    }
    for (uint64_t at = 0; at < io.bytes[slot]; at += kNanPieceBytes) {
      piece.resize(std::min(kNanPieceBytes, io.bytes[slot] - at));
      ONRT_RETURN_IF_ERROR(
          model.core().device.dma.read(io.addresses[slot] + at, piece.data(), piece.size()));
      if (holds_nan(tensor.dtype, piece)) {
        return Status(NRT_EXEC_COMPLETED_WITH_NUM_ERR,
                      format("{}: output '{}' holds NaN", model.label(), tensor.name));
      }
    }
  }
  return ok_status();
}

bool outputs_are_valid(const Status& status) {
  return status.ok() || status.code() == NRT_EXEC_COMPLETED_WITH_NUM_ERR;
}

// What follows the last run: NaN check, host copies, completion counters.
Status finish(Session& session, const Model& model, CoreContext& core, IoTable& io, Status status)
    ONRT_REQUIRES(core.execution) {
  if (status.ok() && nan_is_an_error(session.context().settings)) {
    status = check_nans(model, io);
    if (status.code() == NRT_EXEC_COMPLETED_WITH_NUM_ERR) {
      correct_to_numerical_error(core.statistics);
    }
  }
  if (!outputs_are_valid(status)) {
    return status;
  }
  if (!io.staged.empty()) {
    Status collected = collect_staged(model, io);
    if (!collected.ok()) {
      return std::move(collected).annotate(model.label());
    }
  }
  for (const HandleRef<Tensor>& output : io.outputs) {
    if (Tensor* const tensor = output.get()) {
      tensor->complete_once();
    }
  }
  Parking::instance().wake();
  return status;
}

Status check_core(const Model& model) {
  return model.core().lost.load(std::memory_order_relaxed)
             ? Status(NRT_EXEC_UNIT_UNRECOVERABLE,
                      format("{}: the core was lost in an earlier execution; call nrt_close() and "
                             "nrt_init()",
                             model.label()))
             : ok_status();
}

Status bind_for_run(Session& session, Model& model, CoreContext& core, TensorSet& inputs,
                    TensorSet& outputs) ONRT_REQUIRES(core.execution) {
  Status status = bind_tensors(session, model, inputs, outputs, core.io);
  return status.ok() ? ok_status() : count_failed(core, std::move(status));
}

// An output that becomes an input of the next run.
struct Feed {
  size_t output = 0;
  size_t input = 0;
  HbmMemory memory;  // holds the value during the next run
};

// By position. Aliased pairs need no feed: the program works in place.
Result<std::vector<Feed>> plan_feeds(const Model& model) {
  std::vector<Feed> feeds;
  if (model.has_aliases()) {
    return feeds;
  }
  const auto& tensors = model.tensors();
  const size_t inputs = model.input_count();
  for (size_t slot = inputs; slot < tensors.size(); ++slot) {
    const NeffTensor& output = tensors[slot];
    const size_t input = slot - inputs;
    if (input >= inputs || tensors[input].dtype != output.dtype ||
        tensors[input].dims != output.dims || tensors[input].size_bytes != output.size_bytes) {
      return Status(NRT_INVALID,
                    format("{} can't be repeated: output '{}' is no alias of an input and input {} "
                           "has not its type and shape",
                           model.label(), output.name, input));
    }
    feeds.push_back({slot, input, {}});
  }
  return feeds;
}

Status feed_back(const Model& model, std::vector<Feed>& feeds, IoTable& io) {
  CoreContext& core = model.core();
  for (Feed& feed : feeds) {
    if (!feed.memory) {
      HbmRequest request;
      request.size = io.bytes[feed.output];
      request.core = core.core;
      ONRT_ASSIGN_OR_RETURN(feed.memory, HbmMemory::allocate(core.pool, request));
      ONRT_RETURN_IF_ERROR(feed.memory.block().commit(0, request.size));
      io.addresses[feed.input] = feed.memory.block().address;
    }
    ONRT_RETURN_IF_ERROR(core.device.dma.copy(io.addresses[feed.output],
                                              feed.memory.block().address, io.bytes[feed.output]));
  }
  return ok_status();
}

}  // namespace

Status execute_model(Session& session, Model& model, TensorSet& inputs, TensorSet& outputs) {
  CoreContext& core = model.core();
  MutexLock lock(core.execution);
  ONRT_RETURN_IF_ERROR(check_core(model));
  const ReleaseTable release{core.io};
  ONRT_RETURN_IF_ERROR(bind_for_run(session, model, core, inputs, outputs));
  return finish(session, model, core, core.io, run_program(session, model, core, core.io));
}

Status execute_model_repeatedly(Session& session, Model& model, TensorSet& inputs,
                                TensorSet& outputs, int count) {
  if (count < 1) {
    return Status(NRT_INVALID,
                  format("{}: repeat count {}; expected at least 1", model.label(), count));
  }
  std::vector<Feed> feeds;
  if (count > 1) {
    ONRT_ASSIGN_OR_RETURN(feeds, plan_feeds(model));
  }
  CoreContext& core = model.core();
  MutexLock lock(core.execution);
  ONRT_RETURN_IF_ERROR(check_core(model));
  const ReleaseTable release{core.io};
  ONRT_RETURN_IF_ERROR(bind_for_run(session, model, core, inputs, outputs));
  Status status = run_program(session, model, core, core.io);
  for (int run = 1; run < count && status.ok(); ++run) {
    Status fed = feed_back(model, feeds, core.io);
    if (!fed.ok()) {
      return std::move(fed).annotate(model.label());
    }
    status = run_program(session, model, core, core.io);
  }
  return finish(session, model, core, core.io, std::move(status));
}

}  // namespace onrt
