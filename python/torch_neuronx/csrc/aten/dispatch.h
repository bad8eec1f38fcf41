// SPDX-License-Identifier: Apache-2.0
// From an aten call to a program: the boxed kernel behind every row of the lowering table, and the
// fallback to the CPU behind everything else.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tnx {

// Registers a kernel for every row of the table with its in-place and out= variants, and the
// fallback for all other operations.
void register_kernels();

struct OpCount {
  std::string name;  // "aten::add.Tensor"
  uint64_t native = 0;
  uint64_t fallback = 0;
  uint64_t fallback_bytes = 0;  // copied between host and device for it
  double fallback_seconds = 0;
  std::string reason;  // of the last fallback
  std::string source;  // "file:line" of the Python that first fell back; "" if there was none
};
std::vector<OpCount> op_counts();
void clear_op_counts();

// Who says where in the user's program we are.
void set_source_hook(std::function<std::string()> hook);

enum class FallbackMode { kWarn, kSilent, kError };
void set_fallback_mode(FallbackMode mode);

}  // namespace tnx
