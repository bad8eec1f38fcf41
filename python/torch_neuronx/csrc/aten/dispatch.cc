// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/aten/dispatch.h"

#include <ATen/core/List.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "python/torch_neuronx/csrc/aten/backend.h"
#include "python/torch_neuronx/csrc/aten/indexing.h"
#include "python/torch_neuronx/csrc/aten/plan.h"
#include "python/torch_neuronx/csrc/aten/tensor.h"
#include "python/torch_neuronx/csrc/aten/tracking.h"
#include "python/torch_neuronx/csrc/device.h"

namespace tnx {
namespace {

using Stack = torch::jit::Stack;

void fallback_kernel(const c10::OperatorHandle& op, Stack* stack) {
  fall_back(op, stack, "no lowering");
}
// One functional or in-place operation of the table.
class Kernel final : public c10::OperatorKernel {
 public:
  // `row_name` is the functional operation's, `name` this one's.
  Kernel(const Row* row, std::string row_name, const std::string& name)
      : row_(*row), row_name_(std::move(row_name)), native_(native_count(name)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    if (in_bad_fork()) {
      translated([] { initialize(); });  // says so
    }
    Parsed parsed;
    if (row_.index_list >= 0) {
      prepare_indices(op, *stack, static_cast<size_t>(row_.index_list));
    }
    parse(row_, op, *stack, parsed);
    if (parsed.foreign) {
      fall_back(op, stack, "an argument's type");
      return;
    }
    std::shared_ptr<Plan> plan = find(parsed.key);
    if (plan == nullptr) {
      plan = make_plan(row_, row_name_, op, *stack, parsed);
      const std::lock_guard lock(mutex_);
      if (plans_.size() >= kMostPlans) {
        forget_old_plans();
      }
      plan = plans_.try_emplace(parsed.key, plan).first->second;
      plan->used = ++uses_;
    }
    if (!plan->unsupported.empty()) {
      fall_back(op, stack, plan->unsupported);
      return;
    }
    translated([&] { launch(*plan, op, stack, parsed); });
    native_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  // Shapes that change for ever must not fill the device: of an operation's plans the half that was
  // not used for longest goes when there are this many.
  static constexpr size_t kMostPlans = 2048;

  std::shared_ptr<Plan> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto at = plans_.find(key);
    if (at == plans_.end()) {
      return nullptr;
    }
    at->second->used = ++uses_;
    return at->second;
  }

  void forget_old_plans() {  // with the lock held
    std::vector<uint64_t> ages;
    for (const auto& [key, plan] : plans_) {
      ages.push_back(plan->used);
    }
    const auto middle = ages.begin() + static_cast<std::ptrdiff_t>(ages.size() / 2);
    std::nth_element(ages.begin(), middle, ages.end());
    std::erase_if(plans_, [&](const auto& entry) { return entry.second->used < *middle; });
  }
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
  std::atomic<uint64_t>& native_;
  std::mutex mutex_;
  std::mutex scalar_mutex_;  // of the scalar buffers
  std::unordered_map<Key, std::shared_ptr<Plan>, KeyHash> plans_;
  uint64_t uses_ = 0;
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
    library->impl(short_name(op).c_str(),
                  torch::CppFunction::makeFromBoxedFunctor<Kernel>(
                      std::make_unique<Kernel>(row, row_name, full_name(op))));
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

}  // namespace tnx
