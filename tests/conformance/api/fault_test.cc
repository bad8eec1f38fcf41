// SPDX-License-Identifier: Apache-2.0
// What clients see when the device fails. Faults are injected at the Driver seam
// (runtime/driver/fault_plan.h), numerical ones by the program itself.
#include <cmath>

#include "tests/conformance/api/fixture.h"
#include "tests/conformance/api/neff.h"

namespace onrt::api_test {
namespace {

using ::testing::ElementsAre;

class ExecFaults : public ApiTest {
 protected:
  // Opens the runtime with these faults and loads f32[2] addition.
  void open(const char* faults) {
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    setenv("OPENNRT_FAULTS", faults, 1);
    ASSERT_OK(init());
    model_ = load(add_neff(2));
    a_ = make_tensor_of<float>({1, 2});
    sum_ = make_tensor(8);
    inputs_ = make_set({{"input0", a_.get()}, {"input1", a_.get()}});
    outputs_ = make_set({{"output0", sum_.get()}});
  }
  void close() {
    model_.reset();
    inputs_.reset();
    outputs_.reset();
    a_.reset();
    sum_.reset();
    nrt_close();
  }
  void TearDown() override {
    close();
    ApiTest::TearDown();
  }
  NRT_STATUS run() { return nrt_execute(model_.get(), inputs_.get(), outputs_.get()); }
  void expect_to_work() {
    ASSERT_OK(run());
    EXPECT_THAT(read<float>(sum_, 2), ElementsAre(2, 4));
  }

  Model model_;
  Tensor a_, sum_;
  TensorSet inputs_, outputs_;
};

TEST_F(ExecFaults, OfTheDeviceAreReportedAndPassed) {
  struct Row {
    const char* faults;
    NRT_STATUS status;
  };
  const Row rows[] = {{"program@1=1006", NRT_EXEC_OOB},
                      {"program@1=1201", NRT_EXEC_HW_ERR_HBM_UE},
                      {"program@1=1202", NRT_EXEC_HW_ERR_NC_UE},
                      {"program@1=1203", NRT_EXEC_HW_ERR_DMA_ABORT},
                      {"program@1=1204", NRT_EXEC_SW_NQ_OVERFLOW}};
  for (const Row& row : rows) {
    open(row.faults);
    EXPECT_STATUS(row.status, run()) << row.faults;
    expect_to_work();
    close();
  }
}

// sdk#1028: an execution that does not end.
TEST_F(ExecFaults, EndlessProgramTimesOutAndCloseReturns) {
  setenv("NEURON_RT_EXEC_TIMEOUT", "1", 1);
  open("program@1=endless");
  EXPECT_STATUS(NRT_TIMEOUT, run());
  close();
  open("");
  expect_to_work();
}

TEST_F(ExecFaults, FatalErrorLosesTheCoreUntilInitialisedAgain) {
  open("program@1=101");
  EXPECT_STATUS(NRT_EXEC_UNIT_UNRECOVERABLE, run());
  EXPECT_STATUS(NRT_EXEC_UNIT_UNRECOVERABLE, run());
  const Model elsewhere = load(add_neff(2), 1);
  const Tensor b = make_tensor_of<float>({5, 6}, 1);
  const Tensor sum = make_tensor(8, 1);
  const TensorSet inputs = make_set({{"input0", b.get()}, {"input1", b.get()}});
  const TensorSet outputs = make_set({{"output0", sum.get()}});
  EXPECT_OK(nrt_execute(elsewhere.get(), inputs.get(), outputs.get())) << "other cores go on";
}

TEST_F(ExecFaults, FatalErrorIsForgottenByInit) {
  open("program@1=101");
  EXPECT_STATUS(NRT_EXEC_UNIT_UNRECOVERABLE, run());
  close();
  open("");
  expect_to_work();
}

TEST_F(ExecFaults, OfDmaFailTheTransferOnly) {
  open("");
  close();
  setenv("OPENNRT_FAULTS", "dma@2=1203", 1);
  ASSERT_OK(init());
  Tensor tensor = make_tensor_of<float>({1, 2});
  const float values[2] = {3, 4};
  EXPECT_STATUS(NRT_EXEC_HW_ERR_DMA_ABORT,
                nrt_tensor_write(tensor.get(), values, 0, sizeof(values)));
  EXPECT_OK(nrt_tensor_write(tensor.get(), values, 0, sizeof(values)));
  EXPECT_THAT(read<float>(tensor, 2), ElementsAre(3, 4));
  tensor.reset();
}

TEST_F(ExecFaults, OfAnAllocationLeaveNothingBehind) {
  open("");
  close();
  setenv("OPENNRT_FAULTS", "load@1=2;load@2=4", 1);
  ASSERT_OK(init());
  const uint64_t used = bytes_used();
  const std::vector<uint8_t> neff = add_neff(1000);
  nrt_model_t* model = nullptr;
  EXPECT_STATUS(NRT_INVALID, nrt_load(neff.data(), neff.size(), 0, -1, &model));
  EXPECT_STATUS(NRT_RESOURCE, nrt_load(neff.data(), neff.size(), 0, -1, &model));
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(bytes_used(), used);
  ASSERT_OK(nrt_load(neff.data(), neff.size(), 0, -1, &model));
  EXPECT_OK(nrt_unload(model));
  EXPECT_EQ(bytes_used(), used);
}

TEST_F(ExecFaults, OfOpenAndClaimFailInit) {
  for (const char* faults : {"open@1=6", "claim@1=4", "reset@1=6"}) {
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    setenv("OPENNRT_FAULTS", faults, 1);
    EXPECT_NE(init(), NRT_SUCCESS) << faults;
    nrt_close();
    setenv("OPENNRT_FAULTS", "", 1);
    EXPECT_OK(init()) << "after " << faults;
    nrt_close();
  }
}

// Settings that ask for NaN to be an error.
class NumericalErrors : public ApiTest {
 protected:
  // Runs log(-1), log(1) and checks that the outputs are there whatever the status is.
  NRT_STATUS run_log() {
    setenv("NEURON_RT_LOG_LEVEL", "QUIET", 1);
    EXPECT_OK(init());
    NRT_STATUS status = NRT_FAILURE;
    {
      const Model model = load(log_neff(2));
      const Tensor input = make_tensor_of<float>({-1, 1});
      const Tensor output = make_tensor_of<float>({7, 7});
      const TensorSet inputs = make_set({{"input0", input.get()}});
      const TensorSet outputs = make_set({{"output0", output.get()}});
      status = nrt_execute(model.get(), inputs.get(), outputs.get());
      const std::vector<float> values = read<float>(output, 2);
      EXPECT_TRUE(std::isnan(values[0]));
      EXPECT_EQ(values[1], 0);
    }
    nrt_close();
    return status;
  }
};

// sdk#691, #1148.
TEST_F(NumericalErrors, NanIsNoErrorByDefault) { EXPECT_OK(run_log()); }

TEST_F(NumericalErrors, NanIs1003WhenAskedFor) {
  setenv("NEURON_RT_NUMERICAL_ERRORS_VERBOSITY", "critical", 1);
  EXPECT_STATUS(NRT_EXEC_COMPLETED_WITH_NUM_ERR, run_log());
  unsetenv("NEURON_RT_NUMERICAL_ERRORS_VERBOSITY");
  setenv("NEURON_FAIL_ON_NAN", "1", 1);
  EXPECT_STATUS(NRT_EXEC_COMPLETED_WITH_NUM_ERR, run_log());
}

}  // namespace
}  // namespace onrt::api_test
