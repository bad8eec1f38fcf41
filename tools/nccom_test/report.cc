// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom_test/report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/format.h"
#include "runtime/base/json.h"

namespace onrt::tools::nccom {
namespace {

// The label says GB/s, the documentation gibibytes.
constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

}  // namespace

double statistic(const std::string& name, const std::vector<double>& times) {
  if (times.empty()) {
    return 0;
  }
  if (name == "avg") {
    return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  }
  std::vector<double> sorted = times;
  std::ranges::sort(sorted);
  const double percent = name == "min" ? 0 : name == "max" ? 100 : std::stod(name.substr(1));
  const auto rank = static_cast<size_t>(
      std::max(1.0, std::ceil(percent / 100 * static_cast<double>(sorted.size()))));
  return sorted[rank - 1];
}

double Report::algorithm_bandwidth(const Row& row) const {
  const double seconds = statistic("avg", row.times) * 1e-6;
  return seconds > 0 ? static_cast<double>(row.size) / seconds / kGibibyte : 0;
}

double Report::bus_bandwidth(const Row& row) const {
  const int ranks = static_cast<int>(options_.series.groups.front().size());
  return algorithm_bandwidth(row) * bus_factor(options_.series.operation, ranks);
}

Report::Cells Report::cells(const Row& row) const {
  Cells cells = {{"size(B)", format("{}", row.size)}, {"count(elems)", format("{}", row.count)}};
  if (options_.show_sizes) {
    cells.emplace_back("total_input_size(B)", format("{}", row.input));
    cells.emplace_back("total_output_size(B)", format("{}", row.output));
  }
  cells.emplace_back("type", options_.series.type.name);
  for (const std::string& name : options_.statistics) {
    cells.emplace_back(format("time:{}(us)", name), format("{:.2f}", statistic(name, row.times)));
  }
  cells.emplace_back("algbw(GB/s)", format("{:.2f}", algorithm_bandwidth(row)));
  cells.emplace_back("busbw(GB/s)", format("{:.2f}", bus_bandwidth(row)));
  if (options_.show_algorithm) {
    cells.emplace_back("algorithm", row.algorithm);
  }
  return cells;
}

// Columns are as wide as their headings, and those of sizes as their largest number.
std::string Report::joined(const Cells& cells, bool headings) const {
  const uint64_t largest = options_.series.sizes.back();
  std::string text;
  for (size_t i = 0; i < cells.size(); ++i) {
    size_t width = cells[i].first.size();
    if (i == 0) {
      width = std::max(width, std::to_string(largest).size() + 2);
    } else if (cells[i].first == "type") {
      width = std::max<size_t>(width, 6);
    } else if (cells[i].first == "algorithm") {
      width = std::max<size_t>(width, 16);
    }
    text += format("{}{:>{}}", i == 0 ? "" : "    ", headings ? cells[i].first : cells[i].second,
                   width);
  }
  return text + "\n";
}

std::string Report::heading() const { return joined(cells(Row()), true); }

std::string Report::line(const Row& row) const {
  if (row.failure.empty()) {
    return joined(cells(row), false);
  }
  const std::string size = joined({{"size(B)", format("{}", row.size)}}, false);
  return size.substr(0, size.size() - 1) + "    " + row.failure + "\n";
}

std::string Report::summary(const std::vector<Row>& rows) const {
  double sum = 0;
  size_t failed = 0;
  for (const Row& row : rows) {
    sum += row.failure.empty() ? bus_bandwidth(row) : 0;
    failed += row.failure.empty() ? 0 : 1;
  }
  if (failed > 0) {
    return format("{} errors found - test failed\n", failed);
  }
  return rows.empty()
             ? ""
             : format("Avg bus bandwidth:\t{:.4f}GB/s\n", sum / static_cast<double>(rows.size()));
}

std::string Report::json(const std::vector<Row>& rows) const {
  const Series& series = options_.series;
  JsonWriter out(4);
  out.begin_object().key("results").begin_array();
  for (const Row& row : rows) {
    out.begin_object();
    out.key("size(B)").unsigned_integer(row.size);
    out.key("count(elems)").unsigned_integer(row.count);
    out.key("type").string(series.type.name);
    if (!row.failure.empty()) {
      out.key("failure").string(row.failure).end_object();
      continue;
    }
    out.key("algbw(GB/s)").real(algorithm_bandwidth(row));
    out.key("busbw(GB/s)").real(bus_bandwidth(row));
    for (const std::string& name : options_.statistics) {
      out.key(format("time:{}(us)", name)).real(statistic(name, row.times));
    }
    if (options_.show_sizes) {
      out.key("total_input_size(B)").unsigned_integer(row.input);
      out.key("total_output_size(B)").unsigned_integer(row.output);
    }
    out.key("algorithm").string(row.algorithm);
    out.key("transport").string(row.transport);
    out.key("why").string(row.why);
    out.end_object();
  }
  out.end_array();
  out.key("config").begin_object();
  out.key("operation").string(row_of(series.operation).name);
  out.key("nworkers").integer(options_.workers);
  out.key("path").string("host");
  out.key("clock").string("wall");
  out.key("buffers").string(options_.buffers == Buffers::kDevice ? "device" : "host");
  out.key("iters").integer(series.iterations);
  out.key("warmup_iters").integer(series.warmup);
  out.key("check").string(series.check == Check::kNone     ? "none"
                          : series.check == Check::kRandom ? "random"
                                                           : "all_ones");
  out.key("seed").unsigned_integer(seed_);
  out.end_object().end_object();
  return out.take() + "\n";
}

}  // namespace onrt::tools::nccom
