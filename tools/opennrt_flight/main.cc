// SPDX-License-Identifier: Apache-2.0
// opennrt-flight: what the ranks of a job did last, side by side, and who held up the others.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>

#include "collectives/boot/boot.h"
#include "runtime/base/format.h"
#include "runtime/base/json.h"
#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/common/table.h"
#include "tools/opennrt_flight/merge.h"

namespace onrt::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;
constexpr int kCulprits = 3;
constexpr long long kNanoseconds = 1'000'000'000;

const ToolText& tool() {
  static const ToolText kTool = {
      "opennrt-flight",
      "Shows what the ranks of a job did last and who held up the others.",
      {"opennrt-flight [--job ID] [--json] [FOLDER | FILE...]"},
      {{"job", '\0', "ID", "the job of this number (default: the latest in the folder)"},
       {"json", 'j', "", "print JSON"}},
      {"opennrt-flight", "opennrt-flight --job 5ac1f00d12345678 --json",
       "opennrt-flight host0/flight/*.0 host1/flight/*.1"},
      {{0, "every operation that began has ended well"},
       {kFailed, "no record, or one that can't be read"},
       {kWrongUsage, "wrong usage"},
       {kCulprits, "operations failed; the report says because of whom"}}};
  return kTool;
}

int fail(std::string_view text) {
  std::fprintf(stderr, "opennrt-flight: %.*s\n", static_cast<int>(text.size()), text.data());
  return kFailed;
}

// Records JOB.RANK in `folder`, those of one job: `chosen`, else the one changed last.
Result<std::vector<std::string>> records_in(const std::string& folder, const std::string& chosen) {
  DIR* listing = ::opendir(folder.c_str());
  if (listing == nullptr) {
    return Status(NRT_INVALID, format("'{}': no flight records there", printable(folder)));
  }
  std::string latest = chosen;
  timespec newest{};
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing)) {  // NOLINT(concurrency-mt-unsafe): own stream
    const std::string name = entry->d_name;
    struct stat status{};
    if (name.find('.') == 0 || name.find('.') == std::string::npos ||
        ::fstatat(::dirfd(listing), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode)) {
      continue;
    }
    names.push_back(name);
    const bool later =
        status.st_mtim.tv_sec > newest.tv_sec ||
        (status.st_mtim.tv_sec == newest.tv_sec && status.st_mtim.tv_nsec >= newest.tv_nsec);
    if (chosen.empty() && later) {
      newest = status.st_mtim;
      latest = name.substr(0, name.find('.'));
    }
  }
  ::closedir(listing);
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (name.substr(0, name.find('.')) == latest) {
      paths.push_back(folder + "/" + name);
    }
  }
  if (paths.empty()) {
    return Status(NRT_INVALID, format("'{}': no flight records{}", printable(folder),
                                      chosen.empty() ? "" : " of job " + printable(chosen)));
  }
  return paths;
}

Result<std::vector<std::string>> chosen_paths(const Arguments& arguments) {
  const std::string job = arguments.find("job").value_or("");
  const std::vector<std::string>& given = arguments.positional();
  if (given.empty()) {
    Context context = Context::from_environment();
    ONRT_ASSIGN_OR_RETURN(const cc::BootOptions options, cc::boot_options(context));
    return records_in(options.directory + "/flight", job);
  }
  struct stat status{};
  if (given.size() == 1 && ::stat(given[0].c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return records_in(given[0], job);
  }
  return given;
}

Result<JobRecords> read_job(const std::vector<std::string>& paths) {
  std::vector<cc::FlightFile> files;
  for (const std::string& path : paths) {
    ONRT_ASSIGN_OR_RETURN(cc::FlightFile file, cc::read_flight_file(path));
    files.push_back(std::move(file));
  }
  return merge(std::move(files));
}

// Only on the host where they ran does a pid mean anything: those in the default folder did.
void look_for_processes(JobRecords& job) {
  for (RankRecord& record : job.ranks) {
    const int pid = record.file.header.pid;
    const bool ended = pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
    record.process = ended ? ProcessState::kEnded : ProcessState::kRuns;
  }
}

std::string time_text(const RankRecord& record, uint64_t monotonic_ns) {
  const long long ns = static_cast<long long>(monotonic_ns) + record.file.header.epoch_ns;
  const std::time_t seconds = ns / kNanoseconds;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return format("{:02}:{:02}:{:02}.{:06}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                ns % kNanoseconds / 1000);
}

std::string process_text(ProcessState state) {
  return state == ProcessState::kRuns ? "there" : state == ProcessState::kEnded ? "ended" : "?";
}

std::string report(const JobRecords& job, const Verdict& verdict) {
  std::string text = format("job {:016x}, {} ranks\n", job.job, job.size);
  Table table;
  for (const char* heading : {"RANK", "PID", "PROCESS", "LAST OPERATION", "STATE", "ALGORITHM",
                              "STEP", "WAITED FOR", "BEGAN (UTC)"}) {
    table.add_column({heading});
  }
  for (const RankRecord& record : job.ranks) {
    const cc::FlightEntry* last = record.latest();
    const std::string rank = format("{}", record.rank());
    const std::string pid = format("{}", record.file.header.pid);
    if (last == nullptr) {
      table.add_row({rank, pid, process_text(record.process), "none", "", "", "", "", ""});
      continue;
    }
    const bool failed = last->state == static_cast<uint32_t>(cc::FlightState::kFailed);
    table.add_row({rank, pid, process_text(record.process), describe(*last),
                   std::string(state_name(last->state)), printable(last->algorithm),
                   failed ? format("{}", last->step) : "",
                   last->peer >= 0 ? format("rank {}", last->peer) : "",
                   time_text(record, last->start_ns)});
  }
  text += table.text(Rules::kOutside);
  if (!job.without_record.empty()) {
    text += format("{} of {} ranks have no record here: they left in order, or it is elsewhere\n",
                   job.without_record.size(), job.size);
  }
  return text + verdict.text + "\n";
}

std::string_view kind_name(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kDiffer:
      return "calls_differ";
    case VerdictKind::kStuck:
      return "stuck";
    case VerdictKind::kBehind:
      return "behind";
    case VerdictKind::kUnclear:
      return "unclear";
    case VerdictKind::kNothing:
      break;
  }
  return "nothing";
}

std::string json_report(const JobRecords& job, const Verdict& verdict) {
  JsonWriter json(4);
  json.begin_object();
  json.key("job").string(format("{:016x}", job.job));
  json.key("size").integer(job.size);
  json.key("verdict").string(kind_name(verdict.kind));
  json.key("culprits").begin_array();
  for (const int rank : verdict.culprits) {
    json.integer(rank);
  }
  json.end_array().key("text").string(verdict.text);
  json.key("ranks").begin_array();
  for (const RankRecord& record : job.ranks) {
    json.begin_object();
    json.key("rank").integer(record.rank()).key("pid").integer(record.file.header.pid);
    json.key("operations").begin_array();
    for (const cc::FlightEntry& entry : record.file.entries) {
      json.begin_object();
      json.key("operation").string(describe(entry));
      json.key("state").string(state_name(entry.state)).key("status").integer(entry.status);
      json.key("algorithm").string(printable(entry.algorithm));
      json.key("peer").integer(entry.peer).key("step").integer(entry.step);
      json.key("start_ns")
          .integer(static_cast<int64_t>(entry.start_ns) + record.file.header.epoch_ns);
      json.key("end_ns").integer(
          entry.end_ns == 0 ? 0 : static_cast<int64_t>(entry.end_ns) + record.file.header.epoch_ns);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json.take() + "\n";
}

int run(const Arguments& arguments) {
  const auto paths = chosen_paths(arguments);
  if (!paths.ok()) {
    return fail(paths.status().message());
  }
  auto job = read_job(*paths);
  if (!job.ok()) {
    return fail(job.status().message());
  }
  if (arguments.positional().empty()) {
    look_for_processes(*job);
  }
  const Verdict verdict = judge(*job);
  if (!print(arguments.has("json") ? json_report(*job, verdict) : report(*job, verdict))) {
    return kFailed;
  }
  return verdict.kind == VerdictKind::kNothing ? 0 : kCulprits;
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  using namespace onrt::tools;  // NOLINT: main only
  const Arguments arguments = parse_arguments(tool(), argc, argv);
  if (arguments.help() || arguments.version()) {
    return print(arguments.help() ? help_text(tool()) : version_text(tool())) ? 0 : kFailed;
  }
  if (!arguments.error().empty()) {
    fail(arguments.error());
    std::fprintf(stderr, "Try: opennrt-flight --help\n");
    return kWrongUsage;
  }
  return run(arguments);
}
