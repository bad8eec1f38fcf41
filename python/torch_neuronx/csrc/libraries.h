// SPDX-License-Identifier: Apache-2.0
// libnrtcc and libnrt, opened when a device is first used: importing the package costs nothing and
// works on machines that have neither. Which libnrt is taken: docs/torch_neuronx.md.
#pragma once

#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <opennrt/nrtcc.h>

#include <stdexcept>
#include <string>

namespace tnx {

// Something the user should read; becomes a Python RuntimeError.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The device has no memory left; becomes torch.OutOfMemoryError.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

#define TNX_NRT_FUNCTIONS(X)      \
  X(nrt_init)                     \
  X(nrt_close)                    \
  X(nrt_get_visible_vnc_count)    \
  X(nrt_load)                     \
  X(nrt_unload)                   \
  X(nrt_execute)                  \
  X(nrt_allocate_tensor_set)      \
  X(nrt_destroy_tensor_set)       \
  X(nrt_add_tensor_to_tensor_set) \
  X(nrt_tensor_allocate)          \
  X(nrt_tensor_allocate_slice)    \
  X(nrt_tensor_free)              \
  X(nrt_tensor_read)              \
  X(nrt_tensor_write)             \
  X(nrt_tensor_copy)              \
  X(nrt_tensor_get_va)            \
  X(nrt_get_vnc_memory_stats)     \
  X(nrt_get_instance_info)        \
  X(nrt_get_status_as_str)

#define TNX_NRTCC_FUNCTIONS(X) \
  X(nrtcc_last_error)          \
  X(nrtcc_last_warnings)       \
  X(nrtcc_graph_create)        \
  X(nrtcc_graph_destroy)       \
  X(nrtcc_computation)         \
  X(nrtcc_opcode)              \
  X(nrtcc_op)                  \
  X(nrtcc_set_root)            \
  X(nrtcc_set_alias)           \
  X(nrtcc_print)               \
  X(nrtcc_free)                \
  X(nrtcc_cache_open)          \
  X(nrtcc_cache_problem)       \
  X(nrtcc_compile_cached)

#define TNX_MEMBER(name) decltype(&::name) name = nullptr;

struct Runtime {
  TNX_NRT_FUNCTIONS(TNX_MEMBER)
  const char* (*onrt_last_error)() = nullptr;  // OpenNRT's own; absent in the vendor's library
  std::string path;
};

struct Compiler {
  TNX_NRTCC_FUNCTIONS(TNX_MEMBER)
  std::string path;
};

#undef TNX_MEMBER

// Folder of the package; the bundled libraries are in its `lib`. Set once, by the module.
void set_package_folder(std::string folder);

// Thread-safe; throw Error if the library can't be opened, with what was tried.
const Runtime& runtime();
const Compiler& compiler();

// Throws OutOfMemory or Error with the text of the failure.
void check(NRT_STATUS status, const char* what);

}  // namespace tnx
