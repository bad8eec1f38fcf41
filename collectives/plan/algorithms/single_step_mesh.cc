// SPDX-License-Identifier: Apache-2.0
// single-step-mesh: every rank sends its whole input to all and folds everything itself, in the
// order of ranks: one step instead of mesh's two, n - 1 times the message.
//
// Source: AWS Neuron documentation, "Neuron collectives: intra-node algorithms" (single-step Mesh).
#include "collectives/plan/algorithm.h"
#include "collectives/plan/algorithms/blocks.h"
#include "collectives/plan/algorithms/exchange.h"

namespace onrt::cc {
namespace {

void build(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  b.set_alternate_scratch();
  b.set_scratch(static_cast<uint64_t>(b.ranks()) * spec.count);
  for (int channel = 0; channel < spec.channels; ++channel) {
    b.use_channel(channel);
    const auto [first, count] = part_of(spec.count, static_cast<uint64_t>(spec.channels),
                                        static_cast<uint64_t>(channel), line_elements(spec));
    std::vector<Operand> targets;
    std::vector<Operand> inputs;
    for (int i = 1; i < b.ranks(); ++i) {
      targets.push_back(
          {peer_at(b, i), Buffer::kScratch, static_cast<uint64_t>(b.rank()) * spec.count + first});
    }
    b.move(b.in(first), targets, count);
    signal_all(b);
    wait_all(b);
    for (int rank = 0; rank < b.ranks(); ++rank) {
      inputs.push_back(rank == b.rank()
                           ? b.in(first)
                           : b.scratch(static_cast<uint64_t>(rank) * spec.count + first));
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
  return {(n - 1) / 2 + 1, all * n, all * n};
}

}  // namespace

Algorithm single_step_mesh_algorithm() {
  return {"single-step-mesh",
          "1 step, n-1 times the message sent",
          "AWS Neuron documentation, intra-node collectives",
          {Op::kAllReduce},
          supports,
          build,
          cost};
}

}  // namespace onrt::cc
