// SPDX-License-Identifier: Apache-2.0
// The arguments of a call as its key, and as what a program needs of them.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "python/torch_neuronx/csrc/aten/tensor.h"
#include "python/torch_neuronx/csrc/lower/lowering.h"
#include "python/torch_neuronx/csrc/view.h"

namespace tnx {

using Key = std::vector<int64_t>;

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0x9e3779b97f4a7c15;
    for (const int64_t word : key) {
      hash = (hash ^ static_cast<uint64_t>(word)) * 0xff51afd7ed558ccd;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// A view of device memory that the program reads.
struct Input {
  at::Tensor tensor;
  const c10::StorageImpl* storage = nullptr;  // tensor's when the call was made
  Type type = kF32;
  int64_t length = 0;  // of the flat array, elements
  int64_t start = 0;   // of the view in it

  int64_t begin() const {  // of the flat array, bytes into the storage
    return byte_offset(tensor) - start * bytes_of(type);
  }
};

struct ScalarUse {
  size_t argument;
  size_t element;
  Number number;
  int64_t place;  // among the scalars that are floats, or among the others
};

// Arguments as the key sees them; made for one call after the other, so that its vectors keep their
// memory. References to tensors of the stack are by position.
struct Parsed {
  // Past this many inputs (lists of a whole model's parameters) they are found by a table.
  static constexpr size_t kFewInputs = 32;

  // Calls f(number of an input) for those of one storage, until it gives true.
  template <class F>
  bool any_in_storage(const c10::StorageImpl* storage, F&& f) const {
    if (by_storage.empty()) {
      for (size_t n = 0; n < inputs.size(); ++n) {
        if (inputs[n].storage == storage && f(n)) {
          return true;
        }
      }
      return false;
    }
    const auto at = by_storage.find(storage);
    return at != by_storage.end() && std::any_of(at->second.begin(), at->second.end(), f);
  }
  void add_input(Input input) {
    inputs.push_back(std::move(input));
    if (inputs.size() > kFewInputs) {
      for (size_t n = by_storage.empty() ? 0 : inputs.size() - 1; n < inputs.size(); ++n) {
        by_storage[inputs[n].storage].push_back(n);
      }
    }
  }

  // Input numbers of an argument, one of a list each; -1: none, -2: empty, less: a CPU scalar.
  std::span<const int> uses_of(size_t argument) const {
    const size_t begin = argument == 0 ? 0 : use_ends[argument - 1];
    return std::span(uses).subspan(begin, use_ends[argument] - begin);
  }

  void add_scalar(size_t argument, size_t element, const Number& number) {
    size_t& count = number.kind == Number::Kind::kFloat ? floats : ints;
    scalars.push_back({argument, element, number, static_cast<int64_t>(count++)});
  }

  // What Row::verify sees.
  Type type_of_first() const { return inputs.empty() ? kF32 : inputs[0].type; }
  std::vector<Number> numbers() const {
    std::vector<Number> all;
    for (const ScalarUse& use : scalars) {
      all.push_back(use.number);
    }
    return all;
  }

  void clear() {
    key.clear();
    device = -1;
    inputs.clear();
    by_storage.clear();
    uses.clear();
    use_ends.clear();
    scalars.clear();
    ints = floats = 0;
    held.clear();
    generator.reset();
    foreign = false;
  }

  Key key;
  int device = -1;
  std::vector<Input> inputs;  // each view once; added by add_input()
  std::unordered_map<const c10::StorageImpl*, std::vector<size_t>> by_storage;
  std::vector<int> uses;           // of all arguments: see uses_of()
  std::vector<size_t> use_ends;    // per argument
  std::vector<ScalarUse> scalars;  // those that are inputs; added by add_scalar()
  size_t ints = 0;                 // of them
  size_t floats = 0;
  std::vector<at::Tensor> held;  // copies made for this call
  std::optional<at::Generator> generator;
  bool foreign = false;  // a type that no program holds
};

// What the row and the schema say of an operation's arguments.
struct Signature {
  Signature(const Row& row, const c10::FunctionSchema& schema);

  struct Argument {
    bool is_bool = false;
    bool known = false;     // the row looks at its numbers, so that they are in the key
    bool changing = false;  // a number that may be another one at the next call, and isn't known
    bool small = false;     // as long as it has at most 31 bits
  };
  const Row& row;
  std::vector<Argument> arguments;
  std::vector<size_t> written;  // arguments that are written in place, in order
};

// Reads the last arguments of the stack. Throws c10::Error for devices that don't go together.
void parse(const Signature& signature, const torch::jit::Stack& stack, Parsed& parsed);

// ---- single arguments ----

// A Scalar, float, int or bool argument; `known` is false for those that a key may leave out.
Number number_of(const Signature::Argument& argument, const c10::IValue& value);
std::vector<int64_t> ints_of(const c10::IValue& value);  // of a list of ints or bools

}  // namespace tnx
