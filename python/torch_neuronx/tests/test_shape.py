# SPDX-License-Identifier: Apache-2.0
"""Joining, padding, turning, factories by position. Right values: torch on the CPU."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from compare import DEVICE, agree, close, nothing_falls_back

TYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool]


def sample(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype).requires_grad_()
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape).to(dtype)


CASES: dict[str, tuple[Callable, tuple[int, ...]]] = {
    "cat": (lambda x: torch.cat([x, x[:, :1], x * 1], 1), (3, 4, 5)),
    "cat of a transposed one": (lambda x: torch.cat([x.mT, x.mT[:, ::2]], -2), (2, 4, 4)),
    "cat beside an empty one": (lambda x: torch.cat([x[:0], x, x.new_empty(0)]), (5,)),
    "stack": (lambda x: torch.stack([x, x.flip(0)], -1), (3, 4)),
    "stack of 0-d": (lambda x: torch.stack([x[0], x[2]]), (3,)),
    "flip": (lambda x: x.flip(0, -1), (3, 4, 5)),
    "roll": (lambda x: x.roll((2, -7), (0, 2)), (3, 4, 5)),
    "roll flat": (lambda x: x.roll(5), (3, 4)),
    "repeat": (lambda x: x.repeat(2, 1, 3), (3, 4)),
    "tile": (lambda x: x.tile(3), (2, 3)),
    "constant pad": (lambda x: F.pad(x, (1, 2, -1, 3)), (3, 4, 5)),
    "constant pad by a value": (lambda x: F.pad(x, (-1, 2), value=1), (3, 4)),
    "tril": (lambda x: x.tril(-1), (2, 4, 6)),
    "triu": (lambda x: x.mT.triu(2), (2, 4, 6)),
    "slice": (lambda x: x[1:, ::3], (3, 8)),
    "select": (lambda x: x.select(1, -2), (3, 8)),
    "diagonal": (lambda x: x.diagonal(1, 0, 2), (3, 4, 5)),
    "unfold": (lambda x: x.unfold(1, 3, 2), (2, 9)),
    "unfold with gaps": (lambda x: x.unfold(0, 2, 5), (12,)),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_shapes_change_as_on_the_cpu(
    case: tuple[Callable, tuple[int, ...]], dtype: torch.dtype
) -> None:
    function, shape = case
    agree(function, sample(dtype, *shape))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(
    ("shape", "pad"),
    [((2, 3, 7), (2, 3)), ((1, 2, 5, 6), (3, 1, 0, 2)), ((1, 2, 4, 5, 3), (1, 2, 0, 1, 2, 1))],
)
def test_borders_are_padded(mode: str, shape: tuple[int, ...], pad: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        agree(lambda x: F.pad(x, pad, mode=mode), sample(dtype, *shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int32])
def test_factories_by_position(dtype: torch.dtype) -> None:
    makers: list[Callable] = [
        lambda d: torch.eye(4, dtype=dtype, device=d),
        lambda d: torch.eye(3, 5, dtype=dtype, device=d),
        lambda d: torch.eye(0, dtype=dtype, device=d),
    ]
    if dtype.is_floating_point:
        makers += [
            lambda d: torch.linspace(-1, 3, 7, dtype=dtype, device=d),
            lambda d: torch.linspace(2, 5, 1, dtype=dtype, device=d),
            lambda d: torch.logspace(0, 1, 5, dtype=dtype, device=d),
            lambda d: torch.linspace(0, 1, 0, dtype=dtype, device=d),
        ]
    else:
        makers += [
            lambda d: torch.tril_indices(4, 3, -1, dtype=dtype, device=d),
            lambda d: torch.triu_indices(3, 5, 1, dtype=dtype, device=d),
            lambda d: torch.triu_indices(0, 5, dtype=dtype, device=d),
        ]
    with nothing_falls_back():
        results = [make(DEVICE) for make in makers]
    close(results, [make("cpu") for make in makers])


def test_elements_are_looked_up_in_lists() -> None:
    x = torch.tensor([[3, 7, 1], [0, 5, 7]])
    agree(torch.isin, x, torch.tensor([7, 0, 100]))
    agree(lambda a, b: torch.isin(a, b, invert=True), x.float(), torch.tensor([7.0, 0.5]))
    agree(lambda a: torch.isin(a, 7), x)
    agree(torch.isin, x, torch.empty(0, dtype=torch.int64))
    edges = torch.tensor([0.0, 1, 1, 2, 5])
    values = torch.tensor([[1.0, -1, 2.5], [5, 6, float("nan")]])
    for right in (False, True):
        agree(lambda v, e, r=right: torch.bucketize(v, e, right=r), values, edges)
        agree(lambda e, v, r=right: torch.searchsorted(e, v, right=r), edges, values)
    rows = torch.randn(3, 6).sort().values
    agree(lambda e, v: torch.searchsorted(e, v, out_int32=True), rows, torch.randn(3, 4))
    agree(lambda v: torch.histc(v, 5, -1, 2), torch.randn(100))
    agree(lambda v: torch.histc(v, 8), torch.rand(64))
