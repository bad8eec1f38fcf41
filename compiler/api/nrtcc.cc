// SPDX-License-Identifier: Apache-2.0
// The C API: building, naming and printing graphs.
#include "opennrt/nrtcc.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "compiler/api/graph_handle.h"
#include "compiler/hir/text.h"
#include "runtime/base/format.h"

namespace onrt::nrtcc {
namespace {

using hir::invalid;

// The only state outside of graphs: the text of the calling thread's last failure.
thread_local std::string last_error;

Result<hir::ShapeId> make_shape(hir::ShapeTable& shapes, const nrtcc_shape_t& shape, size_t depth) {
  if (shape.rank < 0 || (shape.rank > 0 && shape.dtype != NRTCC_TUPLE && shape.dims == nullptr) ||
      (shape.rank > 0 && shape.dtype == NRTCC_TUPLE && shape.elements == nullptr)) {
    return invalid(format("shape: rank {} without its dims or elements", shape.rank));
  }
  const auto rank = static_cast<size_t>(shape.rank);
  if (shape.dtype == NRTCC_TOKEN) {
    return shapes.token();
  }
  if (shape.dtype != NRTCC_TUPLE) {
    const DtypeInfo* info = find_dtype(static_cast<uint32_t>(shape.dtype));
    if (info == nullptr) {
      return hir::unsupported(
          format("shape: element type {} (a number of XLA's PrimitiveType) is "
                 "not supported",
                 static_cast<int>(shape.dtype)));
    }
    return shapes.array(info->dtype, {shape.dims, rank});
  }
  if (depth >= hir::kMaxTupleDepth || rank > hir::kMaxTupleElements) {
    return invalid(format("shape: a tuple of {} elements at depth {}; the limits are {} and {}",
                          rank, depth, hir::kMaxTupleElements, hir::kMaxTupleDepth));
  }
  std::vector<hir::ShapeId> elements(rank);
  for (size_t i = 0; i < rank; ++i) {
    ONRT_ASSIGN_OR_RETURN(elements[i], make_shape(shapes, shape.elements[i], depth + 1));
  }
  return shapes.tuple(elements);
}

Result<hir::Attribute> make_attribute(const nrtcc_attr_t& attribute) {
  const hir::AttributeInfo* info = hir::find_attribute(static_cast<int32_t>(attribute.key));
  if (info == nullptr) {
    return invalid(format("attribute key {} does not exist", static_cast<int>(attribute.key)));
  }
  hir::Attribute made{info->key, {}, {}};
  if (info->payload == hir::Payload::kInts) {
    if (attribute.count < 0 || (attribute.count > 0 && attribute.ints == nullptr)) {
      return invalid(
          format("attribute {}: {} integers without a pointer", info->name, attribute.count));
    }
    made.ints = {attribute.ints, static_cast<size_t>(attribute.count)};
  } else if (info->payload != hir::Payload::kFlag) {
    if (attribute.size > 0 && attribute.data == nullptr) {
      return invalid(
          format("attribute {}: {} bytes without a pointer", info->name, attribute.size));
    }
    made.data = {static_cast<const std::byte*>(attribute.data), attribute.size};
  }
  return made;
}

Status append_op(nrtcc_graph_t* graph, nrtcc_computation_t computation, int32_t opcode,
                 std::span<const nrtcc_value_t> operands, const nrtcc_shape_t& shape,
                 std::span<const nrtcc_attr_t> attributes, nrtcc_value_t* value) {
  if (opcode < 0 || opcode >= hir::kOpcodes) {
    return invalid(format("opcode {} does not exist; nrtcc_opcode() gives the numbers", opcode));
  }
  hir::Candidate candidate;
  candidate.computation = computation;
  candidate.opcode = static_cast<hir::Opcode>(opcode);
  candidate.operands = operands;
  std::vector<hir::Attribute> made(attributes.size());
  for (size_t i = 0; i < made.size(); ++i) {
    Result<hir::Attribute> attribute = make_attribute(attributes[i]);
    if (!attribute.ok()) {
      return std::move(attribute).status().annotate(describe(graph->graph, candidate));
    }
    for (size_t other = 0; other < i; ++other) {
      if (made[other].key == attribute->key) {
        return invalid(format("{}: attribute {} is given twice", describe(graph->graph, candidate),
                              hir::find_attribute(static_cast<int32_t>(attribute->key))->name));
      }
    }
    made[i] = *attribute;
  }
  candidate.attributes = made;
  Result<hir::ShapeId> id = make_shape(graph->graph.shapes(), shape, 0);
  if (!id.ok()) {
    return std::move(id).status().annotate(describe(graph->graph, candidate));
  }
  candidate.shape = *id;
  ONRT_ASSIGN_OR_RETURN(*value, graph->graph.append(candidate));
  return ok_status();
}

}  // namespace

nrtcc_status_t report(const Status& status) noexcept {
  try {
    last_error = status.message();
  } catch (...) {
    last_error.clear();
  }
  switch (status.code()) {
    case NRT_INVALID:
      return NRTCC_INVALID;
    case NRT_UNSUPPORTED_NEFF_VERSION:
      return NRTCC_UNSUPPORTED;
    case NRT_RESOURCE:
      return NRTCC_NO_MEMORY;
    default:
      return NRTCC_INTERNAL;
  }
}

nrtcc_status_t report_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return report(hir::too_large("out of host memory"));
  } catch (const std::exception& fault) {
    return report(hir::internal(fault.what()));
  } catch (...) {
    return report(hir::internal("unknown exception"));
  }
}

Result<void*> allocate_copy(const void* data, size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) {
    return hir::too_large(format("out of host memory for {} bytes", size));
  }
  std::memcpy(memory, data, size);
  return memory;
}

}  // namespace onrt::nrtcc

using onrt::Result;
using onrt::Status;
using onrt::nrtcc::boundary;
using onrt::nrtcc::check_graph;
using onrt::nrtcc::check_pointer;

extern "C" {

const char* nrtcc_last_error(void) { return onrt::nrtcc::last_error.c_str(); }

nrtcc_status_t nrtcc_graph_create(const char* name, nrtcc_graph_t** graph) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_pointer(graph, "graph"));
    *graph = new nrtcc_graph(name == nullptr ? "" : name);
    return onrt::ok_status();
  });
}

void nrtcc_graph_destroy(nrtcc_graph_t* graph) {
  if (graph != nullptr && graph->tag == nrtcc_graph::kAlive) {
    graph->tag = 0;
    delete graph;
  }
}

nrtcc_status_t nrtcc_computation(nrtcc_graph_t* graph, const char* name,
                                 nrtcc_computation_t* computation) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_graph(graph));
    ONRT_RETURN_IF_ERROR(check_pointer(computation, "computation"));
    ONRT_ASSIGN_OR_RETURN(*computation, graph->graph.add_computation(name == nullptr ? "" : name));
    return onrt::ok_status();
  });
}

int32_t nrtcc_opcode(const char* name) {
  return name == nullptr ? -1 : onrt::hir::find_opcode(name);
}

const char* nrtcc_opcode_name(int32_t opcode) {
  return opcode < 0 || opcode >= onrt::hir::kOpcodes
             ? nullptr  // names are literals, so their data ends with a zero
             : onrt::hir::opcode_name(static_cast<onrt::hir::Opcode>(opcode)).data();
}

nrtcc_status_t nrtcc_op(nrtcc_graph_t* graph, nrtcc_computation_t computation, int32_t opcode,
                        const nrtcc_value_t* operands, int32_t n, const nrtcc_shape_t* shape,
                        const nrtcc_attr_t* attributes, int32_t attribute_count,
                        nrtcc_value_t* value) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_graph(graph));
    ONRT_RETURN_IF_ERROR(check_pointer(shape, "shape"));
    ONRT_RETURN_IF_ERROR(check_pointer(value, "value"));
    if (n < 0 || attribute_count < 0) {
      return onrt::hir::invalid(
          onrt::format("expected counts of operands and attributes of 0 or "
                       "more, found {} and {}",
                       n, attribute_count));
    }
    if (n > 0) {
      ONRT_RETURN_IF_ERROR(check_pointer(operands, "operands"));
    }
    if (attribute_count > 0) {
      ONRT_RETURN_IF_ERROR(check_pointer(attributes, "attributes"));
    }
    return onrt::nrtcc::append_op(graph, computation, opcode, {operands, static_cast<size_t>(n)},
                                  *shape, {attributes, static_cast<size_t>(attribute_count)},
                                  value);
  });
}

nrtcc_status_t nrtcc_set_root(nrtcc_graph_t* graph, nrtcc_computation_t computation,
                              nrtcc_value_t value) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_graph(graph));
    return graph->graph.set_root(computation, value);
  });
}

nrtcc_status_t nrtcc_set_input_name(nrtcc_graph_t* graph, int32_t parameter, const char* name) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_graph(graph));
    ONRT_RETURN_IF_ERROR(check_pointer(name, "name"));
    return graph->graph.set_input_name(parameter, name);
  });
}

nrtcc_status_t nrtcc_set_output_name(nrtcc_graph_t* graph, int32_t output, const char* name) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_graph(graph));
    ONRT_RETURN_IF_ERROR(check_pointer(name, "name"));
    return graph->graph.set_output_name(output, name);
  });
}

nrtcc_status_t nrtcc_set_alias(nrtcc_graph_t* graph, int32_t output, int32_t parameter) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_graph(graph));
    return graph->graph.set_alias(output, parameter);
  });
}

void nrtcc_free(void* memory) { std::free(memory); }

nrtcc_status_t nrtcc_print(const nrtcc_graph_t* graph, char** text) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_graph(graph));
    ONRT_RETURN_IF_ERROR(check_pointer(text, "text"));
    const std::string printed = onrt::hir::print(graph->graph);
    ONRT_ASSIGN_OR_RETURN(void* copy,
                          onrt::nrtcc::allocate_copy(printed.c_str(), printed.size() + 1));
    *text = static_cast<char*>(copy);
    return onrt::ok_status();
  });
}

nrtcc_status_t nrtcc_parse(const char* text, size_t size, nrtcc_graph_t** graph) {
  return boundary([&]() -> Status {
    ONRT_RETURN_IF_ERROR(check_pointer(text, "text"));
    ONRT_RETURN_IF_ERROR(check_pointer(graph, "graph"));
    auto made = std::make_unique<nrtcc_graph>("");
    ONRT_RETURN_IF_ERROR(onrt::hir::parse_into(made->graph, {text, size}));
    *graph = made.release();
    return onrt::ok_status();
  });
}

}  // extern "C"
