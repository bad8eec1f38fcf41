// SPDX-License-Identifier: Apache-2.0
// One buffer of one rank for the verifier: intervals of elements with their symbolic value and the
// accesses that later ones must be ordered after.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "collectives/plan/value_table.h"

namespace onrt::cc {

// Step `step` of the channel with this number (over all ranks).
struct Touch {
  uint32_t lane = 0;
  uint32_t step = 0;
};

// For every lane, how many of its steps are known to be over.
using Clock = std::vector<uint32_t>;

// Thread-compatible.
class MemoryMap {
 public:
  struct Cell {
    uint64_t count = 0;
    Value value;
    std::optional<Touch> writer;
    std::vector<Touch> readers;  // since the last write; the last one of each lane
  };
  struct Conflict {
    uint64_t first = 0;  // of the cell
    uint64_t count = 0;
    Touch other;
    bool other_wrote = false;
  };

  explicit MemoryMap(uint64_t elements);
  // Before anything runs.
  void fill(uint64_t first, uint64_t count, Value value);

  uint64_t elements() const { return elements_; }
  // Calls with (first, cell) for each cell of the range, cut at its ends. No accesses recorded.
  void visit(uint64_t first, uint64_t count,
             const std::function<void(uint64_t, const Cell&)>& visitor);
  // Cuts at `offset`; the values of a range are then whole cells.
  void cut(uint64_t offset);
  // First offset after `offset` where a cell begins or the buffer ends.
  uint64_t next_bound(uint64_t offset) const;
  const Cell& at(uint64_t offset) const;

  // Record an access; the first one that is not ordered with it, if any.
  std::optional<Conflict> read(uint64_t first, uint64_t count, Touch access, const Clock& clock);
  std::optional<Conflict> write(uint64_t first, uint64_t count, Touch access, const Clock& clock);
  // New value of a range (already written): it begins with `value`.
  void set(uint64_t first, uint64_t count, Value value);

 private:
  uint64_t elements_;
  std::map<uint64_t, Cell> cells_;
};

}  // namespace onrt::cc
