// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_top/screen.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/format.h"
#include "tools/common/args.h"
#include "tools/common/table.h"

namespace onrt::tools {
namespace {

std::string fit(const std::string& text, int width) {
  const auto columns = static_cast<size_t>(std::max(0, width));
  if (text_width(text) > columns) {
    return columns < 4 ? text.substr(0, columns) : shortened(text, columns);
  }
  return text + std::string(columns - text_width(text), ' ');
}

Line heading(const std::string& text, int width) { return {{fit(text, width), Style::kHeading}}; }

std::string centred(const std::string& text, int width) {
  const int space = std::max(0, width - static_cast<int>(text_width(text)));
  return fit(std::string(static_cast<size_t>(space / 2), ' ') + text, width);
}

// A bar of `width` columns that is full to `percent`.
Line bar(double percent, int width, Style style) {
  const int full = std::clamp(static_cast<int>(std::lround(percent / 100 * width)), 0, width);
  return {{std::string(static_cast<size_t>(full), '|'), style},
          {std::string(static_cast<size_t>(width - full), ' '), Style::kBar}};
}

void append(Line* line, Line more) {
  for (Span& span : more) {
    if (!span.text.empty()) {
      line->push_back(std::move(span));
    }
  }
}

struct CoreValue {
  double percent = 0;
  double flops = 0;
};

// By device, then core.
std::vector<std::vector<CoreValue>> core_values(const TopModel& model, const TopState& state) {
  const auto cores = static_cast<size_t>(model.machine.logical_cores_per_device());
  std::vector<std::vector<CoreValue>> values(static_cast<size_t>(model.machine.device_count),
                                             std::vector<CoreValue>(cores));
  for (const App* app : chosen_apps(model, state)) {
    for (const AppCore& core : app->cores) {
      for (int i = 0; i < core.width; ++i) {
        const auto device = static_cast<size_t>(core.device);
        const auto index = static_cast<size_t>(core.index + i);
        if (device < values.size() && index < cores) {
          values[device][index] = {core.percent, core.flops};
        }
      }
    }
  }
  return values;
}

std::string value_text(const CoreValue& value, bool flops) {
  return flops ? format("[{:>8.4f}]", value.flops * 1e-12) : format("[{:>6.2f}%]", value.percent);
}

double average(const std::vector<std::vector<CoreValue>>& values, bool flops) {
  double sum = 0;
  double count = 0;
  for (const auto& device : values) {
    for (const CoreValue& value : device) {
      sum += flops ? value.flops * 1e-12 : value.percent;
      ++count;
    }
  }
  return count == 0 ? 0 : sum / count;
}

class Painter {
 public:
  Painter(const TopModel& model, TopState& state, int width, int height)
      : model_(model), state_(state), width_(width), height_(height) {}

  std::vector<Line> draw() {
    // A short screen gives up blank lines first, then rows of devices; the tree keeps three rows.
    constexpr int kFixed = 13;  // titles, headings, figures, the two lines at the bottom
    constexpr int kLeastTree = 3;
    const int devices = model_.machine.device_count;
    int spare = height_ == 0 ? devices + 4 : height_ - kFixed - kLeastTree;
    const int device_rows = std::clamp(spare, 1, std::max(1, devices));
    spare -= device_rows;
    const bool blanks = spare >= 4;
    const std::string& id = model_.machine.instance_id;
    add({{centred(format("neuron-top {} running on {}{}({})", tools_version(), printable(id),
                         id.empty() ? "" : " ", printable(model_.machine.instance_type)),
                  width_),
          Style::kTitle}});
    blank(blanks);
    cores(device_rows);
    blank(blanks);
    vcpus();
    blank(blanks);
    memory();
    blank(blanks);
    const int used = static_cast<int>(lines_.size()) + 2 + 2;
    tree(height_ == 0 ? 0 : std::max(1, height_ - used));
    tabs();
    return std::move(lines_);
  }

 private:
  void add(Line line) { lines_.push_back(std::move(line)); }
  void blank(bool wanted) {
    if (wanted) {
      lines_.emplace_back();
    }
  }

  void cores(int rows) {
    const auto values = core_values(model_, state_);
    const double mean = average(values, state_.flops);
    const std::string version = observe::core_version(model_.machine);
    add(heading(state_.flops ? format("NeuronCore {} TFLOPS (Avg: {:.4f})", version, mean)
                             : format("NeuronCore {} Utilization (Avg: {:.2f}%)", version, mean),
                width_));
    const int count = std::max(1, model_.machine.logical_cores_per_device());
    constexpr int kLabel = 8;
    const int cell = std::max(1, (width_ - kLabel) / count);
    Line titles{{std::string(kLabel, ' '), Style::kPlain}};
    for (int i = 0; i < count; ++i) {
      titles.push_back({centred(format("NC{}", i), cell), Style::kPlain});
    }
    add(std::move(titles));
    const auto devices = static_cast<int>(values.size());
    const int whole = rows >= devices ? devices : rows - 1;
    for (int device = 0; device < whole; ++device) {
      add(core_line(fit(format("ND{}", device), kLabel), values[static_cast<size_t>(device)],
                    cell));
    }
    if (whole < devices) {
      add(core_line(fit(format("+{} ND", devices - whole), kLabel), means(values, whole), cell));
    }
  }

  // Means over the devices from `first` on, which have no row of their own.
  static std::vector<CoreValue> means(const std::vector<std::vector<CoreValue>>& values,
                                      int first) {
    std::vector<CoreValue> mean(values.front().size());
    const auto count = static_cast<double>(values.size()) - first;
    for (auto device = static_cast<size_t>(first); device < values.size(); ++device) {
      for (size_t i = 0; i < mean.size(); ++i) {
        mean[i].percent += values[device][i].percent / count;
        mean[i].flops += values[device][i].flops / count;
      }
    }
    return mean;
  }

  Line core_line(const std::string& label, const std::vector<CoreValue>& values, int cell) const {
    Line line{{label, Style::kPlain}};
    for (const CoreValue& value : values) {
      const std::string text = value_text(value, state_.flops);
      const int room = cell - static_cast<int>(text.size()) - 1;
      if (room >= 2) {
        append(&line, bar(value.percent, room, Style::kGreen));
        line.push_back({text + " ", Style::kPlain});
      } else {
        const std::string brief =
            state_.flops ? format("{:.3g}", value.flops * 1e-12) : format("{:.0f}%", value.percent);
        line.push_back({fit(cell > static_cast<int>(text.size()) ? text : brief, cell),
                        value.percent > 0 ? Style::kGreen : Style::kPlain});
      }
    }
    return line;
  }

  void vcpus() {
    double user = 0;
    double system = 0;
    for (const App* app : chosen_apps(model_, state_)) {
      user += app->user_percent;
      system += app->system_percent;
    }
    add(heading("vCPU Utilization", width_));
    add(vcpu_line("System vCPU Usage ", model_.system_user, model_.system_system));
    add(vcpu_line("Runtime vCPU Usage", user, system));
  }

  Line vcpu_line(const std::string& label, double user, double system) const {
    const std::string text = format("[{:>5.2f}%,{:>5.2f}%]", user, system);
    const int room = std::max(0, width_ - static_cast<int>(label.size() + text.size()) - 3);
    const int user_columns = std::clamp(static_cast<int>(std::lround(user / 100 * room)), 0, room);
    const int system_columns =
        std::clamp(static_cast<int>(std::lround(system / 100 * room)), 0, room - user_columns);
    Line line{{label + " ", Style::kPlain}};
    append(&line, {{std::string(static_cast<size_t>(user_columns), '|'), Style::kGreen},
                   {std::string(static_cast<size_t>(system_columns), '|'), Style::kRed},
                   {std::string(static_cast<size_t>(room - user_columns - system_columns), ' '),
                    Style::kBar}});
    line.push_back({" " + text, Style::kPlain});
    return line;
  }

  void memory() {
    observe::HostMemory host;
    observe::DeviceMemory device;
    for (const App* app : chosen_apps(model_, state_)) {
      host += app->host;
      device += app->device;
    }
    add(heading("Memory Usage Summary", width_));
    add(figures("Host Used Memory  ", {{"Total", host.total()},
                                       {"Tensors", host.tensors},
                                       {"Constants", host.constants},
                                       {"DMA Buffers", host.dma_buffers},
                                       {"App. Memory", host.application}}));
    add(figures("Device Used Memory", {{"Total", device.total()},
                                       {"Tensors", device.tensors},
                                       {"Constants", device.constants},
                                       {"Model Code", device.model_code},
                                       {"Runtime Memory", device.runtime},
                                       {"Model Scratchpad", device.scratchpad}}));
  }

  // On a narrow screen the names are short: "Tensors" becomes "T".
  Line figures(const std::string& label,
               const std::vector<std::pair<std::string, uint64_t>>& values) const {
    constexpr int kWide = 150;
    constexpr int kColumns = 6;
    const bool wide = width_ >= kWide;
    const int label_width = wide ? static_cast<int>(label.size()) + 1 : 7;
    Line line{
        {wide ? label + " " : fit(label.substr(0, label.find(' ')), label_width), Style::kPlain}};
    const int cell = std::max(1, (width_ - label_width) / kColumns);
    for (const auto& [name, bytes] : values) {
      const std::string amount = short_bytes(bytes);
      const int room = cell - static_cast<int>(amount.size()) - 3;
      const std::string shown = room < 1 ? "" : fit(name, room);
      const std::string title =
          shown.empty() ? "" : shown.substr(0, shown.find_last_not_of(' ') + 1) + ": ";
      line.push_back({title, Style::kPlain});
      line.push_back({fit(amount, cell - static_cast<int>(title.size())), Style::kGreen});
    }
    return line;
  }

  void tree(int room) {
    const std::vector<TreeRow> rows = tree_rows(model_, state_);
    constexpr int kNarrow = 70;
    const int amount = width_ < kNarrow ? 10 : 14;
    const int id = width_ < kNarrow ? 7 : 12;
    const int name = std::max(8, width_ - 2 * amount - id);
    add(heading("Memory Usage Details", width_));
    add({{fit("", name) + fit("Model ID", id) + fit("Device Memory", amount) +
              fit("Host Memory", amount),
          Style::kPlain}});
    const auto count = static_cast<int>(rows.size());
    const int shown = room == 0 ? count : room;
    state_.selected = std::clamp(state_.selected, 0, std::max(0, count - 1));
    state_.first = std::clamp(state_.first, std::max(0, state_.selected - shown + 1),
                              std::max(0, state_.selected));
    state_.first = std::clamp(state_.first, 0, std::max(0, count - shown));
    for (int i = state_.first; i < state_.first + shown; ++i) {
      if (i >= count) {
        lines_.emplace_back();
        continue;
      }
      const TreeRow& row = rows[static_cast<size_t>(i)];
      const std::string mark = row.key.empty() ? "    " : row.expanded ? "[-] " : "[+] ";
      const std::string text =
          fit(std::string(static_cast<size_t>(row.depth * 4), ' ') + mark + row.label, name) +
          fit(row.model_id, id) + fit(short_bytes(row.device_bytes), amount) +
          fit(short_bytes(row.host_bytes), amount);
      const bool selected = i == state_.selected && height_ != 0;
      add({{fit(text, width_), selected  ? Style::kSelected
                               : row.dim ? Style::kDim
                                         : Style::kPlain}});
    }
  }

  void tabs() {
    Line line{{"Neuron Apps ", Style::kTab}};
    int left = width_ - 12;
    for (size_t i = 0; i <= model_.apps.size() && left > 8; ++i) {
      const bool chosen = i == 0 ? state_.tab_tag.empty() && state_.tab_pid == 0
                                 : state_.tab_pid == model_.apps[i - 1].pid &&
                                       state_.tab_tag == model_.apps[i - 1].tag;
      const std::string name = i == 0 ? "all" : shortened(printable(model_.apps[i - 1].tag), 24);
      std::string text =
          format("{}[{}]:{}{} ", chosen ? ">" : " ", i + 1, name, chosen ? "<" : " ");
      text = fit(text, std::min(left, static_cast<int>(text_width(text))));
      left -= static_cast<int>(text_width(text));
      line.push_back({text, chosen ? Style::kGreen : Style::kTab});
    }
    line.push_back({std::string(static_cast<size_t>(std::max(0, left)), ' '), Style::kTab});
    add(std::move(line));
    const std::string keys =
        width_ >= 156 ? "q: quit  arrows: move tree selection  enter: expand/collapse tree item  "
                        "x: expand/collapse entire tree  a/d: previous/next tab  f: FLOPS on/off  "
                        "1-9: select tab"
                      : "q: quit  arrows, enter, x: tree  a/d, 1-9: tab  f: FLOPS";
    add({{fit(keys, width_), Style::kTab}});
  }

  const TopModel& model_;
  TopState& state_;
  const int width_;
  const int height_;
  std::vector<Line> lines_;
};

}  // namespace

std::vector<Line> draw(const TopModel& model, TopState& state, int width, int height) {
  state.follow(model);
  if (width < kLeastWidth || (height != 0 && height < kLeastHeight)) {
    const std::string text =
        format("{}x{} is too small: at least {}x{}", width, height, kLeastWidth, kLeastHeight);
    return {{{fit(text, width), Style::kPlain}}};
  }
  std::vector<Line> lines = Painter(model, state, width, height).draw();
  if (height != 0 && lines.size() > static_cast<size_t>(height)) {
    // Fewer lines than the fixed ones need: the tree goes first, the tabs stay.
    const auto excess = static_cast<std::ptrdiff_t>(lines.size()) - height;
    lines.erase(lines.end() - 2 - excess, lines.end() - 2);
  }
  return lines;
}

std::string plain_text(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) {
    std::string one;
    for (const Span& span : line) {
      one += span.text;
    }
    text += one.substr(0, one.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace onrt::tools
