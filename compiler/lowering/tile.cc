// SPDX-License-Identifier: Apache-2.0
// Tiling: kernels that hand large intermediate arrays to each other run slice by slice along one
// dimension that all of them keep, so that only a slice of those arrays exists at a time. The
// scores of attention, between two products, are the example; sums, norms and losses over large
// arrays are others. No result changes: each element is computed as before, from the same elements,
// in the same order.
//
// A segment is a set of kernels with, for each, the dimension of its domain that is cut (its axis).
// In memory the axis is known by its distance in bytes: an internal array is used by kernels of the
// segment alone, and all of them find the axis at the same distance.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "compiler/lowering/lowerer.h"
#include "compiler/lowering/tile_access.h"

namespace onrt::lowering {
namespace {

constexpr int64_t kMostTiles = 64;
constexpr int64_t kLeastProductRows = 32;  // a product cut thinner packs its other side too often
constexpr size_t kMostKernels = 64;        // of a segment
// tile_small(): arrays of more than this share of a tile are looked at.
constexpr int64_t kSeedShare = 8;
constexpr size_t kMostSliced = ncx::kMaxInstructions / 2;  // kernels of a program with slices
constexpr int32_t kMostSpan = 512;  // from its first kernel to its last, others included

struct Segment {
  int64_t count = 0;                  // indices of the axis
  std::map<int32_t, size_t> kernels;  // number, its axis
  std::map<BufferId, Axis> internal;

  int32_t first() const { return kernels.begin()->first; }
  int32_t last() const { return kernels.rbegin()->first; }
};

class Tiler {
 public:
  Tiler(const Flat& flat, Plan& plan, int64_t tile_bytes) : plan_(plan), tile_bytes_(tile_bytes) {
    auto slot = static_cast<int32_t>(flat.parameters().size());
    const std::vector<int32_t> aliased = aliased_parameters(flat);
    for (size_t i = 0; i < aliased.size(); ++i) {
      if (flat.type(flat.outputs()[i]).elements == 0) {
        continue;
      }
      if (aliased[i] >= 0) {
        aliased_.emplace(slot, aliased[i]);
      }
      ++slot;
    }
    list_users();
  }

  // Cuts for arrays above `least` bytes, through products or not. Segments that don't overlap are
  // cut together: each round looks at all kernels once.
  void run(int64_t least, bool products) {
    products_ = products;
    std::set<BufferId> tried;
    while (true) {
      std::map<int32_t, Segment> chosen;  // by first kernel
      size_t kernels = plan_.kernels.size();
      for (const BufferId seed : seeds(least, tried)) {
        auto segment = best_segment(seed);
        if (!segment || slice_of(*segment) >= segment->count ||
            kernels + slices_of(*segment) > kMostSliced) {
          tried.insert(seed);
        } else if (!overlaps(chosen, *segment)) {
          tried.insert(seed);
          kernels += slices_of(*segment);
          const int32_t first = segment->first();
          chosen.emplace(first, std::move(*segment));
        }
      }
      if (chosen.empty()) {
        return;
      }
      const auto first_made = static_cast<BufferId>(plan_.buffers.size());
      apply(chosen);
      list_users();
      for (auto id = first_made; id < static_cast<BufferId>(plan_.buffers.size()); ++id) {
        tried.insert(id);
      }
    }
  }

 private:
  Kernel& kernel(int32_t number) { return plan_.kernels[static_cast<size_t>(number)]; }
  Buffer& buffer(BufferId id) { return plan_.buffers[static_cast<size_t>(id)]; }
  std::vector<int32_t>& users(BufferId id) { return users_[static_cast<size_t>(id)]; }

  void list_users() {
    users_.resize(plan_.buffers.size());
    for (std::vector<int32_t>& list : users_) {
      list.clear();  // and keep its memory
    }
    marks_.resize(plan_.buffers.size());
    touched_.resize(plan_.kernels.size());
    std::map<int32_t, BufferId> slots;  // the first buffer that stands for a slot
    memory_.resize(plan_.buffers.size());
    for (size_t b = 0; b < memory_.size(); ++b) {
      const auto id = static_cast<BufferId>(b);
      const auto alias = aliased_.find(buffer(id).slot);
      const int32_t slot = alias == aliased_.end() ? buffer(id).slot : alias->second;
      memory_[b] = buffer(id).place == Place::kIo ? slots.try_emplace(slot, id).first->second : id;
    }
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      Touched& made = touched_[k];
      made.reads.clear();
      made.writes.clear();
      const auto use = [&](const Window& window) {
        auto& list = users(window.buffer);
        if (list.empty() || list.back() != static_cast<int32_t>(k)) {
          list.push_back(static_cast<int32_t>(k));
        }
      };
      for_each_read(plan_.kernels[k], [&](const Window& window) {
        use(window);
        made.reads.push_back(memory_of(window.buffer));
      });
      for_each_write(plan_.kernels[k], [&](const Window& window) {
        use(window);
        made.writes.push_back(memory_of(window.buffer));
      });
      if (plan_.kernels[k].in_place()) {
        made.reads.insert(made.reads.end(), made.writes.begin(), made.writes.end());
      }
    }
  }

  // Arrays that are worth it and were not tried, largest first.
  std::vector<BufferId> seeds(int64_t least, const std::set<BufferId>& tried) {
    std::vector<BufferId> made;
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const auto id = static_cast<BufferId>(b);
      if (buffer(id).place == Place::kScratch && buffer(id).bytes > least && users(id).size() > 1 &&
          !tried.contains(id)) {
        made.push_back(id);
      }
    }
    std::ranges::stable_sort(made, std::greater<>(), [&](BufferId id) { return buffer(id).bytes; });
    return made;
  }

  static bool overlaps(const std::map<int32_t, Segment>& chosen, const Segment& segment) {
    const auto next = chosen.upper_bound(segment.last());
    return next != chosen.begin() && std::prev(next)->second.last() >= segment.first();
  }

  // By what it saves; the outermost dimension of the first user where several save the same.
  std::optional<Segment> best_segment(BufferId seed) {
    std::optional<Segment> best;
    int64_t most = 0;
    Kernel& first = kernel(users(seed).front());
    if (first.kind != KernelKind::kCopy && !first.fusible()) {
      return std::nullopt;
    }
    for (size_t axis = 0; axis < domain_of(first).size(); ++axis) {
      for (const Access& access : accesses_of(first, axis)) {
        const int64_t count = domain_of(first)[axis];
        if (access.window->buffer != seed || access.dim < 0 || count < 2 || access.step() <= 0) {
          continue;
        }
        auto segment = grow(seed, {access.step(), count});
        if (segment && saving(*segment) > most) {
          most = saving(*segment);
          best = std::move(segment);
        }
        break;
      }
    }
    return best;
  }

  int64_t internal_bytes(const Segment& segment) {
    int64_t sum = 0;
    for (const auto& [id, axis] : segment.internal) {
      sum += buffer(id).bytes;
    }
    return sum;
  }
  // Indices of the axis in a slice.
  int64_t slice_of(const Segment& segment) {
    const int64_t wanted = (internal_bytes(segment) + tile_bytes_ - 1) / tile_bytes_;
    const int64_t tiles = std::clamp<int64_t>(wanted, 1, std::min(kMostTiles, segment.count));
    int64_t slice = (segment.count + tiles - 1) / tiles;
    for (const auto& [number, axis] : segment.kernels) {
      if (kernel(number).kind == KernelKind::kGemm && !is_batch(kernel(number), axis)) {
        slice = std::max(slice, std::min(kLeastProductRows, segment.count));
      }
    }
    return slice;
  }
  // Kernels that the segment becomes.
  size_t slices_of(const Segment& segment) {
    const int64_t slice = slice_of(segment);
    return static_cast<size_t>((segment.count + slice - 1) / slice) * segment.kernels.size();
  }
  static bool is_batch(const Kernel& product, size_t axis) {
    return axis < product.runs[product.runs.size() - 2].begin;
  }
  int64_t saving(const Segment& segment) {
    return internal_bytes(segment) / segment.count * (segment.count - slice_of(segment));
  }

  // The segment around an array that is to be internal, with what else can be; nothing if it can't.
  // First all that fits together; if that can't be brought into an order, one array after another.
  std::optional<Segment> grow(BufferId seed, const Axis& axis) {
    Segment segment;
    segment.count = axis.count;
    if (!add_buffer(segment, seed, axis)) {
      return std::nullopt;
    }
    Segment all = segment;
    add_neighbours(all, false);
    if (is_sound(all)) {
      return all;
    }
    add_neighbours(segment, true);
    return is_sound(segment) ? std::optional(segment) : std::nullopt;
  }

  void add_neighbours(Segment& segment, bool keep_sound) {
    std::set<BufferId> refused;
    for (bool grown = true; grown;) {
      grown = false;
      for (const auto& [number, at] : std::map(segment.kernels)) {
        for (const Access& access : accesses_of(kernel(number), at)) {
          const BufferId id = access.window->buffer;
          if (access.dim < 0 || access.step() <= 0 || buffer(id).place != Place::kScratch ||
              segment.internal.contains(id) || refused.contains(id)) {
            continue;
          }
          Segment larger = segment;
          if (add_buffer(larger, id, {access.step(), segment.count}) &&
              (!keep_sound || is_sound(larger))) {
            segment = std::move(larger);
            grown = true;
          } else {
            refused.insert(id);
          }
        }
      }
    }
  }

  // All users of the array join the segment.
  bool add_buffer(Segment& segment, BufferId id, const Axis& axis) {
    if (buffer(id).place != Place::kScratch || buffer(id).bytes % axis.period() != 0) {
      return false;
    }
    for (const int32_t user : users(id)) {
      const auto known = segment.kernels.find(user);
      if (known != segment.kernels.end()) {
        if (!all_lie_along(kernel(user), known->second, id, axis)) {
          return false;
        }
        continue;
      }
      const auto found = axis_of(kernel(user), id, axis);
      if (!found || segment.kernels.size() >= kMostKernels ||
          (kernel(user).is_product() && !products_)) {
        return false;
      }
      segment.kernels.emplace(user, *found);
      if (segment.last() - segment.first() >= kMostSpan) {
        return false;
      }
    }
    segment.internal.emplace(id, axis);
    return true;
  }

  std::optional<size_t> axis_of(Kernel& user, BufferId id, const Axis& axis) {
    if (user.kind != KernelKind::kCopy && !user.fusible()) {
      return std::nullopt;
    }
    for (size_t d = 0; d < domain_of(user).size(); ++d) {
      if (domain_of(user)[d] == axis.count && all_lie_along(user, d, id, axis)) {
        return d;
      }
    }
    return std::nullopt;
  }

  bool all_lie_along(Kernel& user, size_t at, BufferId id, const Axis& axis) {
    bool any = false;
    for (const Access& access : accesses_of(user, at)) {
      if (access.window->buffer == id) {
        any = true;
        if (!lies_along(access, axis)) {
          return false;
        }
      }
    }
    return any;
  }

  // Buffers of one slot, and of an output and the input that it is aliased with, are one memory.
  BufferId memory_of(BufferId id) const { return memory_[static_cast<size_t>(id)]; }

  // What a kernel of the segment reads from another one comes from the same slice, and the kernels
  // between them can move out of the way.
  bool is_sound(const Segment& segment) {
    std::map<BufferId, Axis> written;
    for (const auto& [number, at] : segment.kernels) {
      for (const Access& access : accesses_of(kernel(number), at)) {
        if (!access.write) {
          continue;
        }
        const BufferId id = access.window->buffer;
        const bool aliased = buffer(id).place == Place::kIo && aliased_.contains(buffer(id).slot);
        if (access.dim < 0 || access.step() <= 0 || aliased) {
          return false;
        }
        const Axis axis{access.step(), segment.count};
        const auto [known, is_new] = written.emplace(memory_of(id), axis);
        if ((!is_new && known->second.step != axis.step) || !lies_along(access, axis)) {
          return false;
        }
      }
    }
    for (const auto& [number, at] : segment.kernels) {
      for (const Access& access : accesses_of(kernel(number), at)) {
        const auto known = written.find(memory_of(access.window->buffer));
        if (known != written.end() && !lies_along(access, known->second)) {
          return false;
        }
      }
    }
    return same_block(segment) && can_gather(segment);
  }

  bool same_block(const Segment& segment) {
    const int32_t block = kernel(segment.first()).block;
    for (int32_t k = segment.first(); k <= segment.last(); ++k) {
      if (kernel(k).block != block || kernel(k).is_control()) {
        return false;
      }
    }
    return true;
  }

  // Memory that a kernel uses.
  struct Touched {
    std::vector<BufferId> reads;
    std::vector<BufferId> writes;
  };

  // Who used a memory so far: numbers of the last walks (followers()) in which they did.
  struct Mark {
    uint64_t read = 0;
    uint64_t written = 0;
  };
  enum Side : uint8_t { kInside, kAfter, kSides };
  using Marks = std::array<Mark, kSides>;

  bool must_follow(const Touched& touched, Side side) const {
    const auto at = [&](BufferId id) { return marks_[static_cast<size_t>(id)][side]; };
    return std::ranges::any_of(touched.reads,
                               [&](BufferId id) { return at(id).written == walk_; }) ||
           std::ranges::any_of(touched.writes, [&](BufferId id) {
             return at(id).written == walk_ || at(id).read == walk_;
           });
  }
  void mark(const Touched& touched, Side side) {
    for (const BufferId id : touched.reads) {
      marks_[static_cast<size_t>(id)][side].read = walk_;
    }
    for (const BufferId id : touched.writes) {
      marks_[static_cast<size_t>(id)][side].written = walk_;
    }
  }

  // Kernels between those of the segment that must wait for one of them, in order; nothing if one
  // of the segment needs one of these.
  std::optional<std::vector<int32_t>> followers(const Segment& segment) {
    std::vector<int32_t> made;
    ++walk_;
    auto own = segment.kernels.begin();
    for (int32_t k = segment.first(); k <= segment.last(); ++k) {
      const Touched& now = touched_[static_cast<size_t>(k)];
      if (k == own->first) {
        if (must_follow(now, kAfter)) {
          return std::nullopt;
        }
        mark(now, kInside);
        ++own;
      } else if (must_follow(now, kInside) || must_follow(now, kAfter)) {
        made.push_back(k);
        mark(now, kAfter);
      }
    }
    return made;
  }
  bool can_gather(const Segment& segment) { return followers(segment).has_value(); }

  void apply(const std::map<int32_t, Segment>& chosen) {
    std::vector<Kernel> made;
    made.reserve(plan_.kernels.size());
    size_t done = 0;
    const auto keep_until = [&](size_t end) {
      for (; done < end; ++done) {
        made.push_back(std::move(plan_.kernels[done]));
      }
    };
    for (const auto& [first, segment] : chosen) {
      keep_until(static_cast<size_t>(first));
      append_slices(segment, made);
      done = static_cast<size_t>(segment.last()) + 1;
    }
    keep_until(plan_.kernels.size());
    plan_.kernels = std::move(made);
  }

  // Kernels from the segment's first to its last: others that need not wait, slices, the rest.
  void append_slices(const Segment& segment, std::vector<Kernel>& made) {
    const int64_t slice = slice_of(segment);
    const std::vector<int32_t> later = *followers(segment);
    for (int32_t k = segment.first(); k <= segment.last(); ++k) {
      if (!segment.kernels.contains(k) && !std::ranges::binary_search(later, k)) {
        made.push_back(std::move(kernel(k)));
      }
    }
    for (int64_t start = 0; start < segment.count; start += slice) {
      const int64_t size = std::min(slice, segment.count - start);
      const std::map<BufferId, BufferId> arrays = add_arrays(segment, slice);
      for (const auto& [number, axis] : segment.kernels) {
        made.push_back(slice_kernel(segment, arrays, number, axis, start, size, slice));
      }
    }
    for (const int32_t k : later) {
      made.push_back(std::move(kernel(k)));
    }
  }

  // Arrays for one slice in the place of the internal ones: each slice has its own, so that their
  // lives are short and placing can use the memory again.
  std::map<BufferId, BufferId> add_arrays(const Segment& segment, int64_t slice) {
    std::map<BufferId, BufferId> made;
    for (const auto& [id, axis] : segment.internal) {
      made.emplace(id, static_cast<BufferId>(plan_.buffers.size()));
      plan_.buffers.push_back({Place::kScratch, 0, 0, buffer(id).bytes / axis.count * slice});
    }
    return made;
  }

  // Indices [start, start + size) of the axis; internal arrays hold `slice` of them.
  Kernel slice_kernel(const Segment& segment, const std::map<BufferId, BufferId>& arrays,
                      int32_t number, size_t at, int64_t start, int64_t size, int64_t slice) {
    Kernel made = kernel(number);
    for (const Access& access : accesses_of(made, at)) {
      if (access.dim < 0) {
        continue;
      }
      Window& window = *access.window;
      const auto internal = segment.internal.find(window.buffer);
      if (internal == segment.internal.end()) {
        window.offset += start * access.step();
      } else {
        shrink(access, internal->second, slice);
        window.buffer = arrays.at(window.buffer);
      }
      window.dims[static_cast<size_t>(access.dim)] = size * access.rest;
    }
    if (made.kind != KernelKind::kCopy) {
      made.dims[at] = size;
    }
    if (made.kind == KernelKind::kReduce) {
      made.domain[at] = size;
    }
    return made;
  }

  // The window on an array that has `slice` indices of the axis instead of all.
  static void shrink(const Access& access, const Axis& axis, int64_t slice) {
    Window& window = *access.window;
    const int64_t width = dtype_bytes(window.dtype);
    for (size_t d = 0; d < window.dims.size(); ++d) {
      if (static_cast<int>(d) != access.dim && window.strides[d] * width >= axis.period()) {
        window.strides[d] = window.strides[d] / axis.count * slice;
      }
    }
    window.offset =
        window.offset / axis.period() * (axis.step * slice) + window.offset % axis.period();
  }

  Plan& plan_;
  int64_t tile_bytes_;
  bool products_ = true;                     // may be cut for the array in hand
  std::map<int32_t, int32_t> aliased_;       // slot of an output, its parameter
  std::vector<std::vector<int32_t>> users_;  // by buffer: kernels, ascending
  std::vector<BufferId> memory_;             // by buffer: what stands for its memory
  std::vector<Touched> touched_;             // by kernel
  std::vector<Marks> marks_;                 // by memory
  uint64_t walk_ = 0;
};

}  // namespace

void tile(const Flat& flat, Plan& plan, int64_t tile_bytes) {
  Tiler(flat, plan, tile_bytes).run(tile_bytes, true);
}

void tile_small(const Flat& flat, Plan& plan, int64_t tile_bytes) {
  const int64_t least = tile_bytes / kSeedShare;
  const bool any = std::ranges::any_of(plan.buffers, [&](const Buffer& buffer) {
    return buffer.place == Place::kScratch && buffer.bytes > least;
  });
  if (!any || plan.scratch_bytes <= tile_bytes) {
    return;
  }
  Plan sliced = plan;
  Tiler(flat, sliced, tile_bytes).run(least, false);
  place_scratch(sliced, true);
  if (sliced.scratch_bytes < plan.scratch_bytes - tile_bytes) {
    plan = std::move(sliced);
  }
}

}  // namespace onrt::lowering
