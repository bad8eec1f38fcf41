// SPDX-License-Identifier: Apache-2.0
// What a call's key leads to: the results' types and shapes, and the program that computes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "python/torch_neuronx/csrc/aten/parsed.h"
#include "python/torch_neuronx/csrc/memory.h"
#include "python/torch_neuronx/csrc/program.h"

namespace tnx {

struct Plan {
  struct Out {
    bool defined = true;
    int written = -1;  // input whose memory it takes: in-place
    c10::ScalarType type = c10::ScalarType::Float;
    Dims sizes;
    Dims strides;
  };
  std::vector<Out> outs;
  std::vector<int64_t> integers;     // results that are no tensors
  std::shared_ptr<Program> program;  // null: nothing to compute
  std::string unsupported;           // why the CPU does it
  // In the scalar buffer: s64 numbers, the generator's state, f32 numbers.
  size_t ints = 0;
  size_t floats = 0;
  bool random = false;
  bool checks = false;  // the record of checks is one more input and output
  uint64_t draws = 0;
  Block* scalars = nullptr;
  std::vector<nrt_tensor_t*> scalar_tensors;  // parts of it, which the program takes last
  uint64_t used = 0;                          // when, by the kernel's count of uses
  std::vector<int> outputs;                   // which outs the program computes
  size_t scalar_bytes() const { return ints * 8 + (random ? 16 : 0) + floats * 4; }
  ~Plan() { release(scalars); }
};
// Asks torch's meta kernel for the results, lowers the row, compiles and loads. torch's own errors
// about the arguments come through; what the device doesn't do is in Plan::unsupported.
std::shared_ptr<Plan> make_plan(const Signature& signature, const std::string& row_name,
                                const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                                const Parsed& parsed);

}  // namespace tnx
