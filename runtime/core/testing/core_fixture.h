// SPDX-License-Identifier: Apache-2.0
// A session on a fake board for unit tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/execute.h"
#include "runtime/core/loader.h"
#include "runtime/core/runtime.h"
#include "runtime/core/tensor_io.h"
#include "runtime/core/testing/fake_machine.h"

#define ASSERT_OK(expression)                                         \
  do {                                                                \
    const ::onrt::Status status_ = (expression);                      \
    ASSERT_TRUE(status_.ok()) << status_.code() << status_.message(); \
  } while (false)

#define EXPECT_STATUS(expression, wanted, text)                              \
  do {                                                                       \
    const ::onrt::Status status_ = (expression);                             \
    EXPECT_EQ(status_.code(), wanted) << status_.message();                  \
    EXPECT_THAT(std::string(status_.message()), ::testing::HasSubstr(text)); \
  } while (false)

namespace onrt::testing {

inline std::shared_ptr<const Context> make_context(std::vector<std::string> variables = {}) {
  variables.insert(variables.begin(), "NEURON_RT_LOG_LEVEL=QUIET");
  auto context = std::make_shared<Context>(Context{Settings::from_strings(variables), nullptr});
  context->log = std::make_unique<Logger>(context->settings);
  return context;
}

// A board of one device with 2 logical cores of 2 physical ones, each with its HBM stack of 24 GiB.
class CoreTest : public ::testing::Test {
 protected:
  explicit CoreTest(int devices = 1, int cores = 2, int stacks = 2)
      : board_(std::make_shared<FakeBoard>(devices, cores, stacks, 24ULL << 30)) {}
  ~CoreTest() override { close(); }

  MachineFactory factory(int pid = 1) {
    return [board = board_, pid, this](
               const Context&, const MachineRequest& request) -> Result<std::unique_ptr<Machine>> {
      auto machine = std::make_unique<FakeMachine>(board, pid, request.logical_core_size);
      machine_ = machine.get();
      return std::unique_ptr<Machine>(std::move(machine));
    };
  }

  void open(std::vector<std::string> variables = {}) {
    auto opened =
        Session::open(make_context(std::move(variables)), factory(), gate_, "/nonexistent");
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    session_ = std::move(opened).value();
    gate_.open(session_.get(), session_->generation());
  }

  // Ends the session; nothing may be left on the board.
  void close() {
    if (session_ == nullptr) {
      return;
    }
    gate_.shut_and_drain();
    EXPECT_EQ(machine_->host_mappings(), 0U);
    session_.reset();
    for (const auto& stack : board_->stacks) {
      EXPECT_TRUE(stack.extents.empty());
    }
    EXPECT_TRUE(board_->core_owner.empty());
  }

  Tensor* tensor(const std::vector<float>& values, int vnc = 0, const char* name = "t",
                 TensorPlacement placement = TensorPlacement::kDevice) {
    auto made = Tensor::allocate(*session_, placement, vnc, values.size() * 4, name);
    EXPECT_TRUE(made.ok()) << made.status().message();
    const Status written = write_tensor(*session_, **made, values.data(), 0, values.size() * 4);
    EXPECT_TRUE(written.ok()) << written.message();
    return *made;
  }
  std::vector<float> values(const Tensor& tensor) {
    std::vector<float> out(tensor.size() / 4);
    const Status read = read_tensor(*session_, tensor, out.data(), 0, tensor.size());
    EXPECT_TRUE(read.ok()) << read.message();
    return out;
  }
  uint64_t used(int vnc = 0) {
    CoreContext& core = session_->core_at(vnc);
    return core.pool.usage_of_core(core.core).total();
  }
  Model* load(const NeffPackage& package, int core = 0) {
    auto model = load_package(*session_, package, core);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? *model : nullptr;
  }
  Status unload(Model* model) { return unload_model(*session_, model, 0); }

  std::shared_ptr<FakeBoard> board_;
  FakeMachine* machine_ = nullptr;  // of the session
  SessionGate gate_;
  std::unique_ptr<Session> session_;
};

}  // namespace onrt::testing
