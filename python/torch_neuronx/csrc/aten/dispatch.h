// SPDX-License-Identifier: Apache-2.0
// From an aten call to a program: the boxed kernel behind every row of the lowering table, and the
// fallback to the CPU behind everything else.
#pragma once

#include <cstdint>
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
};
std::vector<OpCount> op_counts();
void clear_op_counts();

enum class FallbackMode { kWarn, kSilent, kError };
void set_fallback_mode(FallbackMode mode);

}  // namespace tnx
