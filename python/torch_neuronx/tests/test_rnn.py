# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: outputs, states and gradients. Right values: torch on the CPU."""

import copy
from typing import Any

import pytest
import torch
from compare import DEVICE, close, nothing_falls_back
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

LAYERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "LSTM": (nn.LSTM, {}),
    "LSTM both ways, two layers": (nn.LSTM, {"bidirectional": True, "num_layers": 2}),
    "LSTM without bias": (nn.LSTM, {"bias": False}),
    "LSTM projected": (nn.LSTM, {"proj_size": 3}),
    "GRU": (nn.GRU, {}),
    "GRU both ways, batch first": (nn.GRU, {"bidirectional": True, "batch_first": True}),
    "GRU without bias": (nn.GRU, {"bias": False}),
    "RNN": (nn.RNN, {}),
    "RNN of relu": (nn.RNN, {"nonlinearity": "relu"}),
}


def flat(tree: Any) -> list[torch.Tensor]:
    return [tree] if isinstance(tree, torch.Tensor) else [t for part in tree for t in flat(part)]


def both(layer: nn.Module, *inputs: torch.Tensor, only_output: bool = False) -> None:
    """Results and gradients of a layer on the device equal those on the CPU."""
    ends = []
    for device, module in (("cpu", layer), (DEVICE, copy.deepcopy(layer).to(DEVICE))):
        given = [x.detach().to(device).requires_grad_() for x in inputs]
        results = flat(module(*given))
        loss = sum(
            (i + 1) * r.sin().sum() for i, r in enumerate(results[: 1 if only_output else 9])
        )
        loss.backward()
        grads = [p.grad for p in module.parameters()] + [x.grad for x in given]
        ends.append(([r.detach() for r in results], grads))
    close(ends[1], ends[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("only_output", [False, True])
def test_layers_equal_the_cpu(name: str, only_output: bool) -> None:
    make, options = LAYERS[name]
    with nothing_falls_back():
        both(make(4, 6, **options), torch.randn(5, 3, 4), only_output=only_output)


@pytest.mark.parametrize("make", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
@pytest.mark.parametrize("bias", [False, True])
def test_cells_equal_the_cpu(make: Any, bias: bool) -> None:
    both(make(4, 6, bias=bias), torch.randn(3, 4))


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
def test_sequences_of_several_lengths(make: Any) -> None:
    layer = make(4, 6)
    x, lengths = torch.randn(5, 3, 4), torch.tensor([5, 2, 3])
    packed = [
        module(pack_padded_sequence(x.to(device), lengths, enforce_sorted=False))[0]
        for device, module in (("cpu", layer), (DEVICE, copy.deepcopy(layer).to(DEVICE)))
    ]
    on_cpu, on_device = (pad_packed_sequence(p)[0].detach() for p in packed)
    close(on_device, on_cpu, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types(make: Any, dtype: torch.dtype) -> None:
    layer = make(4, 6)
    x = torch.randn(5, 3, 4)
    expected = layer(x)[0].detach()
    got = copy.deepcopy(layer).to(DEVICE, dtype)(x.to(DEVICE, dtype))[0].detach()
    assert got.dtype == dtype
    close(got.float(), expected, rtol=5e-2, atol=5e-2)
    with torch.autocast(DEVICE, dtype=dtype):
        got = copy.deepcopy(layer).to(DEVICE)(x.to(DEVICE))[0].detach()
    close(got.float(), expected, rtol=5e-2, atol=5e-2)


def test_a_recurrent_model_learns_as_on_the_cpu() -> None:
    torch.manual_seed(1)
    first = nn.LSTM(3, 8, batch_first=True)
    x = torch.randn(16, 6, 3)
    y = x.cumsum(1)[..., :1]
    losses = []
    for device in ("cpu", DEVICE):
        lstm, head = copy.deepcopy(first).to(device), nn.Linear(8, 1)
        with torch.no_grad():
            head.weight.fill_(0.1)
            head.bias.fill_(0.0)
        head.to(device)
        optimizer = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=0.02)
        for _ in range(10):
            loss = nn.functional.mse_loss(head(lstm(x.to(device))[0]), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
