// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace onrt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Settings, DefaultsHoldWhenNothingIsSet) {
  const Settings settings = Settings::from_strings({});
  EXPECT_FALSE(settings.is_set(Setting::kExecTimeout));
  EXPECT_EQ(settings.integer(Setting::kExecTimeout), 30);
  EXPECT_TRUE(settings.flag(Setting::kResetCores));
  EXPECT_FALSE(settings.flag(Setting::kValidateHash));
  EXPECT_EQ(settings.text(Setting::kLogLevel), "WARNING");
  EXPECT_EQ(settings.text(Setting::kVisibleCores), "");
  EXPECT_THAT(settings.problems(), IsEmpty());
  EXPECT_THAT(settings.warnings(), IsEmpty());
}

TEST(Settings, FlagsAreZeroOneTrueFalseInAnyCase) {
  for (const char* value : {"1", "true", "TRUE", "True"}) {
    EXPECT_TRUE(Settings::from_strings({std::string("NEURON_RT_VALIDATE_HASH=") + value})
                    .flag(Setting::kValidateHash))
        << value;
  }
  for (const char* value : {"0", "false", "FALSE"}) {
    EXPECT_FALSE(Settings::from_strings({std::string("NEURON_RT_RESET_CORES=") + value})
                     .flag(Setting::kResetCores))
        << value;
  }
}

TEST(Settings, AValueThatDoesNotParseIsAProblemThatNamesIt) {
  const Settings settings =
      Settings::from_strings({"NEURON_RT_VALIDATE_HASH=maybe", "NEURON_RT_EXEC_TIMEOUT=2s"});
  EXPECT_THAT(settings.problems(),
              ElementsAre("NEURON_RT_VALIDATE_HASH='maybe': expected 0, 1, true or false",
                          "NEURON_RT_EXEC_TIMEOUT='2s': expected a whole number, 1 to 100000000 "
                          "seconds"));
  // The default holds until somebody reads the problem.
  EXPECT_EQ(settings.integer(Setting::kExecTimeout), 30);
  EXPECT_EQ(
      Settings::from_strings({"NEURON_RT_EXEC_TIMEOUT=99999999999999999999"}).problems().size(),
      1U);
}

TEST(Settings, AnEmptyValueIsTheSameAsNone) {
  std::vector<std::string> empty;
  for (const SettingInfo& row : setting_table()) {
    empty.push_back(std::string(row.variable) + "=");
  }
  const Settings settings = Settings::from_strings(empty);
  EXPECT_THAT(settings.problems(), IsEmpty());
  for (const SettingInfo& row : setting_table()) {
    EXPECT_FALSE(settings.is_set(row.setting)) << row.variable;
    EXPECT_EQ(settings.text(row.setting), row.fallback);
  }
  EXPECT_TRUE(settings.flag(Setting::kResetCores));
  EXPECT_EQ(settings.integer(Setting::kExecTimeout), 30);
}

TEST(Settings, AWordOrNumberThatIsNotAllowedIsAProblem) {
  struct Row {
    const char* variable;
    const char* expected;
  };
  for (const Row& row :
       {Row{"NEURON_RT_LOG_LEVEL=banana", "one of ERROR, WARN, WARNING, INFO, DEBUG, TRACE, QUIET"},
        Row{"NEURON_RT_LOG_LEVEL_NRT=1", "one of ERROR"},
        Row{"NEURON_RT_LOG_LOCATION=banana", "list of console, syslog, file:*"},
        Row{"NEURON_RT_LOG_LOCATION=console,", "list of console"},
        Row{"NEURON_RT_LOG_LOCATION=file:", "list of console"},
        Row{"NEURON_RT_NUMERICAL_ERRORS_VERBOSITY=banana", "one of none, critical"},
        Row{"NEURON_RT_DEBUG_MEMLOG_MAX_SIZE=-1", "a whole number, 0 to 1000000000"},
        Row{"NEURON_RT_EXEC_TIMEOUT=0", "1 to 100000000 seconds"},
        Row{"OPENNRT_EMU_SIMD=banana", "one of plain, sse4, avx2, avx512, neon"},
        Row{"OPENNRT_EMU_THREADS=banana", "a whole number, 1 to 1024"},
        Row{"OPENNRT_EMU_THREADS=1025", "a whole number, 1 to 1024"},
        Row{"OPENNRT_BACKEND=Auto", "one of auto, emulator, null"}}) {
    const Settings settings = Settings::from_strings({row.variable});
    ASSERT_EQ(settings.problems().size(), 1u) << row.variable;
    EXPECT_THAT(settings.problems()[0], HasSubstr(row.expected));
  }
  for (const char* good :
       {"NEURON_RT_LOG_LEVEL=debug", "NEURON_RT_LOG_LOCATION=console,file:/tmp/x,syslog",
        "OPENNRT_EMU_THREADS=1024", "NEURON_RT_NUMERICAL_ERRORS_VERBOSITY=critical"}) {
    EXPECT_THAT(Settings::from_strings({good}).problems(), IsEmpty()) << good;
  }
}

TEST(Settings, AnUnknownNameIsWarnedAboutWithTheNearestKnownOne) {
  const Settings settings =
      Settings::from_strings({"NEURON_RT_VISIBLE_CORE=1", "OPENNRT_EMULATED=x", "OPENNRT_TEST=1",
                              "PATH=/bin", "no equals", "NEURON_CC_FLAGS=-O1"});
  EXPECT_THAT(settings.warnings(),
              ElementsAre("unknown variable NEURON_RT_VISIBLE_CORE (nearest known name: "
                          "NEURON_RT_VISIBLE_CORES)",
                          "unknown variable OPENNRT_EMULATED (nearest known name: "
                          "OPENNRT_EMULATE)"));
}

TEST(Settings, AVendorSettingWithoutEffectHereIsNamedAsSuch) {
  const Settings settings = Settings::from_strings({"NEURON_RT_STOCHASTIC_ROUNDING_EN=1"});
  EXPECT_THAT(settings.warnings(),
              ElementsAre("NEURON_RT_STOCHASTIC_ROUNDING_EN has no effect in OpenNRT"));
}

TEST(Settings, ReadsTheEnvironment) {
  ::setenv("NEURON_PROCESS_TAG", "trainer=7", 1);
  EXPECT_EQ(Settings::from_environment().text(Setting::kProcessTag), "trainer=7");
  ::unsetenv("NEURON_PROCESS_TAG");
  EXPECT_FALSE(Settings::from_environment().is_set(Setting::kProcessTag));
}

TEST(Settings, EveryRowHasAUniqueNameADocAndADefaultThatParses) {
  std::set<std::string_view> names;
  std::vector<std::string> defaults;
  for (const SettingInfo& row : setting_table()) {
    EXPECT_TRUE(names.insert(row.variable).second) << row.variable;
    EXPECT_FALSE(row.doc.empty()) << row.variable;
    if (!row.fallback.empty()) {
      defaults.push_back(std::string(row.variable) + "=" + std::string(row.fallback));
    }
  }
  EXPECT_THAT(Settings::from_strings(defaults).problems(), IsEmpty());
}

TEST(ParseBytes, TakesBinarySuffixes) {
  EXPECT_EQ(parse_bytes("4096"), 4096U);
  EXPECT_EQ(parse_bytes("0"), 0U);
  EXPECT_EQ(parse_bytes("10B"), 10U);
  EXPECT_EQ(parse_bytes("1k"), 1024U);
  EXPECT_EQ(parse_bytes("64MiB"), 64U << 20);
  EXPECT_EQ(parse_bytes("1g"), 1U << 30);
  EXPECT_EQ(parse_bytes("3TB"), 3ULL << 40);
  EXPECT_EQ(parse_bytes("16777215T"), 16777215ULL << 40);
}

TEST(ParseBytes, RefusesEverythingElse) {
  for (const char* text : {"", "k", "-1", " 1", "1 k", "1x", "1kx", "1kib1", "1.5g", "0x10",
                           "16777216T", "99999999999999999999"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
}

}  // namespace
}  // namespace onrt
