// SPDX-License-Identifier: Apache-2.0
// Scope that holds the machine lock with a journal entry. Only for machine_*.cc.
#pragma once

#include "emulator/machine_file.h"

namespace onrt::emu {

class MachineFile::Transaction {
 public:
  // `file.mutex_` is held; begin() succeeded.
  explicit Transaction(MachineFile& file) : file_(file) {}
  ~Transaction() ONRT_NO_THREAD_SAFETY_ANALYSIS { file_.end(); }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

 private:
  MachineFile& file_;
};

}  // namespace onrt::emu
