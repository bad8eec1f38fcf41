# SPDX-License-Identifier: Apache-2.0
"""Order and running folds. Right values: torch on the CPU."""

import pytest
import torch
from compare import agree

TYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]


def sample(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype).requires_grad_()
    return torch.randint(0, 2 if dtype == torch.bool else 5, shape).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_stable(dtype: torch.dtype, descending: bool) -> None:
    for shape, dim in (((3, 9), -1), ((9, 2, 3), 0), ((), 0), ((2, 0), 1), ((5, 1), 1)):
        x = sample(dtype, *shape)
        agree(lambda x, d=dim: x.sort(stable=True, dim=d, descending=descending), x)
        agree(lambda x, d=dim: x.argsort(dim=d, descending=descending, stable=True), x.detach())


def test_nan_is_the_largest_and_infinities_have_their_places() -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, nan, -inf, 2, nan, inf], [-1, -2, 0, 3, -0.0, 1]])
    for descending in (False, True):
        agree(lambda x, d=descending: x.sort(stable=True, dim=-1, descending=d), x)
    for largest in (False, True):
        agree(lambda x, g=largest: x.topk(3, largest=g).values, x)
        agree(lambda x, g=largest: x.topk(4, largest=g).values, (-x).bfloat16())
    for f in (torch.median, torch.nanmedian):
        agree(f, x)
        agree(lambda x, f=f: f(x, dim=1).values, x)
    agree(lambda x: torch.median(x, 1).indices, x[:, [0, 2, 3, 1, 5]])
    for f in (torch.cummax, torch.cummin):
        agree(lambda x, f=f: f(x, 1), x)
    agree(lambda x: x.kthvalue(2, dim=1).values, x)


@pytest.mark.parametrize("dtype", TYPES[:-1])  # torch's CPU kernels have no order of bools here
def test_the_first_of_an_order(dtype: torch.dtype) -> None:
    x = (
        sample(dtype, 4, 9)
        if dtype.is_floating_point
        else torch.randperm(36).reshape(4, 9).to(dtype)
    )
    agree(lambda x: x.topk(4), x)
    agree(lambda x: x.topk(2, 0, largest=False), x)
    agree(lambda x: x.topk(9), x)
    agree(lambda x: x.topk(1, 1), x[:, :1])
    agree(lambda x: x.kthvalue(3), x)
    agree(lambda x: x.kthvalue(2, 0, keepdim=True), x)
    agree(lambda x: x.median(), x)
    agree(lambda x: x.median(1, keepdim=True), x)


@pytest.mark.parametrize("dtype", TYPES)
def test_running_folds(dtype: torch.dtype) -> None:
    for shape, dim in (((3, 7), 1), ((5, 2, 3), 0), ((), 0), ((3, 0), 1), ((2, 300), -1)):
        x = sample(dtype, *shape)
        tolerance = (
            {"rtol": 3e-2, "atol": 0.2}
            if dtype == torch.bfloat16
            else ({"rtol": 1e-4, "atol": 1e-4} if dtype.is_floating_point else {})
        )
        agree(lambda x, d=dim: x.cumsum(d), x, **tolerance)
        if dtype != torch.bool:
            agree(lambda x, d=dim: x.cummax(d), x)
            agree(lambda x, d=dim: x.cummin(d).values, x)
        if dtype in (torch.float32, torch.int64):
            agree(lambda x, d=dim: x.detach().cumprod(d), x, **tolerance)
        if dtype == torch.float32:
            agree(lambda x, d=dim: x.logcumsumexp(d).detach(), x, **tolerance)
