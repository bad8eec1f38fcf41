// SPDX-License-Identifier: Apache-2.0
// One step of the recurrent layers, torch.nn.LSTM and GRU and their cells: the products are torch's
// own, these are the gates. Formulas are those of torch's documentation, gradients their
// derivatives.
#include "python/torch_neuronx/csrc/lower/reduce.h"

namespace tnx {
namespace {

// Columns that are gates side by side, [N, count * H], apart.
std::vector<Value> gates_of(Graph& g, const Value& x, int64_t count) {
  const int64_t width = x.dims[1] / count;
  std::vector<Value> gates;
  for (int64_t i = 0; i < count; ++i) {
    gates.push_back(g.narrow(x, 1, i * width, width));
  }
  return gates;
}

// x * (1 - x), the slope of the sigmoid that gave x.
Value sigmoid_slope(Graph& g, const Value& x) { return g.mul(x, g.sub(g.like(x, 1), x)); }
// 1 - x^2, the slope of the tangent that gave x.
Value tanh_slope(Graph& g, const Value& x) { return g.sub(g.like(x, 1), g.mul(x, x)); }

// Argument `gates` plus the bias in argument `bias`, if there is one.
Value biased(Graph& g, const Call& call, size_t gates, size_t bias, Type type) {
  const Value x = call.operand(g, gates, type);
  return call.has(bias) ? g.add(x, call.operand(g, bias, type)) : x;
}

Value operand_or_zeros(Graph& g, const Call& call, size_t i, const Value& like) {
  return call.has(i) ? call.operand(g, i, like.type) : g.like(like, 0);
}

// input_gates, hidden_gates, cx, input_bias, hidden_bias
std::vector<Value> lstm_cell(Graph& g, const Call& call) {
  const Type given = call.tensor(0).type;
  const Type type = compute_type(given);
  const std::vector<Value> sums =
      gates_of(g, g.add(biased(g, call, 0, 3, type), biased(g, call, 1, 4, type)), 4);
  const Value in = g.sigmoid(sums[0]);
  const Value forget = g.sigmoid(sums[1]);
  const Value cell = g.tanh(sums[2]);
  const Value out = g.sigmoid(sums[3]);
  const Value cy = g.add(g.mul(forget, call.operand(g, 2, type)), g.mul(in, cell));
  const Value hy = g.mul(out, g.tanh(cy));
  const Value workspace = g.concat({in, forget, cell, out}, 1);
  return {g.convert(hy, given), g.convert(cy, given), g.convert(workspace, given)};
}

// grad_hy, grad_cy, cx, cy, workspace, has_bias
std::vector<Value> lstm_cell_backward(Graph& g, const Call& call) {
  const Type given = call.tensor(4).type;
  const Type type = compute_type(given);
  const std::vector<Value> gates = gates_of(g, call.operand(g, 4, type), 4);
  const Value& in = gates[0];
  const Value& forget = gates[1];
  const Value& cell = gates[2];
  const Value& out = gates[3];
  const Value cx = call.operand(g, 2, type);
  const Value bent = g.tanh(call.operand(g, 3, type));
  const Value grad_hy = operand_or_zeros(g, call, 0, cx);
  const Value grad_cy =
      g.add(operand_or_zeros(g, call, 1, cx), g.mul(g.mul(grad_hy, out), tanh_slope(g, bent)));
  const Value grads = g.concat({g.mul(g.mul(grad_cy, cell), sigmoid_slope(g, in)),
                                g.mul(g.mul(grad_cy, cx), sigmoid_slope(g, forget)),
                                g.mul(g.mul(grad_cy, in), tanh_slope(g, cell)),
                                g.mul(g.mul(grad_hy, bent), sigmoid_slope(g, out))},
                               1);
  Value bias;
  if (call.flag(5)) {
    bias = g.convert(fold(g, "add", grads, {0}), given);
  }
  return {g.convert(grads, given), g.convert(g.mul(grad_cy, forget), given), bias};
}

// input_gates, hidden_gates, hx, input_bias, hidden_bias
std::vector<Value> gru_cell(Graph& g, const Call& call) {
  const Type given = call.tensor(0).type;
  const Type type = compute_type(given);
  const std::vector<Value> input = gates_of(g, biased(g, call, 0, 3, type), 3);
  const std::vector<Value> hidden = gates_of(g, biased(g, call, 1, 4, type), 3);
  const Value hx = call.operand(g, 2, type);
  const Value reset = g.sigmoid(g.add(input[0], hidden[0]));
  const Value update = g.sigmoid(g.add(input[1], hidden[1]));
  const Value fresh = g.tanh(g.add(input[2], g.mul(reset, hidden[2])));
  const Value hy = g.add(fresh, g.mul(update, g.sub(hx, fresh)));
  const Value workspace = g.concat({reset, update, fresh, hx, hidden[2]}, 1);
  return {g.convert(hy, given), g.convert(workspace, given)};
}

// grad_hy, workspace, has_bias
std::vector<Value> gru_cell_backward(Graph& g, const Call& call) {
  const Type given = call.tensor(1).type;
  const Type type = compute_type(given);
  const std::vector<Value> saved = gates_of(g, call.operand(g, 1, type), 5);
  const Value& reset = saved[0];
  const Value& update = saved[1];
  const Value& fresh = saved[2];
  const Value grad = call.operand(g, 0, type);
  const Value grad_update = g.mul(g.mul(grad, g.sub(saved[3], fresh)), sigmoid_slope(g, update));
  const Value grad_fresh =
      g.mul(g.mul(grad, g.sub(g.like(update, 1), update)), tanh_slope(g, fresh));
  const Value grad_reset = g.mul(g.mul(grad_fresh, saved[4]), sigmoid_slope(g, reset));
  const Value input = g.concat({grad_reset, grad_update, grad_fresh}, 1);
  const Value hidden = g.concat({grad_reset, grad_update, g.mul(grad_fresh, reset)}, 1);
  std::vector<Value> results = {g.convert(input, given), g.convert(hidden, given),
                                g.convert(g.mul(grad, update), given), Value{}, Value{}};
  if (call.flag(2)) {
    results[3] = g.convert(fold(g, "add", input, {0}), given);
    results[4] = g.convert(fold(g, "add", hidden, {0}), given);
  }
  return results;
}

}  // namespace

TNX_LOWER_ROW("_thnn_fused_lstm_cell", (Row{.own_shapes = true}), { return lstm_cell(g, call); })
TNX_LOWER_ROW("_thnn_fused_lstm_cell_backward_impl", (Row{.own_shapes = true}),
              { return lstm_cell_backward(g, call); })
TNX_LOWER_ROW("_thnn_fused_gru_cell", (Row{.own_shapes = true}), { return gru_cell(g, call); })
TNX_LOWER_ROW("_thnn_fused_gru_cell_backward", (Row{.own_shapes = true}),
              { return gru_cell_backward(g, call); })

}  // namespace tnx
