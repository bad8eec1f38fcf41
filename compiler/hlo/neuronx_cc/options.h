// SPDX-License-Identifier: Apache-2.0
// The command line of neuronx-cc. Flags, values and defaults are those of the vendor's compiler
// (SDK documentation, "Neuron Compiler CLI Reference Guide"), so that clients need no change.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opennrt/nrtcc.h"
#include "runtime/base/status.h"

namespace onrt::cc {

enum class Command { kHelp, kVersion, kCompile, kListOperators, kExportHlo, kCache };
enum class Verbosity { kDebug, kInfo, kWarning, kError, kCritical };

struct Options {
  Command command = Command::kHelp;
  std::string help_topic;  // of kHelp: "", "compile", ...
  // Model file; input and output of export-hlo; list, clear or info of cache.
  std::vector<std::string> files;
  std::string framework;
  std::string target;  // "": that of the machine
  std::string output = "file.neff";
  std::string logfile = "log-neuron-cc.txt";
  bool logfile_given = false;
  Verbosity verbosity = Verbosity::kWarning;
  int lnc = 0;  // 0: default of the target
  int optlevel = 2;
  int auto_cast = 0;  // as in nrtcc_options_t
  std::string auto_cast_type = "bf16";
  bool uncompressed = false;
  bool save_temps = false;
  std::string dump_dir;   // "": none, or neuronx-cc-temps beside the output with save_temps
  std::string cache_dir;  // "": NEURON_COMPILE_CACHE_URL
  bool no_cache = false;
  bool json = false;
  std::vector<std::string> warnings;  // flags that were accepted and have no effect
};

// `arguments` without the program's name.
// Errors: NRT_INVALID with one line that names the flag, what it takes and what was given.
Result<Options> parse_options(std::span<const std::string> arguments);

// Text of --help for "", "compile", "list-operators", "export-hlo" or "cache".
std::string help_text(std::string_view topic);

}  // namespace onrt::cc
