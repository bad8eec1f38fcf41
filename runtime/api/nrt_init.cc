// SPDX-License-Identifier: Apache-2.0
// Life cycle, counts and what kind of host this is.
#include <cstdlib>

#include "runtime/api/cc/objects.h"
#include "runtime/api/handles.h"
#include "runtime/base/settings.h"

namespace onrt::api {
namespace {

void log_start(const Context& context, const Session& session, const char* framework_version) {
  for (const std::string& warning : context.settings.warnings()) {
    ONRT_LOG(context.log, Nrt, Warning, "{}", warning);
  }
  if (context.settings.integer(Setting::kAsyncExecMaxInflight) != 0) {
    ONRT_LOG(context.log, Nrt, Warning,
             "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS has no effect: implicit asynchronous "
             "execution was removed in 2.34");
  }
  const CoreRange& range = session.core_range();
  ONRT_LOG(context.log, Nrt, Info,
           "API:IN nrt_init() framework version '{}', root comm id '{}', cores {} (nc{}-nc{}), "
           "logical core size {}, reset cores {}, instance type {}{}",
           framework_version == nullptr ? "" : framework_version,
           context.settings.text(Setting::kRootCommId), range.count, range.start,
           range.start + range.count - 1, session.info().logical_core_size,
           context.settings.flag(Setting::kResetCores) ? 1 : 0, session.info().instance_type,
           session.info().emulated ? " (emulated)" : "");
}

// A program that ends without nrt_close() still gives cores and memory back at once, unless a
// thread is inside a call: then the next process that opens the machine does it.
void close_at_exit() {
  try {
    Runtime::instance().close_if_idle();
  } catch (const std::bad_alloc&) {
    return;  // what is left is reclaimed by the next process
  }
}

Status start(const char* framework_version) {
  Runtime& runtime = Runtime::instance();
  const bool again = runtime.state() == RuntimeState::kInit;
  const std::shared_ptr<const Context> fresh = again ? context() : refresh_context();
  ONRT_RETURN_IF_ERROR(runtime.init(fresh, open_chosen_machine));
  if (!again) {
    // Registered after what the runtime uses was constructed, hence run before it is destroyed.
    static const int kRegistered = std::atexit(close_at_exit);
    static_cast<void>(kRegistered);
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, runtime.enter());
    log_start(*fresh, *session, framework_version);
  }
  return ok_status();
}

// Before nrt_init() and after nrt_close() the environment may have changed.
std::shared_ptr<const Context> current_context() {
  const RuntimeState state = Runtime::instance().state();
  return state == RuntimeState::kStart || state == RuntimeState::kClosed ? refresh_context()
                                                                         : context();
}

template <class Count>
NRT_STATUS count_cores(uint32_t* out, Count&& count, const char* function) {
  return c_boundary(
      [&]() -> Status {
        ONRT_RETURN_IF_ERROR(check_not_null(out, "vnc_count"));
        ONRT_ASSIGN_OR_RETURN(const int cores, count(*current_context()));
        *out = static_cast<uint32_t>(cores);
        return ok_status();
      },
      function);
}

NRT_STATUS count_total(uint32_t* out, const char* function) {
  return count_cores(
      out,
      [](const Context& settings) {
        return Runtime::instance().total_cores(settings, open_chosen_machine);
      },
      function);
}

NRT_STATUS count_visible(uint32_t* out, const char* function) {
  return count_cores(
      out,
      [](const Context& settings) {
        return Runtime::instance().visible_cores(settings, open_chosen_machine);
      },
      function);
}

struct NamedNumber {
  std::string_view name;
  uint32_t number;
};

// Names before the dot of an instance type.
constexpr NamedNumber kFamilies[] = {
    {"inf1", NRT_INSTANCE_INF1},          {"inf2", NRT_INSTANCE_INF2},
    {"inf2e", NRT_INSTANCE_INF2E},        {"trn1", NRT_INSTANCE_TRN1},
    {"trn1n", NRT_INSTANCE_TRN1N},        {"trn2", NRT_INSTANCE_TRN2},
    {"trn2n", NRT_INSTANCE_TRN2N},        {"trn2p", NRT_INSTANCE_TRN2P},
    {"trn2u", NRT_INSTANCE_TRN2U},        {"trn2e", NRT_INSTANCE_TRN2E},
    {"trn2eu", NRT_INSTANCE_TRN2EU},      {"trn2ac", NRT_INSTANCE_TRN2AC},
    {"trn2uac", NRT_INSTANCE_TRN2UAC},    {"trn3", NRT_INSTANCE_TRN3},
    {"trn3pds98", NRT_INSTANCE_TRN3PDS98}};

constexpr NamedNumber kSizes[] = {
    {"xlarge", NRT_INSTANCE_SIZE_1XL},    {"2xlarge", NRT_INSTANCE_SIZE_2XL},
    {"3xlarge", NRT_INSTANCE_SIZE_3XL},   {"4xlarge", NRT_INSTANCE_SIZE_4XL},
    {"6xlarge", NRT_INSTANCE_SIZE_6XL},   {"8xlarge", NRT_INSTANCE_SIZE_8XL},
    {"24xlarge", NRT_INSTANCE_SIZE_24XL}, {"32xlarge", NRT_INSTANCE_SIZE_32XL},
    {"48xlarge", NRT_INSTANCE_SIZE_48XL}};

template <size_t N>
uint32_t number_of(const NamedNumber (&table)[N], std::string_view name, uint32_t fallback) {
  for (const NamedNumber& row : table) {
    if (row.name == name) {
      return row.number;
    }
  }
  return fallback;
}

nrt_instance_info_t instance_info(const MachineInfo& machine) {
  const std::string_view type = machine.instance_type;
  // "trn2.48xlarge", and "trn3-gen1", which has no size.
  const size_t end = type.find_first_of(".-");
  const std::string_view rest =
      end == std::string_view::npos ? std::string_view() : type.substr(end + 1);
  nrt_instance_info_t info = {};
  info.family = number_of(kFamilies, type.substr(0, end), NRT_INSTANCE_UNKNOWN);
  info.size = number_of(kSizes, rest, NRT_INSTANCE_SIZE_UNKNOWN);
  std::strncpy(info.arch_name, ("NC" + machine.neuroncore_version).c_str(),
               sizeof info.arch_name - 1);
  return info;
}

}  // namespace
}  // namespace onrt::api

using namespace onrt;       // NOLINT(google-build-using-namespace)
using namespace onrt::api;  // NOLINT(google-build-using-namespace)

extern "C" NRT_STATUS nrt_init(nrt_framework_type_t, const char* fw_version, const char*) {
  return c_boundary([&] { return start(fw_version); });
}

extern "C" void nrt_close(void) {
  c_boundary([&] {
    leave_global_communicators();
    Runtime::instance().close(*context());
    return ok_status();
  });
}

extern "C" NRT_STATUS nrt_get_total_nc_count(uint32_t* vnc_count) {
  return count_total(vnc_count, "nrt_get_total_nc_count");
}
extern "C" NRT_STATUS nrt_get_total_vnc_count(uint32_t* vnc_count) {
  return count_total(vnc_count, "nrt_get_total_vnc_count");
}
extern "C" NRT_STATUS nrt_get_visible_nc_count(uint32_t* vnc_count) {
  return count_visible(vnc_count, "nrt_get_visible_nc_count");
}
extern "C" NRT_STATUS nrt_get_visible_vnc_count(uint32_t* vnc_count) {
  return count_visible(vnc_count, "nrt_get_visible_vnc_count");
}

extern "C" NRT_STATUS nrt_get_instance_info(nrt_instance_info_t* info, size_t instance_info_len) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    size_t written = 0;
    return fill_struct(instance_info(session->info()), info, instance_info_len, &written);
  });
}

extern "C" NRT_STATUS nrt_host_device_id_get(int neuron_dev, uint32_t* host_device_id) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_RETURN_IF_ERROR(check_not_null(host_device_id, "host_device_id"));
    const auto& devices = session->info().devices;
    if (neuron_dev < 0 || static_cast<size_t>(neuron_dev) >= devices.size()) {
      return Status(NRT_INVALID,
                    format("device {}: this machine has {} devices", neuron_dev, devices.size()));
    }
    *host_device_id = static_cast<uint32_t>(devices[static_cast<size_t>(neuron_dev)].index);
    return ok_status();
  });
}

// The routing identifier of a device is its number on the machines that we know.
extern "C" NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t* count,
                                                     uint32_t* host_did_to_rid_map) {
  return c_boundary([&]() -> Status {
    ONRT_ASSIGN_OR_RETURN(const SessionUse session, Runtime::instance().enter());
    ONRT_RETURN_IF_ERROR(check_not_null(count, "count"));
    ONRT_RETURN_IF_ERROR(check_not_null(host_did_to_rid_map, "host_did_to_rid_map"));
    const auto devices = static_cast<uint32_t>(session->info().devices.size());
    if (*count < devices) {
      return Status(NRT_INVALID, format("count {}: this machine has {} devices", *count, devices));
    }
    for (uint32_t i = 0; i < devices; ++i) {
      host_did_to_rid_map[i] = i;
    }
    *count = devices;
    return ok_status();
  });
}
