// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/api/neff.h"

#include <gtest/gtest.h>

#include "opennrt/nrtcc.h"

namespace onrt::api_test {
namespace {

std::string with_count(std::string text, int count) {
  const std::string number = std::to_string(count);
  for (size_t at = text.find('N'); at != std::string::npos; at = text.find('N', at)) {
    if (text.compare(at, 2, "N]") == 0) {
      text.replace(at, 1, number);
    }
    ++at;
  }
  return text;
}

}  // namespace

std::vector<uint8_t> compile(const std::string& text, const CompileOptions& options) {
  nrtcc_graph_t* graph = nullptr;
  EXPECT_EQ(nrtcc_parse(text.data(), text.size(), &graph), NRTCC_OK) << nrtcc_last_error();
  if (graph == nullptr) {
    return {};
  }
  nrtcc_options_t settings = {};
  settings.struct_size = sizeof(settings);
  settings.target = "trn2";
  settings.lnc = options.lnc;
  settings.optimization = -1;
  settings.compress = options.compress ? 1 : 0;
  uint8_t* bytes = nullptr;
  size_t size = 0;
  EXPECT_EQ(nrtcc_compile(graph, &settings, &bytes, &size), NRTCC_OK) << nrtcc_last_error();
  std::vector<uint8_t> neff(bytes, bytes + size);
  nrtcc_free(bytes);
  nrtcc_graph_destroy(graph);
  return neff;
}

std::vector<uint8_t> add_neff(int count, const CompileOptions& options) {
  return compile(with_count(R"(HloModule "add"

ENTRY %0 "main" {
  %0 = f32[N] parameter(), parameter_number={0}
  %1 = f32[N] parameter(), parameter_number={1}
  ROOT %2 = f32[N] add(%0, %1)
}
)",
                            count),
                 options);
}

std::vector<uint8_t> repeat_neff(int count) {
  return compile(with_count(R"(HloModule "repeat"
alias(0, 0)

ENTRY %0 "main" {
  %0 = f32[N] parameter(), parameter_number={0}
  %1 = f32[N] parameter(), parameter_number={1}
  %2 = f32[N] add(%0, %0)
  ROOT %3 = f32[N] add(%2, %1)
}
)",
                            count));
}

std::vector<uint8_t> log_neff(int count) {
  return compile(with_count(R"(HloModule "log"

ENTRY %0 "main" {
  %0 = f32[N] parameter(), parameter_number={0}
  ROOT %1 = f32[N] log(%0)
}
)",
                            count));
}

}  // namespace onrt::api_test
