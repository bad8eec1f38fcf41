// SPDX-License-Identifier: Apache-2.0
// NCX in memory: what the compiler builds, the encoder writes and the engine runs.
//
// A program is a set of blocks of instructions over three memory spaces. Block 0 is the main block;
// the instructions of a block that name the same engine form that engine's stream and start in
// order. Only semaphores order instructions of different engines. Bytes: isa/encoding.h; rules:
// isa/verify.h; meaning of scalar operations: isa/semantics.def; order of sums: isa/reduce_order.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "emulator/isa/scalar_op.h"
#include "runtime/base/dtype.h"

namespace onrt::ncx {

// Limits of the format. The verifier rejects what is beyond them.
inline constexpr int kMaxRank = 8;
inline constexpr int kMaxMicroOps = 64;
inline constexpr int kMaxMicroInputs = 48;
inline constexpr int kMaxOutputs = 24;
inline constexpr uint32_t kMaxIoSlots = 16384;
inline constexpr uint32_t kMaxSemaphores = 65536;
inline constexpr uint32_t kMaxInstructions = 1u << 20;
inline constexpr uint32_t kMaxBlocks = 4096;
inline constexpr uint32_t kMaxCopyPieces = 65536;
inline constexpr uint32_t kMaxIoRank = 64;
inline constexpr uint32_t kMaxNameBytes = 4096;
inline constexpr int64_t kMaxAxisStep = int64_t{1} << 31;  // strides, dilations, padding
inline constexpr int64_t kMaxElements = int64_t{1} << 62;  // of a view or domain
inline constexpr int64_t kMaxSortLength = (int64_t{1} << 31) - 1;
inline constexpr int64_t kMaxWindowNumber = int64_t{1} << 40;  // of a WindowDimension

// Dimensions of an array or of an iteration domain.
struct Extents {
  uint8_t rank = 0;
  std::array<int64_t, kMaxRank> dims{};
};

enum class Space : uint8_t { kIo = 0, kScratch = 1, kConstants = 2 };

// A typed, strided window on memory. Element (i0, i1, ...) is at byte
// `offset` + sum(i_d * strides[d]) * dtype_bytes. Stride 0 repeats (broadcast), negative reverses.
struct View {
  Space space = Space::kIo;
  uint16_t slot = 0;  // kIo: position in Program::io; 0 otherwise
  Dtype dtype = Dtype::kF32;
  uint8_t rank = 0;
  uint64_t offset = 0;  // bytes from the start of the slot or space
  std::array<int64_t, kMaxRank> dims{};
  std::array<int64_t, kMaxRank> strides{};  // in elements
};

// One scalar operation in SSA form. Registers 0..inputs-1 are the inputs, register inputs + i is
// the result of op i. `type` is the result's; operand types are those of the registers.
struct MicroOp {
  ScalarOp op = ScalarOp::kConstant;
  Dtype type = Dtype::kF32;
  std::array<uint16_t, 3> operands{};
  uint64_t immediate = 0;  // kConstant: the element's bits; kIota: dimension of the domain;
                           // kReducePrecision: exponent bits | mantissa bits << 8
};

// At most kMaxMicroOps ops. Every result is rounded to its type before it is used.
struct MicroProgram {
  std::vector<MicroOp> ops;
  std::vector<uint16_t> results;  // registers
};

// ---- instructions -----------------------------------------------------------------------------
// Views of an instruction have the dims of its domain. An output may be exactly the same view as
// an input (in place); any other overlap of outputs with inputs is the compiler's fault and gives
// unspecified values.

struct Eltwise {
  Extents domain;
  std::vector<View> inputs;
  MicroProgram program;
  std::vector<View> outputs;  // one per result
};

// Domain = kept dimensions, then `reduced` reduced ones. The prologue makes one value per
// accumulator from the inputs; the values of one kept element are combined in the canonical order
// of reduce_order.h and then with the initial value: combine(init, total). The epilogue runs over
// the kept dimensions on the accumulators (registers 0..n-1) and `epilogue_inputs`.
struct Reduce {
  struct Accumulator {
    Dtype type = Dtype::kF32;
    ScalarOp combiner = ScalarOp::kAdd;  // kAdd kMultiply kMinimum kMaximum kAnd kOr kXor
    View init;                           // rank 0, of `type`
  };
  Extents domain;
  uint8_t reduced = 0;
  std::vector<View> inputs;
  MicroProgram prologue;  // results: one per accumulator, of its type
  std::vector<Accumulator> accumulators;
  // When it has results it replaces the combiners: registers 0..n-1 the running values,
  // n..2n-1 the new ones; results: n values of the accumulators' types.
  MicroProgram general;
  std::vector<View> epilogue_inputs;  // dims = kept dims
  MicroProgram epilogue;              // results: one per output
  std::vector<View> outputs;          // dims = kept dims
};

// out[batch.., m, n] = epilogue(sum over k of lhs[batch.., m, k] * rhs[batch.., k, n]).
// The sum is rounded to `type` and becomes register 0 of the epilogue. Floats accumulate in f32,
// integers modulo 2^bits of `type`. At most 4 batch dimensions.
struct Gemm {
  View lhs;
  View rhs;
  Dtype type = Dtype::kF32;
  std::vector<View> epilogue_inputs;  // dims = batch.., m, n
  MicroProgram epilogue;
  std::vector<View> outputs;  // dims = batch.., m, n
};

// Convolution. Element `c` of the input's coordinate system along an axis is the input's element
// c / base_dilation if base_dilation divides c and that element exists, a hole if it does not
// divide it, and +0 outside. The kernel's position w meets the output's position o at
// c = o * stride + w * dilation - low. Then
//   out[group, batch, f, o..] =
//       epilogue(sum over w.. and c of input[group, batch, c, ..] * kernel[group, c, f, w..])
// with terms in the order of reduce_order.h. Views may be reversed and split as they like: HLO's
// window reversal is a kernel with negative strides, feature and batch groups are dimensions.
struct Conv {
  struct Axis {
    int64_t stride = 1;
    int64_t low = 0;  // elements of padding before the input; negative: elements left out
    int64_t dilation = 1;
    int64_t base_dilation = 1;
  };
  View input;   // [group, batch, feature, spatial..]
  View kernel;  // [group, feature, output feature, spatial..]
  std::vector<Axis> axes;
  Dtype type = Dtype::kF32;
  std::vector<View> epilogue_inputs;  // [group, batch, output feature, spatial..]
  MicroProgram epilogue;
  std::vector<View> outputs;  // as epilogue_inputs
};

// Pieces are copied in order: a pad is a broadcast scalar, then the operand; a concatenation is a
// piece per operand. Same dtype and dims on both sides; bits are not changed.
struct Copy {
  struct Piece {
    View source;
    View destination;
  };
  std::vector<Piece> pieces;
};

// HLO gather: fields are those of GatherDimensionNumbers. Start indices are clamped.
struct Gather {
  View operand;
  View indices;
  View output;
  std::vector<int64_t> offset_dims;
  std::vector<int64_t> collapsed_slice_dims;
  std::vector<int64_t> start_index_map;
  std::vector<int64_t> operand_batching_dims;
  std::vector<int64_t> start_indices_batching_dims;
  int64_t index_vector_dim = 0;
  std::vector<int64_t> slice_sizes;
};

// HLO scatter, in place: `outputs` already hold the operands. Updates are applied one index vector
// after the other, in row-major order of the batch dimensions; an index vector whose window leaves
// the operand is skipped. Combiner registers: n current values, n update values; results: n new
// values.
struct Scatter {
  std::vector<View> outputs;
  View indices;
  std::vector<View> updates;
  MicroProgram combiner;
  std::vector<int64_t> update_window_dims;
  std::vector<int64_t> inserted_window_dims;
  std::vector<int64_t> scatter_dims_to_operand_dims;
  std::vector<int64_t> input_batching_dims;
  std::vector<int64_t> scatter_indices_batching_dims;
  int64_t index_vector_dim = 0;
};

// destination = source[starts...], the start clamped so that the window fits.
struct DynamicSlice {
  View source;
  View destination;
  std::vector<View> starts;  // rank 0, integers, one per dimension of source
};

// destination[starts...] = update, in place: `destination` already holds the operand.
struct DynamicUpdateSlice {
  View destination;
  View update;
  std::vector<View> starts;
};

enum class RngKind : uint8_t { kThreeFry = 1, kPhilox = 2, kUniform = 3, kNormal = 4 };

// kThreeFry, kPhilox: rng-bit-generator: state (u64[2] or u64[3]) -> state_out, output bits.
// kUniform, kNormal: HLO rng with parameters a, b (rank 0, of output's type): [a, b) or mean and
// deviation. Their stream is a function of `seed` and the number of the execution.
struct Rng {
  RngKind kind = RngKind::kPhilox;
  View output;
  View state;      // bit generators
  View state_out;  // bit generators
  View a;          // distributions
  View b;
  uint64_t seed = 0;
};

// Dense linear algebra on the last two dimensions, in f32 whatever the type (results are rounded
// once). Only the lower triangle of `a` is read; upper triangles, transposed operands and systems
// on the right are views (transposed, or reversed along both dimensions).
//   kCholesky: output = L with L L^T = a, +0 above the diagonal; NaN where a isn't positive
//   definite.
//     For ascending k, l[i][j] starts at a[i][j] and takes - l[i][k] * l[j][k] (each product and
//     each difference rounded), then is divided by l[j][j], the root of its own remainder.
//   kTriangularSolve: a output = b. For ascending j, x[i][c] starts at b[i][c] and takes
//     - a[i][j] * x[j][c] (each product and each difference rounded), then is divided by a[i][i].
enum class LinalgKind : uint8_t { kCholesky = 0, kTriangularSolve = 1 };
struct Linalg {
  LinalgKind kind = LinalgKind::kCholesky;
  uint8_t unit_diagonal = 0;  // solve: the diagonal is 1, whatever `a` holds
  View a;                     // [batch.., n, n]
  View b;                     // solve: [batch.., n, columns]
  View output;                // as `a`, or as `b`
};

// Control flow. A nested block has its own streams and starts with all semaphores at zero.
struct Loop {  // while: run `condition`, read `predicate` (pred, rank 0), run `body`, again
  uint32_t condition = 0;
  uint32_t body = 0;
  View predicate;
};
struct If {  // conditional: selector pred (true: branch 0) or s32 (clamped to the last branch)
  View selector;
  std::vector<uint32_t> branches;
};
struct Call {
  uint32_t block = 0;
};

// HLO sort: the rows along `dimension` of all inputs are put into one order, the stable one of
// sort_order.h. An output may have fewer elements along `dimension`: it gets the first ones. One
// output more than inputs, s32 or u32, gets the positions from which the elements come. No output
// overlaps an input.
struct Sort {
  std::vector<View> inputs;   // same dims
  std::vector<View> outputs;  // same dims
  uint8_t dimension = 0;
  // Registers 2i and 2i + 1: an element of input i and another one; result: pred, true if the first
  // must come before the second.
  MicroProgram comparator;
};

// One dimension of an HLO window. Element i of the operand is at place i * base_dilation; place k
// of window o is at o * stride - padding_low + k * window_dilation. Places without an element count
// for nothing.
struct WindowDimension {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t padding_low = 0;  // negative: leaves elements out
  int64_t window_dilation = 1;
  int64_t base_dilation = 1;
};

// HLO reduce-window: each output element combines the elements of its window in the order of
// reduce_order.h. The outputs' dims say how many windows there are (padding_high is not needed).
struct ReduceWindow {
  std::vector<View> inputs;                       // same dims
  std::vector<WindowDimension> window;            // one per dimension
  std::vector<Reduce::Accumulator> accumulators;  // one per input, of its type
  MicroProgram general;                           // as in Reduce
  std::vector<View> outputs;                      // one per input, same dims
};

// HLO select-and-scatter: `output` is filled with `init`; each element of `source` is then combined
// into the output element whose place in the operand its window selects. Windows in row-major order
// of `source`; inside a window the first element is selected, then element x instead of s unless
// select(s, x).
struct SelectScatter {
  View operand;
  View source;  // dims: how many windows there are
  View init;    // rank 0
  View output;  // dims of operand
  std::vector<WindowDimension> window;
  MicroProgram select;   // (selected, element) -> pred: keep the selected one
  MicroProgram scatter;  // (output element, source element) -> output element
};

// The position in this list is the opcode in the encoding: append only.
using Payload =
    std::variant<Eltwise, Reduce, Gemm, Copy, Gather, Scatter, DynamicSlice, DynamicUpdateSlice,
                 Rng, Loop, If, Call, Conv, Linalg, Sort, ReduceWindow, SelectScatter>;

enum class Engine : uint8_t { kPe = 0, kAct = 1, kPool = 2, kDve = 3, kSp = 4 };
inline constexpr int kEngines = 5;

struct SemaphoreWait {
  uint16_t semaphore = 0;
  uint32_t value = 0;  // waits until the semaphore is at least this
};
struct SemaphoreIncrement {
  uint16_t semaphore = 0;
  uint32_t value = 1;
};

struct Instruction {
  Payload payload;
  Engine engine = Engine::kDve;
  std::vector<SemaphoreWait> waits;            // all must hold before it starts
  std::vector<SemaphoreIncrement> increments;  // when it is complete
  uint32_t name = 0;                           // position in Program::names
};

struct Block {
  std::vector<Instruction> instructions;
};

enum class SlotUsage : uint8_t { kInput = 0, kOutput = 1 };

struct IoSlot {
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> dims;
  uint64_t bytes = 0;
  SlotUsage usage = SlotUsage::kInput;
};

struct Program {
  uint32_t core_version = 3;  // NeuronCore generation: 2, 3 or 4
  uint32_t flags = 0;         // reserved, 0
  std::vector<IoSlot> io;     // inputs by parameter number, then outputs
  uint64_t constants_bytes = 0;
  uint64_t scratch_bytes = 0;
  uint32_t semaphores = 0;
  std::vector<Block> blocks;       // [0] is main
  std::vector<std::string> names;  // of HLO instructions, for messages and profiles
};

}  // namespace onrt::ncx
