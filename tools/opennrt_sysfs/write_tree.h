// SPDX-License-Identifier: Apache-2.0
// The tree of runtime/observe/sysfs_tree.h as plain files.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "runtime/observe/sysfs_tree.h"

namespace onrt::tools {

// Writes files and links below one folder; again and again, then only what changed.
class TreeWriter {
 public:
  // Takes the paths that `wanted` accepts.
  using Filter = std::function<bool(const std::string& path)>;

  TreeWriter(std::string folder, const MachineInfo& info, const Filter& wanted = nullptr);
  // NRT_FAILURE names the path and the system's reason.
  Status write(const emu::MachineSnapshot& snapshot);
  size_t files() const { return files_.size(); }

 private:
  std::string folder_;
  std::vector<observe::SysfsFile> files_;
  std::vector<std::pair<std::string, std::string>> links_;
  std::map<std::string, std::string> written_;
};

// Makes `path` and its missing parents.
Status make_path(const std::string& path);

// NRT_INVALID when `folder` holds anything but a tree that was written before.
Status check_tree_folder(const std::string& folder);

}  // namespace onrt::tools
