// SPDX-License-Identifier: Apache-2.0
// Compiled programs: a graph becomes a NEFF (from the compile cache if it is there), is loaded on a
// core, and runs on device tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "python/torch_neuronx/csrc/graph.h"
#include "python/torch_neuronx/csrc/memory.h"

namespace tnx {

class Program {
 public:
  // Compiles and loads. Throws Unsupported (lowering.h) where the compiler doesn't lower something.
  Program(const Graph& graph, int device, size_t inputs, size_t outputs);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Runs on the calling thread. Tensors in the order of parameters and results; null for those
  // without elements. Thread-safe.
  void run(const std::vector<nrt_tensor_t*>& inputs, const std::vector<nrt_tensor_t*>& outputs);

 private:
  std::mutex mutex_;  // the sets are in use
  nrt_model_t* model_ = nullptr;
  nrt_tensor_set_t* inputs_ = nullptr;
  nrt_tensor_set_t* outputs_ = nullptr;
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
};

struct Counters {
  uint64_t launches = 0;
  uint64_t programs = 0;  // built: one for each new key and device
  uint64_t compiled = 0;  // of them, not found in the caches
};
Counters counters();

// Program text (HLO) of the last graphs that were built, when TORCH_NEURONX_DEBUG_DIR is set, goes
// to that folder.
void dump_graph(const Graph& graph, const std::string& name);

}  // namespace tnx
