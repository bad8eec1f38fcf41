// SPDX-License-Identifier: Apache-2.0
// neuron-packager: looks into NEFF files, ours and the vendor's.
#include <cstdio>
#include <filesystem>

#include "runtime/base/json.h"
#include "tools/common/args.h"
#include "tools/common/file.h"
#include "tools/neuron_packager/report.h"
#include "tools/neuron_packager/unpack.h"

namespace onrt::tools {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

const ToolText& tool_text() {
  static const ToolText kText = {
      "neuron-packager",
      "looks into NEFF files, ours and the vendor's",
      {"neuron-packager info [--cost] [--json] FILE",
       "neuron-packager unpack [-o FOLDER] [--json] FILE"},
      {{"cost", 'c', "", "info: device time, work of each engine, memory, by the timing model"},
       {"json", 'j', "", "print JSON"},
       {"output", 'o', "FOLDER", "unpack: where to (default: FILE without .neff)"}},
      {"neuron-packager info model.neff", "neuron-packager info --json model.neff | jq .tensors",
       "neuron-packager info --cost model.neff", "neuron-packager unpack -o /tmp/model model.neff"},
      {{0, "done"},
       {kFailed, "the file is no NEFF, is damaged, or could not be read or written"},
       {kUsage, "wrong command line"}}};
  return kText;
}

int fail(const Status& status, const std::string& path) {
  std::fprintf(stderr, "neuron-packager: %s: %s\n", path.c_str(),
               std::string(status.message()).c_str());
  return kFailed;
}

int wrong_usage(const std::string& why) {
  std::fprintf(stderr, "neuron-packager: %s; see neuron-packager --help\n", why.c_str());
  return kUsage;
}

int info(const Arguments& arguments, const std::string& path) {
  auto file = read_file(path);
  if (!file.ok()) {
    return fail(file.status(), path);
  }
  auto archive = read_neff_archive(*file);
  if (!archive.ok()) {
    return fail(archive.status(), path);
  }
  NeffReport report;
  report.path = path;
  report.file_bytes = file->size();
  report.archive = std::move(archive).value();
  auto package = read_neff(*file, NeffHashCheck::kSkip);
  if (package.ok()) {
    report.package = std::move(package).value();
  } else {
    report.refusal = package.status().message();
    report.refusal_code = package.status().code();
  }
  if (arguments.has("cost")) {
    if (!report.package) {
      return fail(package.status(), path);
    }
    auto cost = neff_cost(*report.package);
    if (!cost.ok()) {
      return fail(cost.status(), path);
    }
    report.cost = *cost;
  }
  return print(arguments.has("json") ? report_json(report) : report_text(report)) ? 0 : kFailed;
}

int unpack(const Arguments& arguments, const std::string& path) {
  const auto file = read_file(path);
  if (!file.ok()) {
    return fail(file.status(), path);
  }
  const auto archive = read_neff_archive(*file);
  if (!archive.ok()) {
    return fail(archive.status(), path);
  }
  std::string folder = std::filesystem::path(path).filename().string();
  folder = folder.ends_with(".neff") ? folder.substr(0, folder.size() - 5) : folder + ".unpacked";
  folder = arguments.find("output").value_or(folder);
  if (const Status status = unpack_neff(*archive, folder); !status.ok()) {
    return fail(status, path);
  }
  if (!arguments.has("json")) {
    return print(std::to_string(archive->members.size()) + " files in " + folder + "\n") ? 0
                                                                                         : kFailed;
  }
  JsonWriter out(2);
  out.begin_object().key("folder").string(folder).key("files").begin_array();
  for (const NeffMember& member : archive->members) {
    out.string(member.path);
  }
  out.end_array().end_object();
  return print(out.take() + "\n") ? 0 : kFailed;
}

int run(int argc, char** argv) {
  const Arguments arguments = parse_arguments(tool_text(), argc, argv);
  if (!arguments.error().empty()) {
    return wrong_usage(arguments.error());
  }
  if (arguments.help() || arguments.version()) {
    return print(arguments.help() ? help_text(tool_text()) : version_text(tool_text())) ? 0
                                                                                        : kFailed;
  }
  const auto& words = arguments.positional();
  if (words.size() != 2 || (words[0] != "info" && words[0] != "unpack")) {
    return wrong_usage("expected 'info FILE' or 'unpack FILE'");
  }
  return words[0] == "info" ? info(arguments, words[1]) : unpack(arguments, words[1]);
}

}  // namespace
}  // namespace onrt::tools

int main(int argc, char** argv) {
  return onrt::tools::run_tool("neuron-packager", onrt::tools::run, argc, argv);
}
