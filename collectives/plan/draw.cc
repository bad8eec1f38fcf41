// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/draw.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "collectives/plan/check_shape.h"
#include "collectives/plan/verify.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr int kStepWidth = 140;
constexpr int kStepHeight = 26;
constexpr int kColumn = 166;
constexpr int kRow = 54;
constexpr int kLeft = 110;
constexpr int kTop = 60;

constexpr std::array<std::string_view, 7> kColours = {"#dbe9f6", "#9ecae1", "#c7e9c0", "#fdd0a2",
                                                      "#eeeeee", "#ffffff", "#d9d9d9"};

struct Lane {
  int rank = 0;
  int channel = 0;
  const std::vector<Step>* steps = nullptr;
  std::vector<int> columns;  // of the steps that run
};

struct Spot {
  size_t lane = 0;
  size_t step = 0;
};

// Columns by the longest chain of steps before, and which signal each wait takes last.
class Layout {
 public:
  explicit Layout(const Schedule& schedule) : schedule_(schedule) {
    for (size_t rank = 0; rank < schedule.programs.size(); ++rank) {
      const auto& channels = schedule.programs[rank].channels;
      for (size_t channel = 0; channel < channels.size(); ++channel) {
        lanes_.push_back(
            {static_cast<int>(rank), static_cast<int>(channel), &channels[channel], {}});
      }
    }
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        while (place_step(lane)) {
          moved = true;
        }
      }
      moved = place_barriers() || moved;
    }
  }

  const std::vector<Lane>& lanes() const { return lanes_; }
  const std::vector<std::pair<Spot, Spot>>& signals() const { return arrows_; }
  int columns() const { return columns_; }
  int column(size_t lane, size_t step) const {
    const auto& placed = lanes_[lane].columns;
    // Steps that never run stand behind the others.
    return step < placed.size()
               ? placed[step]
               : (placed.empty() ? 0 : placed.back() + 1) + static_cast<int>(step - placed.size());
  }
  bool runs(size_t lane, size_t step) const { return step < lanes_[lane].columns.size(); }

 private:
  struct Counter {
    uint64_t signalled = 0;
    uint64_t taken = 0;
    std::deque<std::pair<uint64_t, Spot>> signals;
  };

  int next_column(const Lane& lane) const {
    return lane.columns.empty() ? 0 : lane.columns.back() + 1;
  }

  void put(Lane& lane, int column) {
    lane.columns.push_back(column);
    columns_ = std::max(columns_, column + 1);
  }

  bool place_step(size_t index) {
    Lane& lane = lanes_[index];
    if (lane.columns.size() == lane.steps->size()) {
      return false;
    }
    const Step& step = (*lane.steps)[lane.columns.size()];
    if (step.kind == StepKind::kBarrier) {
      return false;
    }
    int column = next_column(lane);
    const Spot here = {index, lane.columns.size()};
    if (step.kind == StepKind::kSignal) {
      Counter& counter = counters_[{lane.rank, step.peer, step.counter}];
      counter.signalled += step.amount;
      counter.signals.emplace_back(counter.signalled, here);
    } else if (step.kind == StepKind::kWait) {
      Counter& counter = counters_[{step.peer, lane.rank, step.counter}];
      if (counter.taken + step.amount > counter.signalled) {
        return false;
      }
      counter.taken += step.amount;
      while (counter.signals.front().first < counter.taken) {
        counter.signals.pop_front();
      }
      const Spot from = counter.signals.front().second;
      column = std::max(column, lanes_[from.lane].columns[from.step] + 1);
      arrows_.emplace_back(from, here);
    }
    put(lane, column);
    return true;
  }

  bool place_barriers() {
    bool placed = false;
    for (int channel = 0; channel < kMaxChannels; ++channel) {
      std::vector<Lane*> standing;
      int column = 0;
      for (Lane& lane : lanes_) {
        const size_t next = lane.columns.size();
        if (lane.channel == channel && next < lane.steps->size() &&
            (*lane.steps)[next].kind == StepKind::kBarrier) {
          standing.push_back(&lane);
          column = std::max(column, next_column(lane));
        }
      }
      if (standing.size() == schedule_.programs.size()) {
        for (Lane* lane : standing) {
          put(*lane, column);
        }
        placed = true;
      }
    }
    return placed;
  }

  const Schedule& schedule_;
  std::vector<Lane> lanes_;
  std::map<std::tuple<int, int, uint32_t>, Counter> counters_;
  std::vector<std::pair<Spot, Spot>> arrows_;
  int columns_ = 0;
};

Status check_drawable(const Schedule& schedule) {
  ONRT_RETURN_IF_ERROR(check_spec(schedule.spec));
  if (schedule.programs.size() != static_cast<size_t>(schedule.spec.ranks)) {
    return {NRT_INVALID, format("expected {} programs, found {}", schedule.spec.ranks,
                                schedule.programs.size())};
  }
  // Signals that nobody waits for can be drawn; steps that mean nothing can't.
  for (const Finding& finding : check_shape(schedule)) {
    if (finding.step >= 0 || finding.rank >= 0) {
      return {NRT_INVALID, "can't be drawn: " + finding_text(finding)};
    }
  }
  uint64_t steps = 0;
  for (const RankProgram& program : schedule.programs) {
    for (const auto& channel : program.channels) {
      steps += channel.size();
    }
  }
  if (steps > kMostDrawnSteps) {
    return {NRT_INVALID, format("{} steps are too many for a picture; at most {} are drawn", steps,
                                kMostDrawnSteps)};
  }
  return {};
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Names come from files: no control characters.
        out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return out;
}

std::string title_of(const Schedule& schedule) {
  return format("{} by {}, {} ranks, {} elements", op_name(schedule.spec.op), schedule.algorithm,
                schedule.spec.ranks, schedule.spec.count);
}

std::set<int> other_ranks(std::span<const Operand> operands, int rank) {
  std::set<int> ranks;
  for (const Operand& operand : operands) {
    if (operand.rank != rank) {
      ranks.insert(operand.rank);
    }
  }
  return ranks;
}

class SvgWriter {
 public:
  SvgWriter(const Schedule& schedule, const Layout& layout) : schedule_(schedule), layout_(layout) {
    for (size_t lane = 0; lane < layout.lanes().size(); ++lane) {
      // The first lane of each rank: where arrows of data to it end.
      first_lane_.try_emplace(layout.lanes()[lane].rank, lane);
    }
  }

  std::string write() {
    const int width = kLeft + last_column() * kColumn + kColumn;
    const int height = kTop + static_cast<int>(layout_.lanes().size()) * kRow + 20;
    text_ = format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
        "viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"11\">\n"
        "<title>{}</title>\n"
        "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" "
        "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\"/></marker></defs>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"10\" y=\"24\" font-size=\"15\">{}</text>\n"
        "<text x=\"10\" y=\"42\" fill=\"#555\">full arrows: data to or from a rank; dashed: "
        "signals; from left to right: what waits for what</text>\n",
        width, height, width, height, escaped(title_of(schedule_)), escaped(title_of(schedule_)));
    for (size_t lane = 0; lane < layout_.lanes().size(); ++lane) {
      write_lane(lane, width);
    }
    for (const auto& [from, to] : layout_.signals()) {
      arrow(right(from), to_left(to), "stroke=\"#888\" stroke-dasharray=\"4 3\"");
    }
    for (size_t lane = 0; lane < layout_.lanes().size(); ++lane) {
      write_data_arrows(lane);
    }
    for (size_t lane = 0; lane < layout_.lanes().size(); ++lane) {
      write_boxes(lane);
    }
    return text_ + "</svg>\n";
  }

 private:
  struct Point {
    int x = 0;
    int y = 0;
  };

  int last_column() const {
    int last = 1;
    for (size_t lane = 0; lane < layout_.lanes().size(); ++lane) {
      const size_t steps = layout_.lanes()[lane].steps->size();
      last = steps == 0 ? last : std::max(last, layout_.column(lane, steps - 1) + 1);
    }
    return last;
  }

  Point corner(Spot spot) const {
    return {kLeft + layout_.column(spot.lane, spot.step) * kColumn,
            kTop + static_cast<int>(spot.lane) * kRow + (kRow - kStepHeight) / 2};
  }
  Point right(Spot spot) const {
    return {corner(spot).x + kStepWidth, corner(spot).y + kStepHeight / 2};
  }
  Point to_left(Spot spot) const { return {corner(spot).x, corner(spot).y + kStepHeight / 2}; }

  void arrow(Point from, Point to, std::string_view style) {
    text_ += format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {} marker-end=\"url(#a)\"/>\n",
                    from.x, from.y, to.x, to.y, style);
  }

  void write_lane(size_t index, int width) {
    const Lane& lane = layout_.lanes()[index];
    const int y = kTop + static_cast<int>(index) * kRow;
    text_ += format(
        "<rect x=\"0\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n"
        "<text x=\"10\" y=\"{}\">rank {}, channel {}</text>\n",
        y, width, kRow, lane.rank % 2 == 0 ? "#f7f7f7" : "#fdfdfd", y + kRow / 2 + 4, lane.rank,
        lane.channel);
  }

  // Short stubs towards the lane of the other rank: whole lines of 64 ranks would hide the steps.
  void write_data_arrows(size_t index) {
    const Lane& lane = layout_.lanes()[index];
    const RankProgram& program = schedule_.programs[static_cast<size_t>(lane.rank)];
    for (size_t i = 0; i < lane.steps->size(); ++i) {
      const Step& step = (*lane.steps)[i];
      const Point box = corner({index, i});
      for (const int other : other_ranks(program.step_outputs(step), lane.rank)) {
        data_arrow(box, index, other, true);
      }
      for (const int other : other_ranks(program.inputs(step), lane.rank)) {
        data_arrow(box, index, other, false);
      }
    }
  }

  void data_arrow(Point box, size_t index, int other, bool outwards) {
    const auto found = first_lane_.find(other);
    if (found == first_lane_.end()) {
      return;
    }
    const bool down = found->second > index;
    const Point here = {box.x + kStepWidth / 2, box.y + (down ? kStepHeight : 0)};
    const Point there = {box.x + kStepWidth / 2 + (outwards ? 14 : -14),
                         kTop + static_cast<int>(found->second) * kRow + (down ? 0 : kRow)};
    arrow(outwards ? here : there, outwards ? there : here, "stroke=\"#2171b5\"");
  }

  void write_boxes(size_t index) {
    const Lane& lane = layout_.lanes()[index];
    const RankProgram& program = schedule_.programs[static_cast<size_t>(lane.rank)];
    for (size_t i = 0; i < lane.steps->size(); ++i) {
      const Step& step = (*lane.steps)[i];
      const Point box = corner({index, i});
      text_ += format(
          "<g><title>step {}: {}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
          "rx=\"4\" fill=\"{}\" stroke=\"{}\"/><text x=\"{}\" y=\"{}\" "
          "text-anchor=\"middle\">{}</text></g>\n",
          i, escaped(step_text(program, step, lane.rank)), box.x, box.y, kStepWidth, kStepHeight,
          kColours[static_cast<size_t>(step.kind)], layout_.runs(index, i) ? "#444" : "#d00",
          box.x + kStepWidth / 2, box.y + 17, escaped(step_label(program, step)));
    }
  }

  const Schedule& schedule_;
  const Layout& layout_;
  std::map<int, size_t> first_lane_;
  std::string text_;
};

std::string ranks_text(std::span<const Operand> operands) {
  std::string text;
  for (size_t i = 0; i < operands.size() && i < 4; ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(operands[i].rank);
  }
  return text + (operands.size() > 4 ? ",.." : "");
}

std::string operands_text(std::span<const Operand> operands, int rank) {
  std::string text;
  for (const Operand& operand : operands) {
    text +=
        format("{}{}[{}]", text.empty() ? "" : ", ", buffer_name(operand.buffer), operand.offset);
    text += operand.rank == rank ? "" : format(" of {}", operand.rank);
  }
  return text;
}

}  // namespace

std::string step_label(const RankProgram& program, const Step& step) {
  const std::string name(step_kind_name(step.kind));
  switch (step.kind) {
    case StepKind::kCopy:
      return format("{} x {}", name, step.count);
    case StepKind::kPut:
      return format("{} -> {} x {}", name, ranks_text(program.step_outputs(step)), step.count);
    case StepKind::kGet:
      return format("{} {} x {}", name, ranks_text(program.inputs(step)), step.count);
    case StepKind::kReduce:
      return format("{} {} -> {} x {}", name, step.inputs, step.outputs, step.count);
    case StepKind::kSignal:
    case StepKind::kWait:
      return format("{} {}", name, step.peer) +
             (step.amount == 1 ? "" : format(" by {}", step.amount));
    default:
      return name;
  }
}

std::string step_text(const RankProgram& program, const Step& step, int rank) {
  if (moves_data(step.kind)) {
    return format("{} {} -> {}, {} elements", step_kind_name(step.kind),
                  operands_text(program.inputs(step), rank),
                  operands_text(program.step_outputs(step), rank), step.count);
  }
  if (step.kind == StepKind::kBarrier) {
    return "barrier";
  }
  return format("{} rank {}, counter {}, amount {}", step_kind_name(step.kind), step.peer,
                step.counter, step.amount);
}

Result<std::string> draw_dot(const Schedule& schedule) {
  ONRT_RETURN_IF_ERROR(check_drawable(schedule));
  const Layout layout(schedule);
  std::string text = format(
      "digraph schedule {{\n  rankdir=LR; node [shape=box, style=filled, "
      "fontname=\"sans-serif\"];\n"
      "  label=\"{}\";\n",
      escaped(title_of(schedule)));
  for (size_t index = 0; index < layout.lanes().size(); ++index) {
    const Lane& lane = layout.lanes()[index];
    const RankProgram& program = schedule.programs[static_cast<size_t>(lane.rank)];
    text += format("  subgraph cluster_{} {{ label=\"rank {}, channel {}\";\n", index, lane.rank,
                   lane.channel);
    for (size_t i = 0; i < lane.steps->size(); ++i) {
      const Step& step = (*lane.steps)[i];
      text += format("    s{}_{} [label=\"{}\", fillcolor=\"{}\"{}];\n", index, i,
                     step_label(program, step), kColours[static_cast<size_t>(step.kind)],
                     layout.runs(index, i) ? "" : ", color=red");
      text += i == 0 ? "" : format("    s{}_{} -> s{}_{};\n", index, i - 1, index, i);
    }
    text += "  }\n";
  }
  for (const auto& [from, to] : layout.signals()) {
    text += format("  s{}_{} -> s{}_{} [style=dashed, constraint=true];\n", from.lane, from.step,
                   to.lane, to.step);
  }
  return text + "}\n";
}

Result<std::string> draw_svg(const Schedule& schedule) {
  ONRT_RETURN_IF_ERROR(check_drawable(schedule));
  const Layout layout(schedule);
  return SvgWriter(schedule, layout).write();
}

}  // namespace onrt::cc
