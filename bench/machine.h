// SPDX-License-Identifier: Apache-2.0
// What the programs that use libnrt share: an emulated machine of their own, failures that end the
// program, small models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nrt/nrt.h"
#include "nrt/nrt_experimental.h"
#include "opennrt/nrtcc.h"

namespace onrt::bench {

// A temporary machine directory for OPENNRT_MACHINE_DIR, removed at the end; OPENNRT_EMULATE
// defaults to trn1.2xlarge. Calls nrt_init() and nrt_close().
class Machine {
 public:
  Machine();
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

 private:
  std::string folder_;
};

// Ends the program with `what` and the library's text unless the status is success.
void check(const char* what, NRT_STATUS status);
void check(const char* what, nrtcc_status_t status);

// out = a + b on f32[elements]; the graph is the caller's.
nrtcc_graph_t* make_add_graph(int64_t elements);
// out = tanh((a + b) * a) on f32[elements].
nrtcc_graph_t* make_three_op_graph(int64_t elements);
std::vector<uint8_t> compile(const nrtcc_graph_t* graph);

}  // namespace onrt::bench
