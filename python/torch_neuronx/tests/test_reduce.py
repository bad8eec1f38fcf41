# SPDX-License-Identifier: Apache-2.0
"""Reductions. Right values: torch on the CPU."""

from collections.abc import Callable

import pytest
import torch
from compare import agree

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
ALL = [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool]


def sample(dtype: torch.dtype, shape: tuple[int, ...] = (3, 5, 4)) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype).requires_grad_()
    return torch.randint(0, 2 if dtype == torch.bool else 5, shape).to(dtype)


SUMS = {
    "sum": lambda x: x.sum(),
    "sum of a dimension": lambda x: x.sum(1),
    "sum of two, kept": lambda x: x.sum((0, -1), keepdim=True),
    "sum of no named dimension": lambda x: x.sum(()),
    "sum as another type": lambda x: x.sum(0, dtype=torch.float32),
    "sum of a view": lambda x: x.transpose(0, 2)[::2].sum(1),
    "count_nonzero": lambda x: torch.count_nonzero(x, 1),
    "any": lambda x: (x > 1).any(),
    "any of a dimension": lambda x: x.any(1, keepdim=True),
    "all": lambda x: x.all(),
    "all of two": lambda x: torch.all(x, (0, 2)),
    "amax": lambda x: x.amax((0, 1)),
    "amin": lambda x: x.amin(-1, keepdim=True),
    "max": lambda x: x.max(),
    "aminmax": lambda x: torch.aminmax(x, dim=1),
}


@pytest.mark.parametrize("function", SUMS.values(), ids=SUMS.keys())
@pytest.mark.parametrize("dtype", ALL)
def test_every_type_is_reduced(function: Callable, dtype: torch.dtype) -> None:
    agree(function, sample(dtype))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integer_products_and_sums_are_int64(dtype: torch.dtype) -> None:
    agree(lambda x: (x.prod(), x.prod(1), x.sum(), torch.nansum(x)), sample(dtype))


def test_int64_sums_are_exact() -> None:
    agree(lambda x: (x.sum(), x.amax(), x.max(0)), torch.tensor([2**53 + 1, -5, 2**61 + 3]))


POSITIONS = {
    "max": lambda x: x.max(1),
    "min, kept": lambda x: x.min(-1, keepdim=True),
    "argmax": lambda x: torch.argmax(x),
    "argmax of a dimension": lambda x: torch.argmax(x, 2, keepdim=True),
    "argmin": lambda x: torch.argmin(x, 0),
}


@pytest.mark.parametrize("function", POSITIONS.values(), ids=POSITIONS.keys())
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.uint8])
def test_the_first_of_equals_is_the_position(function: Callable, dtype: torch.dtype) -> None:
    agree(function, (torch.arange(60).reshape(3, 5, 4) * 7 % 5).to(dtype))


FLOAT_ONLY = {
    "mean": lambda x: x.mean(),
    "mean of two": lambda x: x.mean((0, 2)),
    "var": lambda x: x.var(1),
    "var, uncorrected": lambda x: torch.var(x, (0, 1), correction=0, keepdim=True),
    "std": lambda x: x.std(),
    "var_mean": lambda x: torch.var_mean(x, 2, correction=2),
    "std_mean": lambda x: torch.std_mean(x, 0),
    "norm": lambda x: torch.linalg.vector_norm(x),
    "1-norm": lambda x: torch.linalg.vector_norm(x, 1, (0, 1)),
    "3-norm": lambda x: torch.linalg.vector_norm(x, 3.0, -1, keepdim=True),
    "largest": lambda x: torch.linalg.vector_norm(x, float("inf"), 1),
    "smallest": lambda x: torch.linalg.vector_norm(x, -float("inf"), 1),
    "old norm": lambda x: torch.norm(x, 2, 1),
    "logsumexp": lambda x: torch.logsumexp(x, (0, 2)),
    "nansum": lambda x: torch.nansum(x, 1),
    "renorm": lambda x: torch.renorm(x, 2, 1, 1.5),
}


@pytest.mark.parametrize("function", FLOAT_ONLY.values(), ids=FLOAT_ONLY.keys())
@pytest.mark.parametrize("dtype", FLOATS)
def test_moments_and_norms(function: Callable, dtype: torch.dtype) -> None:
    agree(function, sample(dtype))


def test_nan_and_infinity_go_through() -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1, nan, 2], [inf, -inf, 0], [-inf, -inf, -inf], [inf, 1, inf]])
    agree(
        lambda x: (
            x.max(1),
            x.min(1),
            x.amax(1),
            torch.aminmax(x, dim=0),
            torch.argmax(x),
            torch.argmin(x, 1),
            x.sum(1),
            torch.nansum(x, 1),
            torch.logsumexp(x, 1),
            x.any(1),
            x.mean(0),
        ),
        x,
    )


def test_no_elements_and_no_dimensions() -> None:
    agree(
        lambda x: (x.sum(), x.sum(0), x.sum(1), x.prod(), x.mean(1), x.any(), x.all(1), x.var(1)),
        torch.zeros(3, 0),
    )
    agree(lambda x: (x.norm(), torch.logsumexp(x, 1), torch.count_nonzero(x)), torch.zeros(3, 0))
    agree(
        lambda x: (
            x.sum(),
            x.sum(0),
            x.max(0),
            x.argmax(),
            x.amax(),
            x.prod(0),
            x.any(0),
            x.norm(),
        ),
        torch.tensor(3.0),
    )
    agree(lambda x: torch.any(x, ()), torch.tensor([[0, 1], [0, 0]]))


def test_what_torch_refuses_is_refused() -> None:
    x = torch.zeros(3, 0, device="neuron")
    for call in (lambda: x.max(), lambda: x.argmax(), lambda: x.amax(1), lambda: x.sum(2)):
        with pytest.raises((RuntimeError, IndexError)):
            call()
