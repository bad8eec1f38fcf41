// SPDX-License-Identifier: Apache-2.0
// Random numbers. Bit generators follow XLA's rng-bit-generator bit for bit (rng_test.cc has values
// from JAX); HLO rng draws from Philox keyed by the instruction's seed and the execution's number.
//
// Philox4x32-10 and Threefry2x32-20: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
// as 1, 2, 3" (SC11).
#include <array>
#include <cstring>

#include "emulator/exec/block_io.h"
#include "emulator/exec/executor.h"
#include "emulator/isa/scalar_ops.h"
#include "emulator/isa/scalar_value.h"

namespace onrt {
namespace {

using ncx::RngKind;

using Words4 = std::array<uint32_t, 4>;

Words4 philox(uint64_t key, uint64_t low, uint64_t high) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  Words4 c = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
              static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(c[0]) * 0xD2511F53u;
    const uint64_t p1 = static_cast<uint64_t>(c[2]) * 0xCD9E8D57u;
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

std::array<uint32_t, 2> threefry(uint64_t key, uint64_t counter) {
  const uint32_t k0 = static_cast<uint32_t>(key);
  const uint32_t k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  uint32_t x0 = static_cast<uint32_t>(counter) + keys[0];
  uint32_t x1 = static_cast<uint32_t>(counter >> 32) + keys[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      x0 += x1;
      x1 = ((x1 << rotation) | (x1 >> (32 - rotation))) ^ x0;
    }
    x0 += keys[(group + 1) % 3];
    x1 += keys[(group + 2) % 3] + group + 1;
  }
  return {x0, x1};
}

// Where XLA puts the two words of a Threefry block: it halves one dimension of the shape, the first
// even one or else the longest (padded), and the words of a block are neighbours along it.
struct ThreefryShape {
  explicit ThreefryShape(std::span<const int64_t> dims) {
    size_t split = 0;
    bool even = false;
    for (size_t d = 0; d < dims.size() && !even; ++d) {
      if (dims[d] % 2 == 0) {
        split = d;
        even = true;
      } else if (dims[d] > dims[split]) {
        split = d;
      }
    }
    for (size_t d = 0; d < dims.size(); ++d) {
      if (d == split) {
        size = dims[d];
      } else {
        (d < split ? outer : inner) *= dims[d];
      }
    }
  }
  int64_t blocks() const { return outer * ((size + 1) / 2) * inner; }
  // Block of element `at`, row-major; *word is 0 or 1.
  int64_t block_of(int64_t at, int* word) const {
    const int64_t i = at % inner;
    const int64_t d = at / inner % size;
    *word = static_cast<int>(d % 2);
    return (at / inner / size * ((size + 1) / 2) + d / 2) * inner + i;
  }
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};

uint64_t mix(uint64_t x) {  // splitmix64's finaliser
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Bits that a uniform value of the type can have in [0, 1).
int uniform_bits(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 11;
    case Dtype::kBF16:
      return 8;
    case Dtype::kF8E5M2:
      return 3;
    case Dtype::kF8E4M3:
    case Dtype::kF8E4M3FN:
      return 4;
    default:
      return 24;
  }
}

float float_of(ncx::Boxed value) { return ncx::bits_float(static_cast<uint32_t>(value)); }

// The state of one execution.
struct Stream {
  RngKind kind;
  Dtype dtype;
  uint64_t key = 0;
  uint64_t low = 0;
  uint64_t high = 0;
  ncx::Boxed a = 0;
  ncx::Boxed b = 0;

  Words4 philox_block(uint64_t index) const {
    const uint64_t sum = low + index;
    return philox(key, sum, high + (sum < low ? 1 : 0));
  }
};

ncx::Boxed philox_bits(const Stream& s, int64_t at) {
  const bool wide = dtype_bytes(s.dtype) == 8;
  const auto first = static_cast<uint64_t>(at) * (wide ? 2 : 1);
  const Words4 words = s.philox_block(first / 4);
  const size_t w = first % 4;
  const uint64_t bits = words[w] | (wide ? static_cast<uint64_t>(words[w + 1]) << 32 : 0);
  return ncx::box_bits(s.dtype, bits);
}

ncx::Boxed threefry_bits(const Stream& s, const ThreefryShape& shape, int64_t at) {
  if (dtype_bytes(s.dtype) == 8) {
    const auto words = threefry(s.key, s.low + static_cast<uint64_t>(at));
    return ncx::box_bits(s.dtype, words[0] | static_cast<uint64_t>(words[1]) << 32);
  }
  int word = 0;
  const int64_t block = shape.block_of(at, &word);
  return ncx::box_bits(
      s.dtype, threefry(s.key, s.low + static_cast<uint64_t>(block))[static_cast<size_t>(word)]);
}

ncx::Boxed uniform(const Stream& s, int64_t at) {
  const Words4 words = s.philox_block(static_cast<uint64_t>(at));
  if (is_floating(s.dtype)) {
    const int bits = uniform_bits(s.dtype);
    const float unit = static_cast<float>(words[0] >> (32 - bits)) *
                       ncx::bits_float(static_cast<uint32_t>(127 - bits) << 23);
    const float low = float_of(s.a);
    const float high = float_of(s.b);
    const float value =
        float_of(ncx::settle_boxed(s.dtype, ncx::float_bits(low + (high - low) * unit)));
    return value >= high ? s.a : ncx::float_bits(value);  // rounded up to the excluded end
  }
  __extension__ using Wide = unsigned __int128;
  const uint64_t range = s.b - s.a;
  const uint64_t draw = words[0] | static_cast<uint64_t>(words[1]) << 32;
  const bool empty = is_signed_integer(s.dtype)
                         ? static_cast<int64_t>(s.b) <= static_cast<int64_t>(s.a)
                         : s.b <= s.a;
  const uint64_t offset = static_cast<uint64_t>((static_cast<Wide>(draw) * range) >> 64);
  return empty ? s.a : ncx::settle_boxed(s.dtype, s.a + offset);
}

// Box & Muller: two normal values from two uniform ones.
ncx::Boxed normal(const Stream& s, int64_t at) {
  const Words4 words = s.philox_block(static_cast<uint64_t>(at / 2));
  const float u = static_cast<float>((words[0] >> 8) + 1) * 0x1p-24f;  // in (0, 1]
  const float angle = static_cast<float>(words[1] >> 8) * 0x1p-24f * 6.28318530718f;
  const float radius = ncx::square_root(-2.0f * ncx::log_f32(u));
  const float z = radius * (at % 2 == 0 ? ncx::trigonometric_f32<ncx::Trigonometric::kCos>(angle)
                                        : ncx::trigonometric_f32<ncx::Trigonometric::kSin>(angle));
  return ncx::settle_boxed(s.dtype, ncx::float_bits(float_of(s.a) + float_of(s.b) * z));
}

LoopNest nest_of(const ncx::View& output) {
  const Strides strides[] = {output.strides};
  return make_nest({output.dims.data(), output.rank}, strides, LoopOrder::kKept);
}

class RngExecutor final : public Executor {
 public:
  RngExecutor(const ncx::Rng& op, const ExecutorOptions& options)
      : kernels_(*options.kernels),
        op_(op),
        shape_({op.output.dims.data(), op.output.rank}),
        walk_(nest_of(op.output)) {}

  Status execute(const ExecContext& context) const override {
    Stream stream{op_.kind, op_.output.dtype};
    if (op_.kind == RngKind::kUniform || op_.kind == RngKind::kNormal) {
      stream.key = mix(op_.seed) ^ mix(context.sequence + 0x632be59bd9b4e019ull);
      stream.a = ncx::load_boxed(op_.a.dtype, context.at(op_.a));
      stream.b = ncx::load_boxed(op_.b.dtype, context.at(op_.b));
    } else {
      advance_state(context, stream);
    }
    if (walk_.nest().elements == 0) {
      return ok_status();
    }
    return for_units(context, walk_.units(), kBlock * 16, [&](int64_t first, int64_t last) {
      std::byte* arena = thread_arena(kBufferStride);
      if (arena == nullptr) {
        return false;
      }
      BlockCursor cursor(walk_);
      for (int64_t unit = first; unit < last; ++unit) {
        cursor.seek(unit);
        draw(stream, cursor, arena);
        cursor.store(0, context.at(op_.output), kernels_, op_.output.dtype, arena);
      }
      return true;
    });
  }

 private:
  uint64_t word(const ExecContext& context, const ncx::View& view, int64_t index) const {
    uint64_t value = 0;
    std::memcpy(&value, context.at(view) + index * view.strides[0] * 8, sizeof(value));
    return value;
  }

  // Reads the state, then writes the one for the next call. u64[2]: key, counter (Philox has the
  // key again as the counter's high half); u64[3]: key, counter low, counter high.
  void advance_state(const ExecContext& context, Stream& stream) const {
    const bool long_state = op_.state.dims[0] == 3;
    stream.key = word(context, op_.state, 0);
    stream.low = word(context, op_.state, 1);
    stream.high = long_state ? word(context, op_.state, 2) : stream.key;
    const auto elements = static_cast<uint64_t>(walk_.nest().elements);
    const bool wide = dtype_bytes(op_.output.dtype) == 8;
    uint64_t blocks = wide ? elements : static_cast<uint64_t>(shape_.blocks());
    if (op_.kind == RngKind::kPhilox) {
      blocks = (elements * (wide ? 2 : 1) + 3) / 4;
    }
    const uint64_t low = stream.low + blocks;
    const uint64_t next[3] = {stream.key, low, stream.high + (low < stream.low ? 1 : 0)};
    for (int64_t i = 0; i < op_.state.dims[0]; ++i) {
      std::memcpy(context.at(op_.state_out) + i * op_.state_out.strides[0] * 8, &next[i],
                  sizeof(uint64_t));
    }
  }

  void draw(const Stream& stream, const BlockCursor& cursor, std::byte* out) const {
    const size_t width = register_bytes(ncx::register_class(stream.dtype));
    for (size_t i = 0; i < cursor.size(); ++i) {
      const int64_t at = cursor.linear() + static_cast<int64_t>(i);
      ncx::Boxed value = 0;
      switch (stream.kind) {
        case RngKind::kThreeFry:
          value = threefry_bits(stream, shape_, at);
          break;
        case RngKind::kPhilox:
          value = philox_bits(stream, at);
          break;
        case RngKind::kUniform:
          value = uniform(stream, at);
          break;
        case RngKind::kNormal:
          value = normal(stream, at);
          break;
      }
      std::memcpy(out + i * width, &value, width);
    }
  }

  const KernelTable& kernels_;
  ncx::Rng op_;
  ThreefryShape shape_;
  BlockWalk walk_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const ncx::Rng& op, const ExecutorOptions& options) {
  return std::make_unique<RngExecutor>(op, options);
}

}  // namespace onrt
