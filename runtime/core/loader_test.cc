// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/loader.h"

#include "runtime/core/testing/core_fixture.h"
#include "runtime/neff/neff.h"

namespace onrt::testing {
namespace {

class LoaderTest : public CoreTest {
 protected:
  Status refused(const NeffPackage& package, int core = 0) {
    const uint64_t before = used(0) + used(1);
    const auto model = load_package(*session_, package, core);
    EXPECT_FALSE(model.ok());
    EXPECT_EQ(used(0) + used(1), before);
    EXPECT_EQ(machine_->programs(), 0U);
    return model.status();
  }
};

const FakeProgram kAddTwo{.op = FakeOp::kAdd, .inputs = 2, .outputs = 1};

TEST_F(LoaderTest, RefusesWhatDoesNotFitThisRuntime) {
  open();
  NeffPackage package = fake_package(kAddTwo, 2);
  package.lnc_size = 1;
  EXPECT_STATUS(refused(package), NRT_INVALID,
                "compiled for logical NeuronCores of size 1, this runtime uses size 2");
  package = fake_package(kAddTwo, 2);
  package.architecture = "trn1";
  EXPECT_STATUS(refused(package), NRT_INVALID, "compiled for trn1, this machine (trn2.3xlarge) is");
  package = fake_package(kAddTwo, 2);
  package.subgraphs.resize(3, package.subgraphs[0]);
  EXPECT_STATUS(refused(package), NRT_LOAD_NOT_ENOUGH_NC, "needs 3 NeuronCores, 2 are available");
  package.subgraphs.resize(2);
  EXPECT_STATUS(refused(package, 1), NRT_LOAD_NOT_ENOUGH_NC, "needs 2 NeuronCores, 1 are");
  EXPECT_STATUS(refused(package), NRT_INVALID, "programs for 2 cores");
  EXPECT_STATUS(refused(fake_package(kAddTwo, 2), 2), NRT_INVALID, "vnc 2: expected 0 to 1");
  EXPECT_STATUS(refused(fake_package(kAddTwo, 2), -2), NRT_INVALID, "vnc -2");
}

TEST_F(LoaderTest, RefusesAPackageWhosePartsDisagree) {
  open();
  NeffPackage package = fake_package(kAddTwo, 2);
  package.tensors.pop_back();
  EXPECT_STATUS(refused(package), NRT_INVALID, "its program has 3 tensors, its header 2");
  package = fake_package(kAddTwo, 2);
  package.tensors[2].alias_of = 2;
  EXPECT_STATUS(refused(package), NRT_INVALID, "can't be an alias of slot 2");
  package = fake_package(kAddTwo, 2);
  package.subgraphs[0].constants_offset = 1000;
  EXPECT_STATUS(refused(package), NRT_INVALID, "constants at 1000");
  package = fake_package(kAddTwo, 2);
  package.subgraphs[0].program[0] = std::byte{0};
  EXPECT_STATUS(refused(package), NRT_INVALID, "not a fake program");
}

TEST_F(LoaderTest, AFailureAtAnyStepLeavesNothingBehind) {
  open();
  const NeffPackage package = fake_package(kAddTwo, 2, {1, 2, 3});
  board_->fail_load_in = 1;
  EXPECT_STATUS(refused(package), NRT_RESOURCE, "load of NEFF 'fake' on ND 0:NC 0");
  for (const int nth : {1, 2}) {
    board_->fail_dma_in = nth;
    EXPECT_EQ(refused(package).code(), NRT_EXEC_HW_ERR_DMA_ABORT);
  }
  FakeProgram greedy = kAddTwo;
  greedy.scratch_bytes = 30ULL << 30;
  EXPECT_STATUS(refused(fake_package(greedy, 2)), NRT_RESOURCE, "usage: shared scratchpad");
  ASSERT_OK(unload(load(package)));
}

TEST_F(LoaderTest, LoadsAndUnloadsWithoutALeak) {
  open();
  FakeProgram program = kAddTwo;
  program.scratch_bytes = 100000;
  const NeffPackage package = fake_package(program, 2, {1, 2, 3});
  const uint64_t before = used();
  for (int i = 0; i < 300; ++i) {
    ASSERT_OK(unload(load(package)));
  }
  EXPECT_EQ(used(), before);
  EXPECT_EQ(machine_->programs(), 0U);
}

TEST_F(LoaderTest, LoadsOfTheSameConstantsShareThem) {
  open();
  const NeffPackage package = fake_package(kAddTwo, 2, std::vector<float>(1000, 1.5F));
  Model* first = load(package);
  const uint64_t one = used();
  Model* second = load(package);
  EXPECT_EQ(first->constants, second->constants);
  EXPECT_EQ(used() - one, 64U);  // its code
  Model* other = load(fake_package(kAddTwo, 2, std::vector<float>(1000, 2.5F)));
  EXPECT_NE(first->constants, other->constants);
  Model* elsewhere = load(package, 1);
  EXPECT_NE(first->constants, elsewhere->constants);
  ASSERT_OK(unload(first));
  TensorSet in;
  TensorSet out;
  Tensor* x = tensor({1, 2});
  Tensor* y = tensor({0, 0});
  in.add("input0", x);
  in.add("input1", x);
  out.add("output0", y);
  ASSERT_OK(execute_model(*session_, *second, in, out));
  EXPECT_THAT(values(*y), ::testing::ElementsAre(3.5F, 5.5F));
  free_tensor(x);
  free_tensor(y);
}

TEST_F(LoaderTest, MinusOneTakesTheFirstCoreWithoutAModel) {
  open();
  const NeffPackage package = fake_package(kAddTwo, 2);
  EXPECT_EQ(load(package, -1)->core().local, 0);
  Model* second = load(package, -1);
  EXPECT_EQ(second->core().local, 1);
  ASSERT_OK(unload(second));
  EXPECT_EQ(load(package, -1)->core().local, 1);
  EXPECT_EQ(load(package, -1)->core().local, 0);
}

TEST_F(LoaderTest, AFailedUnloadIsReportedAndGivesTheMemoryBack) {
  open();
  const uint64_t before = used();
  Model* model = load(fake_package(kAddTwo, 2, {1}));
  board_->fail_unload_in = 1;
  EXPECT_STATUS(unload(model), NRT_HW_ERROR, "unload of model 'fake'");
  EXPECT_EQ(used(), before);
}

TEST_F(LoaderTest, LoadsFromTheBytesOfAFileWhichMayGo) {
  open();
  auto file = write_neff(fake_package(kAddTwo, 2, {7}), NeffCompression::kGzip);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto model = load_neff(*session_, *file, 0);
  ASSERT_TRUE(model.ok()) << model.status().message();
  std::fill(file->begin(), file->end(), std::byte{0});
  Tensor* x = tensor({1, 2});
  TensorSet set;
  set.add("input0", x);
  set.add("input1", x);
  set.add("output0", x);
  ASSERT_OK(execute_model(*session_, **model, set, set));
  EXPECT_THAT(values(*x), ::testing::ElementsAre(9, 11));
  free_tensor(x);
  EXPECT_EQ(load_neff(*session_, *file, 0).status().code(), NRT_INVALID);
}

}  // namespace
}  // namespace onrt::testing
