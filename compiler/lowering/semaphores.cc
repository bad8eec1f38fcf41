// SPDX-License-Identifier: Apache-2.0
// Order between engines. Each engine has one counting semaphore that every instruction of its
// stream raises by one; an instruction waits for the last conflicting one of each other engine,
// unless something that it or its stream waited for before implies it.
#include <algorithm>
#include <array>
#include <map>

#include "compiler/lowering/emit.h"

namespace onrt::lowering {
namespace {

using Clock = std::array<uint32_t, ncx::kEngines>;  // instructions of each engine, complete

void raise(Clock& clock, const Clock& other) {
  for (size_t e = 0; e < clock.size(); ++e) {
    clock[e] = std::max(clock[e], other[e]);
  }
}

// Who wrote and who read the bytes of one slot or space, so far.
class Memory {
 public:
  // Clock of what an access of [low, high) must wait for; then notes it as done at `at` of
  // `engine`.
  Clock access(int64_t low, int64_t high, bool write, size_t engine, uint32_t at) {
    Clock wait{};
    split(low);
    split(high);
    auto it = segments_.lower_bound(low);
    int64_t next = low;
    while (next < high) {
      if (it == segments_.end() || it->first > next) {  // never touched
        const int64_t end = it == segments_.end() ? high : std::min(high, it->first);
        it = segments_.emplace_hint(it, next, Segment{end, {}, {}});
      }
      Segment& segment = it->second;
      raise(wait, segment.writer);
      if (write) {
        raise(wait, segment.readers);
        segment.writer = {};
        segment.readers = {};
        segment.writer[engine] = at;
      } else {
        segment.readers[engine] = at;
      }
      next = segment.end;
      ++it;
    }
    return wait;
  }

 private:
  struct Segment {
    int64_t end;
    Clock writer;
    Clock readers;
  };

  void split(int64_t at) {
    auto it = segments_.upper_bound(at);
    if (it == segments_.begin()) {
      return;
    }
    --it;
    if (it->first < at && it->second.end > at) {
      const Segment right = it->second;
      it->second.end = at;
      segments_.emplace(at, right);
    }
  }

  std::map<int64_t, Segment> segments_;
};

// Calls visit(view, write).
template <class Visit>
struct PayloadVisitor {
  const ncx::Program& program;
  Visit visit;

  void block(uint32_t number) const {
    for (const ncx::Instruction& instruction : program.blocks[number].instructions) {
      std::visit(*this, instruction.payload);  // blocks are nested at most as deep as calls
    }
  }
  void reads(const std::vector<ncx::View>& views) const {
    for (const ncx::View& view : views) {
      visit(view, false);
    }
  }
  void writes(const std::vector<ncx::View>& views) const {
    for (const ncx::View& view : views) {
      visit(view, true);
    }
  }
  void operator()(const ncx::Eltwise& p) const {
    reads(p.inputs);
    writes(p.outputs);
  }
  void operator()(const ncx::Reduce& p) const {
    reads(p.inputs);
    for (const auto& accumulator : p.accumulators) {
      visit(accumulator.init, false);
    }
    reads(p.epilogue_inputs);
    writes(p.outputs);
  }
  void operator()(const ncx::Gemm& p) const {
    visit(p.lhs, false);
    visit(p.rhs, false);
    reads(p.epilogue_inputs);
    writes(p.outputs);
  }
  void operator()(const ncx::Conv& p) const {
    visit(p.input, false);
    visit(p.kernel, false);
    reads(p.epilogue_inputs);
    writes(p.outputs);
  }
  void operator()(const ncx::Linalg& p) const {
    visit(p.a, false);
    visit(p.kind == ncx::LinalgKind::kTriangularSolve ? p.b : p.a, false);
    visit(p.output, true);
  }
  void operator()(const ncx::Copy& p) const {
    for (const auto& piece : p.pieces) {
      visit(piece.source, false);
    }
    for (const auto& piece : p.pieces) {
      visit(piece.destination, true);
    }
  }
  void operator()(const ncx::Gather& p) const {
    visit(p.operand, false);
    visit(p.indices, false);
    visit(p.output, true);
  }
  void operator()(const ncx::Scatter& p) const {
    visit(p.indices, false);
    reads(p.updates);
    writes(p.outputs);
  }
  void operator()(const ncx::DynamicSlice& p) const {
    visit(p.source, false);
    reads(p.starts);
    visit(p.destination, true);
  }
  void operator()(const ncx::DynamicUpdateSlice& p) const {
    visit(p.update, false);
    reads(p.starts);
    visit(p.destination, true);
  }
  void operator()(const ncx::Rng& p) const {
    const bool bits = p.kind == ncx::RngKind::kThreeFry || p.kind == ncx::RngKind::kPhilox;
    visit(bits ? p.state : p.a, false);
    visit(bits ? p.state : p.b, false);
    visit(p.output, true);
    if (bits) {
      visit(p.state_out, true);
    }
  }
  void operator()(const ncx::Loop& p) const {
    visit(p.predicate, false);
    block(p.condition);
    block(p.body);
  }
  void operator()(const ncx::If& p) const {
    visit(p.selector, false);
    for (const uint32_t branch : p.branches) {
      block(branch);
    }
  }
  void operator()(const ncx::Call& p) const { block(p.block); }
  void operator()(const ncx::Sort& p) const {
    reads(p.inputs);
    writes(p.outputs);
  }
  void operator()(const ncx::ReduceWindow& p) const {
    reads(p.inputs);
    for (const auto& accumulator : p.accumulators) {
      visit(accumulator.init, false);
    }
    writes(p.outputs);
  }
  void operator()(const ncx::SelectScatter& p) const {
    visit(p.operand, false);
    visit(p.source, false);
    visit(p.init, false);
    visit(p.output, true);
  }
};

struct Reach {
  int64_t low = 0;
  int64_t high = 0;
};

Reach reach_of(const ncx::View& view) {
  const int64_t width = dtype_bytes(view.dtype);
  const auto begin = static_cast<int64_t>(view.offset);
  Reach reach{begin, begin + width};
  for (int d = 0; d < view.rank; ++d) {
    const int64_t span =
        (view.dims[static_cast<size_t>(d)] - 1) * view.strides[static_cast<size_t>(d)] * width;
    (span < 0 ? reach.low : reach.high) += span;
  }
  return reach;
}

void add_to_block(ncx::Block& block, std::span<const uint16_t> alias, ncx::Program& program) {
  std::vector<Memory> memories(alias.size() + 1);  // slots, then scratch; constants never change
  std::vector<Clock> after(block.instructions.size());  // what is complete when one is
  std::array<std::vector<size_t>, ncx::kEngines> streams;
  std::array<Clock, ncx::kEngines> known{};
  std::array<bool, ncx::kEngines> awaited{};
  for (size_t i = 0; i < block.instructions.size(); ++i) {
    ncx::Instruction& instruction = block.instructions[i];
    const auto engine = static_cast<size_t>(instruction.engine);
    const auto at = static_cast<uint32_t>(streams[engine].size() + 1);
    Clock wait{};
    const auto visit = [&](const ncx::View& view, bool write) {
      if (view.space != ncx::Space::kConstants) {
        const size_t memory = view.space == ncx::Space::kScratch ? alias.size() : alias[view.slot];
        const Reach reach = reach_of(view);
        raise(wait, memories[memory].access(reach.low, reach.high, write, engine, at));
      }
    };
    std::visit(PayloadVisitor<decltype(visit)>{program, visit}, instruction.payload);
    Clock& clock = known[engine];
    for (size_t e = 0; e < wait.size(); ++e) {
      if (e != engine && wait[e] > clock[e]) {
        instruction.waits.push_back({static_cast<uint16_t>(e), wait[e]});
        awaited[e] = true;
      }
    }
    for (size_t e = 0; e < wait.size(); ++e) {
      if (e != engine && wait[e] > clock[e]) {
        raise(clock, after[streams[e][wait[e] - 1]]);
      }
    }
    clock[engine] = at;
    after[i] = clock;
    streams[engine].push_back(i);
  }
  for (ncx::Instruction& instruction : block.instructions) {
    const auto engine = static_cast<size_t>(instruction.engine);
    if (awaited[engine]) {
      instruction.increments.push_back({static_cast<uint16_t>(engine), 1});
      program.semaphores =
          std::max<uint32_t>(program.semaphores, static_cast<uint32_t>(engine) + 1);
    }
  }
}

}  // namespace

void add_semaphores(std::span<const uint16_t> alias, ncx::Program& program) {
  for (ncx::Block& block : program.blocks) {
    add_to_block(block, alias, program);
  }
}

}  // namespace onrt::lowering
