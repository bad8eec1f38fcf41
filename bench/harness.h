// SPDX-License-Identifier: Apache-2.0
// Comparing measurements: ours and the peers take turns in one process, under one affinity, and
// each figure is the median of the rounds.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace onrt::bench {

// Runs its body often enough to be timed and returns seconds per call.
using Measure = std::function<double()>;

// kThreadCpu: time that the calling thread ran, for work on one thread; other load on the machine
// then disturbs only through caches and clock frequency. kWall: what a user waits.
enum class Clock { kWall, kThreadCpu };

// A Measure of `body`: the median of nine windows, each the mean of as many calls as take a ninth
// of `seconds`.
Measure timed(std::function<void()> body, Clock clock, double seconds = 0.02);

// A Measure of `body`: the median of `calls` calls, each timed by itself. For latencies.
Measure latency(std::function<void()> body, int calls = 1001);

struct Candidate {
  std::string name;  // "ours" first, then peers
  Measure measure;
};

// One line of the report: a figure of ours, the same of the peers.
struct Row {
  std::string key;    // stable: the ratchet finds the row by it, e.g. "gemm/f32/1024"
  std::string title;  // for people
  std::string unit;   // of the figures
  bool higher_is_better = true;
  double ours = 0;
  struct Peer {
    std::string name;
    double figure = 0;
  };
  std::vector<Peer> peers;
  double goal = 0;              // wanted ratio against the best peer, above 1 is faster; 0: none
  double limit = 0;             // wanted figure at most (or at least, if higher is better); 0: none
  bool peers_are_goals = true;  // false: printed beside, no ratio is asked of us
};

// Ours against the best peer, > 1 when ours is better; 0 without peers.
double ratio(const Row& row);

// Median of the rounds per candidate; `work` converts seconds per call to the figure.
Row compare(Row row, const std::vector<Candidate>& candidates,
            const std::function<double(double seconds)>& work);

// Options that all programs share.
struct Options {
  int rounds = 5;
  bool json = false;
  std::string python;  // --python PATH: interpreter with torch; empty: no torch figures
  std::vector<std::string> rest;
};
// Ends the program with a message for unknown options.
Options parse_options(int argc, char** argv, const std::string& usage);
const Options& options();

// Prints a table, or with --json one object per line.
void report(const std::vector<Row>& rows);

}  // namespace onrt::bench
