// SPDX-License-Identifier: Apache-2.0
// Steps that move data: with load and store, or by put and get.
#include <algorithm>

#include "collectives/exec/runner.h"

namespace onrt::cc {
namespace {

constexpr uint64_t kTileBytes = 64 * 1024;  // of each operand, where data moves by put and get

}  // namespace

Runner::Place Runner::place_of(const Operand& operand, uint64_t position, uint64_t count) const {
  const Base& memory = base(operand.rank, operand.buffer);
  uint64_t element = operand.offset + position;
  uint64_t run = count;
  if (operand.buffer == Buffer::kIn || operand.buffer == Buffer::kOut) {
    std::tie(element, run) = map(operand.rank, operand.buffer).find(element, count);
  }
  const uint64_t bytes = element * bytes_of(operand.buffer);
  Place place;
  place.run = run;
  place.ref = {memory.ref.file, memory.ref.offset + bytes};
  place.data = memory.data == nullptr ? nullptr : memory.data + bytes;
  return place;
}

// Cuts the step where one of its operands has a gap.
Status Runner::move(const Step& step) {
  const std::span<const Operand> operands =
      std::span(plan_->program.operands).subspan(step.first_operand, step.inputs + step.outputs);
  if (simple_) {
    return move_piece(step, operands, 0, step.count);
  }
  uint64_t position = 0;
  while (position < step.count) {
    uint64_t run = step.count - position;
    for (const Operand& operand : operands) {
      run = std::min(run, place_of(operand, position, run).run);
    }
    if (run == 0) {
      return Status(NRT_FAILURE, "internal error: a step reaches beyond the blocks of its buffer");
    }
    ONRT_RETURN_IF_ERROR(move_piece(step, operands, position, run));
    position += run;
  }
  return ok_status();
}

Status Runner::move_piece(const Step& step, std::span<const Operand> operands, uint64_t position,
                          uint64_t count) {
  if (!load_store_) {
    return move_remote(step, operands, position, count);
  }
  inputs_.clear();
  outputs_.clear();
  for (size_t i = 0; i < operands.size(); ++i) {
    std::byte* const data = place_of(operands[i], position, count).data;
    if (data == nullptr) {
      return Status(NRT_FAILURE, "internal error: a step uses memory that its rank has not given");
    }
    const bool partial = operands[i].buffer == Buffer::kPartial;
    if (i < step.inputs) {
      inputs_.push_back({data, partial});
    } else {
      outputs_.push_back({data, partial, stream_ && operands[i].buffer == Buffer::kOut});
    }
  }
  if (step.kind == StepKind::kReduce) {
    reduce({call_.dtype, call_.reduce_op, static_cast<uint32_t>(ranks_)}, inputs_, outputs_, count);
    return ok_status();
  }
  const uint64_t bytes = count * bytes_of(operands.front().buffer);
  for (const ReduceOutput& output : outputs_) {
    copy_bytes(output.data, inputs_.front().data, bytes, output.stream);
  }
  return ok_status();
}

// Remote inputs are fetched into a tile, remote outputs made in one.
Status Runner::move_remote(const Step& step, std::span<const Operand> operands, uint64_t position,
                           uint64_t count) {
  staging_.resize(operands.size() * kTileBytes);
  const uint64_t tile = kTileBytes / std::max(element_bytes_, partial_bytes_);
  for (uint64_t done = 0; done < count; done += tile) {
    const uint64_t n = std::min(tile, count - done);
    inputs_.clear();
    outputs_.clear();
    for (size_t i = 0; i < operands.size(); ++i) {
      const Operand& operand = operands[i];
      const Place place = place_of(operand, position + done, n);
      std::byte* data = place.data;
      if (operand.rank != rank_) {
        data = staging_.data() + i * kTileBytes;
        if (i < step.inputs) {
          ONRT_RETURN_IF_ERROR(
              endpoint_.get(operand.rank, place.ref, data, n * bytes_of(operand.buffer)));
        }
      }
      const bool partial = operand.buffer == Buffer::kPartial;
      if (i < step.inputs) {
        inputs_.push_back({data, partial});
      } else {
        outputs_.push_back({data, partial, false});
      }
    }
    if (step.kind == StepKind::kReduce) {
      reduce({call_.dtype, call_.reduce_op, static_cast<uint32_t>(ranks_)}, inputs_, outputs_, n);
    } else {
      for (const ReduceOutput& output : outputs_) {
        copy_bytes(output.data, inputs_.front().data, n * bytes_of(operands.front().buffer), false);
      }
    }
    for (size_t i = step.inputs; i < operands.size(); ++i) {
      const Operand& operand = operands[i];
      if (operand.rank != rank_) {
        const Place place = place_of(operand, position + done, n);
        ONRT_RETURN_IF_ERROR(endpoint_.put(operand.rank, place.ref,
                                           staging_.data() + i * kTileBytes,
                                           n * bytes_of(operand.buffer)));
      }
    }
  }
  return ok_status();
}

}  // namespace onrt::cc
