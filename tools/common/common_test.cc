// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tools/common/args.h"
#include "tools/common/table.h"

namespace onrt::tools {
namespace {

ToolText tool() {
  return {"tool",
          "does a thing",
          {"tool [options] FILE"},
          {{"wide", 'w', "", "wider"}, {"output", 'o', "FILE", "where to"}},
          {"tool -w x"},
          {{0, "done"}}};
}

TEST(Arguments, TakesFlagsInEveryUsualForm) {
  const auto args = parse_arguments(tool(), {"a", "-wo", "x", "b", "--output=y", "--", "-z"});
  EXPECT_EQ(args.error(), "");
  EXPECT_TRUE(args.has("wide"));
  EXPECT_EQ(args.find("output"), "y");
  EXPECT_EQ(args.positional(), (std::vector<std::string>{"a", "b", "-z"}));
  EXPECT_EQ(parse_arguments(tool(), {"-oz"}).find("output"), "z");
  EXPECT_EQ(parse_arguments(tool(), {"--output", "z"}).find("output"), "z");
}

TEST(Arguments, NamesTheFlagThatIsWrong) {
  EXPECT_EQ(parse_arguments(tool(), {"--nope=1"}).error(), "unknown flag `nope'");
  EXPECT_EQ(parse_arguments(tool(), {"-wx"}).error(), "unknown flag `x'");
  // What was typed may hold sequences that a terminal obeys.
  EXPECT_EQ(parse_arguments(tool(), {"--no\x1b[31mpe"}).error(), "unknown flag `no?[31mpe'");
  EXPECT_EQ(parse_arguments(tool(), {"-\x1b"}).error(), "unknown flag `?'");
  EXPECT_EQ(parse_arguments(tool(), {"-o"}).error(), "flag `o, output' needs a value: FILE");
  EXPECT_EQ(parse_arguments(tool(), {"--wide=1"}).error(), "flag `w, wide' takes no value");
}

TEST(Arguments, HelpListsEverything) {
  const std::string text = help_text(tool());
  for (const char* part : {"tool - does a thing", "-w, --wide", "-o, --output FILE", "-h, --help",
                           "--version", "Examples:\n  tool -w x", "  0  done"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(Arguments, WholeNumbersAreCheckedAgainstTheirRange) {
  EXPECT_EQ(parse_whole("12", 0, 12), 12);
  for (const char* text : {"13", "-1", "", "1x", "0x1", " 1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_whole(text, 0, 12).has_value()) << text;
  }
}

TEST(Table, CentresHeadingsAndAlignsCells) {
  Table table;
  table.add_column({"NEURON", "DEVICE"});
  table.add_column({"X"});
  table.add_row({"0", "é"});
  table.add_row({"1", "long"});
  EXPECT_EQ(table.text(Rules::kOutside),
            "+--------+------+\n"
            "| NEURON |  X   |\n"
            "| DEVICE |      |\n"
            "+--------+------+\n"
            "| 0      | é    |\n"
            "| 1      | long |\n"
            "+--------+------+\n");
  EXPECT_EQ(table.text(Rules::kAfterEachGroup),
            "+--------+------+\n"
            "| NEURON |  X   |\n"
            "| DEVICE |      |\n"
            "+--------+------+\n"
            "| 0      | é    |\n"
            "+--------+------+\n"
            "| 1      | long |\n"
            "+--------+------+\n");
}

TEST(Table, TextIsCutByCharactersAndMadeSafeForTerminals) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abc...");
  EXPECT_EQ(shortened("ééééééé", 6), "ééé...");
  EXPECT_EQ(printable("a\x1b[31m\n\x7F"), "a?[31m??");
  EXPECT_EQ(printable("\xC2\x9B"
                      "x"),
            "?x");
  EXPECT_EQ(printable("\xFF"
                      "é"),
            "???");
}

}  // namespace
}  // namespace onrt::tools
