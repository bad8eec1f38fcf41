// SPDX-License-Identifier: Apache-2.0
// Who uses the bytes of one HBM stack: per core, per model and per category, and the table that is
// printed when an allocation fails.
// Source of the table's layout: SDK documentation, "Neuron Device Memory", out-of-memory example.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/driver/driver.h"

namespace onrt {

struct MemoryUsage {
  std::array<uint64_t, kMemoryCategories> bytes{};

  uint64_t of(MemoryCategory category) const { return bytes[static_cast<size_t>(category)]; }
  uint64_t total() const;
};

// "20.188GB": three digits after the point, units of 1024, as in the vendor's table.
std::string format_table_bytes(uint64_t bytes);

// One line per category: "\t* tensors: 4.000GB".
std::string usage_list(const MemoryUsage& usage);

// Thread-compatible: the pool that owns it holds its lock.
class MemoryLedger {
 public:
  // `core` is a logical core of the machine; `model` 0 means "not of a model".
  void add(int core, uint32_t model, MemoryCategory category, int64_t bytes);
  void name_model(uint32_t model, const std::string& name) { names_[model] = one_line(name); }
  void forget_model(uint32_t model);

  MemoryUsage usage_of_core(int core) const;
  MemoryUsage usage() const;

  // One line per device and core, and for a core's largest models, with a column per category; then
  // those models' names.
  std::string table(int device, int cores_per_device) const;

 private:
  struct Row {
    int core = 0;
    uint32_t model = 0;
    MemoryUsage usage;
  };

  std::string models_of_core(std::vector<const Row*> rows, std::set<uint32_t>* listed) const;

  std::vector<Row> rows_;
  std::map<uint32_t, std::string> names_;
};

// Writes `text` to FOLDER/neuron_mem_table_device_<d>_hbm_<h>.log when that is a plain file of ours
// or does not exist; anything else there (a link, another user's file) is left alone and false.
bool write_memory_table(const std::string& folder, const HbmId& hbm, const std::string& text);

}  // namespace onrt
