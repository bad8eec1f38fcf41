// SPDX-License-Identifier: Apache-2.0
// opennrt-plan: schedules of collective operations: what they do, whether they are right, pictures.
#include <cstdio>
#include <cstring>

#include "collectives/plan/choose.h"
#include "collectives/plan/draw.h"
#include "collectives/plan/schedule_json.h"
#include "runtime/base/format.h"
#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/opennrt_plan/report.h"

namespace onrt::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

const ToolText& tool_text() {
  static const ToolText kText = {
      "opennrt-plan",
      "shows, verifies and draws schedules of collective operations",
      {"opennrt-plan list [OPERATION -n RANKS [-c COUNT]] [--json]",
       "opennrt-plan show OPERATION [ALGORITHM] -n RANKS [--rank R] [--json]",
       "opennrt-plan verify OPERATION [ALGORITHM] -n RANKS [--json]",
       "opennrt-plan export OPERATION [ALGORITHM] -n RANKS [-o FILE]",
       "opennrt-plan import FILE [--json]",
       "opennrt-plan draw OPERATION [ALGORITHM] -n RANKS [--format svg|dot] [-o FILE]",
       "opennrt-plan show|verify|draw FILE.json"},
      {{"ranks", 'n', "N", "number of ranks"},
       {"count", 'c', "N", "elements of a block (default: 1024)"},
       {"root", 'r', "R", "root of broadcast, reduce, gather, scatter (default: 0)"},
       {"bytes", 'b', "N", "bytes of an element (default: 4)"},
       {"channels", '\0', "N", "parts that move independently (default: 1)"},
       {"slices", '\0', "N", "parts of a chunk (default: 1)"},
       {"in-place", 'i', "", "the smaller buffer lies in the larger one"},
       {"staged", 's', "", "private buffers: peers reach scratch memory only"},
       {"deterministic", 'd', "", "reduce in the order of ranks"},
       {"rank", '\0', "R", "show: this rank only"},
       {"format", 'f', "svg|dot", "draw: kind of picture (default: svg)"},
       {"output", 'o', "FILE", "export, draw: where to (default: standard output)"},
       {"json", 'j', "", "list, show, verify, import: print JSON"}},
      {"opennrt-plan list", "opennrt-plan list all_reduce -n 8 -c 1048576",
       "opennrt-plan show all_reduce ring -n 4",
       "opennrt-plan export all_gather bruck -n 6 -o plan.json && opennrt-plan import plan.json",
       "opennrt-plan draw all_reduce rdh -n 8 -o rdh.svg"},
      {{0, "done; the schedule is right"},
       {kFailed, "the schedule is wrong, no algorithm can do it, or a file could not be used"},
       {kUsage, "wrong command line"}}};
  return kText;
}

int fail(const std::string& why) {
  std::fprintf(stderr, "opennrt-plan: %s\n", why.c_str());
  return kFailed;
}

int wrong_usage(const std::string& why) {
  std::fprintf(stderr, "opennrt-plan: %s; see opennrt-plan --help\n", why.c_str());
  return kUsage;
}

// A flag's number, or `fallback`; sets `wrong` to what is wrong.
long long number(const Arguments& arguments, std::string_view flag, long long least, long long most,
                 long long fallback, std::string& wrong) {
  const auto text = arguments.find(flag);
  const auto value = text ? parse_whole(*text, least, most) : fallback;
  if (!value && wrong.empty()) {
    wrong = format("flag `{}': expected a whole number from {} to {}, found '{}'", flag, least,
                   most, *text);
  }
  return value.value_or(fallback);
}

// What the command line asks for, of an operation that needs no lists.
Result<cc::Spec> spec_of(const Arguments& arguments, const std::string& operation) {
  std::string wrong;
  cc::Spec spec;
  ONRT_ASSIGN_OR_RETURN(spec.op, cc::parse_op(operation));
  if (!arguments.has("ranks")) {
    return Status(NRT_INVALID, "flag `n, ranks' is needed");
  }
  spec.ranks = static_cast<int>(number(arguments, "ranks", 1, cc::kMaxRanks, 1, wrong));
  const auto count = static_cast<uint64_t>(number(arguments, "count", 0, 1LL << 40, 1024, wrong));
  spec.count = spec.op == cc::Op::kBarrier ? 0 : count;
  spec.root = static_cast<int>(number(arguments, "root", 0, cc::kMaxRanks, 0, wrong));
  spec.element_bytes = static_cast<uint32_t>(number(arguments, "bytes", 1, 8, 4, wrong));
  spec.partial_bytes = std::max<uint32_t>(4, spec.element_bytes);
  spec.channels = static_cast<int>(number(arguments, "channels", 1, cc::kMaxChannels, 1, wrong));
  spec.slices = static_cast<int>(number(arguments, "slices", 1, cc::kMaxChannels, 1, wrong));
  spec.in_place = arguments.has("in-place");
  spec.access = arguments.has("staged") ? cc::Access::kStaged : cc::Access::kDirect;
  spec.deterministic = arguments.has("deterministic");
  const auto ranks = static_cast<size_t>(spec.ranks);
  if (spec.op == cc::Op::kAllGatherV || spec.op == cc::Op::kAllToAllV) {
    spec.counts.assign(spec.op == cc::Op::kAllGatherV ? ranks : ranks * ranks, count);
    spec.count = 0;
  }
  for (int rank = 0; spec.op == cc::Op::kPermute && rank < spec.ranks; ++rank) {
    spec.pairs.emplace_back(rank, (rank + 1) % spec.ranks);
  }
  return wrong.empty() ? Result<cc::Spec>(spec) : Status(NRT_INVALID, wrong);
}

struct Plan {
  cc::Schedule schedule;
  std::string why;
};

Result<Plan> read_plan(const std::string& path) {
  ONRT_ASSIGN_OR_RETURN(const auto bytes, read_file(path, cc::kLargestScheduleText + 1));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto schedule = cc::parse_schedule(text);
  if (!schedule.ok()) {
    return std::move(schedule).status().annotate(path);
  }
  return Plan{std::move(schedule).value(), ""};
}

// FILE.json, or OPERATION [ALGORITHM].
Result<Plan> make_plan(const Arguments& arguments) {
  const auto& words = arguments.positional();
  if (words[1].ends_with(".json")) {
    return read_plan(words[1]);
  }
  ONRT_ASSIGN_OR_RETURN(const cc::Spec spec, spec_of(arguments, words[1]));
  ONRT_ASSIGN_OR_RETURN(const cc::Choice choice, cc::choose(spec, cc::shared_memory_model(1),
                                                            words.size() > 2 ? words[2] : ""));
  ONRT_ASSIGN_OR_RETURN(cc::Schedule schedule, cc::build_schedule(*choice.algorithm, spec));
  return Plan{std::move(schedule), choice.why};
}

int list(const Arguments& arguments) {
  const auto& words = arguments.positional();
  std::vector<AlgorithmRow> rows;
  if (words.size() > 2) {
    return wrong_usage("expected 'list [OPERATION]'");
  }
  std::optional<cc::Spec> spec;
  if (words.size() == 2) {
    auto asked = spec_of(arguments, words[1]);
    if (!asked.ok()) {
      return wrong_usage(std::string(asked.status().message()));
    }
    spec = std::move(asked).value();
  }
  for (const cc::Algorithm& algorithm : cc::algorithms()) {
    AlgorithmRow row = {&algorithm, {}, ""};
    if (spec && !algorithm.ops.has(spec->op)) {
      continue;
    }
    if (spec) {
      const Status status = cc::supports(algorithm, *spec);
      row.refusal = status.message();
      if (status.ok()) {
        row.seconds = cc::estimate_seconds(algorithm.cost(*spec), cc::shared_memory_model(1));
      }
    }
    rows.push_back(std::move(row));
  }
  return print(arguments.has("json") ? list_json(rows) : list_text(rows)) ? 0 : kFailed;
}

int verify_plan(const Arguments& arguments, const Plan& plan) {
  const cc::Verification result = cc::verify(plan.schedule);
  const bool printed = print(arguments.has("json") ? verification_json(plan.schedule, result)
                                                   : verification_text(plan.schedule, result));
  return printed && result.ok() ? 0 : kFailed;
}

int show(const Arguments& arguments, const Plan& plan) {
  if (plan.schedule.programs.empty()) {
    return fail("the schedule has no programs");
  }
  std::string wrong;
  const int rank =
      static_cast<int>(number(arguments, "rank", 0, plan.schedule.spec.ranks - 1, -1, wrong));
  if (!wrong.empty()) {
    return wrong_usage(wrong);
  }
  const cc::Verification result = cc::verify(plan.schedule);
  if (!result.ok()) {
    return verify_plan(arguments, plan);
  }
  return print(arguments.has("json") ? show_json(plan.schedule, plan.why)
                                     : show_text(plan.schedule, plan.why, rank))
             ? 0
             : kFailed;
}

int write_out(const Arguments& arguments, const std::string& text) {
  const auto path = arguments.find("output");
  if (!path) {
    return print(text) ? 0 : kFailed;
  }
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const Status status = write_file(*path, bytes);
  return status.ok() ? 0 : fail(std::string(status.message()));
}

int draw(const Arguments& arguments, const Plan& plan) {
  const std::string kind = arguments.find("format").value_or("svg");
  if (kind != "svg" && kind != "dot") {
    return wrong_usage("flag `format': expected svg or dot, found '" + kind + "'");
  }
  const auto text = kind == "svg" ? cc::draw_svg(plan.schedule) : cc::draw_dot(plan.schedule);
  return text.ok() ? write_out(arguments, *text) : fail(std::string(text.status().message()));
}

int run_command(const Arguments& arguments) {
  const std::string& command = arguments.positional().front();
  const auto plan =
      command == "import" ? read_plan(arguments.positional()[1]) : make_plan(arguments);
  if (!plan.ok()) {
    return fail(std::string(plan.status().message()));
  }
  if (command == "show") {
    return show(arguments, *plan);
  }
  if (command == "draw") {
    return draw(arguments, *plan);
  }
  if (command == "export") {
    return write_out(arguments, cc::export_schedule(plan->schedule));
  }
  return verify_plan(arguments, *plan);
}

int run(int argc, char** argv) {
  const Arguments arguments = parse_arguments(tool_text(), argc, argv);
  if (!arguments.error().empty()) {
    return wrong_usage(arguments.error());
  }
  if (arguments.help() || arguments.version()) {
    return print(arguments.help() ? help_text(tool_text()) : version_text(tool_text())) ? 0
                                                                                        : kFailed;
  }
  const auto& words = arguments.positional();
  if (words.empty()) {
    return wrong_usage("expected list, show, verify, export, import or draw");
  }
  if (words[0] == "list") {
    return list(arguments);
  }
  const bool known = words[0] == "show" || words[0] == "verify" || words[0] == "export" ||
                     words[0] == "import" || words[0] == "draw";
  if (!known) {
    return wrong_usage("unknown command '" + words[0] + "'");
  }
  if (words.size() < 2 || words.size() > (words[0] == "import" ? 2 : 3)) {
    return wrong_usage("expected '" + words[0] +
                       (words[0] == "import" ? " FILE'" : " OPERATION [ALGORITHM]'"));
  }
  if (words[0] != "import" && !words[1].ends_with(".json") && !arguments.has("ranks")) {
    return wrong_usage("flag `n, ranks' is needed");
  }
  return run_command(arguments);
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  return onrt::tools::run_tool("opennrt-plan", onrt::tools::run, argc, argv);
}
