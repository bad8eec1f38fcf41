// SPDX-License-Identifier: Apache-2.0
// A NEFF that is loaded on a core.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "allocator/hbm_pool.h"
#include "runtime/core/constant_store.h"
#include "runtime/core/handle.h"
#include "runtime/core/session.h"
#include "runtime/neff/neff_package.h"

namespace onrt {

// What executions of a model took: DESIGN "two clocks".
struct ModelTimes {
  std::atomic<uint64_t> executions{0};
  std::atomic<uint64_t> last_device_ns{0};
  std::atomic<uint64_t> total_device_ns{0};
  std::atomic<uint64_t> last_wall_ns{0};
  std::atomic<uint64_t> total_wall_ns{0};
};

// Constant after loading, but for the times. Its users are inside the gate of its handle.
class Model {
 public:
  static constexpr uint32_t kTag = 0x4D4F444C;

  Model(CoreContext& on_core, uint32_t number, const NeffPackage& package);

  const std::string& name() const { return name_; }
  uint32_t id() const { return id_; }
  CoreContext& core() const { return core_; }
  const std::vector<NeffTensor>& tensors() const { return tensors_; }
  size_t input_count() const { return input_names_.size(); }
  // For TensorSet::find_all(); "" for a tensor without elements, which needs none: there are no
  // tensors of 0 bytes.
  const std::vector<std::string>& input_names() const { return input_names_; }
  const std::vector<std::string>& output_names() const { return output_names_; }
  // Keys for TensorSet::find_all(): unique in the process.
  uint64_t input_key() const { return key_; }
  uint64_t output_key() const { return key_ + 1; }
  bool has_aliases() const { return has_aliases_; }
  // For messages: "model 'x' (id 1001) on ND 0:NC 1".
  std::string label() const;

  ModelTimes times;

  // Set by the loader.
  HbmMemory code;
  std::shared_ptr<SharedConstants> constants;
  ProgramInfo program;

 private:
  CoreContext& core_;  // of the session, which unloads its models
  const uint32_t id_;
  const uint64_t key_;
  std::string name_;
  std::vector<NeffTensor> tensors_;  // by io slot: inputs, then outputs
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
  bool has_aliases_ = false;
};

// RAII: keeps a model from being unloaded.
class ModelUse {
 public:
  // Not a live model: converts to false.
  explicit ModelUse(const void* handle);
  ModelUse(const ModelUse&) = delete;
  ModelUse& operator=(const ModelUse&) = delete;
  ~ModelUse() {
    if (model_ != nullptr) {
      HandleTable<Model>::header(model_).gate.leave();
    }
  }
  explicit operator bool() const { return model_ != nullptr; }
  Model& operator*() const { return *model_; }
  Model* operator->() const { return model_; }

 private:
  Model* model_ = nullptr;
};

}  // namespace onrt
