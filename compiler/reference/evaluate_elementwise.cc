// SPDX-License-Identifier: Apache-2.0
#include "compiler/hir/scalar.h"
#include "compiler/hir/status.h"
#include "compiler/reference/interpreter.h"

namespace onrt::reference {

// result[i] = op(operands[i]...); a scalar operand counts for every i.
Status evaluate_elementwise(Operation& operation) {
  Tensor& result = operation.result();
  const Dtype first = operation.operand(0).dtype;
  const ncx::ScalarOp op =
      *hir::scalar_op(operation.opcode, operation.attributes, first, result.dtype);
  const Dtype operand_type = op == ncx::ScalarOp::kSelect ? result.dtype : first;
  const uint64_t immediate = hir::scalar_immediate(operation.opcode, operation.attributes);
  for (int64_t i = 0; i < result.elements(); ++i) {
    ncx::Boxed values[3] = {};
    for (size_t k = 0; k < operation.operands.size(); ++k) {
      const Tensor& operand = operation.operand(k);
      values[k] = operand.get(operand.dims.empty() ? 0 : i);
    }
    result.set(i, ncx::evaluate(op, result.dtype, operand_type, values, immediate, 0));
  }
  return ok_status();
}

Status evaluate_clamp(Operation& operation) { return evaluate_elementwise(operation); }
Status evaluate_compare(Operation& operation) { return evaluate_elementwise(operation); }
Status evaluate_convert(Operation& operation) { return evaluate_elementwise(operation); }
Status evaluate_is_finite(Operation& operation) { return evaluate_elementwise(operation); }
Status evaluate_reduce_precision(Operation& operation) { return evaluate_elementwise(operation); }
Status evaluate_select(Operation& operation) { return evaluate_elementwise(operation); }

// The bytes, seen as another type.
Status evaluate_bitcast_convert(Operation& operation) {
  operation.result().data = operation.operand(0).data;
  return ok_status();
}

// Parameter and root of the computation are scalars.
Status evaluate_map(Operation& operation) {
  Tensor& result = operation.result();
  for (int64_t i = 0; i < result.elements(); ++i) {
    std::vector<Tensors> arguments;
    for (const Tensor* operand : operation.operands) {
      Tensor scalar{operand->dtype, {}, std::vector<std::byte>(dtype_bytes(operand->dtype))};
      scalar.copy_element(0, *operand, i);
      arguments.push_back({scalar});
    }
    ONRT_ASSIGN_OR_RETURN(const Tensors value, interpret(operation.graph, operation.callee(),
                                                         arguments, operation.budget));
    result.copy_element(i, value[0], 0);
  }
  return ok_status();
}

}  // namespace onrt::reference
