// SPDX-License-Identifier: Apache-2.0
#include "tools/common/args.h"

#include <algorithm>
#include <charconv>

#include "tools/common/table.h"

namespace onrt::tools {
namespace {

constexpr Flag kHelp = {"help", 'h', "", "show this text"};
constexpr Flag kVersion = {"version", '\0', "", "show the version"};

std::vector<Flag> all_flags(const ToolText& tool) {
  std::vector<Flag> flags = tool.flags;
  flags.push_back(kHelp);
  flags.push_back(kVersion);
  return flags;
}

std::string flag_column(const Flag& flag) {
  std::string text = "  ";
  text += flag.letter != '\0' ? std::string("-") + flag.letter + ", " : "    ";
  text += "--";
  text += flag.name;
  if (!flag.value.empty()) {
    text += " ";
    text += flag.value;
  }
  return text;
}

// How messages name a flag: `w, wide'.
std::string flag_title(const Flag& flag) {
  std::string text = "`";
  if (flag.letter != '\0') {
    text += flag.letter;
    text += ", ";
  }
  text += flag.name;
  return text + "'";
}

}  // namespace

class ArgumentParser {
 public:
  ArgumentParser(const ToolText& tool, const std::vector<std::string>& words)
      : flags_(all_flags(tool)), words_(words) {}

  Arguments parse() {
    while (at_ < words_.size() && out_.error_.empty()) {
      const std::string& word = words_[at_++];
      if (word == "--") {
        out_.positional_.insert(out_.positional_.end(),
                                words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
        break;
      }
      if (word.starts_with("--")) {
        take_long(word.substr(2));
      } else if (word.size() > 1 && word[0] == '-') {
        take_short(word.substr(1));
      } else {
        out_.positional_.push_back(word);
      }
    }
    return std::move(out_);
  }

 private:
  void take_long(const std::string& text) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const auto flag = std::find_if(flags_.begin(), flags_.end(),
                                   [&](const Flag& row) { return row.name == name; });
    if (flag == flags_.end()) {
      out_.error_ = "unknown flag `" + printable(name) + "'";
    } else if (equals == std::string::npos) {
      take(*flag, "");
    } else if (flag->value.empty()) {
      out_.error_ = "flag " + flag_title(*flag) + " takes no value";
    } else {
      out_.flags_.emplace_back(flag->name, text.substr(equals + 1));
    }
  }

  void take_short(const std::string& letters) {
    for (size_t i = 0; i < letters.size() && out_.error_.empty(); ++i) {
      const auto flag = std::find_if(flags_.begin(), flags_.end(),
                                     [&](const Flag& row) { return row.letter == letters[i]; });
      if (flag == flags_.end()) {
        out_.error_ = "unknown flag `" + printable({&letters[i], 1}) + "'";
      } else if (flag->value.empty()) {
        take(*flag, "");
      } else {
        take(*flag, letters.substr(i + 1));
        return;
      }
    }
  }

  // `attached` is what follows the letter in the same word.
  void take(const Flag& flag, const std::string& attached) {
    if (flag.value.empty() || !attached.empty()) {
      out_.flags_.emplace_back(flag.name, attached);
    } else if (at_ < words_.size()) {
      out_.flags_.emplace_back(flag.name, words_[at_++]);
    } else {
      out_.error_ = "flag " + flag_title(flag) + " needs a value: " + std::string(flag.value);
    }
  }

  std::vector<Flag> flags_;
  const std::vector<std::string>& words_;
  size_t at_ = 0;
  Arguments out_;
};

std::optional<std::string> Arguments::find(std::string_view flag) const {
  for (auto row = flags_.rbegin(); row != flags_.rend(); ++row) {
    if (row->first == flag) {
      return row->second;
    }
  }
  return std::nullopt;
}

Arguments parse_arguments(const ToolText& tool, const std::vector<std::string>& words) {
  return ArgumentParser(tool, words).parse();
}

Arguments parse_arguments(const ToolText& tool, int argc, char** argv) {
  return parse_arguments(tool, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}

std::string_view tools_version() { return ONRT_VERSION; }

std::string version_text(const ToolText& tool) {
  return std::string(tool.name) + " " + std::string(tools_version()) + " (OpenNRT)\n";
}

std::string help_text(const ToolText& tool) {
  std::string text = std::string(tool.name) + " - " + std::string(tool.summary) + "\n\nUsage:\n";
  for (const std::string_view line : tool.usage) {
    text += "  " + std::string(line) + "\n";
  }
  text += "\nOptions:\n";
  const std::vector<Flag> flags = all_flags(tool);
  size_t width = 0;
  for (const Flag& flag : flags) {
    width = std::max(width, flag_column(flag).size());
  }
  for (const Flag& flag : flags) {
    std::string column = flag_column(flag);
    column.resize(width + 2, ' ');
    text += column + std::string(flag.help) + "\n";
  }
  text += "\nExamples:\n";
  for (const std::string_view line : tool.examples) {
    text += "  " + std::string(line) + "\n";
  }
  text += "\nExit codes:\n";
  for (const ExitCode& row : tool.exit_codes) {
    text += "  " + std::to_string(row.code) + "  " + std::string(row.meaning) + "\n";
  }
  return text;
}

std::optional<long long> parse_whole(std::string_view text, long long least, long long most) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    return std::nullopt;
  }
  return value;
}

}  // namespace onrt::tools
