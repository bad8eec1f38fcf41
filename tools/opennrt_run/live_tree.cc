// SPDX-License-Identifier: Apache-2.0
#define FUSE_USE_VERSION 31
#include "tools/opennrt_run/live_tree.h"

#include <fcntl.h>
#include <fuse3/fuse.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/format.h"
#include "runtime/base/mutex.h"
#include "runtime/observe/host_view.h"
#include "runtime/observe/sysfs_tree.h"

namespace onrt::tools {
namespace {

using observe::SysfsFile;
using observe::SysfsKind;

constexpr auto kFresh = std::chrono::milliseconds(10);   // a snapshot serves reads this long
constexpr auto kWatch = std::chrono::milliseconds(100);  // how often poll() looks
constexpr off_t kPage = 4096;                            // size that sysfs shows for a file

struct OpenFile {
  size_t file = 0;
  std::string text;  // of the latest read from offset 0
  fuse_pollhandle* waiting = nullptr;
};

// Thread-safe: libfuse's thread and the one that wakes pollers.
class LiveTree {
 public:
  explicit LiveTree(const Context& context, emu::MachineSnapshot snapshot)
      : context_(context),
        files_(observe::sysfs_files(snapshot.info)),
        snapshot_(std::move(snapshot)) {
    const std::string root = std::string(observe::kSysfsDevices) + "/";
    std::erase_if(files_, [&](const SysfsFile& file) { return !file.path.starts_with(root); });
    for (size_t i = 0; i < files_.size(); ++i) {
      std::string path = "/" + files_[i].path.substr(root.size());
      by_path_[path] = i;
      while (path.size() > 1) {
        const size_t slash = path.rfind('/');
        const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
        folders_[parent].insert(path.substr(slash + 1));
        path = parent;
      }
    }
    cleared_.resize(files_.size());
  }

  const std::set<std::string>* folder(const std::string& path) const {
    const auto found = folders_.find(path);
    return found == folders_.end() ? nullptr : &found->second;
  }
  // -1: no such file.
  int find(const std::string& path) const {
    const auto found = by_path_.find(path);
    return found == by_path_.end() ? -1 : static_cast<int>(found->second);
  }
  const SysfsFile& file(size_t index) const { return files_[index]; }

  std::string text(size_t index) ONRT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    refresh();
    return text_locked(index);
  }

  // 0, or a negative error number.
  int write(size_t index, std::string_view text) ONRT_EXCLUDES(mutex_) {
    const SysfsFile& file = files_[index];
    const MutexLock lock(mutex_);
    snapshot_time_ = {};
    refresh();
    switch (file.kind) {
      case SysfsKind::kCounter:
        cleared_[index] = file.number(snapshot_);
        return 0;
      case SysfsKind::kNotifyDelay: {
        const std::string_view value = text.substr(0, text.find('\n'));
        if (value != "0" && value != "-1") {
          return -EINVAL;
        }
        if (value == "0") {
          notifying_.insert(file.device);
        } else {
          notifying_.erase(file.device);
        }
        return 0;
      }
      case SysfsKind::kReset:
        return in_use(file.device) ? -EBUSY : 0;  // an idle emulated device has nothing to reset
      default:
        return -EACCES;
    }
  }

  OpenFile* open(size_t index) ONRT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    open_.push_back(std::make_unique<OpenFile>());
    open_.back()->file = index;
    refresh();
    open_.back()->text = text_locked(index);
    return open_.back().get();
  }
  void close(const OpenFile* file) ONRT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const auto& other) { return other.get() == file; });
    if (found != open_.end()) {
      if ((*found)->waiting != nullptr) {
        fuse_pollhandle_destroy((*found)->waiting);
      }
      open_.erase(found);
    }
  }
  size_t read(OpenFile* file, char* to, size_t size, off_t offset) ONRT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (offset == 0) {
      refresh();
      file->text = text_locked(file->file);
    }
    const auto start = std::min(static_cast<size_t>(std::max<off_t>(offset, 0)), file->text.size());
    return file->text.copy(to, size, start);
  }
  // What poll() finds, and whom to wake later.
  unsigned poll(OpenFile* file, fuse_pollhandle* handle) ONRT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    refresh();
    if (handle != nullptr) {
      if (file->waiting != nullptr) {
        fuse_pollhandle_destroy(file->waiting);
      }
      file->waiting = handle;
    }
    return POLLIN | POLLOUT | (changed(*file) ? POLLERR | POLLPRI : 0);
  }
  void wake_pollers() ONRT_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    bool any = false;
    for (const auto& file : open_) {
      any |= file->waiting != nullptr;
    }
    if (!any) {
      return;
    }
    refresh();
    for (const auto& file : open_) {
      if (file->waiting != nullptr && changed(*file)) {
        fuse_notify_poll(file->waiting);
        fuse_pollhandle_destroy(file->waiting);
        file->waiting = nullptr;
      }
    }
  }

 private:
  void refresh() ONRT_REQUIRES(mutex_) {
    const auto now = std::chrono::steady_clock::now();
    if (now - snapshot_time_ < kFresh) {
      return;
    }
    // A machine that can't be read for a moment, or was removed, keeps its last values.
    if (auto look = observe::observe_machine(context_);
        look.ok() && look->cores.size() == snapshot_.cores.size()) {
      snapshot_ = std::move(look).value();
    }
    snapshot_time_ = now;
  }
  std::string text_locked(size_t index) const ONRT_REQUIRES(mutex_) {
    const SysfsFile& file = files_[index];
    if (file.kind == SysfsKind::kNotifyDelay) {
      return notifying_.contains(file.device) ? "0\n" : "-1\n";
    }
    return observe::sysfs_text(file, snapshot_, cleared_[index]);
  }
  bool changed(const OpenFile& file) const ONRT_REQUIRES(mutex_) {
    return notifying_.contains(files_[file.file].device) && text_locked(file.file) != file.text;
  }
  bool in_use(int device) const ONRT_REQUIRES(mutex_) {
    const int per_device = snapshot_.info.physical_cores_per_device;
    for (int core = device * per_device; core < (device + 1) * per_device; ++core) {
      if (snapshot_.cores[static_cast<size_t>(core)].owner >= 0) {
        return true;
      }
    }
    return false;
  }

  const Context& context_;
  std::vector<SysfsFile> files_;
  std::map<std::string, size_t> by_path_;
  std::map<std::string, std::set<std::string>> folders_;

  Mutex mutex_;
  emu::MachineSnapshot snapshot_ ONRT_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point snapshot_time_ ONRT_GUARDED_BY(mutex_);
  std::vector<uint64_t> cleared_ ONRT_GUARDED_BY(mutex_);
  std::set<int> notifying_ ONRT_GUARDED_BY(mutex_);  // devices with notify_delay 0
  std::vector<std::unique_ptr<OpenFile>> open_ ONRT_GUARDED_BY(mutex_);
};

LiveTree& tree() { return *static_cast<LiveTree*>(fuse_get_context()->private_data); }
OpenFile* handle_of(const fuse_file_info* info) {
  return reinterpret_cast<OpenFile*>(info->fh);  // NOLINT(performance-no-int-to-ptr): libfuse's way
}

int on_getattr(const char* path, struct stat* status, fuse_file_info*) {
  std::memset(status, 0, sizeof(*status));
  status->st_uid = ::getuid();
  status->st_gid = ::getgid();
  if (tree().folder(path) != nullptr) {
    status->st_mode = S_IFDIR | 0755;
    status->st_nlink = 2;
    return 0;
  }
  const int index = tree().find(path);
  if (index < 0) {
    return -ENOENT;
  }
  status->st_mode = S_IFREG | tree().file(static_cast<size_t>(index)).mode;
  status->st_nlink = 1;
  status->st_size = kPage;
  return 0;
}

int on_readdir(const char* path, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
               fuse_readdir_flags) {
  const auto* names = tree().folder(path);
  if (names == nullptr) {
    return -ENOENT;
  }
  fill(buffer, ".", nullptr, 0, fuse_fill_dir_flags{});
  fill(buffer, "..", nullptr, 0, fuse_fill_dir_flags{});
  for (const std::string& name : *names) {
    fill(buffer, name.c_str(), nullptr, 0, fuse_fill_dir_flags{});
  }
  return 0;
}

int on_open(const char* path, fuse_file_info* info) {
  const int index = tree().find(path);
  if (index < 0) {
    return -ENOENT;
  }
  const SysfsFile& file = tree().file(static_cast<size_t>(index));
  if ((info->flags & O_ACCMODE) != O_RDONLY && (file.mode & 0200) == 0) {
    return -EACCES;
  }
  info->fh = reinterpret_cast<uint64_t>(tree().open(static_cast<size_t>(index)));
  info->direct_io = 1;  // every read comes here
  return 0;
}

int on_release(const char*, fuse_file_info* info) {
  tree().close(handle_of(info));
  return 0;
}

int on_read(const char*, char* to, size_t size, off_t offset, fuse_file_info* info) {
  return static_cast<int>(tree().read(handle_of(info), to, size, offset));
}

int on_write(const char*, const char* from, size_t size, off_t, fuse_file_info* info) {
  const int error = tree().write(handle_of(info)->file, {from, size});
  return error != 0 ? error : static_cast<int>(size);
}

// `echo 1 > file` truncates first.
int on_truncate(const char* path, off_t, fuse_file_info*) {
  const int index = tree().find(path);
  return index < 0                                                    ? -ENOENT
         : (tree().file(static_cast<size_t>(index)).mode & 0200) != 0 ? 0
                                                                      : -EACCES;
}

int on_poll(const char*, fuse_file_info* info, fuse_pollhandle* handle, unsigned* found) {
  *found = tree().poll(handle_of(info), handle);
  return 0;
}

fuse_operations operations() {
  fuse_operations all{};
  all.getattr = on_getattr;
  all.readdir = on_readdir;
  all.open = on_open;
  all.release = on_release;
  all.read = on_read;
  all.write = on_write;
  all.truncate = on_truncate;
  all.poll = on_poll;
  return all;
}

}  // namespace

std::string live_tree_problem() {
  const UniqueFd fd = open_file("/dev/fuse", O_RDWR);
  return fd.valid() ? "" : format("/dev/fuse: {}", std::strerror(errno));
}

Status serve_live_tree(const Context& context, const std::string& place,
                       const std::function<void()>& ready) {
  ONRT_ASSIGN_OR_RETURN(emu::MachineSnapshot snapshot, observe::observe_machine(context));
  LiveTree live(context, std::move(snapshot));
  char name[] = "opennrt-run";
  char option[] = "-o";
  char value[] = "fsname=neuron_device,subtype=opennrt";
  char* words[] = {name, option, value, nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, words);
  const fuse_operations all = operations();
  fuse* const session = fuse_new(&arguments, &all, sizeof(all), &live);
  if (session == nullptr) {
    return Status(NRT_FAILURE, "libfuse could not start");
  }
  if (fuse_mount(session, place.c_str()) != 0) {
    fuse_destroy(session);
    return Status(NRT_FAILURE, format("a file system in user space can't be mounted on {}", place));
  }
  fuse_set_signal_handlers(fuse_get_session(session));
  std::atomic<bool> end{false};
  std::thread watcher([&] {
    while (!end.load()) {
      live.wake_pollers();
      std::this_thread::sleep_for(kWatch);
    }
  });
  ready();
  fuse_loop(session);
  end.store(true);
  watcher.join();
  fuse_unmount(session);
  fuse_destroy(session);
  return ok_status();
}

}  // namespace onrt::tools
