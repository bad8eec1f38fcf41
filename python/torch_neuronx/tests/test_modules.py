# SPDX-License-Identifier: Apache-2.0
"""Modules that move between devices. Right values: what torch does between the CPU and CUDA."""

import torch
from torch import nn

DEVICE = "neuron"


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 3)
        self.head = nn.Linear(3, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(ids))


def test_tied_weights_stay_tied() -> None:
    model = Tied()
    weight = model.head.weight
    model.to(DEVICE)
    assert model.head.weight is model.embedding.weight
    assert model.head.weight is weight and weight.device.type == DEVICE
    model.cpu()
    assert model.head.weight is model.embedding.weight is weight


def test_an_optimizer_made_before_the_move_trains_the_model() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(DEVICE)
    before = model.weight.detach().cpu().clone()
    model(torch.ones(1, 2, device=DEVICE)).sum().backward()
    optimizer.step()
    torch.testing.assert_close(model.weight.detach().cpu(), before - 0.1)


def test_a_graph_that_is_alive_does_not_prevent_the_move() -> None:
    model = Tied().to(DEVICE)
    loss = model(torch.tensor([1, 2], device=DEVICE)).sum()
    model.cpu()
    assert model.head.weight is model.embedding.weight
    assert model.head.weight.device.type == "cpu"
    assert loss.requires_grad


def test_other_conversions_are_torchs_own() -> None:
    model = Tied()
    weight = model.head.weight
    model.double()
    assert model.head.weight is weight and weight.dtype == torch.float64
