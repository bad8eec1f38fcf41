// SPDX-License-Identifier: Apache-2.0
// Whole operations over shared memory, with real processes. Expected values are computed here from
// the definition of each operation.
#include "collectives/api/job.h"

#include <gtest/gtest.h>

#include "collectives/api/testing/processes.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

using testing::Process;
using testing::run_job;

std::string said(const Status& status) {
  return status.ok() ? "ok" : format("{}: {}", static_cast<int>(status.code()), status.message());
}

float* floats(const LocalBuffer& buffer) { return reinterpret_cast<float*>(buffer.data); }

Call all_reduce(const LocalBuffer& in, const LocalBuffer& out, uint64_t count) {
  Call call;
  call.op = Op::kAllReduce;
  call.dtype = Dtype::kF32;
  call.count = count;
  call.in = in;
  call.out = out;
  return call;
}

std::string sum_in(Process& p, const LocalBuffer& in, const LocalBuffer& out, uint64_t count) {
  const auto n = static_cast<float>(p.job.size());
  for (int round = 0; round < 5; ++round) {
    for (uint64_t i = 0; i < count; ++i) {
      floats(in)[i] = static_cast<float>(p.job.rank() + 1) + static_cast<float>(i % 7);
    }
    const Status status = p.world.run(all_reduce(in, out, count));
    if (!status.ok()) {
      return said(status);
    }
    for (uint64_t i = 0; i < count; ++i) {
      const float expected = n * (n + 1) / 2 + n * static_cast<float>(i % 7);
      if (floats(out)[i] != expected) {
        return format("round {}, element {}: expected {}, found {}", round, i, expected,
                      floats(out)[i]);
      }
    }
  }
  return "ok";
}

TEST(Job, SumsSharedBuffersDirectly) {
  for (const int size : {1, 2, 3}) {
    EXPECT_EQ(run_job(
                  size,
                  [](Process& p) {
                    for (const uint64_t count : {1ul, 2ul, 1000ul, 65537ul}) {
                      std::string result =
                          sum_in(p, p.pool.at(0, count * 4), p.pool.at(1 << 20, count * 4), count);
                      if (result == "ok") {
                        result = sum_in(p, p.pool.at(0, count * 4), p.pool.at(0, count * 4), count);
                      }
                      if (result != "ok") {
                        return result;
                      }
                    }
                    return std::string("ok");
                  },
                  2 << 20),
              "ok");
  }
}

TEST(Job, SumsPrivateBuffersThroughStaging) {
  for (const int size : {2, 3}) {
    EXPECT_EQ(
        run_job(size,
                [](Process& p) {
                  for (const uint64_t count : {1ul, 1000ul, 300001ul}) {
                    std::vector<float> in(count);
                    std::vector<float> out(count);
                    const LocalBuffer a{reinterpret_cast<std::byte*>(in.data()), count * 4, {}};
                    const LocalBuffer b{reinterpret_cast<std::byte*>(out.data()), count * 4, {}};
                    std::string result = sum_in(p, a, b, count);
                    result = result == "ok" ? sum_in(p, a, a, count) : result;
                    if (result != "ok") {
                      return result;
                    }
                  }
                  return std::string("ok");
                }),
        "ok");
  }
}

}  // namespace
}  // namespace onrt::cc
