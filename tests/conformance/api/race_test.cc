// SPDX-License-Identifier: Apache-2.0
// Threads that call while another one closes, unloads or frees: every call gets a status, none a
// crash or a wrong value.
#include <atomic>
#include <thread>

#include "tests/conformance/api/fixture.h"
#include "tests/conformance/api/neff.h"

namespace onrt::api_test {
namespace {

using ::testing::AnyOf;

class Race : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    ASSERT_OK(init());
  }
};

// Allocates, writes, reads back and frees until told to stop. Counts values that came back wrong
// and statuses that no state explains.
void use_tensors(const std::atomic<bool>& stop, int vnc, std::atomic<int>& faults,
                 std::atomic<int>& rounds) {
  while (!stop) {
    nrt_tensor_t* tensor = nullptr;
    uint64_t value = 0;
    const uint64_t written = 0x1234567890ABCDEF + static_cast<uint64_t>(rounds);
    NRT_STATUS status =
        nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, vnc, 4096, "racing", &tensor);
    if (status == NRT_SUCCESS) {
      status = nrt_tensor_write(tensor, &written, 8, sizeof(written));
    }
    if (status == NRT_SUCCESS) {
      status = nrt_tensor_read(tensor, &value, 8, sizeof(value));
      if (status == NRT_SUCCESS && value != written) {
        ADD_FAILURE() << "read " << value << ", wrote " << written;
        ++faults;
      }
    }
    if (status != NRT_SUCCESS && status != NRT_CLOSED && status != NRT_INVALID_HANDLE) {
      ADD_FAILURE() << nrt_get_status_as_str(status) << ": " << onrt_last_error();
      ++faults;
    }
    nrt_tensor_free(&tensor);
    ++rounds;
  }
}

TEST_F(Race, CloseAndInitWhileThreadsUseTensors) {
  std::atomic<bool> stop{false};
  std::atomic<int> faults{0};
  std::atomic<int> rounds{0};
  std::vector<std::thread> threads;
  for (int vnc = 0; vnc < 4; ++vnc) {
    threads.emplace_back([&, vnc] { use_tensors(stop, vnc, faults, rounds); });
  }
  for (int round = 0; round < 15; ++round) {
    nrt_close();
    EXPECT_OK(init());
    for (const int seen = rounds; rounds < seen + 8;) {
      std::this_thread::yield();
    }
  }
  stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(faults, 0);
  for (uint32_t vnc = 0; vnc < kCores; ++vnc) {
    EXPECT_EQ(bytes_used(vnc), 0u) << "core " << vnc;
  }
}

TEST_F(Race, UnloadWhileThreadsExecute) {
  for (int round = 0; round < 20; ++round) {
    nrt_model_t* model = load(add_neff(64)).release();
    std::atomic<int> started{0};
    std::atomic<int> faults{0};
    std::vector<std::thread> threads;
    for (int n = 0; n < 4; ++n) {
      threads.emplace_back([&] {
        const Tensor a = make_tensor_of(std::vector<float>(64, 1));
        const Tensor sum = make_tensor(256);
        const TensorSet inputs = make_set({{"input0", a.get()}, {"input1", a.get()}});
        const TensorSet outputs = make_set({{"output0", sum.get()}});
        NRT_STATUS status = NRT_SUCCESS;
        while (status == NRT_SUCCESS) {
          status = nrt_execute(model, inputs.get(), outputs.get());
          ++started;
        }
        faults += status != NRT_INVALID_HANDLE;
      });
    }
    while (started < 8) {
      std::this_thread::yield();
    }
    EXPECT_OK(nrt_unload(model));
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(faults, 0);
  }
}

TEST_F(Race, CloseEndsAWaitForCompletion) {
  const Tensor tensor = make_tensor(64);
  std::atomic<bool> waiting{false};
  NRT_STATUS status = NRT_SUCCESS;
  std::thread waiter([&] {
    waiting = true;
    status = nrt_tensor_check_output_completion(tensor.get(), -1, 1);
  });
  while (!waiting) {
    std::this_thread::yield();
  }
  nrt_close();
  waiter.join();
  EXPECT_THAT(status, AnyOf(NRT_CLOSED, NRT_INVALID_HANDLE));
}

// The second of two threads that initialise at once finds the runtime open.
TEST_F(Race, ThreadsInitialiseAtOnce) {
  nrt_close();
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int n = 0; n < 8; ++n) {
    threads.emplace_back([&] {
      uint32_t count = 0;
      failures += init() != NRT_SUCCESS;
      failures += nrt_get_visible_vnc_count(&count) != NRT_SUCCESS || count != kCores;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failures, 0);
  EXPECT_NE(make_tensor(64), nullptr);
}

}  // namespace
}  // namespace onrt::api_test
