// SPDX-License-Identifier: Apache-2.0
// The oracle is written here, element by element from the definition; conversions of the small
// floats are those of runtime/base/small_float.h, which has its own tests against ml_dtypes.
#include "collectives/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "runtime/base/small_float.h"

namespace onrt::cc {
namespace {

constexpr Dtype kFloats[] = {Dtype::kF32,    Dtype::kF64,    Dtype::kBF16,    Dtype::kF16,
                             Dtype::kF8E5M2, Dtype::kF8E4M3, Dtype::kF8E4M3FN};
constexpr Dtype kIntegers[] = {Dtype::kS8, Dtype::kS16, Dtype::kS32, Dtype::kS64,
                               Dtype::kU8, Dtype::kU16, Dtype::kU32, Dtype::kU64};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProd,
                             ReduceOp::kAvg};

double decode(Dtype dtype, const std::byte* at) {
  uint16_t half = 0;
  uint8_t byte = 0;
  float f = 0;
  double d = 0;
  std::memcpy(&byte, at, 1);
  switch (dtype) {
    case Dtype::kF32:
      std::memcpy(&f, at, 4);
      return f;
    case Dtype::kF64:
      std::memcpy(&d, at, 8);
      return d;
    case Dtype::kBF16:
      std::memcpy(&half, at, 2);
      return Bf16::to_f32(half);
    case Dtype::kF16:
      std::memcpy(&half, at, 2);
      return F16::to_f32(half);
    case Dtype::kF8E5M2:
      return F8E5M2::to_f32(byte);
    case Dtype::kF8E4M3:
      return F8E4M3::to_f32(byte);
    default:
      return F8E4M3Fn::to_f32(byte);
  }
}

void encode(Dtype dtype, double value, std::byte* at) {
  const auto f = static_cast<float>(value);
  const auto put = [&](auto bits) { std::memcpy(at, &bits, sizeof(bits)); };
  switch (dtype) {
    case Dtype::kF32:
      return put(std::isnan(f) ? std::bit_cast<float>(0x7fc00000u) : f);
    case Dtype::kF64:
      return put(std::isnan(value) ? std::bit_cast<double>(0x7ff8000000000000ull) : value);
    case Dtype::kBF16:
      return put(Bf16::from_f32(std::isnan(f) ? std::bit_cast<float>(0x7fc00000u) : f));
    case Dtype::kF16:
      return put(F16::from_f32(std::isnan(f) ? std::bit_cast<float>(0x7fc00000u) : f));
    case Dtype::kF8E5M2:
      return put(F8E5M2::from_f32(std::isnan(f) ? std::bit_cast<float>(0x7fc00000u) : f));
    case Dtype::kF8E4M3:
      return put(F8E4M3::from_f32(std::isnan(f) ? std::bit_cast<float>(0x7fc00000u) : f));
    default:
      return put(F8E4M3Fn::from_f32(std::isnan(f) ? std::bit_cast<float>(0x7fc00000u) : f));
  }
}

// One accumulation in the accumulator's type.
double fold_float(Dtype dtype, ReduceOp op, double a, double b) {
  const auto in_type = [&](double exact) {
    return dtype == Dtype::kF64 ? exact : static_cast<double>(static_cast<float>(exact));
  };
  switch (op) {
    case ReduceOp::kMin:
      return std::isnan(a) || a < b ? a : b;
    case ReduceOp::kMax:
      return std::isnan(a) || a > b ? a : b;
    case ReduceOp::kProd:
      return in_type(a * b);  // exact in double before: f32 products have 48 bits
    default:
      return in_type(a + b);  // and sums of two f32 round to f32 as if computed exactly
  }
}

template <class T>
T fold_integer(ReduceOp op, T a, T b) {
  using U = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
  switch (op) {
    case ReduceOp::kMin:
      return a < b ? a : b;
    case ReduceOp::kMax:
      return a > b ? a : b;
    case ReduceOp::kProd:
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    default:
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
}

template <class T>
void oracle_integer(ReduceOp op, const std::vector<std::vector<std::byte>>& inputs, size_t i,
                    std::byte* out) {
  T value = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    T x;
    std::memcpy(&x, inputs[k].data() + i * sizeof(T), sizeof(T));
    value = k == 0 ? x : fold_integer<T>(op, value, x);
  }
  if (op == ReduceOp::kAvg) {
    value = static_cast<T>(value / static_cast<T>(inputs.size()));
  }
  std::memcpy(out, &value, sizeof(T));
}

void oracle_float(Dtype dtype, ReduceOp op, const std::vector<std::vector<std::byte>>& inputs,
                  size_t i, std::byte* out) {
  const size_t bytes = dtype_bytes(dtype);
  double value = decode(dtype, inputs[0].data() + i * bytes);
  for (size_t k = 1; k < inputs.size(); ++k) {
    value = fold_float(dtype, op, value, decode(dtype, inputs[k].data() + i * bytes));
  }
  if (op == ReduceOp::kAvg) {
    value /= static_cast<double>(inputs.size());
    value = dtype == Dtype::kF64 ? value : static_cast<float>(value);
  }
  encode(dtype, value, out);
}

std::vector<std::byte> oracle(Dtype dtype, ReduceOp op,
                              const std::vector<std::vector<std::byte>>& inputs) {
  const size_t bytes = dtype_bytes(dtype);
  std::vector<std::byte> out(inputs[0].size());
  for (size_t i = 0; i < out.size() / bytes; ++i) {
    std::byte* at = out.data() + i * bytes;
    switch (dtype) {
      case Dtype::kS8:
        oracle_integer<int8_t>(op, inputs, i, at);
        break;
      case Dtype::kS16:
        oracle_integer<int16_t>(op, inputs, i, at);
        break;
      case Dtype::kS32:
        oracle_integer<int32_t>(op, inputs, i, at);
        break;
      case Dtype::kS64:
        oracle_integer<int64_t>(op, inputs, i, at);
        break;
      case Dtype::kU8:
        oracle_integer<uint8_t>(op, inputs, i, at);
        break;
      case Dtype::kU16:
        oracle_integer<uint16_t>(op, inputs, i, at);
        break;
      case Dtype::kU32:
        oracle_integer<uint32_t>(op, inputs, i, at);
        break;
      case Dtype::kU64:
        oracle_integer<uint64_t>(op, inputs, i, at);
        break;
      default:
        oracle_float(dtype, op, inputs, i, at);
    }
  }
  return out;
}

std::vector<std::byte> random_bytes(std::mt19937& random, size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::byte& b : out) {
    b = static_cast<std::byte>(random());
  }
  return out;
}

std::vector<std::byte> run(Dtype dtype, ReduceOp op,
                           const std::vector<std::vector<std::byte>>& inputs, ReduceLevel level,
                           size_t outputs) {
  std::vector<ReduceInput> in;
  for (const auto& input : inputs) {
    in.push_back({input.data(), false});
  }
  std::vector<std::vector<std::byte>> results(outputs, std::vector<std::byte>(inputs[0].size()));
  std::vector<ReduceOutput> out;
  for (auto& result : results) {
    out.push_back({result.data(), false});
  }
  reduce({dtype, op, static_cast<uint32_t>(inputs.size())}, in, out,
         inputs[0].size() / dtype_bytes(dtype), level);
  for (const auto& result : results) {
    EXPECT_EQ(result, results[0]);
  }
  return results[0];
}

TEST(Reduce, EqualsTheDefinitionForEveryTypeOperationInputCountAndLevel) {
  std::mt19937 random(7);
  std::vector<Dtype> dtypes(std::begin(kFloats), std::end(kFloats));
  dtypes.insert(dtypes.end(), std::begin(kIntegers), std::end(kIntegers));
  for (const Dtype dtype : dtypes) {
    for (const ReduceOp op : kOps) {
      for (const size_t inputs : {size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{7}}) {
        const size_t count = 1 + random() % 1500;
        std::vector<std::vector<std::byte>> in;
        for (size_t k = 0; k < inputs; ++k) {
          in.push_back(random_bytes(random, count * dtype_bytes(dtype)));
        }
        const auto expected = oracle(dtype, op, in);
        for (const ReduceLevel level : compiled_reduce_levels()) {
          if (reduce_level_runs_here(level)) {
            ASSERT_EQ(run(dtype, op, in, level, 1 + inputs % 3), expected)
                << dtype_name(dtype) << " " << reduce_op_name(op) << " " << inputs << " inputs, "
                << count << " elements, level " << static_cast<int>(level);
          }
        }
      }
    }
  }
}

TEST(Reduce, CoversEveryPairOfEightBitFloats) {
  std::vector<std::byte> a(65536);
  std::vector<std::byte> b(65536);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::byte>(i & 255u);
    b[i] = static_cast<std::byte>(i >> 8);
  }
  for (const Dtype dtype : {Dtype::kF8E5M2, Dtype::kF8E4M3, Dtype::kF8E4M3FN}) {
    for (const ReduceOp op : kOps) {
      EXPECT_EQ(run(dtype, op, {a, b}, detect_reduce_level(), 1), oracle(dtype, op, {a, b}))
          << dtype_name(dtype) << " " << reduce_op_name(op);
    }
  }
}

TEST(Reduce, RoundsManyBf16AddendsOnce) {
  // 256 + 1 + 1 + 1: bf16 has 8 bits, so chained bf16 additions stay at 256; 259 rounds to 260.
  std::vector<uint16_t> values = {Bf16::from_f32(256), Bf16::from_f32(1), Bf16::from_f32(1),
                                  Bf16::from_f32(1)};
  std::vector<ReduceInput> in;
  for (const uint16_t& value : values) {
    in.push_back({&value, false});
  }
  uint16_t result = 0;
  const ReduceOutput out{&result, false};
  reduce({Dtype::kBF16, ReduceOp::kSum, 4}, in, {&out, 1}, 1);
  EXPECT_EQ(Bf16::to_f32(result), 260.0f);
}

TEST(Reduce, AccumulatorsCarryWhatRoundingWouldLose) {
  const uint16_t big = Bf16::from_f32(256);
  const uint16_t one = Bf16::from_f32(1);
  float partial = 0;
  uint16_t result = 0;
  const ReduceInput first[] = {{&big, false}, {&one, false}};
  const ReduceOutput kept{&partial, true};
  reduce({Dtype::kBF16, ReduceOp::kAvg, 4}, first, {&kept, 1}, 1);
  EXPECT_EQ(partial, 257.0f);  // neither rounded nor divided
  const ReduceInput second[] = {{&partial, true}, {&one, false}, {&one, false}};
  const ReduceOutput out{&result, false};
  reduce({Dtype::kBF16, ReduceOp::kAvg, 4}, second, {&out, 1}, 1);
  EXPECT_EQ(Bf16::to_f32(result), Bf16::to_f32(Bf16::from_f32(259.0f / 4)));
}

TEST(Reduce, WritesAnOutputThatIsAnInput) {
  for (const size_t inputs : {size_t{2}, size_t{3}}) {
    std::vector<std::vector<float>> data(inputs, std::vector<float>(5000, 1.5f));
    std::vector<ReduceInput> in;
    std::vector<ReduceOutput> out;
    for (auto& row : data) {
      in.push_back({row.data(), false});
      out.push_back({row.data(), false});
    }
    for (const bool stream : {false, true}) {
      out.front().stream = stream;
      for (auto& row : data) {
        std::fill(row.begin(), row.end(), 1.5f);
      }
      reduce({Dtype::kF32, ReduceOp::kSum, 1}, in, out, 5000);
      for (const auto& row : data) {
        EXPECT_EQ(row, std::vector<float>(5000, 1.5f * static_cast<float>(inputs)));
      }
    }
  }
}

TEST(CopyBytes, CopiesEverySizeAndAlignment) {
  std::mt19937 random(3);
  const auto source = random_bytes(random, 9000);
  for (const size_t bytes : {0ul, 1ul, 63ul, 4096ul, 4097ul, 8191ul}) {
    for (const size_t shift : {0ul, 1ul, 15ul, 33ul}) {
      std::vector<std::byte> target(9000);
      copy_bytes(target.data() + shift, source.data(), bytes, true);
      EXPECT_EQ(std::memcmp(target.data() + shift, source.data(), bytes), 0);
    }
  }
}

}  // namespace
}  // namespace onrt::cc
