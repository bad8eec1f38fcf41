// SPDX-License-Identifier: Apache-2.0
// Tables for terminals:
//   +--------+-------+
//   | NEURON | CORES |
//   +--------+-------+
//   | 0      | 4     |
//   +--------+-------+
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onrt::tools {

// Characters (code points) that a terminal shows for UTF-8 text.
size_t text_width(std::string_view text);

// Control characters (a terminal would obey them) and bytes that are not UTF-8 become '?'.
std::string printable(std::string_view text);

// First `width` characters; "..." replaces the end of longer text. Width at least 3.
std::string shortened(std::string_view text, size_t width);

enum class Rules { kOutside, kAfterEachGroup };

class Table {
 public:
  // Heading lines, centred; columns may have different numbers of them.
  void add_column(std::vector<std::string> heading) { columns_.push_back(std::move(heading)); }
  // Rows of one group stay together; cells are left-aligned.
  void add_row(std::vector<std::string> cells) { groups_.push_back({std::move(cells)}); }
  void add_group(std::vector<std::vector<std::string>> rows) { groups_.push_back(std::move(rows)); }
  std::string text(Rules rules) const;

 private:
  std::vector<size_t> widths() const;

  std::vector<std::vector<std::string>> columns_;
  std::vector<std::vector<std::vector<std::string>>> groups_;
};

}  // namespace onrt::tools
