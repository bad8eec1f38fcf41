// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/schedule_json.h"

#include <algorithm>
#include <initializer_list>
#include <limits>

#include "collectives/plan/verify.h"
#include "runtime/base/format.h"
#include "runtime/base/json.h"

namespace onrt::cc {
namespace {

constexpr std::string_view kFormat = "opennrt-schedule";
constexpr int64_t kVersion = 1;
constexpr int64_t kMostElements = 1LL << 56;
constexpr int64_t kMostAmount = std::numeric_limits<uint32_t>::max();

void write_list(JsonWriter& out, std::string_view key, const std::vector<uint64_t>& list) {
  out.key(key).begin_array();
  for (const uint64_t number : list) {
    out.unsigned_integer(number);
  }
  out.end_array();
}

std::string spec_text(const Spec& spec) {
  JsonWriter out;
  out.begin_object();
  out.key("op").string(op_name(spec.op));
  out.key("ranks").integer(spec.ranks);
  out.key("count").unsigned_integer(spec.count);
  out.key("stride").unsigned_integer(spec.stride);
  out.key("root").integer(spec.root);
  out.key("in_place").boolean(spec.in_place);
  out.key("deterministic").boolean(spec.deterministic);
  out.key("access").string(access_name(spec.access));
  out.key("element_bytes").integer(spec.element_bytes);
  out.key("partial_bytes").integer(spec.partial_bytes);
  out.key("channels").integer(spec.channels);
  out.key("slices").integer(spec.slices);
  write_list(out, "counts", spec.counts);
  write_list(out, "in_offsets", spec.in_offsets);
  write_list(out, "out_offsets", spec.out_offsets);
  out.key("pairs").begin_array();
  for (const auto& [source, target] : spec.pairs) {
    out.begin_array().integer(source).integer(target).end_array();
  }
  out.end_array().end_object();
  return out.take();
}

void write_operands(JsonWriter& out, std::string_view key, std::span<const Operand> operands) {
  out.key(key).begin_array();
  for (const Operand& operand : operands) {
    out.begin_array().integer(operand.rank).string(buffer_name(operand.buffer));
    out.unsigned_integer(operand.offset).end_array();
  }
  out.end_array();
}

std::string step_text(const RankProgram& program, const Step& step) {
  JsonWriter out;
  out.begin_object().key("do").string(step_kind_name(step.kind));
  if (moves_data(step.kind)) {
    write_operands(out, "from", program.inputs(step));
    write_operands(out, "to", program.step_outputs(step));
    out.key("count").unsigned_integer(step.count);
  } else if (step.kind != StepKind::kBarrier) {
    out.key("peer").integer(step.peer).key("counter").integer(step.counter);
    out.key("amount").integer(step.amount);
  }
  out.end_object();
  return out.take();
}

std::string program_text(const RankProgram& program) {
  std::string text =
      format("{{\"scratch\": {}, \"partial\": {}, \"alternate_scratch\": {}, \"channels\": [",
             program.scratch_elements, program.partial_elements, program.alternate_scratch);
  for (size_t channel = 0; channel < program.channels.size(); ++channel) {
    text += channel == 0 ? "[" : ",\n [";
    const auto& steps = program.channels[channel];
    for (size_t i = 0; i < steps.size(); ++i) {
      text += (i == 0 ? "\n  " : ",\n  ") + step_text(program, steps[i]);
    }
    text += "]";
  }
  return text + "]}";
}

// Members in any order; others than these are refused, so that a misspelt one is not overlooked.
Status only_members(const JsonValue& object, std::string_view what,
                    std::initializer_list<std::string_view> known) {
  if (object.type() != JsonType::kObject) {
    return {NRT_INVALID,
            format("{}: expected an object, found {}", what, json_type_name(object.type()))};
  }
  for (const auto& [key, value] : object.members()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return {NRT_INVALID, format("{}: unknown member '{}'", what, key)};
    }
  }
  return {};
}

Result<bool> get_flag(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  if (value == nullptr || value->type() != JsonType::kBool) {
    return Status(NRT_INVALID,
                  format("'{}': expected true or false, found {}", key,
                         value == nullptr ? "nothing" : json_type_name(value->type())));
  }
  return value->boolean();
}

Result<int64_t> get_number(const JsonValue& value, std::string_view what, int64_t most) {
  if (value.type() != JsonType::kInteger || value.integer() < 0 || value.integer() > most) {
    return Status(NRT_INVALID, format("{}: expected a whole number from 0 to {}", what, most));
  }
  return value.integer();
}

template <class Number>
Status read_into(Number& field, const JsonValue& object, std::string_view key, int64_t least,
                 int64_t most) {
  ONRT_ASSIGN_OR_RETURN(const int64_t value, object.get_integer(key, least, most));
  field = static_cast<Number>(value);
  return {};
}

Status read_list(std::vector<uint64_t>& list, const JsonValue& object, std::string_view key) {
  ONRT_ASSIGN_OR_RETURN(const JsonValue* values, object.get_array(key));
  for (const JsonValue& value : values->items()) {
    ONRT_ASSIGN_OR_RETURN(const int64_t number, get_number(value, key, kMostElements));
    list.push_back(static_cast<uint64_t>(number));
  }
  return {};
}

Status read_pairs(Spec& spec, const JsonValue& object) {
  ONRT_ASSIGN_OR_RETURN(const JsonValue* pairs, object.get_array("pairs"));
  for (const JsonValue& pair : pairs->items()) {
    if (pair.type() != JsonType::kArray || pair.items().size() != 2) {
      return {NRT_INVALID, "pairs: expected arrays of two ranks"};
    }
    ONRT_ASSIGN_OR_RETURN(const int64_t source, get_number(pair.items()[0], "source", kMaxRanks));
    ONRT_ASSIGN_OR_RETURN(const int64_t target, get_number(pair.items()[1], "target", kMaxRanks));
    spec.pairs.emplace_back(static_cast<int>(source), static_cast<int>(target));
  }
  return {};
}

Status read_spec(Spec& spec, const JsonValue& object) {
  ONRT_RETURN_IF_ERROR(
      only_members(object, "spec",
                   {"op", "ranks", "count", "stride", "root", "in_place", "deterministic", "access",
                    "element_bytes", "partial_bytes", "channels", "slices", "counts", "in_offsets",
                    "out_offsets", "pairs"}));
  ONRT_ASSIGN_OR_RETURN(const std::string_view op, object.get_string("op"));
  ONRT_ASSIGN_OR_RETURN(spec.op, parse_op(op));
  ONRT_RETURN_IF_ERROR(read_into(spec.ranks, object, "ranks", 1, kMaxRanks));
  ONRT_RETURN_IF_ERROR(read_into(spec.count, object, "count", 0, kMostElements));
  ONRT_RETURN_IF_ERROR(read_into(spec.stride, object, "stride", 0, kMostElements));
  ONRT_RETURN_IF_ERROR(read_into(spec.root, object, "root", 0, kMaxRanks));
  ONRT_ASSIGN_OR_RETURN(spec.in_place, get_flag(object, "in_place"));
  ONRT_ASSIGN_OR_RETURN(spec.deterministic, get_flag(object, "deterministic"));
  ONRT_ASSIGN_OR_RETURN(const std::string_view access, object.get_string("access"));
  if (access != "direct" && access != "staged") {
    return {NRT_INVALID, format("access: expected direct or staged, found '{}'", access)};
  }
  spec.access = access == "direct" ? Access::kDirect : Access::kStaged;
  ONRT_RETURN_IF_ERROR(read_into(spec.element_bytes, object, "element_bytes", 1, 16));
  ONRT_RETURN_IF_ERROR(read_into(spec.partial_bytes, object, "partial_bytes", 1, 16));
  ONRT_RETURN_IF_ERROR(read_into(spec.channels, object, "channels", 1, kMaxChannels));
  ONRT_RETURN_IF_ERROR(read_into(spec.slices, object, "slices", 1, kMaxChannels));
  ONRT_RETURN_IF_ERROR(read_list(spec.counts, object, "counts"));
  ONRT_RETURN_IF_ERROR(read_list(spec.in_offsets, object, "in_offsets"));
  ONRT_RETURN_IF_ERROR(read_list(spec.out_offsets, object, "out_offsets"));
  ONRT_RETURN_IF_ERROR(read_pairs(spec, object));
  return check_spec(spec);
}

Status read_operands(RankProgram& program, uint32_t& count, const JsonValue& object,
                     std::string_view key) {
  ONRT_ASSIGN_OR_RETURN(const JsonValue* values, object.get_array(key));
  for (const JsonValue& value : values->items()) {
    if (value.type() != JsonType::kArray || value.items().size() != 3 ||
        value.items()[1].type() != JsonType::kString) {
      return {NRT_INVALID, format("'{}': expected [rank, buffer, offset]", key)};
    }
    Operand operand;
    ONRT_ASSIGN_OR_RETURN(const int64_t rank, get_number(value.items()[0], "rank", kMaxRanks));
    ONRT_ASSIGN_OR_RETURN(operand.buffer, parse_buffer(value.items()[1].string()));
    ONRT_ASSIGN_OR_RETURN(const int64_t offset,
                          get_number(value.items()[2], "offset", kMostElements));
    operand.rank = static_cast<int>(rank);
    operand.offset = static_cast<uint64_t>(offset);
    program.operands.push_back(operand);
  }
  count = static_cast<uint32_t>(values->items().size());
  return {};
}

Result<Step> read_step(RankProgram& program, const JsonValue& object) {
  ONRT_RETURN_IF_ERROR(
      only_members(object, "step", {"do", "from", "to", "count", "peer", "counter", "amount"}));
  Step step;
  ONRT_ASSIGN_OR_RETURN(const std::string_view kind, object.get_string("do"));
  ONRT_ASSIGN_OR_RETURN(step.kind, parse_step_kind(kind));
  if (moves_data(step.kind)) {
    ONRT_RETURN_IF_ERROR(only_members(object, kind, {"do", "from", "to", "count"}));
    step.first_operand = static_cast<uint32_t>(program.operands.size());
    ONRT_RETURN_IF_ERROR(read_operands(program, step.inputs, object, "from"));
    ONRT_RETURN_IF_ERROR(read_operands(program, step.outputs, object, "to"));
    ONRT_RETURN_IF_ERROR(read_into(step.count, object, "count", 1, kMostElements));
  } else if (step.kind != StepKind::kBarrier) {
    ONRT_RETURN_IF_ERROR(only_members(object, kind, {"do", "peer", "counter", "amount"}));
    ONRT_RETURN_IF_ERROR(read_into(step.peer, object, "peer", 0, kMaxRanks));
    ONRT_RETURN_IF_ERROR(read_into(step.counter, object, "counter", 0, kMostAmount));
    ONRT_RETURN_IF_ERROR(read_into(step.amount, object, "amount", 1, kMostAmount));
  } else {
    ONRT_RETURN_IF_ERROR(only_members(object, kind, {"do"}));
  }
  return step;
}

Result<RankProgram> read_program(const JsonValue& object, size_t rank) {
  ONRT_RETURN_IF_ERROR(only_members(object, format("programs[{}]", rank),
                                    {"scratch", "partial", "alternate_scratch", "channels"}));
  RankProgram program;
  ONRT_RETURN_IF_ERROR(read_into(program.scratch_elements, object, "scratch", 0, kMostElements));
  ONRT_RETURN_IF_ERROR(read_into(program.partial_elements, object, "partial", 0, kMostElements));
  ONRT_ASSIGN_OR_RETURN(program.alternate_scratch, get_flag(object, "alternate_scratch"));
  ONRT_ASSIGN_OR_RETURN(const JsonValue* channels, object.get_array("channels"));
  for (const JsonValue& channel : channels->items()) {
    if (channel.type() != JsonType::kArray) {
      return Status(NRT_INVALID, format("programs[{}]: expected arrays of steps", rank));
    }
    program.channels.emplace_back();
    for (const JsonValue& item : channel.items()) {
      auto step = read_step(program, item);
      if (!step.ok()) {
        return std::move(step).status().annotate(format("rank {}, channel {}, step {}", rank,
                                                        program.channels.size() - 1,
                                                        program.channels.back().size()));
      }
      program.channels.back().push_back(*step);
    }
  }
  return program;
}

}  // namespace

std::string export_schedule(const Schedule& schedule) {
  JsonWriter name;
  name.string(schedule.algorithm);
  std::string text = format("{{\"format\": \"{}\", \"version\": {}, \"algorithm\": {},\n", kFormat,
                            kVersion, name.text());
  text += "\"spec\": " + spec_text(schedule.spec) + ",\n\"programs\": [\n";
  for (size_t rank = 0; rank < schedule.programs.size(); ++rank) {
    text += (rank == 0 ? "" : ",\n") + program_text(schedule.programs[rank]);
  }
  return text + "\n]}\n";
}

Result<Schedule> parse_schedule(std::string_view text) {
  if (text.size() > kLargestScheduleText) {
    return Status(NRT_INVALID, format("a schedule of {} bytes; at most {} are read", text.size(),
                                      kLargestScheduleText));
  }
  ONRT_ASSIGN_OR_RETURN(const JsonValue root, parse_json(text));
  ONRT_RETURN_IF_ERROR(
      only_members(root, "schedule", {"format", "version", "algorithm", "spec", "programs"}));
  ONRT_ASSIGN_OR_RETURN(const std::string_view name, root.get_string("format"));
  if (name != kFormat) {
    return Status(NRT_INVALID, format("format: expected '{}', found '{}'", kFormat, name));
  }
  ONRT_RETURN_IF_ERROR(root.get_integer("version", kVersion, kVersion).status());
  Schedule schedule;
  ONRT_ASSIGN_OR_RETURN(schedule.algorithm, root.get_string("algorithm"));
  const JsonValue* spec = root.find("spec");
  if (spec == nullptr) {
    return Status(NRT_INVALID, "'spec' is missing");
  }
  ONRT_RETURN_IF_ERROR(read_spec(schedule.spec, *spec).annotate("spec"));
  ONRT_ASSIGN_OR_RETURN(const JsonValue* programs, root.get_array("programs"));
  for (const JsonValue& program : programs->items()) {
    ONRT_ASSIGN_OR_RETURN(RankProgram read, read_program(program, schedule.programs.size()));
    schedule.programs.push_back(std::move(read));
  }
  return schedule;
}

Result<Schedule> import_schedule(std::string_view text) {
  ONRT_ASSIGN_OR_RETURN(Schedule schedule, parse_schedule(text));
  ONRT_RETURN_IF_ERROR(check_schedule(schedule));
  return schedule;
}

}  // namespace onrt::cc
