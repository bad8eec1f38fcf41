// SPDX-License-Identifier: Apache-2.0
// From flat HIR to kernels: every value becomes a window on a buffer, a register of a kernel that
// can still grow, or a leaf (constant, iota) that its users make anew.
//
// Regions become blocks. A carried value of a loop has one buffer: the initial value's own if
// nobody else needs it. The body's result is made there if nothing reads the old value later, else
// copied at the end of the body. A kernel grows only while its block is being filled.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/lowering/kernel.h"
#include "compiler/passes/flat.h"

namespace onrt::lowering {

using hir::Flat;
using hir::Node;
using hir::Ref;
using hir::Type;

struct LoweringOptions {
  bool fuse = true;  // false (-O0): one kernel per operation, no updates in place
  // Intermediate arrays larger than this are made and used slice by slice where possible; 0: never.
  int64_t tile_bytes = 0;
};

// One run() per object; thread-compatible.
class Lowerer {
 public:
  Lowerer(const Flat& flat, const LoweringOptions& options);

  // Errors: unsupported (the operation is named), internal.
  Result<Plan> run();

  // ---- for the lower_* functions ----

  const Flat& flat() const { return flat_; }
  const Type& type(Ref ref) const { return flat_.type(ref); }
  // One element of these bits, in the constants.
  Window constant(Dtype dtype, uint64_t bits);
  // False at -O0.
  bool fuses() const { return options_.fuse; }
  // The operand's elements in memory; gives a register or leaf a buffer.
  Window window(Ref ref);
  // False if a later operation has changed the elements in place. An operand of the operation in
  // hand is unchanged; ask before looking at an operand's operand.
  bool is_unchanged(Ref ref) const;
  // window() without gaps and in row-major order: copied if need be.
  Window dense(Ref ref, const Node& user);
  // The one element that every element of a value equals, if it is known: its bits.
  std::optional<uint64_t> splat(Ref ref) const;

  // The result of `node` is a view of `base`'s memory.
  void set_view(Ref result, const Window& window, Ref base);
  // The result is complete when kernel `kernel` is.
  void set_window(Ref result, const Window& window, int32_t kernel);

  Window new_buffer(const Type& type);
  // The number of the new kernel.
  int32_t add_kernel(KernelKind kind, const Node& node);
  Kernel& kernel(int32_t number) { return plan_.kernels[static_cast<size_t>(number)]; }
  // Result `result` of the kernel's tail register.
  void set_register(Ref result, int32_t kernel, Reg reg);

  // Appends a scalar operation to a kernel that has its operands, or to a new one.
  Status append_scalar(const Node& node, Ref result, const Micro::Op& op,
                       std::span<const Ref> operands);
  // A buffer with the operand's elements that may be written: the operand's own if nobody else
  // needs it, else a copy.
  Window updatable(Ref operand, const Node& node);

  // If `operands` are results of one elementwise kernel that nobody else needs, takes that kernel
  // out of the plan and returns its computation; outputs are the operands, in order.
  std::optional<Kernel> take_producer(std::span<const Ref> operands);

  // A computation over scalars as a micro-program with these inputs.
  // Errors: unsupported if it isn't made of scalar operations, or is too long.
  Result<ncx::MicroProgram> micro_program(const Node& node, hir::ComputationId computation);

  Status lower_loop(const Node& node, int32_t index);
  Status lower_branches(const Node& node, int32_t index);

  uint64_t next_generator() { return generators_++; }
  int32_t producer(Ref ref) const { return value(ref).kernel; }
  int32_t last_kernel() const { return static_cast<int32_t>(plan_.kernels.size()) - 1; }

 private:
  struct Value {
    int32_t kernel = -1;  // that must be complete (window) or is being built (register)
    Reg reg;
    int32_t pending = 0;             // uses that are still to come
    int32_t reader = -1;             // last kernel that has the window as an elementwise input
    std::unique_ptr<Window> window;  // null: a register, or nothing yet
  };

  struct BufferState {
    int32_t block = 0;     // that its first writer belongs to
    int32_t loop = 0;      // block of the innermost loop in whose every turn it is new; 0: none
    int32_t updated = -1;  // last kernel that changed it in place
    int64_t pending = 0;   // uses to come of all values whose windows are on it
  };
  struct BlockState {
    int32_t loop = 0;   // the innermost block that repeats: this one or one around it; 0: none
    bool open = false;  // it is being filled, or a block inside of it is
  };
  // What a result of a region is to be copied to.
  struct Move {
    Window source;
    Window target;
  };

  Value& value(Ref ref) { return values_[flat_.value_index(ref)]; }
  const Value& value(Ref ref) const { return values_[flat_.value_index(ref)]; }
  Status lower_node(int32_t index);
  void release(Ref ref);
  void release_operands(const Node& node);
  void attach(Value& made, const Window& window, int32_t kernel);
  bool may_overwrite(const Window& window) const;
  int32_t open_block(bool repeats);
  // The block that was being filled.
  int32_t enter(int32_t block);
  void leave(int32_t outer);
  // Live and with elements.
  bool is_made(Ref ref) const;
  Status lower_region(int32_t region);
  std::vector<Window> carry(const Node& node, int32_t index);
  void bind_parameters(const hir::Region& region, std::span<const Window> carried, int32_t index);
  // Uses inside of each branch, by buffer: of values that are windows already.
  using BranchUses = std::unordered_map<BufferId, std::vector<int64_t>>;
  void count_uses(int32_t region, size_t branch, size_t branches, BranchUses& uses) const;
  std::vector<Window> result_buffers(const Node& node, int32_t index, const BranchUses& uses,
                                     std::vector<BufferId>& adopted);
  Window adoptable(const Node& node, size_t result);
  void set_loop(std::span<const Window> windows, int32_t loop);
  void set_results(std::span<const Window> windows, int32_t index, int32_t number);
  void finish_region(const hir::Region& region, std::span<const Window> targets, const Node& node,
                     int32_t index, int32_t first_kernel);
  void make_in_place(std::vector<Move>& moves, int32_t first_kernel);
  void copy_results(std::vector<Move> moves, const Node& node);
  Window copy_of(const Window& window);
  void add_copies(std::span<const CopyPiece> pieces, const Node& node);
  int32_t fusion_target(const Type& result, std::span<const Ref> operands) const;
  int32_t joinable(const Type& result, std::span<const Ref> operands, bool repeats) const;
  Ref cheap_scalar(Ref ref) const;
  bool can_repeat(Ref ref, int32_t number) const;
  Reg repeat(Kernel& kernel, int32_t number, Ref operand);
  bool can_join(const Type& result, std::span<const Ref> operands, int32_t number) const;
  bool fits(const Kernel& kernel, std::span<const Ref> operands, int32_t number) const;
  Window operand_window(Ref operand, std::span<const int64_t> dims);
  Reg operand_register(Kernel& kernel, int32_t number, Ref operand);
  Window add_constant(const Type& type, std::span<const std::byte> data);

  const Flat& flat_;
  LoweringOptions options_;
  Plan plan_;
  std::vector<Value> values_;
  std::vector<BufferState> buffers_;  // by buffer
  std::vector<BlockState> blocks_ = {{0, true}};
  int32_t block_ = 0;        // that is being filled
  uint64_t generators_ = 0;  // rng operations so far
};

// The operand of a conversion to f32 from a narrower float: products convert their operands to f32
// themselves, and from these types that is exact.
Ref without_widening(const Lowerer& lowerer, Ref operand);

// Dispatch over opcodes.def.
Status lower(Lowerer& lowerer, const Node& node, int32_t index);
Status lower_scalar_operation(Lowerer& lowerer, const Node& node, int32_t index);
#define ONRT_OP(name, text, least, most, function) \
  Status lower_##function(Lowerer& lowerer, const Node& node, int32_t index);
#include "compiler/hir/opcodes.def"

// By output number: the parameter that it may share memory with; -1: none.
std::vector<int32_t> aliased_parameters(const Flat& flat);
// Outputs to their slots, aliases kept apart, scratch addresses: after all kernels are made.
Status place_outputs(const Flat& flat, Plan& plan, std::span<const Window> outputs);
void drop_unused(Plan& plan);
void place_scratch(Plan& plan, bool in_place);
// Moves scratch arrays of a placed plan to the memory of results that are written after their
// lives; not if all scratch memory is less than `least`.
void borrow_results(const Flat& flat, Plan& plan, int64_t least);
// Floor division and modulo by constants become shifts and masks (integer_idioms.cc).
void simplify_integers(Plan& plan);
// Kernels compute for themselves what is cheaper to compute again than to keep (recompute.cc):
// arrays of at least `least` bytes.
void recompute(const Flat& flat, Plan& plan, int64_t least);
// Cuts chains of kernels into slices (tile.cc) so that their arrays take about `tile_bytes`.
void tile(const Flat& flat, Plan& plan, int64_t tile_bytes);
// Likewise through smaller arrays, several of which are more than a tile together, but not through
// products, and only if the scratch memory of the plan, which is placed, shrinks by more than a
// tile: an array that is cut can no longer be made in the memory of another.
void tile_small(const Flat& flat, Plan& plan, int64_t tile_bytes);

}  // namespace onrt::lowering
