// SPDX-License-Identifier: Apache-2.0
// Backend without devices: opens, reports a machine of no devices and refuses everything else. The
// smallest complete backend (copy it to start a new one), and a way to see how a client behaves on
// a host without an accelerator. Only taken when asked for: OPENNRT_BACKEND=null.
#include "runtime/driver/driver.h"

namespace onrt {
namespace {

class NullMachine : public Machine {
 public:
  NullMachine() {
    info_.instance_type = "null";
    info_.neuroncore_version = "none";
  }

  const MachineInfo& info() const override { return info_; }
  Result<std::vector<CoreOwner>> core_owners() override { return std::vector<CoreOwner>(); }

 private:
  MachineInfo info_;
};

class NullDriver : public Driver {
 public:
  std::string_view name() const override { return "null"; }

  Status probe(const Context& context) const override {
    if (context.settings.text(Setting::kBackend) != name()) {
      return Status(NRT_FAILURE, "only used when OPENNRT_BACKEND=null");
    }
    return ok_status();
  }

  Result<std::unique_ptr<Machine>> open(const Context&, const MachineRequest&) const override {
    return std::unique_ptr<Machine>(std::make_unique<NullMachine>());
  }
};

}  // namespace

std::unique_ptr<Driver> make_null_driver() { return std::make_unique<NullDriver>(); }

}  // namespace onrt
