// SPDX-License-Identifier: Apache-2.0
// Which file feeds which input of a model.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tools/common/npy.h"
#include "tools/neuron_bench/model.h"

namespace onrt::tools {

// NumPy's type of the elements: "<f4"; "<V2" for bf16 (as the ml_dtypes package writes it). "" for
// a type that only has a size.
std::string numpy_type(nrt_dtype_t dtype);

struct Input {
  size_t tensor = 0;  // index in the table
  Array array;
  std::string source;  // the file
};

// Words are FILE.npy (the next input that has none), NAME=FILE.npy, or FILE.npz (all its arrays, by
// name). Inputs without a file stay out of the result. NRT_INVALID names file, input, expected and
// found.
Result<std::vector<Input>> read_inputs(const std::vector<std::string>& words,
                                       const std::vector<TensorInfo>& tensors);

}  // namespace onrt::tools
