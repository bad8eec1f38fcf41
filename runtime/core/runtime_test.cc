// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/runtime.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "runtime/core/testing/core_fixture.h"

namespace onrt::testing {
namespace {

// The process has one Runtime; tests leave it closed.
class RuntimeTest : public ::testing::Test {
 protected:
  RuntimeTest() : board_(std::make_shared<FakeBoard>(2, 4, 4, 1ULL << 30)) {}
  ~RuntimeTest() override { runtime_.close(*make_context()); }

  MachineFactory factory(int pid = 1) {
    return [board = board_, pid](
               const Context&, const MachineRequest& request) -> Result<std::unique_ptr<Machine>> {
      ++board->info.devices[0].serial_number;  // counts openings
      return std::unique_ptr<Machine>(
          std::make_unique<FakeMachine>(board, pid, request.logical_core_size));
    };
  }
  Status init(std::vector<std::string> variables = {}) {
    return runtime_.init(make_context(std::move(variables)), factory());
  }
  void close() { runtime_.close(*make_context()); }

  std::shared_ptr<FakeBoard> board_;
  Runtime& runtime_ = Runtime::instance();
};

TEST_F(RuntimeTest, StatesFollowInitAndClose) {
  if (runtime_.state() == RuntimeState::kStart) {  // the first test of the process
    EXPECT_STATUS(runtime_.enter().status(), NRT_UNINITIALIZED, "START");
    close();
    EXPECT_EQ(runtime_.state(), RuntimeState::kStart);
  }
  ASSERT_OK(init());
  ASSERT_OK(init());
  EXPECT_EQ(board_->info.devices[0].serial_number, 1U);
  EXPECT_TRUE(runtime_.enter().ok());
  close();
  EXPECT_STATUS(runtime_.enter().status(), NRT_CLOSED, "CLOSED");
  close();
  ASSERT_OK(init());
  EXPECT_EQ(runtime_.state(), RuntimeState::kInit);
}

TEST_F(RuntimeTest, AFailedInitLeavesTheStateAndMayBeRepeated) {
  EXPECT_STATUS(init({"NEURON_RT_VISIBLE_CORES=99"}), NRT_INVALID, "NEURON_RT_VISIBLE_CORES='99'");
  EXPECT_NE(runtime_.state(), RuntimeState::kInit);
  EXPECT_TRUE(board_->core_owner.empty());
  EXPECT_STATUS(init({"NEURON_RT_EXEC_TIMEOUT=soon"}), NRT_INVALID, "expected a whole number");
  for (const char* seconds : {"0", "-1", "9223372036854775807"}) {
    EXPECT_STATUS(init({std::string("NEURON_RT_EXEC_TIMEOUT=") + seconds}), NRT_INVALID,
                  "1 to 100000000 seconds");
  }
  EXPECT_STATUS(init({"NEURON_LOGICAL_NC_CONFIG=3"}), NRT_INVALID, "NEURON_LOGICAL_NC_CONFIG='3'");
  ASSERT_OK(init());
}

TEST_F(RuntimeTest, ReinitialisesManyTimesWithoutALeak) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  ASSERT_OK(init());
  close();
  const auto before = open_files();
  const NeffPackage package = fake_package({.op = FakeOp::kAdd, .inputs = 1, .outputs = 1}, 4);
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK(init());
    {
      const auto session = runtime_.enter();
      ASSERT_TRUE(session.ok());
      const auto model = load_package(**session, package, 0);
      ASSERT_TRUE(model.ok()) << model.status().message();
    }
    close();
    ASSERT_TRUE(board_->core_owner.empty());
    for (const auto& stack : board_->stacks) {
      ASSERT_TRUE(stack.extents.empty());
    }
  }
  EXPECT_EQ(open_files(), before);
}

TEST_F(RuntimeTest, CountsAgreeBeforeAndAfterInit) {
  struct Case {
    const char* variable;
    int visible;
  };
  for (const Case& item :
       {Case{"X=", 8}, Case{"NEURON_RT_VISIBLE_CORES=2", 1}, Case{"NEURON_RT_VISIBLE_CORES=0-3", 4},
        Case{"NEURON_RT_VISIBLE_CORES=", 8}, Case{"NEURON_RT_NUM_CORES=3", 3},
        Case{"NEURON_LOGICAL_NC_CONFIG=1", 16}}) {
    SCOPED_TRACE(item.variable);
    const auto context = make_context({item.variable});
    const int total = std::string_view(item.variable).ends_with("CONFIG=1") ? 16 : 8;
    EXPECT_EQ(*runtime_.visible_cores(*context, factory()), item.visible);
    EXPECT_EQ(*runtime_.total_cores(*context, factory()), total);
    ASSERT_OK(init({item.variable}));
    EXPECT_EQ(*runtime_.visible_cores(*context, factory()), item.visible);
    EXPECT_EQ(*runtime_.total_cores(*context, factory()), total);
    close();
  }
  EXPECT_STATUS(
      runtime_.visible_cores(*make_context({"NEURON_RT_VISIBLE_CORES=0-"}), factory()).status(),
      NRT_INVALID, "NEURON_RT_VISIBLE_CORES='0-'");
}

TEST_F(RuntimeTest, TakenCoresAreRefusedWithCountsAndOwner) {
  ASSERT_OK(init({"NEURON_RT_VISIBLE_CORES=1-2"}));
  SessionGate gate;
  const auto second = [&](std::vector<std::string> variables) {
    return Session::open(make_context(std::move(variables)), factory(77), gate).status();
  };
  EXPECT_STATUS(second({"NEURON_RT_VISIBLE_CORES=1"}), NRT_RESOURCE,
                "NeuronCore(s) not available - Requested:nc1-nc1 Available:0; nc1 is held by pid 1 "
                "(train.py)");
  EXPECT_STATUS(second({"NEURON_RT_VISIBLE_CORES=2-3"}), NRT_RESOURCE,
                "Requested:nc2-nc3 Available:1");
  EXPECT_STATUS(second({}), NRT_RESOURCE, "set NEURON_RT_NUM_CORES");
  EXPECT_STATUS(second({"NEURON_RT_NUM_CORES=6"}), NRT_RESOURCE, "Requested:any 6 Available:6");
  auto other = Session::open(make_context({"NEURON_RT_NUM_CORES=5"}), factory(77), gate);
  ASSERT_TRUE(other.ok()) << other.status().message();
  EXPECT_EQ((*other)->core_range().start, 3);
}

TEST_F(RuntimeTest, CoresAreResetWhenClaimedUnlessToldOtherwise) {
  ASSERT_OK(init({"NEURON_RT_VISIBLE_CORES=1-2"}));
  EXPECT_EQ(board_->resets, (std::map<int, int>{{1, 1}, {2, 1}}));
  close();
  ASSERT_OK(init({"NEURON_RT_VISIBLE_CORES=1-2", "NEURON_RT_RESET_CORES=0"}));
  EXPECT_EQ(board_->resets, (std::map<int, int>{{1, 1}, {2, 1}}));
}

TEST_F(RuntimeTest, CoresOfTwoDevicesHaveTheirOwnDeviceAndMemory) {
  ASSERT_OK(init({"NEURON_RT_VISIBLE_CORES=3-4"}));
  const auto session = runtime_.enter();
  ASSERT_TRUE(session.ok());
  EXPECT_EQ((*session)->core_at(0).label, "ND 0:NC 3");
  EXPECT_EQ((*session)->core_at(1).label, "ND 1:NC 0");
  EXPECT_EQ((*session)->core_at(1).pool.hbm(), (HbmId{1, 0}));
}

TEST_F(RuntimeTest, CloseWaitsForCallsInProgressAndUnloadsModels) {
  ASSERT_OK(init());
  const void* handle = nullptr;
  std::thread closer;
  {
    const auto session = runtime_.enter();
    ASSERT_TRUE(session.ok());
    const auto model = load_package(
        **session, fake_package({.op = FakeOp::kAdd, .inputs = 1, .outputs = 1}, 4), 0);
    ASSERT_TRUE(model.ok());
    handle = HandleTable<Model>::handle_of(*model);
    closer = std::thread([&] { close(); });
    while (runtime_.state() != RuntimeState::kClosed) {
      std::this_thread::yield();
    }
    EXPECT_STATUS(runtime_.enter().status(), NRT_CLOSED, "CLOSED");
    EXPECT_FALSE(board_->core_owner.empty());
  }
  closer.join();
  EXPECT_TRUE(board_->core_owner.empty());
  EXPECT_EQ(HandleTable<Model>::find(handle), nullptr);
}

TEST_F(RuntimeTest, CloseEndsAWaitForCompletion) {
  ASSERT_OK(init());
  std::atomic<bool> waiting{false};
  std::thread waiter([&] {
    const auto session = runtime_.enter();
    ASSERT_TRUE(session.ok());
    auto made = Tensor::allocate(**session, TensorPlacement::kVirtual, -1, 8, "t");
    waiting = true;
    EXPECT_EQ((*made)->wait_completions(**session, 1, std::chrono::microseconds(-1)).code(),
              NRT_CLOSED);
    free_tensor(*made);
  });
  while (!waiting) {
    std::this_thread::yield();
  }
  close();
  waiter.join();
}

TEST_F(RuntimeTest, TheChildOfAForkIsToldSoAndTheParentGoesOn) {
  ASSERT_OK(init());
  const pid_t child = ::fork();
  if (child == 0) {
    const Status entered = runtime_.enter().status();
    const Status again = init();
    const bool told = entered.code() == NRT_FAILURE && again.code() == NRT_FAILURE &&
                      entered.message().find("CHILD") != std::string_view::npos &&
                      !runtime_.total_cores(*make_context(), factory()).ok();
    close();
    ::_exit(told ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(runtime_.enter().ok());
  EXPECT_EQ(board_->core_owner.size(), 8U);
}

TEST_F(RuntimeTest, TheChildOfAProcessThatIsClosedMayInitialise) {
  ASSERT_OK(init());
  close();
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(init().ok() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace onrt::testing
