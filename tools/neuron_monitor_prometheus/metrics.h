// SPDX-License-Identifier: Apache-2.0
// Reports of neuron-monitor as Prometheus metrics. Pure: a line in, pages out.
// Names and labels: the vendor's dashboard and documentation
// (docs/man/neuron-monitor-prometheus.1.md lists them).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/json.h"
#include "runtime/base/status.h"

namespace onrt::tools {

enum class ExpositionFormat { kText, kOpenMetrics };  // text: version 0.0.4
std::string_view content_type(ExpositionFormat format);
// By the Accept header of the request.
ExpositionFormat format_for(std::string_view accept);

// Thread-compatible.
class Metrics {
 public:
  // Takes one report, untrusted; NRT_INVALID leaves the metrics as they are. `now` in seconds since
  // the epoch is when counters that appear with it were made.
  Status update(std::string_view line, double now);
  std::string page(ExpositionFormat format) const;
  // False before the first report.
  bool ready() const { return ready_; }

 private:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  struct Gauge {
    std::string name;
    std::string help;
    std::map<Labels, double> samples;
  };
  // What a process has counted, summed over its reports.
  struct Counted {
    std::string tag;
    double created = 0;
    std::string last;  // the report's group it was last added from: groups may be repeated
    std::map<std::string, double> errors;
    std::map<std::string, double> statuses;
  };

  void add_instance(const JsonValue& report);
  void add_process(const JsonValue& process, double now);
  void add_execution(int64_t pid, const std::string& tag, const JsonValue& group, double now);
  void add_memory(const std::string& tag, const JsonValue& group);
  void add_system(const JsonValue& system);
  double& gauge(std::string_view name, std::string_view help, const Labels& labels);
  void append_counter(std::string_view name, std::string_view help, std::string_view label,
                      const std::map<std::string, std::map<std::string, double>>& by_tag,
                      ExpositionFormat format, std::string* out) const;

  bool ready_ = false;
  Labels common_;
  std::vector<Gauge> gauges_;                                  // made anew by each report
  std::map<int64_t, Counted> processes_;                       // by pid
  std::map<std::pair<std::string, std::string>, double> ecc_;  // event, device
  double ecc_created_ = 0;
};

}  // namespace onrt::tools
