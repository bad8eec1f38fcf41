// SPDX-License-Identifier: Apache-2.0
#include "bench/harness.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace onrt::bench {
namespace {

// Short windows: most fall between two preemptions when the machine has other work.
constexpr size_t kWindows = 9;

Options g_options;  // set once by parse_options() before anything is measured

double now(Clock clock) {
  timespec time{};
  clock_gettime(clock == Clock::kWall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Best first.
const Row::Peer* best_peer(const Row& row) {
  const Row::Peer* best = nullptr;
  for (const Row::Peer& peer : row.peers) {
    if (best == nullptr ||
        (row.higher_is_better ? peer.figure > best->figure : peer.figure < best->figure)) {
      best = &peer;
    }
  }
  return best;
}

std::string verdict(const Row& row) {
  bool met = true;
  bool asked = false;
  if (row.goal > 0 && row.peers_are_goals && !row.peers.empty()) {
    asked = true;
    met = met && ratio(row) >= row.goal;
  }
  if (row.limit > 0) {
    asked = true;
    met = met && (row.higher_is_better ? row.ours >= row.limit : row.ours <= row.limit);
  }
  return !asked ? "-" : met ? "met" : "MISSED";
}

void print_json(const Row& row) {
  printf(
      "{\"key\":\"%s\",\"title\":\"%s\",\"unit\":\"%s\",\"higher_is_better\":%s,\"ours\":%.6g,"
      "\"peers\":{",
      row.key.c_str(), row.title.c_str(), row.unit.c_str(), row.higher_is_better ? "true" : "false",
      row.ours);
  for (size_t i = 0; i < row.peers.size(); ++i) {
    printf("%s\"%s\":%.6g", i == 0 ? "" : ",", row.peers[i].name.c_str(), row.peers[i].figure);
  }
  printf("},\"ratio\":%.4g,\"goal\":%.4g,\"limit\":%.6g,\"verdict\":\"%s\"}\n", ratio(row),
         row.goal, row.limit, verdict(row).c_str());
}

void print_text(const Row& row) {
  printf("%-46s %10.4g %-6s", row.title.c_str(), row.ours, row.unit.c_str());
  for (const Row::Peer& peer : row.peers) {
    printf("  %s %.4g", peer.name.c_str(), peer.figure);
  }
  if (!row.peers.empty()) {
    printf("  ratio %.2f", ratio(row));
  }
  if (row.goal > 0 && row.peers_are_goals) {
    printf(" (goal %.2f)", row.goal);
  }
  if (row.limit > 0) {
    printf(" (goal %s %.4g %s)", row.higher_is_better ? "at least" : "at most", row.limit,
           row.unit.c_str());
  }
  printf("  %s\n", verdict(row).c_str());
}

}  // namespace

Measure timed(std::function<void()> body, Clock clock, double seconds) {
  return [body = std::move(body), clock, seconds, calls = 1L]() mutable {
    std::vector<double> windows;
    double total = 0;
    while (windows.size() < kWindows && (windows.size() < 3 || total < 2 * seconds)) {
      const double start = now(clock);
      for (long i = 0; i < calls; ++i) {
        body();
      }
      const double passed = now(clock) - start;
      if (passed >= 0.8 * seconds / kWindows) {
        windows.push_back(passed / static_cast<double>(calls));
        total += passed;
        continue;
      }
      windows.clear();
      const double factor = passed <= 0 ? 10.0 : std::min(10.0, seconds / kWindows / passed);
      calls = std::max(calls + 1, static_cast<long>(static_cast<double>(calls) * factor));
    }
    return median(std::move(windows));
  };
}

Measure latency(std::function<void()> body, int calls) {
  return [body = std::move(body), calls] {
    std::vector<double> seconds(static_cast<size_t>(calls));
    for (double& call : seconds) {
      const double start = now(Clock::kWall);
      body();
      call = now(Clock::kWall) - start;
    }
    return median(std::move(seconds));
  };
}

double ratio(const Row& row) {
  const Row::Peer* best = best_peer(row);
  if (best == nullptr || row.ours <= 0 || best->figure <= 0) {
    return 0;
  }
  return row.higher_is_better ? row.ours / best->figure : best->figure / row.ours;
}

Row compare(Row row, const std::vector<Candidate>& candidates,
            const std::function<double(double seconds)>& work) {
  std::vector<std::vector<double>> seconds(candidates.size());
  for (const Candidate& candidate : candidates) {
    candidate.measure();  // warms caches and finds the number of calls
  }
  for (int round = 0; round < g_options.rounds; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      seconds[i].push_back(candidates[i].measure());
    }
  }
  row.ours = work(median(seconds[0]));
  for (size_t i = 1; i < candidates.size(); ++i) {
    row.peers.push_back({candidates[i].name, work(median(seconds[i]))});
  }
  return row;
}

Options parse_options(int argc, char** argv, const std::string& usage) {
  const auto fail = [&](const std::string& message) {
    fprintf(stderr, "%s: %s\nusage: %s [--json] [--rounds N] [--python PATH] %s\n", argv[0],
            message.c_str(), argv[0], usage.c_str());
    exit(2);
  };
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = argument == "--rounds" || argument == "--python";
    if (has_value && i + 1 == argc) {
      fail(argument + " needs a value");
    }
    if (argument == "--json") {
      g_options.json = true;
    } else if (argument == "--rounds") {
      g_options.rounds = atoi(argv[++i]);
      if (g_options.rounds < 1) {
        fail("--rounds: expected a positive number");
      }
    } else if (argument == "--python") {
      g_options.python = argv[++i];
    } else if (argument == "--help" || argument == "-h") {
      printf("usage: %s [--json] [--rounds N] [--python PATH] %s\n", argv[0], usage.c_str());
      exit(0);
    } else if (argument[0] == '-') {
      fail("unknown option " + argument);
    } else {
      g_options.rest.push_back(argument);
    }
  }
  return g_options;
}

const Options& options() { return g_options; }

void report(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    if (g_options.json) {
      print_json(row);
    } else {
      print_text(row);
    }
  }
  fflush(stdout);
}

}  // namespace onrt::bench
