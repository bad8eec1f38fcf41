// SPDX-License-Identifier: Apache-2.0
// Device memory: statistics, and how others reach it.
#include <cstring>
#include <set>

#include "nrt/nrt_experimental.h"
#include "opennrt/opennrt.h"
#include "runtime/api/handles.h"
#include "runtime/base/unique_fd.h"

using namespace onrt;       // NOLINT(google-build-using-namespace)
using namespace onrt::api;  // NOLINT(google-build-using-namespace)

namespace {

Result<CoreContext*> core_of(Session& session, uint32_t vnc) {
  return session.core(vnc > INT32_MAX ? -1 : static_cast<int>(vnc));
}

struct Shared {
  UniqueFd fd;
  uint64_t offset = 0;  // of `va` in it
};

Result<Shared> share(uint64_t va, uint64_t size) {
  ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
  if (va == 0 || size == 0) {
    return Status(NRT_INVALID,
                  format("{} bytes at {:#x}: expected a range of device memory", size, va));
  }
  ONRT_ASSIGN_OR_RETURN(const auto found, session->views().find(va, size));
  const auto& [view, into] = found;
  Shared shared;
  ONRT_ASSIGN_OR_RETURN(
      const int fd, session->machine().share(view.hbm, view.address + into, size, &shared.offset));
  shared.fd.reset(fd);
  return shared;
}

}  // namespace

extern "C" NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t* stats,
                                               size_t stats_size_in, size_t* stats_size_out) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_ASSIGN_OR_RETURN(const CoreContext* const core, core_of(*session, vnc));
    nrt_vnc_memory_stats_t now = {};
    now.bytes_used = core->pool.usage_of_core(core->core).total();
    now.bytes_limit = core->pool.limit_bytes();
    return fill_struct(now, stats, stats_size_in, stats_size_out);
  });
}

extern "C" NRT_STATUS onrt_get_memory_categories(uint32_t vnc, onrt_memory_category_t* rows,
                                                 size_t* count) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_ASSIGN_OR_RETURN(const CoreContext* const core, core_of(*session, vnc));
    ONRT_RETURN_IF_ERROR(check_not_null(count, "count"));
    const size_t room = std::exchange(*count, kMemoryCategories);
    if (room < kMemoryCategories) {
      return Status(NRT_RESOURCE,
                    format("room for {} rows, there are {}", room, kMemoryCategories));
    }
    ONRT_RETURN_IF_ERROR(check_not_null(rows, "rows"));
    const MemoryUsage usage = core->pool.usage_of_core(core->core);
    for (size_t i = 0; i < kMemoryCategories; ++i) {
      rows[i] = {};
      memory_category_name(static_cast<MemoryCategory>(i))
          .copy(rows[i].name, sizeof rows[i].name - 1);
      rows[i].bytes = usage.bytes[i];
    }
    return ok_status();
  });
}

extern "C" NRT_STATUS onrt_get_device_counters(int device, onrt_device_counters_t* counters,
                                               size_t size_in, size_t* size_out) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    if (device < 0 || device >= session->info().device_count) {
      return Status(NRT_INVALID, format("device {}: this machine has {} devices", device,
                                        session->info().device_count));
    }
    ONRT_ASSIGN_OR_RETURN(const DeviceCounters now, session->machine().counters(device));
    const onrt_device_counters_t out = {now.dma_descriptors,      now.dma_bytes,
                                        now.programs_started,     now.programs_failed,
                                        now.hbm_corrected_errors, now.hbm_uncorrected_errors};
    return fill_struct(out, counters, size_in, size_out);
  });
}

extern "C" NRT_STATUS nrt_debug_log_oom_report(void) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    std::set<const HbmPool*> shown;
    for (int i = 0; i < session->core_count(); ++i) {
      const HbmPool& pool = session->core_at(i).pool;
      if (shown.insert(&pool).second) {
        session->context().log->write_table(LogComponent::kTdrv, LogLevel::kError,
                                            "nrt_debug_log_oom_report",
                                            format("Current Memory Utilization of HBM {}:\n{}",
                                                   pool.hbm().stack, pool.memory_table()));
      }
    }
    return ok_status();
  });
}

// The caller takes `va` for offset 0 of the descriptor, so it must be just that.
extern "C" NRT_STATUS nrt_get_dmabuf_fd(uint64_t va, uint64_t size, int* fd) {
  return c_boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_not_null(fd, "fd"));
    ONRT_ASSIGN_OR_RETURN(Shared shared, share(va, size));
    if (shared.offset != 0) {
      return Status(NRT_INVALID,
                    format("address {:#x} is not the start of what can be shared but {} bytes into "
                           "it; use nrt_get_dmabuf_fd_v2()",
                           va, shared.offset));
    }
    *fd = shared.fd.release();
    return ok_status();
  });
}

extern "C" NRT_STATUS nrt_get_dmabuf_fd_v2(uint64_t va, uint64_t size, int* fd, uint64_t* offset) {
  return c_boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_not_null(fd, "fd"));
    ONRT_RETURN_IF_ERROR(check_not_null(offset, "offset"));
    ONRT_ASSIGN_OR_RETURN(Shared shared, share(va, size));
    *offset = shared.offset;
    *fd = shared.fd.release();
    return ok_status();
  });
}

extern "C" NRT_STATUS nrt_get_hbm_mmap_va(int device_id, int hbm_idx, void** addr, size_t* size) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_RETURN_IF_ERROR(check_not_null(addr, "addr"));
    ONRT_RETURN_IF_ERROR(check_not_null(size, "size"));
    const MachineInfo& info = session->info();
    if (device_id < 0 || device_id >= info.device_count || hbm_idx < 0) {
      return Status(NRT_INVALID, format("HBM {} of device {}: this machine has {} devices", hbm_idx,
                                        device_id, info.device_count));
    }
    if (hbm_idx >= info.hbm_per_device) {
      return Status(NRT_INVALID_HANDLE,
                    format("HBM {}: a device has {}", hbm_idx, info.hbm_per_device));
    }
    const auto mapped = session->machine().map(
        {device_id, hbm_idx}, info.hbm_base[static_cast<size_t>(hbm_idx)], info.hbm_bytes);
    if (!mapped.ok()) {
      return Status(NRT_INVALID,
                    format("a whole HBM can't be mapped: {}", mapped.status().message()));
    }
    *addr = *mapped;
    *size = info.hbm_bytes;
    return ok_status();
  });
}

extern "C" NRT_STATUS nrt_memcpy_to_device(void* dest, const void* src, size_t size) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_RETURN_IF_ERROR(check_not_null(dest, "dest"));
    ONRT_RETURN_IF_ERROR(check_not_null(src, "src"));
    ONRT_RETURN_IF_ERROR(session->views().find(reinterpret_cast<uint64_t>(dest), size).status());
    std::memcpy(dest, src, size);
    return ok_status();
  });
}
