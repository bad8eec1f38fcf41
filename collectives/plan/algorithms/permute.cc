// SPDX-License-Identifier: Apache-2.0
// permute: each target fetches its source's input; a pair is a send and a receive. One step, the
// message sent once. Private buffers and operations in place go through the source's scratch
// memory.
//
// Source: XLA's CollectivePermute (xla.dev, "Operation semantics"); nccom-test's permute and
// sendrecv.
#include "collectives/plan/algorithm.h"
#include "collectives/plan/algorithms/blocks.h"

namespace onrt::cc {
namespace {

void build(ProgramBuilder& b) {
  const Spec& spec = b.spec();
  const bool through_scratch = spec.access == Access::kStaged || spec.in_place;
  const Buffer shared = through_scratch ? Buffer::kScratch : Buffer::kIn;
  int target = -1;
  int source = -1;
  for (const auto& [from, to] : spec.pairs) {
    target = from == b.rank() ? to : target;
    source = to == b.rank() ? from : source;
  }
  if (target == b.rank()) {
    b.move(b.in(0), b.out(0), spec.count);
    return;
  }
  if (target >= 0) {
    if (through_scratch) {
      b.set_scratch(spec.count);
      b.move(b.in(0), b.scratch(0), spec.count);
    }
    b.signal(target);
  }
  if (source >= 0) {
    b.wait(source);
    b.move({source, shared, 0}, b.out(0), spec.count);
    b.signal(source);
  }
  if (target >= 0) {
    b.wait(target);
  }
}

Status supports(const Spec& spec) {
  static_cast<void>(spec);
  return {};
}

Cost cost(const Spec& spec) {
  const double all = static_cast<double>(spec.count) * spec.element_bytes;
  const bool twice = spec.access == Access::kStaged || spec.in_place;
  return {2, all * (twice ? 2 : 1), 0};
}

}  // namespace

Algorithm permute_algorithm() {
  return {"permute",
          "1 step, the message sent once",
          "XLA operation semantics, CollectivePermute",
          {Op::kPermute},
          supports,
          build,
          cost};
}

}  // namespace onrt::cc
