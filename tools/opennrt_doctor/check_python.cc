// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "runtime/base/format.h"
#include "tools/opennrt_doctor/findings.h"

namespace onrt::tools {
namespace {

// Asks the Python that a user would start, without importing torch (it takes seconds, and would
// load the backend): versions from metadata, folders from the import system.
constexpr const char* kScript = R"PY(
import importlib.metadata as metadata, importlib.util as util, os, sys, sysconfig
print("python", sys.version.split()[0] + " (" + sys.executable + ")", sep="\t")
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
for package, name in (("torch", "torch"), ("torch_neuronx", "opennrt-torch-neuronx")):
    spec = util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        continue
    folder = list(spec.submodule_search_locations)[0]
    print(package, version(name), sep="\t")
    print(package + "_folder", folder, sep="\t")
    if package == "torch_neuronx":
        module = os.path.join(folder, "_C" + sysconfig.get_config_var("EXT_SUFFIX"))
        print("module", os.path.exists(module), sep="\t")
        points = metadata.entry_points(group="torch.backends")
        print("autoload", any(p.value.startswith("torch_neuronx:") for p in points), sep="\t")
)PY";

using Answers = std::map<std::string, std::string>;

// Lines "name<TAB>value". Empty when there is no python3, or it fails.
Answers ask_python() {
  const std::string command = format("timeout 20 python3 -c '{}' 2>/dev/null", kScript);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "re"), pclose);
  if (pipe == nullptr) {
    return {};
  }
  std::string text;
  std::array<char, 4096> buffer{};
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    text.append(buffer.data(), n);
  }
  Answers answers;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (const size_t tab = line.find('\t'); tab != std::string::npos) {
      answers[line.substr(0, tab)] = line.substr(tab + 1);
    }
    begin = end + 1;
  }
  return answers;
}

Finding backend_finding(const Answers& answers) {
  Finding finding{"pytorch", "torch_neuronx", "", Level::kOk};
  const auto get = [&](const char* name) {
    const auto at = answers.find(name);
    return at == answers.end() ? std::string() : at->second;
  };
  finding.value = format("{} in {}", get("torch_neuronx"), get("torch_neuronx_folder"));
  if (get("module") != "True") {
    finding.level = Level::kProblem;
    finding.value += ", built for another Python";
    finding.advice = "install the wheel that was built for this one (make wheel)";
  } else if (get("torch_neuronx").empty()) {
    finding.level = Level::kNote;
    finding.value = format("not OpenNRT's, in {}", get("torch_neuronx_folder"));
  } else if (get("autoload") != "True") {
    finding.level = Level::kNote;
    finding.value += ", torch does not load it by itself";
    finding.advice = "its dist-info is missing: install the wheel, or import torch_neuronx";
  }
  return finding;
}

}  // namespace

Findings check_python() {
  const Answers answers = ask_python();
  const auto python = answers.find("python");
  if (python == answers.end()) {
    return {{"pytorch", "python", "there is no python3 that works on the PATH", Level::kNote}};
  }
  Findings found = {{"pytorch", "python", python->second, Level::kOk}};
  const auto torch = answers.find("torch");
  if (torch == answers.end()) {
    found.push_back({"pytorch", "torch", "not installed", Level::kOk});
    return found;
  }
  found.push_back({"pytorch", "torch",
                   format("{} in {}", torch->second, answers.at("torch_folder")), Level::kOk});
  if (answers.contains("torch_neuronx")) {
    found.push_back(backend_finding(answers));
  } else {
    found.push_back({"pytorch", "torch_neuronx", "not installed, so there is no device \"neuron\"",
                     Level::kNote, "pip install the wheel that make wheel builds"});
  }
  return found;
}

}  // namespace onrt::tools
