// SPDX-License-Identifier: Apache-2.0
// `neuron-bench exec`: runs one NEFF and reports times.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tools/cost/cost_report.h"
#include "tools/neuron_bench/inputs.h"

namespace onrt::tools {

struct ExecRequest {
  std::string model;
  std::vector<std::string> inputs;    // words of read_inputs()
  std::optional<std::string> output;  // .npz
  int core = 0;
  int iterations = 1;
  int warmup = 0;
  bool require_inputs = false;
};

struct ExecReport {
  ExecRequest request;
  std::vector<TensorInfo> tensors;
  std::vector<std::string> sources;  // by tensor: file of an input, "" for zeros and outputs
  double load_us = 0;
  std::vector<double> wall_us;      // per iteration, sorted
  std::optional<double> device_us;  // per iteration, by the timing model
  std::optional<ProgramCost> cost;  // of one execution, by the same; of NEFFs of OpenNRT
  Status numerics;                  // an execution that completed with NaN or another error
};

// Failures carry one sentence. An execution that completed with errors still writes its outputs.
Result<ExecReport> run_exec(const ExecRequest& request);

std::string report_text(const ExecReport& report);
std::string report_json(const ExecReport& report);

}  // namespace onrt::tools
