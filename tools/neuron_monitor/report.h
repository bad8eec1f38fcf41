// SPDX-License-Identifier: Apache-2.0
// The report of neuron-monitor: which groups are due, their latest values, and the whole as one
// line. Groups whose period has not passed keep the values of their last collection.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/neuron_monitor/config.h"
#include "tools/neuron_monitor/groups.h"

namespace onrt::tools {

using MonitorClock = std::chrono::steady_clock;

// Where the data come from; tests put their own.
struct MonitorSources {
  std::function<Result<emu::MachineSnapshot>()> machine;
  std::function<Result<observe::HostTimes>()> host_times;
  std::function<Result<observe::MemoryInfo>()> memory;
  std::function<std::optional<observe::ProcessLoad>(int pid)> load;
};
MonitorSources host_sources(const Context& context);

// Thread-compatible.
class Monitor {
 public:
  // `start`: when the first report is due.
  Monitor(MonitorConfig config, MonitorSources sources, MonitorClock::time_point start);

  MonitorClock::time_point next_due() const;
  // Collects what is due at `now` and returns the report without a newline.
  std::string report(MonitorClock::time_point now);

 private:
  using Look = std::shared_ptr<const emu::MachineSnapshot>;
  using ProcessKey = std::pair<int, uint64_t>;  // slot, generation

  struct Group {
    GroupConfig config;
    MonitorClock::time_point due;
    MonitorClock::time_point collected;
    Look before;
    std::map<ProcessKey, observe::ProcessLoad> loads;
    double ticks = 0;                         // of all vCPUs, at the last collection
    std::map<ProcessKey, std::string> texts;  // of runtime groups
    std::string text;                         // of system groups
  };
  struct Runtime {
    const RuntimeConfig* config;
    std::vector<Group> groups;
  };

  bool is_due(Group& group, MonitorClock::time_point now, double* period_s) const;
  void collect_runtime(Runtime& runtime, Group& group, const Look& look, double period_s);
  void collect_system(Group& group, const Look& look, const std::string& error, double period_s);
  void collect(MonitorClock::time_point now, const Look& look, const std::string& error);
  // Position in runtimes_, -1 when no filter fits.
  int runtime_of(const emu::ProcessSnapshot& process) const;
  void append_processes(const Look& look, std::string* out) const;

  const MonitorConfig config_;
  const MonitorSources sources_;
  std::vector<Runtime> runtimes_;
  std::vector<Group> system_;
  Result<observe::HostTimes> host_times_;
  Result<observe::HostTimes> host_times_before_;
};

}  // namespace onrt::tools
