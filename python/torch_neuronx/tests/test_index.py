# SPDX-License-Identifier: Apache-2.0
"""Reading and writing by index. Right values: torch on the CPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from compare import DEVICE, agree, close, nothing_falls_back

TYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool]


def sample(dtype: torch.dtype, *shape: int, grad: bool = True) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype).requires_grad_(grad)
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape).to(dtype)


ROWS = torch.tensor([2, -1, 0, 2])
GRID = torch.tensor([[1, 0], [-4, 3]])
MASK = torch.tensor([True, False, True, True])
PICTURE = torch.rand(4, 5) > 0.5
INDICES: dict[str, tuple[Any, ...]] = {
    "one": (ROWS,),
    "int32": (ROWS.int(),),
    "two": (ROWS, ROWS.flip(0)),
    "second": (slice(None), ROWS),
    "last": (..., ROWS[:2]),
    "apart": (ROWS, slice(None), torch.tensor([0, 1, 2, 1])),
    "grid": (GRID, slice(1, 4)),
    "broadcast": (GRID[..., None], torch.tensor([0, 2, 1])),
    "with a number": (1, ROWS),
    "with a new dimension": (None, ROWS, slice(None, None, 2)),
    "mask": (MASK,),
    "mask of two dimensions": (PICTURE,),
    "mask and rows": (MASK, torch.tensor([0, 4, 2])),
    "nothing true": (torch.zeros(4, dtype=torch.bool),),
    "no index": (torch.zeros(0, dtype=torch.int64),),
}


def moved(index: tuple[Any, ...], device: torch.device) -> tuple[Any, ...]:
    return tuple(i.to(device) if isinstance(i, torch.Tensor) else i for i in index)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())
def test_reading(index: tuple[Any, ...], dtype: torch.dtype) -> None:
    agree(lambda x: x[moved(index, x.device)], sample(dtype, 4, 5, 3))
    agree(lambda x: x.mT[moved(index, x.device)], sample(dtype, 4, 3, 5))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())
def test_writing(index: tuple[Any, ...], dtype: torch.dtype) -> None:
    x = sample(dtype, 4, 5, 3, grad=False)
    shape = x[index].shape

    def put(x: torch.Tensor, values: Any, accumulate: bool) -> torch.Tensor:
        y = x.clone()
        at = moved(index, x.device)
        if accumulate:
            view = y
            plain = tuple(i for i in at if isinstance(i, torch.Tensor))
            view.index_put_(plain, values, accumulate=True)
        else:
            y[at] = values
        return y

    agree(lambda x: put(x, 1, False), x)
    if all(isinstance(i, torch.Tensor) for i in index):
        agree(lambda x, v: put(x, v, True), x, sample(dtype, *shape, grad=False))
        agree(lambda x, v: put(x, v, True), x, sample(dtype, grad=False))
    # Rows that are named twice have no defined winner: values that are the same for them.
    agree(lambda x, v: put(x, v, False), x, sample(dtype, *shape[-1:], grad=False))
    if "mask" in str(index) or torch.bool in [getattr(i, "dtype", None) for i in index]:
        agree(lambda x, v: put(x, v, False), x, sample(dtype, *shape, grad=False))


def test_writing_has_gradients() -> None:
    def put(x: torch.Tensor, v: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x.index_put((i,), v, accumulate=True) * x

    agree(put, sample(torch.float32, 4, 3), sample(torch.float32, 4, 3), ROWS)
    agree(
        lambda x, v, m: x.masked_scatter(m, v),
        sample(torch.float32, 4, 5),
        sample(torch.float32, 4, 5),
        PICTURE,
    )


def test_indices_on_the_host_are_taken_and_checked() -> None:
    x = torch.arange(12.0).reshape(4, 3)
    y = x.to(DEVICE)
    with nothing_falls_back():
        got = [y[ROWS], y[[0, 3]], y[torch.tensor(2)].clone(), y[MASK], y[GRID % 4]]
        y[ROWS] = 5.0
    close(got, [x[ROWS], x[[0, 3]], x[torch.tensor(2)], x[MASK], x[GRID % 4]])
    x[ROWS] = 5.0
    close(y, x)
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 0 with size 4"):
        y[torch.tensor([0, 4])]
    with pytest.raises(IndexError, match="index -5"):
        y[torch.tensor([-5])] = 1.0
    with pytest.raises(IndexError, match="mask"):
        y[torch.tensor([True, False])]


def test_indices_outside_read_nothing_outside_and_write_nothing() -> None:
    x = torch.arange(4.0, device=DEVICE)
    i = torch.tensor([1, 400, -400], device=DEVICE)
    read = x[i]
    with pytest.raises(IndexError, match="index 400 is out of bounds for dimension 0 with size 4"):
        torch.neuron.synchronize()
    assert set(read.tolist()) <= {0.0, 1.0, 2.0, 3.0}
    x[i] = 9.0
    with pytest.raises(IndexError, match="index_put"):
        x.cpu()
    close(x, torch.tensor([0.0, 9, 2, 3]))


def test_int64_elements_and_rows_are_exact() -> None:
    x = torch.tensor([2**62 + 1, -(2**53) - 1, 7])
    agree(lambda x, i: (x[i], x.gather(0, i), x.index_select(0, i)), x, torch.tensor([1, 0, 2]))


INDEX = torch.tensor([[0, 2, 1, 0], [2, 2, 0, 1]])
ALONG: dict[str, Callable] = {
    "gather": lambda x, s, i: x.gather(0, i),
    "gather less": lambda x, s, i: x.gather(1, i[:, :2]),
    "scatter": lambda x, s, i: x.scatter(1, i[:, 1:3], s[:2, :2]),
    "scatter value": lambda x, s, i: x.scatter(0, i, 3),
    "scatter_add": lambda x, s, i: x.scatter_add(0, i, s[:2]),
    "scatter_add less": lambda x, s, i: x.scatter_add(1, i[:1], s[:1]),
    "index_select": lambda x, s, i: x.index_select(0, i[1]),
    "index_add": lambda x, s, i: x.index_add(0, i[0, :3], s, alpha=1),
    "index_copy": lambda x, s, i: x.index_copy(0, i[0, :3], s),
    "index_fill": lambda x, s, i: x.index_fill(1, i[1], 1),
    "take": lambda x, s, i: x.take(i - 3),
    "put": lambda x, s, i: x.put(i[:, 1:3], s[0], accumulate=False),
    "put added": lambda x, s, i: x.put(i, s[:2], accumulate=True),
    "masked_select": lambda x, s, i: x.masked_select(s[:, :1] == s[0, 0]),
    "masked_fill": lambda x, s, i: x.masked_fill(s == s[0, 0], 0),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("function", ALONG.values(), ids=ALONG.keys())
def test_along_a_dimension(function: Callable, dtype: torch.dtype) -> None:
    x, s = sample(dtype, 3, 4), sample(dtype, 3, 4)
    agree(lambda x, s, i: (function(x, s, i), x.clone(), s.clone()), x, s, INDEX)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
def test_scattered_elements_are_reduced(how: str, include_self: bool) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x, s = sample(dtype, 3, 4, grad=False), sample(dtype, 3, 4, grad=False)
        agree(
            lambda x, s, i: x.scatter_reduce(0, i, s, how, include_self=include_self), x, s, INDEX
        )
        if how != "sum":
            agree(
                lambda x, s, i: x.index_reduce(0, i[1, :3], s, how, include_self=include_self),
                x,
                s,
                INDEX,
            )


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 1, 4), (), (0, 3), (300,)])
def test_nonzero(shape: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.int64, torch.bool):
        x = (torch.rand(shape) > 0.5).to(dtype)
        agree(torch.nonzero, x)
        agree(lambda x: torch.nonzero_static(x, size=6), x)
        agree(lambda x: x.mT.nonzero() if x.dim() == 2 else x, x)


def test_masked_assignment_of_200_random_masks() -> None:
    x = torch.randn(6, 4)
    for _ in range(200):
        mask = torch.rand(6) > 0.5
        on_cpu, on_device = x.clone(), x.to(DEVICE)
        on_cpu[mask] = on_cpu[mask].flip(-1)
        where = mask.to(DEVICE)
        on_device[where] = on_device[where].flip(-1)
        close(on_device, on_cpu)
