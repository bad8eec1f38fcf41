// SPDX-License-Identifier: Apache-2.0
#include "tools/opennrt_plan/report.h"

#include <algorithm>

#include "collectives/plan/draw.h"
#include "runtime/base/format.h"
#include "runtime/base/json.h"
#include "tools/common/table.h"

namespace onrt::tools {
namespace {

std::vector<std::string_view> ops_of(const cc::Algorithm& algorithm) {
  std::vector<std::string_view> names;
  for (int op = 0; op < cc::kOps; ++op) {
    if (algorithm.ops.has(static_cast<cc::Op>(op))) {
      names.push_back(cc::op_name(static_cast<cc::Op>(op)));
    }
  }
  return names;
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) {
    text += (text.empty() ? "" : " ") + std::string(name);
  }
  return text;
}

// A file's name may hold anything; terminals obey control characters.
std::string title(const cc::Schedule& schedule) {
  const cc::Spec& spec = schedule.spec;
  std::string text = format("{} by {}: {} ranks, {} elements of {} bytes, {}", cc::op_name(spec.op),
                            printable(schedule.algorithm), spec.ranks, spec.count,
                            spec.element_bytes, cc::access_name(spec.access));
  text += cc::op_has_root(spec.op) ? format(", root {}", spec.root) : "";
  text += spec.in_place ? ", in place" : "";
  return text + (spec.deterministic ? ", deterministic" : "") + "\n";
}

uint64_t step_count(const cc::Schedule& schedule) {
  uint64_t steps = 0;
  for (const cc::RankProgram& program : schedule.programs) {
    for (const auto& channel : program.channels) {
      steps += channel.size();
    }
  }
  return steps;
}

struct Memory {
  uint64_t scratch = 0;
  uint64_t partial = 0;
};

Memory most_memory(const cc::Schedule& schedule) {
  Memory most;
  for (const cc::RankProgram& program : schedule.programs) {
    most.scratch = std::max(most.scratch, program.scratch_elements);
    most.partial = std::max(most.partial, program.partial_elements);
  }
  return most;
}

void spec_members(JsonWriter& out, const cc::Schedule& schedule) {
  const cc::Spec& spec = schedule.spec;
  out.key("operation").string(cc::op_name(spec.op)).key("algorithm").string(schedule.algorithm);
  out.key("ranks").integer(spec.ranks).key("count").unsigned_integer(spec.count);
  out.key("element_bytes").integer(spec.element_bytes);
  out.key("access").string(cc::access_name(spec.access)).key("root").integer(spec.root);
  out.key("in_place").boolean(spec.in_place);
  out.key("deterministic").boolean(spec.deterministic);
  out.key("channels").integer(spec.channels).key("slices").integer(spec.slices);
}

}  // namespace

std::string list_text(const std::vector<AlgorithmRow>& rows) {
  const bool for_spec = std::any_of(rows.begin(), rows.end(), [](const AlgorithmRow& row) {
    return row.seconds.has_value() || !row.refusal.empty();
  });
  Table table;
  table.add_column({"ALGORITHM"});
  table.add_column({for_spec ? "BY THE MODEL" : "OPERATIONS"});
  table.add_column({"COST"});
  for (const AlgorithmRow& row : rows) {
    std::string second = joined(ops_of(*row.algorithm));
    if (for_spec) {
      second = row.seconds ? format("{:.2f} us", *row.seconds * 1e6) : "no: " + row.refusal;
    }
    table.add_row(
        {std::string(row.algorithm->name), second, std::string(row.algorithm->complexity)});
  }
  return table.text(Rules::kOutside);
}

std::string list_json(const std::vector<AlgorithmRow>& rows) {
  JsonWriter out(2);
  out.begin_object().key("algorithms").begin_array();
  for (const AlgorithmRow& row : rows) {
    out.begin_object().key("name").string(row.algorithm->name).key("operations").begin_array();
    for (const std::string_view name : ops_of(*row.algorithm)) {
      out.string(name);
    }
    out.end_array().key("cost").string(row.algorithm->complexity);
    out.key("source").string(row.algorithm->source);
    if (row.seconds) {
      out.key("model_us").real(*row.seconds * 1e6);
    }
    if (!row.refusal.empty()) {
      out.key("refusal").string(row.refusal);
    }
    out.end_object();
  }
  out.end_array().end_object();
  return out.take() + "\n";
}

std::string show_text(const cc::Schedule& schedule, const std::string& why, int only_rank) {
  std::string text = title(schedule);
  text += why.empty() ? "" : "why: " + why + "\n";
  const Memory most = most_memory(schedule);
  text += format("{} steps; a rank's scratch memory: {} elements, {} partial results{}\n",
                 step_count(schedule), most.scratch, most.partial,
                 schedule.programs.front().alternate_scratch ? ", taken in turn" : "");
  for (size_t rank = 0; rank < schedule.programs.size(); ++rank) {
    if (only_rank >= 0 && static_cast<size_t>(only_rank) != rank) {
      continue;
    }
    const cc::RankProgram& program = schedule.programs[rank];
    for (size_t channel = 0; channel < program.channels.size(); ++channel) {
      text += format("rank {}, channel {}\n", rank, channel);
      const auto& steps = program.channels[channel];
      for (size_t i = 0; i < steps.size(); ++i) {
        text += format("{:5}  {}\n", i, cc::step_text(program, steps[i], static_cast<int>(rank)));
      }
    }
  }
  return text;
}

std::string show_json(const cc::Schedule& schedule, const std::string& why) {
  JsonWriter out(2);
  out.begin_object();
  spec_members(out, schedule);
  if (!why.empty()) {
    out.key("why").string(why);
  }
  const Memory most = most_memory(schedule);
  out.key("steps").unsigned_integer(step_count(schedule));
  out.key("scratch_elements").unsigned_integer(most.scratch);
  out.key("partial_elements").unsigned_integer(most.partial);
  out.key("bytes_moved").begin_array();
  const auto bytes = cc::traffic(schedule);
  const auto ranks = static_cast<size_t>(schedule.spec.ranks);
  for (size_t from = 0; from < ranks; ++from) {
    out.begin_array();
    for (size_t to = 0; to < ranks; ++to) {
      out.unsigned_integer(bytes[from * ranks + to]);
    }
    out.end_array();
  }
  out.end_array().end_object();
  return out.take() + "\n";
}

std::string verification_text(const cc::Schedule& schedule, const cc::Verification& result) {
  std::string text = title(schedule);
  for (const cc::Finding& finding : result.findings) {
    text += "  " + printable(cc::finding_text(finding)) + "\n";
  }
  if (result.ok()) {
    return text + format("verified: {} steps\n", result.steps);
  }
  return text + format("refused: {}{} findings\n",
                       result.findings.size() == cc::kMostFindings ? "at least " : "",
                       result.findings.size());
}

std::string verification_json(const cc::Schedule& schedule, const cc::Verification& result) {
  JsonWriter out(2);
  out.begin_object();
  spec_members(out, schedule);
  out.key("verified").boolean(result.ok()).key("findings").begin_array();
  for (const cc::Finding& finding : result.findings) {
    out.begin_object().key("mistake").string(cc::mistake_name(finding.mistake));
    out.key("rank").integer(finding.rank).key("channel").integer(finding.channel);
    out.key("step").integer(finding.step).key("text").string(finding.text).end_object();
  }
  out.end_array().end_object();
  return out.take() + "\n";
}

}  // namespace onrt::tools
