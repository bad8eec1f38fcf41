// SPDX-License-Identifier: Apache-2.0
// The public C API with owners and messages: all that neuron-bench knows of the runtime.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nrt/nrt.h"
#include "nrt/nrt_experimental.h"
#include "runtime/base/status.h"

namespace onrt::tools {

// Ok for NRT_SUCCESS; else the call's name, the status' text and, where the library has it, the
// text of onrt_last_error().
Status checked(NRT_STATUS status, const char* call);

// nrt_init() to nrt_close(). One per process.
class Runtime {
 public:
  static Result<std::unique_ptr<Runtime>> start();
  ~Runtime() { nrt_close(); }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

 private:
  Runtime() = default;
};

struct TensorInfo {
  std::string name;
  bool is_input = false;
  uint64_t bytes = 0;
  nrt_dtype_t dtype = NRT_DTYPE_UNKNOWN;
  std::vector<int64_t> shape;
};

struct DeviceTimes {
  uint64_t executions = 0;
  uint64_t total_device_ns = 0;
};

// A loaded model with a device tensor for each input and output. Must end before its Runtime.
class Model {
 public:
  static Result<std::unique_ptr<Model>> load(std::span<const std::byte> neff, int core);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // `index` counts in tensors(); data has exactly the tensor's size.
  Status write(size_t index, std::span<const std::byte> data);
  Result<std::vector<std::byte>> read(size_t index) const;
  NRT_STATUS execute() { return nrt_execute(model_, inputs_, outputs_); }
  // Device time by the timing model; nothing on a library that doesn't offer it.
  std::optional<DeviceTimes> times() const;

 private:
  Model() = default;
  Status read_table();
  Status allocate(int core);

  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  std::vector<TensorInfo> tensors_;
  std::vector<nrt_tensor_t*> buffers_;
};

}  // namespace onrt::tools
