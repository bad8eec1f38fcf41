// SPDX-License-Identifier: Apache-2.0
// Kernels: what becomes one NCX instruction each, over buffers that have no address yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/hir/graph.h"
#include "compiler/lowering/window.h"
#include "emulator/isa/program.h"

namespace onrt::lowering {

// A register of a micro-program under construction: the position in one of its three lists.
struct Reg {
  enum class List : uint8_t { kNone, kHead, kInput, kOp };
  List list = List::kNone;
  uint16_t index = 0;

  bool operator==(const Reg&) const = default;
};

// A fused computation over a domain. Heads are values that come with the instruction: the
// accumulators of a reduce, the sum of a matrix product.
struct Micro {
  struct Op {
    ncx::ScalarOp op = ncx::ScalarOp::kConstant;
    Dtype type = Dtype::kF32;
    std::array<Reg, 3> operands;
    uint64_t immediate = 0;
  };
  struct Output {
    Reg reg;
    Window window;
  };

  std::vector<Dtype> heads;
  std::vector<Window> inputs;
  std::vector<Op> ops;
  std::vector<Output> outputs;
  int expected = 0;  // results that are not outputs yet, but that later operations will read

  Dtype type(Reg reg) const {
    switch (reg.list) {
      case Reg::List::kHead:
        return heads[reg.index];
      case Reg::List::kInput:
        return inputs[reg.index].dtype;
      default:
        return ops[reg.index].type;
    }
  }
  Reg add_input(const Window& window);
  Reg add_op(const Op& op);  // equal constants and iotas are shared
};

// Operations and inputs of a micro-program that its results need, by their places.
struct Needed {
  explicit Needed(const Micro& micro) : ops(micro.ops.size()), inputs(micro.inputs.size()) {}

  void mark(Reg reg);
  // What the marked operations read.
  void close(const Micro& micro);

  std::vector<bool> ops;
  std::vector<bool> inputs;
};

enum class KernelKind : uint8_t {
  kNothing,  // merged into another kernel, or its results are not needed
  kEltwise,
  kReduce,
  kGemm,
  kCopy,
  kGather,
  kScatter,
  kDynamicSlice,
  kDynamicUpdateSlice,
  kRng,
  kLoop,
  kIf,
  kConv,
  kLinalg,
  kSort,
  kReduceWindow,
  kSelectScatter,
};

struct CopyPiece {
  Window source;
  Window destination;
};

struct Kernel {
  KernelKind kind = KernelKind::kNothing;
  hir::ValueId origin = -1;
  int32_t block = 0;  // that it belongs to

  // kLoop: condition, body; kIf: the branches. Their kernels come before this one.
  std::vector<int32_t> blocks;

  // kEltwise: the computation over `dims`. kReduce, kGemm, kConv: the epilogue over the result's
  // `dims`.
  Dims dims;
  Micro tail;

  // kReduce: over the result's dims, then the reduced ones.
  Dims domain;
  Micro prologue;
  std::vector<ncx::ScalarOp> combiners;  // empty: `general`
  ncx::MicroProgram general;
  std::vector<Window> inits;

  // kGemm: rank batch + 2; each dimension of the product is a run of `dims`.
  // kConv: input and kernel as the instruction has them.
  Window lhs;
  Window rhs;
  std::vector<Run> runs;

  std::vector<CopyPiece> pieces;  // kCopy

  // kSort: along `dimension`. kReduceWindow, kSelectScatter: one per dimension of the operand.
  int64_t dimension = 0;
  std::vector<ncx::WindowDimension> window;

  // kSort, kReduceWindow: operands. kSelectScatter: operand, source, initial value.
  // kGather: operand, indices. kScatter: indices, updates. kDynamicSlice: source, starts.
  // kDynamicUpdateSlice: update, starts. kRng: state, or a and b. kLinalg: a, b. kLoop: predicate.
  // kIf: selector.
  std::vector<Window> reads;
  // kScatter, kDynamicUpdateSlice: updated in place. kLoop: carried values. kIf: results.
  std::vector<Window> writes;
  ncx::MicroProgram combiner;  // kScatter, kSelectScatter; kSort: comparator
  ncx::MicroProgram select;    // kSelectScatter
  const hir::Attribute* attributes = nullptr;
  size_t attribute_count = 0;  // of the HLO operation: kGather, kScatter, kConv
  ncx::LinalgKind linalg = ncx::LinalgKind::kCholesky;
  bool unit_diagonal = false;  // kLinalg
  ncx::RngKind rng = ncx::RngKind::kPhilox;
  uint64_t seed = 0;

  bool fusible() const {
    return kind == KernelKind::kEltwise || kind == KernelKind::kReduce || is_product();
  }
  bool is_control() const { return kind == KernelKind::kLoop || kind == KernelKind::kIf; }
  bool is_product() const { return kind == KernelKind::kGemm || kind == KernelKind::kConv; }
  bool in_place() const {
    return kind == KernelKind::kScatter || kind == KernelKind::kDynamicUpdateSlice;
  }
};

// Calls visit(window) for what the kernel reads, and for what it writes. An operand that is
// updated in place is only written.
template <class Visit>
void for_each_read(Kernel& kernel, Visit visit) {
  for (Micro* micro : {&kernel.prologue, &kernel.tail}) {
    for (Window& window : micro->inputs) {
      visit(window);
    }
  }
  for (Window& window : kernel.inits) {
    visit(window);
  }
  if (kernel.is_product()) {
    visit(kernel.lhs);
    visit(kernel.rhs);
  }
  for (CopyPiece& piece : kernel.pieces) {
    visit(piece.source);
  }
  for (Window& window : kernel.reads) {
    visit(window);
  }
}

template <class Visit>
void for_each_write(Kernel& kernel, Visit visit) {
  for (Micro::Output& output : kernel.tail.outputs) {
    visit(output.window);
  }
  for (CopyPiece& piece : kernel.pieces) {
    visit(piece.destination);
  }
  for (Window& window : kernel.writes) {
    visit(window);
  }
}

enum class Place : uint8_t { kScratch, kIo, kConstants };

struct Buffer {
  Place place = Place::kScratch;
  int32_t slot = 0;    // kIo: input by parameter number, or inputs + output number
  int64_t offset = 0;  // kConstants, kScratch: once placed
  int64_t bytes = 0;
};

// Kernels in an order in which producers come first; those of a loop's or conditional's blocks
// directly before it.
struct Plan {
  std::vector<Kernel> kernels;
  int32_t blocks = 1;  // 0 is main; a nested one has a higher number than the one around it
  std::vector<Buffer> buffers;
  std::vector<std::byte> constants;
  int64_t scratch_bytes = 0;
};

}  // namespace onrt::lowering
