// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/attributes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "compiler/hlo/literal.h"
#include "compiler/hlo/location.h"
#include "runtime/base/format.h"

namespace onrt::hlo {

void AttributeList::add_flag(nrtcc_attr_key_t key) { attributes_.push_back({.key = key}); }

void AttributeList::add_ints(nrtcc_attr_key_t key, std::vector<int64_t> ints) {
  ints_.push_back(std::move(ints));
  attributes_.push_back({.key = key,
                         .count = static_cast<int32_t>(ints_.back().size()),
                         .ints = ints_.back().data()});
}

void AttributeList::add_data(nrtcc_attr_key_t key, const void* data, size_t size) {
  attributes_.push_back({.key = key, .data = data, .size = size});
}

void AttributeList::add_text(nrtcc_attr_key_t key, std::string text) {
  texts_.push_back(std::move(text));
  add_data(key, texts_.back().data(), texts_.back().size());
}

namespace {

using opennrt::hlo::Instruction;

template <class Field>
std::vector<int64_t> list(const Field& field) {
  return {field.begin(), field.end()};
}

Status add_parameter(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  out.add_ints(NRTCC_ATTR_PARAMETER_NUMBER, {in.parameter_number()});
  return ok_status();
}

Status add_constant(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  ONRT_ASSIGN_OR_RETURN(LiteralBytes literal, read_literal(in.literal(), in.shape()));
  out.add_data(NRTCC_ATTR_LITERAL, literal.data.data(), literal.data.size());
  out.keep(std::move(literal.owned));
  return ok_status();
}

Status add_dimensions(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  out.add_ints(NRTCC_ATTR_DIMENSIONS, list(in.dimensions()));
  return ok_status();
}

Status add_slice(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  std::vector<int64_t> ints;
  for (const auto& dimension : in.slice_dimensions()) {
    ints.insert(ints.end(), {dimension.start(), dimension.limit(), dimension.stride()});
  }
  out.add_ints(NRTCC_ATTR_SLICE, std::move(ints));
  return ok_status();
}

Status add_padding(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  std::vector<int64_t> ints;
  for (const auto& dimension : in.padding_config().dimensions()) {
    ints.insert(ints.end(), {dimension.low(), dimension.high(), dimension.interior()});
  }
  out.add_ints(NRTCC_ATTR_PADDING, std::move(ints));
  return ok_status();
}

Status add_comparison(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  constexpr std::array<std::string_view, 6> kDirections = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  if (std::find(kDirections.begin(), kDirections.end(), in.comparison_direction()) ==
      kDirections.end()) {
    return malformed(format("comparison direction is '{}', expected EQ, NE, LT, LE, GT or GE",
                            printable(in.comparison_direction())));
  }
  out.add_text(NRTCC_ATTR_COMPARISON, in.comparison_direction());
  if (in.comparison_type() == "TOTALORDER") {
    out.add_flag(NRTCC_ATTR_TOTAL_ORDER);
  }
  return ok_status();
}

Status add_dot(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  const opennrt::hlo::DotDimensions& dims = in.dot_dimensions();
  out.add_ints(NRTCC_ATTR_LHS_CONTRACTING, list(dims.lhs_contracting()));
  out.add_ints(NRTCC_ATTR_RHS_CONTRACTING, list(dims.rhs_contracting()));
  out.add_ints(NRTCC_ATTR_LHS_BATCH, list(dims.lhs_batch()));
  out.add_ints(NRTCC_ATTR_RHS_BATCH, list(dims.rhs_batch()));
  return ok_status();
}

Status add_called(const Instruction& in, const ComputationLookup& lookup, AttributeList& out) {
  std::vector<int64_t> called;
  for (const int64_t id : in.called_computation_ids()) {
    called.push_back(lookup(id));
  }
  if (in.opcode() == "while") {  // HLO lists body, condition; nrtcc wants condition, body
    std::reverse(called.begin(), called.end());
  }
  out.add_ints(NRTCC_ATTR_CALLED, std::move(called));
  return ok_status();
}

Status add_gather(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  const opennrt::hlo::GatherDimensions& dims = in.gather_dimensions();
  out.add_ints(NRTCC_ATTR_OFFSET_DIMS, list(dims.offset_dims()));
  out.add_ints(NRTCC_ATTR_COLLAPSED_DIMS, list(dims.collapsed_slice_dims()));
  out.add_ints(NRTCC_ATTR_INDEX_MAP, list(dims.start_index_map()));
  out.add_ints(NRTCC_ATTR_INDEX_VECTOR_DIM, {dims.index_vector_dim()});
  out.add_ints(NRTCC_ATTR_OPERAND_BATCHING, list(dims.operand_batching_dims()));
  out.add_ints(NRTCC_ATTR_INDICES_BATCHING, list(dims.indices_batching_dims()));
  out.add_ints(NRTCC_ATTR_SLICE_SIZES, list(in.gather_slice_sizes()));
  if (in.indices_are_sorted()) {
    out.add_flag(NRTCC_ATTR_INDICES_SORTED);
  }
  return ok_status();
}

Status add_scatter(const Instruction& in, const ComputationLookup& lookup, AttributeList& out) {
  const opennrt::hlo::ScatterDimensions& dims = in.scatter_dimensions();
  out.add_ints(NRTCC_ATTR_OFFSET_DIMS, list(dims.update_window_dims()));
  out.add_ints(NRTCC_ATTR_COLLAPSED_DIMS, list(dims.inserted_window_dims()));
  out.add_ints(NRTCC_ATTR_INDEX_MAP, list(dims.scatter_dims_to_operand_dims()));
  out.add_ints(NRTCC_ATTR_INDEX_VECTOR_DIM, {dims.index_vector_dim()});
  out.add_ints(NRTCC_ATTR_OPERAND_BATCHING, list(dims.input_batching_dims()));
  out.add_ints(NRTCC_ATTR_INDICES_BATCHING, list(dims.indices_batching_dims()));
  if (in.indices_are_sorted()) {
    out.add_flag(NRTCC_ATTR_INDICES_SORTED);
  }
  if (in.unique_indices()) {
    out.add_flag(NRTCC_ATTR_UNIQUE_INDICES);
  }
  return add_called(in, lookup, out);
}

Status add_slice_sizes(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  out.add_ints(NRTCC_ATTR_SLICE_SIZES, list(in.dynamic_slice_sizes()));
  return ok_status();
}

Status add_distribution(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  out.add_ints(NRTCC_ATTR_RNG_DISTRIBUTION, {in.distribution()});
  return ok_status();
}

Status add_rng_algorithm(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  out.add_ints(NRTCC_ATTR_RNG_ALGORITHM, {in.rng_algorithm()});
  return ok_status();
}

Status add_tuple_index(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  out.add_ints(NRTCC_ATTR_TUPLE_INDEX, {in.tuple_index()});
  return ok_status();
}

Status add_custom_call(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  out.add_text(NRTCC_ATTR_TARGET, in.custom_call_target());
  out.add_data(NRTCC_ATTR_BACKEND_CONFIG, in.backend_config().data(), in.backend_config().size());
  return ok_status();
}

Status add_precision(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  out.add_ints(NRTCC_ATTR_EXPONENT_MANTISSA, {in.exponent_bits(), in.mantissa_bits()});
  return ok_status();
}

Status add_window(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  std::vector<int64_t> ints;
  for (const auto& dimension : in.window().dimensions()) {
    ints.insert(ints.end(), {dimension.size(), dimension.stride(), dimension.padding_low(),
                             dimension.padding_high(), dimension.window_dilation(),
                             dimension.base_dilation(), dimension.reversal() ? 1 : 0});
  }
  out.add_ints(NRTCC_ATTR_WINDOW, std::move(ints));
  return ok_status();
}

Status add_sort(const Instruction& in, const ComputationLookup& lookup, AttributeList& out) {
  if (in.is_stable()) {
    out.add_flag(NRTCC_ATTR_STABLE);
  }
  ONRT_RETURN_IF_ERROR(add_dimensions(in, lookup, out));
  return add_called(in, lookup, out);
}

Status add_topk(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  out.add_ints(NRTCC_ATTR_K, {in.k()});
  if (in.largest()) {
    out.add_flag(NRTCC_ATTR_LARGEST);
  }
  return ok_status();
}

Status add_reduce(const Instruction& in, const ComputationLookup& lookup, AttributeList& out) {
  ONRT_RETURN_IF_ERROR(add_dimensions(in, lookup, out));
  return add_called(in, lookup, out);
}

Status add_windowed_call(const Instruction& in, const ComputationLookup& lookup,
                         AttributeList& out) {
  ONRT_RETURN_IF_ERROR(add_window(in, lookup, out));
  return add_called(in, lookup, out);
}

// Batch, feature, spatial dimensions of input, kernel (input feature, output feature), output.
Status add_convolution(const Instruction& in, const ComputationLookup& lookup, AttributeList& out) {
  const opennrt::hlo::ConvolutionDimensions& dims = in.convolution_dimensions();
  std::vector<int64_t> ints = {dims.input_batch(), dims.input_feature()};
  ints.insert(ints.end(), dims.input_spatial().begin(), dims.input_spatial().end());
  ints.insert(ints.end(), {dims.kernel_input_feature(), dims.kernel_output_feature()});
  ints.insert(ints.end(), dims.kernel_spatial().begin(), dims.kernel_spatial().end());
  ints.insert(ints.end(), {dims.output_batch(), dims.output_feature()});
  ints.insert(ints.end(), dims.output_spatial().begin(), dims.output_spatial().end());
  out.add_ints(NRTCC_ATTR_CONV_DIMS, std::move(ints));
  out.add_ints(NRTCC_ATTR_GROUPS, {std::max<int64_t>(in.feature_group_count(), 1),
                                   std::max<int64_t>(in.batch_group_count(), 1)});
  return add_window(in, lookup, out);
}

Status add_batch_norm(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  const float epsilon = in.epsilon();
  const auto* bytes = reinterpret_cast<const char*>(&epsilon);
  out.add_text(NRTCC_ATTR_EPSILON, std::string(bytes, sizeof(epsilon)));
  out.add_ints(NRTCC_ATTR_DIMENSIONS, {in.feature_index()});
  return ok_status();
}

Status add_triangular_solve(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  const opennrt::hlo::TriangularSolveOptions& options = in.triangular_solve_options();
  out.add_ints(NRTCC_ATTR_TRIANGLE, {options.left_side() ? 1 : 0, options.lower() ? 1 : 0,
                                     options.unit_diagonal() ? 1 : 0, options.transpose_a()});
  return ok_status();
}

Status add_cholesky(const Instruction& in, const ComputationLookup&, AttributeList& out) {
  out.add_ints(NRTCC_ATTR_TRIANGLE, {in.cholesky_options().lower() ? 1 : 0});
  return ok_status();
}

struct Row {
  std::string_view opcode;
  Status (*add)(const Instruction&, const ComputationLookup&, AttributeList&);
};

// Opcodes that carry attributes; any other has none.
constexpr std::array kRows = {
    Row{"parameter", add_parameter},
    Row{"constant", add_constant},
    Row{"broadcast", add_dimensions},
    Row{"transpose", add_dimensions},
    Row{"concatenate", add_dimensions},
    Row{"reverse", add_dimensions},
    Row{"iota", add_dimensions},
    Row{"reduce", add_reduce},
    Row{"map", add_reduce},
    Row{"sort", add_sort},
    Row{"topk", add_topk},
    Row{"slice", add_slice},
    Row{"pad", add_padding},
    Row{"compare", add_comparison},
    Row{"dot", add_dot},
    Row{"call", add_called},
    Row{"while", add_called},
    Row{"conditional", add_called},
    Row{"gather", add_gather},
    Row{"scatter", add_scatter},
    Row{"dynamic-slice", add_slice_sizes},
    Row{"rng", add_distribution},
    Row{"rng-bit-generator", add_rng_algorithm},
    Row{"get-tuple-element", add_tuple_index},
    Row{"custom-call", add_custom_call},
    Row{"reduce-precision", add_precision},
    Row{"reduce-window", add_windowed_call},
    Row{"select-and-scatter", add_windowed_call},
    Row{"convolution", add_convolution},
    Row{"batch-norm-training", add_batch_norm},
    Row{"batch-norm-inference", add_batch_norm},
    Row{"batch-norm-grad", add_batch_norm},
    Row{"triangular-solve", add_triangular_solve},
    Row{"cholesky", add_cholesky},
};

}  // namespace

Status add_attributes(const Instruction& instruction, const ComputationLookup& lookup,
                      AttributeList& attributes) {
  attributes.add_text(NRTCC_ATTR_NAME, printable(instruction.name()));
  if (std::string source = source_text(instruction); !source.empty()) {
    attributes.add_text(NRTCC_ATTR_SOURCE, std::move(source));
  }
  for (const Row& row : kRows) {
    if (row.opcode == instruction.opcode()) {
      return row.add(instruction, lookup, attributes);
    }
  }
  return ok_status();
}

}  // namespace onrt::hlo
