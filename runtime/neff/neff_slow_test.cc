// SPDX-License-Identifier: Apache-2.0
// What needs hundreds of megabytes (label slow).
#include <gtest/gtest.h>

#include "runtime/neff/neff.h"

namespace onrt {
namespace {

TEST(Neff, ConstantsThatCompressBetterThanTheLimitAreStillReadable) {
  NeffPackage package;
  package.name = "zeros";
  package.architecture = "trn2";
  NeffSubgraph subgraph{"sg00", std::vector<std::byte>(size_t{257} << 20), 64, 64, 0};
  package.subgraphs.push_back(std::move(subgraph));
  const auto file = write_neff(package, NeffCompression::kGzip);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto back = read_neff(*file, NeffHashCheck::kRequire);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->subgraphs[0].program.size(), package.subgraphs[0].program.size());
}

}  // namespace
}  // namespace onrt
