// SPDX-License-Identifier: Apache-2.0
#include "compiler/hlo/export_attributes.h"

#include <cstring>
#include <string>

#include "compiler/hlo/literal.h"

namespace onrt::hlo {
namespace {

using hir::AttributeKey;
using opennrt::hlo::Instruction;

template <class Field>
void put(std::span<const int64_t> ints, Field* field) {
  field->Add(ints.begin(), ints.end());
}

int64_t first(const hir::Attribute& attribute) {
  return attribute.ints.empty() ? 0 : attribute.ints[0];
}

void put_slice(std::span<const int64_t> ints, Instruction& out) {
  for (size_t i = 0; i + 2 < ints.size(); i += 3) {
    auto* dimension = out.add_slice_dimensions();
    dimension->set_start(ints[i]);
    dimension->set_limit(ints[i + 1]);
    dimension->set_stride(ints[i + 2]);
  }
}

void put_padding(std::span<const int64_t> ints, Instruction& out) {
  out.mutable_padding_config();  // XLA wants one of no dimensions, too
  for (size_t i = 0; i + 2 < ints.size(); i += 3) {
    auto* dimension = out.mutable_padding_config()->add_dimensions();
    dimension->set_low(ints[i]);
    dimension->set_high(ints[i + 1]);
    dimension->set_interior(ints[i + 2]);
  }
}

void put_window(std::span<const int64_t> ints, Instruction& out) {
  out.mutable_window();
  for (size_t i = 0; i + 6 < ints.size(); i += 7) {
    auto* dimension = out.mutable_window()->add_dimensions();
    dimension->set_size(ints[i]);
    dimension->set_stride(ints[i + 1]);
    dimension->set_padding_low(ints[i + 2]);
    dimension->set_padding_high(ints[i + 3]);
    dimension->set_window_dilation(ints[i + 4]);
    dimension->set_base_dilation(ints[i + 5]);
    dimension->set_reversal(ints[i + 6] != 0);
  }
}

// Batch, feature, spatial dimensions of input, kernel (input feature, output feature), output.
void put_convolution(std::span<const int64_t> ints, Instruction& out) {
  const size_t rank = ints.size() / 3;
  if (rank < 2 || ints.size() % 3 != 0) {
    return;
  }
  auto* dims = out.mutable_convolution_dimensions();
  dims->set_input_batch(ints[0]);
  dims->set_input_feature(ints[1]);
  put(ints.subspan(2, rank - 2), dims->mutable_input_spatial());
  dims->set_kernel_input_feature(ints[rank]);
  dims->set_kernel_output_feature(ints[rank + 1]);
  put(ints.subspan(rank + 2, rank - 2), dims->mutable_kernel_spatial());
  dims->set_output_batch(ints[2 * rank]);
  dims->set_output_feature(ints[2 * rank + 1]);
  put(ints.subspan(2 * rank + 2, rank - 2), dims->mutable_output_spatial());
}

void put_called(std::span<const int64_t> ints, Instruction& out) {
  for (size_t i = 0; i < ints.size(); ++i) {
    // HLO lists a loop's body before its condition.
    const size_t from = out.opcode() == "while" ? ints.size() - 1 - i : i;
    out.add_called_computation_ids(exported_id(static_cast<hir::ComputationId>(ints[from])));
  }
}

// Keys that gather and scatter share; HLO has two messages with other words for the same numbers.
bool put_indexed(const hir::Attribute& attribute, Instruction& out) {
  const bool gather = out.opcode() == "gather";
  auto* g = gather ? out.mutable_gather_dimensions() : nullptr;
  auto* s = gather ? nullptr : out.mutable_scatter_dimensions();
  switch (attribute.key) {
    case AttributeKey::kOffsetDims:
      put(attribute.ints, gather ? g->mutable_offset_dims() : s->mutable_update_window_dims());
      return true;
    case AttributeKey::kCollapsedDims:
      put(attribute.ints,
          gather ? g->mutable_collapsed_slice_dims() : s->mutable_inserted_window_dims());
      return true;
    case AttributeKey::kIndexMap:
      put(attribute.ints,
          gather ? g->mutable_start_index_map() : s->mutable_scatter_dims_to_operand_dims());
      return true;
    case AttributeKey::kIndexVectorDim:
      gather ? g->set_index_vector_dim(first(attribute))
             : s->set_index_vector_dim(first(attribute));
      return true;
    case AttributeKey::kOperandBatching:
      put(attribute.ints,
          gather ? g->mutable_operand_batching_dims() : s->mutable_input_batching_dims());
      return true;
    case AttributeKey::kIndicesBatching:
      put(attribute.ints,
          gather ? g->mutable_indices_batching_dims() : s->mutable_indices_batching_dims());
      return true;
    default:
      return false;
  }
}

bool put_dot(const hir::Attribute& attribute, Instruction& out) {
  auto* dims = out.mutable_dot_dimensions();
  switch (attribute.key) {
    case AttributeKey::kLhsContracting:
      put(attribute.ints, dims->mutable_lhs_contracting());
      return true;
    case AttributeKey::kRhsContracting:
      put(attribute.ints, dims->mutable_rhs_contracting());
      return true;
    case AttributeKey::kLhsBatch:
      put(attribute.ints, dims->mutable_lhs_batch());
      return true;
    case AttributeKey::kRhsBatch:
      put(attribute.ints, dims->mutable_rhs_batch());
      return true;
    default:
      return false;
  }
}

void put_epsilon(const hir::Attribute& attribute, Instruction& out) {
  float epsilon = 0;
  if (attribute.data.size() == sizeof(epsilon)) {
    std::memcpy(&epsilon, attribute.data.data(), sizeof(epsilon));
  }
  out.set_epsilon(epsilon);
}

void put_triangle(std::span<const int64_t> ints, Instruction& out) {
  if (ints.size() == 1) {
    out.mutable_cholesky_options()->set_lower(ints[0] != 0);
  } else if (ints.size() == 4) {
    auto* options = out.mutable_triangular_solve_options();
    options->set_left_side(ints[0] != 0);
    options->set_lower(ints[1] != 0);
    options->set_unit_diagonal(ints[2] != 0);
    options->set_transpose_a(static_cast<int32_t>(ints[3]));
  }
}

void put_one(const hir::Attribute& attribute, Instruction& out) {
  const std::span<const int64_t> ints = attribute.ints;
  switch (attribute.key) {
    case AttributeKey::kParameterNumber:
      out.set_parameter_number(first(attribute));
      break;
    case AttributeKey::kDimensions:
      if (out.opcode().starts_with("batch-norm")) {
        out.set_feature_index(first(attribute));
      } else {
        put(ints, out.mutable_dimensions());
      }
      break;
    case AttributeKey::kSlice:
      put_slice(ints, out);
      break;
    case AttributeKey::kPadding:
      put_padding(ints, out);
      break;
    case AttributeKey::kComparison:
      out.set_comparison_direction(std::string(attribute.text()));
      break;
    case AttributeKey::kTotalOrder:
      out.set_comparison_type("TOTALORDER");
      break;
    case AttributeKey::kCalled:
      put_called(ints, out);
      break;
    case AttributeKey::kSliceSizes:
      put(ints, out.opcode() == "gather" ? out.mutable_gather_slice_sizes()
                                         : out.mutable_dynamic_slice_sizes());
      break;
    case AttributeKey::kIndicesSorted:
      out.set_indices_are_sorted(true);
      break;
    case AttributeKey::kUniqueIndices:
      out.set_unique_indices(true);
      break;
    case AttributeKey::kRngDistribution:
      out.set_distribution(static_cast<int32_t>(first(attribute)));
      break;
    case AttributeKey::kRngAlgorithm:
      out.set_rng_algorithm(static_cast<int32_t>(first(attribute)));
      break;
    case AttributeKey::kTupleIndex:
      out.set_tuple_index(first(attribute));
      break;
    case AttributeKey::kTarget:
      out.set_custom_call_target(std::string(attribute.text()));
      break;
    case AttributeKey::kBackendConfig:
      out.set_backend_config(std::string(attribute.text()));
      break;
    case AttributeKey::kExponentMantissa:
      out.set_exponent_bits(static_cast<int32_t>(first(attribute)));
      out.set_mantissa_bits(ints.size() > 1 ? static_cast<int32_t>(ints[1]) : 0);
      break;
    case AttributeKey::kK:
      out.set_k(first(attribute));
      break;
    case AttributeKey::kLargest:
      out.set_largest(true);
      break;
    case AttributeKey::kStable:
      out.set_is_stable(true);
      break;
    case AttributeKey::kWindow:
      put_window(ints, out);
      break;
    case AttributeKey::kConvDims:
      put_convolution(ints, out);
      break;
    case AttributeKey::kGroups:
      out.set_feature_group_count(first(attribute));
      out.set_batch_group_count(ints.size() > 1 ? ints[1] : 1);
      break;
    case AttributeKey::kEpsilon:
      put_epsilon(attribute, out);
      break;
    case AttributeKey::kTriangle:
      put_triangle(ints, out);
      break;
    case AttributeKey::kSource:
      out.mutable_metadata()->set_op_name(std::string(attribute.text()));
      break;
    default:
      break;  // the name, and keys that their opcode's own function has put
  }
}

}  // namespace

Status export_attributes(const hir::Instruction& instruction, opennrt::hlo::Instruction& out) {
  const bool indexed = out.opcode() == "gather" || out.opcode() == "scatter";
  for (const hir::Attribute& attribute : instruction.attributes) {
    if (attribute.key == AttributeKey::kLiteral) {
      ONRT_RETURN_IF_ERROR(write_literal(attribute.data, out.shape(), *out.mutable_literal()));
    } else if (!(indexed && put_indexed(attribute, out)) &&
               !(out.opcode() == "dot" && put_dot(attribute, out))) {
      put_one(attribute, out);
    }
  }
  return ok_status();
}

}  // namespace onrt::hlo
