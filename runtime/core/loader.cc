// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/loader.h"

#include <algorithm>

#include "runtime/base/format.h"
#include "runtime/core/execution_counters.h"
#include "runtime/neff/neff.h"

namespace onrt {
namespace {

constexpr uint64_t kCodeAlignment = 4096;

// Names in NeffPackage::architecture.
struct ArchitectureName {
  Architecture architecture;
  std::string_view name;
};
constexpr ArchitectureName kArchitectures[] = {
    {Architecture::kV2, "trn1"}, {Architecture::kV3, "trn2"}, {Architecture::kV4, "trn3"}};

std::string_view name_of(Architecture architecture) {
  for (const ArchitectureName& row : kArchitectures) {
    if (row.architecture == architecture) {
      return row.name;
    }
  }
  return "unknown";
}

Status check_fit(const MachineInfo& info, const NeffPackage& package) {
  if (package.architecture != name_of(info.architecture)) {
    return Status(NRT_INVALID,
                  format("NEFF '{}' is compiled for {}, this machine ({}) is {}", package.name,
                         package.architecture, info.instance_type, name_of(info.architecture)));
  }
  if (package.lnc_size != static_cast<uint32_t>(info.logical_core_size)) {
    return Status(NRT_INVALID,
                  format("NEFF '{}' is compiled for logical NeuronCores of size {}, this runtime "
                         "uses size {} (NEURON_LOGICAL_NC_CONFIG)",
                         package.name, package.lnc_size, info.logical_core_size));
  }
  return ok_status();
}

Result<CoreContext*> choose_core(Session& session, const NeffPackage& package, int core) {
  const auto needed = static_cast<int>(package.subgraphs.size());
  if (needed < 1) {
    return Status(NRT_INVALID, format("NEFF '{}' holds no program", package.name));
  }
  if (core < -1 || core >= session.core_count()) {
    return session.core(core).status().annotate(format("NEFF '{}'", package.name));
  }
  if (needed > session.core_count() - std::max(core, 0)) {
    return Status(
        NRT_LOAD_NOT_ENOUGH_NC,
        format("NEFF '{}' needs {} NeuronCores, {} are available from index {}", package.name,
               needed, session.core_count() - std::max(core, 0), std::max(core, 0)));
  }
  if (needed > 1) {
    return Status(NRT_INVALID,
                  format("NEFF '{}' holds programs for {} cores; OpenNRT runs a model on one "
                         "logical core",
                         package.name, needed));
  }
  if (core >= 0) {
    return &session.core_at(core);
  }
  CoreContext* best = &session.core_at(0);
  for (int i = 1; i < session.core_count(); ++i) {
    if (session.core_at(i).models.load() < best->models.load()) {
      best = &session.core_at(i);
    }
  }
  return best;
}

Status check_tensors(const NeffPackage& package) {
  bool outputs = false;
  for (size_t i = 0; i < package.tensors.size(); ++i) {
    const NeffTensor& tensor = package.tensors[i];
    const bool output = tensor.usage == TensorUsage::kOutput;
    if (outputs && !output) {
      return Status(NRT_INVALID, format("NEFF '{}': input '{}' comes after an output", package.name,
                                        tensor.name));
    }
    outputs |= output;
    if (tensor.alias_of >= 0) {
      const auto input = static_cast<size_t>(tensor.alias_of);
      if (!output || input >= i || package.tensors[input].usage != TensorUsage::kInput ||
          package.tensors[input].size_bytes != tensor.size_bytes) {
        return Status(NRT_INVALID, format("NEFF '{}': output '{}' can't be an alias of slot {}",
                                          package.name, tensor.name, tensor.alias_of));
      }
    }
  }
  return ok_status();
}

Status check_subgraph(const NeffPackage& package) {
  const NeffSubgraph& graph = package.subgraphs[0];
  const uint64_t size = graph.program.size();
  if (graph.code_bytes == 0 || graph.code_bytes > size || graph.constants_offset > size ||
      graph.constants_offset < graph.code_bytes) {
    return Status(NRT_INVALID,
                  format("NEFF '{}': program of {} bytes with {} bytes of code and constants at {}",
                         package.name, size, graph.code_bytes, graph.constants_offset));
  }
  return ok_status();
}

// Copies code and constants to the core's HBM. What was placed goes with `model` on failure.
Status place(Session& session, const NeffPackage& package, Model& model) {
  const NeffSubgraph& graph = package.subgraphs[0];
  const std::span<const std::byte> program(graph.program);
  CoreContext& core = model.core();
  HbmRequest request;
  request.size = graph.code_bytes;
  request.alignment = kCodeAlignment;
  request.category = MemoryCategory::kModelCode;
  request.core = core.core;
  request.model = model.id();
  ONRT_ASSIGN_OR_RETURN(model.code, HbmMemory::allocate(core.pool, request));
  const HbmBlock& block = model.code.block();
  ONRT_RETURN_IF_ERROR(block.commit(0, graph.code_bytes));
  ONRT_RETURN_IF_ERROR(core.device.dma.write(block.address, program.data(), graph.code_bytes));
  ONRT_ASSIGN_OR_RETURN(
      model.constants, session.constants().place(program.subspan(graph.constants_offset), core.pool,
                                                 core.device.dma, request));
  return ok_status();
}

// Takes the program into its core.
Status enter_core(Session& session, const NeffPackage& package, Model& model, CoreContext& core)
    ONRT_REQUIRES(core.execution) {
  ProgramImage image;
  image.hbm = core.pool.hbm();
  image.code = model.code.block().address;
  image.code_size = package.subgraphs[0].code_bytes;
  if (model.constants) {
    image.constants = model.constants->memory.block().address;
    image.constants_size =
        package.subgraphs[0].program.size() - package.subgraphs[0].constants_offset;
  }
  image.name = model.name();
  image.model = model.id();
  image.uuid = package.uuid;
  image.code_bytes = model.code.block().size;
  // Constants that another model placed are accounted to that one.
  if (model.constants && model.constants->memory.block().model == model.id()) {
    image.constants_bytes = model.constants->memory.block().size;
  }
  ONRT_ASSIGN_OR_RETURN(model.program, session.machine().program_load(core.core, image));
  Status status;
  if (model.program.io_slots != model.tensors().size()) {
    status = Status(NRT_INVALID, format("its program has {} tensors, its header {}",
                                        model.program.io_slots, model.tensors().size()));
  } else {
    status = core.scratch.reserve(
        model.id(), std::max(model.program.scratch_bytes, package.subgraphs[0].scratch_bytes));
  }
  if (!status.ok()) {
    const Status undone = session.machine().program_unload(core.core, model.program.id);
    if (!undone.ok()) {
      ONRT_LOG(session.context().log, Tdrv, Error, "{}: program {} was not unloaded: {}",
               model.label(), model.program.id, undone.message());
    }
  }
  return status;
}

void log_memory(Session& session, const Model& model) {
  ONRT_LOG(session.context().log, Tdrv, Info,
           "[{}] Current Usage Total: {}; loaded {}: model code {}, constants {}",
           model.core().label,
           format_table_bytes(model.core().pool.usage_of_core(model.core().core).total()),
           model.label(), format_table_bytes(model.code.block().size),
           format_table_bytes(model.constants ? model.constants->memory.block().size : 0));
}

Status load_into(Session& session, const NeffPackage& package, Model& model) {
  ONRT_RETURN_IF_ERROR(place(session, package, model));
  CoreContext& core = model.core();
  MutexLock lock(core.execution);
  return enter_core(session, package, model, core);
}

}  // namespace

Result<Model*> load_package(Session& session, const NeffPackage& package, int core) {
  ONRT_RETURN_IF_ERROR(check_fit(session.info(), package));
  ONRT_ASSIGN_OR_RETURN(CoreContext* const chosen, choose_core(session, package, core));
  ONRT_RETURN_IF_ERROR(check_tensors(package));
  ONRT_RETURN_IF_ERROR(check_subgraph(package));
  auto& table = HandleTable<Model>::instance();
  Model* model = table.create(*chosen, session.new_model_id(), package);
  chosen->pool.name_model(model->id(), model->name());
  Status status = load_into(session, package, *model);
  if (!status.ok()) {
    status =
        std::move(status).annotate(format("load of NEFF '{}' on {}", package.name, chosen->label));
    const uint32_t id = model->id();
    table.destroy(model);
    chosen->pool.forget_model(id);
    count_failure(chosen->statistics, status.code());
    return status;
  }
  chosen->models.fetch_add(1);
  count_shared(chosen->statistics.counter(CoreCounter::kModelLoads), 1);
  session.add_model(model);
  log_memory(session, *model);
  return model;
}

Result<Model*> load_neff(Session& session, std::span<const std::byte> file, int core) {
  const bool check_hash = session.context().settings.flag(Setting::kValidateHash);
  ONRT_ASSIGN_OR_RETURN(
      const NeffPackage package,
      read_neff(file, check_hash ? NeffHashCheck::kRequire : NeffHashCheck::kSkip));
  return load_package(session, package, core);
}

Status unload_model(Session& session, Model* model, uint32_t remaining) {
  HandleHeader& header = HandleTable<Model>::header(model);
  if (!header.gate.shut()) {
    return Status(NRT_INVALID_HANDLE, "the model is being unloaded by another thread");
  }
  header.gate.drain(remaining);
  session.remove_model(model);
  CoreContext& core = model->core();
  Status status;
  {
    MutexLock lock(core.execution);
    status = session.machine().program_unload(core.core, model->program.id);
    core.scratch.release(model->id());
  }
  if (!status.ok()) {
    status = std::move(status).annotate("unload of " + model->label());
  }
  const uint32_t id = model->id();
  core.models.fetch_sub(1);
  HandleTable<Model>::instance().destroy(model);
  core.pool.forget_model(id);
  return status;
}

}  // namespace onrt
