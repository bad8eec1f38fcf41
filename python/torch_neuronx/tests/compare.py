# SPDX-License-Identifier: Apache-2.0
"""One computation on the device and on the CPU: results and gradients agree, nothing fell back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch_neuronx
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = "neuron"
TOLERANCE = {
    torch.float64: {"rtol": 1e-5, "atol": 1e-5},
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-2},
    torch.float16: {"rtol": 2e-3, "atol": 1e-3},
}


@contextmanager
def nothing_falls_back() -> Iterator[None]:
    torch_neuronx.clear_op_tracking()
    yield
    assert torch_neuronx.get_fallback_ops() == []


def to_device(tree: Any) -> Any:
    """The tree with its tensors on the device: leaves again."""

    def move(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return x.detach().to(DEVICE).requires_grad_(x.requires_grad)

    return tree_map(move, tree)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [x for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]


def close(device: Any, cpu: Any, **tolerance: float) -> None:
    on_device, on_cpu = _tensors(device), _tensors(cpu)
    assert len(on_device) == len(on_cpu)
    for x, y in zip(on_device, on_cpu, strict=True):
        assert x.device.type == DEVICE
        assert x.dtype == y.dtype
        torch.testing.assert_close(
            x.detach().cpu(),
            y.detach(),
            equal_nan=True,
            **(tolerance or TOLERANCE.get(y.dtype, {"rtol": 0, "atol": 0})),
        )


def agree(function: Callable, *args: Any, allow: tuple[str, ...] = (), **tolerance: float) -> None:
    """function(*args) on the CPU and on the device give the same, gradients included, and nothing
    but `allow` falls back."""
    device_args = to_device(args)
    on_cpu = function(*args)
    torch_neuronx.clear_op_tracking()
    on_device = function(*device_args)
    pairs = list(zip(_tensors(on_cpu), _tensors(on_device), strict=True))
    wanted = [x for x in _tensors(args) if x.requires_grad]
    derived = bool(wanted) and any(y.requires_grad for y, _ in pairs)
    if derived:
        seeds = [torch.rand_like(y, dtype=torch.float32).to(y.dtype) for y, _ in pairs]
        cpu_roots = [(y, s) for (y, _), s in zip(pairs, seeds, strict=True) if y.requires_grad]
        device_roots = [
            (x, s.to(DEVICE)) for (_, x), s in zip(pairs, seeds, strict=True) if x.requires_grad
        ]
        cpu_grads = torch.autograd.grad(
            [y for y, _ in cpu_roots], wanted, [s for _, s in cpu_roots], allow_unused=True
        )
        device_grads = torch.autograd.grad(
            [x for x, _ in device_roots],
            [x for x in _tensors(device_args) if x.requires_grad],
            [s for _, s in device_roots],
            allow_unused=True,
        )
    fell = [op for op in torch_neuronx.get_fallback_ops() if op not in allow]
    assert fell == []
    close(on_device, on_cpu, **tolerance)
    if derived:
        close(device_grads, cpu_grads, **tolerance)
