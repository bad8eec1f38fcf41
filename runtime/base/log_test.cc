// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace onrt {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class LogTest : public ::testing::Test {
 protected:
  LogTest() {
    char name[] = "/tmp/log_test.XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ + "/log";
  }
  ~LogTest() override { std::filesystem::remove_all(folder_); }

  Logger logger(std::vector<std::string> variables) {
    variables.push_back("NEURON_RT_LOG_LOCATION=file:" + path_);
    return Logger(Settings::from_strings(variables));
  }
  std::string written() {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  std::string folder_;
  std::string path_;
};

// The vendor's form: 2025-Sep-19 18:57:20.782962  4444:4444  ERROR  TDRV:function   text
TEST_F(LogTest, LinesHaveTheFormThatToolsParse) {
  Logger log = logger({});
  log.write(LogComponent::kTdrv, LogLevel::kError, "log_dev_mem", "Failed to allocate");
  EXPECT_THAT(written(),
              MatchesRegex("[0-9]{4}-[A-Z][a-z]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6} "
                           "+[0-9]+:[0-9]+ +ERROR +TDRV:log_dev_mem +Failed to allocate\n"));
}

TEST_F(LogTest, LevelsApplyByComponent) {
  const Logger log = logger({"NEURON_RT_LOG_LEVEL=ERROR", "NEURON_RT_LOG_LEVEL_TDRV=debug"});
  EXPECT_TRUE(log.enabled(LogComponent::kNrt, LogLevel::kError));
  EXPECT_FALSE(log.enabled(LogComponent::kNrt, LogLevel::kWarning));
  EXPECT_TRUE(log.enabled(LogComponent::kTdrv, LogLevel::kDebug));
  EXPECT_FALSE(log.enabled(LogComponent::kTdrv, LogLevel::kTrace));
}

TEST_F(LogTest, WarnAndWarningAreTheSameAndQuietIsQuiet) {
  EXPECT_EQ(parse_log_level("WARN"), LogLevel::kWarning);
  EXPECT_EQ(parse_log_level("warning"), LogLevel::kWarning);
  EXPECT_EQ(parse_log_level("Info"), LogLevel::kInfo);
  EXPECT_FALSE(parse_log_level("loud"));
  EXPECT_FALSE(parse_log_level(""));
  const Logger quiet = logger({"NEURON_RT_LOG_LEVEL=QUIET"});
  EXPECT_FALSE(quiet.enabled(LogComponent::kNrt, LogLevel::kError));
}

TEST_F(LogTest, ArgumentsAreEvaluatedOnlyWhenTheLevelIsOn) {
  auto log = std::make_unique<Logger>(Settings::from_strings(
      {"NEURON_RT_LOG_LEVEL=ERROR", "NEURON_RT_LOG_LOCATION=file:" + path_}));
  int evaluated = 0;
  ONRT_LOG(log, Nrt, Info, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
  ONRT_LOG(log, Nrt, Error, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 1);
  EXPECT_THAT(written(), HasSubstr("NRT:TestBody"));
}

TEST_F(LogTest, LinesOfThreadsDoNotMix) {
  Logger log = logger({});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        log.write(LogComponent::kNrt, LogLevel::kError, "f",
                  std::string(200, static_cast<char>('a' + t)));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::istringstream lines(written());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const std::string text = line.substr(line.size() - 200);
    EXPECT_EQ(text, std::string(200, text[0]));
  }
  EXPECT_EQ(count, 200);
}

TEST_F(LogTest, AFileThatCanNotBeOpenedFallsBackToTheConsole) {
  ::testing::internal::CaptureStderr();
  Logger log(Settings::from_strings({"NEURON_RT_LOG_LOCATION=file:/nonexistent/x"}));
  log.write(LogComponent::kNrt, LogLevel::kError, "f", "seen");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("seen"));
  EXPECT_THAT(log.problem(), HasSubstr("NEURON_RT_LOG_LOCATION='file:/nonexistent/x'"));
  EXPECT_EQ(logger({}).problem(), "");
}

TEST_F(LogTest, ControlCharactersCannotForgeALine) {
  Logger log = logger({});
  log.write(LogComponent::kNrt, LogLevel::kError, "f", "tensor 'a\n2026 ERROR \x1b[31m' \xc3\xa4");
  const std::string text = written();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, HasSubstr("tensor 'a\\x0a2026 ERROR \\x1b[31m' \xc3\xa4\n"));
}

}  // namespace
}  // namespace onrt
