// SPDX-License-Identifier: Apache-2.0
#include "tools/opennrt_run/namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::tools {
namespace {

namespace fs = std::filesystem;

Status refused(std::string_view what) {
  return Status(NRT_FAILURE, format("{}: {}", what, std::strerror(errno)));
}

bool write_text(const char* path, const std::string& text) {
  const UniqueFd fd = open_file(path, O_WRONLY);
  return fd.valid() && write_fully(fd.get(), text);
}

// A memory file system at `place` with every old entry bound into it, for kernels whose overlay
// does not take the file system below.
Status add_by_binding(const std::string& extra, const std::string& place) {
  const UniqueFd old = open_file(place, O_PATH | O_DIRECTORY);
  if (!old.valid()) {
    return refused(place);
  }
  const std::string before = format("/proc/self/fd/{}", old.get());
  ONRT_RETURN_IF_ERROR(mount_memory(place));
  std::error_code error;
  fs::copy(extra, place, fs::copy_options::recursive | fs::copy_options::copy_symlinks, error);
  if (error) {
    return Status(NRT_FAILURE, format("{}: {}", place, error.message()));
  }
  for (fs::directory_iterator entry(before, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const fs::path target = fs::path(place) / name;
    if (fs::exists(fs::symlink_status(target, error))) {
      continue;
    }
    if (entry->is_symlink(error)) {
      fs::create_symlink(fs::read_symlink(entry->path(), error), target, error);
    } else if (entry->is_directory(error)) {
      fs::create_directory(target, error);
      ::mount((before + "/" + name).c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr);
    }
  }
  return ok_status();
}

}  // namespace

Status enter_namespaces() {
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return refused("this kernel does not let the user make namespaces (unshare)");
  }
  const bool mapped = write_text("/proc/self/setgroups", "deny") &&
                      write_text("/proc/self/uid_map", format("{0} {0} 1\n", user)) &&
                      write_text("/proc/self/gid_map", format("{0} {0} 1\n", group));
  if (!mapped) {
    return refused("this kernel does not let the user make namespaces (uid_map)");
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return refused("this kernel does not let the user mount in a namespace");
  }
  return ok_status();
}

Status add_entries(const std::string& extra, const std::string& place) {
  const std::string options = format("lowerdir={}:{}", extra, place);
  if (::mount("overlay", place.c_str(), "overlay", MS_RDONLY, options.c_str()) == 0) {
    return ok_status();
  }
  return add_by_binding(extra, place);
}

Status bind_read_only(const std::string& from, const std::string& to) {
  if (::mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return refused(to);
  }
  // The flags of the file system below may not be taken away: nosuid and nodev are ours.
  if (::mount(nullptr, to.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV,
              nullptr) != 0) {
    return refused(to);
  }
  return ok_status();
}

Status mount_memory(const std::string& folder) {
  if (::mount("tmpfs", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") != 0) {
    return refused("mounting memory on " + folder);
  }
  return ok_status();
}

void unmount(const std::string& folder) { ::umount2(folder.c_str(), MNT_DETACH); }

}  // namespace onrt::tools
