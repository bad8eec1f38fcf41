// SPDX-License-Identifier: Apache-2.0
// The arithmetic of all_reduce in the caches, beside what the compiler makes of the plain loop on
// this processor; and a reduction of four inputs beside three of two.
#include "collectives/reduce/reduce.h"

#include <vector>

#include "bench/harness.h"
#include "bench/reduce_peer.h"

namespace onrt::cc {
namespace {

using bench::Clock;
using bench::Row;
using bench::timed;

constexpr size_t kBytes = 64 * 1024;  // of each operand

template <class T>
class Operands {
 public:
  Operands() {
    for (auto& values : data_) {
      values.assign(kBytes / sizeof(T), T{1});
    }
  }
  size_t count() const { return data_[0].size(); }
  T* at(size_t i) { return data_[i].data(); }

  // Into operand `out`.
  void reduce(Dtype dtype, const std::vector<size_t>& from, size_t out) {
    ReduceInput inputs[4];
    for (size_t i = 0; i < from.size(); ++i) {
      inputs[i].data = at(from[i]);
    }
    const ReduceOutput output{at(out)};
    cc::reduce({dtype, ReduceOp::kSum}, {inputs, from.size()}, {&output, 1}, count());
  }

 private:
  std::vector<T> data_[6];
};

Row row_of(const char* key, const char* title, double goal) {
  Row row;
  row.key = key;
  row.title = title;
  row.unit = "GB/s";
  row.goal = goal;
  return row;
}

double gigabytes(double seconds) { return kBytes / seconds * 1e-9; }

}  // namespace

void run() {
  static Operands<float> f32;
  static Operands<uint16_t> bf16;
  const auto cpu = [](std::function<void()> body) {
    return timed(std::move(body), Clock::kThreadCpu);
  };
  std::vector<Row> rows;
  rows.push_back(bench::compare(
      row_of("reduce/f32/2", "sum of 2 f32 inputs, destination", 0.95),
      {{"ours", cpu([] { f32.reduce(Dtype::kF32, {0, 1}, 2); })},
       {"compiler",
        cpu([] { bench::plain_add_f32(f32.at(0), f32.at(1), f32.at(2), f32.count()); })}},
      gigabytes));
  Row narrow = row_of("reduce/bf16/2", "sum of 2 bf16 inputs, destination", 1.5);
  narrow.limit = 14;
  rows.push_back(bench::compare(
      narrow,
      {{"ours", cpu([] { bf16.reduce(Dtype::kBF16, {0, 1}, 2); })},
       {"compiler",
        cpu([] { bench::plain_add_bf16(bf16.at(0), bf16.at(1), bf16.at(2), bf16.count()); })}},
      gigabytes));
  rows.push_back(bench::compare(row_of("reduce/bf16/4", "sum of 4 bf16 inputs, destination", 1.6),
                                {{"ours", cpu([] { bf16.reduce(Dtype::kBF16, {0, 1, 3, 4}, 2); })},
                                 {"three sums of two", cpu([] {
                                    bf16.reduce(Dtype::kBF16, {0, 1}, 2);
                                    bf16.reduce(Dtype::kBF16, {3, 4}, 5);
                                    bf16.reduce(Dtype::kBF16, {2, 5}, 2);
                                  })}},
                                gigabytes));
  bench::report(rows);
}

}  // namespace onrt::cc

int main(int argc, char** argv) {
  onrt::bench::parse_options(argc, argv, "");
  onrt::cc::run();
  return 0;
}
