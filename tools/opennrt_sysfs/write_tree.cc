// SPDX-License-Identifier: Apache-2.0
#include "tools/opennrt_sysfs/write_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::tools {
namespace {

namespace fs = std::filesystem;

Status failed(const std::string& path) {
  return Status(NRT_FAILURE, format("{}: {}", path, std::strerror(errno)));
}

// In place, so that a reader who has the file open sees the new text.
Status write_text(const std::string& path, const std::string& text, unsigned mode) {
  const UniqueFd fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  if (!fd.valid() || !write_fully(fd.get(), text) || ::fchmod(fd.get(), mode | 0200) != 0) {
    return failed(path);
  }
  return ok_status();
}

}  // namespace

Status make_path(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? Status(NRT_FAILURE, format("{}: {}", path, error.message())) : ok_status();
}

Status check_tree_folder(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    return ok_status();
  }
  if (!fs::is_directory(folder, error)) {
    return Status(NRT_INVALID, format("{} is no folder", folder));
  }
  const bool ours = fs::exists(folder + "/" + observe::kSysfsDevices, error);
  return ours || fs::is_empty(folder, error)
             ? ok_status()
             : Status(NRT_INVALID,
                      format("{} holds other files; expected an empty folder, or one that "
                             "opennrt-sysfs wrote",
                             folder));
}

TreeWriter::TreeWriter(std::string folder, const MachineInfo& info, const Filter& wanted)
    : folder_(std::move(folder)),
      files_(observe::sysfs_files(info)),
      links_(observe::sysfs_links(info)) {
  if (wanted) {
    std::erase_if(files_, [&](const observe::SysfsFile& file) { return !wanted(file.path); });
    std::erase_if(links_, [&](const auto& link) { return !wanted(link.first); });
  }
}

Status TreeWriter::write(const emu::MachineSnapshot& snapshot) {
  std::string made;  // the folder that was made last: files are sorted
  for (const observe::SysfsFile& file : files_) {
    std::string text = observe::sysfs_text(file, snapshot);
    std::string& before = written_[file.path];
    if (before == text && !text.empty()) {
      continue;
    }
    const std::string path = folder_ + "/" + file.path;
    const std::string parent = path.substr(0, path.rfind('/'));
    if (before.empty() && parent != made) {
      ONRT_RETURN_IF_ERROR(make_path(parent));
      made = parent;
    }
    ONRT_RETURN_IF_ERROR(write_text(path, text, file.mode));
    before = std::move(text);
  }
  for (const auto& [name, target] : links_) {
    const std::string path = folder_ + "/" + name;
    ONRT_RETURN_IF_ERROR(make_path(path.substr(0, path.rfind('/'))));
    if (::symlink(target.c_str(), path.c_str()) != 0 && errno != EEXIST) {
      return failed(path);
    }
  }
  links_.clear();
  return ok_status();
}

}  // namespace onrt::tools
