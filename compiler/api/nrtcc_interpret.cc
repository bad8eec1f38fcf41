// SPDX-License-Identifier: Apache-2.0
// The C API: the reference interpreter.
#include <algorithm>
#include <cstring>

#include "compiler/api/graph_handle.h"
#include "compiler/reference/interpreter.h"
#include "opennrt/nrtcc.h"
#include "runtime/base/format.h"

namespace onrt::nrtcc {
namespace {

Result<std::vector<reference::Tensors>> read_inputs(const hir::Graph& graph,
                                                    std::span<const void* const> inputs) {
  const hir::Computation& entry = graph.computation(hir::kEntry);
  if (inputs.size() != entry.parameters.size()) {
    return hir::invalid(format("inputs: expected {}, one per parameter, found {}",
                               entry.parameters.size(), inputs.size()));
  }
  std::vector<reference::Tensors> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!graph.shape_of(entry.parameters[i]).is_array()) {
      return hir::unsupported(format("{}: expected an array as parameter of the entry, found {}",
                                     describe(graph, entry.parameters[i]),
                                     graph.shapes().text(graph[entry.parameters[i]].shape)));
    }
    arguments.push_back(reference::make_tensors(graph, graph[entry.parameters[i]].shape));
    std::vector<std::byte>& data = arguments.back()[0].data;
    if (!data.empty()) {
      ONRT_RETURN_IF_ERROR(check_pointer(inputs[i], format("inputs[{}]", i)));
      std::memcpy(data.data(), inputs[i], data.size());
    }
  }
  return arguments;
}

Status interpret_graph(const hir::Graph& graph, std::span<const void* const> inputs,
                       std::span<void* const> outputs) {
  ONRT_RETURN_IF_ERROR(verify(graph));
  ONRT_ASSIGN_OR_RETURN(const auto arguments, read_inputs(graph, inputs));
  ONRT_ASSIGN_OR_RETURN(const reference::Tensors results,
                        reference::interpret(graph, hir::kEntry, arguments));
  if (outputs.size() != results.size()) {
    return hir::invalid(format("outputs: expected {}, one per array of the root, found {}",
                               results.size(), outputs.size()));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].data.empty()) {
      ONRT_RETURN_IF_ERROR(check_pointer(outputs[i], format("outputs[{}]", i)));
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    std::copy(results[i].data.begin(), results[i].data.end(), static_cast<std::byte*>(outputs[i]));
  }
  return ok_status();
}

}  // namespace
}  // namespace onrt::nrtcc

extern "C" nrtcc_status_t nrtcc_interpret(const nrtcc_graph_t* graph, const void* const* inputs,
                                          int32_t input_count, void* const* outputs,
                                          int32_t output_count) {
  return onrt::nrtcc::boundary([&]() -> onrt::Status {
    ONRT_RETURN_IF_ERROR(onrt::nrtcc::check_graph(graph));
    if (input_count < 0 || output_count < 0) {
      return onrt::hir::invalid(
          onrt::format("expected counts of 0 or more, found {} inputs and {} "
                       "outputs",
                       input_count, output_count));
    }
    if (input_count > 0) {
      ONRT_RETURN_IF_ERROR(onrt::nrtcc::check_pointer(inputs, "inputs"));
    }
    if (output_count > 0) {
      ONRT_RETURN_IF_ERROR(onrt::nrtcc::check_pointer(outputs, "outputs"));
    }
    return onrt::nrtcc::interpret_graph(graph->graph, {inputs, static_cast<size_t>(input_count)},
                                        {outputs, static_cast<size_t>(output_count)});
  });
}
