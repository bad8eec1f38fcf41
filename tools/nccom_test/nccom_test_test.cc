// SPDX-License-Identifier: Apache-2.0
// Right values: the SDK documentation's page on nccom-test (named "documentation" below), and hand
// calculation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "tools/nccom_test/elements.h"
#include "tools/nccom_test/options.h"
#include "tools/nccom_test/report.h"

namespace onrt::tools::nccom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<Options> read(const std::vector<std::string>& words) {
  const Arguments arguments = parse_arguments(tool_text(), joined_words(words));
  EXPECT_EQ(arguments.error(), "");
  return read_options(arguments);
}

std::string refusal(const std::vector<std::string>& words) {
  const auto options = read(words);
  return options.ok() ? "accepted" : std::string(options.status().message());
}

std::string file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "nccom_test_test_" + name + ".json";
  std::ofstream(path) << text;
  return path;
}

TEST(NccomOptions, DefaultsAreThoseOfTheDocumentation) {
  const auto options = read({"-r", "2", "allr"});
  ASSERT_TRUE(options.ok()) << options.status().message();
  EXPECT_EQ(options->workers, 2);
  EXPECT_EQ(options->series.operation, Operation::kAllReduce);
  EXPECT_THAT(options->series.sizes, ElementsAre(33554432));
  EXPECT_EQ(options->series.iterations, 20);
  EXPECT_EQ(options->series.warmup, 5);
  EXPECT_STREQ(options->series.type.name, "uint8");
  EXPECT_THAT(options->statistics, ElementsAre("avg"));
}

TEST(NccomOptions, SizesGoByStepsOrByAFactor) {
  EXPECT_THAT(read({"-r2", "-b", "8", "-e", "16", "-i", "4", "allg"})->series.sizes,
              ElementsAre(8, 12, 16));  // documentation, --stepbytes
  EXPECT_THAT(read({"-r2", "-b", "8", "-e", "32", "-f", "2", "allg"})->series.sizes,
              ElementsAre(8, 16, 32));  // documentation, --stepfactor
  EXPECT_THAT(read({"-r2", "-b", "1kb", "-e", "1mb", "-f", "4", "allg"})->series.sizes,
              ElementsAre(1024, 4096, 16384, 65536, 262144, 1048576));
  EXPECT_EQ(read({"-r2", "-b", "0", "-e", "1GB", "-f", "2", "allg"}).ok(), false);
  EXPECT_EQ(read({"-r2", "-b", "10", "-e", "20", "allg"})->series.sizes.size(), 11U);
}

TEST(NccomOptions, CheckAndStatisticsTakeTheWordsThatBelongToThem) {
  // "--check allg": the operation is no mode (documentation, 32 rank all-gather).
  const auto bare = read({"-r", "32", "--check", "allg"});
  ASSERT_TRUE(bare.ok()) << bare.status().message();
  EXPECT_EQ(bare->series.check, Check::kRandom);
  EXPECT_EQ(read({"-r2", "-c", "all_ones", "allr"})->series.check, Check::kAllOnes);
  EXPECT_THAT(read({"-r8", "--stats", "avg", "p25", "p99", "--iters", "1000", "allg"})->statistics,
              ElementsAre("avg", "p25", "p99"));
  EXPECT_THAT(refusal({"-r8", "--stats", "--iters", "1000", "allg"}), HasSubstr("--stats=''"));
}

TEST(NccomOptions, EveryMistakeIsNamed) {
  EXPECT_THAT(refusal({"allr"}), HasSubstr("-r N"));
  EXPECT_THAT(refusal({"-r", "0", "allr"}), HasSubstr("--nworkers='0'"));
  EXPECT_THAT(refusal({"-r", "2"}), HasSubstr("expected an operation"));
  EXPECT_THAT(refusal({"-r", "2", "allsum"}), HasSubstr("'allsum': expected one of all_reduce"));
  EXPECT_THAT(refusal({"-r", "2", "-d", "fp64", "allr"}), HasSubstr("--datatype='fp64'"));
  EXPECT_THAT(refusal({"-r", "2", "-b", "1tb", "allr"}), HasSubstr("--minbytes='1tb'"));
  EXPECT_THAT(refusal({"-r", "2", "-b", "99999999999gb", "allr"}), HasSubstr("--minbytes"));
  EXPECT_THAT(refusal({"-r", "2", "-b", "8", "-e", "4", "allr"}), HasSubstr("least first"));
  EXPECT_THAT(refusal({"-r", "2", "-N", "2", "allr"}), HasSubstr("this host only"));
  EXPECT_THAT(refusal({"-r", "2", "--sb2sb", "allr"}), HasSubstr("not inside a NEFF"));
  EXPECT_THAT(refusal({"-r", "2", "--path", "device", "allr"}), HasSubstr("expected host"));
  EXPECT_EQ(refusal({"-r", "2", "-N", "1", "allr"}), "accepted");
}

TEST(NccomOptions, FilesOfGroupsAndPairsAreReadAndChecked) {
  const auto grouped = read({"-r4", "--custom-replica-groups",
                             file("g", R"({"replica_groups": [[[0, 1], [3, 2]]]})"), "allr"});
  ASSERT_TRUE(grouped.ok()) << grouped.status().message();
  EXPECT_THAT(grouped->series.groups, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  const auto paired = read({"-r2", "--custom-src-target-pairs",
                            file("p", R"({"src_target_pairs": [[[0, 1], [1, 0]]]})"), "permute"});
  ASSERT_TRUE(paired.ok()) << paired.status().message();
  EXPECT_THAT(paired->series.pairs, ElementsAre(std::pair(0, 1), std::pair(1, 0)));
  for (const char* text :
       {"", "[]", "{}", R"({"replica_groups": [[[0, 1], [1, 2]]]})",
        R"({"replica_groups": [[[0, 4]]]})", R"({"replica_groups": [[[-1]]]})",
        R"({"replica_groups": [[[0, 1], [2]]]})", R"({"replica_groups": [[]]})"}) {
    EXPECT_THAT(refusal({"-r4", "--custom-replica-groups", file("b", text), "allr"}),
                HasSubstr("--custom-replica-groups"))
        << text;
  }
  EXPECT_THAT(refusal({"-r2", "--custom-src-target-pairs",
                       file("q", R"({"src_target_pairs": [[[0, 1], [0, 0]]]})"), "permute"}),
              HasSubstr("at most once"));
}

TEST(NccomOptions, VariableSizesAreCompletedAndCompared) {
  // Documentation, all_gatherv example.
  const auto gather = read({"allgv", "-r", "4", "-d", "fp16", "--variable-size-op-metadata",
                            file("v", R"({"metadata": [{"send_counts": [256], "send_displs": [0],
    "recv_counts": [256, 256, 256, 256], "recv_displs": [0, 256, 512, 768]}]})")});
  ASSERT_TRUE(gather.ok()) << gather.status().message();
  EXPECT_THAT(gather->series.sizes, ElementsAre(2048));
  ASSERT_EQ(gather->series.variable.size(), 4U);
  // Documentation, alltoallv example: what comes follows from what is sent.
  const auto exchange = read({"alltoallv", "-r", "2", "-d", "fp32", "--variable-size-op-metadata",
                              file("w", R"({"metadata": [{"send_counts": [512, 1024],
    "send_displs": [0, 512], "recv_counts": [], "recv_displs": []}]})")});
  ASSERT_TRUE(exchange.ok()) << exchange.status().message();
  EXPECT_THAT(exchange->series.variable[0].receive_counts, ElementsAre(512, 512));
  EXPECT_THAT(exchange->series.variable[1].receive_counts, ElementsAre(1024, 1024));
  EXPECT_THAT(exchange->series.variable[1].receive_displacements, ElementsAre(0, 1024));
  EXPECT_THAT(refusal({"alltoallv", "-r2", "--variable-size-op-metadata",
                       file("x", R"({"metadata": [{"send_counts": [1, 2], "send_displs": [0, 1],
    "recv_counts": [1, 1], "recv_displs": [0, 1]}]})")}),
              HasSubstr("which sends"));
}

TEST(NccomReport, TableAndBandwidthsAreThoseOfTheDocumentation) {
  const auto options = read({"-r", "2", "allr"});
  const Report report(*options, 1);
  Row row;
  row.size = row.count = 33554432;
  row.times = {768};
  EXPECT_EQ(report.heading(),
            "   size(B)    count(elems)      type    time:avg(us)    algbw(GB/s)    busbw(GB/s)\n");
  // Documentation: 33554432 bytes in 768 us are 40.69, between two ranks on the bus as well.
  EXPECT_EQ(report.line(row),
            "  33554432        33554432     uint8          768.00          40.69          40.69\n");
  EXPECT_EQ(report.summary({row}), "Avg bus bandwidth:\t40.6901GB/s\n");
  row.failure = "Failure running rank 1: ended by signal 9 - log file /tmp/x.log";
  EXPECT_THAT(report.line(row), HasSubstr("33554432    Failure running"));
  EXPECT_EQ(report.summary({row}), "1 errors found - test failed\n");
}

TEST(NccomReport, BusFactorsAreThoseOfTheDocumentation) {
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kAllReduce, 4), 1.5);
  for (const Operation operation : {Operation::kAllGather, Operation::kReduceScatter,
                                    Operation::kAllToAll, Operation::kAllToAllV}) {
    EXPECT_DOUBLE_EQ(bus_factor(operation, 4), 0.75);
  }
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kSendReceive, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Operation::kPermute, 4), 1);
}

TEST(NccomReport, InputAndOutputSizesFollowTheOperation) {
  // Documentation, --show-input-output-size: all-gather of 1024 bytes by 32 ranks puts in 32.
  const Shape gather = shape_of(Operation::kAllGather, 1024, 32);
  EXPECT_EQ(gather.input, 32U);
  EXPECT_EQ(gather.output, 1024U);
  const Shape scatter = shape_of(Operation::kReduceScatter, 1024, 32);
  EXPECT_EQ(scatter.input, 1024U);
  EXPECT_EQ(scatter.output, 32U);
}

TEST(NccomReport, PercentilesAreNearestRanks) {
  const std::vector<double> times = {5, 1, 4, 2, 3};
  EXPECT_DOUBLE_EQ(statistic("avg", times), 3);
  EXPECT_DOUBLE_EQ(statistic("min", times), 1);
  EXPECT_DOUBLE_EQ(statistic("p50", times), 3);
  EXPECT_DOUBLE_EQ(statistic("p99", times), 5);
  EXPECT_DOUBLE_EQ(statistic("p0", times), 1);
  EXPECT_DOUBLE_EQ(statistic("p20", times), 1);
  EXPECT_DOUBLE_EQ(statistic("p21", times), 2);
}

class NccomElements : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Types, NccomElements,
                         testing::Values("uint8", "int8", "uint16", "int16", "fp8", "fp16", "bf16",
                                         "int32", "uint32", "fp32"));

TEST_P(NccomElements, ARightSumPassesAndAWrongElementIsFound) {
  const auto options = read({"-r3", "-d", GetParam(), "--check", "allr"});
  const Series& series = options->series;
  constexpr uint64_t kCount = 300;
  const ExpectedSum expected(series, 7, {0, 1, 2}, 0, kCount);
  std::vector<std::byte> result = expected.golden();
  EXPECT_EQ(expected.first_wrong(result), kCount);
  // Something else than the sum: what rank 0 put in.
  std::vector<std::byte> input(result.size());
  fill_input(series, 7, 0, 0, input);
  EXPECT_LT(expected.first_wrong(input), 3U);
  const uint64_t bytes = series.type.bytes;
  std::memcpy(result.data() + 200 * bytes, input.data() + 200 * bytes, bytes);
  EXPECT_EQ(expected.first_wrong(result), 200U);
}

TEST_P(NccomElements, OnesAddUpToTheNumberOfRanks) {
  const auto options = read({"-r3", "-d", GetParam(), "--check", "all_ones", "allr"});
  const ExpectedSum expected(options->series, 0, {0, 1, 2}, 0, 4);
  EXPECT_EQ(element_text(options->series.type, expected.golden(), 3), "3");
}

TEST(NccomElements, InputsDependOnSeedRankAndPositionAlone) {
  const auto options = read({"-r2", "-d", "fp32", "--check", "allr"});
  std::vector<std::byte> whole(400);
  std::vector<std::byte> part(100);
  fill_input(options->series, 3, 1, 0, whole);
  fill_input(options->series, 3, 1, 50, part);
  EXPECT_EQ(std::memcmp(whole.data() + 200, part.data(), 100), 0);
  fill_input(options->series, 3, 0, 50, part);
  EXPECT_NE(std::memcmp(whole.data() + 200, part.data(), 100), 0);
  fill_input(options->series, 4, 1, 50, part);
  EXPECT_NE(std::memcmp(whole.data() + 200, part.data(), 100), 0);
}

TEST(NccomElements, NegativeIntegersReadAsSuch) {
  const std::vector<std::byte> data = {std::byte{0xff}, std::byte{0x80}};
  EXPECT_EQ(element_text({"int8", 1}, data, 0), "-1");
  EXPECT_EQ(element_text({"int8", 1}, data, 1), "-128");
  EXPECT_EQ(element_text({"uint8", 1}, data, 0), "255");
}

}  // namespace
}  // namespace onrt::tools::nccom
