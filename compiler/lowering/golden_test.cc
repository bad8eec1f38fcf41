// SPDX-License-Identifier: Apache-2.0
// golden/*.txt: a graph, a line "---- flat", the flat form, a line "---- ncx", the program.
// OPENNRT_UPDATE_GOLDEN=1 writes the second and third part anew; look at the difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/hir/text.h"
#include "compiler/lowering/compile.h"
#include "compiler/passes/flat.h"
#include "emulator/isa/encoding.h"

namespace onrt {
namespace {

constexpr std::string_view kFlat = "---- flat\n";
constexpr std::string_view kNcx = "---- ncx\n";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The graph's text, then what the compiler makes of it.
Result<std::string> regenerate(const std::string& graph_text) {
  ONRT_ASSIGN_OR_RETURN(const auto graph, hir::parse(graph_text));
  ONRT_ASSIGN_OR_RETURN(const hir::Flat flat, hir::Flat::make(*graph, {}));
  ONRT_ASSIGN_OR_RETURN(const Compiled compiled, compile_program(*graph, {}));
  return graph_text + std::string(kFlat) + flat.text() + std::string(kNcx) +
         ncx::disassemble(compiled.program);
}

TEST(GoldenPrograms, AreWhatTheCompilerMakes) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(ONRT_GOLDEN_FOLDER)) {
    paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  ASSERT_GE(paths.size(), 5U);
  for (const auto& path : paths) {
    const std::string text = read_file(path);
    const auto made = regenerate(text.substr(0, text.find(kFlat)));
    ASSERT_TRUE(made.ok()) << path << ": " << made.status().message();
    if (std::getenv("OPENNRT_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path) << *made;
    } else {
      EXPECT_EQ(*made, text) << path;
    }
  }
}

}  // namespace
}  // namespace onrt
