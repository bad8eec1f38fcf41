// SPDX-License-Identifier: Apache-2.0
// Command lines of the tools: a table of flags, `--help`, `--version`, and exact messages.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onrt::tools {

struct Flag {
  std::string_view name;   // "wide", given as --wide
  char letter = '\0';      // 'w', given as -w; 0: none
  std::string_view value;  // "FILE" for flags with a value; "" for switches
  std::string_view help;
};

struct ExitCode {
  int code;
  std::string_view meaning;
};

// What `--help` prints. Every tool has --help/-h and --version besides its own flags.
struct ToolText {
  std::string_view name;
  std::string_view summary;             // one sentence
  std::vector<std::string_view> usage;  // lines after "Usage:"
  std::vector<Flag> flags;
  std::vector<std::string_view> examples;  // one command each
  std::vector<ExitCode> exit_codes;
};

std::string help_text(const ToolText& tool);
std::string version_text(const ToolText& tool);  // "neuron-ls 0.1.0 (OpenNRT)\n"
std::string_view tools_version();

class Arguments {
 public:
  bool has(std::string_view flag) const { return find(flag).has_value(); }
  // Value given last; nothing when the flag was not given.
  std::optional<std::string> find(std::string_view flag) const;
  const std::vector<std::string>& positional() const { return positional_; }
  bool help() const { return has("help"); }
  bool version() const { return has("version"); }
  // "" or one sentence: "unknown flag `x'", "flag `o, output' needs a value".
  const std::string& error() const { return error_; }

 private:
  friend class ArgumentParser;
  std::vector<std::pair<std::string, std::string>> flags_;
  std::vector<std::string> positional_;
  std::string error_;
};

// -a -b, -ab, -oFILE, -o FILE, --output FILE, --output=FILE, and "--" before positional arguments.
// Stops at the first error.
Arguments parse_arguments(const ToolText& tool, const std::vector<std::string>& words);
Arguments parse_arguments(const ToolText& tool, int argc, char** argv);

// A whole number in [least, most], or nothing.
std::optional<long long> parse_whole(std::string_view text, long long least, long long most);

}  // namespace onrt::tools
