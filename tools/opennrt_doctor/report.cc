// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/base/json.h"
#include "tools/common/table.h"
#include "tools/opennrt_doctor/findings.h"

namespace onrt::tools {
namespace {

const char* level_name(Level level) {
  static constexpr const char* kNames[] = {"ok", "note", "problem"};
  return kNames[static_cast<size_t>(level)];
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

}  // namespace

bool has_problem(const Findings& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.level == Level::kProblem; });
}

std::string findings_text(const Findings& findings) {
  size_t width = 0;
  for (const Finding& finding : findings) {
    width = std::max(width, finding.name.size());
  }
  std::string out;
  std::string topic;
  for (const Finding& finding : findings) {
    if (finding.topic != topic) {
      out += (topic.empty() ? "" : "\n") + finding.topic + "\n";
      topic = finding.topic;
    }
    out += "  " + padded(level_name(finding.level), 9) + padded(finding.name, width + 2) +
           printable(finding.value) + "\n";
    if (!finding.advice.empty()) {
      out += std::string(11 + width + 2, ' ') + "-> " + printable(finding.advice) + "\n";
    }
  }
  return out + (has_problem(findings)
                    ? "\nNot ready: nrt_init() would fail. See the problems above.\n"
                    : "\nReady.\n");
}

std::string findings_json(const Findings& findings) {
  JsonWriter out(2);
  out.begin_object().key("ready").boolean(!has_problem(findings)).key("findings").begin_array();
  for (const Finding& finding : findings) {
    out.begin_object().key("topic").string(finding.topic).key("name").string(finding.name);
    out.key("value").string(finding.value).key("level").string(level_name(finding.level));
    out.key("advice").string(finding.advice).end_object();
  }
  return out.end_array().end_object().take() + "\n";
}

}  // namespace onrt::tools
