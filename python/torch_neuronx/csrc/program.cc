// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/program.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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
    char* problem = nullptr;
    if (folder != nullptr && compiler().nrtcc_cache_problem(opened, &problem) == NRTCC_OK) {
      if (*problem != '\0') {
        std::fprintf(stderr, "opennrt: compiled programs are not kept on disk: %s\n", problem);
      }
      compiler().nrtcc_free(problem);
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

Program::Program(const Graph& graph, std::string name, int device, size_t inputs, size_t outputs)
    : name_(std::move(name)) {
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
  const auto prepare = [&](Bindings& bindings, const char* prefix, size_t count) {
    check(rt.nrt_allocate_tensor_set(&bindings.set), "nrt_allocate_tensor_set");
    for (size_t i = 0; i < count; ++i) {
      bindings.names.push_back(prefix + std::to_string(i));
    }
    bindings.bound.resize(count);
  };
  prepare(inputs_, "input", inputs);
  prepare(outputs_, "output", outputs);
}

Program::~Program() {
  if (!handles_live()) {
    return;
  }
  for (Bindings* bindings : {&inputs_, &outputs_}) {
    if (bindings->set != nullptr) {
      runtime().nrt_destroy_tensor_set(&bindings->set);
    }
  }
  if (model_ != nullptr) {
    runtime().nrt_unload(model_);
  }
}

void Program::run(std::span<nrt_tensor_t* const> inputs, std::span<nrt_tensor_t* const> outputs,
                  const Prelude& prelude) {
  const std::lock_guard lock(mutex_);
  write(prelude);
  // Once a handle was freed, another tensor may have its number.
  const uint64_t freed = handles_freed();
  const bool keep = freed == bound_at_;
  bound_at_ = freed;
  bind(inputs_, inputs, keep);
  bind(outputs_, outputs, keep);
  execute();
  launches.fetch_add(1, std::memory_order_relaxed);
}

void Program::bind(Bindings& bindings, std::span<nrt_tensor_t* const> tensors, bool keep) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    nrt_tensor_t*& bound = bindings.bound[i];
    if (tensors[i] == nullptr || (keep && bound == tensors[i])) {
      continue;
    }
    bound = nullptr;
    check(
        runtime().nrt_add_tensor_to_tensor_set(bindings.set, bindings.names[i].c_str(), tensors[i]),
        "nrt_add_tensor_to_tensor_set");
    bound = tensors[i];
  }
}

void Program::write(const Prelude& prelude) {
  if (std::ranges::equal(prelude.bytes, written_)) {
    return;
  }
  written_.clear();
  check(runtime().nrt_tensor_write(prelude.tensor, prelude.bytes.data(), prelude.offset,
                                   prelude.bytes.size()),
        "nrt_tensor_write");
  written_.assign(prelude.bytes.begin(), prelude.bytes.end());
}

void Program::execute() {
  // The first runs say how long one takes: the shortest of them, the first of all is cold.
  constexpr int kMeasured = 3;
  constexpr std::chrono::microseconds kLong{10};
  const auto run = [&] {
    const NRT_STATUS status = runtime().nrt_execute(model_, inputs_.set, outputs_.set);
    if (status != NRT_SUCCESS) {
      check(status, (name_ + ": nrt_execute").c_str());
    }
  };
  if (measured_ == kMeasured) {
    run();
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  run();
  ++measured_;
  if (std::chrono::steady_clock::now() - start < kLong) {
    is_long_.store(false, std::memory_order_relaxed);
  }
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
