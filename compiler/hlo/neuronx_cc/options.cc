// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/neuronx_cc/options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

Status usage(std::string text) { return Status(NRT_INVALID, std::move(text)); }

// What a flag takes after its name.
enum class Takes { kNothing, kValue, kWords };

struct Flag {
  std::string_view name;
  Takes takes;
  std::string_view values;  // "a|b|c" when only these are accepted; "": anything
  Status (*set)(Options& options, const std::string& value);
  std::string_view doc;  // "": not in --help
};

Status ignore(Options&, const std::string&) { return ok_status(); }

Status set_framework(Options& options, const std::string& value) {
  options.framework = value;
  return ok_status();
}

Status set_target(Options& options, const std::string& value) {
  options.target = value;
  return ok_status();
}

Status set_output(Options& options, const std::string& value) {
  options.output = value;
  return value.empty() ? usage("--output needs a file name") : ok_status();
}

Status set_logfile(Options& options, const std::string& value) {
  options.logfile = value;
  options.logfile_given = true;
  return ok_status();
}

Status set_lnc(Options& options, const std::string& value) {
  options.lnc = value == "1" ? 1 : 2;
  return ok_status();
}

Status set_optlevel(Options& options, const std::string& value) {
  options.optlevel = value[0] - '0';
  return ok_status();
}

Status set_auto_cast(Options& options, const std::string& value) {
  options.auto_cast = value == "none" ? 0 : value == "matmult" ? 1 : 2;
  return ok_status();
}

Status set_auto_cast_type(Options& options, const std::string& value) {
  options.auto_cast_type = value;
  return ok_status();
}

Status set_uncompressed(Options& options, const std::string&) {
  options.uncompressed = true;
  return ok_status();
}

Status set_cache_dir(Options& options, const std::string& value) {
  options.cache_dir = value;
  return value.empty() ? usage("--cache-dir needs the name of a folder") : ok_status();
}

Status set_dump(Options& options, const std::string& value) {
  options.dump_dir = value;
  return value.empty() ? usage("--dump needs the name of a folder") : ok_status();
}

Status set_no_cache(Options& options, const std::string&) {
  options.no_cache = true;
  return ok_status();
}

Status set_json(Options& options, const std::string&) {
  options.json = true;
  return ok_status();
}

Status set_pipeline(Options& options, const std::string& value) {
  if (value == "SaveTemps") {
    options.save_temps = true;
  } else if (value != "compile") {
    return usage(
        format("--pipeline: stage '{}' is not available; expected compile, SaveTemps", value));
  }
  return ok_status();
}

// A name, or the numeric level of Python's logging module, which some clients give.
Status set_verbose(Options& options, const std::string& value) {
  constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warning", "error",
                                                      "critical"};
  const auto name = std::find(kNames.begin(), kNames.end(), value);
  if (name != kNames.end()) {
    options.verbosity = static_cast<Verbosity>(name - kNames.begin());
    return ok_status();
  }
  int level = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), level);
  if (error != std::errc() || end != value.data() + value.size() || level < 0) {
    return usage(
        format("--verbose: '{}' is none of debug, info, warning, error, critical and no "
               "number",
               value));
  }
  options.verbosity = static_cast<Verbosity>(std::clamp((level + 9) / 10 - 1, 0, 4));
  return ok_status();
}

constexpr std::array kCompileFlags = {
    Flag{"--framework", Takes::kValue, "XLA", set_framework, "where the model comes from"},
    Flag{"--target", Takes::kValue, "inf2|trn1|trn1n|trn2|trn3", set_target,
         "instance family (default: that of this machine, else trn2)"},
    Flag{"--output", Takes::kValue, "", set_output, "NEFF to write (default: file.neff)"},
    Flag{"-o", Takes::kValue, "", set_output, ""},
    Flag{"--logical-nc-config", Takes::kValue, "1|2", set_lnc,
         "physical cores per logical core (also -lnc, --lnc; default: that of the target)"},
    Flag{"-lnc", Takes::kValue, "1|2", set_lnc, ""},
    Flag{"--lnc", Takes::kValue, "1|2", set_lnc, ""},
    Flag{"--optlevel", Takes::kValue, "1|2|3", set_optlevel,
         "1: no rewrites; 2: default; 3: as 2 (also -O)"},
    Flag{"-O", Takes::kValue, "1|2|3", set_optlevel, ""},
    Flag{"--model-type", Takes::kValue, "generic|transformer|unet-inference", ignore,
         "accepted; has no effect"},
    Flag{"--auto-cast", Takes::kValue, "none|matmult|all", set_auto_cast,
         "which f32 operations run in a narrower type (default: none)"},
    Flag{"--auto-cast-type", Takes::kValue, "bf16|fp16|tf32|fp8_e4m3", set_auto_cast_type,
         "that type (default: bf16)"},
    Flag{"--native-int64", Takes::kValue, "default|enabled|disabled", ignore,
         "accepted; 64-bit integers are always exact"},
    Flag{"--implicit-integer-downcast", Takes::kValue, "", ignore,
         "accepted; integers are never downcast"},
    Flag{"--distribution-strategy", Takes::kValue, "generic|llm-training|NEMO", ignore,
         "accepted; has no effect"},
    Flag{"--enable-mixed-precision-accumulation", Takes::kNothing, "", ignore,
         "accepted; matrix products always accumulate in f32"},
    Flag{"--disable-mixed-precision-accumulation", Takes::kNothing, "", ignore,
         "accepted; has no effect"},
    Flag{"--enable-saturate-infinity", Takes::kNothing, "", ignore, "accepted; has no effect"},
    Flag{"--enable-fast-context-switch", Takes::kNothing, "", ignore, "accepted; has no effect"},
    Flag{"--enable-fast-loading-neuron-binaries", Takes::kNothing, "", set_uncompressed,
         "write an uncompressed NEFF"},
    Flag{"--enable-experimental-O1", Takes::kNothing, "", ignore, ""},
    Flag{"--pipeline", Takes::kWords, "", set_pipeline,
         "stages to run: compile, SaveTemps (as --dump neuronx-cc-temps beside the output)"},
    Flag{"--dump", Takes::kValue, "", set_dump, "folder for the text of every stage"},
    Flag{"--cache-dir", Takes::kValue, "", set_cache_dir,
         "folder of compiled programs to look in first (default: NEURON_COMPILE_CACHE_URL if set)"},
    Flag{"--cache_dir", Takes::kValue, "", set_cache_dir, ""},
    Flag{"--no-cache", Takes::kNothing, "", set_no_cache,
         "compile even if NEURON_COMPILE_CACHE_URL is set"},
    Flag{"--no_cache", Takes::kNothing, "", set_no_cache, ""},
    Flag{"--retry_failed_compilation", Takes::kNothing, "", ignore,
         "accepted; failures are never cached"},
    Flag{"--tensorizer-options", Takes::kValue, "", ignore, ""},
    Flag{"--hlo2tensorizer-options", Takes::kValue, "", ignore, ""},
    Flag{"--logfile", Takes::kValue, "", set_logfile,
         "where log lines go (default: log-neuron-cc.txt)"},
    Flag{"--verbose", Takes::kValue, "", set_verbose,
         "debug, info, warning, error or critical (default: warning)"},
};

constexpr std::array kListFlags = {
    Flag{"--framework", Takes::kValue, "XLA", set_framework, "where the model comes from"},
};

constexpr std::array<Flag, 0> kExportFlags = {};

constexpr std::array kCacheFlags = {
    Flag{"--cache-dir", Takes::kValue, "", set_cache_dir,
         "the folder (default: NEURON_COMPILE_CACHE_URL, else /var/tmp/neuron-compile-cache)"},
    Flag{"--cache_dir", Takes::kValue, "", set_cache_dir, ""},
    Flag{"--json", Takes::kNothing, "", set_json, "print JSON"},
};

struct CommandRow {
  std::string_view name;
  Command command;
  std::span<const Flag> flags;
  std::string_view usage;
  std::string_view doc;
};

constexpr std::array kCommands = {
    CommandRow{"compile", Command::kCompile, kCompileFlags,
               "neuronx-cc compile FILE --framework XLA [parameters]",
               "compile a serialized HloModuleProto to a NEFF"},
    CommandRow{"list-operators", Command::kListOperators, kListFlags,
               "neuronx-cc list-operators --framework XLA",
               "print the HLO operations that can be compiled, one a line"},
    CommandRow{"export-hlo", Command::kExportHlo, kExportFlags,
               "neuronx-cc export-hlo GRAPH OUTPUT",
               "turn a graph in nrtcc's text form into a serialized HloModuleProto"},
    CommandRow{"cache", Command::kCache, kCacheFlags,
               "neuronx-cc cache list|info|clear [--cache-dir DIR] [--json]",
               "look at, or empty, a folder of compiled programs"},
};

bool is_one_of(std::string_view value, std::string_view choices) {
  while (true) {
    const size_t bar = choices.find('|');
    if (choices.substr(0, bar) == value) {
      return true;
    }
    if (bar == std::string_view::npos) {
      return false;
    }
    choices.remove_prefix(bar + 1);
  }
}

bool starts_with_dash(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

bool is_private(std::string_view name) {
  return name.starts_with("--internal") || name.starts_with("--enable-internal") ||
         name.starts_with("--disable-internal");
}

bool looks_like_model(const std::string& word) {
  return word.ends_with(".pb") || word.ends_with(".hlo") || access(word.c_str(), F_OK) == 0;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// Walks the words of one command. Thread-compatible.
class Parser {
 public:
  Parser(const CommandRow& command, std::span<const std::string> words)
      : command_(command), words_(words) {
    options_.command = command.command;
  }

  Result<Options> run() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_++];
      if (word == "--help" || word == "-h") {
        options_.command = Command::kHelp;
        options_.help_topic = command_.name;
        return options_;
      }
      if (!starts_with_dash(word)) {
        options_.files.push_back(word);
        continue;
      }
      ONRT_RETURN_IF_ERROR(take_flag(word));
    }
    ONRT_RETURN_IF_ERROR(check());
    return options_;
  }

 private:
  Status take_flag(const std::string& word);
  Status take_unknown(const std::string& name, bool has_value);
  Status apply(const Flag& flag, const std::string& value);
  Status check() const;

  const CommandRow& command_;
  std::span<const std::string> words_;
  size_t next_ = 0;
  Options options_;
};

Status Parser::apply(const Flag& flag, const std::string& value) {
  if (!flag.values.empty() && !is_one_of(value, flag.values)) {
    std::string choices(flag.values);
    std::replace(choices.begin(), choices.end(), '|', ' ');
    return usage(format("{}: '{}' is not one of: {}", flag.name, value, choices));
  }
  return flag.set(options_, value);
}

Status Parser::take_flag(const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  std::optional<std::string> value;
  if (name.size() != word.size()) {
    value = word.substr(name.size() + 1);
  } else if (word.size() > 2 && word.starts_with("-O")) {
    name = "-O";
    value = word.substr(2);
  }
  const auto flag = std::find_if(command_.flags.begin(), command_.flags.end(),
                                 [&](const Flag& each) { return each.name == name; });
  if (flag == command_.flags.end()) {
    return take_unknown(name, value.has_value());
  }
  if (flag->takes == Takes::kNothing) {
    return apply(*flag, "");
  }
  if (value) {
    return apply(*flag, *value);
  }
  const size_t first = next_;
  while (next_ < words_.size() && (next_ == first || flag->takes == Takes::kWords) &&
         !starts_with_dash(words_[next_])) {
    ONRT_RETURN_IF_ERROR(apply(*flag, words_[next_++]));
  }
  return next_ == first ? usage(format("{} needs a value", name)) : ok_status();
}

Status Parser::take_unknown(const std::string& name, bool has_value) {
  if (command_.command == Command::kCompile) {
    if (is_private(name)) {
      if (name.starts_with("--internal") && !has_value && next_ < words_.size() &&
          !starts_with_dash(words_[next_]) && !looks_like_model(words_[next_])) {
        ++next_;  // its value
      }
      return ok_status();
    }
    if (name.starts_with("--enable-") || name.starts_with("--disable-")) {
      options_.warnings.push_back(format("flag {} is not known and has no effect", name));
      return ok_status();
    }
  }
  const Flag* nearest = nullptr;
  size_t best = 4;
  for (const Flag& flag : command_.flags) {
    const size_t distance = edit_distance(flag.name, name);
    if (distance < best) {
      best = distance;
      nearest = &flag;
    }
  }
  return usage(format("{}: unknown flag '{}'{}", command_.name, name,
                      nearest != nullptr ? format("; did you mean '{}'?", nearest->name) : ""));
}

Status Parser::check() const {
  if (command_.command == Command::kCache) {
    const auto& words = options_.files;
    return words.size() == 1 && is_one_of(words[0], "list|info|clear")
               ? ok_status()
               : usage("cache: expected one of list, info, clear");
  }
  if (command_.command != Command::kExportHlo && options_.framework.empty()) {
    return usage(format("{}: --framework XLA is required", command_.name));
  }
  const size_t expected = command_.command == Command::kCompile     ? 1
                          : command_.command == Command::kExportHlo ? 2
                                                                    : 0;
  if (options_.files.size() != expected) {
    std::string found;
    for (const std::string& file : options_.files) {
      found += " '" + file + "'";
    }
    return usage(format("{}: expected {} file name{}, found {}{}{}", command_.name, expected,
                        expected == 1 ? "" : "s", options_.files.size(), found.empty() ? "" : ":",
                        found));
  }
  if (options_.auto_cast != 0 && options_.auto_cast_type != "bf16" &&
      options_.auto_cast_type != "fp16") {
    return usage(
        format("--auto-cast-type {} is not available; bf16 and fp16 are", options_.auto_cast_type));
  }
  return ok_status();
}

std::string flag_help(const Flag& flag) {
  std::string left = format("  {}", flag.name);
  if (flag.takes == Takes::kWords) {
    left += " STAGE...";
  } else if (flag.takes == Takes::kValue) {
    left += flag.values.empty() ? " VALUE" : format(" {{{}}}", flag.values);
  }
  return format("{}\n        {}\n", left, flag.doc);
}

}  // namespace

Result<Options> parse_options(std::span<const std::string> arguments) {
  Options options;
  if (arguments.empty()) {
    return usage(
        "no command; expected compile, list-operators, export-hlo, cache, --help or --version");
  }
  const std::string& first = arguments[0];
  if (first == "--help" || first == "-h" || first == "help") {
    return options;
  }
  if (first == "--version") {
    options.command = Command::kVersion;
    return options;
  }
  for (const CommandRow& row : kCommands) {
    if (row.name == first) {
      return Parser(row, arguments.subspan(1)).run();
    }
  }
  return usage(
      format("unknown command '{}'; expected compile, list-operators, export-hlo or cache", first));
}

std::string help_text(std::string_view topic) {
  for (const CommandRow& row : kCommands) {
    if (row.name != topic) {
      continue;
    }
    std::string text = format("usage: {}\n\n{}.\n", row.usage, row.doc);
    for (const Flag& flag : row.flags) {
      if (!flag.doc.empty()) {
        text += flag_help(flag);
      }
    }
    return text;
  }
  std::string text = "usage: neuronx-cc COMMAND [parameters]\n\n";
  for (const CommandRow& row : kCommands) {
    text += format("  {:<16}{}\n", row.name, row.doc);
  }
  return text +
         "\nneuronx-cc COMMAND --help tells a command's parameters; --version the version.\n"
         "Exit status: 0 success, 1 the model is refused or a file fails, 2 wrong usage.\n";
}

}  // namespace onrt::cc
