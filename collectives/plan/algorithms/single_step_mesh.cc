// SPDX-License-Identifier: Apache-2.0
// single-step-mesh: every rank offers its whole input to all and folds everything itself, in the
// order of ranks: one step instead of mesh's two, n - 1 times the message. What is offered lies in
// the rank's own scratch memory, which alternates: one barrier, before anybody reads.
//
// Source: AWS Neuron documentation, "Neuron collectives: intra-node algorithms" (single-step Mesh).
#include "collectives/plan/algorithm.h"
#include "collectives/plan/algorithms/blocks.h"

namespace onrt::cc {
namespace {

void build(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  b.set_alternate_scratch();
  b.set_scratch(spec.count);
  for (int channel = 0; channel < spec.channels; ++channel) {
    b.use_channel(channel);
    const auto [first, count] = part_of(spec.count, static_cast<uint64_t>(spec.channels),
                                        static_cast<uint64_t>(channel), line_elements(spec));
    b.move(b.in(first), b.scratch(first), count);
    b.barrier();
    std::vector<Operand> inputs;
    for (int rank = 0; rank < b.ranks(); ++rank) {
      inputs.push_back(rank == b.rank() ? b.in(first) : Operand{rank, Buffer::kScratch, first});
    }
    b.reduce(inputs, std::vector<Operand>{b.out(first)}, count);
  }
}

Status supports(const Spec& spec) {
  static_cast<void>(spec);
  return {};
}

Cost cost(const Spec& spec) {
  const double n = spec.ranks;
  const double all = static_cast<double>(spec.count) * spec.element_bytes;
  return {1, all, all * n};
}

}  // namespace

Algorithm single_step_mesh_algorithm() {
  return {"single-step-mesh",
          "1 step, n-1 times the message read",
          "AWS Neuron documentation, intra-node collectives",
          {Op::kAllReduce},
          supports,
          build,
          cost};
}

}  // namespace onrt::cc
