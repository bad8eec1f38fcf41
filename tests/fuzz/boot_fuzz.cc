// SPDX-License-Identifier: Apache-2.0
// What strangers and ranks send to the bootstrap. The first byte of an input chooses:
//   'h': bytes for a server's handshake     'c': bytes for a client's
//   's': (type u8, length u8, payload)*: sealed here, then what a root does with such frames
//   'a': text of a root address, a launcher's variables and a fingerprint, split at line ends
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "collectives/boot/exchange.h"
#include "collectives/boot/frame.h"
#include "collectives/boot/handshake.h"
#include "collectives/boot/messages.h"
#include "collectives/boot/rank_env.h"
#include "collectives/boot/root_address.h"
#include "collectives/boot/roster.h"

namespace onrt::cc {
namespace {

constexpr uint32_t kSize = 20;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void fuzz_handshake(ByteSpan bytes, bool as_server) {
  KeyRing keys;
  keys.local.emplace(bytes_of("secret"));
  KeyPolicy policy;
  policy.allow_public = true;
  Handshake handshake = as_server ? Handshake::server(keys, policy, Nonce{})
                                  : Handshake::client(keys, KeyKind::kLocal, Nonce{});
  if (!as_server) {
    static_cast<void>(handshake.start());
  }
  FrameReader reader;
  while (!bytes.empty()) {
    const size_t piece = std::min<size_t>(bytes.size(), 37);
    reader.feed(bytes.first(piece));
    bytes = bytes.subspan(piece);
    while (true) {
      auto frame = reader.next();
      if (!frame.ok()) {
        require(!frame.status().message().empty());
        return;
      }
      if (!*frame) {
        break;
      }
      if (!handshake.receive(**frame).ok()) {
        return;
      }
      // Nobody guesses a proof: only a public key can get this far.
      require(!handshake.done() || handshake.kind() == KeyKind::kPublic);
    }
  }
}

class Root {
 public:
  Root() : roster_(7, self()), table_(kSize) {}

  void take(FrameType type, ByteSpan payload) {
    const std::vector<std::byte> sealed = sealer_.seal(type, payload);
    reader_.feed(sealed);
    const auto frame = reader_.next();
    if (is_handshake(type)) {
      require(!frame.ok());
      broken_ = true;
      return;
    }
    require(frame.ok() && *frame);
    on_frame(**frame);
  }
  bool broken() const { return broken_; }

 private:
  static JoinMessage self() {
    JoinMessage join;
    join.size = kSize;
    join.fingerprint = {{"A", "1"}, {"B", ""}};
    return join;
  }
  void on_frame(const Frame& frame) {
    const ByteVector& payload = frame.payload;
    if (frame.type == FrameType::kJoin) {
      if (const auto join = JoinMessage::parse(payload)) {
        require(JoinMessage::parse(join->encode()).has_value());
        const auto verdict = roster_.admit(*join, "peer");
        require(!verdict.problem || !verdict.problem->text.empty());
        require(WelcomeMessage::parse(verdict.welcome.encode()).has_value());
      }
    } else if (frame.type == FrameType::kWelcome) {
      static_cast<void>(WelcomeMessage::parse(payload));
    } else if (frame.type == FrameType::kLink) {
      static_cast<void>(LinkMessage::parse(payload));
    } else if (frame.type == FrameType::kContribute) {
      on_contribute(payload);
    } else if (frame.type == FrameType::kResult) {
      if (const auto result = ResultMessage::parse(payload)) {
        static_cast<void>(unpack_payloads(result->bytes, kSize));
        static_cast<void>(parse_description(result->bytes, 2));
      }
    } else if (frame.type == FrameType::kAsk) {
      if (const auto ask = AskMessage::parse(payload)) {
        const auto missing = table_.missing(ask->id);
        require(rank_list(roster_.foremost(missing.value_or(std::vector<uint32_t>()))).size() <
                500);
      }
    } else if (frame.type == FrameType::kAbort) {
      if (const auto cause = parse_cause(payload)) {
        require(encode_cause(*cause) == payload);
      }
    } else if (frame.type == FrameType::kLeave) {
      if (const auto rank = parse_leave(payload)) {
        static_cast<void>(table_.leave(*rank));
      }
    }
  }
  void on_contribute(const ByteVector& payload) {
    const auto part = ContributeMessage::parse(payload);
    if (!part) {
      return;
    }
    require(part->encode() == payload);
    const auto outcome = table_.add(*part);
    require(!(outcome.problem && outcome.result));
    require(!outcome.result || table_.is_over(part->id));
  }

  HmacKey key_{bytes_of("key")};
  FrameSealer sealer_{key_};
  FrameReader reader_ = [this] {
    FrameReader reader;
    reader.use_key(key_);
    return reader;
  }();
  Roster roster_;
  ExchangeTable table_;
  bool broken_ = false;
};

void fuzz_root(ByteSpan bytes) {
  Root root;
  while (bytes.size() >= 2 && !root.broken()) {
    const auto type = static_cast<uint8_t>(bytes[0]) % kLastFrameType + 1;
    const size_t length = std::min(static_cast<size_t>(bytes[1]), bytes.size() - 2);
    root.take(static_cast<FrameType>(type), bytes.subspan(2, length));
    bytes = bytes.subspan(2 + length);
  }
}

void fuzz_text(std::string_view text) {
  std::map<std::string, std::string> variables;
  std::vector<FingerprintEntry> entries;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto address = parse_root_address(line, "VARIABLE");
    require(address.ok() || address.status().message().find('\n') == std::string_view::npos);
    require(!address.ok() || parse_root_address((*address).text(), "AGAIN").ok());
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) {
      variables[std::string(line.substr(0, equals))] = line.substr(equals + 1);
      entries.push_back(
          {std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
    }
  }
  const auto info = discover_rank([&](const char* name) -> const char* {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
  require(!info.ok() || !*info || (*info)->rank < (*info)->size);
  require(fingerprint_difference(0, entries, 1, entries).empty());
  static_cast<void>(fingerprint_difference(0, entries, 1, {}));
}

}  // namespace
}  // namespace onrt::cc

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const auto rest = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] == 'h' || data[0] == 'c') {
    onrt::cc::fuzz_handshake(rest, data[0] == 'h');
  } else if (data[0] == 's') {
    onrt::cc::fuzz_root(rest);
  } else if (data[0] == 'a') {
    onrt::cc::fuzz_text({reinterpret_cast<const char*>(rest.data()), rest.size()});
  }
  return 0;
}
