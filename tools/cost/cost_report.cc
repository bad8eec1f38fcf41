// SPDX-License-Identifier: Apache-2.0
#include "tools/cost/cost_report.h"

#include <array>

#include "emulator/isa/encoding.h"
#include "runtime/base/format.h"

namespace onrt::tools {
namespace {

std::string line(std::string_view name, const std::string& value) {
  std::string text(name);
  text.resize(18, ' ');
  return text + value + "\n";
}

// "1.23 M": three digits and a decimal prefix.
std::string scaled(double value, const char* unit) {
  constexpr std::array<const char*, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  while (value >= 1000 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  return format("{:.3f} {}{}", value, kPrefixes[prefix], unit);
}

std::string share(uint64_t busy_ns, uint64_t device_ns) {
  const double percent =
      device_ns == 0 ? 0.0 : 100.0 * static_cast<double>(busy_ns) / static_cast<double>(device_ns);
  return format("{:.3f} us ({:.1f} %)", static_cast<double>(busy_ns) / 1e3, percent);
}

}  // namespace

Result<ProgramCost> neff_cost(const NeffPackage& package) {
  if (package.subgraphs.empty()) {
    return Status(NRT_INVALID, "the NEFF has no program");
  }
  const NeffSubgraph& subgraph = package.subgraphs.front();
  ONRT_ASSIGN_OR_RETURN(const ncx::Program program,
                        ncx::decode(std::span(subgraph.program).first(subgraph.code_bytes)));
  ONRT_ASSIGN_OR_RETURN(const Timeline timeline, schedule(program));
  ProgramCost cost = cost_of(program, timeline);
  cost.code_bytes = subgraph.code_bytes;
  for (const NeffTensor& tensor : package.tensors) {
    cost.tensor_bytes += tensor.alias_of < 0 ? tensor.size_bytes : 0;
  }
  return cost;
}

std::string cost_text(const ProgramCost& cost) {
  std::string out = line("device time", format("{:.3f} us (model of a NeuronCore, not measured)",
                                               static_cast<double>(cost.device_ns) / 1e3));
  if (cost.has_loops) {
    out += line("", "each loop counted as one turn: turns are known when it runs");
  }
  for (int e = 0; e < ncx::kEngines; ++e) {
    out += line(format("  {}", ncx::engine_name(static_cast<ncx::Engine>(e))),
                share(cost.busy_ns[static_cast<size_t>(e)], cost.device_ns));
  }
  out += line("  DMA", share(cost.dma_busy_ns, cost.device_ns));
  out += line("HBM traffic", scaled(static_cast<double>(cost.hbm_bytes), "B"));
  out += line("FLOPs", scaled(cost.flops, "FLOP"));
  out += line("peak memory",
              format("{} bytes: code {}, constants {}, scratch {}, tensors {}", cost.peak_bytes(),
                     cost.code_bytes, cost.constant_bytes, cost.scratch_bytes, cost.tensor_bytes));
  return out;
}

void cost_json(const ProgramCost& cost, JsonWriter& out) {
  out.begin_object().key("device_ns").unsigned_integer(cost.device_ns);
  out.key("loops_counted_once").boolean(cost.has_loops).key("engine_busy_ns").begin_object();
  for (int e = 0; e < ncx::kEngines; ++e) {
    out.key(ncx::engine_name(static_cast<ncx::Engine>(e)))
        .unsigned_integer(cost.busy_ns[static_cast<size_t>(e)]);
  }
  out.end_object().key("dma_busy_ns").unsigned_integer(cost.dma_busy_ns);
  out.key("hbm_bytes").unsigned_integer(cost.hbm_bytes).key("flops").real(cost.flops);
  out.key("peak_bytes").unsigned_integer(cost.peak_bytes());
  out.key("code_bytes").unsigned_integer(cost.code_bytes);
  out.key("constant_bytes").unsigned_integer(cost.constant_bytes);
  out.key("scratch_bytes").unsigned_integer(cost.scratch_bytes);
  out.key("tensor_bytes").unsigned_integer(cost.tensor_bytes).end_object();
}

}  // namespace onrt::tools
