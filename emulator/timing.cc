// SPDX-License-Identifier: Apache-2.0
#include "emulator/timing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "emulator/isa/scalar_op.h"

namespace onrt {
namespace {

using ncx::Engine;
using ncx::ScalarOp;
using ncx::View;

constexpr std::string_view kArchGuide2 =
    "NKI documentation, Trainium/Inferentia2 architecture guide";
constexpr std::string_view kArchGuide3 = "NKI documentation, Trainium2 architecture guide";
constexpr std::string_view kArchGuide4 = "NKI documentation, Trainium3 architecture guide";
constexpr std::string_view kInstructionCosts =
    "nki.isa API reference, instruction cost notes of SDK 2.26 and earlier";
constexpr std::string_view kDmaGuide = "NKI documentation, DMA performance guide";
constexpr std::string_view kChoice = "choice of this model; not published";

struct Row {
  TimingKey key;
  std::string_view name;
  std::array<double, 3> value;  // core v2, v3, v4
  std::string_view unit;
  std::array<std::string_view, 3> source;
};

constexpr std::array<std::string_view, 3> kGuides = {kArchGuide2, kArchGuide3, kArchGuide4};
constexpr std::array<std::string_view, 3> same(std::string_view source) {
  return {source, source, source};
}

const std::array<Row, kTimingKeys> kRows = {{
    {TimingKey::kTensorGhz, "tensor engine clock", {2.8, 2.4, 2.4}, "GHz", kGuides},
    {TimingKey::kVectorGhz, "vector engine clock", {1.12, 0.96, 1.2}, "GHz", kGuides},
    {TimingKey::kScalarGhz, "scalar engine clock", {1.4, 1.2, 1.2}, "GHz", kGuides},
    {TimingKey::kGpsimdGhz, "gpsimd engine clock", {1.4, 1.2, 1.2}, "GHz", kGuides},
    {TimingKey::kSyncGhz, "sync engine clock", {1.4, 1.2, 1.2}, "GHz", same(kChoice)},
    {TimingKey::kDmaBytesPerNs, "DMA bandwidth, 16 engines", {272, 368, 528}, "B/ns", kGuides},
    {TimingKey::kDmaStartNs, "DMA start to semaphore", {1300, 1300, 1300}, "ns", same(kDmaGuide)},
    {TimingKey::kDmaSmallestDescriptor,
     "smaller descriptors are charged as",
     {512, 512, 512},
     "B",
     same(kChoice)},
    {TimingKey::kPartitions, "SBUF partitions", {128, 128, 128}, "", kGuides},
    {TimingKey::kMatmulRows, "stationary tile, K and M", {128, 128, 128}, "", kGuides},
    {TimingKey::kMatmulColumns, "moving tile, N", {512, 512, 512}, "", kGuides},
    {TimingKey::kMatmulF32Passes,
     "passes of an f32 matmul",
     {4, 4, 4},
     "",
     same(kInstructionCosts)},
    {TimingKey::kMatmulF8Speedup, "fp8 matmul speed over bf16", {1, 2, 4}, "", kGuides},
    {TimingKey::kLeastCycles,
     "least cycles of an instruction",
     {64, 64, 64},
     "cycles",
     same(kInstructionCosts)},
    {TimingKey::kIssueCycles,
     "static issue overhead",
     {100, 100, 100},
     "cycles",
     same(kInstructionCosts)},
    {TimingKey::kPoolStartCycles,
     "gpsimd instruction start",
     {150, 150, 150},
     "cycles",
     same(kInstructionCosts)},
    {TimingKey::kTileElements,
     "elements of a tile in a partition",
     {2048, 2048, 2048},
     "",
     same(kChoice)},
    {TimingKey::kTopKCycles,
     "top-k, an element of a row",
     {4, 4, 4},
     "cycles",
     same(kInstructionCosts)},
    {TimingKey::kMergeCycles,
     "merge pass of a sort, an element",
     {4, 4, 4},
     "cycles",
     same(kChoice)},
}};

double elements_of(const View& view) {
  double n = 1;
  for (int d = 0; d < view.rank; ++d) {
    n *= static_cast<double>(view.dims[static_cast<size_t>(d)]);
  }
  return n;
}

// Bytes of a view that have to be read once: broadcast dimensions don't count.
double bytes_of(const View& view) {
  double n = dtype_bytes(view.dtype);
  for (int d = 0; d < view.rank; ++d) {
    const auto dim = static_cast<size_t>(d);
    n *= view.strides[dim] == 0 ? 1.0 : static_cast<double>(view.dims[dim]);
  }
  return n;
}

// Bytes of the longest contiguous run: what one DMA descriptor can move.
double run_of(const View& view) {
  double run = dtype_bytes(view.dtype);
  int64_t want = 1;
  for (int d = view.rank - 1; d >= 0; --d) {
    const auto dim = static_cast<size_t>(d);
    if (view.strides[dim] != want || view.dims[dim] == 0) {
      break;
    }
    run *= static_cast<double>(view.dims[dim]);
    want *= view.dims[dim];
  }
  return run;
}

// Adds up the cost of one instruction.
class Tally {
 public:
  Tally(const TimingModel& model, Engine engine) : model_(model), engine_(engine) {}

  void move(const View& view) { move(bytes_of(view), run_of(view)); }
  void move(double bytes, double run) {
    if (bytes <= 0) {
      return;
    }
    bytes_ += bytes;
    charged_ += bytes * std::max(1.0, model_[TimingKey::kDmaSmallestDescriptor] / run);
  }

  // An instruction over `elements` spread over the partitions, `passes` cycles per element of one.
  void vector_op(double elements, double passes) {
    const double per_partition = std::ceil(elements / model_[TimingKey::kPartitions]);
    const double tiles = std::max(1.0, std::ceil(per_partition / model_[TimingKey::kTileElements]));
    const double start = engine_ == Engine::kPool ? model_[TimingKey::kPoolStartCycles] : 0.0;
    cycles_ +=
        tiles * start + std::max(tiles * model_[TimingKey::kLeastCycles], per_partition * passes);
  }
  void cycles(double n) { cycles_ += n; }
  void flops(double n) { flops_ += n; }

  void micro(const ncx::MicroProgram& program, double elements) {
    for (const ncx::MicroOp& op : program.ops) {
      if (op.op != ScalarOp::kConstant) {
        vector_op(elements, passes_of(op));
        flops_ += elements;
      }
    }
  }

  InstructionCost finish() const {
    InstructionCost cost;
    cost.flops = flops_;
    cost.engine_ns = (cycles_ + model_[TimingKey::kIssueCycles]) / model_.ghz(engine_);
    if (bytes_ > 0) {
      cost.dma_bytes = static_cast<uint64_t>(bytes_);
      cost.dma_ns = model_[TimingKey::kDmaStartNs] + charged_ / model_[TimingKey::kDmaBytesPerNs];
    }
    return cost;
  }

 private:
  // Cycles per element: tensor_tensor on the vector engine takes two for f32, one for bf16; the
  // reciprocal of a division eight; other instructions one.
  static double passes_of(const ncx::MicroOp& op) {
    switch (op.op) {
      case ScalarOp::kDivide:
      case ScalarOp::kRemainder:
        return 8;
      case ScalarOp::kAdd:
      case ScalarOp::kSubtract:
      case ScalarOp::kMultiply:
      case ScalarOp::kMaximum:
      case ScalarOp::kMinimum:
      case ScalarOp::kSelect:
        return dtype_bytes(op.type) <= 2 ? 1 : 2;
      case ScalarOp::kPower:
      case ScalarOp::kAtan2:
        return 16;
      default:
        return 1;
    }
  }

  const TimingModel& model_;
  Engine engine_;
  double cycles_ = 0;
  double bytes_ = 0;
  double charged_ = 0;
  double flops_ = 0;
};

double product(const ncx::Extents& extents) {
  double n = 1;
  for (int d = 0; d < extents.rank; ++d) {
    n *= static_cast<double>(extents.dims[static_cast<size_t>(d)]);
  }
  return n;
}

void add_cost(Tally& tally, const TimingModel&, const ncx::Eltwise& op) {
  for (const View& view : op.inputs) {
    tally.move(view);
  }
  for (const View& view : op.outputs) {
    tally.move(view);
  }
  const double n = product(op.domain);
  if (op.program.ops.empty()) {
    tally.vector_op(n, 1);
  }
  tally.micro(op.program, n);
}

void add_cost(Tally& tally, const TimingModel&, const ncx::Reduce& op) {
  for (const auto* views : {&op.inputs, &op.epilogue_inputs, &op.outputs}) {
    for (const View& view : *views) {
      tally.move(view);
    }
  }
  const double n = product(op.domain);
  tally.micro(op.prologue, n);
  if (op.general.results.empty()) {
    for (const auto& accumulator : op.accumulators) {
      tally.vector_op(n, dtype_bytes(accumulator.type) <= 2 ? 0.5 : 1);
      tally.flops(n);
    }
  } else {
    tally.micro(op.general, n);
  }
  tally.micro(op.epilogue, elements_of(op.outputs[0]));
}

// Cycles of the tensor engine for `m` by `k` stationary values and `n` moving ones; `width` is that
// of the wider operand's elements.
double matmul_cycles(const TimingModel& model, double m, double k, double n, uint32_t width) {
  const double rows = model[TimingKey::kMatmulRows];
  const double columns = model[TimingKey::kMatmulColumns];
  const double steps = std::ceil(m / rows) * std::ceil(k / rows);
  double cycles = 0;
  if (n > 0) {
    const double full = std::floor(n / columns);
    const double rest = n - full * columns;
    cycles = steps *
             (full * columns + (rest > 0 ? std::max(rest, model[TimingKey::kLeastCycles]) : 0.0));
  }
  if (width >= 4) {
    cycles *= model[TimingKey::kMatmulF32Passes];
  } else if (width == 1) {
    cycles /= model[TimingKey::kMatmulF8Speedup];
  }
  return cycles;
}

// A product of features by terms with terms by positions for each group, its input read once.
void add_cost(Tally& tally, const TimingModel& model, const ncx::Conv& op) {
  double terms = static_cast<double>(op.kernel.dims[1]);
  auto positions = static_cast<double>(op.outputs[0].dims[1]);
  for (size_t d = 0; d < op.axes.size(); ++d) {
    terms *= std::ceil(static_cast<double>(op.kernel.dims[3 + d]) /
                       static_cast<double>(op.axes[d].base_dilation));
    positions *= static_cast<double>(op.outputs[0].dims[3 + d]);
  }
  const uint32_t width = std::max(dtype_bytes(op.input.dtype), dtype_bytes(op.kernel.dtype));
  const auto groups = static_cast<double>(op.input.dims[0]);
  const auto features = static_cast<double>(op.kernel.dims[2]);
  tally.cycles(groups * matmul_cycles(model, features, terms, positions, width));
  tally.flops(2 * groups * features * terms * positions);
  tally.micro(op.epilogue, groups * features * positions);
  tally.move(op.input);
  tally.move(op.kernel);
  for (const auto* views : {&op.epilogue_inputs, &op.outputs}) {
    for (const View& view : *views) {
      tally.move(view);
    }
  }
}

// Column after column: each step is an update of what is left by a vector instruction.
void add_cost(Tally& tally, const TimingModel&, const ncx::Linalg& op) {
  const bool solve = op.kind == ncx::LinalgKind::kTriangularSolve;
  const auto n = op.a.dims[static_cast<size_t>(op.a.rank - 1)];
  const double steps = static_cast<double>(n);
  const double products = elements_of(op.output) * steps / (solve ? 2.0 : 6.0);
  tally.vector_op(products, 2);
  tally.flops(2 * products);
  tally.move(op.a);
  if (solve) {
    tally.move(op.b);
  }
  tally.move(op.output);
}

void add_cost(Tally& tally, const TimingModel& model, const ncx::Gemm& op) {
  const auto rank = static_cast<size_t>(op.lhs.rank);
  const auto m = static_cast<double>(op.lhs.dims[rank - 2]);
  const auto k = static_cast<double>(op.lhs.dims[rank - 1]);
  const auto n = static_cast<double>(op.rhs.dims[rank - 1]);
  double batch = 1;
  for (size_t d = 0; d + 2 < rank; ++d) {
    batch *= static_cast<double>(op.lhs.dims[d]);
  }
  const uint32_t width = std::max(dtype_bytes(op.lhs.dtype), dtype_bytes(op.rhs.dtype));
  tally.cycles(batch * matmul_cycles(model, m, k, n, width));
  tally.flops(2 * batch * m * n * k);
  tally.micro(op.epilogue, batch * m * n);
  tally.move(op.lhs);
  tally.move(op.rhs);
  for (const View& view : op.epilogue_inputs) {
    tally.move(view);
  }
  for (const View& view : op.outputs) {
    tally.move(view);
  }
}

void add_cost(Tally& tally, const TimingModel&, const ncx::Copy& op) {
  for (const auto& piece : op.pieces) {
    // HBM to HBM: one descriptor moves what is contiguous on both sides.
    const double bytes = elements_of(piece.destination) * dtype_bytes(piece.destination.dtype);
    tally.move(bytes, std::max(1.0, std::min(run_of(piece.source), run_of(piece.destination))));
  }
}

void add_cost(Tally& tally, const TimingModel&, const ncx::Gather& op) {
  double slice = dtype_bytes(op.operand.dtype);
  for (const int64_t size : op.slice_sizes) {
    slice *= static_cast<double>(size);
  }
  const double bytes = elements_of(op.output) * dtype_bytes(op.output.dtype);
  tally.move(op.indices);
  tally.move(bytes, std::max(1.0, slice));
  tally.vector_op(elements_of(op.indices), 1);
}

void add_cost(Tally& tally, const TimingModel&, const ncx::Scatter& op) {
  tally.move(op.indices);
  for (const View& view : op.updates) {
    const double bytes = elements_of(view) * dtype_bytes(view.dtype);
    const double run = std::max(1.0, run_of(view));
    tally.move(bytes, run);
    tally.move(2 * bytes, run);  // read, combine, write
  }
  tally.micro(op.combiner, elements_of(op.updates[0]));
}

void add_cost(Tally& tally, const TimingModel&, const ncx::DynamicSlice& op) {
  tally.move(op.destination);
}
void add_cost(Tally& tally, const TimingModel&, const ncx::DynamicUpdateSlice& op) {
  tally.move(op.update);
}

void add_cost(Tally& tally, const TimingModel&, const ncx::Rng& op) {
  tally.move(op.output);
  tally.vector_op(elements_of(op.output), 4);
}

// Top-k by the published cost of its instruction; a full sort by merge passes over rows that are
// spread over the partitions, two moves and one comparison an element and pass.
void add_cost(Tally& tally, const TimingModel& model, const ncx::Sort& op) {
  for (const auto* views : {&op.inputs, &op.outputs}) {
    for (const View& view : *views) {
      tally.move(view);
    }
  }
  const double n = elements_of(op.inputs[0]);
  const auto length = static_cast<double>(op.inputs[0].dims[op.dimension]);
  const auto kept = static_cast<double>(op.outputs[0].dims[op.dimension]);
  if (kept < length) {
    const double rows = std::ceil(n / length / model[TimingKey::kPartitions]);
    tally.cycles(rows * (model[TimingKey::kTopKCycles] * length + kept));
    return;
  }
  const double passes = std::ceil(std::log2(std::max(length, 2.0)));
  tally.vector_op(n,
                  passes * model[TimingKey::kMergeCycles] * static_cast<double>(op.inputs.size()));
  tally.micro(op.comparator, n * passes);
}

// Places of all windows together.
double places_of(const View& windows, const std::vector<ncx::WindowDimension>& window) {
  double n = elements_of(windows);
  for (const ncx::WindowDimension& dimension : window) {
    n *= static_cast<double>(dimension.size);
  }
  return n;
}

// tensor_reduce over the places of the windows; a running fold is one scan of the operand.
void add_cost(Tally& tally, const TimingModel&, const ncx::ReduceWindow& op) {
  for (const auto* views : {&op.inputs, &op.outputs}) {
    for (const View& view : *views) {
      tally.move(view);
    }
  }
  bool running = false;
  for (size_t d = 0; d < op.window.size(); ++d) {
    const ncx::WindowDimension& w = op.window[d];
    running = running || (w.size > 1 && w.size >= op.inputs[0].dims[d] && w.stride == 1);
  }
  const double n = running ? 2 * elements_of(op.inputs[0]) : places_of(op.outputs[0], op.window);
  if (!op.general.results.empty()) {
    tally.micro(op.general, n);
    return;
  }
  for (const View& view : op.inputs) {
    tally.vector_op(n, dtype_bytes(view.dtype) <= 2 ? 0.5 : 1);
    tally.flops(n);
  }
}

void add_cost(Tally& tally, const TimingModel&, const ncx::SelectScatter& op) {
  for (const View* view : {&op.operand, &op.source, &op.output}) {
    tally.move(*view);
  }
  tally.micro(op.select, places_of(op.source, op.window));
  tally.vector_op(elements_of(op.output), 1);  // the initial value
  tally.micro(op.scatter, elements_of(op.source));
}

void add_cost(Tally&, const TimingModel&, const ncx::Loop&) {}
void add_cost(Tally&, const TimingModel&, const ncx::If&) {}
void add_cost(Tally&, const TimingModel&, const ncx::Call&) {}

}  // namespace

TimingModel::TimingModel(uint32_t core_version) {
  const size_t column = std::clamp<size_t>(core_version, 2, 4) - 2;
  for (const Row& row : kRows) {
    constants_[static_cast<size_t>(row.key)] = {row.name, row.value[column], row.unit,
                                                row.source[column]};
  }
}

const TimingModel& TimingModel::of(uint32_t core_version) {
  static const TimingModel kModels[] = {TimingModel(2), TimingModel(3), TimingModel(4)};
  return kModels[std::clamp<size_t>(core_version, 2, 4) - 2];
}

double TimingModel::ghz(Engine engine) const {
  switch (engine) {
    case Engine::kPe:
      return (*this)[TimingKey::kTensorGhz];
    case Engine::kAct:
      return (*this)[TimingKey::kScalarGhz];
    case Engine::kPool:
      return (*this)[TimingKey::kGpsimdGhz];
    case Engine::kDve:
      return (*this)[TimingKey::kVectorGhz];
    default:
      return (*this)[TimingKey::kSyncGhz];
  }
}

InstructionCost cost_of(const ncx::Instruction& instruction, const TimingModel& model) {
  Tally tally(model, instruction.engine);
  std::visit([&](const auto& op) { add_cost(tally, model, op); }, instruction.payload);
  return tally.finish();
}

}  // namespace onrt
