// SPDX-License-Identifier: Apache-2.0
#include "emulator/machine_control.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "emulator/machine_place.h"
#include "runtime/base/file.h"
#include "runtime/base/format.h"

namespace onrt::emu {
namespace {

Status damaged(std::string_view what) {
  return Status(NRT_FAILURE, format("the machine's control file is damaged: {}; remove the machine "
                                    "with opennrt-machine rm",
                                    what));
}

void store_profile(const InstanceProfile& profile, ControlFile* control) {
  const MachineInfo& info = profile.info;
  ProfileRecord& record = control->profile;
  record = ProfileRecord{};
  store_text(record.instance_type, sizeof(record.instance_type), info.instance_type);
  store_text(record.instance_id, sizeof(record.instance_id), info.instance_id);
  store_text(record.neuroncore_version, sizeof(record.neuroncore_version), info.neuroncore_version);
  record.architecture = static_cast<uint32_t>(info.architecture);
  record.device_count = static_cast<uint32_t>(info.device_count);
  record.physical_cores_per_device = static_cast<uint32_t>(info.physical_cores_per_device);
  record.default_logical_core_size = static_cast<uint32_t>(info.default_logical_core_size);
  record.max_logical_core_size = static_cast<uint32_t>(info.max_logical_core_size);
  record.hbm_per_device = static_cast<uint32_t>(info.hbm_per_device);
  record.dma_engines = static_cast<uint32_t>(profile.dma_engines);
  record.queues_per_engine = static_cast<uint32_t>(profile.queues_per_engine);
  record.hbm_bytes = info.hbm_bytes;
  std::copy(info.hbm_base.begin(), info.hbm_base.end(), record.hbm_base);
  for (const DeviceInfo& device : info.devices) {
    DeviceRecord& out = control->devices[device.index];
    store_text(out.bdf, sizeof(out.bdf), device.pci_bdf);
    store_text(out.cpu_affinity, sizeof(out.cpu_affinity), device.cpu_affinity);
    out.numa_node = device.numa_node;
    out.link_count =
        static_cast<uint32_t>(std::min<size_t>(device.connected_devices.size(), kMaxLinks));
    std::copy_n(device.connected_devices.begin(), out.link_count, out.links);
    out.serial_number = device.serial_number;
  }
}

// The limits of machine_profile.h again: the file may have been changed by anybody.
Status check_profile(const ProfileRecord& record) {
  const auto between = [](uint64_t value, uint64_t least, uint64_t most) {
    return value >= least && value <= most;
  };
  const bool counts = between(record.architecture, 2, 4) && record.device_count <= kMaxDevices &&
                      between(record.physical_cores_per_device, 1, kMaxCoresPerDevice) &&
                      record.device_count * record.physical_cores_per_device <= kMaxCores &&
                      between(record.max_logical_core_size, 1, record.physical_cores_per_device) &&
                      between(record.default_logical_core_size, 1, record.max_logical_core_size) &&
                      record.physical_cores_per_device % record.max_logical_core_size == 0 &&
                      record.max_logical_core_size % record.default_logical_core_size == 0 &&
                      between(record.hbm_per_device, 1, kMaxStacksPerDevice) &&
                      record.physical_cores_per_device % record.hbm_per_device == 0 &&
                      record.device_count * record.hbm_per_device <= kMaxStacks &&
                      between(record.dma_engines, 1, 1024) &&
                      between(record.queues_per_engine, 1, 256);
  if (!counts) {
    return damaged("the instance type has impossible counts");
  }
  if (!between(record.hbm_bytes, 64ULL << 20, 1ULL << 40) || record.hbm_bytes % kCommitStep != 0) {
    return damaged("the instance type has an impossible HBM size");
  }
  uint64_t end = 0;
  for (uint32_t i = 0; i < record.hbm_per_device; ++i) {
    const uint64_t base = record.hbm_base[i];
    if (base < end || base > (1ULL << 56) || base % kCommitStep != 0) {
      return damaged("the instance type has impossible HBM addresses");
    }
    end = base + record.hbm_bytes;
  }
  return ok_status();
}

Status check_device(const DeviceRecord& record, int index, int device_count) {
  if (record.link_count > kMaxLinks) {
    return damaged(format("device {} has {} links", index, record.link_count));
  }
  for (uint32_t i = 0; i < record.link_count; ++i) {
    if (record.links[i] < 0 || record.links[i] >= device_count) {
      return damaged(format("device {} has a link to device {}", index, record.links[i]));
    }
  }
  return ok_status();
}

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace

void store_text(char* field, size_t size, std::string_view text) {
  size_t length = std::min(text.size(), size - 1);
  while (length < text.size() && length > 0 &&
         (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) {
    --length;
  }
  std::memcpy(field, text.data(), length);
  std::memset(field + length, 0, size - length);
}

std::string load_text(const char* field, size_t size) {
  std::string text(field, ::strnlen(field, size));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      c = '?';
    }
  }
  return text;
}

uint64_t boot_nonce() {
  const UniqueFd fd = open_file("/proc/sys/kernel/random/boot_id", O_RDONLY);
  char text[64] = {};
  const ssize_t size = fd.valid() ? ::read(fd.get(), text, sizeof(text)) : 0;
  return size > 0 ? fnv1a(std::string_view(text, static_cast<size_t>(size))) : 1;
}

Result<InstanceProfile> load_profile(const ProfileRecord& untrusted, const DeviceRecord* devices) {
  const ProfileRecord record = untrusted;
  ONRT_RETURN_IF_ERROR(check_profile(record));
  InstanceProfile profile;
  MachineInfo& info = profile.info;
  info.emulated = true;
  info.instance_type = load_text(record.instance_type, sizeof(record.instance_type));
  info.instance_id = load_text(record.instance_id, sizeof(record.instance_id));
  info.neuroncore_version = load_text(record.neuroncore_version, sizeof(record.neuroncore_version));
  info.architecture = static_cast<Architecture>(record.architecture);
  info.device_count = static_cast<int>(record.device_count);
  info.physical_cores_per_device = static_cast<int>(record.physical_cores_per_device);
  info.default_logical_core_size = static_cast<int>(record.default_logical_core_size);
  info.logical_core_size = info.default_logical_core_size;
  info.max_logical_core_size = static_cast<int>(record.max_logical_core_size);
  info.hbm_per_device = static_cast<int>(record.hbm_per_device);
  info.hbm_bytes = record.hbm_bytes;
  info.hbm_base.assign(record.hbm_base, record.hbm_base + record.hbm_per_device);
  profile.dma_engines = static_cast<int>(record.dma_engines);
  profile.queues_per_engine = static_cast<int>(record.queues_per_engine);
  for (int i = 0; i < info.device_count; ++i) {
    const DeviceRecord device_record = devices[i];
    ONRT_RETURN_IF_ERROR(check_device(device_record, i, info.device_count));
    DeviceInfo device;
    device.index = i;
    device.pci_bdf = load_text(device_record.bdf, sizeof(device_record.bdf));
    device.cpu_affinity = load_text(device_record.cpu_affinity, sizeof(device_record.cpu_affinity));
    device.numa_node = device_record.numa_node;
    device.connected_devices.assign(device_record.links,
                                    device_record.links + device_record.link_count);
    device.serial_number = device_record.serial_number;
    info.devices.push_back(std::move(device));
  }
  return profile;
}

Status check_header(const ControlHeader& header, uint64_t size) {
  if (std::memcmp(header.magic, kMagic.data(), kMagic.size()) != 0) {
    return damaged("it does not start with the mark of an OpenNRT machine");
  }
  if (header.layout_version != kLayoutVersion ||
      header.header_bytes != offsetof(ControlFile, processes)) {
    return damaged(format("it has layout {}, this library knows layout {}", header.layout_version,
                          kLayoutVersion));
  }
  if (size != sizeof(ControlFile) || header.file_bytes != sizeof(ControlFile)) {
    return damaged(format("it has {} bytes, expected {}", size, sizeof(ControlFile)));
  }
  return ok_status();
}

ControlMapping::ControlMapping(ControlMapping&& other) noexcept
    : fd_(std::move(other.fd_)), control_(std::exchange(other.control_, nullptr)) {}

ControlMapping& ControlMapping::operator=(ControlMapping&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::move(other.fd_);
    control_ = std::exchange(other.control_, nullptr);
  }
  return *this;
}

ControlMapping::~ControlMapping() { reset(); }

void ControlMapping::reset() {
  if (control_ != nullptr) {
    ::munmap(control_, sizeof(ControlFile));
    control_ = nullptr;
  }
  fd_.reset();
}

Result<ControlMapping> ControlMapping::open(UniqueFd fd, const Creation& creation,
                                            CrashPlan& crash) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) {
    return Status(NRT_FAILURE, format("machine control file: {}", std::strerror(errno)));
  }
  ControlMapping mapping;
  mapping.fd_ = std::move(fd);
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size == 0) {
    ONRT_CRASH_POINT(crash, create_control_empty);
    ONRT_RETURN_IF_ERROR(mapping.create(creation, crash));
    return mapping;
  }
  ControlHeader header{};
  if (size < sizeof(ControlFile) ||
      ::pread(mapping.fd_.get(), &header, sizeof(header), 0) != sizeof(header)) {
    return damaged(format("it has {} bytes, expected {}", size, sizeof(ControlFile)));
  }
  static constexpr char kUnfinished[8] = {};
  if (std::memcmp(header.magic, kUnfinished, sizeof(kUnfinished)) == 0) {
    ONRT_RETURN_IF_ERROR(mapping.create(creation, crash));
    return mapping;
  }
  ONRT_RETURN_IF_ERROR(check_header(header, size));
  void* memory = ::mmap(nullptr, sizeof(ControlFile), PROT_READ | PROT_WRITE, MAP_SHARED,
                        mapping.fd_.get(), 0);
  if (memory == MAP_FAILED) {
    return Status(NRT_RESOURCE,
                  format("mapping the machine's control file: {}", std::strerror(errno)));
  }
  mapping.control_ = static_cast<ControlFile*>(memory);
  if (load(mapping->header.boot_nonce) != boot_nonce()) {
    ONRT_RETURN_IF_ERROR(mapping.create(creation, crash));
  }
  return mapping;
}

Status ControlMapping::create(const Creation& creation, CrashPlan& crash) {
  if (creation.in_use) {
    return damaged("it was emptied while processes use the machine");
  }
  for (const std::string& file : paths_in(creation.folder, "nd")) {
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) {
      return Status(NRT_FAILURE, format("removing {}: {}", file, std::strerror(errno)));
    }
  }
  const InstanceProfile& profile = creation.profile;
  if (control_ == nullptr ||
      std::memcmp(control_->header.magic, kMagic.data(), kMagic.size()) != 0) {
    ONRT_RETURN_IF_ERROR(check_file_size_limit(sizeof(ControlFile), "the machine's control file"));
    if (::ftruncate(fd_.get(), 0) != 0 || ::ftruncate(fd_.get(), sizeof(ControlFile)) != 0) {
      return Status(NRT_RESOURCE,
                    format("making the machine's control file: {}", std::strerror(errno)));
    }
  } else {
    std::memset(control_->header.magic, 0, sizeof(control_->header.magic));
    ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, sizeof(ControlFile));
  }
  ONRT_CRASH_POINT(crash, create_control_sized);
  if (control_ == nullptr) {
    void* memory =
        ::mmap(nullptr, sizeof(ControlFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (memory == MAP_FAILED) {
      return Status(NRT_RESOURCE,
                    format("mapping the machine's control file: {}", std::strerror(errno)));
    }
    control_ = static_cast<ControlFile*>(memory);
  }
  const auto cores =
      static_cast<size_t>(profile.info.device_count * profile.info.physical_cores_per_device);
  ONRT_RETURN_IF_ERROR(reserve(control_, offsetof(ControlFile, processes)));
  ONRT_RETURN_IF_ERROR(reserve(control_->cores, cores * sizeof(CoreRecord)));
  ONRT_RETURN_IF_ERROR(reserve(control_->sync, cores * sizeof(SyncRecord)));
  control_->header.layout_version = kLayoutVersion;
  control_->header.header_bytes = offsetof(ControlFile, processes);
  control_->header.file_bytes = sizeof(ControlFile);
  control_->header.boot_nonce = boot_nonce();
  control_->header.committed_limit = creation.committed_limit;
  control_->header.created_at = static_cast<uint64_t>(::time(nullptr));
  control_->header.slot_high_water = 0;
  control_->journal = JournalRecord{};
  store_profile(profile, control_);
  ONRT_CRASH_POINT(crash, create_control_filled);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(control_->header.magic, kMagic.data(), kMagic.size());
  ONRT_CRASH_POINT(crash, create_done);
  return ok_status();
}

Status ControlMapping::reserve(const void* field, size_t size) {
  const auto offset = static_cast<off_t>(reinterpret_cast<const char*>(field) -
                                         reinterpret_cast<const char*>(control_));
  if (size == 0 ||
      ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, offset, static_cast<off_t>(size)) == 0) {
    return ok_status();
  }
  if (errno == EOPNOTSUPP) {
    return Status(NRT_FAILURE,
                  "the file system of the machine's folder can't reserve space "
                  "(fallocate): choose another OPENNRT_MACHINE_DIR");
  }
  return Status(NRT_RESOURCE, format("the machine's control file needs {} more: {}",
                                     format_bytes(size), std::strerror(errno)));
}

}  // namespace onrt::emu
