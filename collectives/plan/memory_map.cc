// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/memory_map.h"

#include <algorithm>
#include <iterator>

namespace onrt::cc {
namespace {

bool is_before(const Touch& earlier, const Touch& now, const Clock& clock) {
  return earlier.lane == now.lane || clock[earlier.lane] > earlier.step;
}

}  // namespace

MemoryMap::MemoryMap(uint64_t elements) : elements_(elements) {
  if (elements > 0) {
    cells_[0].count = elements;
  }
}

void MemoryMap::cut(uint64_t offset) {
  if (offset == 0 || offset >= elements_) {
    return;
  }
  const auto cell = std::prev(cells_.upper_bound(offset));
  if (cell->first == offset) {
    return;
  }
  Cell tail = cell->second;
  const uint64_t head = offset - cell->first;
  tail.count -= head;
  tail.value.origin += head;
  cell->second.count = head;
  cells_.emplace_hint(std::next(cell), offset, std::move(tail));
}

uint64_t MemoryMap::next_bound(uint64_t offset) const {
  const auto next = cells_.upper_bound(offset);
  return next == cells_.end() ? elements_ : next->first;
}

const MemoryMap::Cell& MemoryMap::at(uint64_t offset) const {
  return std::prev(cells_.upper_bound(offset))->second;
}

void MemoryMap::visit(uint64_t first, uint64_t count,
                      const std::function<void(uint64_t, const Cell&)>& visitor) {
  cut(first);
  cut(first + count);
  for (auto cell = cells_.lower_bound(first); cell != cells_.end() && cell->first < first + count;
       ++cell) {
    visitor(cell->first, cell->second);
  }
}

void MemoryMap::fill(uint64_t first, uint64_t count, Value value) { set(first, count, value); }

void MemoryMap::set(uint64_t first, uint64_t count, Value value) {
  cut(first);
  cut(first + count);
  for (auto cell = cells_.lower_bound(first); cell != cells_.end() && cell->first < first + count;
       ++cell) {
    cell->second.value = {value.id, value.origin + (cell->first - first)};
  }
}

std::optional<MemoryMap::Conflict> MemoryMap::read(uint64_t first, uint64_t count, Touch access,
                                                   const Clock& clock) {
  std::optional<Conflict> conflict;
  cut(first);
  cut(first + count);
  for (auto cell = cells_.lower_bound(first); cell != cells_.end() && cell->first < first + count;
       ++cell) {
    Cell& it = cell->second;
    if (!conflict && it.writer && !is_before(*it.writer, access, clock)) {
      conflict = {cell->first, it.count, *it.writer, true};
    }
    const auto same = std::find_if(it.readers.begin(), it.readers.end(),
                                   [&](const Touch& other) { return other.lane == access.lane; });
    if (same == it.readers.end()) {
      it.readers.push_back(access);
    } else {
      *same = access;
    }
  }
  return conflict;
}

std::optional<MemoryMap::Conflict> MemoryMap::write(uint64_t first, uint64_t count, Touch access,
                                                    const Clock& clock) {
  std::optional<Conflict> conflict;
  cut(first);
  cut(first + count);
  for (auto cell = cells_.lower_bound(first); cell != cells_.end() && cell->first < first + count;
       ++cell) {
    Cell& it = cell->second;
    if (!conflict && it.writer && !is_before(*it.writer, access, clock)) {
      conflict = {cell->first, it.count, *it.writer, true};
    }
    for (const Touch& reader : it.readers) {
      if (!conflict && !is_before(reader, access, clock)) {
        conflict = {cell->first, it.count, reader, false};
      }
    }
    it.writer = access;
    it.readers.clear();
  }
  return conflict;
}

}  // namespace onrt::cc
