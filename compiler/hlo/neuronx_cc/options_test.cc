// SPDX-License-Identifier: Apache-2.0
// Command lines and defaults are those of the SDK documentation's CLI reference and of its clients.
#include "compiler/hlo/neuronx_cc/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "compiler/hlo/neuronx_cc/cache_command.h"
#include "compiler/hlo/neuronx_cc/target.h"

namespace onrt::cc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Options> parse(const std::string& line) {
  std::istringstream words(line);
  return parse_options(std::vector<std::string>(std::istream_iterator<std::string>(words), {}));
}

Options parse_ok(const std::string& line) {
  const auto options = parse(line);
  EXPECT_TRUE(options.ok()) << options.status().message();
  return options.ok() ? *options : Options();
}

std::string parse_error(const std::string& line) {
  const auto options = parse(line);
  EXPECT_FALSE(options.ok()) << line;
  return std::string(options.status().message());
}

TEST(NeuronxCcOptions, DefaultsAreThePublishedOnes) {
  const Options options = parse_ok("compile m.pb --framework XLA");
  EXPECT_EQ(options.command, Command::kCompile);
  EXPECT_EQ(options.output, "file.neff");
  EXPECT_EQ(options.logfile, "log-neuron-cc.txt");
  EXPECT_EQ(options.verbosity, Verbosity::kWarning);
  EXPECT_EQ(options.optlevel, 2);
  EXPECT_EQ(options.auto_cast, 0);
  EXPECT_EQ(options.lnc, 0);
  EXPECT_FALSE(options.uncompressed);
}

TEST(NeuronxCcOptions, TakesTheLineOfAClientThatKeepsItsTemporaries) {
  const Options options = parse_ok(
      "compile --framework XLA /tmp/hlo_module.pb --pipeline compile SaveTemps --target trn2 "
      "--output=file.neff --lnc 1 --internal-tensorizer-opt-level=2");
  EXPECT_THAT(options.files, ElementsAre("/tmp/hlo_module.pb"));
  EXPECT_EQ(options.target, "trn2");
  EXPECT_EQ(options.lnc, 1);
  EXPECT_TRUE(options.save_temps);
}

TEST(NeuronxCcOptions, TakesAFolderForTheTextOfEveryStage) {
  EXPECT_EQ(parse_ok("compile m.pb --framework XLA --dump stages").dump_dir, "stages");
  EXPECT_EQ(parse_ok("compile m.pb --framework XLA").dump_dir, "");
}

TEST(NeuronxCcOptions, TakesTheModelFileBeforeOrAfterFlags) {
  for (const char* line :
       {"compile m.pb --framework XLA --target trn1", "compile --framework XLA m.pb --target trn1",
        "compile --framework=XLA --target=trn1 m.pb"}) {
    EXPECT_THAT(parse_ok(line).files, ElementsAre("m.pb")) << line;
  }
}

TEST(NeuronxCcOptions, TakesEverySpellingOfCoresAndLevels) {
  for (const char* flag : {"--lnc 2", "-lnc 2", "--logical-nc-config 2", "--lnc=2", "-lnc=2"}) {
    EXPECT_EQ(parse_ok(std::string("compile m.pb --framework XLA ") + flag).lnc, 2) << flag;
  }
  for (const char* flag : {"-O1", "-O 1", "--optlevel 1", "--optlevel=1", "-O=1"}) {
    EXPECT_EQ(parse_ok(std::string("compile m.pb --framework XLA ") + flag).optlevel, 1) << flag;
  }
}

TEST(NeuronxCcOptions, IgnoresPrivateFlagsWithAndWithoutValues) {
  const Options options = parse_ok(
      "compile --internal-a --internal-b=1 --internal-c 2 --enable-internal-d m.pb "
      "--framework XLA");
  EXPECT_THAT(options.files, ElementsAre("m.pb"));
  EXPECT_TRUE(options.warnings.empty());
}

TEST(NeuronxCcOptions, WarnsAboutAnUnknownSwitch) {
  const Options options = parse_ok("compile m.pb --framework XLA --enable-warp-drive");
  EXPECT_THAT(options.warnings, ElementsAre(HasSubstr("--enable-warp-drive")));
}

TEST(NeuronxCcOptions, NumbersOfVerboseAreThoseOfPythonsLogging) {
  EXPECT_EQ(parse_ok("compile m --framework XLA --verbose 35").verbosity, Verbosity::kError);
  EXPECT_EQ(parse_ok("compile m --framework XLA --verbose=20").verbosity, Verbosity::kInfo);
  EXPECT_EQ(parse_ok("compile m --framework XLA --verbose debug").verbosity, Verbosity::kDebug);
}

TEST(NeuronxCcOptions, RefusesWithTheFlagAndWhatItTakes) {
  EXPECT_THAT(parse_error("compile m.pb --framework TENSORFLOW"),
              AllOf(HasSubstr("--framework"), HasSubstr("TENSORFLOW"), HasSubstr("XLA")));
  EXPECT_THAT(parse_error("compile m.pb --framework XLA --target trn9"), HasSubstr("trn9"));
  EXPECT_THAT(parse_error("compile m.pb --framework XLA --lnc 3"), HasSubstr("1 2"));
  EXPECT_THAT(parse_error("compile m.pb --framework XLA --targe trn2"),
              AllOf(HasSubstr("'--targe'"), HasSubstr("did you mean '--target'")));
  EXPECT_THAT(parse_error("compile m.pb --framework XLA --output"), HasSubstr("needs a value"));
  EXPECT_THAT(parse_error("compile m.pb --framework XLA --pipeline tensorize"),
              HasSubstr("tensorize"));
  EXPECT_THAT(parse_error("compile m.pb --framework XLA --auto-cast all --auto-cast-type tf32"),
              HasSubstr("tf32"));
  EXPECT_THAT(parse_error("compile m.pb"), HasSubstr("--framework XLA is required"));
  EXPECT_THAT(parse_error("compile --framework XLA"), HasSubstr("expected 1 file name"));
  EXPECT_THAT(parse_error("compile a b --framework XLA"), HasSubstr("'a' 'b'"));
  EXPECT_THAT(parse_error("optimise"), HasSubstr("unknown command 'optimise'"));
  EXPECT_THAT(parse_error(""), HasSubstr("no command"));
}

TEST(NeuronxCcOptions, HelpNamesEveryPublishedFlag) {
  EXPECT_EQ(parse_ok("compile --help").help_topic, "compile");
  const std::string help = help_text("compile");
  for (const char* flag :
       {"--framework", "--target", "--model-type", "--auto-cast", "--auto-cast-type",
        "--native-int64", "--implicit-integer-downcast", "--distribution-strategy",
        "--logical-nc-config", "--optlevel", "--enable-mixed-precision-accumulation",
        "--enable-saturate-infinity", "--enable-fast-context-switch",
        "--enable-fast-loading-neuron-binaries", "--logfile", "--output", "--verbose"}) {
    EXPECT_THAT(help, HasSubstr(flag));
  }
  EXPECT_THAT(help_text(""), HasSubstr("list-operators"));
}

TEST(NeuronxCcOptions, TakesTheFolderOfTheCacheByBothNames) {
  EXPECT_EQ(parse_ok("compile m.pb --framework XLA").cache_dir, "");
  EXPECT_EQ(parse_ok("compile m.pb --framework XLA --cache-dir /c").cache_dir, "/c");
  const Options options =
      parse_ok("compile m.pb --framework XLA --cache_dir=/c --no_cache --retry_failed_compilation");
  EXPECT_EQ(options.cache_dir, "/c");
  EXPECT_EQ(cache_folder(options), "");
  EXPECT_THAT(parse_error("compile m.pb --framework XLA --cache-dir="), HasSubstr("--cache-dir"));
}

TEST(NeuronxCcOptions, TheOptionWinsOverTheEnvironment) {
  ::setenv("NEURON_COMPILE_CACHE_URL", "/e", 1);
  EXPECT_EQ(cache_folder(parse_ok("compile m.pb --framework XLA")), "/e");
  EXPECT_EQ(cache_folder(parse_ok("compile m.pb --framework XLA --cache-dir /c")), "/c");
  EXPECT_EQ(cache_folder(parse_ok("compile m.pb --framework XLA --no-cache")), "");
  ::unsetenv("NEURON_COMPILE_CACHE_URL");
  EXPECT_EQ(cache_folder(parse_ok("compile m.pb --framework XLA")), "");
}

TEST(NeuronxCcOptions, CacheTakesOneAction) {
  const Options options = parse_ok("cache list --json --cache-dir /c");
  EXPECT_EQ(options.command, Command::kCache);
  EXPECT_THAT(options.files, ElementsAre("list"));
  EXPECT_TRUE(options.json);
  for (const char* line : {"cache", "cache list clear", "cache lis", "cache l|i"}) {
    EXPECT_THAT(parse_error(line), HasSubstr("list, info, clear")) << line;
  }
}

TEST(NeuronxCcTarget, ComesFromTheProductName) {
  EXPECT_EQ(target_of_product("trn1.32xlarge\n"), "trn1");
  EXPECT_EQ(target_of_product("trn1n.32xlarge\n"), "trn1n");
  EXPECT_EQ(target_of_product("trn2u.48xlarge\n"), "trn2");
  EXPECT_EQ(target_of_product("inf2.xlarge\n"), "inf2");
  EXPECT_EQ(target_of_product("Standard PC\n"), "");
}

}  // namespace
}  // namespace onrt::cc
