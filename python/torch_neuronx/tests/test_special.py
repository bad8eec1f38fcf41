# SPDX-License-Identifier: Apache-2.0
"""Gamma and Bessel functions, distances, adaptive pooling, columns of windows, and operations whose
shapes depend on data: on the device, with the CPU's values and gradients."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from compare import DEVICE, agree, close, nothing_falls_back

_POINTS = torch.tensor(
    [-4.5, -2.2, -0.7, 0.1, 0.5, 0.99, 1.0, 1.5, 2.0, 3.3, 7.0, 20.0, 150.0], dtype=torch.float32
)
_LOOSE = {"rtol": 2e-4, "atol": 1e-4}


@pytest.mark.parametrize(
    "function",
    [
        torch.lgamma,
        torch.digamma,
        lambda x: torch.polygamma(1, x),
        lambda x: torch.polygamma(3, x),
        torch.special.i0e,
        torch.special.i1e,
        lambda x: torch.special.zeta(torch.full_like(x, 2.5), x),
    ],
)
def test_gamma_and_bessel_functions(function: Callable) -> None:
    with nothing_falls_back():
        close(function(_POINTS.to(DEVICE)), function(_POINTS), **_LOOSE)
        ends = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, -1.0])
        if function in (torch.lgamma, torch.digamma):
            close(function(ends.to(DEVICE)), function(ends), **_LOOSE)


def test_gradients_of_gamma_functions() -> None:
    x = _POINTS[3:].clone().requires_grad_()
    agree(torch.lgamma, x, **_LOOSE)
    agree(torch.digamma, x, **_LOOSE)
    agree(lambda x: torch.special.i0(x[:-2]), x, **_LOOSE)


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_cdist(p: float) -> None:
    a, b = torch.randn(2, 1, 5, 3, requires_grad=True), torch.randn(4, 6, 3, requires_grad=True)
    agree(lambda a, b: torch.cdist(a, b, p), a, b, **_LOOSE)
    close(torch.cdist(torch.ones(0, 3, device=DEVICE), b.to(DEVICE)[0], p), torch.empty(0, 6))


@pytest.mark.parametrize("size", [(3, 4), (1, 1), (7, 9), (None, 2)])
def test_adaptive_max_pool(size: tuple) -> None:
    x = torch.randn(2, 3, 7, 9, requires_grad=True)
    agree(lambda x: F.adaptive_max_pool2d(x, size, return_indices=True)[0], x)
    with nothing_falls_back():
        _, found = F.adaptive_max_pool2d(x.to(DEVICE), size, return_indices=True)
    close(found, F.adaptive_max_pool2d(x, size, return_indices=True)[1])
    agree(lambda x: F.adaptive_max_pool1d(x[0], 4), x)
    agree(lambda x: F.adaptive_max_pool3d(x, (2, 3, 4)), x)


def test_unfold_and_fold() -> None:
    x = torch.randn(2, 3, 8, 9, requires_grad=True)
    agree(lambda x: F.unfold(x, (3, 2), dilation=(1, 2), padding=(1, 0), stride=(2, 1)), x)
    y = torch.randn(2, 12, 12, requires_grad=True)
    agree(lambda y: F.fold(y, (4, 5), 2), y)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bool, torch.bfloat16])
def test_unique(dtype: torch.dtype) -> None:
    x = torch.randint(0, 5, (4, 6)).to(dtype)
    y = x.to(DEVICE)
    with nothing_falls_back():
        for call in (
            lambda x: torch.unique(x, return_inverse=True, return_counts=True),
            lambda x: torch.unique(x, dim=1, return_inverse=True, return_counts=True),
            lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
            lambda x: torch.unique_consecutive(x, dim=0, return_inverse=True, return_counts=True),
        ):
            close(call(y), call(x))
        close(torch.unique(y[:0]), torch.unique(x[:0]))


def test_bincount() -> None:
    x, w = torch.tensor([1, 4, 1, 0]), torch.tensor([0.5, 1.0, 2.0, 3.0])
    with nothing_falls_back():
        for call in (
            lambda x, w: torch.bincount(x),
            lambda x, w: torch.bincount(x, w, minlength=8),
            lambda x, w: torch.bincount(x[:0], minlength=2),
        ):
            close(call(x.to(DEVICE), w.to(DEVICE)), call(x, w))
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(torch.tensor([-1], device=DEVICE))


def test_repeat_interleave() -> None:
    x, n = torch.randn(3, 2, requires_grad=True), torch.tensor([2, 0, 3])
    agree(lambda x, n: x.repeat_interleave(n, dim=0), x, n)
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.repeat_interleave(torch.tensor([1, -1], device=DEVICE))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_positions_of_extremes_are_the_first_ones(dtype: torch.dtype) -> None:
    x = torch.randint(0, 3, (5, 40)).to(dtype)
    if dtype.is_floating_point:
        x[1, 7] = x[1, 9] = float("nan")
        x[2] = float("-inf")
    if dtype == torch.bool:
        x = x.to(torch.uint8)
    with nothing_falls_back():
        for call in (torch.argmax, torch.argmin):
            for dim in (0, 1, -1):
                close(call(x.to(DEVICE), dim), call(x, dim))
            close(call(x.to(DEVICE)), call(x))
        close(tuple(x.to(DEVICE).max(1)), tuple(x.max(1)))


def test_inputs_without_elements_give_what_the_cpu_gives() -> None:
    """torch's meta kernels refuse some of them (TypeError, "no identity", "broadcastable")."""

    def batch_norm(x: torch.Tensor) -> torch.Tensor:
        mean, variance = torch.zeros(2, device=x.device), torch.ones(2, device=x.device)
        return torch.native_batch_norm(x, None, None, mean, variance, False, 0, 1)[0]

    calls = {
        "interpolate": lambda x: F.interpolate(x, size=(3, 3), mode="nearest"),
        "norm": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=(0, 1, 2)),
        "batch_norm": batch_norm,
    }
    for name, call in calls.items():
        for shape in ((0, 2, 4, 4), (3, 2, 4, 0)):
            x = torch.ones(shape)
            try:
                right = call(x)
            except RuntimeError:
                with pytest.raises(RuntimeError):
                    call(x.to(DEVICE)).cpu()
                continue
            found = call(x.to(DEVICE))
            assert found.shape == right.shape and found.dtype == right.dtype, (name, shape)
