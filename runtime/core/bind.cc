// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/bind.h"

#include "runtime/base/format.h"
#include "runtime/core/tensor.h"

namespace onrt {
namespace {

std::string describe(const Model& model, size_t slot) {
  const bool output = slot >= model.input_count();
  return format("{}: {} '{}'", model.label(), output ? "output" : "input",
                model.tensors()[slot].name);
}

Status check_tensor(const Session& session, const Model& model, size_t slot, const Tensor& tensor) {
  Status usable = tensor.check_usable(session);
  if (!usable.ok()) {
    return std::move(usable).annotate(describe(model, slot));
  }
  if (tensor.size() != model.tensors()[slot].size_bytes) {
    return Status(NRT_EXEC_BAD_INPUT,
                  format("{}: {} has {} bytes, the model needs {}", describe(model, slot),
                         tensor.label(), tensor.size(), model.tensors()[slot].size_bytes));
  }
  const TensorStorage& storage = tensor.storage();
  const HbmId& needed = model.core().pool.hbm();
  if (storage.is_device() && !(storage.hbm() == needed)) {
    return Status(NRT_INVALID,
                  format("{}: {} is on device {} HBM {}, the model runs from device {} HBM {}",
                         describe(model, slot), tensor.label(), storage.hbm().device,
                         storage.hbm().stack, needed.device, needed.stack));
  }
  return ok_status();
}

// A copy in HBM of a tensor in host memory.
Status stage(const Model& model, size_t slot, const Tensor& tensor, IoTable& io) {
  CoreContext& core = model.core();
  HbmRequest request;
  request.size = tensor.size();
  request.core = core.core;
  request.alignment = 4096;
  ONRT_ASSIGN_OR_RETURN(HbmMemory memory, HbmMemory::allocate(core.pool, request));
  ONRT_RETURN_IF_ERROR(memory.block().commit(0, tensor.size()));
  if (slot < model.input_count()) {
    ONRT_RETURN_IF_ERROR(
        core.device.dma.write(memory.block().address, tensor.host(), tensor.size()));
  }
  io.addresses[slot] = memory.block().address;
  io.staged.push_back({slot, tensor.host(), std::move(memory)});
  return ok_status();
}

Status bind_slot(const Session& session, const Model& model, size_t slot, IoTable& io) {
  if (io.tensors[slot] == nullptr) {  // nothing to read or write
    io.addresses[slot] = 0;
    io.bytes[slot] = 0;
    return ok_status();
  }
  const Tensor& tensor = *io.tensors[slot];
  ONRT_RETURN_IF_ERROR(check_tensor(session, model, slot, tensor));
  TensorStorage& storage = tensor.storage();
  storage.retain();
  storage.begin_use();
  io.in_use.push_back(&storage);
  io.bytes[slot] = tensor.size();
  if (!storage.is_device()) {
    return stage(model, slot, tensor, io);
  }
  io.addresses[slot] = tensor.address();
  Status status = storage.block().commit(tensor.offset(), tensor.size());
  return status.ok() ? ok_status() : std::move(status).annotate(describe(model, slot));
}

Status bind_alias(const Model& model, size_t output, IoTable& io) {
  const auto input = static_cast<size_t>(model.tensors()[output].alias_of);
  const DeviceAddress from = io.addresses[input];
  const DeviceAddress to = io.addresses[output];
  if (from == to) {
    return ok_status();
  }
  const uint64_t bytes = io.bytes[output];
  if ((from < to ? to - from : from - to) < bytes) {
    return Status(NRT_INVALID, format("{} and its alias, input '{}', overlap in part",
                                      describe(model, output), model.tensors()[input].name));
  }
  ONRT_RETURN_IF_ERROR(model.core().device.dma.copy(from, to, bytes));
  io.addresses[input] = to;
  return ok_status();
}

}  // namespace

Status bind_tensors(Session& session, const Model& model, TensorSet& inputs, TensorSet& outputs,
                    IoTable& io) {
  const size_t slots = model.tensors().size();
  io.prepare(slots);
  Status found = inputs.find_all(model.input_key(), model.input_names(), io.tensors.data());
  if (!found.ok()) {
    return std::move(found).annotate(model.label() + ": input set");
  }
  found = outputs.find_all(model.output_key(), model.output_names(),
                           io.tensors.data() + model.input_count());
  if (!found.ok()) {
    return std::move(found).annotate(model.label() + ": output set");
  }
  for (size_t slot = 0; slot < slots; ++slot) {
    ONRT_RETURN_IF_ERROR(bind_slot(session, model, slot, io));
    if (slot >= model.input_count() && io.tensors[slot] != nullptr) {
      io.outputs.emplace_back(io.tensors[slot]);
    }
  }
  if (model.has_aliases()) {
    for (size_t slot = model.input_count(); slot < slots; ++slot) {
      if (model.tensors()[slot].alias_of >= 0) {
        ONRT_RETURN_IF_ERROR(bind_alias(model, slot, io));
      }
    }
  }
  return ok_status();
}

Status collect_staged(const Model& model, IoTable& io) {
  for (const IoTable::Staged& staged : io.staged) {
    if (staged.slot >= model.input_count()) {
      ONRT_RETURN_IF_ERROR(model.core().device.dma.read(io.addresses[staged.slot], staged.host,
                                                        io.bytes[staged.slot]));
    }
  }
  return ok_status();
}

void IoTable::release() {
  staged.clear();
  for (TensorStorage* storage : in_use) {
    storage->end_use();
    storage->release();
  }
  in_use.clear();
}

}  // namespace onrt
