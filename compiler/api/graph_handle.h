// SPDX-License-Identifier: Apache-2.0
// What an nrtcc_graph_t is, and how a call of the C API fails.
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "compiler/hir/graph.h"
#include "compiler/hir/status.h"
#include "opennrt/nrtcc.h"

struct nrtcc_graph {
  explicit nrtcc_graph(std::string_view name) : graph(name) {}

  static constexpr uint64_t kAlive = 0x6e72746363677231;  // "nrtccgr1"
  uint64_t tag = kAlive;
  onrt::hir::Graph graph;
};

namespace onrt::nrtcc {

// Keeps the text for nrtcc_last_error().
nrtcc_status_t report(const Status& status) noexcept;
nrtcc_status_t report_exception() noexcept;

inline Status check_graph(const nrtcc_graph_t* graph) {
  return graph != nullptr && graph->tag == nrtcc_graph::kAlive
             ? ok_status()
             : hir::invalid("graph: expected a handle from nrtcc_graph_create() that is alive");
}

inline Status check_pointer(const void* pointer, std::string_view name) {
  return pointer != nullptr ? ok_status() : hir::invalid(std::string(name) + " is NULL");
}

// Runs a function that returns a Status; no exception passes.
template <class Body>
nrtcc_status_t boundary(Body body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? NRTCC_OK : report(status);
  } catch (...) {
    return report_exception();
  }
}

// Memory that nrtcc_free() takes back.
Result<void*> allocate_copy(const void* data, size_t size);

}  // namespace onrt::nrtcc
