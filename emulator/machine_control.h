// SPDX-License-Identifier: Apache-2.0
// The control file of a machine: making it, mapping it, and turning its untrusted profile into an
// InstanceProfile and back.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>

#include "emulator/crash_points.h"
#include "emulator/machine_layout.h"
#include "emulator/machine_profile.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace onrt::emu {

// Access to a field that other processes change. Relaxed: the machine lock (fcntl, a system call)
// orders what must be ordered; counters need no order.
template <class T>
T load(const T& field) {
  return std::atomic_ref<T>(const_cast<T&>(field)).load(std::memory_order_relaxed);
}
template <class T>
void store(T& field, std::type_identity_t<T> value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
}
// For fields whose value publishes others (states): ordered after the writes before it.
template <class T>
void publish(T& field, std::type_identity_t<T> value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_release);
}
template <class T>
void add(T& field, std::type_identity_t<T> value) {
  std::atomic_ref<T>(field).fetch_add(value, std::memory_order_relaxed);
}

// Text in a fixed field: copied up to `size - 1` bytes, at a character boundary of UTF-8.
void store_text(char* field, size_t size, std::string_view text);
// Bytes up to the first NUL; unprintable ones become '?'.
std::string load_text(const char* field, size_t size);

// Identity of this boot of the host.
uint64_t boot_nonce();

// NRT_FAILURE with one sentence when `record` and `devices` are not what store_profile() writes.
Result<InstanceProfile> load_profile(const ProfileRecord& record, const DeviceRecord* devices);

// `size` is the file's.
Status check_header(const ControlHeader& header, uint64_t size);

class ControlMapping {
 public:
  struct Creation {
    const InstanceProfile& profile;
    uint64_t committed_limit;
    std::string folder;  // of the machine
    bool in_use;         // some process is a member: nothing may be made anew
  };
  // Maps `fd`, making the content first when the file is empty, its creation was not finished or it
  // is of an earlier boot. The machine lock is held. Errors: NRT_FAILURE for a file that isn't a
  // machine's (one sentence), NRT_RESOURCE when the file system is full.
  static Result<ControlMapping> open(UniqueFd fd, const Creation& creation, CrashPlan& crash);

  ControlMapping() = default;
  ControlMapping(ControlMapping&& other) noexcept;
  ControlMapping& operator=(ControlMapping&& other) noexcept;
  ~ControlMapping();

  ControlFile* operator->() const { return control_; }
  ControlFile& operator*() const { return *control_; }
  int fd() const { return fd_.get(); }
  // Keeps the mapping, forgets the descriptor without closing it (RecordLocks::abandon()).
  void abandon_descriptor() { static_cast<void>(fd_.release()); }
  // Makes the content anew and removes the files of HBM stacks, which may hold old bytes.
  Status create(const Creation& creation, CrashPlan& crash);
  // Gives [field, field + size) pages, so that writing it can't fail.
  Status reserve(const void* field, size_t size);

 private:
  void reset();

  UniqueFd fd_;
  ControlFile* control_ = nullptr;
};

}  // namespace onrt::emu
