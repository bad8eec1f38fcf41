// SPDX-License-Identifier: Apache-2.0
// All views of an instruction, for passes that only care about memory.
#pragma once

#include "emulator/isa/program.h"

namespace onrt::ncx {

// Calls function(const View&) for every view of the payload that is in use.
template <class Function>
void for_each_view(const Payload& payload, Function function) {
  const auto all = [&](const std::vector<View>& views) {
    for (const View& view : views) {
      function(view);
    }
  };
  struct Visitor {
    Function& f;
    const decltype(all)& list;
    void operator()(const Eltwise& op) const {
      list(op.inputs);
      list(op.outputs);
    }
    void operator()(const Reduce& op) const {
      list(op.inputs);
      for (const Reduce::Accumulator& accumulator : op.accumulators) {
        f(accumulator.init);
      }
      list(op.epilogue_inputs);
      list(op.outputs);
    }
    void operator()(const Gemm& op) const {
      f(op.lhs);
      f(op.rhs);
      list(op.epilogue_inputs);
      list(op.outputs);
    }
    void operator()(const Conv& op) const {
      f(op.input);
      f(op.kernel);
      list(op.epilogue_inputs);
      list(op.outputs);
    }
    void operator()(const Copy& op) const {
      for (const Copy::Piece& piece : op.pieces) {
        f(piece.source);
        f(piece.destination);
      }
    }
    void operator()(const Gather& op) const {
      f(op.operand);
      f(op.indices);
      f(op.output);
    }
    void operator()(const Scatter& op) const {
      list(op.outputs);
      f(op.indices);
      list(op.updates);
    }
    void operator()(const DynamicSlice& op) const {
      f(op.source);
      f(op.destination);
      list(op.starts);
    }
    void operator()(const DynamicUpdateSlice& op) const {
      f(op.destination);
      f(op.update);
      list(op.starts);
    }
    void operator()(const Rng& op) const {
      f(op.output);
      if (op.kind == RngKind::kUniform || op.kind == RngKind::kNormal) {
        f(op.a);
        f(op.b);
      } else {
        f(op.state);
        f(op.state_out);
      }
    }
    void operator()(const Linalg& op) const {
      f(op.a);
      if (op.kind == LinalgKind::kTriangularSolve) {
        f(op.b);
      }
      f(op.output);
    }
    void operator()(const Loop& op) const { f(op.predicate); }
    void operator()(const If& op) const { f(op.selector); }
    void operator()(const Call&) const {}
    void operator()(const Sort& op) const {
      list(op.inputs);
      list(op.outputs);
    }
    void operator()(const ReduceWindow& op) const {
      list(op.inputs);
      for (const Reduce::Accumulator& accumulator : op.accumulators) {
        f(accumulator.init);
      }
      list(op.outputs);
    }
    void operator()(const SelectScatter& op) const {
      f(op.operand);
      f(op.source);
      f(op.init);
      f(op.output);
    }
  };
  std::visit(Visitor{function, all}, payload);
}

}  // namespace onrt::ncx
