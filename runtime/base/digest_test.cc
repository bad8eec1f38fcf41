// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/digest.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace onrt {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

struct Vector {
  std::string_view text;
  std::string_view hex;
};

// RFC 1321, appendix A.5.
constexpr Vector kMd5Vectors[] = {
    {"", "d41d8cd98f00b204e9800998ecf8427e"},
    {"a", "0cc175b9c0f1b6a831c399e269772661"},
    {"abc", "900150983cd24fb0d6963f7d28e17f72"},
    {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
    {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
     "d174ab98d277d9f5a5611c2c9f419d9f"},
    {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
     "57edf4a22be3c955ac49da2e2107b67a"},
};

// FIPS 180-2, appendix B (examples of SHA-256), and the digest of the empty message.
constexpr Vector kSha256Vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

TEST(Digest, Md5MatchesTheVectorsOfRfc1321) {
  for (const Vector& vector : kMd5Vectors) {
    EXPECT_EQ(to_hex(md5(bytes(vector.text))), vector.hex) << vector.text;
  }
}

TEST(Digest, Sha256MatchesTheVectorsOfFips180) {
  for (const Vector& vector : kSha256Vectors) {
    EXPECT_EQ(to_hex(sha256(bytes(vector.text))), vector.hex) << vector.text;
  }
  // FIPS 180-2, B.3: one million letters "a".
  EXPECT_EQ(to_hex(sha256(bytes(std::string(1000000, 'a')))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Digest, PiecesOfAnySizeGiveTheDigestOfTheWhole) {
  std::string text;
  for (int i = 0; i < 500; ++i) {
    text += static_cast<char>(i * 7);
  }
  for (size_t piece = 1; piece < 200; piece += 3) {
    Md5 one;
    Sha256 two;
    for (size_t at = 0; at < text.size(); at += piece) {
      one.update(bytes(std::string_view(text).substr(at, piece)));
      two.update(bytes(std::string_view(text).substr(at, piece)));
    }
    EXPECT_EQ(one.finish(), md5(bytes(text))) << piece;
    EXPECT_EQ(two.finish(), sha256(bytes(text))) << piece;
  }
}

}  // namespace
}  // namespace onrt
