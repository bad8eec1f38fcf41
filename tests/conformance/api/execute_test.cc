// SPDX-License-Identifier: Apache-2.0
// nrt_execute(): arguments, threads, repetition, completion counters.
#include <pthread.h>

#include <atomic>
#include <thread>

#include "tests/conformance/api/fixture.h"
#include "tests/conformance/api/neff.h"

namespace onrt::api_test {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A loaded f32[4] addition with its tensors.
class AddTest : public OpenApiTest {
 protected:
  void SetUp() override {
    OpenApiTest::SetUp();
    model_ = load(add_neff(4));
    a_ = make_tensor_of<float>({1, 2, 3, 4}, 0, "a");
    b_ = make_tensor_of<float>({10, 20, 30, 40}, 0, "b");
    sum_ = make_tensor_of<float>({0, 0, 0, 0}, 0, "sum");
    inputs_ = make_set({{"input0", a_.get()}, {"input1", b_.get()}});
    outputs_ = make_set({{"output0", sum_.get()}});
  }
  void TearDown() override {
    inputs_.reset();
    outputs_.reset();
    model_.reset();
    a_.reset();
    b_.reset();
    sum_.reset();
    OpenApiTest::TearDown();
  }
  NRT_STATUS run() { return nrt_execute(model_.get(), inputs_.get(), outputs_.get()); }

  Model model_;
  Tensor a_, b_, sum_;
  TensorSet inputs_, outputs_;
};

using Execute = AddTest;

TEST_F(Execute, WritesTheOutputs) {
  ASSERT_OK(run());
  EXPECT_THAT(read<float>(sum_, 4), ElementsAre(11, 22, 33, 44));
}

TEST_F(Execute, TakesSlicesAndIgnoresSurplusTensors) {
  const Tensor both = make_tensor_of<float>({1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor low = make_slice(both, 0, 16);
  const Tensor high = make_slice(both, 16, 16);
  const TensorSet inputs =
      make_set({{"input0", low.get()}, {"input1", high.get()}, {"input9", a_.get()}});
  ASSERT_OK(nrt_execute(model_.get(), inputs.get(), outputs_.get()));
  EXPECT_THAT(read<float>(sum_, 4), ElementsAre(6, 8, 10, 12));
}

TEST_F(Execute, WritesIntoAnInputOfTheSameTensor) {
  const TensorSet in_place = make_set({{"output0", a_.get()}});
  ASSERT_OK(nrt_execute(model_.get(), inputs_.get(), in_place.get()));
  EXPECT_THAT(read<float>(a_, 4), ElementsAre(11, 22, 33, 44));
}

class ExecuteErrors : public AddTest {
 protected:
  // Refused as bad input with a text that names `part`; the model works afterwards.
  void refused(const char* part, const TensorSet& inputs, const TensorSet& outputs) {
    const NRT_STATUS status = nrt_execute(model_.get(), inputs.get(), outputs.get());
    EXPECT_THAT(status, AnyOf(NRT_INVALID, NRT_EXEC_BAD_INPUT)) << onrt_last_error();
    EXPECT_THAT(onrt_last_error(), HasSubstr(part));
    EXPECT_THAT(read<float>(sum_, 4), Each(0));
    ASSERT_OK(run());
    EXPECT_THAT(read<float>(sum_, 4), ElementsAre(11, 22, 33, 44));
  }
};

TEST_F(ExecuteErrors, MissingInputIsNamed) {
  refused("input1", make_set({{"input0", a_.get()}}), outputs_);
}

TEST_F(ExecuteErrors, MissingOutputIsNamed) { refused("output0", inputs_, make_set({})); }

TEST_F(ExecuteErrors, WrongSizeIsNamed) {
  const Tensor small = make_tensor(12);
  refused("input1", make_set({{"input0", a_.get()}, {"input1", small.get()}}), outputs_);
}

TEST_F(ExecuteErrors, TensorOfAnotherCoreIsNamedWithBothHbms) {
  const Tensor elsewhere = make_tensor(16, 2, "elsewhere");
  refused("HBM", make_set({{"input0", a_.get()}, {"input1", elsewhere.get()}}), outputs_);
}

TEST_F(ExecuteErrors, TensorWithoutStorageIsNamed) {
  nrt_tensor_t* created = nullptr;
  ASSERT_OK(nrt_tensor_allocate_empty("void", &created));
  const Tensor empty(created);
  refused("input1", make_set({{"input0", a_.get()}, {"input1", empty.get()}}), outputs_);
}

TEST_F(ExecuteErrors, FreedTensorInASetIsRecognised) {
  Tensor freed = make_tensor(16);
  const TensorSet inputs = make_set({{"input0", a_.get()}, {"input1", freed.get()}});
  freed.reset();
  EXPECT_NE(nrt_execute(model_.get(), inputs.get(), outputs_.get()), NRT_SUCCESS);
}

TEST_F(ExecuteErrors, NullArgumentsAreRefused) {
  EXPECT_NE(nrt_execute(nullptr, inputs_.get(), outputs_.get()), NRT_SUCCESS);
  EXPECT_NE(nrt_execute(model_.get(), nullptr, outputs_.get()), NRT_SUCCESS);
  EXPECT_NE(nrt_execute(model_.get(), inputs_.get(), nullptr), NRT_SUCCESS);
}

using ExecuteRepeat = OpenApiTest;

// x = 2 x + b from x = 1 with b = 1: 3, 7, 15, 31 (by hand).
TEST_F(ExecuteRepeat, FeedsTheOutputBack) {
  const Model model = load(repeat_neff(2));
  const Tensor x = make_tensor_of<float>({1, 0});
  const Tensor b = make_tensor_of<float>({1, 1});
  const TensorSet inputs = make_set({{"input0", x.get()}, {"input1", b.get()}});
  const TensorSet same = make_set({{"output0", x.get()}});
  ASSERT_OK(nrt_execute_repeat(model.get(), inputs.get(), same.get(), 4));
  EXPECT_THAT(read<float>(x, 2), ElementsAre(31, 15));
  EXPECT_STATUS(NRT_INVALID, nrt_execute_repeat(model.get(), inputs.get(), same.get(), 0));
  EXPECT_STATUS(NRT_INVALID, nrt_execute_repeat(model.get(), inputs.get(), same.get(), -1));
}

TEST_F(ExecuteRepeat, TakesTwoTensorsForAFedBackPair) {
  const Model model = load(repeat_neff(2));
  const Tensor x = make_tensor_of<float>({1, 0});
  const Tensor y = make_tensor(8);
  const Tensor b = make_tensor_of<float>({1, 1});
  const TensorSet inputs = make_set({{"input0", x.get()}, {"input1", b.get()}});
  const TensorSet outputs = make_set({{"output0", y.get()}});
  ASSERT_OK(nrt_execute(model.get(), inputs.get(), outputs.get()));
  EXPECT_THAT(read<float>(y, 2), ElementsAre(3, 1));
  EXPECT_THAT(read<float>(x, 2), ElementsAre(1, 0)) << "the input stays as it was";
  ASSERT_OK(nrt_execute_repeat(model.get(), inputs.get(), outputs.get(), 3));
  EXPECT_THAT(read<float>(y, 2), ElementsAre(15, 7));
}

// An output goes to the input it is an alias of, or else to the one of its number.
TEST_F(ExecuteRepeat, NeedsOutputsThatFitTheInputs) {
  const Model model = load(compile(R"(HloModule "spread"

ENTRY %0 "main" {
  %0 = f32[] parameter(), parameter_number={0}
  ROOT %1 = f32[4] broadcast(%0), dimensions={}
}
)"));
  const Tensor a = make_tensor_of<float>({3});
  const Tensor b = make_tensor(16);
  const TensorSet inputs = make_set({{"input0", a.get()}});
  const TensorSet outputs = make_set({{"output0", b.get()}});
  ASSERT_OK(nrt_execute_repeat(model.get(), inputs.get(), outputs.get(), 1));
  EXPECT_THAT(read<float>(b, 4), Each(3));
  EXPECT_FAILS(NRT_INVALID, "output0",
               nrt_execute_repeat(model.get(), inputs.get(), outputs.get(), 2));
}

// Eight threads with sets of their own run one model. sdk#670, #673: also on small stacks.
struct Worker {
  nrt_model_t* model = nullptr;
  Tensor a, b, sum;
  TensorSet inputs, outputs;
  std::vector<float> expected;
  std::atomic<int> failures{0};

  static void* run(void* argument) {
    auto* self = static_cast<Worker*>(argument);
    for (int i = 0; i < 100; ++i) {
      if (nrt_execute(self->model, self->inputs.get(), self->outputs.get()) != NRT_SUCCESS) {
        ++self->failures;
      }
    }
    return nullptr;
  }
};

using ExecThreads = OpenApiTest;

TEST_F(ExecThreads, ShareAModelOnSmallStacks) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kStackBytes = 1024 * 1024;  // their frames are larger
#else
  constexpr size_t kStackBytes = 64 * 1024;
#endif
  constexpr int kCount = 1000;
  const Model model = load(add_neff(kCount));
  std::vector<std::unique_ptr<Worker>> workers;
  for (int n = 0; n < 8; ++n) {
    auto worker = std::make_unique<Worker>();
    const std::vector<float> left(kCount, static_cast<float>(n));
    const std::vector<float> right(kCount, 0.5f);
    worker->model = model.get();
    worker->a = make_tensor_of(left);
    worker->b = make_tensor_of(right);
    worker->sum = make_tensor(kCount * sizeof(float));
    worker->inputs = make_set({{"input0", worker->a.get()}, {"input1", worker->b.get()}});
    worker->outputs = make_set({{"output0", worker->sum.get()}});
    worker->expected.assign(kCount, static_cast<float>(n) + 0.5f);
    workers.push_back(std::move(worker));
  }
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  std::vector<pthread_t> threads(workers.size());
  for (size_t i = 0; i < workers.size(); ++i) {
    ASSERT_EQ(pthread_create(&threads[i], &attributes, Worker::run, workers[i].get()), 0);
  }
  for (pthread_t thread : threads) {
    pthread_join(thread, nullptr);
  }
  pthread_attr_destroy(&attributes);
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->failures, 0);
    EXPECT_EQ(read<float>(worker->sum, kCount), worker->expected);
  }
}

TEST_F(ExecThreads, LoadRunAndUnloadOnAllCoresAtOnce) {
  const std::vector<uint8_t> neff = add_neff(64);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int vnc = 0; vnc < static_cast<int>(kCores); ++vnc) {
    threads.emplace_back([&, vnc] {
      for (int round = 0; round < 10; ++round) {
        const Model model = load(neff, vnc);
        const Tensor a = make_tensor_of(std::vector<float>(64, 1), vnc);
        const Tensor sum = make_tensor(256, vnc);
        const TensorSet inputs = make_set({{"input0", a.get()}, {"input1", a.get()}});
        const TensorSet outputs = make_set({{"output0", sum.get()}});
        failures += nrt_execute(model.get(), inputs.get(), outputs.get()) != NRT_SUCCESS;
        failures += read<float>(sum, 64) != std::vector<float>(64, 2);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failures, 0);
}

using OutputCompletion = AddTest;

TEST_F(OutputCompletion, CountsExecutionsSinceTheReset) {
  EXPECT_STATUS(NRT_TIMEOUT, nrt_tensor_check_output_completion(sum_.get(), 1000, 1));
  ASSERT_OK(run());
  ASSERT_OK(run());
  EXPECT_OK(nrt_tensor_check_output_completion(sum_.get(), 0, 1));
  EXPECT_OK(nrt_tensor_check_output_completion(sum_.get(), -1, 2));
  EXPECT_STATUS(NRT_TIMEOUT, nrt_tensor_check_output_completion(sum_.get(), 1000, 3));
  EXPECT_OK(nrt_tensor_reset_output_completion(sum_.get()));
  EXPECT_STATUS(NRT_TIMEOUT, nrt_tensor_check_output_completion(sum_.get(), 1000, 1));
  ASSERT_OK(run());
  EXPECT_OK(nrt_tensor_check_output_completion(sum_.get(), 1000, 1));
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_check_output_completion(nullptr, 0, 1));
  EXPECT_STATUS(NRT_INVALID, nrt_tensor_reset_output_completion(nullptr));
}

TEST_F(OutputCompletion, WaitEndsWhenAnotherThreadExecutes) {
  NRT_STATUS status = NRT_FAILURE;
  std::thread waiter([&] { status = nrt_tensor_check_output_completion(sum_.get(), -1, 1); });
  EXPECT_OK(run());
  waiter.join();
  EXPECT_STATUS(NRT_SUCCESS, status);
}

using ModelTimes = AddTest;

// Two clocks: what the host took and what a NeuronCore would take by the timing model.
TEST_F(ModelTimes, CountExecutionsOnBothClocks) {
  ASSERT_OK(run());
  ASSERT_OK(run());
  onrt_model_times_t times = {};
  size_t written = 0;
  ASSERT_OK(onrt_get_model_times(model_.get(), &times, sizeof(times), &written));
  EXPECT_EQ(written, sizeof(times));
  EXPECT_EQ(times.executions, 2u);
  EXPECT_GT(times.last_device_ns, 0u);
  EXPECT_GE(times.total_device_ns, 2 * times.last_device_ns);
  EXPECT_GT(times.total_wall_ns, times.last_wall_ns);
}

}  // namespace
}  // namespace onrt::api_test
