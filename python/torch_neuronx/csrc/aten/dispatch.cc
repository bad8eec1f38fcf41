// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/aten/dispatch.h"

#include <ATen/core/List.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "python/torch_neuronx/csrc/aten/backend.h"
#include "python/torch_neuronx/csrc/aten/indexing.h"
#include "python/torch_neuronx/csrc/aten/tensor.h"
#include "python/torch_neuronx/csrc/device.h"
#include "python/torch_neuronx/csrc/lower/lowering.h"
#include "python/torch_neuronx/csrc/program.h"

namespace tnx {
namespace {

using Stack = torch::jit::Stack;

// ---- what ran where -----------------------------------------------------------------------------

struct Tracker {
  std::mutex mutex;
  std::unordered_map<std::string, OpCount> counts;
  std::set<std::string> warned;
  std::function<std::string()> source_hook;
  std::atomic<FallbackMode> mode{FallbackMode::kWarn};

  static Tracker& get() {
    static auto* const self = new Tracker;
    return *self;
  }
  OpCount& of(const std::string& name) {  // with the lock held
    OpCount& count = counts[name];
    count.name = name;
    return count;
  }
};

std::string full_name(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

uint64_t bytes_of_stack(const Stack& stack, size_t from) {
  uint64_t bytes = 0;
  for (size_t i = from; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      const at::Tensor& tensor = stack[i].toTensor();
      bytes += tensor.defined() ? tensor.nbytes() : 0;
    } else if (stack[i].isTensorList()) {
      for (const at::Tensor& tensor : stack[i].toTensorVector()) {
        bytes += tensor.defined() ? tensor.nbytes() : 0;
      }
    }
  }
  return bytes;
}

// Runs the operation on the CPU: copies there and back.
void fall_back(const c10::OperatorHandle& op, Stack* stack, const std::string& reason) {
  Tracker& tracker = Tracker::get();
  const std::string name = full_name(op);
  const FallbackMode mode = tracker.mode.load();
  TORCH_CHECK_NOT_IMPLEMENTED(mode != FallbackMode::kError, name,
                              " is not implemented on device neuron (", reason,
                              ") and falling back to the CPU is off");
  bool warn = false;
  bool first = false;
  {
    const std::lock_guard lock(tracker.mutex);
    first = !tracker.counts.contains(name);
    warn = tracker.warned.insert(name).second && mode == FallbackMode::kWarn;
  }
  if (warn) {
    TORCH_WARN(name, " runs on the CPU (", reason,
               "); torch_neuronx.get_fallback_ops() lists what did");
  }
  // Without the lock: the hook takes Python's.
  const std::string source = first && tracker.source_hook ? tracker.source_hook() : "";
  const size_t begin = stack->size() - op.schema().arguments().size();
  const uint64_t in = bytes_of_stack(*stack, begin);
  const auto start = std::chrono::steady_clock::now();
  at::native::cpu_fallback(op, stack);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const size_t results = std::min(op.schema().returns().size(), stack->size());
  const std::lock_guard lock(tracker.mutex);
  OpCount& count = tracker.of(name);
  ++count.fallback;
  count.fallback_bytes += in + bytes_of_stack(*stack, stack->size() - results);
  count.fallback_seconds += seconds.count();
  count.reason = reason;
  if (!source.empty()) {
    count.source = source;
  }
}

void fallback_kernel(const c10::OperatorHandle& op, Stack* stack) {
  fall_back(op, stack, "no lowering");
}

// ---- one call -----------------------------------------------------------------------------------

using Key = std::vector<int64_t>;

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0x9e3779b97f4a7c15;
    for (const int64_t word : key) {
      hash = (hash ^ static_cast<uint64_t>(word)) * 0xff51afd7ed558ccd;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// A view of device memory that the program reads.
struct Input {
  at::Tensor tensor;
  const c10::StorageImpl* storage = nullptr;  // tensor's when the call was made
  Layout layout;
  Type type = kF32;
  int64_t length = 0;  // of the flat array, elements
};

struct ScalarUse {
  size_t argument;
  size_t element;
  Number number;
};

// Arguments as the key sees them. References to tensors of the stack are by position.
struct Parsed {
  // Past this many inputs (lists of a whole model's parameters) they are found by a table.
  static constexpr size_t kFewInputs = 32;

  // Calls f(number of an input) for those of one storage, until it gives true.
  template <class F>
  bool any_in_storage(const c10::StorageImpl* storage, F&& f) const {
    if (by_storage.empty()) {
      for (size_t n = 0; n < inputs.size(); ++n) {
        if (inputs[n].storage == storage && f(n)) {
          return true;
        }
      }
      return false;
    }
    const auto at = by_storage.find(storage);
    return at != by_storage.end() && std::any_of(at->second.begin(), at->second.end(), f);
  }
  void add_input(Input input) {
    inputs.push_back(std::move(input));
    if (inputs.size() > kFewInputs) {
      for (size_t n = by_storage.empty() ? 0 : inputs.size() - 1; n < inputs.size(); ++n) {
        by_storage[inputs[n].storage].push_back(n);
      }
    }
  }

  Key key;
  int device = -1;
  std::vector<Input> inputs;  // each view once; added by add_input()
  std::unordered_map<const c10::StorageImpl*, std::vector<size_t>> by_storage;
  std::vector<std::vector<int>> uses;  // per argument: input numbers; -1: none, -2: empty
  std::vector<ScalarUse> scalars;      // those that are inputs
  std::vector<at::Tensor> held;        // copies made for this call
  std::optional<at::Generator> generator;
  bool foreign = false;  // a type that no program holds
};

enum Tag : int64_t {
  kTagNone,
  kTagTensor,
  kTagEmpty,
  kTagCpuScalar,
  kTagNumber,
  kTagList,
  kTagText,
  kTagKnown
};

c10::TypeKind kind_of(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  while (type->kind() == c10::TypeKind::OptionalType) {
    type = type->castRaw<c10::OptionalType>()->getElementType();
  }
  return type->kind();
}

Number number_of(const c10::IValue& value) {
  Number number;
  if (value.isBool()) {
    number = {Number::Kind::kBool, value.toBool() ? 1.0 : 0.0, value.toBool() ? 1 : 0, true};
  } else if (value.isInt()) {
    number = {Number::Kind::kInt, static_cast<double>(value.toInt()), value.toInt(), false};
  } else {
    const double d = value.toDouble();
    // Integers that come as floats are needed as such by some rows; out of range stays 0.
    number = {Number::Kind::kFloat, d, std::abs(d) < 9e18 ? static_cast<int64_t>(d) : 0, false};
  }
  return number;
}

Number number_of(const at::Tensor& cpu_scalar) {
  const c10::Scalar item = cpu_scalar.item();
  if (item.isBoolean()) {
    return {Number::Kind::kBool, item.toBool() ? 1.0 : 0.0, item.toBool() ? 1 : 0, false};
  }
  if (item.isIntegral(false)) {
    return {Number::Kind::kInt, item.toDouble(), item.toLong(), false};
  }
  return {Number::Kind::kFloat, item.toDouble(), 0, false};
}

int64_t bits_of(double value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// One functional or in-place operation of the table.
class Kernel final : public c10::OperatorKernel {
 public:
  Kernel(const Row* row, std::string row_name) : row_(*row), row_name_(std::move(row_name)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    Parsed parsed;
    if (row_.index_list >= 0) {
      prepare_indices(op, *stack, static_cast<size_t>(row_.index_list));
    }
    parse(op, *stack, parsed);
    if (parsed.foreign) {
      fall_back(op, stack, "an argument's type");
      return;
    }
    std::shared_ptr<Plan> plan = find(parsed.key);
    if (plan == nullptr) {
      plan = build(op, *stack, parsed);
      const std::lock_guard lock(mutex_);
      plan = plans_.try_emplace(parsed.key, plan).first->second;
    }
    if (!plan->unsupported.empty()) {
      fall_back(op, stack, plan->unsupported);
      return;
    }
    translated([&] { launch(*plan, op, stack, parsed); });
    native_.fetch_add(1, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> native_{0};
  std::string name_;  // "aten::add_.Tensor"

 private:
  // What a key leads to.
  struct Plan {
    struct Out {
      bool defined = true;
      int written = -1;  // input whose memory it takes: in-place
      c10::ScalarType type = c10::ScalarType::Float;
      Dims sizes;
      Dims strides;
    };
    std::vector<Out> outs;
    std::vector<int64_t> integers;     // results that are no tensors
    std::unique_ptr<Program> program;  // null: nothing to compute
    std::string unsupported;           // why the CPU does it
    // In the scalar buffer: s64 numbers, the generator's state, f32 numbers.
    size_t ints = 0;
    size_t floats = 0;
    bool random = false;
    uint64_t draws = 0;
    Block* scalars = nullptr;
    std::vector<int> outputs;  // which outs the program computes
    ~Plan() { release(scalars); }
  };

  std::shared_ptr<Plan> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto at = plans_.find(key);
    return at == plans_.end() ? nullptr : at->second;
  }

  bool known(size_t argument) const {
    for (const int k : row_.known) {
      if (k == static_cast<int>(argument)) {
        return true;
      }
    }
    return false;
  }

  // ---- arguments ----

  void parse(const c10::OperatorHandle& op, const Stack& stack, Parsed& parsed) const {
    const auto& arguments = op.schema().arguments();
    const size_t begin = stack.size() - arguments.size();
    parsed.uses.resize(arguments.size());
    parsed.key.reserve(64);
    find_device(stack, begin, parsed);
    for (size_t i = 0; i < arguments.size(); ++i) {
      parse_argument(arguments[i], stack[begin + i], i, parsed);
    }
    parsed.key.push_back(parsed.device);
  }

  static void find_device(const Stack& stack, size_t begin, Parsed& parsed) {
    const auto look = [&](const at::Tensor& tensor) {
      if (parsed.device < 0 && tensor.defined() && tensor.device().type() == kDevice) {
        parsed.device = tensor.device().index();
      }
    };
    for (size_t i = begin; i < stack.size() && parsed.device < 0; ++i) {
      if (stack[i].isDevice()) {
        const c10::Device device = stack[i].toDevice();
        parsed.device = device.type() == kDevice && device.has_index() ? device.index() : -1;
      } else if (stack[i].isTensor()) {
        look(stack[i].toTensor());
      } else if (stack[i].isTensorList()) {
        for (const at::Tensor& tensor : stack[i].toTensorList()) {
          look(tensor);
        }
      }
    }
    if (parsed.device < 0) {
      parsed.device = current_device();
    }
  }

  void parse_argument(const c10::Argument& argument, const c10::IValue& value, size_t i,
                      Parsed& parsed) const {
    Key& key = parsed.key;
    if (value.isNone()) {
      key.push_back(kTagNone);
    } else if (value.isTensor()) {
      parse_tensor(value.toTensor(), i, parsed);
    } else if (value.isTensorList()) {
      const auto list = value.toTensorList();
      key.push_back(kTagList);
      key.push_back(static_cast<int64_t>(list.size()));
      for (const at::Tensor& tensor : list) {
        parse_tensor(tensor, i, parsed);
      }
    } else if (value.isOptionalTensorList()) {
      const auto list = value.toOptionalTensorList();
      key.push_back(kTagList);
      key.push_back(static_cast<int64_t>(list.size()));
      for (const std::optional<at::Tensor>& tensor : list) {
        parse_tensor(tensor.has_value() ? *tensor : at::Tensor(), i, parsed);
      }
    } else if (value.isGenerator()) {
      parsed.generator = value.toGenerator();
      key.push_back(kTagNone);
    } else if (value.isString()) {
      const std::string& text = value.toStringRef();
      key.push_back(kTagText);
      key.push_back(static_cast<int64_t>(std::hash<std::string>{}(text)));
    } else if (value.isDevice()) {
      key.push_back(kTagNone);
    } else if (value.isIntList() || value.isBoolList()) {
      key.push_back(kTagList);
      const auto ints = ints_of(value);
      key.push_back(static_cast<int64_t>(ints.size()));
      key.insert(key.end(), ints.begin(), ints.end());
    } else if (value.isDoubleList()) {
      const auto list = value.toDoubleVector();
      key.push_back(kTagList);
      key.push_back(static_cast<int64_t>(list.size()));
      for (size_t e = 0; e < list.size(); ++e) {
        add_number({Number::Kind::kFloat, list[e], 0, known(i)}, i, e, parsed);
      }
    } else if (value.isList()) {  // of numbers
      const auto list = value.toListRef();
      key.push_back(kTagList);
      key.push_back(static_cast<int64_t>(list.size()));
      for (size_t e = 0; e < list.size(); ++e) {
        Number number = number_of(c10::IValue(list[e].toScalar()));
        number.known = known(i);
        add_number(number, i, e, parsed);
      }
    } else if (value.isComplexDouble()) {
      parsed.foreign = true;
    } else {
      Number number = number_of(value);
      const c10::TypeKind kind = kind_of(argument);
      const bool changing = kind == c10::TypeKind::NumberType || kind == c10::TypeKind::FloatType;
      number.known = !changing || known(i) || number.kind == Number::Kind::kBool;
      add_number(number, i, 0, parsed);
    }
  }

  static std::vector<int64_t> ints_of(const c10::IValue& value) {
    if (value.isIntList()) {
      return value.toIntVector();
    }
    std::vector<int64_t> ints;
    for (const bool b : value.toBoolList()) {
      ints.push_back(b);
    }
    return ints;
  }

  static void add_number(const Number& number, size_t i, size_t element, Parsed& parsed) {
    if (number.known) {
      parsed.key.push_back(kTagKnown + static_cast<int64_t>(number.kind) * 16);
      parsed.key.push_back(number.kind == Number::Kind::kFloat ? bits_of(number.value)
                                                               : number.integer);
    } else {
      parsed.key.push_back(kTagNumber + static_cast<int64_t>(number.kind) * 16);
      parsed.scalars.push_back({i, element, number});
    }
  }

  void parse_tensor(const at::Tensor& given, size_t i, Parsed& parsed) const {
    Key& key = parsed.key;
    if (!given.defined()) {
      key.push_back(kTagNone);
      parsed.uses[i].push_back(-1);
      return;
    }
    const auto type = type_of(given.scalar_type());
    if (!type || given.layout() != at::kStrided || given.is_neg() || given.is_quantized()) {
      parsed.foreign = true;
      return;
    }
    at::Tensor tensor = given;
    if (given.device().type() != kDevice) {
      if (given.dim() == 0 && given.is_cpu()) {
        key.push_back(kTagCpuScalar);
        key.push_back(*type * 2 + (given.unsafeGetTensorImpl()->is_wrapped_number() ? 1 : 0));
        Number number = number_of(given);
        parsed.scalars.push_back({i, parsed.uses[i].size(), number});
        key.push_back(static_cast<int64_t>(number.kind));
        parsed.uses[i].push_back(
            -3 - (*type * 2 + (given.unsafeGetTensorImpl()->is_wrapped_number() ? 1 : 0)));
        return;
      }
      TORCH_CHECK(row_.own_device_indices && given.is_cpu(),
                  "Expected all tensors to be on the same device, but found at least two devices, "
                  "neuron:",
                  parsed.device, " and ", given.device(), "!");
      tensor = given.to(c10::Device(kDevice, static_cast<c10::DeviceIndex>(parsed.device)));
      parsed.held.push_back(tensor);
    }
    TORCH_CHECK(tensor.device().index() == parsed.device,
                "Expected all tensors to be on the same device, but found at least two devices, "
                "neuron:",
                parsed.device, " and ", tensor.device(), "!");
    if (tensor.numel() == 0) {
      key.push_back(kTagEmpty);
      key.push_back(*type);
      key.push_back(tensor.dim());
      key.insert(key.end(), tensor.sizes().begin(), tensor.sizes().end());
      parsed.uses[i].push_back(-2);
      return;
    }
    Input input{tensor, tensor.storage().unsafeGetStorageImpl(), layout_of(tensor), *type, 0};
    const bool seen = parsed.any_in_storage(input.storage, [&](size_t n) {
      const Input& other = parsed.inputs[n];
      const bool same = other.type == *type &&
                        other.tensor.storage_offset() == tensor.storage_offset() &&
                        other.layout == input.layout;
      if (same) {
        key.push_back(kTagTensor + 16);
        key.push_back(static_cast<int64_t>(n));
        parsed.uses[i].push_back(static_cast<int>(n));
      }
      return same;
    });
    if (seen) {
      return;
    }
    const auto stored = static_cast<int64_t>(tensor.storage().nbytes() / tensor.itemsize());
    const bool contiguous = tensor.is_contiguous();
    input.length = contiguous
                       ? tensor.numel()
                       : std::min(wanted_length(input.layout), stored - tensor.storage_offset());
    key.push_back(kTagTensor);
    key.push_back(*type + (contiguous ? 256 : 0));
    key.push_back(tensor.dim());
    key.insert(key.end(), input.layout.sizes.begin(), input.layout.sizes.end());
    if (!contiguous) {
      key.insert(key.end(), input.layout.strides.begin(), input.layout.strides.end());
      key.push_back(input.length);
    }
    parsed.uses[i].push_back(static_cast<int>(parsed.inputs.size()));
    parsed.add_input(std::move(input));
  }

  // ---- building a plan ----

  static at::Tensor meta_of(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kDevice) {
      return tensor;  // numbers that were wrapped into CPU tensors
    }
    at::Tensor meta = at::empty_strided(
        tensor.sizes(), tensor.strides(),
        tensor.options().device(c10::Device(c10::DeviceType::Meta)).pinned_memory(std::nullopt));
    return meta;
  }

  static c10::IValue meta_of(const c10::IValue& value) {
    if (value.isTensor()) {
      return meta_of(value.toTensor());
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorList()) {
        list.push_back(meta_of(tensor));
      }
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
        list.push_back(tensor.has_value() ? std::optional(meta_of(*tensor)) : std::nullopt);
      }
      return list;
    }
    if (value.isGenerator()) {
      return {};
    }
    if (value.isDevice()) {
      return c10::Device(c10::DeviceType::Meta);
    }
    return value;
  }

  struct MetaResults {
    std::vector<at::Tensor> tensors;
    std::vector<int64_t> integers;
  };

  // Types and shapes of the results; checks the arguments with torch's own messages. Nothing where
  // torch has no meta kernel.
  static std::optional<MetaResults> meta_results(const c10::OperatorHandle& op,
                                                 const Stack& stack) {
    const size_t n = op.schema().arguments().size();
    Stack meta;
    for (size_t i = stack.size() - n; i < stack.size(); ++i) {
      meta.push_back(meta_of(stack[i]));
    }
    const Stack arguments = meta;
    try {
      op.callBoxed(meta);
    } catch (const c10::NotImplementedError&) {
      return std::nullopt;
    }
    MetaResults results;
    const auto collect = [&](const c10::IValue& value) {
      if (value.isTensor()) {
        results.tensors.push_back(value.toTensor());
      } else if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorList()) {
          results.tensors.push_back(tensor);
        }
      } else if (value.isNone()) {
        results.tensors.emplace_back();
      } else if (value.isInt()) {
        results.integers.push_back(value.toInt());
      }
    };
    for (const c10::IValue& value : meta) {
      collect(value);
    }
    if (op.schema().returns().empty()) {  // _foreach_add_: the written arguments
      for (size_t i = 0; i < n; ++i) {
        const auto* alias = op.schema().arguments()[i].alias_info();
        if (alias != nullptr && alias->isWrite()) {
          collect(arguments[i]);
        }
      }
    }
    return results;
  }

  // Input numbers of the arguments that are the results, in their order.
  std::vector<int> written_inputs(const c10::OperatorHandle& op, const Parsed& parsed) const {
    std::vector<int> written;
    if (!row_.writes.empty()) {
      return written;  // those come after the results
    }
    const auto& arguments = op.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto* alias = arguments[i].alias_info();
      if (alias != nullptr && alias->isWrite()) {
        written.insert(written.end(), parsed.uses[i].begin(), parsed.uses[i].end());
      }
    }
    return written;
  }

  std::shared_ptr<Plan> build(const c10::OperatorHandle& op, const Stack& stack,
                              const Parsed& parsed) const {
    auto plan = std::make_shared<Plan>();
    const auto metas = row_.own_shapes ? std::nullopt : meta_results(op, stack);
    try {
      translated_unsupported([&] { build_plan(op, stack, parsed, metas, *plan); });
    } catch (const Unsupported& reason) {
      plan->unsupported = reason.what();
    }
    return plan;
  }

  template <class Body>
  static void translated_unsupported(Body&& body) {
    try {
      body();
    } catch (const Unsupported&) {
      throw;
    } catch (const OutOfMemory& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    } catch (const Error& error) {
      TORCH_CHECK(false, error.what());
    }
  }

  // DESIGN: float64 keeps its type, is computed in float32, and the user is told once.
  static void tell_of_f64(const Parsed& parsed, const std::vector<Meta>& outs) {
    bool f64 = false;
    for (const Input& input : parsed.inputs) {
      f64 = f64 || input.type == kF64;
    }
    for (const Meta& out : outs) {
      f64 = f64 || out.type == kF64;
    }
    if (!f64) {
      return;
    }
    static const char* const mode = std::getenv("TORCH_NEURONX_FLOAT64");
    if (mode != nullptr && std::string(mode) == "error") {
      throw Error(
          "float64 is computed in float32 on device neuron, and TORCH_NEURONX_FLOAT64=error is "
          "set");
    }
    TORCH_WARN_ONCE(
        "float64 tensors keep their type and are computed in float32 on device neuron "
        "(TORCH_NEURONX_FLOAT64=error makes this an error)");
  }

  void build_plan(const c10::OperatorHandle& op, const Stack& stack, const Parsed& parsed,
                  const std::optional<MetaResults>& metas, Plan& plan) const {
    const std::vector<int> written = written_inputs(op, parsed);
    std::vector<Meta> outs;
    bool any = false;
    if (!metas && !row_.own_shapes && written.empty()) {
      throw Unsupported("no meta kernel");
    }
    if (metas) {
      plan.integers = metas->integers;
    }
    const auto add_written = [&](int use, Plan::Out& out, Meta& meta) {
      out.written = use;
      if (use >= 0) {
        const Input& input = parsed.inputs[static_cast<size_t>(use)];
        out.type = input.tensor.scalar_type();
        meta = {input.type, input.layout.sizes};
        any = true;
      } else {
        out.defined = false;  // no elements: nothing to write
      }
    };
    // More is written than returned by _amp_update_scale_.
    const size_t count = std::max(metas ? metas->tensors.size() : 0, written.size());
    for (size_t i = 0; i < count; ++i) {
      Plan::Out out;
      Meta meta;
      if (i < written.size()) {
        add_written(written[i], out, meta);
      } else {
        const at::Tensor& tensor = metas->tensors[i];
        out.defined = tensor.defined();
        if (out.defined) {
          out.type = tensor.scalar_type();
          const auto type = type_of(out.type);
          if (!type) {
            throw Unsupported("a result's type");
          }
          const Layout layout = layout_of(tensor);
          out.sizes = layout.sizes;
          out.strides = is_dense(layout) ? layout.strides : contiguous_strides(layout.sizes);
          meta = {*type, layout.sizes};
          any = any || tensor.numel() > 0;
        }
      }
      plan.outs.push_back(std::move(out));
      outs.push_back(std::move(meta));
    }
    for (const int position : row_.writes) {
      for (const int use : parsed.uses[static_cast<size_t>(position)]) {
        if (use != -1) {
          add_written(use, plan.outs.emplace_back(), outs.emplace_back());
        }
      }
    }
    tell_of_f64(parsed, outs);
    if (any || row_.own_shapes) {
      make_program(op, stack, parsed, outs, plan);
    }
  }

  void make_program(const c10::OperatorHandle& op, const Stack& stack, const Parsed& parsed,
                    const std::vector<Meta>& outs, Plan& plan) const {
    Graph g(row_name_);
    std::vector<Value> flats;
    std::vector<Value> views;
    for (const Input& input : parsed.inputs) {
      flats.push_back(g.parameter(input.type, {input.length}));
    }
    for (size_t i = 0; i < flats.size(); ++i) {
      views.push_back(read_view(g, flats[i], parsed.inputs[i].layout));
    }
    for (const ScalarUse& use : parsed.scalars) {
      ++(use.number.kind == Number::Kind::kFloat ? plan.floats : plan.ints);
    }
    plan.random = row_.random;
    std::optional<Value> ints;
    std::optional<Value> floats;
    std::optional<Value> state;
    size_t parameters = flats.size();
    if (plan.ints > 0) {
      ints = g.parameter(kS64, {static_cast<int64_t>(plan.ints)});
      ++parameters;
    }
    if (plan.random) {
      state = g.parameter(kU64, {2});
      ++parameters;
    }
    if (plan.floats > 0) {
      floats = g.parameter(kF32, {static_cast<int64_t>(plan.floats)});
      ++parameters;
    }
    const Value none;
    Call call(
        row_name_,
        arguments_of(g, op, stack, parsed, views, ints ? *ints : none, floats ? *floats : none),
        outs);
    call.set_scalar_inputs(floats ? *floats : none, ints ? *ints : none);
    if (state) {
      call.set_random_state(*state);
    }
    int64_t next_int = 0;
    int64_t next_float = 0;
    for (const ScalarUse& use : parsed.scalars) {
      call.place_scalar(use.argument, use.element,
                        use.number.kind == Number::Kind::kFloat ? next_float++ : next_int++);
    }
    std::vector<Value> results = row_.lower(g, call);
    finish(g, parsed, flats, outs, results, plan);
    if (plan.outputs.empty()) {
      return;  // no result has elements
    }
    dump_graph(g, row_name_);
    plan.program = std::make_unique<Program>(g, parsed.device, parameters, plan.outputs.size());
    const size_t bytes = plan.ints * 8 + (plan.random ? 16 : 0) + plan.floats * 4;
    plan.scalars = allocate(parsed.device, bytes);
    if (plan.random) {
      for (const auto& out : outs) {
        plan.draws = std::max(plan.draws, static_cast<uint64_t>(count_of(out.dims)));
      }
      plan.draws = std::max(plan.draws * static_cast<uint64_t>(row_.draws), call.drawn());
    }
  }

  std::vector<Arg> arguments_of(Graph& g, const c10::OperatorHandle& op, const Stack& stack,
                                const Parsed& parsed, const std::vector<Value>& views,
                                const Value& ints, const Value& floats) const {
    const auto& arguments = op.schema().arguments();
    const size_t begin = stack.size() - arguments.size();
    std::vector<Arg> args;
    // Numbers of CPU tensors come in the order of parsed.scalars.
    std::map<std::pair<size_t, size_t>, int64_t> places;
    int64_t next_int = 0;
    int64_t next_float = 0;
    std::map<std::pair<size_t, size_t>, Number> numbers;
    for (const ScalarUse& use : parsed.scalars) {
      places[{use.argument, use.element}] =
          use.number.kind == Number::Kind::kFloat ? next_float++ : next_int++;
      numbers[{use.argument, use.element}] = use.number;
    }
    const auto tensor = [&](const at::Tensor& given, size_t i, size_t e) -> Arg {
      const int use = parsed.uses[i][e];
      if (use == -1) {
        return None{};
      }
      if (use == -2) {
        return g.zeros(*type_of(given.scalar_type()),
                       Dims(given.sizes().begin(), given.sizes().end()));
      }
      if (use <= -3) {
        const Number& number = numbers.at({i, e});
        if (given.unsafeGetTensorImpl()->is_wrapped_number()) {
          return number;
        }
        const Value& inputs = number.kind == Number::Kind::kFloat ? floats : ints;
        return g.convert(g.reshape(g.narrow(inputs, 0, places.at({i, e}), 1), {}),
                         *type_of(given.scalar_type()));
      }
      return views[static_cast<size_t>(use)];
    };
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::IValue& value = stack[begin + i];
      if (value.isNone() || value.isGenerator() || value.isDevice()) {
        args.emplace_back(None{});
      } else if (value.isTensor()) {
        args.push_back(tensor(value.toTensor(), i, 0));
      } else if (value.isTensorList() || value.isOptionalTensorList()) {
        std::vector<std::optional<Value>> list;
        const auto add = [&](const at::Tensor& t) {
          Arg arg = tensor(t, i, list.size());
          if (std::holds_alternative<Value>(arg)) {
            list.emplace_back(std::get<Value>(arg));
          } else {
            list.emplace_back(std::nullopt);
          }
        };
        if (value.isTensorList()) {
          for (const at::Tensor& t : value.toTensorList()) {
            add(t);
          }
        } else {
          for (const std::optional<at::Tensor>& t : value.toOptionalTensorList()) {
            add(t.has_value() ? *t : at::Tensor());
          }
        }
        args.emplace_back(std::move(list));
      } else if (value.isString()) {
        args.emplace_back(value.toStringRef());
      } else if (value.isIntList() || value.isBoolList()) {
        args.emplace_back(Dims(ints_of(value)));
      } else if (value.isDoubleList() || value.isList()) {
        std::vector<Number> list;
        const auto refs = value.toListRef();
        for (size_t e = 0; e < refs.size(); ++e) {
          Number number = number_of(c10::IValue(refs[e].toScalar()));
          number.known = known(i);
          list.push_back(number);
        }
        args.emplace_back(std::move(list));
      } else if (value.isBool() && kind_of(arguments[i]) == c10::TypeKind::BoolType) {
        args.emplace_back(value.toBool());
      } else {
        Number number = number_of(value);
        const c10::TypeKind kind = kind_of(arguments[i]);
        const bool changing = kind == c10::TypeKind::NumberType || kind == c10::TypeKind::FloatType;
        number.known = !changing || known(i) || number.kind == Number::Kind::kBool;
        args.emplace_back(number);
      }
    }
    return args;
  }

  // Strides of a result whose shape is the row's own.
  Dims strides_of(const Dims& dims, const Parsed& parsed) const {
    for (const int position : row_.format_like) {
      for (const int use : parsed.uses[static_cast<size_t>(position)]) {
        if (use < 0) {
          continue;
        }
        const at::Tensor& tensor = parsed.inputs[static_cast<size_t>(use)].tensor;
        const auto format = tensor.suggest_memory_format();
        if (static_cast<size_t>(tensor.dim()) == dims.size() &&
            format == at::MemoryFormat::ChannelsLast) {
          return c10::get_channels_last_strides_2d(dims);
        }
        if (static_cast<size_t>(tensor.dim()) == dims.size() &&
            format == at::MemoryFormat::ChannelsLast3d) {
          return c10::get_channels_last_strides_3d(dims);
        }
      }
    }
    return contiguous_strides(dims);
  }

  // Brings the results into the memory they go to: types, layouts, views, aliases.
  void finish(Graph& g, const Parsed& parsed, const std::vector<Value>& flats,
              const std::vector<Meta>& outs, const std::vector<Value>& results, Plan& plan) const {
    if (row_.own_shapes) {
      for (const Value& value : results) {
        Plan::Out out;
        out.defined = value.id >= 0;
        out.sizes = value.dims;
        out.strides = strides_of(value.dims, parsed);
        out.type = scalar_type_of(value.type);
        plan.outs.push_back(out);
      }
    }
    if (results.size() < plan.outs.size()) {
      throw Error(row_name_ + ": " + std::to_string(results.size()) + " results where torch has " +
                  std::to_string(plan.outs.size()));
    }
    std::vector<Value> roots;
    std::vector<int> aliases;
    for (size_t i = 0; i < plan.outs.size(); ++i) {
      Plan::Out& out = plan.outs[i];
      if (!out.defined || results[i].id < 0) {
        continue;
      }
      const Type type = row_.own_shapes ? results[i].type : outs[i].type;
      const Value value = g.convert(results[i], type);
      const Dims& dims = row_.own_shapes ? results[i].dims : outs[i].dims;
      if (value.count() == 0 && out.written < 0) {
        // What is left out keeps its shape: statistics in evaluation, of which torch's meta kernel
        // doesn't know.
        if (value.dims != out.sizes) {
          out.sizes = value.dims;
          out.strides = contiguous_strides(value.dims);
        }
        continue;
      }
      if (value.dims != dims) {
        if (out.written >= 0) {
          throw Error("output with shape " + text_of(dims) + " doesn't match the broadcast shape " +
                      text_of(value.dims));
        }
        throw Error(row_name_ + ": result " + std::to_string(i) + " has shape " +
                    text_of(value.dims) + " where torch says " + text_of(dims));
      }
      if (value.count() == 0) {
        continue;
      }
      if (out.written >= 0) {
        const auto n = static_cast<size_t>(out.written);
        roots.push_back(write_view(g, flats[n], value, parsed.inputs[n].layout));
        aliases.push_back(out.written);
      } else {
        roots.push_back(flatten(g, value, {out.sizes, out.strides}));
        aliases.push_back(-1);
      }
      plan.outputs.push_back(static_cast<int>(i));
    }
    if (!roots.empty()) {
      g.finish(roots, aliases);
    }
  }

  static std::string text_of(const Dims& dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) {
      text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
    }
    return text + "]";
  }

  static c10::ScalarType scalar_type_of(Type type) {
    for (const c10::ScalarType candidate :
         {c10::ScalarType::Bool, c10::ScalarType::Byte, c10::ScalarType::Char,
          c10::ScalarType::Short, c10::ScalarType::Int, c10::ScalarType::Long,
          c10::ScalarType::Half, c10::ScalarType::BFloat16, c10::ScalarType::Float,
          c10::ScalarType::Double}) {
      if (type_of(candidate) == type) {
        return candidate;
      }
    }
    throw Error(std::string("no torch type for ") + name_of(type));
  }

  // ---- running ----

  // Memory that is read under another view than it is written is copied first.
  static void part_overlaps(const std::vector<int>& written, Parsed& parsed) {
    const auto bytes_in = [](const Input& input) {
      const int64_t begin = byte_offset(input.tensor);
      return std::pair(begin, begin + input.length * bytes_of(input.type));
    };
    for (const int w : written) {
      if (w < 0) {
        continue;
      }
      const auto target = static_cast<size_t>(w);
      const auto [from, to] = bytes_in(parsed.inputs[target]);
      parsed.any_in_storage(parsed.inputs[target].storage, [&](size_t n) {
        Input& input = parsed.inputs[n];
        const auto [begin, end] = bytes_in(input);
        const bool copied = input.tensor.storage().unsafeGetStorageImpl() != input.storage;
        if (n != target && !copied && begin < to && from < end) {
          copy_out(parsed, input, static_cast<size_t>(begin), static_cast<size_t>(end - begin));
        }
        return false;
      });
    }
  }

  // The same bytes elsewhere: the program's key doesn't change.
  static void copy_out(Parsed& parsed, Input& input, size_t begin, size_t bytes) {
    at::Tensor copy =
        empty_on(parsed.device, {static_cast<int64_t>(bytes)}, {1}, c10::ScalarType::Byte);
    check(runtime().nrt_tensor_copy(tensor_of(block_of(input.tensor), begin, bytes), 0,
                                    tensor_of(block_of(copy), 0, bytes), 0, bytes),
          "nrt_tensor_copy");
    parsed.held.push_back(copy);
    input.tensor = copy;
  }

  void launch(Plan& plan, const c10::OperatorHandle& op, Stack* stack, Parsed& parsed) {
    const auto& schema = op.schema();
    std::vector<int> written;
    for (const Plan::Out& out : plan.outs) {
      written.push_back(out.written);
    }
    std::vector<at::Tensor> targets(plan.outs.size());
    for (size_t i = 0; i < plan.outs.size(); ++i) {
      const Plan::Out& out = plan.outs[i];
      if (out.written >= 0) {
        targets[i] = parsed.inputs[static_cast<size_t>(out.written)].tensor;
      } else if (out.defined && (!row_.writes.empty() || !is_inplace(op))) {
        targets[i] = empty_on(parsed.device, out.sizes, out.strides, out.type);
      }
    }
    if (plan.program != nullptr) {
      if (parsed.inputs.size() > 1) {
        part_overlaps(written, parsed);
      }
      std::vector<nrt_tensor_t*> inputs;
      std::vector<nrt_tensor_t*> outputs;
      for (const Input& input : parsed.inputs) {
        inputs.push_back(tensor_of(block_of(input.tensor),
                                   static_cast<size_t>(byte_offset(input.tensor)),
                                   static_cast<size_t>(input.length * bytes_of(input.type))));
      }
      for (const int i : plan.outputs) {
        const Plan::Out& out = plan.outs[static_cast<size_t>(i)];
        if (out.written >= 0) {
          outputs.push_back(inputs[static_cast<size_t>(out.written)]);
        } else {
          outputs.push_back(tensor_of(block_of(targets[static_cast<size_t>(i)]), 0,
                                      targets[static_cast<size_t>(i)].nbytes()));
        }
      }
      const std::lock_guard lock(scalar_mutex_);
      put_scalars(plan, parsed, inputs);
      plan.program->run(inputs, outputs);
    }
    push_results(plan, schema, stack, targets);
  }

  static bool is_inplace(const c10::OperatorHandle& op) {
    for (const c10::Argument& argument : op.schema().arguments()) {
      if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) {
        return true;
      }
    }
    return false;
  }

  static void put_scalars(const Plan& plan, const Parsed& parsed,
                          std::vector<nrt_tensor_t*>& inputs) {
    if (plan.scalars == nullptr) {
      return;
    }
    std::vector<char> bytes(plan.ints * 8 + (plan.random ? 16 : 0) + plan.floats * 4);
    char* int_at = bytes.data();
    char* float_at = bytes.data() + plan.ints * 8 + (plan.random ? 16 : 0);
    for (const ScalarUse& use : parsed.scalars) {
      if (use.number.kind == Number::Kind::kFloat) {
        const auto single = static_cast<float>(use.number.value);
        std::memcpy(float_at, &single, 4);
        float_at += 4;
      } else {
        std::memcpy(int_at, &use.number.integer, 8);
        int_at += 8;
      }
    }
    if (plan.ints > 0) {
      inputs.push_back(tensor_of(plan.scalars, 0, plan.ints * 8));
    }
    if (plan.random) {
      const RandomState state = draw(parsed.generator, parsed.device, plan.draws);
      const uint64_t words[2] = {state.seed, state.offset};
      std::memcpy(bytes.data() + plan.ints * 8, words, 16);
      inputs.push_back(tensor_of(plan.scalars, plan.ints * 8, 16));
    }
    if (plan.floats > 0) {
      inputs.push_back(
          tensor_of(plan.scalars, plan.ints * 8 + (plan.random ? 16 : 0), plan.floats * 4));
    }
    write(plan.scalars, 0, bytes.data(), bytes.size());
  }

  static void push_results(const Plan& plan, const c10::FunctionSchema& schema, Stack* stack,
                           std::vector<at::Tensor>& targets) {
    const size_t n = schema.arguments().size();
    std::vector<c10::IValue> results;
    size_t next = 0;
    size_t next_integer = 0;
    for (size_t r = 0; r < schema.returns().size(); ++r) {
      const c10::Argument& ret = schema.returns()[r];
      if (ret.alias_info() != nullptr) {  // an argument that was written
        for (size_t i = 0, seen = 0; i < n; ++i) {
          const auto* alias = schema.arguments()[i].alias_info();
          if (alias != nullptr && alias->isWrite() && seen++ == r) {
            results.push_back((*stack)[stack->size() - n + i]);
          }
        }
        continue;
      }
      if (ret.type()->kind() == c10::TypeKind::ListType) {
        c10::List<at::Tensor> list;
        while (next < targets.size()) {
          list.push_back(targets[next++]);
        }
        results.emplace_back(list);
        continue;
      }
      if (ret.type()->kind() == c10::TypeKind::IntType) {  // a SymInt's type too
        results.emplace_back(plan.integers.at(next_integer++));
        continue;
      }
      results.emplace_back(targets[next++]);
    }
    torch::jit::drop(*stack, n);
    for (c10::IValue& value : results) {
      stack->push_back(std::move(value));
    }
  }

  const Row row_;
  const std::string row_name_;
  std::mutex mutex_;
  std::mutex scalar_mutex_;  // of the scalar buffers
  std::unordered_map<Key, std::shared_ptr<Plan>, KeyHash> plans_;
};

// out= variants: the functional operation, then a copy. Overlaps of outputs with inputs and results
// of another type or shape are then nothing special.
class OutKernel final : public c10::OperatorKernel {
 public:
  OutKernel(c10::OperatorHandle functional, size_t outs)
      : functional_(std::move(functional)), outs_(outs) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    const size_t n = op.schema().arguments().size();
    std::vector<at::Tensor> outs;
    for (size_t i = stack->size() - outs_; i < stack->size(); ++i) {
      if ((*stack)[i].isTensorList()) {
        for (const at::Tensor& tensor : (*stack)[i].toTensorList()) {
          outs.push_back(tensor);
        }
      } else {
        outs.push_back((*stack)[i].toTensor());
      }
    }
    std::vector<c10::IValue> results(stack->end() - static_cast<std::ptrdiff_t>(outs_),
                                     stack->end());
    Stack call(stack->end() - static_cast<std::ptrdiff_t>(n),
               stack->end() - static_cast<std::ptrdiff_t>(outs_));
    functional_.callBoxed(call);
    size_t next = 0;
    const auto put = [&](const at::Tensor& result) {
      at::Tensor& out = outs[next++];
      if (!result.defined() || !out.defined()) {
        return;
      }
      TORCH_CHECK(c10::canCast(result.scalar_type(), out.scalar_type()), "result type ",
                  result.scalar_type(), " can't be cast to the desired output type ",
                  out.scalar_type());
      resize_out(out, result.sizes());
      out.copy_(result);
    };
    for (const c10::IValue& value : call) {
      if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorList()) {
          put(tensor);
        }
      } else if (value.isTensor()) {
        put(value.toTensor());
      }
    }
    torch::jit::drop(*stack, n);
    if (!op.schema().returns().empty()) {
      for (c10::IValue& value : results) {
        stack->push_back(std::move(value));
      }
    }
  }

 private:
  static void resize_out(const at::Tensor& out, c10::IntArrayRef sizes) {
    if (out.sizes().equals(sizes)) {
      return;
    }
    if (out.numel() != 0) {
      TORCH_WARN(
          "An output with one or more elements was resized since it had shape ", out.sizes(),
          ", which does not match the required output shape ", sizes,
          ". This behavior is deprecated; resize the tensor to zero elements before using it "
          "as an out tensor.");
    }
    out.resize_(sizes);
  }

  c10::OperatorHandle functional_;
  size_t outs_;
};

std::vector<Kernel*>& kernels() {
  static auto* const list = new std::vector<Kernel*>;
  return *list;
}

// Arguments of `functional` and the variant are the same, but for what the variant writes.
bool is_variant(const c10::FunctionSchema& functional, const c10::FunctionSchema& variant,
                size_t outs) {
  const auto& a = functional.arguments();
  const auto& b = variant.arguments();
  if (a.size() + outs != b.size()) {
    return false;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].name() != b[i].name() || *a[i].type() != *b[i].type()) {
      return false;
    }
  }
  return true;
}

size_t count_outs(const c10::FunctionSchema& schema) {
  size_t outs = 0;
  for (const c10::Argument& argument : schema.arguments()) {
    outs += argument.is_out() ? 1 : 0;
  }
  return outs;
}

}  // namespace

void register_kernels() {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* const library = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static auto* const all = new torch::Library(torch::Library::IMPL, "_",
                                              c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  all->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback_kernel>());

  std::unordered_map<std::string, std::vector<c10::OperatorHandle>> by_name;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) == 0) {
      if (const auto op = dispatcher.findSchema(name)) {
        by_name[name.name].push_back(*op);
      }
    }
  }
  const auto short_name = [](const c10::OperatorHandle& op) { return full_name(op).substr(6); };
  const auto add_kernel = [&](const c10::OperatorHandle& op, const Row* row,
                              const std::string& row_name) {
    auto kernel = std::make_unique<Kernel>(row, row_name);
    kernel->name_ = full_name(op);
    kernels().push_back(kernel.get());
    library->impl(short_name(op).c_str(),
                  torch::CppFunction::makeFromBoxedFunctor<Kernel>(std::move(kernel)));
  };
  std::set<std::string> done;
  for (const std::string& row_name : row_names()) {
    const Row* row = find_row(row_name);
    const size_t dot = row_name.find('.');
    const auto op =
        dispatcher.findSchema({"aten::" + row_name.substr(0, dot),
                               dot == std::string::npos ? "" : row_name.substr(dot + 1)});
    TORCH_INTERNAL_ASSERT(op.has_value(), "no aten operation is called ", row_name);
    TORCH_INTERNAL_ASSERT(
        !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ||
            op->hasKernelForDispatchKey(c10::DispatchKey::Autograd),
        row_name, " is composed of other operations: a kernel would cut its gradient");
    if (!done.insert(short_name(*op)).second) {
      continue;
    }
    add_kernel(*op, row, row_name);
    const std::string base = "aten::" + row_name.substr(0, dot);
    for (const c10::OperatorHandle& other : by_name[base + "_"]) {
      if (find_row(short_name(other)) == nullptr && is_variant(op->schema(), other.schema(), 0) &&
          done.insert(short_name(other)).second) {
        add_kernel(other, row, row_name);
      }
    }
    for (const c10::OperatorHandle& other : by_name[base]) {
      const size_t outs = count_outs(other.schema());
      if (outs > 0 && find_row(short_name(other)) == nullptr &&
          is_variant(op->schema(), other.schema(), outs) && done.insert(short_name(other)).second) {
        library->impl(short_name(other).c_str(),
                      torch::CppFunction::makeFromBoxedFunctor<OutKernel>(
                          std::make_unique<OutKernel>(*op, outs)));
      }
    }
  }
}

std::vector<OpCount> op_counts() {
  Tracker& tracker = Tracker::get();
  const std::lock_guard lock(tracker.mutex);
  auto counts = tracker.counts;
  for (const Kernel* kernel : kernels()) {
    if (kernel->native_ > 0) {
      OpCount& count = counts[kernel->name_];
      count.name = kernel->name_;
      count.native += kernel->native_;
    }
  }
  std::vector<OpCount> list;
  for (auto& [name, count] : counts) {
    list.push_back(std::move(count));
  }
  return list;
}

void clear_op_counts() {
  Tracker& tracker = Tracker::get();
  const std::lock_guard lock(tracker.mutex);
  tracker.counts.clear();
  tracker.warned.clear();
  for (Kernel* kernel : kernels()) {
    kernel->native_ = 0;
  }
}

void set_source_hook(std::function<std::string()> hook) {
  Tracker::get().source_hook = std::move(hook);
}

void set_fallback_mode(FallbackMode mode) { Tracker::get().mode = mode; }

}  // namespace tnx
