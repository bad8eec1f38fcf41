// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/core_lease.h"

#include <algorithm>

#include "runtime/base/format.h"
#include "runtime/core/visible_cores.h"

namespace onrt {
namespace {

// The first words are what users of the vendor's runtime search for.
Status not_available(Machine& machine, const Context& context, const CoreRequest& request,
                     const Status& reason) {
  const int total = machine.info().logical_cores();
  const int first = std::max(0, request.start);
  const int end = request.start < 0 ? total : request.start + request.count;
  int available = end - first;
  std::string holders;
  if (const auto owners = machine.core_owners(); owners.ok()) {
    for (const CoreOwner& owner : *owners) {
      if (owner.core >= first && owner.core < end) {
        --available;
        holders += format("{}nc{} is held by pid {} ({})", holders.empty() ? "" : ", ", owner.core,
                          owner.pid, owner.command);
      }
    }
  }
  const std::string asked =
      request.start < 0 ? format("any {}", request.count)
                        : format("nc{}-nc{}", request.start, request.start + request.count - 1);
  std::string text = format("NeuronCore(s) not available - Requested:{} Available:{}", asked,
                            std::max(0, available));
  text += holders.empty() ? format("; {}", reason.message()) : format("; {}", holders);
  if (core_request_source(context.settings).empty()) {
    text += "; set NEURON_RT_NUM_CORES or NEURON_RT_VISIBLE_CORES to take fewer cores";
  }
  return Status(NRT_RESOURCE, text);
}

}  // namespace

Result<CoreLease> CoreLease::claim(Machine& machine, const Context& context) {
  const int total = machine.info().logical_cores();
  ONRT_ASSIGN_OR_RETURN(const CoreRequest request, requested_cores(context.settings, total));
  if (request.count == 0) {
    return Status(NRT_RESOURCE,
                  "NeuronCore(s) not available - Requested:all Available:0; this "
                  "machine has no Neuron devices");
  }
  auto range = machine.claim_cores(request);
  if (!range.ok()) {
    return range.status().code() == NRT_RESOURCE
               ? not_available(machine, context, request, range.status())
               : std::move(range).status();
  }
  CoreLease lease(machine, context, *range);
  if (context.settings.flag(Setting::kResetCores)) {
    for (int core = range->start; core < range->start + range->count; ++core) {
      ONRT_RETURN_IF_ERROR(machine.reset_core(core).annotate(format("reset of core nc{}", core)));
    }
  }
  return lease;
}

CoreLease::~CoreLease() {
  if (machine_ == nullptr) {
    return;
  }
  const Status status = machine_->release_cores(range_);
  if (!status.ok()) {
    ONRT_LOG(context_->log, Nrt, Error, "cores nc{}-nc{} were not released: {}", range_.start,
             range_.start + range_.count - 1, status.message());
  }
}

}  // namespace onrt
