// SPDX-License-Identifier: Apache-2.0
// The drawing below the table of `neuron-ls --topology`. A device takes 5 columns, a link 4:
//         *        *
//         |        |
//         v        v
//   *--->[ 0 ]<-->[ 1 ]<--*
// (in the real output lines and arrows are drawn with box characters).
#include <algorithm>
#include <optional>

#include "runtime/base/format.h"
#include "tools/neuron_ls/views.h"

namespace onrt::tools {
namespace {

struct Grid {
  int rows = 1;
  int columns = 1;
  bool wrap_rows = false;     // links between the first and the last device of a row
  bool wrap_columns = false;  // and of a column
};

const std::vector<int>& links(const observe::HostView& host, int device) {
  return host.devices[static_cast<size_t>(device)].info.connected_devices;
}

// Up, left, down, right: the order of the SDK's samples.
std::vector<int> torus_links(int device, int rows, int columns) {
  const int row = device / columns;
  const int column = device % columns;
  return {(row + rows - 1) % rows * columns + column,
          row * columns + (column + columns - 1) % columns, (row + 1) % rows * columns + column,
          row * columns + (column + 1) % columns};
}

std::vector<int> line_links(int device, int count, bool ring) {
  std::vector<int> found;
  if (device > 0 || ring) {
    found.push_back((device + count - 1) % count);
  }
  if (device + 1 < count || ring) {
    found.push_back((device + 1) % count);
  }
  return found;
}

template <class Rule>
bool all_match(const observe::HostView& host, Rule&& rule) {
  for (int device = 0; device < static_cast<int>(host.devices.size()); ++device) {
    if (links(host, device) != rule(device)) {
      return false;
    }
  }
  return true;
}

// The shape that the links have; nothing when they are neither a torus nor a line.
std::optional<Grid> find_grid(const observe::HostView& host) {
  const int count = static_cast<int>(host.devices.size());
  if (links(host, 0).size() == 4) {
    const int columns = links(host, 0)[2];  // the device below the first one
    if (columns > 0 && count % columns == 0 &&
        all_match(host, [&](int d) { return torus_links(d, count / columns, columns); })) {
      return Grid{count / columns, columns, true, true};
    }
    return std::nullopt;
  }
  for (const bool ring : {false, true}) {
    if (all_match(host, [&](int d) { return line_links(d, count, ring); })) {
      return Grid{1, count, ring, false};
    }
  }
  return std::nullopt;
}

std::string device_cell(int device) {
  return device < 10 ? format("[ {} ]", device)
                     : (device < 100 ? format("[{} ]", device) : format("[{}]", device));
}

constexpr int kMarginColumns = 4;
constexpr int kLinkColumns = 4;

// A line with `mark` above or below the middle of every device.
std::string mark_line(const Grid& grid, std::string_view mark) {
  std::string line(kMarginColumns, ' ');
  for (int column = 0; column < grid.columns; ++column) {
    line += column > 0 ? std::string(kLinkColumns, ' ') : "";
    line += "  " + std::string(mark) + "  ";
  }
  return line + std::string(kMarginColumns, ' ') + "\n";
}

std::string device_line(const Grid& grid, int row) {
  std::string line = grid.wrap_rows ? "*––►" : std::string(kMarginColumns, ' ');
  for (int column = 0; column < grid.columns; ++column) {
    line += column > 0 ? "◄––►" : "";
    line += device_cell(row * grid.columns + column);
  }
  return line + (grid.wrap_rows ? "◄––*" : std::string(kMarginColumns, ' ')) + "\n";
}

std::string marks(const Grid& grid, std::initializer_list<std::string_view> lines) {
  std::string out;
  for (const std::string_view mark : lines) {
    out += mark_line(grid, mark);
  }
  return out;
}

std::string draw(const Grid& grid) {
  std::string out = grid.wrap_columns ? marks(grid, {"*", "│", "▼"}) : "";
  for (int row = 0; row < grid.rows; ++row) {
    out += row > 0 ? marks(grid, {"▲", "│", "▼"}) : "";
    out += device_line(grid, row);
  }
  out += grid.wrap_columns ? marks(grid, {"▲", "│", "*"}) : "";
  if (grid.wrap_rows) {
    out += "\nLegend:\n\n        *––► = Wrap-around link\n";
  }
  return out;
}

}  // namespace

std::string topology_view(const observe::HostView& host) {
  std::string out = "\n\nNeuron Device Topology\n";
  const bool linked = std::any_of(host.devices.begin(), host.devices.end(), [](const auto& device) {
    return !device.info.connected_devices.empty();
  });
  if (!linked) {
    for (const observe::DeviceView& device : host.devices) {
      out += std::string(kMarginColumns, ' ') + device_cell(device.info.index) + "\n";
    }
    return out + "\nNo fixed links between devices.\n";
  }
  if (const auto grid = find_grid(host)) {
    return out + draw(*grid);
  }
  for (const observe::DeviceView& device : host.devices) {
    out += std::string(kMarginColumns, ' ') + device_cell(device.info.index) + "◄––►";
    std::string separator;
    for (const int other : device.info.connected_devices) {
      out += separator + std::to_string(other);
      separator = ", ";
    }
    out += "\n";
  }
  return out;
}

}  // namespace onrt::tools
