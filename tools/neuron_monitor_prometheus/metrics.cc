// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_monitor_prometheus/metrics.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/format.h"

namespace onrt::tools {
namespace {

constexpr size_t kMostProcesses = 4096;  // of one report

const JsonValue* find(const JsonValue& value, std::initializer_list<std::string_view> path) {
  const JsonValue* found = &value;
  for (const std::string_view key : path) {
    found = found->find(key);
    if (found == nullptr) {
      return nullptr;
    }
  }
  return found;
}

bool is_number(const JsonValue* value) {
  return value != nullptr &&
         (value->type() == JsonType::kInteger || value->type() == JsonType::kReal);
}

std::string text_of(const JsonValue& value, std::initializer_list<std::string_view> path) {
  const JsonValue* found = find(value, path);
  if (found == nullptr) {
    return "";
  }
  if (found->type() == JsonType::kString) {
    return found->string();
  }
  return found->type() == JsonType::kInteger ? std::to_string(found->integer()) : "";
}

// Values as numbers of members that are numbers.
std::map<std::string, double> numbers(const JsonValue* object) {
  std::map<std::string, double> values;
  if (object != nullptr && object->type() == JsonType::kObject) {
    for (const auto& [key, value] : object->members()) {
      if (is_number(&value)) {
        values[key] = value.real();
      }
    }
  }
  return values;
}

// The value as text again; only to see whether a group is the one that came before.
void append_text(const JsonValue& value, std::string* out) {
  switch (value.type()) {
    case JsonType::kObject:
      for (const auto& [key, member] : value.members()) {
        *out += key + ":";
        append_text(member, out);
      }
      break;
    case JsonType::kArray:
      for (const JsonValue& item : value.items()) {
        append_text(item, out);
      }
      break;
    case JsonType::kString:
      *out += value.string();
      break;
    default:
      *out += format("{};", value.real());
  }
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') {
      out += '\\';
    }
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string number_text(double value) {
  if (std::floor(value) == value && std::fabs(value) < 1e15) {
    return format("{:.1f}", value);
  }
  return format("{}", value);
}

template <class Labels>
void append_sample(std::string_view name, const Labels& labels, double value, std::string* out) {
  *out += name;
  char separator = '{';
  for (const auto& [key, text] : labels) {
    *out += separator + key + "=\"" + escaped(text) + "\"";
    separator = ',';
  }
  *out += (labels.empty() ? " " : "} ") + number_text(value) + "\n";
}

void append_head(std::string_view name, std::string_view help, std::string_view type,
                 std::string* out) {
  *out += format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

struct CommonLabel {
  std::string_view label;
  std::string_view key;  // in instance_info
};
constexpr CommonLabel kCommon[] = {
    {"instance_name", "instance_name"}, {"instance_id", "instance_id"},
    {"instance_type", "instance_type"}, {"availability_zone", "instance_availability_zone"},
    {"region", "instance_region"},      {"subnet_id", "subnet_id"}};

}  // namespace

std::string_view content_type(ExpositionFormat format) {
  return format == ExpositionFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

ExpositionFormat format_for(std::string_view accept) {
  return accept.find("application/openmetrics-text") != std::string_view::npos
             ? ExpositionFormat::kOpenMetrics
             : ExpositionFormat::kText;
}

double& Metrics::gauge(std::string_view name, std::string_view help, const Labels& labels) {
  auto found = std::find_if(gauges_.begin(), gauges_.end(),
                            [&](const Gauge& candidate) { return candidate.name == name; });
  if (found == gauges_.end()) {
    gauges_.push_back({std::string(name), std::string(help), {}});
    found = gauges_.end() - 1;
  }
  Labels all = common_;
  all.insert(all.end(), labels.begin(), labels.end());
  return found->samples[all];
}

void Metrics::add_instance(const JsonValue& report) {
  common_.clear();
  for (const CommonLabel& row : kCommon) {
    common_.emplace_back(row.label, text_of(report, {"instance_info", row.key}));
  }
  gauge("instance_info", "The instance that neuron-monitor runs on",
        {{"ami_id", text_of(report, {"instance_info", "ami_id"})}}) = 1;
  Labels labels;
  for (const std::string_view key :
       {"neuron_device_type", "neuron_device_version", "neuroncore_version", "neuron_device_count",
        "neuron_device_memory_size", "neuroncore_per_device_count", "logical_neuroncore_config"}) {
    labels.emplace_back(key, text_of(report, {"neuron_hardware_info", key}));
  }
  gauge("neuron_hardware_info", "The Neuron devices of the instance", labels) = 1;
}

void Metrics::add_execution(int64_t pid, const std::string& tag, const JsonValue& group,
                            double now) {
  auto [entry, is_new] = processes_.try_emplace(pid);
  Counted& counted = entry->second;
  if (is_new || counted.tag != tag) {
    counted = Counted();
    counted.tag = tag;
    counted.created = now;
  }
  std::string text;
  append_text(group, &text);
  const bool repeated = text == std::exchange(counted.last, text);
  for (const auto& [type, count] : numbers(find(group, {"error_summary"}))) {
    counted.errors[type] += repeated || !(count >= 0) ? 0 : count;
  }
  for (const auto& [type, count] : numbers(find(group, {"execution_summary"}))) {
    counted.statuses[type] += repeated || !(count >= 0) ? 0 : count;
  }
  for (const auto& [name, value] : numbers(find(group, {"latency_stats", "total_latency"}))) {
    double& latency =
        gauge("execution_latency_seconds", "Latency of executions as the runtime sees it",
              {{"runtime_tag", tag}, {"percentile", name}});
    latency = std::max(latency, value);
  }
}

void Metrics::add_memory(const std::string& tag, const JsonValue& group) {
  for (const std::string_view where : {"host", "neuron_device"}) {
    const JsonValue* bytes = find(group, {"neuron_runtime_used_bytes", where});
    if (is_number(bytes)) {
      gauge("neuron_runtime_memory_used_bytes", "Memory that the process uses",
            {{"runtime_tag", tag}, {"memory_location", std::string(where)}}) += bytes->real();
    }
  }
  const JsonValue* cores =
      find(group, {"neuron_runtime_used_bytes", "usage_breakdown", "neuroncore_memory_usage"});
  if (cores == nullptr) {
    return;
  }
  for (const auto& [core, usage] : cores->members()) {
    for (const auto& [category, bytes] : numbers(&usage)) {
      gauge("neuroncore_memory_usage_" + category, "Device memory of a NeuronCore: " + category,
            {{"runtime_tag", tag}, {"neuroncore", core}, {"memory_location", "None"}}) += bytes;
    }
  }
}

void Metrics::add_process(const JsonValue& process, double now) {
  const JsonValue* pid = process.find("pid");
  const JsonValue* report = process.find("report");
  if (pid == nullptr || pid->type() != JsonType::kInteger || report == nullptr) {
    return;
  }
  const std::string tag = text_of(process, {"neuron_runtime_tag"});
  if (const JsonValue* cores = find(*report, {"neuroncore_counters", "neuroncores_in_use"})) {
    for (const auto& [core, use] : cores->members()) {
      if (const JsonValue* percent = use.find("neuroncore_utilization"); is_number(percent)) {
        gauge("neuroncore_utilization_ratio", "Share of the time that a NeuronCore was busy",
              {{"runtime_tag", tag}, {"neuroncore", core}}) = percent->real() / 100;
      }
    }
  }
  if (const JsonValue* group = report->find("execution_stats")) {
    add_execution(pid->integer(), tag, *group, now);
  }
  if (const JsonValue* group = report->find("memory_used")) {
    add_memory(tag, *group);
  }
  for (const auto& [type, percent] :
       numbers(find(*report, {"neuron_runtime_vcpu_usage", "vcpu_usage"}))) {
    gauge("neuron_runtime_vcpu_usage_ratio", "Share of the vCPUs that the process used",
          {{"runtime_tag", tag}, {"usage_type", type}}) += percent / 100;
  }
}

void Metrics::add_system(const JsonValue& system) {
  if (const JsonValue* group = system.find("memory_info")) {
    for (const auto& [key, bytes] : numbers(group)) {
      if (key.ends_with("_bytes")) {
        gauge("system_" + key, "Memory of the host", {}) = bytes;
      }
    }
  }
  const JsonValue* vcpus = find(system, {"vcpu_usage", "usage_data"});
  if (vcpus != nullptr && vcpus->type() == JsonType::kObject) {
    gauge("system_vcpu_count", "vCPUs of the host", {}) =
        static_cast<double>(vcpus->members().size());
  }
  for (const auto& [type, percent] : numbers(find(system, {"vcpu_usage", "average_usage"}))) {
    if (type != "idle") {
      gauge("system_vcpu_usage_ratio", "Share of the time of the vCPUs", {{"usage_type", type}}) =
          percent / 100;
    }
  }
  const JsonValue* devices = find(system, {"neuron_hw_counters", "neuron_devices"});
  ecc_.clear();
  if (devices == nullptr) {
    return;
  }
  for (const JsonValue& device : devices->items()) {
    const std::string index = text_of(device, {"neuron_device_index"});
    for (const auto& [event, count] : numbers(&device)) {
      if (event != "neuron_device_index") {
        ecc_[{event, index}] = count;
      }
    }
  }
}

Status Metrics::update(std::string_view line, double now) {
  ONRT_ASSIGN_OR_RETURN(const JsonValue report, parse_json(line));
  ONRT_ASSIGN_OR_RETURN(const JsonValue* const processes, report.get_array("neuron_runtime_data"));
  if (processes->items().size() > kMostProcesses) {
    return Status(NRT_INVALID, format("a report of {} processes, at most {} are taken",
                                      processes->items().size(), kMostProcesses));
  }
  gauges_.clear();
  ecc_created_ = ready_ ? ecc_created_ : now;
  ready_ = true;
  add_instance(report);
  std::set<int64_t> alive;
  for (const JsonValue& process : processes->items()) {
    add_process(process, now);
    if (const JsonValue* pid = process.find("pid"); pid && pid->type() == JsonType::kInteger) {
      alive.insert(pid->integer());
    }
  }
  std::erase_if(processes_, [&](const auto& entry) { return !alive.contains(entry.first); });
  if (const JsonValue* system = report.find("system_data")) {
    add_system(*system);
  }
  return ok_status();
}

void Metrics::append_counter(std::string_view name, std::string_view help, std::string_view label,
                             const std::map<std::string, std::map<std::string, double>>& by_tag,
                             ExpositionFormat format_wanted, std::string* out) const {
  if (by_tag.empty()) {
    return;
  }
  const bool open = format_wanted == ExpositionFormat::kOpenMetrics;
  const std::string total = std::string(name) + "_total";
  const std::string created = std::string(name) + "_created";
  std::string creations;
  append_head(open ? std::string(name) : total, help, "counter", out);
  for (const auto& [tag, counts] : by_tag) {
    double since = 0;
    for (const auto& [pid, counted] : processes_) {
      if (counted.tag == tag) {
        since = since == 0 ? counted.created : std::min(since, counted.created);
      }
    }
    for (const auto& [type, count] : counts) {
      Labels labels = common_;
      labels.emplace_back("runtime_tag", tag);
      labels.emplace_back(label, type);
      append_sample(total, labels, count, out);
      append_sample(created, labels, since, open ? out : &creations);
    }
  }
  if (!open) {
    append_head(created, help, "gauge", out);
    *out += creations;
  }
}

std::string Metrics::page(ExpositionFormat wanted) const {
  std::string out;
  for (const Gauge& gauge : gauges_) {
    append_head(gauge.name, gauge.help, "gauge", &out);
    for (const auto& [labels, value] : gauge.samples) {
      append_sample(gauge.name, labels, value, &out);
    }
  }
  std::map<std::string, std::map<std::string, double>> errors;
  std::map<std::string, std::map<std::string, double>> statuses;
  for (const auto& [pid, counted] : processes_) {
    for (const auto& [type, count] : counted.errors) {
      errors[counted.tag][type] += count;
    }
    for (const auto& [type, count] : counted.statuses) {
      statuses[counted.tag][type] += count;
    }
  }
  append_counter("execution_errors", "Errors of executions", "error_type", errors, wanted, &out);
  append_counter("execution_status", "Executions by outcome", "status_type", statuses, wanted,
                 &out);
  if (!ecc_.empty()) {
    const bool open = wanted == ExpositionFormat::kOpenMetrics;
    std::string creations;
    append_head(open ? "hardware_ecc_events" : "hardware_ecc_events_total",
                "Memory errors of the Neuron devices", "counter", &out);
    for (const auto& [key, count] : ecc_) {
      Labels labels = common_;
      labels.emplace_back("event_type", key.first);
      labels.emplace_back("neuron_device_index", key.second);
      append_sample("hardware_ecc_events_total", labels, count, &out);
      append_sample("hardware_ecc_events_created", labels, ecc_created_, open ? &out : &creations);
    }
    if (!open) {
      append_head("hardware_ecc_events_created", "Memory errors of the Neuron devices", "gauge",
                  &out);
      out += creations;
    }
  }
  if (wanted == ExpositionFormat::kOpenMetrics) {
    out += "# EOF\n";
  }
  return out;
}

}  // namespace onrt::tools
