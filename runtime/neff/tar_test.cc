// SPDX-License-Identifier: Apache-2.0
// Layout by POSIX.1-2017 (pax); GNU tar itself reads our archives in tests/e2e/neff_packager.sh.
#include "runtime/neff/tar.h"

#include <gtest/gtest.h>

#include <string>

namespace onrt {
namespace {

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Sets the checksum after a field was changed.
std::string with_checksum(std::string header) {
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) {
    sum += static_cast<unsigned char>(header[i]);
  }
  char digits[8];
  snprintf(digits, sizeof(digits), "%06o", sum);
  header.replace(148, 7, digits, 7);
  return header;
}

std::string padded(std::string data) {
  data.resize((data.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  return data;
}

std::string member(const std::string& path, const std::string& data, char type = '0') {
  std::string header = make_tar_header(path, data.size());
  header[156] = type;
  return with_checksum(header) + padded(data);
}

std::string ended(const std::string& members) { return members + std::string(kTarEndBytes, '\0'); }

std::string failure(const std::string& archive) {
  const auto result = read_tar(bytes(archive));
  if (result.ok()) {
    return "";
  }
  EXPECT_EQ(result.status().code(), NRT_INVALID);
  return std::string(result.status().message());
}

TEST(Tar, ReadsFilesInOrderAndSkipsFolders) {
  const std::string archive = ended(member("sg00", "", '5') + member("./sg00/def.json", "{}") +
                                    member("b", std::string(513, 'x'), '\0') + member("c", ""));
  const auto members = read_tar(bytes(archive));
  ASSERT_TRUE(members.ok()) << members.status().message();
  ASSERT_EQ(members->size(), 3u);
  EXPECT_EQ((*members)[0].path, "sg00/def.json");
  EXPECT_EQ((*members)[0].data.size(), 2u);
  EXPECT_EQ((*members)[1].data.size(), 513u);
  EXPECT_TRUE((*members)[2].data.empty());
}

TEST(Tar, TakesLongPathsOfGnuAndPax) {
  const std::string path = std::string(120, 'd') + "/file";
  const std::string record = "path=" + path + "\n";
  const auto members = read_tar(
      bytes(ended(member("././@LongLink", path + '\0', 'L') + member("short", "1") +
                  member("PaxHeaders/x", std::to_string(record.size() + 4) + " " + record, 'x') +
                  member("short", "2") + member("plain", "3"))));
  ASSERT_TRUE(members.ok() == false);  // the same path twice
  const auto one = read_tar(
      bytes(ended(member("PaxHeaders/x", std::to_string(record.size() + 4) + " " + record, 'x') +
                  member("short", "2") + member("plain", "3"))));
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ((*one)[0].path, path);
  EXPECT_EQ((*one)[1].path, "plain");
}

TEST(Tar, RefusesPathsThatLeaveTheFolder) {
  for (const char* path : {"/etc/passwd", "../x", "a/../../x", "a/..", ".."}) {
    EXPECT_NE(failure(ended(member(path, "x"))), "") << path;
  }
  EXPECT_NE(failure(ended(member("a\nb", "x"))).find("control characters"), std::string::npos);
  EXPECT_NE(failure(ended(member(".", "x"))).find("without a name"), std::string::npos);
}

TEST(Tar, RefusesLinksDevicesAndDuplicates) {
  for (const char type : {'1', '2'}) {
    EXPECT_NE(failure(ended(member("a", "", type))).find("links"), std::string::npos);
  }
  for (const char type : {'3', '4', '6', 'S', '?'}) {
    EXPECT_NE(failure(ended(member("a", "", type))).find("not allowed"), std::string::npos);
  }
  EXPECT_NE(failure(ended(member("a", "1") + member("./a", "2"))).find("'a' is there twice"),
            std::string::npos);
}

TEST(Tar, RefusesSizesBeyondTheArchive) {
  std::string header = make_tar_header("a", 0);
  header.replace(124, 11, "77777777777");
  EXPECT_NE(failure(ended(with_checksum(header))).find("8589934591 bytes, but only 1024 follow"),
            std::string::npos);
  header.replace(124, 12, 12, '\xFF');  // base 256, overflows 64 bits
  EXPECT_NE(failure(ended(with_checksum(header))), "");
  const std::string pax = "30 size=18446744073709551616\n";
  EXPECT_NE(failure(ended(member("p", pax, 'x') + member("a", "x"))), "");
}

TEST(Tar, RefusesEveryTruncationAndEveryFlipOfAHeader) {
  const std::string archive = ended(member("a", "hello") + member("b", std::string(600, 'y')));
  for (size_t size = 0; size + kTarBlock < archive.size(); ++size) {
    EXPECT_NE(failure(archive.substr(0, size)), "") << size;
  }
  for (size_t at = 0; at < kTarBlock; ++at) {
    std::string damaged = archive;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    const bool unread = at == 148 + 7;  // behind the checksum's NUL
    EXPECT_EQ(failure(damaged).empty(), unread) << at;
  }
}

}  // namespace
}  // namespace onrt
