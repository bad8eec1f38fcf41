// SPDX-License-Identifier: Apache-2.0
#include "allocator/memory_stats.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <span>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt {
namespace {

// A column sums categories; a model's line shows "n/a" where a model can't have such memory.
struct Column {
  const char* top;
  const char* bottom;
  std::vector<MemoryCategory> categories;
  bool of_model;
};

// "Runtime" holds what the vendor's table has no column for: notification queues and memory that
// nobody labelled. Our DMA rings belong to the runtime, not to a model.
const std::vector<Column>& columns() {
  using enum MemoryCategory;
  static const std::vector<Column> kColumns = {
      {"Model", "Code", {kModelCode}, true},
      {"Model", "Constants", {kConstants}, true},
      {"", "Tensors", {kTensors}, false},
      {"", "Scratchpad", {kScratchpad}, true},
      {"Shared", "Scratchpad", {kSharedScratchpad}, false},
      {"", "Runtime", {kRuntime, kNotifications, kUncategorized}, true},
      {"DMA Rings", "Runtime", {kDmaRings}, true},
      {"", "Collectives", {kCollectives}, true},
      {"Profiler", "Buffers", {kProfiler}, false},
  };
  return kColumns;
}

constexpr int kLabelWidth = 15;
// Rows of models in a table, per core: PyTorch loads a program for each operation and shape.
constexpr size_t kListedModels = 16;

std::string cell(std::string_view text) { return format("{:^11}|", text); }

std::string line(const std::string& label, const MemoryUsage& usage, bool of_model) {
  std::string out = format("{:<{}}|", label, kLabelWidth) + cell(format_table_bytes(usage.total()));
  for (const Column& column : columns()) {
    uint64_t bytes = 0;
    for (const MemoryCategory category : column.categories) {
      bytes += usage.of(category);
    }
    out += cell(of_model && !column.of_model ? "n/a" : format_table_bytes(bytes));
  }
  return out + "\n";
}

void accumulate(MemoryUsage& into, const MemoryUsage& from) {
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    into.bytes[i] += from.bytes[i];
  }
}

}  // namespace

uint64_t MemoryUsage::total() const {
  uint64_t sum = 0;
  for (const uint64_t category : bytes) {
    sum += category;
  }
  return sum;
}

std::string format_table_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  double scaled = static_cast<double>(bytes);
  int unit = 0;
  while (scaled >= 1024.0 && unit < 4) {
    scaled /= 1024.0;
    ++unit;
  }
  return format("{:.3f}{}", scaled, kUnits[unit]);
}

std::string usage_list(const MemoryUsage& usage) {
  std::string out = format("\t* total: {}\n", format_table_bytes(usage.total()));
  for (size_t i = 0; i < kMemoryCategories; ++i) {
    out += format("\t* {}: {}\n", memory_category_name(static_cast<MemoryCategory>(i)),
                  format_table_bytes(usage.bytes[i]));
  }
  return out;
}

void MemoryLedger::add(int core, uint32_t model, MemoryCategory category, int64_t bytes) {
  auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& candidate) {
    return candidate.core == core && candidate.model == model;
  });
  if (row == rows_.end()) {
    rows_.push_back({core, model, {}});
    row = std::prev(rows_.end());
  }
  row->usage.bytes[static_cast<size_t>(category)] += static_cast<uint64_t>(bytes);
}

void MemoryLedger::forget_model(uint32_t model) {
  names_.erase(model);
  std::erase_if(rows_,
                [&](const Row& row) { return row.model == model && row.usage.total() == 0; });
}

MemoryUsage MemoryLedger::usage_of_core(int core) const {
  MemoryUsage sum;
  for (const Row& row : rows_) {
    if (row.core == core) {
      accumulate(sum, row.usage);
    }
  }
  return sum;
}

MemoryUsage MemoryLedger::usage() const {
  MemoryUsage sum;
  for (const Row& row : rows_) {
    accumulate(sum, row.usage);
  }
  return sum;
}

std::string MemoryLedger::table(int device, int cores_per_device) const {
  std::string out = format("{:<{}}|", "", kLabelWidth) + cell("");
  for (const Column& column : columns()) {
    out += cell(column.top);
  }
  out += format("\n{:<{}}|", "", kLabelWidth) + cell("TOTAL");
  for (const Column& column : columns()) {
    out += cell(column.bottom);
  }
  out += "\n" + line(format("ND {} Overall", device), usage(), false);
  std::map<int, std::vector<const Row*>> by_core;
  for (const Row& row : rows_) {
    by_core[row.core].push_back(&row);
  }
  std::set<uint32_t> listed;
  for (const auto& [core, rows] : by_core) {
    out += line(format("\\_NC {}", core % cores_per_device), usage_of_core(core), false);
    out += models_of_core(rows, &listed);
  }
  std::string mapping;
  for (const uint32_t model : listed) {
    if (const auto name = names_.find(model); name != names_.end()) {
      mapping += format("{}: \"{}\"\n", model, name->second);
    }
  }
  return mapping.empty() ? out : out + "\nNEFF id to name mapping:\n" + mapping;
}

// The largest ones by themselves, the others as one row.
std::string MemoryLedger::models_of_core(std::vector<const Row*> rows,
                                         std::set<uint32_t>* listed) const {
  std::erase_if(rows, [](const Row* row) { return row->model == 0; });
  std::ranges::stable_sort(rows, std::greater{}, [](const Row* row) { return row->usage.total(); });
  const size_t shown = rows.size() <= kListedModels ? rows.size() : kListedModels - 1;
  std::string out;
  for (const Row* row : std::span(rows).first(shown)) {
    out += line(format("  \\_NEFF {}", row->model), row->usage, true);
    listed->insert(row->model);
  }
  MemoryUsage rest;
  for (const Row* row : std::span(rows).subspan(shown)) {
    accumulate(rest, row->usage);
  }
  if (shown < rows.size()) {
    out += line(format("  \\_{} others", rows.size() - shown), rest, true);
  }
  return out;
}

bool write_memory_table(const std::string& folder, const HbmId& hbm, const std::string& text) {
  const std::string path =
      format("{}/neuron_mem_table_device_{}_hbm_{}.log", folder, hbm.device, hbm.stack);
  // Not O_TRUNC: nothing may be changed before the checks below.
  const UniqueFd file = open_file(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
  struct stat facts{};
  if (!file.valid() || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) ||
      facts.st_uid != ::geteuid() || facts.st_nlink != 1 ||
      !check_file_size_limit(text.size(), path).ok() || ::ftruncate(file.get(), 0) != 0) {
    return false;
  }
  return write_fully(file.get(), text);
}

}  // namespace onrt
