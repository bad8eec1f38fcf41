// SPDX-License-Identifier: Apache-2.0
// Addresses in scratch memory: best fit over the buffers' lives in the order of kernels, and,
// unless they are very many, in the order of sizes; the smaller of the two counts. Results that are
// written late lend their memory until then.
#include <algorithm>
#include <functional>
#include <map>
#include <span>

#include "compiler/lowering/lowerer.h"
#include "compiler/lowering/nesting.h"

namespace onrt::lowering {
namespace {

constexpr int64_t kAlignment = 64;
constexpr size_t kMostLives = 2048;  // that are compared with each other

// Free and used ranges of [0, end); the end grows when nothing fits.
class RangeAllocator {
 public:
  int64_t allocate(int64_t size) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second >= size && (best == free_.end() || it->second < best->second)) {
        best = it;
      }
    }
    if (best == free_.end()) {
      return grow(size);
    }
    const auto [offset, length] = *best;
    free_.erase(best);
    if (length > size) {
      free_.emplace(offset + size, length - size);
    }
    return offset;
  }

  void release(int64_t offset, int64_t size) {
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + size) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        previous->second += size;
        return;
      }
    }
    free_.emplace(offset, size);
  }

  int64_t end() const { return end_; }

 private:
  int64_t grow(int64_t size) {
    if (!free_.empty()) {
      const auto last = std::prev(free_.end());
      if (last->first + last->second == end_) {
        const int64_t offset = last->first;
        free_.erase(last);
        end_ = offset + size;
        return offset;
      }
    }
    const int64_t offset = end_;
    end_ += size;
    return offset;
  }

  std::map<int64_t, int64_t> free_;  // offset, length
  int64_t end_ = 0;
};

class ScratchPlacer {
 public:
  explicit ScratchPlacer(Plan& plan)
      : plan_(plan),
        last_use_(plan.buffers.size(), -1),
        placed_(plan.buffers.size(), false),
        life_(plan.buffers.size(), -1) {
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      const auto use = [&](const Window& window) {
        last_use_[static_cast<size_t>(window.buffer)] = static_cast<int64_t>(k);
      };
      for_each_read(plan.kernels[k], use);
      for_each_write(plan.kernels[k], use);
    }
    extend_over_loops();
    ends_.resize(plan.kernels.size());
    for (size_t b = 0; b < last_use_.size(); ++b) {
      if (last_use_[b] >= 0) {
        ends_[static_cast<size_t>(last_use_[b])].push_back(static_cast<BufferId>(b));
      }
    }
  }

  void run(bool in_place) {
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      Kernel& kernel = plan_.kernels[k];
      if (in_place) {
        for (const Micro::Output& output : kernel.tail.outputs) {
          take_over(kernel, output.window, static_cast<int64_t>(k));
        }
      }
      for_each_write(kernel,
                     [&](const Window& window) { place(window.buffer, static_cast<int64_t>(k)); });
      for (const BufferId ended : ends_[k]) {
        release(ended, static_cast<int64_t>(k));
      }
    }
    plan_.scratch_bytes = ranges_.end();
    if (lives_.size() <= kMostLives) {
      place_by_size();
    }
  }

  // After run(): moves what fits to results of the program that are written later.
  void borrow(const Flat& flat) {
    std::vector<Loan> loans = find_loans(flat);
    if (loans.empty() || lives_.size() > kMostLives) {
      return;
    }
    find_widths();
    for (Life& life : lives_) {
      life.offset = buffer(life.members[0]).offset;  // so far
    }
    std::vector<Life*> order = by_size();
    bool any = false;
    for (Life* life : order) {
      size_t width = 1;
      for (const BufferId id : life->members) {
        width = std::max(width, width_[static_cast<size_t>(id)]);
      }
      for (Loan& loan : loans) {
        if (life->end < loan.end && width <= loan.width && take(loan, *life)) {
          any = true;
          break;
        }
      }
    }
    if (!any) {
      return;
    }
    std::erase_if(lives_, [&](const Life& life) { return !is_scratch(life.members[0]); });
    plan_.scratch_bytes = 0;
    for (const Life& life : lives_) {
      plan_.scratch_bytes = std::max(plan_.scratch_bytes, life.offset + life.bytes);
    }
    place_by_size();
  }

 private:
  Buffer& buffer(BufferId id) { return plan_.buffers[static_cast<size_t>(id)]; }
  bool is_scratch(BufferId id) { return buffer(id).place == Place::kScratch; }

  // What is there before a loop and used in it is needed until the loop ends.
  void extend_over_loops() {
    const Nesting nesting(plan_);
    std::vector<int64_t> first_use(last_use_.size(), INT64_MAX);
    for (size_t k = plan_.kernels.size(); k-- > 0;) {
      const auto use = [&](const Window& window) {
        first_use[static_cast<size_t>(window.buffer)] = static_cast<int64_t>(k);
      };
      for_each_read(plan_.kernels[k], use);
      for_each_write(plan_.kernels[k], use);
    }
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {  // inner loops come before outer ones
      if (plan_.kernels[k].kind != KernelKind::kLoop) {
        continue;
      }
      const int64_t begin = nesting.first(static_cast<int32_t>(k));
      for (size_t i = static_cast<size_t>(begin); i < k; ++i) {
        const auto extend = [&](const Window& window) {
          const auto b = static_cast<size_t>(window.buffer);
          if (first_use[b] < begin) {
            last_use_[b] = std::max(last_use_[b], static_cast<int64_t>(k));
          }
        };
        for_each_read(plan_.kernels[i], extend);
        for_each_write(plan_.kernels[i], extend);
      }
    }
  }

  static int64_t room(int64_t bytes) {
    return std::max<int64_t>((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
  }

  // Memory in use from one kernel to another, by one buffer or several in turn.
  struct Life {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t bytes = 0;
    int64_t offset = 0;
    std::vector<BufferId> members;

    bool meets(const Life& other) const { return begin <= other.end && other.begin <= end; }
  };
  // A result's memory, free for others before kernel `end`.
  struct Loan {
    int32_t slot = 0;
    int64_t bytes = 0;
    int64_t end = INT64_MAX;
    size_t width = 8;                 // of its elements, to which it is aligned
    std::vector<const Life*> placed;  // by offset
  };

  // Smallest first. What is written in a loop is not free in the loop.
  std::vector<Loan> find_loans(const Flat& flat) {
    const std::vector<int32_t> aliased = aliased_parameters(flat);
    std::vector<Loan> loans;
    std::vector<int64_t> loan_of(flat.parameters().size() + flat.outputs().size(), -1);
    auto slot = static_cast<int32_t>(flat.parameters().size());
    for (size_t i = 0; i < aliased.size(); ++i) {
      const hir::Type& type = flat.type(flat.outputs()[i]);
      if (type.elements == 0) {
        continue;
      }
      if (aliased[i] < 0) {
        loan_of[static_cast<size_t>(slot)] = static_cast<int64_t>(loans.size());
        loans.push_back(
            {slot, static_cast<int64_t>(type.bytes()), INT64_MAX, dtype_bytes(type.dtype), {}});
      }
      ++slot;
    }
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      const auto use = [&](const Window& window) {
        const Buffer& used = buffer(window.buffer);
        const int64_t number =
            used.place == Place::kIo ? loan_of[static_cast<size_t>(used.slot)] : -1;
        if (number >= 0) {
          int64_t& end = loans[static_cast<size_t>(number)].end;
          end = std::min(end, static_cast<int64_t>(k));
        }
      };
      for_each_read(plan_.kernels[k], use);
      for_each_write(plan_.kernels[k], use);
    }
    const Nesting nesting(plan_);
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {  // inner loops come before outer ones
      const int64_t begin = nesting.first(static_cast<int32_t>(k));
      for (Loan& loan : loans) {
        if (plan_.kernels[k].kind == KernelKind::kLoop && loan.end >= begin &&
            loan.end <= static_cast<int64_t>(k)) {
          loan.end = begin;
        }
      }
    }
    std::erase_if(loans, [](const Loan& loan) { return loan.end == INT64_MAX; });
    std::ranges::stable_sort(loans, {}, &Loan::bytes);
    return loans;
  }

  // Of the elements that buffers hold.
  void find_widths() {
    width_.assign(plan_.buffers.size(), 1);
    for (Kernel& kernel : plan_.kernels) {
      const auto use = [&](const Window& window) {
        size_t& width = width_[static_cast<size_t>(window.buffer)];
        width = std::max<size_t>(width, dtype_bytes(window.dtype));
      };
      for_each_read(kernel, use);
      for_each_write(kernel, use);
    }
  }

  bool take(Loan& loan, Life& life) {
    const int64_t offset = best_offset(life, loan.placed);
    if (offset + buffer(life.members[0]).bytes > loan.bytes) {  // members are of one size
      return false;
    }
    life.offset = offset;
    loan.placed.insert(std::ranges::upper_bound(loan.placed, offset, {}, &Life::offset), &life);
    for (const BufferId id : life.members) {
      buffer(id).place = Place::kIo;
      buffer(id).slot = loan.slot;
      buffer(id).offset = offset;
    }
    return true;
  }

  Life& life_of(BufferId id) { return lives_[static_cast<size_t>(life_[static_cast<size_t>(id)])]; }

  // The smallest gap between lives that meet this one, which `placed` has in the order of offsets.
  static int64_t best_offset(const Life& life, std::span<const Life* const> placed) {
    int64_t best = -1;
    int64_t room = INT64_MAX;
    int64_t free_from = 0;
    for (const Life* other : placed) {
      if (life.meets(*other)) {
        const int64_t gap = other->offset - free_from;
        if (gap >= life.bytes && gap < room) {
          best = free_from;
          room = gap;
        }
        free_from = std::max(free_from, other->offset + other->bytes);
      }
    }
    return best < 0 ? free_from : best;
  }

  std::vector<Life*> by_size() {
    std::vector<Life*> order;
    order.reserve(lives_.size());
    for (Life& life : lives_) {
      order.push_back(&life);
    }
    std::ranges::stable_sort(order, std::greater<>(), [](const Life* life) { return life->bytes; });
    return order;
  }

  void place_by_size() {
    const std::vector<Life*> order = by_size();
    std::vector<const Life*> placed;
    int64_t end = 0;
    for (Life* life : order) {
      life->offset = best_offset(*life, placed);
      end = std::max(end, life->offset + life->bytes);
      placed.insert(std::ranges::upper_bound(placed, life->offset, {}, &Life::offset), life);
    }
    if (end >= plan_.scratch_bytes) {
      return;
    }
    plan_.scratch_bytes = end;
    for (const Life& life : lives_) {
      for (const BufferId id : life.members) {
        buffer(id).offset = life.offset;
      }
    }
  }

  void place(BufferId id, int64_t kernel) {
    if (is_scratch(id) && !placed_[static_cast<size_t>(id)]) {
      placed_[static_cast<size_t>(id)] = true;
      life_[static_cast<size_t>(id)] = static_cast<int64_t>(lives_.size());
      lives_.push_back(
          {kernel, static_cast<int64_t>(plan_.kernels.size()), room(buffer(id).bytes), 0, {id}});
      buffer(id).offset = ranges_.allocate(room(buffer(id).bytes));
    }
  }

  void release(BufferId id, int64_t kernel) {
    const auto i = static_cast<size_t>(id);
    if (is_scratch(id) && placed_[i] && last_use_[i] == kernel) {
      last_use_[i] = -1;  // once
      life_of(id).end = kernel;
      ranges_.release(buffer(id).offset, room(buffer(id).bytes));
    }
  }

  // The output may have the memory of an input that dies here, if both are the same elements in
  // the same order and the kernel reads that input in no other way.
  void take_over(Kernel& kernel, const Window& output, int64_t number) {
    if (!is_scratch(output.buffer) || placed_[static_cast<size_t>(output.buffer)]) {
      return;
    }
    for (const Window& input : kernel.tail.inputs) {
      const auto id = static_cast<size_t>(input.buffer);
      if (!is_scratch(input.buffer) || !placed_[id] || last_use_[id] != number ||
          buffer(input.buffer).bytes != buffer(output.buffer).bytes ||
          input.dtype != output.dtype || input.offset != output.offset ||
          input.dims != output.dims || input.strides != output.strides) {
        continue;
      }
      int reads = 0;
      for_each_read(kernel,
                    [&](const Window& window) { reads += window.buffer == input.buffer ? 1 : 0; });
      if (reads == 1) {
        placed_[static_cast<size_t>(output.buffer)] = true;
        buffer(output.buffer).offset = buffer(input.buffer).offset;
        last_use_[id] = -1;  // its memory lives on
        life_[static_cast<size_t>(output.buffer)] = life_[id];
        life_of(output.buffer).members.push_back(output.buffer);
        return;
      }
    }
  }

  Plan& plan_;
  std::vector<int64_t> last_use_;
  std::vector<std::vector<BufferId>> ends_;  // by kernel: buffers whose last use it is
  std::vector<bool> placed_;
  std::vector<int64_t> life_;  // by buffer: its place in lives_; -1: none
  std::vector<Life> lives_;
  std::vector<size_t> width_;  // by buffer
  RangeAllocator ranges_;
};

}  // namespace

void place_scratch(Plan& plan, bool in_place) { ScratchPlacer(plan).run(in_place); }

void borrow_results(const Flat& flat, Plan& plan, int64_t least) {
  if (plan.scratch_bytes >= least) {
    ScratchPlacer placer(plan);
    placer.run(true);
    placer.borrow(flat);
  }
}

}  // namespace onrt::lowering
