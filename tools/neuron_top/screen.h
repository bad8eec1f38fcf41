// SPDX-License-Identifier: Apache-2.0
// neuron-top's screen as text with styles: a model and what the user chose in, lines out. No
// terminal is needed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tools/neuron_top/model.h"

namespace onrt::tools {

enum class Style : uint8_t { kPlain, kTitle, kHeading, kGreen, kRed, kDim, kSelected, kTab, kBar };

struct Span {
  std::string text;
  Style style = Style::kPlain;
};
using Line = std::vector<Span>;

enum class Key : uint8_t {
  kUp,
  kDown,
  kLeft,
  kRight,
  kEnter,
  kExpandAll,
  kPrevious,
  kNext,
  kFlops
};

// What the user chose. The tab is remembered by process, so that it stays when others come and go.
struct TopState {
  int tab_pid = 0;  // 0: all
  std::string tab_tag;
  bool flops = false;
  int selected = 0;  // row of the tree
  int first = 0;     // first row that is shown
  std::set<std::string> expanded{"nd0", "nd0.nc0"};

  // Brings the state in line with a model in which applications came and went.
  void follow(const TopModel& model);
  void press(Key key, const TopModel& model);
  void choose_tab(size_t number, const TopModel& model);  // 1: all
};

// Applications of the chosen tab.
std::vector<const App*> chosen_apps(const TopModel& model, const TopState& state);
std::vector<TreeRow> tree_rows(const TopModel& model, const TopState& state);

inline constexpr int kLeastWidth = 40;
inline constexpr int kLeastHeight = 12;

// `height` lines of at most `width` columns. height 0: as many as there are. Moves state.first so
// that the selected row is seen.
std::vector<Line> draw(const TopModel& model, TopState& state, int width, int height);
std::string plain_text(const std::vector<Line>& lines);

}  // namespace onrt::tools
