// SPDX-License-Identifier: Apache-2.0
// Offsets of header fields come from the table in the SDK documentation (see neff_format.h), not
// from the structure under test.
#include "runtime/neff/neff.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <random>
#include <string>

#include "runtime/base/digest.h"
#include "runtime/neff/tar.h"

namespace onrt {
namespace {

using Bytes = std::vector<std::byte>;

NeffPackage make_package() {
  NeffPackage package;
  package.name = "jit_add";
  package.architecture = "trn2";
  package.lnc_size = 2;
  package.compiler_version = "0.1.0";
  package.tensors = {
      {"input0", TensorUsage::kInput, Dtype::kF32, {2, 3}, 24, -1},
      {"input1", TensorUsage::kInput, Dtype::kBF16, {}, 2, -1},
      {"output0", TensorUsage::kOutput, Dtype::kF32, {2, 3}, 24, 0},
      {"empty", TensorUsage::kOutput, Dtype::kS32, {0, 7}, 0, -1},
  };
  NeffSubgraph subgraph{"sg00", Bytes(128 + 20000), 100, 128, 4096};
  for (size_t i = 0; i < subgraph.program.size(); ++i) {
    subgraph.program[i] = static_cast<std::byte>(i * i / 7);
  }
  package.subgraphs.push_back(std::move(subgraph));
  return package;
}

Bytes written(const NeffPackage& package, NeffCompression compression = NeffCompression::kGzip) {
  auto file = write_neff(package, compression);
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? std::move(file).value() : Bytes();
}

template <class T>
T field(const Bytes& file, size_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(value));
  return value;
}

template <class T>
void set_field(Bytes& file, size_t offset, T value) {
  std::memcpy(file.data() + offset, &value, sizeof(value));
}

int load(const Bytes& file, NeffHashCheck check = NeffHashCheck::kSkip) {
  return read_neff(file, check).status().code();
}

std::string message(const Bytes& file) {
  return std::string(read_neff(file, NeffHashCheck::kSkip).status().message());
}

TEST(Neff, ReadsBackWhatWasWritten) {
  const NeffPackage package = make_package();
  for (const auto compression : {NeffCompression::kGzip, NeffCompression::kNone}) {
    const auto result = read_neff(written(package, compression), NeffHashCheck::kRequire);
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->name, package.name);
    EXPECT_EQ(result->architecture, package.architecture);
    EXPECT_EQ(result->lnc_size, 2u);
    EXPECT_EQ(result->compiler_version, "0.1.0");
    ASSERT_EQ(result->tensors.size(), package.tensors.size());
    for (size_t i = 0; i < package.tensors.size(); ++i) {
      EXPECT_EQ(result->tensors[i].name, package.tensors[i].name);
      EXPECT_EQ(result->tensors[i].usage, package.tensors[i].usage);
      EXPECT_EQ(result->tensors[i].dtype, package.tensors[i].dtype);
      EXPECT_EQ(result->tensors[i].dims, package.tensors[i].dims);
      EXPECT_EQ(result->tensors[i].size_bytes, package.tensors[i].size_bytes);
      EXPECT_EQ(result->tensors[i].alias_of, package.tensors[i].alias_of);
    }
    ASSERT_EQ(result->subgraphs.size(), 1u);
    EXPECT_EQ(result->subgraphs[0].program, package.subgraphs[0].program);
    EXPECT_EQ(result->subgraphs[0].code_bytes, 100u);
    EXPECT_EQ(result->subgraphs[0].constants_offset, 128u);
    EXPECT_EQ(result->subgraphs[0].scratch_bytes, 4096u);
  }
}

TEST(Neff, HeaderFieldsLieWhereTheDocumentationSays) {
  const Bytes file = written(make_package());
  EXPECT_EQ(field<uint64_t>(file, 0x00), 2u);
  EXPECT_EQ(field<uint64_t>(file, 0x08), 1024u);
  EXPECT_EQ(field<uint64_t>(file, 0x10), file.size() - 1024);
  EXPECT_EQ(field<uint64_t>(file, 0x18), 2u);
  EXPECT_EQ(field<uint64_t>(file, 0x20), 0u);
  EXPECT_STREQ(reinterpret_cast<const char*>(file.data() + 0x28), "OpenNRT 0.1.0");
  EXPECT_EQ(field<uint32_t>(file, 0xA8), 2u);  // one subgraph on a logical core of two
  const auto hash = md5(std::span(file).subspan(1024));
  EXPECT_EQ(std::memcmp(file.data() + 0xAC, hash.data(), 16), 0);
  EXPECT_STREQ(reinterpret_cast<const char*>(file.data() + 0xDC), "jit_add");
  EXPECT_EQ(field<uint32_t>(file, 0x1DC), 2u);
  EXPECT_EQ(field<uint8_t>(file, 0x1E0), 2u);
  EXPECT_EQ(field<uint64_t>(file, 0x220), 0u);
  EXPECT_EQ(field<uint32_t>(file, 0x228), 2u);
  EXPECT_EQ(field<uint16_t>(file, 0x400), 0x8B1Fu);  // gzip
}

TEST(Neff, WritingIsDeterministicAndTheUuidFollowsTheContent) {
  const NeffPackage package = make_package();
  EXPECT_EQ(written(package), written(package));
  NeffPackage other = make_package();
  other.subgraphs[0].program[5] ^= std::byte{1};
  const auto one = read_neff(written(package), NeffHashCheck::kSkip);
  const auto plain = read_neff(written(package, NeffCompression::kNone), NeffHashCheck::kSkip);
  const auto two = read_neff(written(other), NeffHashCheck::kSkip);
  EXPECT_EQ(one->uuid, plain->uuid);
  EXPECT_NE(one->uuid, two->uuid);
}

TEST(Neff, EveryTruncationIsInvalid) {
  for (const auto compression : {NeffCompression::kGzip, NeffCompression::kNone}) {
    const Bytes file = written(make_package(), compression);
    for (size_t size = 0; size < file.size(); size += size < 1100 ? 1 : 61) {
      EXPECT_EQ(load(Bytes(file.begin(), file.begin() + static_cast<ptrdiff_t>(size))), NRT_INVALID)
          << size;
    }
  }
}

TEST(Neff, AFlippedHeaderBitNeverLoadsWithValidation) {
  for (const auto compression : {NeffCompression::kGzip, NeffCompression::kNone}) {
    const Bytes file = written(make_package(), compression);
    for (size_t bit = 0; bit < 8 * 1024; ++bit) {
      Bytes damaged = file;
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      const int code = load(damaged);
      const bool in_hash = bit / 8 >= 0xAC && bit / 8 < 0xCC;
      EXPECT_TRUE(code == NRT_INVALID || code == NRT_UNSUPPORTED_NEFF_VERSION ||
                  (in_hash && code == NRT_SUCCESS))
          << "bit " << bit << " gives " << code;
      EXPECT_NE(load(damaged, NeffHashCheck::kRequire), NRT_SUCCESS) << "bit " << bit;
    }
  }
}

TEST(Neff, AFlippedPayloadBitOfTheProgramIsFoundEvenWithoutValidation) {
  std::mt19937 random(7);
  for (const auto compression : {NeffCompression::kGzip, NeffCompression::kNone}) {
    const Bytes file = written(make_package(), compression);
    for (int i = 0; i < 300; ++i) {
      Bytes damaged = file;
      const size_t at = 1024 + random() % (file.size() - 1024);
      damaged[at] ^= static_cast<std::byte>(1 << random() % 8);
      const auto result = read_neff(damaged, NeffHashCheck::kSkip);
      if (result.ok()) {  // tar padding, or an unused byte of the gzip header
        EXPECT_EQ(result->subgraphs[0].program, make_package().subgraphs[0].program) << at;
      }
      EXPECT_EQ(load(damaged, NeffHashCheck::kRequire), NRT_INVALID) << at;
    }
  }
}

TEST(Neff, UnsupportedVersionAndFeaturesNameFoundAndSupported) {
  Bytes file = written(make_package());
  set_field<uint64_t>(file, 0x220, 0x100);
  EXPECT_EQ(load(file), NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_NE(message(file).find("found 0x100, supported are 0x0, unsupported: bit 8"),
            std::string::npos)
      << message(file);
  set_field<uint64_t>(file, 0x220, 0);
  set_field<uint64_t>(file, 0x18, 17);
  EXPECT_EQ(load(file), NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_NE(message(file).find("found 0x11.0x0, supported is 0x2.0x0"), std::string::npos);
  set_field<uint64_t>(file, 0x18, 2);
  set_field<uint64_t>(file, 0x00, 3);
  EXPECT_EQ(load(file), NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_NE(message(file).find("found 0x3"), std::string::npos);
}

TEST(Neff, HeaderOfOneFileAndPayloadOfAnotherDisagree) {
  NeffPackage other = make_package();
  other.name = "jit_mul";
  Bytes one = written(make_package());
  const Bytes two = written(other);
  ASSERT_EQ(one.size(), two.size());
  std::memcpy(one.data(), two.data(), 1024);
  EXPECT_EQ(load(one), NRT_INVALID);
  EXPECT_NE(message(one).find("disagree"), std::string::npos);
}

// A file as another compiler could have written it.
Bytes foreign(const std::string& payload, uint64_t package_version = 2) {
  Bytes file(1024);
  set_field<uint64_t>(file, 0x00, package_version);
  set_field<uint64_t>(file, 0x08, 1024);
  set_field<uint64_t>(file, 0x10, payload.size());
  set_field<uint64_t>(file, 0x18, 2);
  std::memcpy(file.data() + 0x28, "2.21.1.0", 9);
  const auto bytes = std::as_bytes(std::span(payload.data(), payload.size()));
  const auto hash = sha256(bytes);
  if (package_version == 1) {
    std::memcpy(file.data() + 0xAC, hash.data(), hash.size());
  }
  file.insert(file.end(), bytes.begin(), bytes.end());
  return file;
}

std::string tar_of(const std::string& path, const std::string& data) {
  std::string out = make_tar_header(path, data.size()) + data;
  out.resize(tar_member_bytes(data.size()) + kTarEndBytes);
  return out;
}

TEST(Neff, ANeffOfAnotherCompilerIsRefusedInPlainWordsAndCanBeInspected) {
  const Bytes file = foreign(tar_of("sg00/def.json", "{}"), 1);
  EXPECT_EQ(load(file, NeffHashCheck::kRequire), NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_NE(message(file).find("instruction encoding is not public"), std::string::npos);
  const auto archive = read_neff_archive(file);
  ASSERT_TRUE(archive.ok());
  EXPECT_TRUE(archive->hash_matches);
  EXPECT_FALSE(archive->compressed);
  EXPECT_EQ(archive->header.build_version, "2.21.1.0");
  ASSERT_EQ(archive->members.size(), 1u);
  EXPECT_EQ(archive->members[0].path, "sg00/def.json");
}

TEST(Neff, DataSizeMayCountTheHeader) {
  Bytes file = foreign(tar_of("a", "b"));
  set_field<uint64_t>(file, 0x10, file.size());
  EXPECT_TRUE(read_neff_archive(file).ok());
  set_field<uint64_t>(file, 0x10, file.size() + 1);
  EXPECT_EQ(read_neff_archive(file).status().code(), NRT_INVALID);
}

TEST(Neff, HonoursALongerHeader) {
  const std::string tar = tar_of("a", "b");
  Bytes file = foreign(std::string(64, '\0') + tar);
  set_field<uint64_t>(file, 0x08, 1024 + 64);
  set_field<uint64_t>(file, 0x10, tar.size());
  const auto archive = read_neff_archive(file);
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  EXPECT_EQ(archive->members[0].path, "a");
}

TEST(Neff, ABombIsRefusedWithItsLimit) {
  const std::string zeros(size_t{1} << 20, '\0');
  std::string piece(compressBound(zeros.size()) + 32, '\0');
  z_stream stream{};
  ASSERT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zeros.data()));
  stream.avail_in = static_cast<uInt>(zeros.size());
  stream.next_out = reinterpret_cast<Bytef*>(piece.data());
  stream.avail_out = static_cast<uInt>(piece.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  piece.resize(stream.total_out);
  deflateEnd(&stream);
  std::string small;  // 257 gzip members of 1 MiB each
  for (int i = 0; i < 257; ++i) {
    small += piece;
  }
  const Bytes file = foreign(small);
  EXPECT_EQ(load(file), NRT_INVALID);
  EXPECT_NE(message(file).find("expands to more than 268435456 (256 MiB)"), std::string::npos)
      << message(file);
}

TEST(Neff, ManifestMistakesAreNamed) {
  const std::string rest = R"("name":"m","architecture":"trn2","lnc_size":1,)"
                           R"("compiler_version":"","tensors":[],"subgraphs":[]})";
  const auto text = [](const std::string& manifest) {
    return message(foreign(tar_of("opennrt.json", manifest)));
  };
  EXPECT_NE(text("{").find("opennrt.json: JSON byte 1"), std::string::npos);
  EXPECT_NE(text("{\"schema\":2}").find("found schema 0x2, supported is 0x1"), std::string::npos);
  EXPECT_NE(text("{\"schema\":1,\"header_md5\":\"\"," + rest).find("disagree"), std::string::npos);
  EXPECT_NE(text("{\"schema\":1," + rest).find("'header_md5' is missing"), std::string::npos);
}

TEST(Neff, TheWriterRefusesPackagesThatNoReaderTakes) {
  const auto refused = [](void (*change)(NeffPackage&)) {
    NeffPackage package = make_package();
    change(package);
    const auto file = write_neff(package, NeffCompression::kNone);
    return file.ok() ? std::string("written") : std::string(file.status().message());
  };
  EXPECT_NE(refused([](NeffPackage& p) { p.tensors[1].name = "input0"; }).find("there twice"),
            std::string::npos);
  EXPECT_NE(refused([](NeffPackage& p) { p.tensors[0].size_bytes = 25; }).find("24 bytes"),
            std::string::npos);
  EXPECT_NE(refused([](NeffPackage& p) { p.tensors[2].alias_of = 3; }).find("alias_of 3"),
            std::string::npos);
  EXPECT_NE(refused([](NeffPackage& p) {
              p.tensors[0].dims = {1 << 30, 1 << 30, 1 << 30};
            }).find("impossible dimension"),
            std::string::npos);
  EXPECT_NE(
      refused([](NeffPackage& p) { p.subgraphs[0].constants_offset = 100; }).find("multiple of 64"),
      std::string::npos);
  EXPECT_NE(refused([](NeffPackage& p) { p.subgraphs.clear(); }).find("0 subgraphs"),
            std::string::npos);
  EXPECT_NE(refused([](NeffPackage& p) { p.tensors[0].name = "\xFF"; }).find("UTF-8"),
            std::string::npos);
}

}  // namespace
}  // namespace onrt
