// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_packager/unpack.h"

#include <filesystem>
#include <system_error>

#include "runtime/base/format.h"
#include "tools/common/file.h"

namespace onrt::tools {

namespace fs = std::filesystem;

namespace {

// Members are plain files with clean relative paths (tar.h), so no path can lead out of the folder.
Status write_members(const NeffArchive& archive, const fs::path& folder) {
  for (const NeffMember& member : archive.members) {
    const fs::path path = folder / member.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return Status(NRT_FAILURE,
                    format("cannot make '{}': {}", path.parent_path().string(), error.message()));
    }
    ONRT_RETURN_IF_ERROR(write_file(path.string(), member.data));
  }
  return ok_status();
}

}  // namespace

Status unpack_neff(const NeffArchive& archive, const std::string& folder) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder, error))) {
    return Status(NRT_FAILURE,
                  format("'{}' exists already; choose another folder with -o", folder));
  }
  fs::create_directories(folder, error);
  if (error) {
    return Status(NRT_FAILURE, format("cannot make '{}': {}", folder, error.message()));
  }
  const Status status = write_members(archive, folder);
  if (!status.ok()) {
    // The folder is new, so all that is in it is ours: the next attempt finds the name free.
    fs::remove_all(folder, error);
  }
  return status;
}

}  // namespace onrt::tools
