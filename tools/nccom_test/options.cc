// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom_test/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "runtime/base/format.h"
#include "tools/common/table.h"
#include "tools/nccom_test/option_files.h"

namespace onrt::tools::nccom {
namespace {

constexpr int kMostWorkers = 1024;
constexpr int kMostIterations = 100'000'000;
constexpr size_t kMostSizes = 100'000;  // rows of a series
constexpr uint64_t kDefaultBytes = 32ULL << 20;

Status invalid(const std::string& text) { return Status(NRT_INVALID, text); }

// Flags of the vendor's tool that need what this one has not; why is said when they are used.
struct Refused {
  const char* flag;
  const char* value;
  const char* why;
};
constexpr const char* kOneHost = "ranks run on this host only";
constexpr const char* kNoNeff = "collectives run from the host (--path host), not inside a NEFF";
const Refused kRefused[] = {
    {"nnodes", "N", kOneHost},
    {"hosts", "LIST", kOneHost},
    {"hosts-file", "FILE", kOneHost},
    {"mpi-log-dir", "DIR", kOneHost},
    {"slurm-mode", "", kOneHost},
    {"slurm-job-id", "ID", kOneHost},
    {"neff_iters", "N", kNoNeff},
    {"neff_warmup_iters", "N", kNoNeff},
    {"sb2sb", "", kNoNeff},
    {"input-shape", "SHAPE", kNoNeff},
    {"output-shape", "SHAPE", kNoNeff},
    {"shared-output-buff", "", kNoNeff},
    {"coalesced-cc-size-ratio", "LIST", kNoNeff},
    {"streams-json", "FILE", kNoNeff},
};

template <class Number>
Result<Number> whole(const Arguments& arguments, const std::string& flag, Number otherwise,
                     long long least, long long most) {
  const auto text = arguments.find(flag);
  if (!text) {
    return otherwise;
  }
  const auto number = parse_whole(*text, least, most);
  if (!number) {
    return invalid(format("--{}='{}': expected a whole number from {} to {}", flag,
                          printable(*text), least, most));
  }
  return static_cast<Number>(*number);
}

Result<Operation> parse_operation(const std::string& word) {
  std::string known;
  for (const OperationRow& row : kOperations) {
    if (word == row.name || (row.alias[0] != '\0' && word == row.alias)) {
      return row.operation;
    }
    known += format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return invalid(format("operation '{}': expected one of {}", printable(word), known));
}

Result<TypeRow> parse_type(std::string word) {
  if (word == "fp8e4") {
    word = "fp8";
  }
  std::string known;
  for (const TypeRow& row : kTypes) {
    if (word == row.name) {
      return row;
    }
    known += format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return invalid(format("--datatype='{}': expected one of {}", printable(word), known));
}

bool is_statistic(const std::string& word) {
  if (word == "avg" || word == "min" || word == "max") {
    return true;
  }
  const auto percent =
      word.size() >= 2 && word[0] == 'p' ? parse_whole(word.substr(1), 0, 100) : std::nullopt;
  return percent.has_value();
}

Result<std::vector<std::string>> parse_statistics(const std::string& text) {
  std::vector<std::string> list;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!is_statistic(word)) {
      return invalid(format("--stats='{}': expected avg, min, max or p0 to p100", printable(word)));
    }
    list.push_back(word);
    begin = end + 1;
  }
  return list;
}

// Sizes from least to most, by steps or by a factor.
Result<std::vector<uint64_t>> make_sizes(const Arguments& arguments) {
  const auto bytes = [&](const char* flag, uint64_t otherwise) -> Result<uint64_t> {
    const auto text = arguments.find(flag);
    return text ? parse_bytes(flag, *text) : Result<uint64_t>(otherwise);
  };
  ONRT_ASSIGN_OR_RETURN(const uint64_t least, bytes("minbytes", kDefaultBytes));
  ONRT_ASSIGN_OR_RETURN(const uint64_t most, bytes("maxbytes", std::max(least, kDefaultBytes)));
  if (least == 0 || most < least) {
    return invalid(format(
        "--minbytes={} and --maxbytes={}: expected 1 or more, and the least first", least, most));
  }
  if (arguments.has("stepbytes") && arguments.has("stepfactor")) {
    return invalid("--stepbytes and --stepfactor: expected one of them");
  }
  std::vector<uint64_t> sizes;
  if (arguments.has("stepfactor")) {
    ONRT_ASSIGN_OR_RETURN(const uint64_t factor, bytes("stepfactor", 2));
    if (factor < 2) {
      return invalid("--stepfactor: expected 2 or more");
    }
    for (uint64_t size = least; size <= most; size *= factor) {
      sizes.push_back(size);
      if (size > most / factor) {
        break;
      }
    }
    return sizes;
  }
  ONRT_ASSIGN_OR_RETURN(const uint64_t step,
                        bytes("stepbytes", std::max<uint64_t>(1, (most - least) / 10)));
  if (step == 0 || (most - least) / step >= kMostSizes) {
    return invalid(
        format("--stepbytes={}: expected a step that gives at most {} sizes", step, kMostSizes));
  }
  for (uint64_t size = least; size <= most; size += step) {
    sizes.push_back(size);
    if (most - size < step) {
      break;
    }
  }
  return sizes;
}

Status read_files(const Arguments& arguments, Options* options) {
  Series& series = options->series;
  if (const auto path = arguments.find("custom-replica-groups")) {
    ONRT_ASSIGN_OR_RETURN(series.groups, read_groups(*path, options->workers));
  } else {
    std::vector<int> all(static_cast<size_t>(options->workers));
    for (size_t rank = 0; rank < all.size(); ++rank) {
      all[rank] = static_cast<int>(rank);
    }
    series.groups = {all};
  }
  const int size = static_cast<int>(series.groups.front().size());
  if (const auto path = arguments.find("custom-src-target-pairs")) {
    ONRT_ASSIGN_OR_RETURN(series.pairs, read_pairs(*path, size));
  } else if (series.operation == Operation::kPermute) {
    for (int rank = 0; rank < size; ++rank) {
      series.pairs.emplace_back(rank, (rank + 1) % size);
    }
  } else if (series.operation == Operation::kSendReceive) {
    for (int rank = 0; rank + 1 < size; rank += 2) {
      series.pairs.emplace_back(rank, rank + 1);
    }
  }
  if (const auto path = arguments.find("variable-size-op-metadata")) {
    if (series.operation != Operation::kAllGatherV && series.operation != Operation::kAllToAllV) {
      return invalid("--variable-size-op-metadata: expected all_gatherv or alltoallv");
    }
    ONRT_ASSIGN_OR_RETURN(series.variable,
                          read_variable(*path, series.operation, static_cast<size_t>(size)));
    series.sizes = {variable_bytes(series)};
  }
  return ok_status();
}

Status read_series(const Arguments& arguments, Options* options) {
  Series& series = options->series;
  ONRT_ASSIGN_OR_RETURN(series.operation, parse_operation(arguments.positional()[0]));
  ONRT_ASSIGN_OR_RETURN(series.type, parse_type(arguments.find("datatype").value_or("uint8")));
  ONRT_ASSIGN_OR_RETURN(series.sizes, make_sizes(arguments));
  ONRT_ASSIGN_OR_RETURN(series.iterations,
                        whole(arguments, "iters", series.iterations, 1, kMostIterations));
  ONRT_ASSIGN_OR_RETURN(series.warmup,
                        whole(arguments, "warmup_iters", series.warmup, 0, kMostIterations));
  if (const auto check = arguments.find("check")) {
    if (*check != "random" && *check != "all_ones") {
      return invalid(format("--check='{}': expected random or all_ones", printable(*check)));
    }
    series.check = *check == "random" ? Check::kRandom : Check::kAllOnes;
  }
  if (arguments.has("seed")) {
    ONRT_ASSIGN_OR_RETURN(series.seed, whole(arguments, "seed", uint64_t{0}, 0,
                                             std::numeric_limits<long long>::max()));
  }
  series.unique_buffers = arguments.has("unique-buff");
  series.algorithm = arguments.find("algorithm").value_or("");
  return read_files(arguments, options);
}

}  // namespace

const OperationRow kOperations[8] = {
    {Operation::kAllReduce, "all_reduce", "allr"},
    {Operation::kAllGather, "all_gather", "allg"},
    {Operation::kAllGatherV, "all_gatherv", "allgv"},
    {Operation::kReduceScatter, "reduce_scatter", "redsct"},
    {Operation::kSendReceive, "sendrecv", ""},
    {Operation::kAllToAll, "alltoall", ""},
    {Operation::kAllToAllV, "alltoallv", ""},
    {Operation::kPermute, "permute", ""},
};

const OperationRow& row_of(Operation operation) {
  return *std::ranges::find(kOperations, operation, &OperationRow::operation);
}

const TypeRow kTypes[10] = {{"uint8", 1}, {"int8", 1}, {"uint16", 2}, {"int16", 2},  {"fp8", 1},
                            {"fp16", 2},  {"bf16", 2}, {"int32", 4},  {"uint32", 4}, {"fp32", 4}};

const ToolText& tool_text() {
  static const ToolText kText = [] {
    ToolText text = {
        "nccom-test",
        "measures and checks collective operations between ranks on this host",
        {"nccom-test -r N [options] OPERATION"},
        {{"nworkers", 'r', "N", "ranks (required); each is a process with a core of its own"},
         {"minbytes", 'b', "SIZE", "first size (default 32M); units as in 1kb, 4MB, 1GB"},
         {"maxbytes", 'e', "SIZE", "last size (default 32M)"},
         {"stepbytes", 'i', "SIZE", "from size to size (default: a tenth of the range)"},
         {"stepfactor", 'f', "N", "multiply instead"},
         {"iters", 'n', "N", "operations that are timed (default 20)"},
         {"warmup_iters", 'w', "N", "operations before them (default 5)"},
         {"datatype", 'd', "TYPE",
          "uint8 (default), int8, uint16, int16, fp8, fp16, bf16, int32, uint32, fp32"},
         {"check", 'c', "MODE", "compare results: random (when no mode is given) or all_ones"},
         {"seed", '\0', "N", "of the random data (default: the time)"},
         {"unique-buff", '\0', "", "other buffers for each operation"},
         {"variable-size-op-metadata", '\0', "FILE", "counts of all_gatherv and alltoallv, JSON"},
         {"custom-replica-groups", '\0', "FILE", "groups of ranks, JSON"},
         {"custom-src-target-pairs", '\0', "FILE", "pairs of permute and sendrecv, JSON"},
         {"stats", 't', "LIST", "times to show: avg (default), min, max, p0 to p100"},
         {"show-algorithm", '\0', "", "a column with the algorithm"},
         {"show-input-output-size", '\0', "", "columns with the bytes of a rank's buffers"},
         {"report-to-json-file", '\0', "FILE", "write the results as JSON"},
         {"algorithm", '\0', "NAME", "force an algorithm; opennrt-plan list names them"},
         {"buffers", '\0', "PLACE", "device (default: HBM of each rank's core) or host"},
         {"path", '\0', "PATH", "who runs the schedule: host (the only one so far)"},
         {"timeout", '\0', "SECONDS", "give up (default 600)"},
         {"debug", '\0', "", "say what the ranks do, on standard error"}},
        {"nccom-test -r 2 allr", "nccom-test -r 4 -b 1kb -e 1mb -f 4 -d fp32 --check allg",
         "nccom-test -r 8 -d bf16 --stats avg p50 p99 --show-algorithm all_reduce"},
        {{0, "done, and results are right where they were checked"},
         {1, "a rank, an operation or a check failed"},
         {2, "wrong command line"}}};
    for (const Refused& refused : kRefused) {
      text.flags.push_back({refused.flag,
                            refused.flag == std::string("nnodes")              ? 'N'
                            : refused.flag == std::string("hosts")             ? 's'
                            : refused.flag == std::string("slurm-mode")        ? 'S'
                            : refused.flag == std::string("neff_iters")        ? 'I'
                            : refused.flag == std::string("neff_warmup_iters") ? 'W'
                                                                               : '\0',
                            refused.value, "not supported here"});
    }
    return text;
  }();
  return kText;
}

std::vector<std::string> joined_words(const std::vector<std::string>& words) {
  std::vector<std::string> joined;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--check" || words[i] == "-c") {
      const bool has_mode =
          i + 1 < words.size() && (words[i + 1] == "random" || words[i + 1] == "all_ones");
      joined.push_back("--check=" + (has_mode ? words[++i] : "random"));
    } else if (words[i] == "--stats" || words[i] == "-t") {
      std::string list;
      while (i + 1 < words.size() && is_statistic(words[i + 1])) {
        list += (list.empty() ? "" : ",") + words[++i];
      }
      joined.push_back("--stats=" + list);
    } else {
      joined.push_back(words[i]);
    }
  }
  return joined;
}

Result<uint64_t> parse_bytes(const std::string& flag, const std::string& text) {
  const Status wrong = invalid(
      format("--{}='{}': expected a size such as 4096, 1kb, 32M or 1GB", flag, printable(text)));
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) {
    return wrong;
  }
  std::string unit(end, text.data() + text.size());
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::tolower(c); });
  int shift = 0;
  if (unit == "k" || unit == "kb" || unit == "kib") {
    shift = 10;
  } else if (unit == "m" || unit == "mb" || unit == "mib") {
    shift = 20;
  } else if (unit == "g" || unit == "gb" || unit == "gib") {
    shift = 30;
  } else if (!unit.empty() && unit != "b") {
    return wrong;
  }
  if (number > (std::numeric_limits<uint64_t>::max() >> 16 >> shift)) {
    return wrong;
  }
  return number << shift;
}

Result<Options> read_options(const Arguments& arguments) {
  for (const Refused& refused : kRefused) {
    if (arguments.has(refused.flag)) {
      // One node is what there is anyway.
      if (refused.flag == std::string("nnodes") && arguments.find("nnodes") == "1") {
        continue;
      }
      return invalid(format("--{} is not supported: {}", refused.flag, refused.why));
    }
  }
  Options options;
  ONRT_ASSIGN_OR_RETURN(options.workers, whole(arguments, "nworkers", 0, 1, kMostWorkers));
  if (options.workers == 0) {
    return invalid("expected -r N, the number of ranks");
  }
  if (arguments.positional().size() != 1) {
    return invalid(arguments.positional().empty()
                       ? std::string("expected an operation, such as allr")
                       : format("unexpected argument '{}'", printable(arguments.positional()[1])));
  }
  if (const std::string path = arguments.find("path").value_or("host"); path != "host") {
    return invalid(format("--path='{}': expected host", printable(path)));
  }
  const std::string buffers = arguments.find("buffers").value_or("device");
  if (buffers != "device" && buffers != "host") {
    return invalid(format("--buffers='{}': expected device or host", printable(buffers)));
  }
  options.buffers = buffers == "device" ? Buffers::kDevice : Buffers::kHost;
  ONRT_ASSIGN_OR_RETURN(options.timeout_seconds,
                        whole(arguments, "timeout", options.timeout_seconds, 1, 1'000'000));
  if (const auto list = arguments.find("stats")) {
    ONRT_ASSIGN_OR_RETURN(options.statistics, parse_statistics(*list));
  }
  options.show_algorithm = arguments.has("show-algorithm");
  options.show_sizes = arguments.has("show-input-output-size");
  options.debug = arguments.has("debug");
  options.report_file = arguments.find("report-to-json-file").value_or("");
  ONRT_RETURN_IF_ERROR(read_series(arguments, &options));
  return options;
}

Shape shape_of(Operation operation, uint64_t elements, int group_size) {
  const auto ranks = static_cast<uint64_t>(group_size);
  switch (operation) {
    case Operation::kAllGather:
    case Operation::kAllGatherV:
      return {elements / ranks, elements};
    case Operation::kReduceScatter:
      return {elements, elements / ranks};
    default:
      return {elements, elements};
  }
}

double bus_factor(Operation operation, int group_size) {
  const double ranks = group_size;
  switch (operation) {
    case Operation::kAllReduce:
      return 2 * (ranks - 1) / ranks;
    case Operation::kSendReceive:
    case Operation::kPermute:
      return 1;
    default:
      return (ranks - 1) / ranks;
  }
}

std::string variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): see the header
  return value != nullptr && *value != '\0' ? value : otherwise;
}

uint64_t usable_size(const Series& series, uint64_t bytes, int group_size) {
  const bool divided = series.operation != Operation::kAllReduce &&
                       series.operation != Operation::kSendReceive &&
                       series.operation != Operation::kPermute;
  const uint64_t unit = series.type.bytes * (divided ? static_cast<uint64_t>(group_size) : 1);
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace onrt::tools::nccom
