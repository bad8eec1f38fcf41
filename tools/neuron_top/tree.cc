// SPDX-License-Identifier: Apache-2.0
// The tree of neuron-top, and the keys that move in it.
#include <algorithm>

#include "runtime/base/format.h"
#include "tools/common/table.h"
#include "tools/neuron_top/screen.h"

namespace onrt::tools {
namespace {

// What the chosen applications have on one core.
struct CoreMemory {
  observe::DeviceMemory memory;
  std::vector<const AppModel*> models;
};

CoreMemory memory_of(const std::vector<const App*>& apps, int device, int index) {
  CoreMemory found;
  for (const App* app : apps) {
    for (const AppCore& core : app->cores) {
      if (core.device == device && core.index == index) {
        found.memory += core.memory;
      }
    }
    for (const AppModel& model : app->models) {
      if (model.device == device && model.index == index) {
        found.models.push_back(&model);
      }
    }
  }
  return found;
}

void add_leaf(int depth, std::string label, uint64_t bytes, std::vector<TreeRow>* rows) {
  TreeRow row;
  row.depth = depth;
  row.label = std::move(label);
  row.device_bytes = bytes;
  rows->push_back(std::move(row));
}

void add_core(const CoreMemory& core, const std::string& key, const TopState& state,
              std::vector<TreeRow>* rows) {
  uint64_t code = 0;
  uint64_t constants = 0;
  for (const AppModel* model : core.models) {
    TreeRow row;
    row.depth = 2;
    row.key = format("{}.m{}", key, model->id);
    row.label = printable(model->name.empty() ? "model" : model->name);
    row.model_id = std::to_string(model->id);
    row.device_bytes = model->code_bytes + model->constants_bytes;
    row.expanded = state.expanded.contains(row.key);
    row.dim = !model->running;
    code += model->code_bytes;
    constants += model->constants_bytes;
    const bool open = row.expanded;
    rows->push_back(std::move(row));
    if (open) {
      add_leaf(3, "Constants", model->constants_bytes, rows);
      add_leaf(3, "Model Code", model->code_bytes, rows);
    }
  }
  // What no listed model has: the sum of the children is the core's total.
  add_leaf(2, "Tensors", core.memory.tensors, rows);
  add_leaf(2, "Constants", core.memory.constants - std::min(core.memory.constants, constants),
           rows);
  add_leaf(2, "Model Code", core.memory.model_code - std::min(core.memory.model_code, code), rows);
  add_leaf(2, "Runtime Memory", core.memory.runtime, rows);
  add_leaf(2, "Model Scratchpad", core.memory.scratchpad, rows);
}

void collect_keys(const TopModel& model, const TopState& state, std::set<std::string>* keys) {
  TopState open = state;
  for (int device = 0; device < model.machine.device_count; ++device) {
    open.expanded.insert(format("nd{}", device));
    for (int core = 0; core < model.machine.logical_cores_per_device(); ++core) {
      open.expanded.insert(format("nd{}.nc{}", device, core));
    }
  }
  for (const TreeRow& row : tree_rows(model, open)) {
    if (!row.key.empty()) {
      keys->insert(row.key);
    }
  }
}

// Position of the chosen tab among the applications plus one; 0: all.
size_t tab_position(const TopModel& model, const TopState& state) {
  for (size_t i = 0; i < model.apps.size(); ++i) {
    if (state.tab_tag == model.apps[i].tag && state.tab_pid == model.apps[i].pid) {
      return i + 1;
    }
  }
  return 0;
}

}  // namespace

std::vector<const App*> chosen_apps(const TopModel& model, const TopState& state) {
  std::vector<const App*> apps;
  const size_t tab = tab_position(model, state);
  for (size_t i = 0; i < model.apps.size(); ++i) {
    if (tab == 0 || tab == i + 1) {
      apps.push_back(&model.apps[i]);
    }
  }
  return apps;
}

std::vector<TreeRow> tree_rows(const TopModel& model, const TopState& state) {
  const std::vector<const App*> apps = chosen_apps(model, state);
  const int cores = model.machine.logical_cores_per_device();
  std::vector<TreeRow> rows;
  for (int device = 0; device < model.machine.device_count; ++device) {
    const size_t parent = rows.size();
    TreeRow row;
    row.key = format("nd{}", device);
    row.label = format("ND {}", device);
    row.expanded = state.expanded.contains(row.key);
    rows.push_back(row);
    for (int index = 0; index < cores; ++index) {
      const CoreMemory core = memory_of(apps, device, index);
      rows[parent].device_bytes += core.memory.total();
      if (!row.expanded) {
        continue;
      }
      TreeRow core_row;
      core_row.depth = 1;
      core_row.key = format("nd{}.nc{}", device, index);
      core_row.label = format("NC {}", index);
      core_row.device_bytes = core.memory.total();
      core_row.expanded = state.expanded.contains(core_row.key);
      rows.push_back(core_row);
      if (core_row.expanded) {
        add_core(core, core_row.key, state, &rows);
      }
    }
  }
  return rows;
}

void TopState::follow(const TopModel& model) {
  if (tab_position(model, *this) == 0) {
    tab_pid = 0;
    tab_tag.clear();
  }
  const auto rows = static_cast<int>(tree_rows(model, *this).size());
  selected = std::clamp(selected, 0, std::max(0, rows - 1));
}

void TopState::choose_tab(size_t number, const TopModel& model) {
  if (number == 1) {
    tab_pid = 0;
    tab_tag.clear();
  } else if (number >= 2 && number - 2 < model.apps.size()) {
    tab_pid = model.apps[number - 2].pid;
    tab_tag = model.apps[number - 2].tag;
  }
  follow(model);
}

void TopState::press(Key key, const TopModel& model) {
  follow(model);
  const std::vector<TreeRow> rows = tree_rows(model, *this);
  const size_t tabs = model.apps.size() + 1;
  const size_t tab = tab_position(model, *this);
  const std::string row = rows.empty() ? "" : rows[static_cast<size_t>(selected)].key;
  switch (key) {
    case Key::kUp:
      --selected;
      break;
    case Key::kDown:
      ++selected;
      break;
    case Key::kLeft:
      expanded.erase(row);
      break;
    case Key::kRight:
      if (!row.empty()) {
        expanded.insert(row);
      }
      break;
    case Key::kEnter:
      if (!row.empty() && expanded.erase(row) == 0) {
        expanded.insert(row);
      }
      break;
    case Key::kExpandAll: {
      const bool any = std::any_of(rows.begin(), rows.end(),
                                   [](const TreeRow& shown) { return shown.expanded; });
      expanded.clear();
      if (!any) {
        collect_keys(model, *this, &expanded);
      }
      break;
    }
    case Key::kPrevious:
      choose_tab((tab + tabs - 1) % tabs + 1, model);
      break;
    case Key::kNext:
      choose_tab((tab + 1) % tabs + 1, model);
      break;
    case Key::kFlops:
      flops = !flops;
      break;
  }
  follow(model);
}

}  // namespace onrt::tools
