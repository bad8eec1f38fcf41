// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/execute.h"

#include <cmath>
#include <thread>

#include "runtime/core/testing/core_fixture.h"

namespace onrt::testing {
namespace {

using ::testing::ElementsAre;

class ExecuteTest : public CoreTest {
 protected:
  ExecuteTest() = default;
  explicit ExecuteTest(int devices, int cores, int stacks) : CoreTest(devices, cores, stacks) {}

  Status run(Model* model) { return execute_model(*session_, *model, in_, out_); }
  // input0 = {1, 2}, input1 = {10, 20}, output0 = {0, 0}
  void bind_two_in_one_out() {
    in_.add("input0", a_ = tensor({1, 2}, 0, "a"));
    in_.add("input1", b_ = tensor({10, 20}, 0, "b"));
    out_.add("output0", c_ = tensor({0, 0}, 0, "c"));
  }
  void free_all() {
    for (Tensor* t : {a_, b_, c_}) {
      if (t != nullptr) {
        free_tensor(t);
      }
    }
    a_ = b_ = c_ = nullptr;
  }
  ~ExecuteTest() override { free_all(); }

  TensorSet in_;
  TensorSet out_;
  Tensor* a_ = nullptr;
  Tensor* b_ = nullptr;
  Tensor* c_ = nullptr;
};

const FakeProgram kAddTwo{.op = FakeOp::kAdd, .inputs = 2, .outputs = 1};

TEST_F(ExecuteTest, RunsAProgramWithConstants) {
  open();
  bind_two_in_one_out();
  Model* model = load(fake_package(kAddTwo, 2, {100}));
  ASSERT_OK(run(model));
  EXPECT_THAT(values(*c_), ElementsAre(111, 122));
  EXPECT_EQ(model->times.executions.load(), 1U);
  EXPECT_EQ(model->times.last_device_ns.load(), 2000U);
  ASSERT_OK(unload(model));
}

TEST_F(ExecuteTest, NamesTheMissingTensorAndStaysUsable) {
  open();
  bind_two_in_one_out();
  Model* model = load(fake_package(kAddTwo, 2));
  TensorSet empty;
  EXPECT_STATUS(execute_model(*session_, *model, empty, out_), NRT_INVALID, "'input0' is missing");
  EXPECT_STATUS(execute_model(*session_, *model, in_, empty), NRT_INVALID, "'output0' is missing");
  ASSERT_OK(run(model));
  EXPECT_THAT(values(*c_), ElementsAre(11, 22));
}

// There are no tensors of 0 bytes to put in the set, so such a model could not run at all.
TEST_F(ExecuteTest, AnInputWithoutElementsNeedsNoTensor) {
  open();
  in_.add("input0", a_ = tensor({1, 2}, 0, "a"));
  out_.add("output0", c_ = tensor({0, 0}, 0, "c"));
  NeffPackage package =
      fake_package({.op = FakeOp::kInc, .inputs = 2, .outputs = 1, .value = 3}, 2);
  package.tensors[1].dims = {0, 2};
  package.tensors[1].size_bytes = 0;
  Model* model = load(package);
  ASSERT_OK(run(model));
  EXPECT_THAT(values(*c_), ElementsAre(4, 5));
  in_.add("input1", a_);  // is ignored, as any other that the model does not know
  ASSERT_OK(run(model));
  ASSERT_OK(unload(model));
}

TEST_F(ExecuteTest, NamesTheTensorOfTheWrongSize) {
  open();
  bind_two_in_one_out();
  Model* model = load(fake_package(kAddTwo, 2));
  Tensor* small = tensor({1}, 0, "small");
  in_.add("input1", small);
  EXPECT_STATUS(run(model), NRT_EXEC_BAD_INPUT,
                "input 'input1': tensor 'small' has 4 bytes, the model needs 8");
  in_.add("input1", b_);
  ASSERT_OK(run(model));
  free_tensor(small);
}

TEST_F(ExecuteTest, NamesTensorAndBothHbmsWhenTheyDiffer) {
  open();
  bind_two_in_one_out();
  Model* model = load(fake_package(kAddTwo, 2));
  Tensor* far = tensor({1, 2}, 1, "far");
  in_.add("input0", far);
  EXPECT_STATUS(run(model), NRT_INVALID,
                "tensor 'far' is on device 0 HBM 1, the model runs from device 0 HBM 0");
  free_tensor(far);
  EXPECT_STATUS(run(model), NRT_INVALID, "'input0' was freed");
}

TEST_F(ExecuteTest, RefusesAnEmptyTensorAndIgnoresExtraOnes) {
  open();
  bind_two_in_one_out();
  Model* model = load(fake_package(kAddTwo, 2));
  Tensor* empty = Tensor::allocate_empty(nullptr);
  in_.add("unknown", empty);
  ASSERT_OK(run(model));
  in_.add("input0", empty);
  EXPECT_STATUS(run(model), NRT_INVALID, "is empty");
  free_tensor(empty);
}

TEST_F(ExecuteTest, TakesHostAndAttachedTensors) {
  open();
  bind_two_in_one_out();
  Model* model = load(fake_package(kAddTwo, 2));
  float input[2] = {5, 6};
  float output[2] = {0, 0};
  Tensor* x = Tensor::allocate_empty("x");
  Tensor* y = Tensor::allocate_empty("y");
  ASSERT_OK(x->attach(input, 8));
  ASSERT_OK(y->attach(output, 8));
  in_.add("input0", x);
  out_.add("output0", y);
  const uint64_t before = used();
  ASSERT_OK(run(model));
  EXPECT_THAT(output, ElementsAre(15, 26));
  input[0] = 7;
  ASSERT_OK(run(model));
  EXPECT_THAT(output, ElementsAre(17, 26));
  EXPECT_EQ(used(), before);
  free_tensor(x);
  free_tensor(y);
}

TEST_F(ExecuteTest, AliasedPairMayBeOneTensorOrTwo) {
  open();
  NeffPackage package =
      fake_package({.op = FakeOp::kInc, .inputs = 1, .outputs = 1, .value = 3}, 2);
  package.tensors[1].alias_of = 0;
  Model* model = load(package);
  a_ = tensor({1, 2});
  b_ = tensor({0, 0});
  in_.add("input0", a_);
  out_.add("output0", a_);
  ASSERT_OK(run(model));
  EXPECT_THAT(values(*a_), ElementsAre(4, 5));
  out_.add("output0", b_);
  ASSERT_OK(run(model));
  EXPECT_THAT(values(*a_), ElementsAre(4, 5));
  EXPECT_THAT(values(*b_), ElementsAre(7, 8));
}

TEST_F(ExecuteTest, AliasedPairThatOverlapsInPartIsRefused) {
  open();
  NeffPackage package = fake_package({.op = FakeOp::kInc, .inputs = 1, .outputs = 1}, 2);
  package.tensors[1].alias_of = 0;
  Model* model = load(package);
  a_ = tensor({1, 2, 3});
  b_ = *Tensor::slice(*a_, 0, 8, "low");
  c_ = *Tensor::slice(*a_, 4, 8, "high");
  in_.add("input0", b_);
  out_.add("output0", c_);
  EXPECT_STATUS(run(model), NRT_INVALID, "overlap in part");
}

TEST_F(ExecuteTest, RepeatFeedsOutputsBackAndKeepsTheInput) {
  open();
  Model* model = load(fake_package({.op = FakeOp::kInc, .inputs = 2, .outputs = 1, .value = 1}, 2));
  bind_two_in_one_out();
  const uint64_t before = used();
  ASSERT_OK(execute_model_repeatedly(*session_, *model, in_, out_, 5));
  EXPECT_THAT(values(*c_), ElementsAre(6, 7));
  EXPECT_THAT(values(*a_), ElementsAre(1, 2));
  EXPECT_EQ(used(), before);
  EXPECT_STATUS(execute_model_repeatedly(*session_, *model, in_, out_, 0), NRT_INVALID,
                "repeat count 0");
}

TEST_F(ExecuteTest, RepeatRefusesAModelWhoseOutputsFitNoInput) {
  open();
  bind_two_in_one_out();
  NeffPackage package = fake_package(kAddTwo, 2);
  package.tensors[2].dims = {2, 1};
  Model* model = load(package);
  EXPECT_STATUS(execute_model_repeatedly(*session_, *model, in_, out_, 2), NRT_INVALID,
                "can't be repeated");
  ASSERT_OK(execute_model_repeatedly(*session_, *model, in_, out_, 1));
}

TEST_F(ExecuteTest, NanIsAnErrorOnlyWhenAskedForAndOutputsAreThere) {
  for (const char* variable :
       {"", "NEURON_RT_NUMERICAL_ERRORS_VERBOSITY=critical", "NEURON_FAIL_ON_NAN=1"}) {
    open({variable});
    bind_two_in_one_out();
    Model* model = load(fake_package({.op = FakeOp::kNan, .inputs = 2, .outputs = 1}, 2));
    const Status status = run(model);
    EXPECT_EQ(status.code(), *variable == 0 ? NRT_SUCCESS : NRT_EXEC_COMPLETED_WITH_NUM_ERR);
    EXPECT_TRUE(std::isnan(values(*c_)[1]));
    free_all();
    close();
  }
}

TEST_F(ExecuteTest, TimeoutNamesModelAndCore) {
  open({"NEURON_RT_EXEC_TIMEOUT=1"});
  bind_two_in_one_out();
  Model* model = load(fake_package({.op = FakeOp::kHang, .inputs = 2, .outputs = 1}, 2));
  EXPECT_STATUS(run(model), NRT_TIMEOUT,
                "model 'fake' (id 1001) on ND 0:NC 0 did not finish within 1 s");
  ASSERT_OK(unload(model));
  Model* fine = load(fake_package(kAddTwo, 2));
  ASSERT_OK(run(fine));
}

TEST_F(ExecuteTest, ACoreThatNeverAnswersIsLost) {
  open({"NEURON_RT_EXEC_TIMEOUT=1"});
  bind_two_in_one_out();
  Model* silent = load(fake_package({.op = FakeOp::kSilent, .inputs = 2, .outputs = 1}, 2));
  Model* fine = load(fake_package(kAddTwo, 2));
  EXPECT_EQ(run(silent).code(), NRT_TIMEOUT);
  EXPECT_STATUS(run(fine), NRT_EXEC_UNIT_UNRECOVERABLE, "nrt_init()");
  free_all();
  close();
  open();
  bind_two_in_one_out();
  ASSERT_OK(run(load(fake_package(kAddTwo, 2))));
}

TEST_F(ExecuteTest, DeviceErrorsComeThroughAndFatalOnesStay) {
  open();
  bind_two_in_one_out();
  Model* fine = load(fake_package(kAddTwo, 2));
  for (const NRT_STATUS code : {NRT_EXEC_OOB, NRT_EXEC_HW_ERR_HBM_UE, NRT_EXEC_HW_ERR_DMA_ABORT,
                                NRT_EXEC_UNIT_UNRECOVERABLE}) {
    Model* model =
        load(fake_package({.op = FakeOp::kStatus, .inputs = 2, .outputs = 1, .value = code}, 2));
    EXPECT_STATUS(run(model), code, "model 'fake'");
    EXPECT_EQ(run(fine).code(),
              code == NRT_EXEC_UNIT_UNRECOVERABLE ? NRT_EXEC_UNIT_UNRECOVERABLE : NRT_SUCCESS);
  }
}

TEST_F(ExecuteTest, ModelsOfACoreShareTheScratchpad) {
  open();
  bind_two_in_one_out();
  const uint64_t before = used();
  FakeProgram program = kAddTwo;
  program.op = FakeOp::kScratch;
  program.scratch_bytes = 10000;
  Model* small = load(fake_package(program, 2));
  program.scratch_bytes = 1 << 20;
  Model* large = load(fake_package(program, 2));
  const MemoryUsage usage = session_->core_at(0).pool.usage();
  EXPECT_EQ(usage.of(MemoryCategory::kSharedScratchpad), 1U << 20);
  ASSERT_OK(run(small));
  ASSERT_OK(run(large));
  ASSERT_OK(unload(large));
  ASSERT_OK(run(small));
  ASSERT_OK(unload(small));
  EXPECT_EQ(used(), before);
}

TEST_F(ExecuteTest, WriteWaitsForTheExecutionThatUsesTheTensor) {
  open();
  bind_two_in_one_out();
  Model* model = load(fake_package({.op = FakeOp::kHook, .inputs = 2, .outputs = 1}, 2));
  std::atomic<bool> inside{false};
  std::atomic<bool> go_on{false};
  board_->hook = [&] {
    inside = true;
    while (!go_on) {
      std::this_thread::yield();
    }
  };
  std::thread execution([&] { ASSERT_OK(run(model)); });
  while (!inside) {
    std::this_thread::yield();
  }
  const float nine[2] = {9, 9};
  std::atomic<bool> written{false};
  std::thread writer([&] {
    ASSERT_OK(write_tensor(*session_, *a_, nine, 0, 8));
    written = true;
  });
  // An unsafe write does not wait.
  ASSERT_OK(write_tensor(*session_, *b_, nine, 0, 8, Blocking::kUnsafe));
  EXPECT_FALSE(written);
  go_on = true;
  execution.join();
  writer.join();
  EXPECT_THAT(values(*c_), ElementsAre(1 + 9, 2 + 9));
  EXPECT_THAT(values(*a_), ElementsAre(9, 9));
}

TEST_F(ExecuteTest, UnloadWaitsForTheExecutionInFlight) {
  open();
  bind_two_in_one_out();
  Model* model = load(fake_package({.op = FakeOp::kHook, .inputs = 2, .outputs = 1}, 2));
  std::atomic<bool> inside{false};
  board_->hook = [&] {
    inside = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  std::thread execution([&] {
    const ModelUse use(HandleTable<Model>::handle_of(model));
    ASSERT_TRUE(use);
    ASSERT_OK(run(model));
  });
  while (!inside) {
    std::this_thread::yield();
  }
  const void* handle = HandleTable<Model>::handle_of(model);
  ASSERT_OK(unload(model));
  execution.join();
  EXPECT_THAT(values(*c_), ElementsAre(11, 22));
  EXPECT_FALSE(ModelUse(handle));
}

TEST_F(ExecuteTest, ATensorMayBeFreedWhileItIsExecuted) {
  open();
  bind_two_in_one_out();
  Model* model = load(fake_package({.op = FakeOp::kHook, .inputs = 2, .outputs = 1}, 2));
  board_->hook = [&] { free_tensor(std::exchange(a_, nullptr)); };
  ASSERT_OK(run(model));
  EXPECT_THAT(values(*c_), ElementsAre(11, 22));
}

TEST_F(ExecuteTest, AnOutputThatWasFreedMeanwhileIsNotCountedForItsSuccessor) {
  open();
  bind_two_in_one_out();
  Model* model = load(fake_package({.op = FakeOp::kHook, .inputs = 2, .outputs = 1}, 2));
  float buffer[2] = {0, 0};
  ASSERT_OK(c_->attach(buffer, 8));
  board_->hook = [&] { free_tensor(std::exchange(c_, nullptr)); };
  ASSERT_OK(run(model));
  EXPECT_THAT(buffer, ElementsAre(11, 22));
}

TEST_F(ExecuteTest, EightThreadsWithTheirOwnSetsAreExact) {
  open();
  Model* model = load(fake_package(kAddTwo, 64, {0.5F}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      TensorSet in;
      TensorSet out;
      const std::vector<float> mine(64, static_cast<float>(t));
      Tensor* x = tensor(mine);
      Tensor* y = tensor(mine);
      Tensor* z = tensor(mine);
      in.add("input0", x);
      in.add("input1", y);
      out.add("output0", z);
      for (int i = 0; i < 50; ++i) {
        ASSERT_OK(execute_model(*session_, *model, in, out));
        ASSERT_THAT(values(*z), ::testing::Each(2.0F * static_cast<float>(t) + 0.5F));
        ASSERT_OK(fill_tensor(*session_, *z, 0, 0xFF, 256));
      }
      for (Tensor* tensor : {x, y, z}) {
        free_tensor(tensor);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(ExecuteTest, CountsCompletionsOfOutputs) {
  open();
  bind_two_in_one_out();
  Model* model = load(fake_package(kAddTwo, 2));
  using std::chrono::microseconds;
  EXPECT_EQ(c_->wait_completions(*session_, 1, microseconds(100)).code(), NRT_TIMEOUT);
  ASSERT_OK(run(model));
  ASSERT_OK(c_->wait_completions(*session_, 1, microseconds(0)));
  std::thread waiter([&] { ASSERT_OK(c_->wait_completions(*session_, 2, microseconds(-1))); });
  ASSERT_OK(run(model));
  waiter.join();
  c_->reset_completions();
  EXPECT_EQ(c_->wait_completions(*session_, 1, microseconds(0)).code(), NRT_TIMEOUT);
  EXPECT_EQ(a_->wait_completions(*session_, 1, microseconds(0)).code(), NRT_TIMEOUT);
}

TEST_F(ExecuteTest, FailedDmaIsNamedAndNothingStaysInUse) {
  open();
  bind_two_in_one_out();
  board_->fail_dma_in = 1;
  const float x[2] = {0, 0};
  EXPECT_STATUS(write_tensor(*session_, *a_, x, 0, 8), NRT_EXEC_HW_ERR_DMA_ABORT, "tensor 'a'");
  ASSERT_OK(write_tensor(*session_, *a_, x, 0, 8));
}

}  // namespace
}  // namespace onrt::testing
