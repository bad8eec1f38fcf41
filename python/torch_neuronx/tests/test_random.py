# SPDX-License-Identifier: Apache-2.0
"""Random numbers: reproducible, in range and distributed as promised. Right values: the moments and
quantiles of the distributions; torch's documentation for ranges."""

import math
from collections.abc import Callable

import pytest
import torch
from compare import DEVICE, agree, close, nothing_falls_back

N = 20000


def make(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape or (N,), dtype=dtype, device=DEVICE)


DRAWS: dict[str, Callable[[], torch.Tensor]] = {
    "rand": lambda: torch.rand(101, device=DEVICE),
    "randn": lambda: torch.randn(3, 5, device=DEVICE),
    "randint": lambda: torch.randint(0, 1000, (101,), device=DEVICE),
    "randint of 64 bits": lambda: torch.randint(-(2**60), 2**60, (101,), device=DEVICE),
    "randperm": lambda: torch.randperm(101, device=DEVICE),
    "bernoulli_": lambda: make(101).bernoulli_(0.3),
    "bernoulli": lambda: torch.full((101,), 0.5, device=DEVICE).bernoulli(),
    "exponential_": lambda: make(101).exponential_(2.0),
    "log_normal_": lambda: make(101).log_normal_(),
    "geometric_": lambda: make(101).geometric_(0.1),
    "cauchy_": lambda: make(101).cauchy_(),
    "random_": lambda: make(101, dtype=torch.int64).random_(),
    "dropout": lambda: torch.nn.functional.dropout(torch.ones(101, device=DEVICE)),
    "multinomial": lambda: torch.ones(101, device=DEVICE).multinomial(50),
    "multinomial with replacement": lambda: torch.ones(101, device=DEVICE).multinomial(50, True),
    "normal of tensors": lambda: torch.normal(torch.zeros(9, device=DEVICE), 1.0),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())
def test_a_seed_gives_the_same_numbers_again_and_others_next(
    draw: Callable[[], torch.Tensor],
) -> None:
    with nothing_falls_back():
        torch.manual_seed(7)
        first, second = draw(), draw()
        torch.manual_seed(7)
        again = draw()
        torch.manual_seed(8)
        other = draw()
    assert torch.equal(first.cpu(), again.cpu())
    assert not torch.equal(first.cpu(), second.cpu())
    assert not torch.equal(first.cpu(), other.cpu())


def test_generators_are_independent() -> None:
    one = torch.Generator(DEVICE).manual_seed(3)
    two = torch.Generator(DEVICE).manual_seed(3)
    x = torch.rand(10, generator=one, device=DEVICE)
    torch.rand(10, device=DEVICE)
    state = two.get_state()
    y = torch.rand(10, generator=two, device=DEVICE)
    close(x, y.cpu())
    two.set_state(state)
    close(torch.rand(10, generator=two, device=DEVICE), x.cpu())
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, generator=torch.Generator("cpu"), device=DEVICE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_uniform_numbers_stay_in_their_range(dtype: torch.dtype) -> None:
    x = make(dtype=dtype).uniform_().cpu()
    assert x.min() >= 0
    assert x.max() < 1
    assert abs(x.double().mean() - 0.5) < 5 / math.sqrt(12 * N)
    assert abs(x.double().var() - 1 / 12) < 0.005
    y = make(dtype=dtype).uniform_(-3, 5).cpu()
    assert y.min() >= -3
    assert y.max() < 5
    assert abs(y.double().mean() - 1) < 0.15


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_normal_numbers_have_the_right_quantiles(dtype: torch.dtype) -> None:
    x = make(dtype=dtype).normal_(2, 3).cpu().double()
    z = (x - 2) / 3
    assert abs(z.mean()) < 5 / math.sqrt(N)
    assert abs(z.std() - 1) < 0.03
    for quantile, value in ((0.5, 0), (0.8413447, 1), (0.0227501, -2), (0.9986501, 3)):
        share = (z <= value).double().mean()
        assert abs(share - quantile) < 0.02
    assert 3.3 < z.abs().max() < 6.8
    assert abs((z[:-1] * z[1:]).mean()) < 5 / math.sqrt(N)
    half = N // 2  # the two numbers of a pair
    assert abs((z[:half] * z[half:]).mean()) < 5 / math.sqrt(half)


def test_other_distributions_have_their_means() -> None:
    with nothing_falls_back():
        drawn = {
            "exponential": make().exponential_(2.0),
            "geometric": make().geometric_(0.25),
            "bernoulli": make().bernoulli_(0.3),
            "log of log-normal": make().log_normal_(1.0, 0.5).log(),
            "cauchy's quarter": (make().cauchy_(1.0, 2.0) > 3.0).float(),
        }
    wanted = {
        "exponential": 0.5,
        "geometric": 4,
        "bernoulli": 0.3,
        "log of log-normal": 1,
        "cauchy's quarter": 0.25,
    }
    for name, x in drawn.items():
        on_cpu = x.cpu().double()
        error = 6 * on_cpu.std() / math.sqrt(N)
        assert abs(on_cpu.mean() - wanted[name]) < error, name
    assert drawn["exponential"].cpu().min() > 0
    assert drawn["geometric"].cpu().min() == 1


@pytest.mark.parametrize(
    "dtype",
    [torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool, torch.float32, torch.bfloat16],
)
def test_whole_numbers_fill_their_ranges(dtype: torch.dtype) -> None:
    x = make(dtype=dtype).random_().cpu()
    assert x.min() >= 0
    if dtype in (torch.bool, torch.uint8, torch.int8):
        top = 1 if dtype == torch.bool else torch.iinfo(dtype).max
        assert sorted(set(x.long().tolist())) == list(range(top + 1))
    if dtype == torch.bool:
        return
    y = make(dtype=dtype).random_(3, 8).cpu()
    counts = torch.bincount(y.long(), minlength=8)
    assert counts[:3].sum() == 0
    assert (counts[3:] - N / 5).abs().max() < 5 * math.sqrt(N * 0.2 * 0.8)
    assert make(dtype=dtype).random_(7).max().item() == 6


def test_randint_reaches_64_bits() -> None:
    x = torch.randint(-(2**62), 2**62, (N,), device=DEVICE).cpu()
    assert x.max() > 2**61
    assert x.min() < -(2**61)
    assert len(set(x.tolist())) == N


def test_permutations_are_permutations() -> None:
    for n in (0, 1, 2, 1000):
        for dtype in (torch.int64, torch.int32, torch.float32):
            x = torch.randperm(n, device=DEVICE, dtype=dtype)
            assert x.dtype == dtype
            assert x.cpu().sort().values.tolist() == list(range(n))
    first = torch.stack([torch.randperm(4, device=DEVICE)[0] for _ in range(200)]).cpu()
    assert (torch.bincount(first) - 50).abs().max() < 35


def test_dropout_keeps_scales_and_has_a_gradient() -> None:
    x = torch.randn(N).abs().add(1).to(DEVICE).requires_grad_()
    for p in (0.1, 0.5):
        with nothing_falls_back():
            y = torch.nn.functional.dropout(x, p)
            (grad,) = torch.autograd.grad(y, x, torch.ones_like(y))
        kept = y.detach().cpu() != 0
        assert abs(kept.double().mean() - (1 - p)) < 0.02
        close(y, torch.where(kept, x.detach().cpu() / (1 - p), torch.zeros(N)))
        close(grad, kept.float() / (1 - p))
    agree(lambda x: torch.nn.functional.dropout(x, 0.5, training=False), torch.randn(5))
    agree(lambda x: torch.nn.functional.dropout(x, 1.0), torch.randn(5))


def test_samples_follow_their_weights() -> None:
    weights = torch.tensor([[0.0, 1, 3, 0, 4], [2.0, 0, 0, 2, 0]])
    with nothing_falls_back():
        x = torch.multinomial(weights.to(DEVICE), 8000, replacement=True).cpu()
        single = torch.multinomial(weights.to(DEVICE).repeat(4000, 1), 1).cpu().reshape(4000, 2)
        both = torch.multinomial(weights.to(DEVICE), 2).cpu()
    for row in range(2):
        share = weights[row] / weights[row].sum()
        for drawn in (x[row], single[:, row]):
            counts = torch.bincount(drawn, minlength=5) / drawn.numel()
            assert (counts - share).abs().max() < 0.04
            assert counts[share == 0].sum() == 0
        assert len(set(both[row].tolist())) == 2
        assert (weights[row][both[row]] > 0).all()
    with pytest.raises(RuntimeError, match="without replacement"):
        torch.multinomial(weights.to(DEVICE), 6)


def test_a_new_size_of_dropout_is_the_only_thing_that_compiles() -> None:
    x = torch.ones(64, device=DEVICE)
    torch.nn.functional.dropout(x, 0.1)
    before = torch.neuron.counters()["programs"]
    for p in (0.2, 0.3, 0.4):
        torch.nn.functional.dropout(x, p)
    assert torch.neuron.counters()["programs"] == before
