// SPDX-License-Identifier: Apache-2.0
// A rank for tests and benchmarks: finds out its rank from whatever launcher started it, joins the
// others at NEURON_RT_ROOT_COMM_ID (or where the launcher says), meets them and prints one line.
#include <cstdio>

#include "collectives/boot/boot.h"
#include "collectives/boot/rank_env.h"
#include "runtime/base/format.h"

namespace onrt::cc {
namespace {

constexpr std::chrono::seconds kPatience{60};

Result<BootOptions> find_place(const Context& context, std::string& launcher) {
  ONRT_ASSIGN_OR_RETURN(BootOptions options, boot_options(context));
  ONRT_ASSIGN_OR_RETURN(const auto info, discover_rank());
  if (!info) {
    return Status(NRT_INVALID, "no launcher's variables are set");
  }
  launcher = info->launcher;
  options.rank = info->rank;
  options.size = info->size;
  if (options.root.host.empty() && info->root) {
    options.root = *info->root;
  }
  if (options.root.host.empty()) {
    return Status(NRT_INVALID, "NEURON_RT_ROOT_COMM_ID: expected host:port, found nothing");
  }
  return options;
}

Status run() {
  const Context context = Context::from_environment();
  std::string launcher;
  ONRT_ASSIGN_OR_RETURN(const BootOptions options, find_place(context, launcher));
  ONRT_ASSIGN_OR_RETURN(const auto boot, Bootstrap::join(options));
  ONRT_RETURN_IF_ERROR(boot->barrier(std::chrono::steady_clock::now() + kPatience));
  const std::string line = format("rank {} of {} by {}\n", options.rank, options.size, launcher);
  std::fputs(line.c_str(), stdout);
  return ok_status();
}

}  // namespace
}  // namespace onrt::cc

int main() {
  const onrt::Status status = onrt::cc::run();
  if (!status.ok()) {
    std::fprintf(stderr, "boot_rank: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  return 0;
}
