// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_bench/exec.h"

#include <algorithm>
#include <chrono>

#include "runtime/base/format.h"
#include "tools/common/file.h"

namespace onrt::tools {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Inputs from files; the others become zero.
Status fill_inputs(const ExecRequest& request, Model& model, ExecReport& report) {
  ONRT_ASSIGN_OR_RETURN(const std::vector<Input> inputs,
                        read_inputs(request.inputs, model.tensors()));
  for (const Input& input : inputs) {
    ONRT_RETURN_IF_ERROR(model.write(input.tensor, input.array.data));
    report.sources[input.tensor] = input.source;
  }
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    const TensorInfo& info = model.tensors()[i];
    if (!info.is_input || !report.sources[i].empty()) {
      continue;
    }
    if (request.require_inputs) {
      return Status(NRT_INVALID, format("input '{}' has no file", info.name));
    }
    ONRT_RETURN_IF_ERROR(model.write(i, std::vector<std::byte>(info.bytes)));
  }
  return ok_status();
}

// Statuses after which the outputs are there all the same.
bool completed(NRT_STATUS status) {
  return status == NRT_SUCCESS || status == NRT_EXEC_COMPLETED_WITH_NUM_ERR ||
         status == NRT_EXEC_COMPLETED_WITH_ERR;
}

Status execute(Model& model, ExecReport& report) {
  const NRT_STATUS status = model.execute();
  Status result = checked(status, "nrt_execute");
  if (!completed(status)) {
    return result;
  }
  if (report.numerics.ok()) {
    report.numerics = std::move(result);
  }
  return ok_status();
}

Status measure(const ExecRequest& request, Model& model, ExecReport& report) {
  for (int i = 0; i < request.warmup; ++i) {
    ONRT_RETURN_IF_ERROR(execute(model, report));
  }
  const auto before = model.times();
  report.wall_us.reserve(static_cast<size_t>(request.iterations));
  for (int i = 0; i < request.iterations; ++i) {
    const auto start = Clock::now();
    ONRT_RETURN_IF_ERROR(execute(model, report));
    report.wall_us.push_back(microseconds_since(start));
  }
  std::sort(report.wall_us.begin(), report.wall_us.end());
  if (const auto after = model.times(); before && after && after->executions > before->executions) {
    report.device_us = static_cast<double>(after->total_device_ns - before->total_device_ns) /
                       static_cast<double>(after->executions - before->executions) / 1e3;
  }
  return ok_status();
}

Status write_outputs(const std::string& path, const Model& model) {
  std::vector<NamedArray> arrays;
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    const TensorInfo& info = model.tensors()[i];
    if (info.is_input) {
      continue;
    }
    ONRT_ASSIGN_OR_RETURN(std::vector<std::byte> data, model.read(i));
    const std::string type = numpy_type(info.dtype);
    if (type.empty()) {  // bytes, one dimension: the interface has no name for the type
      const auto size = static_cast<int64_t>(info.bytes);
      arrays.emplace_back(info.name, Array{"|u1", {size}, std::move(data)});
    } else {
      arrays.emplace_back(info.name, Array{type, info.shape, std::move(data)});
    }
  }
  return write_file(path, make_npz(arrays));
}

}  // namespace

Result<ExecReport> run_exec(const ExecRequest& request) {
  ONRT_ASSIGN_OR_RETURN(const std::vector<std::byte> neff, read_file(request.model));
  ONRT_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime, Runtime::start());
  ExecReport report;
  report.request = request;
  const auto start = Clock::now();
  auto loaded = Model::load(neff, request.core);
  if (!loaded.ok()) {
    return std::move(loaded).status().annotate(request.model);
  }
  Model& model = **loaded;
  report.load_us = microseconds_since(start);
  report.tensors = model.tensors();
  report.sources.resize(report.tensors.size());
  // Another libnrt loads NEFFs whose instructions only it can read.
  if (const auto package = read_neff(neff, NeffHashCheck::kSkip); package.ok()) {
    ONRT_ASSIGN_OR_RETURN(report.cost, neff_cost(*package));
  }
  ONRT_RETURN_IF_ERROR(fill_inputs(request, model, report));
  ONRT_RETURN_IF_ERROR(measure(request, model, report));
  if (request.output) {
    ONRT_RETURN_IF_ERROR(write_outputs(*request.output, model));
  }
  return report;
}

}  // namespace onrt::tools
