// SPDX-License-Identifier: Apache-2.0
// Rows of results as the table and the JSON of the SDK documentation have them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/nccom_test/options.h"

namespace onrt::tools::nccom {

struct Row {
  uint64_t size = 0;   // bytes
  uint64_t count = 0;  // elements
  uint64_t input = 0;  // bytes of a rank's buffers
  uint64_t output = 0;
  std::vector<double> times;  // microseconds of each operation, of its slowest rank
  std::string algorithm;
  std::string transport;
  std::string why;
  std::string failure;  // "" for a row that succeeded
};

// "avg", "min", "max", "p50" (nearest rank) of times.
double statistic(const std::string& name, const std::vector<double>& times);

class Report {
 public:
  Report(const Options& options, uint64_t seed) : options_(options), seed_(seed) {}

  std::string heading() const;
  std::string line(const Row& row) const;
  // "Avg bus bandwidth:...", or how many rows failed.
  std::string summary(const std::vector<Row>& rows) const;
  std::string json(const std::vector<Row>& rows) const;

 private:
  // Heading and cell of each column.
  using Cells = std::vector<std::pair<std::string, std::string>>;
  Cells cells(const Row& row) const;
  double algorithm_bandwidth(const Row& row) const;
  double bus_bandwidth(const Row& row) const;
  std::string joined(const Cells& cells, bool headings) const;

  const Options& options_;
  const uint64_t seed_;
};

}  // namespace onrt::tools::nccom
