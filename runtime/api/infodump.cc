// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/infodump.h"

#include <sys/utsname.h>
#include <unistd.h>

#include "nrt/nrt_version.h"
#include "runtime/api/last_error.h"

namespace onrt::api {

bool needs_infodump(NRT_STATUS status) {
  return status == NRT_EXEC_UNIT_UNRECOVERABLE || status == NRT_EXEC_OOB ||
         status == NRT_HW_ERROR ||
         (status >= NRT_EXEC_HW_ERR_COLLECTIVES && status <= NRT_NETWORK_PROXY_FAILURE);
}

void nrt_infodump(const Session& session, NRT_STATUS status, const char* function) {
  Logger& log = *session.context().log;
  if (!log.enabled(LogComponent::kNrt, LogLevel::kError)) {
    return;
  }
  const auto line = [&](const std::string& text) {
    log.write(LogComponent::kNrt, LogLevel::kError, "nrt_infodump", text);
  };
  nrt_version_t version = {};
  nrt_get_version(&version, sizeof version);
  utsname kernel = {};
  ::uname(&kernel);
  const MachineInfo& machine = session.info();
  const CoreRange& cores = session.core_range();
  line("Neuron runtime information - please include in any support request:");
  line("------------->8------------[ cut here ]------------>8-------------");
  line(format("NRT version: {}.{}.{}.{} ({}, {})", version.rt_major, version.rt_minor,
              version.rt_patch, version.rt_maintenance, version.rt_detail, version.git_hash));
  line(format("Instance type: {}{}", machine.instance_type,
              machine.emulated ? format(" (emulated, machine '{}')", machine.name) : ""));
  line(format("Instance ID: {}", machine.instance_id.empty() ? "unknown" : machine.instance_id));
  line(format("Kernel: {} {} {}", kernel.sysname, kernel.release, kernel.version));
  line(format("Nodename: {}", kernel.nodename));
  line(format("Failure: {} in {}()", status_text(status), function));
  line(format("LNC: {}", machine.logical_core_size));
  line(format("Visible cores: {}-{}", cores.start, cores.start + cores.count - 1));
  line("Environment:");
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("NEURON_") || text.starts_with("OPENNRT_")) {
      line(format("    {}", text));
    }
  }
  line("-------------8<-----------[ cut to here ]-----------8<------------");
}

}  // namespace onrt::api
