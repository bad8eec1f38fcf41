// SPDX-License-Identifier: Apache-2.0
#include "emulator/process_info.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::emu {
namespace {

// The first `most` bytes of a file in /proc.
std::string read_proc(const std::string& path, size_t most) {
  const UniqueFd fd = open_file(path, O_RDONLY);
  std::string text(most, '\0');
  const ssize_t size = fd.valid() ? ::read(fd.get(), text.data(), text.size()) : -1;
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return text;
}

}  // namespace

std::optional<ProcessStatus> process_status(int pid) {
  const std::string text = read_proc(format("/proc/{}/stat", pid), 4096);
  // pid (comm) state ...: comm may hold anything, hence the last ')'.
  const size_t end = text.rfind(')');
  if (end == std::string::npos || end + 2 >= text.size()) {
    return std::nullopt;
  }
  ProcessStatus status;
  status.state = text[end + 2];
  size_t at = end + 2;
  for (int field = 3; field < 22 && at != std::string::npos; ++field) {
    at = text.find(' ', at);
    at = at == std::string::npos ? at : at + 1;
  }
  if (at != std::string::npos) {
    std::from_chars(text.data() + at, text.data() + text.size(), status.start_time);
  }
  return status;
}

uint64_t own_pid_namespace() {
  struct stat status{};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

ProcessIdentity own_identity() {
  ProcessIdentity self;
  self.pid = ::getpid();
  self.start_time = process_status(self.pid).value_or(ProcessStatus()).start_time;
  self.pid_namespace = own_pid_namespace();
  self.command = read_proc("/proc/self/cmdline", 4096);
  std::replace(self.command.begin(), self.command.end(), '\0', ' ');
  while (self.command.ends_with(' ')) {
    self.command.pop_back();
  }
  return self;
}

uint64_t available_memory() {
  const std::string text = read_proc("/proc/meminfo", 4096);
  static constexpr std::string_view kLabel = "MemAvailable:";
  const size_t at = text.find(kLabel);
  if (at == std::string::npos) {
    return 0;
  }
  const size_t digits = text.find_first_of("0123456789", at);
  uint64_t kib = 0;
  if (digits != std::string::npos) {
    std::from_chars(text.data() + digits, text.data() + text.size(), kib);
  }
  return kib * 1024;
}

int mappings_of(int pid, int fd) {
  struct stat status{};
  char name[4096];
  const ssize_t length = ::readlink(format("/proc/self/fd/{}", fd).c_str(), name, sizeof(name));
  const auto maps = read_file(format("/proc/{}/maps", pid), 64 << 20);
  if (length <= 0 || ::fstat(fd, &status) != 0 || !maps.ok()) {
    return 0;
  }
  // "address permissions offset device inode path": some file systems show another inode here, and
  // other mount namespaces another path.
  const std::string path = "/" + std::string(name, static_cast<size_t>(length)).substr(1);
  const std::string inode = format(" {} ", static_cast<uint64_t>(status.st_ino));
  std::string_view text(reinterpret_cast<const char*>(maps->data()), maps->size());
  int count = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const bool named = line.ends_with(" " + path);
    const bool same = line.find(inode) != std::string_view::npos && line.ends_with("/control");
    count += named || same ? 1 : 0;
  }
  return count;
}

}  // namespace onrt::emu
