// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/program.h"

#include <sys/stat.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "python/torch_neuronx/csrc/device.h"
#include "python/torch_neuronx/csrc/lower/lowering.h"

namespace tnx {
namespace {

std::atomic<uint64_t> launches{0};
std::atomic<uint64_t> programs{0};
std::atomic<uint64_t> compiled{0};

// One cache for all threads of the process; on disk where the user says so.
nrtcc_cache_t* compile_cache() {
  static nrtcc_cache_t* const cache = [] {
    const char* folder = std::getenv("TORCH_NEURONX_NEFF_CACHE_DIR");
    if (folder == nullptr) {
      folder = std::getenv("NEURON_COMPILE_CACHE_URL");
    }
    nrtcc_cache_options_t options{};
    options.struct_size = sizeof(options);
    options.folder = folder;
    nrtcc_cache_t* opened = nullptr;
    if (compiler().nrtcc_cache_open(&options, &opened) != NRTCC_OK) {
      throw Error(compiler().nrtcc_last_error());
    }
    return opened;
  }();
  return cache;
}

struct Neff {
  uint8_t* bytes = nullptr;
  size_t size = 0;
  ~Neff() { compiler().nrtcc_free(bytes); }
};

}  // namespace

Program::Program(const Graph& graph, int device, size_t inputs, size_t outputs) {
  const Compiler& cc = compiler();
  const int core = core_of(device);
  nrtcc_options_t options{};
  options.struct_size = sizeof(options);
  options.optimization = -1;
  options.target = compile_target();
  Neff neff;
  nrtcc_origin_t origin = NRTCC_COMPILED;
  const nrtcc_status_t status = cc.nrtcc_compile_cached(compile_cache(), graph.handle(), &options,
                                                        &neff.bytes, &neff.size, &origin);
  if (status == NRTCC_UNSUPPORTED) {
    throw Unsupported(cc.nrtcc_last_error());
  }
  if (status != NRTCC_OK) {
    throw Error(cc.nrtcc_last_error());
  }
  programs.fetch_add(1, std::memory_order_relaxed);
  if (origin == NRTCC_COMPILED) {
    compiled.fetch_add(1, std::memory_order_relaxed);
  }
  const Runtime& rt = runtime();
  check(rt.nrt_load(neff.bytes, neff.size, core, -1, &model_), "nrt_load");
  check(rt.nrt_allocate_tensor_set(&inputs_), "nrt_allocate_tensor_set");
  check(rt.nrt_allocate_tensor_set(&outputs_), "nrt_allocate_tensor_set");
  for (size_t i = 0; i < inputs; ++i) {
    input_names_.push_back("input" + std::to_string(i));
  }
  for (size_t i = 0; i < outputs; ++i) {
    output_names_.push_back("output" + std::to_string(i));
  }
}

Program::~Program() {
  if (!handles_live()) {
    return;
  }
  if (inputs_ != nullptr) {
    runtime().nrt_destroy_tensor_set(&inputs_);
  }
  if (outputs_ != nullptr) {
    runtime().nrt_destroy_tensor_set(&outputs_);
  }
  if (model_ != nullptr) {
    runtime().nrt_unload(model_);
  }
}

void Program::run(const std::vector<nrt_tensor_t*>& inputs,
                  const std::vector<nrt_tensor_t*>& outputs) {
  const Runtime& rt = runtime();
  const std::lock_guard lock(mutex_);
  const auto bind = [&](nrt_tensor_set_t* set, const std::vector<std::string>& names,
                        const std::vector<nrt_tensor_t*>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i] != nullptr) {
        check(rt.nrt_add_tensor_to_tensor_set(set, names[i].c_str(), tensors[i]),
              "nrt_add_tensor_to_tensor_set");
      }
    }
  };
  bind(inputs_, input_names_, inputs);
  bind(outputs_, output_names_, outputs);
  check(rt.nrt_execute(model_, inputs_, outputs_), "nrt_execute");
  launches.fetch_add(1, std::memory_order_relaxed);
}

Counters counters() { return {launches.load(), programs.load(), compiled.load()}; }

void dump_graph(const Graph& graph, const std::string& name) {
  static const char* const folder = std::getenv("TORCH_NEURONX_DEBUG_DIR");
  if (folder == nullptr || *folder == '\0') {
    return;
  }
  static std::atomic<int> number{0};
  char prefix[16];
  std::snprintf(prefix, sizeof(prefix), "%05d-", number.fetch_add(1));
  mkdir(folder, 0700);
  const std::string path = std::string(folder) + "/" + prefix + name + ".hlo.txt";
  std::ofstream out(path);
  out << graph.text();
  if (!out) {
    std::fprintf(stderr, "TORCH_NEURONX_DEBUG_DIR: can't write %s\n", path.c_str());
  }
}

}  // namespace tnx
