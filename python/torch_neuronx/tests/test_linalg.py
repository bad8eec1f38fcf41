# SPDX-License-Identifier: Apache-2.0
"""Products of matrices and triangular systems. Right values: torch on the CPU."""

from collections.abc import Callable

import pytest
import torch
from compare import DEVICE, agree, close, nothing_falls_back

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def sample(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype).requires_grad_()
    return torch.randint(-9, 9, shape).to(dtype)


PRODUCTS = {
    "mm": lambda a, b, v: a @ b,
    "transposed": lambda a, b, v: b.t() @ a.t(),
    "addmm": lambda a, b, v: torch.addmm(v, a, b),
    "addmm, scaled": lambda a, b, v: torch.addmm(v, a, b, beta=2, alpha=3),
    "bmm": lambda a, b, v: torch.bmm(a.expand(2, -1, -1), b.expand(2, -1, -1)),
    "baddbmm": lambda a, b, v: torch.baddbmm(v, a[None], b[None], alpha=2),
    "mv": lambda a, b, v: b @ v,
    "addmv": lambda a, b, v: torch.addmv(b[:, 0], b, v, beta=2),
    "dot": lambda a, b, v: v @ v,
    "outer": lambda a, b, v: torch.outer(a[0], v),
    "linear": lambda a, b, v: torch.nn.functional.linear(a, b.t(), v),
    "batches that broadcast": lambda a, b, v: a.expand(3, 1, -1, -1) @ b.expand(2, -1, -1),
    "einsum": lambda a, b, v: torch.einsum("ik,kj,j->i", a, b, v),
}


@pytest.mark.parametrize("function", PRODUCTS.values(), ids=PRODUCTS.keys())
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32])
def test_products(function: Callable, dtype: torch.dtype) -> None:
    a, b, v = sample(dtype, 4, 5), sample(dtype, 5, 7), sample(dtype, 7)
    # An einsum of three operands rounds in between; which pair goes first is the CPU's choice.
    loose = {"rtol": 0.05, "atol": 0.1} if dtype == torch.bfloat16 else {}
    agree(function, a, b, v, **loose)


def test_int64_products_are_exact() -> None:
    agree(lambda a, b: a @ b, torch.tensor([[2**40 + 1, -3]]), torch.tensor([[2**20 + 1], [7]]))


def test_bfloat16_is_summed_in_float32() -> None:
    ones = torch.ones(1, 4096, dtype=torch.bfloat16, device=DEVICE)
    assert (ones @ ones.t()).item() == 4096  # in bfloat16 the sum would stop at 256


def test_with_beta_0_the_input_is_not_read() -> None:
    nan = torch.full((4, 7), float("nan"))
    a, b = torch.randn(4, 5), torch.randn(5, 7)
    agree(lambda n, a, b: torch.addmm(n, a, b, beta=0), nan, a, b)
    agree(lambda n, a, b: torch.baddbmm(n[None], a[None], b[None], beta=0, alpha=2), nan, a, b)
    agree(lambda n, a, b: torch.addbmm(n, a[None], b[None], beta=0), nan, a, b)


def test_addbmm_sums_over_the_batch() -> None:
    agree(torch.addbmm, torch.randn(4, 7), torch.randn(3, 4, 5), torch.randn(3, 5, 7))


def test_addmm_activation() -> None:
    v, a, b = torch.randn(7), torch.randn(4, 5), torch.randn(5, 7)
    agree(lambda *x: torch._addmm_activation(*x), v, a, b)
    agree(lambda *x: torch._addmm_activation(*x, use_gelu=True), v, a, b)


def test_nothing_to_sum_gives_the_input() -> None:
    agree(lambda a, b: a @ b, torch.zeros(3, 0), torch.zeros(0, 2))
    agree(torch.addmm, torch.randn(3, 2), torch.zeros(3, 0), torch.zeros(0, 2))
    agree(lambda a, b: a @ b, torch.zeros(0, 3), torch.zeros(3, 2))
    agree(lambda a, b: a @ b, torch.zeros(2, 3, 0), torch.zeros(2, 0, 4))


def test_results_go_where_out_says() -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    with nothing_falls_back():
        out = torch.zeros(5, 3, device=DEVICE)
        torch.mm(a.to(DEVICE), b.to(DEVICE), out=out.t())
        out.addmm_(b.t().to(DEVICE), a.t().to(DEVICE))
    close(out.t(), 2 * (a @ b))


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems(upper: bool, left: bool, unit: bool) -> None:
    a = torch.randn(3, 4, 4) + 4 * torch.eye(4)
    a = a.triu() if upper else a.tril()
    b = torch.randn(2, 1, *((4, 3) if left else (3, 4)))
    agree(
        lambda a, b: torch.linalg.solve_triangular(
            a, b, upper=upper, left=left, unitriangular=unit
        ),
        a,
        b,
        rtol=1e-4,
        atol=1e-4,
    )


ENDS = [[4, 9, 16], [0, 16, 16], [1, 2, 16], [16, 16, 16], [5, 5, 16]]


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grouped_products(ends: list[int], dtype: torch.dtype) -> None:
    offs = torch.tensor(ends, dtype=torch.int32)
    a, b = sample(dtype, 16, 8), sample(dtype, 3, 8, 24)
    agree(lambda a, b, offs: torch._grouped_mm(a, b, offs=offs), a, b, offs)
    agree(
        lambda a, b, offs: torch._grouped_mm(b.transpose(1, 2), a.t(), offs=offs),
        a.detach(),
        b.detach(),
        offs,
    )
    with torch.no_grad():
        agree(lambda a, b: torch._grouped_mm(b.transpose(1, 2), b), a, b)


def test_rows_beyond_the_last_group_are_zero() -> None:
    a = torch.randn(8, 8, dtype=torch.bfloat16, device=DEVICE)
    b = torch.randn(2, 8, 8, dtype=torch.bfloat16, device=DEVICE)
    y = torch._grouped_mm(a, b, offs=torch.tensor([3, 5], dtype=torch.int32, device=DEVICE))
    close(y[:3], a[:3].cpu() @ b[0].cpu())
    close(y[3:5], a[3:5].cpu() @ b[1].cpu())
    assert y[5:].count_nonzero().item() == 0


def test_shapes_that_do_not_fit_raise() -> None:
    a, offs = torch.ones(8, 8, device=DEVICE), torch.ones(3, dtype=torch.int32, device=DEVICE)
    with pytest.raises(RuntimeError, match="contraction dimension"):
        torch._grouped_mm(a, torch.ones(3, 4, 8, device=DEVICE), offs=offs)
    with pytest.raises(RuntimeError, match="as many elements"):
        torch._grouped_mm(a, torch.ones(2, 8, 8, device=DEVICE), offs=offs)
    with pytest.raises(RuntimeError, match="reduction dim"):
        torch.ones(2, 3, device=DEVICE) @ torch.ones(2, 3, device=DEVICE)
