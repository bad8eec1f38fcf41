// SPDX-License-Identifier: Apache-2.0
// The end of a loop's body or of a branch: its results get to the buffers where they are expected.
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "compiler/lowering/lowerer.h"

namespace onrt::lowering {
namespace {

constexpr size_t kMostPieces = ncx::kMaxCopyPieces / 2;

bool same_elements(const Window& a, const Window& b) {
  return a.dtype == b.dtype && a.offset == b.offset && a.dims == b.dims && a.strides == b.strides;
}

bool is_whole(const Window& window, const Buffer& buffer) {
  return window.offset == 0 && is_dense(window) &&
         element_count(window.dims) * static_cast<int64_t>(dtype_bytes(window.dtype)) ==
             buffer.bytes;
}

// Every read of `target` is of the element that the kernel is about to write to `made`.
bool in_step(Kernel& kernel, BufferId target, BufferId made) {
  if (kernel.is_control() || kernel.in_place()) {
    return false;
  }
  int matched = 0;
  for (const Micro::Output& output : kernel.tail.outputs) {
    for (const Window& input : kernel.tail.inputs) {
      matched += output.window.buffer == made && input.buffer == target &&
                         same_elements(input, output.window)
                     ? 1
                     : 0;
    }
  }
  if (kernel.pieces.size() == 1) {
    const CopyPiece& piece = kernel.pieces[0];
    matched += piece.destination.buffer == made && piece.source.buffer == target &&
                       same_elements(piece.source, piece.destination)
                   ? 1
                   : 0;
  }
  int reads = 0;
  for_each_read(kernel, [&](const Window& window) { reads += window.buffer == target ? 1 : 0; });
  int writes = 0;
  for_each_write(kernel, [&](const Window& window) { writes += window.buffer == target ? 1 : 0; });
  return reads == matched && writes == 0;
}

// First writes and last uses of the buffers of one region, in kernels of its own block.
class Uses {
 public:
  Uses(std::span<Kernel> kernels, int32_t block) : kernels_(kernels) {
    size_t own = kernels.size();
    for (size_t k = kernels.size(); k-- > 0;) {
      own = kernels[k].block == block ? k : own;
      const auto touch = [&](const Window& window) { last_.try_emplace(window.buffer, own); };
      for_each_read(kernels[k], touch);
      for_each_write(kernels[k], [&](const Window& window) {
        touch(window);
        first_write_[window.buffer] = own;
      });
    }
  }

  // True if `made` can be in the memory of `target` from its first write on.
  bool fits(BufferId made, BufferId target) const {
    const auto last = last_.find(target);
    const auto first = first_write_.find(made);
    if (last == last_.end() || first == first_write_.end()) {
      return first != first_write_.end();
    }
    return last->second < first->second ||
           (last->second == first->second && in_step(kernels_[last->second], target, made));
  }

 private:
  std::span<Kernel> kernels_;
  std::unordered_map<BufferId, size_t> last_;
  std::unordered_map<BufferId, size_t> first_write_;
};

}  // namespace

void Lowerer::finish_region(const hir::Region& region, std::span<const Window> targets,
                            const Node& node, int32_t index, int32_t first_kernel) {
  std::vector<Move> moves;
  for (size_t k = 0; k < targets.size(); ++k) {
    if (is_made({index, static_cast<int32_t>(k)})) {
      const Window source = window(region.results[k]);
      if (source != targets[k]) {
        moves.push_back({source, targets[k]});
      }
    }
  }
  for (size_t k = 0; k < targets.size(); ++k) {
    if (flat_.is_live({index, static_cast<int32_t>(k)})) {
      release(region.results[k]);
    }
  }
  if (options_.fuse) {
    make_in_place(moves, first_kernel);
  }
  copy_results(std::move(moves), node);
}

// Results that the region's kernels can write to their targets themselves.
void Lowerer::make_in_place(std::vector<Move>& moves, int32_t first_kernel) {
  const std::span<Kernel> kernels =
      std::span(plan_.kernels).subspan(static_cast<size_t>(first_kernel));
  Uses uses(kernels, block_);
  std::unordered_map<BufferId, int> moved_from;
  for (const Move& move : moves) {
    ++moved_from[move.source.buffer];
  }
  std::unordered_map<BufferId, BufferId> renamed;
  for (const Move& move : moves) {
    const BufferId made = move.source.buffer;
    const Buffer& buffer = plan_.buffers[static_cast<size_t>(made)];
    if (buffer.place == Place::kScratch && is_whole(move.source, buffer) &&
        buffers_[static_cast<size_t>(made)].block == block_ && !renamed.contains(made) &&
        !moved_from.contains(move.target.buffer) && uses.fits(made, move.target.buffer)) {
      renamed[made] = move.target.buffer;
    }
  }
  if (renamed.empty()) {
    return;
  }
  const auto rename = [&](Window& window) {
    const auto found = renamed.find(window.buffer);
    window.buffer = found == renamed.end() ? window.buffer : found->second;
  };
  for (Kernel& kernel : kernels) {
    for_each_read(kernel, rename);
    for_each_write(kernel, rename);
  }
  for (Move& move : moves) {
    rename(move.source);
  }
  std::erase_if(moves, [](const Move& move) { return move.source == move.target; });
}

// Copies such that no source is overwritten before it is read; a ring of values that trade places
// is opened by saving one.
void Lowerer::copy_results(std::vector<Move> moves, const Node& node) {
  std::unordered_map<BufferId, int> readers;       // moves to come that read the buffer
  std::unordered_map<BufferId, size_t> writer_of;  // move whose target it is
  for (size_t i = 0; i < moves.size(); ++i) {
    ++readers[moves[i].source.buffer];
    writer_of[moves[i].target.buffer] = i;
  }
  std::vector<CopyPiece> pieces;
  std::vector<size_t> ready;
  std::vector<bool> done(moves.size(), false);
  const auto read = [&](BufferId buffer) {
    const auto writer = writer_of.find(buffer);
    if (--readers[buffer] == 0 && writer != writer_of.end() && !done[writer->second]) {
      ready.push_back(writer->second);
    }
  };
  for (size_t i = 0; i < moves.size(); ++i) {
    if (readers[moves[i].target.buffer] == 0) {
      ready.push_back(i);
    }
  }
  for (size_t i = 0; i < moves.size() || !ready.empty();) {
    if (!ready.empty()) {
      const size_t next = ready.back();
      ready.pop_back();
      done[next] = true;
      pieces.push_back({moves[next].source, moves[next].target});
      read(moves[next].source.buffer);
    } else if (done[i]) {
      ++i;
    } else {
      const Window from = std::exchange(moves[i].source, copy_of(moves[i].source));
      pieces.push_back({from, moves[i].source});
      ++readers[moves[i].source.buffer];
      read(from.buffer);
    }
  }
  add_copies(pieces, node);
}

// A new buffer for elements like these.
Window Lowerer::copy_of(const Window& window) {
  return new_buffer({window.dtype, window.dims, element_count(window.dims)});
}

void Lowerer::add_copies(std::span<const CopyPiece> pieces, const Node& node) {
  for (size_t at = 0; at < pieces.size(); at += kMostPieces) {
    const int32_t number = add_kernel(KernelKind::kCopy, node);
    const auto part = pieces.subspan(at, std::min(kMostPieces, pieces.size() - at));
    kernel(number).pieces.assign(part.begin(), part.end());
  }
}

}  // namespace onrt::lowering
