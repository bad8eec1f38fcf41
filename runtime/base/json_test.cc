// SPDX-License-Identifier: Apache-2.0
// Expected values follow RFC 8259 and, for UTF-8, table 3-7 of the Unicode Standard.
#include "runtime/base/json.h"

#include <gtest/gtest.h>

#include <cmath>

namespace onrt {
namespace {

TEST(Json, ReadsEveryKindOfValueInOrder) {
  const auto value = parse_json(
      R"( {"b": [1, -2, 2.5e1, true, false, null], "a": "x\n\u00e9\ud83d\ude00", "c": {}} )");
  ASSERT_TRUE(value.ok()) << value.status().message();
  ASSERT_EQ(value->members().size(), 3u);
  EXPECT_EQ(value->members()[0].first, "b");
  const auto& items = value->find("b")->items();
  ASSERT_EQ(items.size(), 6u);
  EXPECT_EQ(items[1].integer(), -2);
  EXPECT_EQ(items[2].real(), 25.0);
  EXPECT_TRUE(items[3].boolean());
  EXPECT_FALSE(items[4].boolean());
  EXPECT_EQ(items[5].type(), JsonType::kNull);
  EXPECT_EQ(value->find("a")->string(), "x\n\xC3\xA9\xF0\x9F\x98\x80");
}

TEST(Json, RefusesWhatTheGrammarDoesNotAllow) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1,]",
                           "{\"a\":1,}",
                           "{a:1}",
                           "01",
                           "+1",
                           "1.",
                           ".5",
                           "1e",
                           "nul",
                           "[1 2]",
                           "\"\t\"",
                           "\"\\x\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "\"a",
                           "1 2",
                           "NaN",
                           "{\"a\":1,\"a\":2}",
                           "99999999999999999999",
                           "1e999",
                           "\"\\u12\"",
                           "'a'",
                           "-"}) {
    const auto value = parse_json(text);
    EXPECT_FALSE(value.ok()) << text;
    EXPECT_EQ(value.status().code(), NRT_INVALID) << text;
  }
}

TEST(Json, RefusesMalformedUtf8) {
  for (const char* text : {"\x80", "\xC0\xAF", "\xC2", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82",
                           "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(is_utf8(text));
    EXPECT_FALSE(parse_json("\"" + std::string(text) + "\"").ok());
  }
  EXPECT_TRUE(is_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
}

TEST(Json, LimitsNesting) {
  EXPECT_TRUE(parse_json(std::string(kJsonDepth, '[') + std::string(kJsonDepth, ']')).ok());
  const auto deep = parse_json(std::string(100000, '['));
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.status().message().find("nested deeper than 64"), std::string_view::npos);
}

TEST(Json, GettersNameTheKeyAndWhatWasFound) {
  const auto value = parse_json(R"({"n": 7, "s": "t"})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value->get_integer("n", 0, 7), 7);
  EXPECT_EQ(value->get_integer("n", 0, 6).status().message(), "'n': expected 0 to 6, found 7");
  EXPECT_EQ(value->get_integer("s", 0, 6).status().message(),
            "'s': expected an integer, found a string");
  EXPECT_EQ(value->get_string("m").status().message(), "'m' is missing");
}

TEST(JsonWriter, WritesCompactTextThatReadsBack) {
  JsonWriter out;
  out.begin_object().key("a").begin_array().integer(-1).unsigned_integer(18446744073709551615u);
  out.real(0.1).real(std::nan("")).end_array().key("b\"\n\x01").string("\\\x7F").key("e");
  out.begin_array().end_array().key("t").boolean(true).key("o").begin_object().end_object();
  out.end_object();
  EXPECT_EQ(
      out.text(),
      "{\"a\":[-1,18446744073709551615,0.1,null],\"b\\\"\\n\\u0001\":\"\\\\\\u007f\",\"e\":[],"
      "\"t\":true,\"o\":{}}");
}

TEST(JsonWriter, IndentsOneMemberALine) {
  JsonWriter out(4);
  out.begin_array()
      .begin_object()
      .key("a")
      .integer(1)
      .key("b")
      .begin_array()
      .integer(2)
      .end_array();
  out.key("c").begin_array().end_array().end_object().end_array();
  EXPECT_EQ(out.text(),
            "[\n    {\n        \"a\": 1,\n        \"b\": [\n            2\n        ],\n"
            "        \"c\": []\n    }\n]");
}

TEST(JsonWriter, ReplacesBytesThatAreNotUtf8) {
  JsonWriter out;
  out.string("a\xFF");
  EXPECT_EQ(out.text(), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace onrt
