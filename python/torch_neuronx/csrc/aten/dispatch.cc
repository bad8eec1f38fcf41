// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/aten/dispatch.h"

#include <ATen/MemoryOverlap.h>
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
#include "python/torch_neuronx/csrc/aten/overlap.h"
#include "python/torch_neuronx/csrc/aten/plan.h"
#include "python/torch_neuronx/csrc/aten/tensor.h"
#include "python/torch_neuronx/csrc/aten/tracking.h"
#include "python/torch_neuronx/csrc/device.h"
#include "python/torch_neuronx/csrc/queue.h"

namespace tnx {
namespace {

using Stack = torch::jit::Stack;

void fallback_kernel(const c10::OperatorHandle& op, Stack* stack) {
  fall_back(op, stack, kNoLowering);
}

// What a call needs while it is made, with vectors that keep their memory from call to call. Calls
// nest: a copy that an argument needs, an operation that is done by another.
struct CallState {
  Parsed parsed;
  std::vector<at::Tensor> targets;
  std::vector<nrt_tensor_t*> inputs;
  std::vector<nrt_tensor_t*> outputs;
  std::vector<char> scalars;
  std::vector<c10::IValue> results;
};

class CallLease {
 public:
  CallLease() {
    auto& spare = states();
    if (spare.empty()) {
      state_ = std::make_unique<CallState>();
    } else {
      state_ = std::move(spare.back());
      spare.pop_back();
    }
  }
  ~CallLease() {
    state_->parsed.clear();
    state_->targets.clear();
    state_->inputs.clear();
    state_->outputs.clear();
    state_->results.clear();
    states().push_back(std::move(state_));
  }
  CallLease(const CallLease&) = delete;
  CallLease& operator=(const CallLease&) = delete;
  CallState& operator*() const { return *state_; }

 private:
  static std::vector<std::unique_ptr<CallState>>& states() {
    thread_local std::vector<std::unique_ptr<CallState>> spare;
    return spare;
  }
  std::unique_ptr<CallState> state_;
};

// One functional or in-place operation of the table.
class Kernel final : public c10::OperatorKernel {
 public:
  // `row_name` is the functional operation's, `name` this one's.
  Kernel(const Row* row, std::string row_name, const std::string& name,
         const c10::FunctionSchema& schema)
      : row_(*row),
        row_name_(std::move(row_name)),
        signature_(row_, schema),
        native_(native_count(name)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    if (in_bad_fork()) {
      translated([] { initialize(); });  // says so
    }
    const CallLease lease;
    CallState& call = *lease;
    if (row_.index_list >= 0) {
      prepare_indices(op, *stack, static_cast<size_t>(row_.index_list));
    }
    parse(signature_, *stack, call.parsed);
    if (row_.verify != nullptr) {
      translated([&] { row_.verify(call.parsed.type_of_first(), call.parsed.numbers()); });
    }
    if (call.parsed.foreign) {
      fall_back(op, stack, "an argument's type");
      return;
    }
    std::shared_ptr<Plan> plan = find(call.parsed.key);
    if (plan == nullptr) {
      check_written(op, *stack);  // strides and sizes are in the key
      plan = make_plan(signature_, row_name_, op, *stack, call.parsed);
      plan = remember(call.parsed.key, std::move(plan));
    }
    if (!plan->unsupported.empty()) {
      fall_back(op, stack, plan->unsupported);
      return;
    }
    translated([&] { launch(*plan, op, stack, call); });
    native_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  // Shapes that change for ever must not fill the device: of an operation's plans the half that was
  // not used for longest goes when there are this many.
  static constexpr size_t kMostPlans = 2048;

  std::shared_ptr<Plan> find(const Key& key) {
    const std::lock_guard lock(mutex_);
    if (last_ == nullptr || last_->first != key) {
      const auto at = plans_.find(key);
      if (at == plans_.end()) {
        return nullptr;
      }
      last_ = &*at;
    }
    last_->second->used = ++uses_;
    return last_->second;
  }

  std::shared_ptr<Plan> remember(const Key& key, std::shared_ptr<Plan> plan) {
    const std::lock_guard lock(mutex_);
    if (plans_.size() >= kMostPlans) {
      forget_old_plans();
    }
    const auto at = plans_.try_emplace(key, std::move(plan)).first;
    at->second->used = ++uses_;
    return at->second;
  }

  void forget_old_plans() {  // with the lock held
    last_ = nullptr;
    std::vector<uint64_t> ages;
    for (const auto& [key, plan] : plans_) {
      ages.push_back(plan->used);
    }
    const auto middle = ages.begin() + static_cast<std::ptrdiff_t>(ages.size() / 2);
    std::nth_element(ages.begin(), middle, ages.end());
    std::erase_if(plans_, [&](const auto& entry) { return entry.second->used < *middle; });
  }

  // Memory that is read under another view than it is written is copied first, where torch allows
  // it: running statistics, and views that interleave. Gives false if two that are written do.
  bool part_overlaps(const Plan& plan, Parsed& parsed) const {
    const auto bytes_in = [](const Input& input) {
      const int64_t begin = input.begin();
      return std::pair(begin, begin + input.length * bytes_of(input.type));
    };
    bool apart = true;
    for (const Plan::Out& out : plan.outs) {
      if (out.written < 0) {
        continue;
      }
      const auto target = static_cast<size_t>(out.written);
      const auto [from, to] = bytes_in(parsed.inputs[target]);
      parsed.any_in_storage(parsed.inputs[target].storage, [&](size_t n) {
        Input& input = parsed.inputs[n];
        const auto [begin, end] = bytes_in(input);
        const bool copied = input.tensor.storage().unsafeGetStorageImpl() != input.storage;
        if (n != target && !copied && begin < to && from < end) {
          const auto is_written = [&](const Plan::Out& other) {
            return other.written == static_cast<int>(n);
          };
          if (std::any_of(plan.outs.begin(), plan.outs.end(), is_written)) {
            apart = false;
            return true;
          }
          if (row_.writes.empty()) {
            at::assert_no_partial_overlap(parsed.inputs[target].tensor, input.tensor);
          }
          copy_out(parsed, input, static_cast<size_t>(begin), static_cast<size_t>(end - begin));
        }
        return false;
      });
    }
    return apart;
  }

  // The same bytes elsewhere: the program's key doesn't change.
  static void copy_out(Parsed& parsed, Input& input, size_t begin, size_t bytes) {
    at::Tensor elsewhere =
        empty_on(parsed.device, {static_cast<int64_t>(bytes)}, {1}, c10::ScalarType::Byte);
    tnx::copy(block_of(input.tensor), begin, block_of(elsewhere), 0, bytes);
    parsed.held.push_back(elsewhere);
    input.tensor = elsewhere;
    input.start = 0;
  }

  void launch(Plan& plan, const c10::OperatorHandle& op, Stack* stack, CallState& call) const {
    const bool makes_results = !row_.writes.empty() || signature_.written.empty();
    for (const Plan::Out& out : plan.outs) {
      if (out.written >= 0) {
        call.targets.push_back(call.parsed.inputs[static_cast<size_t>(out.written)].tensor);
      } else if (out.defined && makes_results) {
        call.targets.push_back(empty_on(call.parsed.device, out.sizes, out.strides, out.type));
      } else {
        call.targets.emplace_back();
      }
    }
    if (plan.program != nullptr) {
      if (call.parsed.inputs.size() > 1 && !part_overlaps(plan, call.parsed)) {
        run_apart(op, stack);
        return;
      }
      run(plan, call);
    }
    push_results(plan, op.schema(), stack, call);
  }

  // For written views that lie between each other's elements: each is written in memory of its own,
  // and copied back.
  void run_apart(const c10::OperatorHandle& op, Stack* stack) const {
    const size_t n = op.schema().arguments().size();
    const Stack given(stack->end() - static_cast<std::ptrdiff_t>(n), stack->end());
    Stack call = given;
    std::vector<std::pair<at::Tensor, at::Tensor>> written;
    const auto elsewhere = [&](const at::Tensor& tensor) {
      if (!tensor.defined() || tensor.device().type() != kDevice) {
        return tensor;
      }
      return written.emplace_back(tensor, tensor.clone(at::MemoryFormat::Contiguous)).second;
    };
    std::vector<size_t> positions = signature_.written;
    positions.insert(positions.end(), row_.writes.begin(), row_.writes.end());
    for (const size_t i : positions) {
      if (given[i].isTensor()) {
        call[i] = elsewhere(given[i].toTensor());
      } else if (given[i].isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : given[i].toTensorList()) {
          list.push_back(elsewhere(tensor));
        }
        call[i] = std::move(list);
      }
    }
    op.callBoxed(call);
    for (const auto& [original, result] : written) {
      original.copy_(result);
    }
    torch::jit::drop(*stack, n);
    for (size_t r = 0; r < call.size(); ++r) {
      const bool is_argument = op.schema().returns()[r].alias_info() != nullptr;
      stack->push_back(is_argument ? given[signature_.written[r]] : call[r]);
    }
  }

  static void run(Plan& plan, CallState& call) {
    for (const Input& input : call.parsed.inputs) {
      call.inputs.push_back(tensor_of(block_of(input.tensor), static_cast<size_t>(input.begin()),
                                      static_cast<size_t>(input.length * bytes_of(input.type))));
    }
    for (const int i : plan.outputs) {
      const Plan::Out& out = plan.outs[static_cast<size_t>(i)];
      const at::Tensor& target = call.targets[static_cast<size_t>(i)];
      call.outputs.push_back(out.written >= 0 ? call.inputs[static_cast<size_t>(out.written)]
                                              : tensor_of(block_of(target), 0, target.nbytes()));
    }
    Prelude prelude;
    if (!plan.scalar_tensors.empty()) {
      call.inputs.insert(call.inputs.end(), plan.scalar_tensors.begin(), plan.scalar_tensors.end());
      gather_scalars(plan, call.parsed, call.scalars);
      prelude = {plan.scalars->segment_tensor(), plan.scalars->offset, call.scalars};
    }
    if (plan.checks) {
      call.inputs.push_back(tensor_of(check_record(call.parsed.device), 0, kCheckBytes));
      call.outputs.push_back(call.inputs.back());
    }
    tnx::launch(call.parsed.device, plan.program, call.inputs, call.outputs, prelude);
    if (plan.checks) {
      checks_queued(call.parsed.device);
    }
  }

  // The numbers of this call, as the program takes them.
  static void gather_scalars(const Plan& plan, const Parsed& parsed, std::vector<char>& bytes) {
    bytes.resize(plan.scalar_bytes());
    char* int_at = bytes.data();
    char* const state_at = int_at + plan.ints * 8;
    char* float_at = state_at + (plan.random ? 16 : 0);
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
    if (plan.random) {
      const RandomState state = draw(parsed.generator, parsed.device, plan.draws);
      const uint64_t words[2] = {state.seed, state.offset};
      std::memcpy(state_at, words, 16);
    }
  }

  void push_results(const Plan& plan, const c10::FunctionSchema& schema, Stack* stack,
                    CallState& call) const {
    const size_t n = schema.arguments().size();
    size_t next = 0;
    size_t next_integer = 0;
    for (size_t r = 0; r < schema.returns().size(); ++r) {
      const c10::Argument& ret = schema.returns()[r];
      if (ret.alias_info() != nullptr) {  // an argument that was written
        if (r < signature_.written.size()) {
          call.results.push_back((*stack)[stack->size() - n + signature_.written[r]]);
        }
      } else if (ret.type()->kind() == c10::TypeKind::ListType) {
        c10::List<at::Tensor> list;
        while (next < call.targets.size()) {
          list.push_back(call.targets[next++]);
        }
        call.results.emplace_back(list);
      } else if (ret.type()->kind() == c10::TypeKind::IntType) {  // a SymInt's type too
        call.results.emplace_back(plan.integers.at(next_integer++));
      } else {
        call.results.emplace_back(std::move(call.targets[next++]));
      }
    }
    torch::jit::drop(*stack, n);
    for (c10::IValue& value : call.results) {
      stack->push_back(std::move(value));
    }
  }

  const Row row_;
  const std::string row_name_;
  const Signature signature_;
  std::atomic<uint64_t>& native_;
  std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<Plan>, KeyHash> plans_;
  std::pair<const Key, std::shared_ptr<Plan>>* last_ = nullptr;  // that was found; of plans_
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
    check_outs(op, *stack);
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
      if (result.scalar_type() != out.scalar_type()) {
        check_out_types(op, *stack);
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
                      std::make_unique<Kernel>(row, row_name, full_name(op), op.schema())));
  };
  // torch composes it of a kernel that names the devices it is for.
  library->impl("mode.values", torch::CppFunction::makeFromBoxedFunction<&fallback_kernel>());
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
