// SPDX-License-Identifier: Apache-2.0
#include "bench/machine.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "opennrt/opennrt.h"

namespace onrt::bench {
namespace {

nrtcc_value_t add_op(nrtcc_graph_t* graph, const char* opcode,
                     const std::vector<nrtcc_value_t>& operands, int64_t elements,
                     const std::vector<nrtcc_attr_t>& attributes) {
  const nrtcc_shape_t shape{NRTCC_F32, 1, &elements, nullptr};
  nrtcc_value_t value = 0;
  check(opcode, nrtcc_op(graph, 0, nrtcc_opcode(opcode), operands.data(),
                         static_cast<int32_t>(operands.size()), &shape, attributes.data(),
                         static_cast<int32_t>(attributes.size()), &value));
  return value;
}

nrtcc_value_t add_parameter(nrtcc_graph_t* graph, int64_t number, int64_t elements) {
  return add_op(graph, "parameter", {}, elements,
                {{NRTCC_ATTR_PARAMETER_NUMBER, 1, &number, nullptr, 0}});
}

}  // namespace

Machine::Machine() {
  char folder[] = "/tmp/opennrt-bench-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    perror(folder);
    exit(1);
  }
  // Memory, as a user's machine has it, when there is a file system in memory.
  const bool shared_memory = std::filesystem::is_directory("/dev/shm");
  folder_ = shared_memory ? std::string("/dev/shm") + (folder + 4) : folder;
  if (shared_memory) {
    std::filesystem::remove(folder);
    std::filesystem::create_directory(folder_);
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
  }
  setenv("OPENNRT_EMULATE", "trn1.2xlarge", 0);
  setenv("OPENNRT_MACHINE_DIR", folder_.c_str(), 1);
  check("nrt_init", nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
}

Machine::~Machine() {
  nrt_close();
  std::error_code ignored;  // a leftover folder in a temporary place harms nobody
  std::filesystem::remove_all(folder_, ignored);
}

void check(const char* what, NRT_STATUS status) {
  if (status != NRT_SUCCESS) {
    fprintf(stderr, "%s: status %d: %s\n", what, static_cast<int>(status), onrt_last_error());
    exit(1);
  }
}

void check(const char* what, nrtcc_status_t status) {
  if (status != NRTCC_OK) {
    fprintf(stderr, "%s: %s\n", what, nrtcc_last_error());
    exit(1);
  }
}

nrtcc_graph_t* make_add_graph(int64_t elements) {
  nrtcc_graph_t* graph = nullptr;
  check("graph", nrtcc_graph_create("add", &graph));
  const nrtcc_value_t a = add_parameter(graph, 0, elements);
  const nrtcc_value_t b = add_parameter(graph, 1, elements);
  check("root", nrtcc_set_root(graph, 0, add_op(graph, "add", {a, b}, elements, {})));
  return graph;
}

nrtcc_graph_t* make_three_op_graph(int64_t elements) {
  nrtcc_graph_t* graph = nullptr;
  check("graph", nrtcc_graph_create("tiny", &graph));
  const nrtcc_value_t a = add_parameter(graph, 0, elements);
  const nrtcc_value_t b = add_parameter(graph, 1, elements);
  const nrtcc_value_t sum = add_op(graph, "add", {a, b}, elements, {});
  const nrtcc_value_t product = add_op(graph, "multiply", {sum, a}, elements, {});
  check("root", nrtcc_set_root(graph, 0, add_op(graph, "tanh", {product}, elements, {})));
  return graph;
}

std::vector<uint8_t> compile(const nrtcc_graph_t* graph) {
  uint8_t* neff = nullptr;
  size_t size = 0;
  nrtcc_options_t options{};
  options.struct_size = sizeof options;
  options.target = "trn1";
  options.optimization = -1;
  check("compile", nrtcc_compile(graph, &options, &neff, &size));
  std::vector<uint8_t> bytes(neff, neff + size);
  nrtcc_free(neff);
  return bytes;
}

}  // namespace onrt::bench
