// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_monitor/report.h"

#include <algorithm>

#include "runtime/observe/host_view.h"

namespace onrt::tools {
namespace {

double seconds(MonitorClock::duration time) { return std::chrono::duration<double>(time).count(); }

// `,"key":` or `"key":` before an object that is text already.
void append_member(std::string_view key, const std::string& value, bool* first, std::string* out) {
  *out += *first ? "\"" : ",\"";
  *out += key;
  *out += "\":";
  *out += value;
  *first = false;
}

double all_ticks(const Result<observe::HostTimes>& times) {
  double sum = 0;
  if (times.ok()) {
    for (const uint64_t time : times->all) {
      sum += static_cast<double>(time);
    }
  }
  return sum;
}

}  // namespace

MonitorSources host_sources(const Context& context) {
  MonitorSources sources;
  sources.machine = [&context] { return observe::observe_machine(context); };
  sources.host_times = [] { return observe::read_host_times(); };
  sources.memory = [] { return observe::read_memory_info(); };
  sources.load = [](int pid) -> std::optional<observe::ProcessLoad> {
    return pid <= 0 ? std::nullopt : observe::read_process_load(pid);
  };
  return sources;
}

Monitor::Monitor(MonitorConfig config, MonitorSources sources, MonitorClock::time_point start)
    : config_(std::move(config)),
      sources_(std::move(sources)),
      host_times_(sources_.host_times()),
      host_times_before_(host_times_) {
  const auto group = [&](const GroupConfig& wanted) {
    Group made;
    made.config = wanted;
    made.due = start;
    made.collected = start;
    made.ticks = all_ticks(host_times_);
    return made;
  };
  for (const RuntimeConfig& runtime : config_.runtimes) {
    runtimes_.push_back({&runtime, {}});
    for (const GroupConfig& wanted : runtime.groups) {
      runtimes_.back().groups.push_back(group(wanted));
    }
  }
  for (const GroupConfig& wanted : config_.system) {
    system_.push_back(group(wanted));
  }
}

MonitorClock::time_point Monitor::next_due() const {
  auto earliest = MonitorClock::time_point::max();
  for (const Runtime& runtime : runtimes_) {
    for (const Group& group : runtime.groups) {
      earliest = std::min(earliest, group.due);
    }
  }
  for (const Group& group : system_) {
    earliest = std::min(earliest, group.due);
  }
  return earliest;
}

// Sets the next time when it is: on the grid of the period, without those that were missed.
bool Monitor::is_due(Group& group, MonitorClock::time_point now, double* period_s) const {
  if (group.due > now) {
    return false;
  }
  *period_s = seconds(now - group.collected);
  group.collected = now;
  const auto missed = (now - group.due) / group.config.period;
  group.due += group.config.period * (missed + 1);
  return true;
}

int Monitor::runtime_of(const emu::ProcessSnapshot& process) const {
  for (size_t i = 0; i < runtimes_.size(); ++i) {
    if (std::regex_search(process.tag, runtimes_[i].config->tag_filter)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void Monitor::collect_runtime(Runtime& runtime, Group& group, const Look& look, double period_s) {
  group.texts.clear();
  std::map<ProcessKey, observe::ProcessLoad> loads;
  const double ticks = all_ticks(host_times_);
  for (const emu::ProcessSnapshot& process : look->processes) {
    if (const int found = runtime_of(process);
        found < 0 || &runtimes_[static_cast<size_t>(found)] != &runtime) {
      continue;
    }
    const ProcessKey key{process.slot, process.generation};
    RuntimeView view{group.before.get(), *look, process, period_s, {}, {}, ticks - group.ticks};
    view.load = sources_.load(process.pid);
    if (view.load) {
      loads[key] = *view.load;
    }
    if (const auto before = group.loads.find(key); before != group.loads.end()) {
      view.load_before = before->second;
    }
    switch (static_cast<RuntimeGroup>(group.config.group)) {
      case RuntimeGroup::kCoreCounters:
        group.texts[key] = core_counters_json(view);
        break;
      case RuntimeGroup::kExecutionStats:
        group.texts[key] = execution_stats_json(view);
        break;
      case RuntimeGroup::kMemoryUsed:
        group.texts[key] = memory_used_json(view);
        break;
      case RuntimeGroup::kVcpuUsage:
        group.texts[key] = runtime_vcpu_json(view);
        break;
    }
  }
  group.loads = std::move(loads);
  group.ticks = ticks;
  group.before = look;
}

void Monitor::collect_system(Group& group, const Look& look, const std::string& error,
                             double period_s) {
  switch (static_cast<SystemGroup>(group.config.group)) {
    case SystemGroup::kHardwareCounters:
      group.text = hardware_counters_json(look.get(), period_s, error);
      break;
    case SystemGroup::kVcpuUsage:
      group.text = vcpu_json(host_times_before_, host_times_, period_s);
      host_times_before_ = host_times_;
      break;
    case SystemGroup::kMemoryInfo:
      group.text = memory_info_json(sources_.memory(), period_s);
      break;
  }
}

void Monitor::collect(MonitorClock::time_point now, const Look& look, const std::string& error) {
  double period_s = 0;
  for (Runtime& runtime : runtimes_) {
    for (Group& group : runtime.groups) {
      if (!is_due(group, now, &period_s)) {
        continue;
      }
      if (look) {
        collect_runtime(runtime, group, look, period_s);
      } else {
        group.texts.clear();
        group.before.reset();
      }
    }
  }
  for (Group& group : system_) {
    if (is_due(group, now, &period_s)) {
      collect_system(group, look, error, period_s);
    }
  }
}

// Processes that are alive; one that came since a group's last collection has not that group yet.
void Monitor::append_processes(const Look& look, std::string* out) const {
  bool first_process = true;
  for (const emu::ProcessSnapshot& process : look->processes) {
    const int found = runtime_of(process);
    if (found < 0) {
      continue;
    }
    JsonWriter head;
    head.begin_object().key("pid").integer(process.pid).key("address").string("");
    head.key("neuron_runtime_tag").string(process.tag).key("error").string("").end_object();
    std::string text = head.take();
    text.pop_back();
    *out += (first_process ? "" : ",") + text + ",\"report\":{";
    first_process = false;
    bool first = true;
    for (const Group& group : runtimes_[static_cast<size_t>(found)].groups) {
      const auto value = group.texts.find({process.slot, process.generation});
      if (value != group.texts.end()) {
        append_member(kRuntimeGroupNames[static_cast<size_t>(group.config.group)], value->second,
                      &first, out);
      }
    }
    *out += "}}";
  }
}

std::string Monitor::report(MonitorClock::time_point now) {
  auto machine = sources_.machine();
  std::string error;
  Look look;
  if (machine.ok()) {
    look = std::make_shared<emu::MachineSnapshot>(std::move(machine).value());
  } else {
    error = machine.status().message();
  }
  host_times_ = sources_.host_times();
  collect(now, look, error);
  std::string out = "{\"neuron_runtime_data\":[";
  if (look) {
    append_processes(look, &out);
  }
  out += "],\"system_data\":{";
  bool first = true;
  for (const Group& group : system_) {
    append_member(kSystemGroupNames[static_cast<size_t>(group.config.group)], group.text, &first,
                  &out);
  }
  out += "},\"instance_info\":" + instance_info_json(look.get(), error);
  out += ",\"neuron_hardware_info\":" + hardware_info_json(look.get(), error) + "}";
  return out;
}

}  // namespace onrt::tools
