// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_packager/unpack.h"

#include <filesystem>
#include <system_error>

#include "runtime/base/format.h"
#include "tools/common/file.h"

namespace onrt::tools {

namespace fs = std::filesystem;

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
  // The folder is new and members are plain files with clean relative paths (tar.h), so no path
  // can lead out of it.
  for (const NeffMember& member : archive.members) {
    const fs::path path = fs::path(folder) / member.path;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return Status(NRT_FAILURE,
                    format("cannot make '{}': {}", path.parent_path().string(), error.message()));
    }
    ONRT_RETURN_IF_ERROR(write_file(path.string(), member.data));
  }
  return ok_status();
}

}  // namespace onrt::tools
