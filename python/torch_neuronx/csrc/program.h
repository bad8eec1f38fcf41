// SPDX-License-Identifier: Apache-2.0
// Compiled programs: a graph becomes a NEFF (from the compile cache if it is there), is loaded on a
// core, and runs on device tensors.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "python/torch_neuronx/csrc/graph.h"
#include "python/torch_neuronx/csrc/memory.h"

namespace tnx {

// Bytes that are written to device memory just before a program runs: its scalars. The memory is
// the program's own, and the same in every run.
struct Prelude {
  nrt_tensor_t* tensor = nullptr;
  size_t offset = 0;
  std::span<const char> bytes;
};

class Program {
 public:
  // Compiles and loads; `name` is for messages. Throws Unsupported (lowering.h) where the compiler
  // doesn't lower something.
  Program(const Graph& graph, std::string name, int device, size_t inputs, size_t outputs);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Runs on the calling thread, which is the queue's (queue.h). Tensors in the order of parameters
  // and results; null for those without elements. Thread-safe.
  void run(std::span<nrt_tensor_t* const> inputs, std::span<nrt_tensor_t* const> outputs,
           const Prelude& prelude);
  // Whether a run takes longer than waking a thread does.
  bool is_long() const { return is_long_.load(std::memory_order_relaxed); }

 private:
  // Tensors of one direction, as they were bound last: most are the same in the next run.
  struct Bindings {
    nrt_tensor_set_t* set = nullptr;
    std::vector<std::string> names;
    std::vector<nrt_tensor_t*> bound;
  };
  static void bind(Bindings& bindings, std::span<nrt_tensor_t* const> tensors, bool keep);
  void write(const Prelude& prelude);
  void execute();

  const std::string name_;
  std::mutex mutex_;  // the sets are in use
  int measured_ = 0;  // runs whose time was taken
  std::atomic<bool> is_long_{true};
  nrt_model_t* model_ = nullptr;
  Bindings inputs_;
  Bindings outputs_;
  uint64_t bound_at_ = 0;      // handles_freed() when the tensors were bound
  std::vector<char> written_;  // by the last prelude
};

// Of what has run.
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
