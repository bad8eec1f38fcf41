// SPDX-License-Identifier: Apache-2.0
// Groups, pairs and sizes that the command line takes from JSON files. The files are untrusted:
// NRT_INVALID names the flag, the file and the form that was expected.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/nccom_test/options.h"

namespace onrt::tools::nccom {

Result<std::vector<std::vector<int>>> read_groups(const std::string& path, int workers);
Result<std::vector<std::pair<int, int>>> read_pairs(const std::string& path, int ranks);
// One entry for each of the group's ranks.
Result<std::vector<VariableSizes>> read_variable(const std::string& path, Operation operation,
                                                 size_t ranks);

// Elements of a buffer that holds the blocks; bytes of the largest buffer of a series.
uint64_t extent(const std::vector<uint64_t>& counts, const std::vector<uint64_t>& displacements);
uint64_t variable_bytes(const Series& series);

}  // namespace onrt::tools::nccom
