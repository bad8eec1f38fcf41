// SPDX-License-Identifier: Apache-2.0
// What a command line of nccom-test asks for. Flags and defaults: SDK documentation, "NCCOM-TEST
// User Guide".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "tools/common/args.h"

namespace onrt::tools::nccom {

enum class Operation : uint8_t {
  kAllReduce,
  kAllGather,
  kAllGatherV,
  kReduceScatter,
  kSendReceive,
  kAllToAll,
  kAllToAllV,
  kPermute,
};

struct OperationRow {
  Operation operation;
  const char* name;   // "all_reduce"
  const char* alias;  // "allr"; "" if there is none
};
extern const OperationRow kOperations[8];
const OperationRow& row_of(Operation operation);

// Element types by nccom-test's names.
struct TypeRow {
  const char* name;
  uint64_t bytes;
};
extern const TypeRow kTypes[10];

enum class Check : uint8_t { kNone, kRandom, kAllOnes };
enum class Buffers : uint8_t { kDevice, kHost };

// Of one rank: elements, and where they begin.
struct VariableSizes {
  std::vector<uint64_t> send_counts;
  std::vector<uint64_t> send_displacements;
  std::vector<uint64_t> receive_counts;
  std::vector<uint64_t> receive_displacements;
};

// A series of sizes for one operation.
struct Series {
  Operation operation = Operation::kAllReduce;
  TypeRow type{"uint8", 1};
  std::vector<uint64_t> sizes;  // bytes, as the table's first column
  int iterations = 20;
  int warmup = 5;
  Check check = Check::kNone;
  std::optional<uint64_t> seed;
  bool unique_buffers = false;
  std::vector<std::vector<int>> groups;  // of ranks; one of all where none are given
  std::vector<std::pair<int, int>> pairs;
  std::vector<VariableSizes> variable;  // one a rank of a group; none: equal blocks
  std::string algorithm;                // that is forced; "" for the best one
};

struct Options {
  int workers = 0;
  Series series;
  Buffers buffers = Buffers::kDevice;
  int timeout_seconds = 600;
  std::vector<std::string> statistics = {"avg"};  // "avg", "min", "max", "p50", ...
  bool show_algorithm = false;
  bool show_sizes = false;
  bool debug = false;
  std::string report_file;
};

const ToolText& tool_text();

// --stats takes several words and --check may have none: rewrites them to --stats=a,b and
// --check=random.
std::vector<std::string> joined_words(const std::vector<std::string>& words);

// NRT_INVALID with one sentence that names the flag, what was expected and found.
Result<Options> read_options(const Arguments& arguments);

// "32M", "1kb", "4096": bytes in binary units.
Result<uint64_t> parse_bytes(const std::string& flag, const std::string& text);

// Elements of a rank's input and output for a size, and the factor of the bus bandwidth.
struct Shape {
  uint64_t input = 0;
  uint64_t output = 0;
};
Shape shape_of(Operation operation, uint64_t elements, int group_size);
double bus_factor(Operation operation, int group_size);

// An environment variable. To be called before any thread is started.
std::string variable(const char* name, const char* otherwise);

// Sizes that can be divided among the ranks: rounded up to whole elements for each.
uint64_t usable_size(const Series& series, uint64_t bytes, int group_size);

}  // namespace onrt::tools::nccom
