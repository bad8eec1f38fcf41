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


def _widened(tree: Any, dtype: torch.dtype) -> Any:
    def widen(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype != dtype:
            return x
        return x.detach().float().requires_grad_(x.requires_grad)

    return tree_map(widen, tree)


def _narrowed(tree: Any, like: Any) -> list[torch.Tensor]:
    """float32 results as the device's type, which rounds once."""
    pairs = zip(_tensors(tree), _tensors(like), strict=True)
    return [y.detach().to(x.dtype) if y.is_floating_point() else y for y, x in pairs]


def agree(
    function: Callable,
    *args: Any,
    allow: tuple[str, ...] = (),
    rounded_once: torch.dtype | None = None,
    **tolerance: float,
) -> None:
    """function(*args) on the CPU and on the device give the same, gradients included, and nothing
    but `allow` falls back. `rounded_once`: arguments of that type are float32 on the CPU, whose
    kernels round intermediate results where the device doesn't."""
    device_args = to_device(args)
    if rounded_once is not None:
        args = _widened(args, rounded_once)
    on_cpu = function(*args)
    torch_neuronx.clear_op_tracking()
    on_device = function(*device_args)
    pairs = list(zip(_tensors(on_cpu), _tensors(on_device), strict=True))
    wanted = [x for x in _tensors(args) if x.requires_grad]
    derived = bool(wanted) and any(y.requires_grad for y, _ in pairs)
    cpu_grads, device_grads = (), ()
    if derived:
        seeds = [torch.rand_like(y, dtype=torch.float32).to(x.dtype) for y, x in pairs]
        roots = [(y, x, s) for (y, x), s in zip(pairs, seeds, strict=True) if y.requires_grad]
        cpu_grads = torch.autograd.grad(
            [y for y, _, _ in roots],
            wanted,
            [s.to(y.dtype) for y, _, s in roots],
            allow_unused=True,
        )
        device_grads = torch.autograd.grad(
            [x for _, x, _ in roots],
            [x for x in _tensors(device_args) if x.requires_grad],
            [s.to(DEVICE) for _, _, s in roots],
            allow_unused=True,
        )
    fell = [op for op in torch_neuronx.get_fallback_ops() if op not in allow]
    assert fell == []
    if rounded_once is not None:
        on_cpu, cpu_grads = _narrowed(on_cpu, on_device), _narrowed(cpu_grads, device_grads)
    close(on_device, on_cpu, **tolerance)
    close(device_grads, cpu_grads, **tolerance)
