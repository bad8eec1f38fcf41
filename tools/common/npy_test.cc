// SPDX-License-Identifier: Apache-2.0
// Headers below are what numpy 1.26 writes; tests/tools/neuron_bench.sh lets numpy itself read and
// write the files.
#include "tools/common/npy.h"

#include <gtest/gtest.h>

namespace onrt::tools {
namespace {

std::vector<std::byte> bytes(std::string_view text) {
  const auto view = std::as_bytes(std::span(text.data(), text.size()));
  return {view.begin(), view.end()};
}

std::string npy(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         data;
}

std::string failure(const std::string& file) {
  const auto array = parse_npy(bytes(file));
  return array.ok() ? "" : std::string(array.status().message());
}

TEST(Npy, ReadsWhatNumpyWrites) {
  const auto array = parse_npy(bytes(
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", std::string(24, 'x'))));
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->type, "<f4");
  EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(array->data.size(), 24u);
  const auto scalar =
      parse_npy(bytes(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", "x")));
  ASSERT_TRUE(scalar.ok()) << scalar.status().message();
  EXPECT_TRUE(scalar->shape.empty());
}

TEST(Npy, RefusesWithAReason) {
  const auto header = [](const char* type, const char* order, const char* shape) {
    return std::string("{'descr': ") + type + ", 'fortran_order': " + order +
           ", 'shape': " + shape + ", }\n";
  };
  const std::string four(4, 'x');
  EXPECT_NE(failure("PK").find("magic"), std::string::npos);
  EXPECT_NE(failure(npy(header("'>f4'", "False", "(1,)"), four)).find("big-endian"),
            std::string::npos);
  EXPECT_NE(failure(npy(header("'|O'", "False", "(1,)"), four)).find("not a number"),
            std::string::npos);
  EXPECT_NE(failure(npy(header("[('a', '<f4')]", "False", "(1,)"), four)).find("structured"),
            std::string::npos);
  EXPECT_NE(failure(npy(header("'<f4'", "True", "(1, 1)"), four)).find("Fortran"),
            std::string::npos);
  EXPECT_NE(failure(npy(header("'<f4'", "False", "(2,)"), four)).find("takes 8 bytes, but 4"),
            std::string::npos);
  EXPECT_NE(failure(npy(header("'<f4'", "False", "(-1,)"), four)), "");
  EXPECT_NE(failure(npy(header("'<f4'", "False", "(4294967296, 4294967296, 4294967296)"), four))
                .find("too large"),
            std::string::npos);
  EXPECT_NE(failure(npy("{'descr': '<f4'}", four)).find("lacks"), std::string::npos);
  const std::string whole = npy(header("'<f4'", "False", "(1,)"), four);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(failure(whole.substr(0, size)), "") << size;
  }
}

std::vector<NamedArray> samples() {
  return {{"a", {"<f4", {2, 2}, std::vector<std::byte>(16, std::byte{1})}},
          {"empty", {"|u1", {0, 5}, {}}},
          {"scalar", {"<i8", {}, std::vector<std::byte>(8, std::byte{2})}},
          {"line", {"<V2", {3}, std::vector<std::byte>(6, std::byte{3})}}};
}

TEST(Npz, ReadsBackWhatWasWritten) {
  const auto arrays = parse_npz(make_npz(samples()));
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  ASSERT_EQ(arrays->size(), samples().size());
  for (size_t i = 0; i < samples().size(); ++i) {
    EXPECT_EQ((*arrays)[i].first, samples()[i].first);
    EXPECT_EQ((*arrays)[i].second.type, samples()[i].second.type);
    EXPECT_EQ((*arrays)[i].second.shape, samples()[i].second.shape);
    EXPECT_EQ((*arrays)[i].second.data, samples()[i].second.data);
  }
  EXPECT_TRUE(parse_npz(make_npz({})).ok());
}

TEST(Npz, RefusesEveryTruncationAndSurvivesEveryFlip) {
  const std::vector<std::byte> file = make_npz(samples());
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(parse_npz(std::span(file).first(size)).ok()) << size;
  }
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::vector<std::byte> damaged = file;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const auto arrays = parse_npz(damaged);  // dates, attributes and versions aren't looked at
    if (arrays.ok()) {
      for (size_t i = 0; i < arrays->size(); ++i) {
        EXPECT_EQ((*arrays)[i].second.data, samples()[i].second.data) << "bit " << bit;
      }
    }
  }
}

}  // namespace
}  // namespace onrt::tools
