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

ProcessIdentity own_identity() {
  ProcessIdentity self;
  self.pid = ::getpid();
  self.start_time = process_status(self.pid).value_or(ProcessStatus()).start_time;
  struct stat status{};
  if (::stat("/proc/self/ns/pid", &status) == 0) {
    self.pid_namespace = status.st_ino;
  }
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

}  // namespace onrt::emu
