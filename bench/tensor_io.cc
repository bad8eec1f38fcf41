// SPDX-License-Identifier: Apache-2.0
// nrt_tensor_write and nrt_tensor_read of a device tensor beside memcpy of the same size. The
// emulated DMA engines work on the calling thread, so its processor time is the time of the copy.
#include <cstdlib>
#include <cstring>

#include "bench/harness.h"
#include "bench/machine.h"

namespace {

using onrt::bench::Clock;
using onrt::bench::Row;

// Aligned as torch and numpy align large arrays.
class Buffer {
 public:
  Buffer(size_t bytes, int value) : data_(static_cast<char*>(std::aligned_alloc(64, bytes))) {
    memset(data_, value, bytes);
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  char* data() const { return data_; }

 private:
  char* data_;
};

void measure(size_t bytes, std::vector<Row>& rows) {
  const Buffer from(bytes, 1);
  const Buffer to(bytes, 2);
  nrt_tensor_t* tensor = nullptr;
  onrt::bench::check("allocate",
                     nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, bytes, "io", &tensor));
  const auto copy = onrt::bench::timed(
      [&] {
        memcpy(to.data(), from.data(), bytes);
        asm volatile("" : : "g"(to.data()) : "memory");  // keeps the copy
      },
      Clock::kThreadCpu);
  const auto write = onrt::bench::timed(
      [&] { onrt::bench::check("write", nrt_tensor_write(tensor, from.data(), 0, bytes)); },
      Clock::kThreadCpu);
  const auto read = onrt::bench::timed(
      [&] { onrt::bench::check("read", nrt_tensor_read(tensor, to.data(), 0, bytes)); },
      Clock::kThreadCpu);
  const auto gigabytes = [bytes](double seconds) {
    return static_cast<double>(bytes) / seconds / 1e9;
  };
  const std::string text = std::to_string(bytes >> 10) + " KiB";
  Row row;
  row.unit = "GB/s";
  row.goal = 0.9;
  row.key = "tensor_write/" + std::to_string(bytes >> 10);
  row.title = "nrt_tensor_write " + text;
  rows.push_back(onrt::bench::compare(row, {{"ours", write}, {"memcpy", copy}}, gigabytes));
  row.key = "tensor_read/" + std::to_string(bytes >> 10);
  row.title = "nrt_tensor_read " + text;
  rows.push_back(onrt::bench::compare(row, {{"ours", read}, {"memcpy", copy}}, gigabytes));
  nrt_tensor_free(&tensor);
}

void measure_allocate(std::vector<Row>& rows) {
  const auto body = onrt::bench::timed(
      [] {
        nrt_tensor_t* tensor = nullptr;
        onrt::bench::check("allocate", nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 65536,
                                                           "block", &tensor));
        nrt_tensor_free(&tensor);
      },
      Clock::kThreadCpu);
  Row row;
  row.key = "tensor_allocate_free";
  row.title = "nrt_tensor_allocate + free 64 KiB, end to end";
  row.unit = "us";
  row.higher_is_better = false;
  rows.push_back(
      onrt::bench::compare(row, {{"ours", body}}, [](double seconds) { return seconds * 1e6; }));
}

}  // namespace

int main(int argc, char** argv) {
  onrt::bench::parse_options(argc, argv, "");
  onrt::bench::Machine machine;
  std::vector<Row> rows;
  for (size_t kibibytes : {64, 256, 1024, 4096, 16384, 65536}) {
    measure(kibibytes << 10, rows);
  }
  measure_allocate(rows);
  onrt::bench::report(rows);
  return 0;
}
