// SPDX-License-Identifier: Apache-2.0
// Runs the combiner of reduce and reduce-window on the values of all arrays.
#pragma once

#include <vector>

#include "compiler/hir/combiner.h"
#include "compiler/reference/interpreter.h"

namespace onrt::reference {

using Row = std::vector<ncx::Boxed>;  // one value per array

// Operands of the operation: the arrays come first.
class Combiner {
 public:
  explicit Combiner(Operation& operation)
      : operation_(operation),
        simple_(hir::simple_combiners(operation.graph, operation.callee())) {}

  bool is_general() const { return simple_.empty(); }

  Row operator()(const Row& a, const Row& b) {
    Row made(a.size());
    for (size_t i = 0; i < a.size(); ++i) {
      made[i] = simple_.empty() ? 0 : ncx::combine_unrounded(simple_[i], type(i), a[i], b[i]);
    }
    if (simple_.empty()) {
      call(a, b, made);
    }
    return made;
  }

  // After init: bf16, f16 and fp8 are rounded once.
  Row settle(Row row) const {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = ncx::settle_boxed(type(i), row[i]);
    }
    return row;
  }

  Status status = ok_status();

 private:
  Dtype type(size_t i) const { return operation_.operand(i).dtype; }

  static Tensor make_scalar(Dtype dtype, ncx::Boxed value) {
    Tensor made{dtype, {}, std::vector<std::byte>(dtype_bytes(dtype))};
    made.set(0, value);
    return made;
  }

  void call(const Row& a, const Row& b, Row& made) {
    std::vector<Tensors> arguments;
    for (const Row* row : {&a, &b}) {
      for (size_t i = 0; i < row->size(); ++i) {
        arguments.push_back({make_scalar(type(i), (*row)[i])});
      }
    }
    Result<Tensors> values =
        interpret(operation_.graph, operation_.callee(), arguments, operation_.budget);
    if (!values.ok()) {
      status = std::move(values).status();
      return;
    }
    for (size_t i = 0; i < made.size(); ++i) {
      made[i] = values->at(i).get(0);
    }
  }

  Operation& operation_;
  std::vector<ncx::ScalarOp> simple_;
};

}  // namespace onrt::reference
