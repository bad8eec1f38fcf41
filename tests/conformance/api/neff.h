// SPDX-License-Identifier: Apache-2.0
// Small programs, compiled by libnrtcc from its text form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace onrt::api_test {

struct CompileOptions {
  int lnc = 0;            // 0: default of trn2
  bool compress = false;  // plain tar is easier to damage on purpose
};

// Reports a failure as one of the test and then returns no bytes.
std::vector<uint8_t> compile(const std::string& text, const CompileOptions& options = {});

// output0 = input0 + input1, f32[count].
std::vector<uint8_t> add_neff(int count, const CompileOptions& options = {});

// output0 = input0 * 2 + input1, f32[count]; output0 may be fed back as input0.
std::vector<uint8_t> repeat_neff(int count);

// output0 = log(input0), f32[count]: NaN for negative elements.
std::vector<uint8_t> log_neff(int count);

}  // namespace onrt::api_test
