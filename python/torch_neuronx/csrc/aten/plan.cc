// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/aten/plan.h"

#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "python/torch_neuronx/csrc/aten/tensor.h"
#include "python/torch_neuronx/csrc/view.h"

namespace tnx {
namespace {

using Stack = torch::jit::Stack;

class Planner {
 public:
  Planner(const Signature& signature, const std::string& row_name)
      : signature_(signature), row_(signature.row), row_name_(row_name) {}

  std::shared_ptr<Plan> build(const c10::OperatorHandle& op, const Stack& stack,
                              const Parsed& parsed) const {
    auto plan = std::make_shared<Plan>();
    try {
      const auto metas = row_.own_shapes ? std::nullopt : meta_results(op, stack);
      translated_unsupported([&] { build_plan(op, stack, parsed, metas, *plan); });
    } catch (const Unsupported& reason) {
      plan->unsupported = reason.what();
    }
    return plan;
  }

 private:
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

  static bool any_empty(const Stack& arguments) {
    return std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& value) {
      return value.isTensor() && value.toTensor().defined() && value.toTensor().numel() == 0;
    });
  }

  // torch's formula in Python divides by a size of 0, takes a number for a truth value, or refuses
  // no elements: the CPU's kernel knows what it does.
  static bool formula_fails(PyObject* type, const Stack& arguments) {
    const pybind11::gil_scoped_acquire gil;
    return PyErr_GivenExceptionMatches(type, PyExc_ZeroDivisionError) != 0 ||
           PyErr_GivenExceptionMatches(type, PyExc_TypeError) != 0 || any_empty(arguments);
  }

  struct MetaResults {
    std::vector<at::Tensor> tensors;
    std::vector<int64_t> integers;
  };

  // Types and shapes of the results; checks the arguments with torch's own messages. Nothing where
  // torch has no meta kernel.
  std::optional<MetaResults> meta_results(const c10::OperatorHandle& op, const Stack& stack) const {
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
    } catch (const c10::Error&) {
      // torch's meta kernels refuse some inputs without elements that its other kernels take.
      if (!any_empty(arguments)) {
        throw;
      }
      throw Unsupported("torch's meta kernel fails for no elements");
    } catch (const python_error& error) {
      if (!formula_fails(error.type, arguments)) {
        throw;
      }
      throw Unsupported("torch's meta kernel fails for these arguments");
    } catch (const pybind11::error_already_set& error) {  // from a kernel that is Python itself
      if (!formula_fails(error.type().ptr(), arguments)) {
        throw;
      }
      throw Unsupported("torch's meta kernel fails for these arguments");
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
      for (const size_t argument : signature_.written) {
        collect(arguments[argument]);
      }
    }
    return results;
  }

  // Input numbers of the arguments that are the results, in their order.
  std::vector<int> written_inputs(const Parsed& parsed) const {
    std::vector<int> written;
    if (!row_.writes.empty()) {
      return written;  // those come after the results
    }
    for (const size_t argument : signature_.written) {
      const auto uses = parsed.uses_of(argument);
      written.insert(written.end(), uses.begin(), uses.end());
    }
    return written;
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

  // DESIGN: float64 keeps its type, is computed in float32, and the user is told once. Not of
  // single numbers: torch's own GradScaler makes some.
  static void tell_of_f64(const Parsed& parsed, const std::vector<Meta>& outs) {
    bool f64 = false;
    for (const Input& input : parsed.inputs) {
      f64 = f64 || (input.type == kF64 && input.tensor.numel() > 1);
    }
    for (const Meta& out : outs) {
      f64 = f64 || (out.type == kF64 && count_of(out.dims) > 1);
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
    const std::vector<int> written = written_inputs(parsed);
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
        meta = {input.type, layout_of(input.tensor).sizes};
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
      for (const int use : parsed.uses_of(static_cast<size_t>(position))) {
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
      views.push_back(
          read_view(g, flats[i], layout_of(parsed.inputs[i].tensor), parsed.inputs[i].start));
    }
    plan.ints = parsed.ints;
    plan.floats = parsed.floats;
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
    for (const ScalarUse& use : parsed.scalars) {
      call.place_scalar(use.argument, use.element, use.place);
    }
    std::vector<Value> results = row_.lower(g, call);
    std::optional<Checked> checked;
    if (!call.checks().empty()) {
      checked = Checked{static_cast<int>(parameters), note_checks(g, call)};
      ++parameters;
    }
    finish(g, parsed, flats, outs, results, checked, plan);
    if (plan.outputs.empty()) {
      return;  // no result has elements
    }
    dump_graph(g, row_name_);
    plan.checks = checked.has_value();
    plan.program = std::make_shared<Program>(g, row_name_, parsed.device, parameters,
                                             plan.outputs.size() + (plan.checks ? 1 : 0));
    plan.scalars = allocate(parsed.device, plan.scalar_bytes());
    size_t offset = 0;
    for (const size_t bytes : {plan.ints * 8, size_t{plan.random ? 16U : 0U}, plan.floats * 4}) {
      if (bytes > 0) {
        plan.scalar_tensors.push_back(tensor_of(plan.scalars, offset, bytes));
        offset += bytes;
      }
    }
    if (plan.random) {
      for (const auto& out : outs) {
        plan.draws = std::max(plan.draws, static_cast<uint64_t>(count_of(out.dims)));
      }
      plan.draws = std::max(plan.draws * static_cast<uint64_t>(row_.draws), call.drawn());
    }
  }

  // The record of checks (checks.h) as a parameter, and with what this call's checks found.
  struct Checked {
    int parameter;
    Value record;
  };
  Value note_checks(Graph& g, const Call& call) const {
    Value record = g.parameter(kS64, {2});
    for (const Call::Check& check : call.checks()) {
      const Value none =
          g.compare("EQ", g.reshape(g.narrow(record, 0, 0, 1), {}), g.integer(kS64, 0));
      const Value number = g.integer(kS64, check_number(row_name_, check.text, check.index));
      const Value found =
          g.concat({g.reshape(number, {1}), g.reshape(g.convert(check.value, kS64), {1})}, 0);
      record = g.select(g.broadcast(g.binary("and", none, g.reshape(check.bad, {})), {2}, {}),
                        found, record);
    }
    return record;
  }

  std::vector<Arg> arguments_of(Graph& g, const c10::OperatorHandle& op, const Stack& stack,
                                const Parsed& parsed, const std::vector<Value>& views,
                                const Value& ints, const Value& floats) const {
    const auto& arguments = op.schema().arguments();
    const size_t begin = stack.size() - arguments.size();
    std::vector<Arg> args;
    std::map<std::pair<size_t, size_t>, const ScalarUse*> scalars;
    for (const ScalarUse& use : parsed.scalars) {
      scalars[{use.argument, use.element}] = &use;
    }
    const auto tensor = [&](const at::Tensor& given, size_t i, size_t e) -> Arg {
      const int use = parsed.uses_of(i)[e];
      if (use == -1) {
        return None{};
      }
      if (use == -2) {
        return g.zeros(*type_of(given.scalar_type()),
                       Dims(given.sizes().begin(), given.sizes().end()));
      }
      if (use <= -3) {
        const ScalarUse& scalar = *scalars.at({i, e});
        const Number& number = scalar.number;
        if (given.unsafeGetTensorImpl()->is_wrapped_number()) {
          return number;
        }
        const Value& inputs = number.kind == Number::Kind::kFloat ? floats : ints;
        return g.convert(g.reshape(g.narrow(inputs, 0, scalar.place, 1), {}),
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
          Number number = number_of(signature_.arguments[i], c10::IValue(refs[e].toScalar()));
          number.known = signature_.arguments[i].known;
          list.push_back(number);
        }
        args.emplace_back(std::move(list));
      } else if (value.isBool() && signature_.arguments[i].is_bool) {
        args.emplace_back(value.toBool());
      } else {
        args.emplace_back(number_of(signature_.arguments[i], value));
      }
    }
    return args;
  }

  // Strides of a result whose shape is the row's own.
  Dims strides_of(const Dims& dims, const Parsed& parsed) const {
    for (const int position : row_.format_like) {
      for (const int use : parsed.uses_of(static_cast<size_t>(position))) {
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
              const std::vector<Meta>& outs, const std::vector<Value>& results,
              const std::optional<Checked>& checked, Plan& plan) const {
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
        roots.push_back(write_view(g, flats[n], value, layout_of(parsed.inputs[n].tensor),
                                   parsed.inputs[n].start));
        aliases.push_back(out.written);
      } else {
        roots.push_back(flatten(g, value, {out.sizes, out.strides}));
        aliases.push_back(-1);
      }
      plan.outputs.push_back(static_cast<int>(i));
    }
    if (!roots.empty() && checked) {
      roots.push_back(checked->record);
      aliases.push_back(checked->parameter);
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

  const Signature& signature_;
  const Row& row_;
  const std::string& row_name_;
};

}  // namespace

std::shared_ptr<Plan> make_plan(const Signature& signature, const std::string& row_name,
                                const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                                const Parsed& parsed) {
  return Planner(signature, row_name).build(op, stack, parsed);
}

}  // namespace tnx
