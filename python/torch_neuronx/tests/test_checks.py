# SPDX-License-Identifier: Apache-2.0
"""What the CPU refuses is refused on the device: indices out of range when it is waited for,
overlapping memory and numbers at the call."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from compare import DEVICE, close

_OUTSIDE = {
    "index": lambda i, d: torch.rand(3, 2, device=d)[:, i],
    "gather": lambda i, d: torch.rand(3, 2, device=d).gather(1, i.view(1, 1)),
    "take": lambda i, d: torch.rand(3, device=d).take(i),
    "put_": lambda i, d: torch.rand(3, device=d).put_(i, torch.ones(1, device=d)),
    "index_select": lambda i, d: torch.rand(3, 2, device=d).index_select(0, i),
    "index_add_": lambda i, d: torch.rand(3, device=d).index_add_(0, i, torch.ones(1, device=d)),
    "index_copy_": lambda i, d: torch.rand(3, device=d).index_copy_(0, i, torch.ones(1, device=d)),
    "index_fill_": lambda i, d: torch.rand(3, device=d).index_fill_(0, i, 1.0),
    "index_put_": lambda i, d: torch.rand(3, device=d).index_put_((i,), torch.ones(1, device=d)),
    "scatter_": lambda i, d: torch.rand(3, device=d).scatter_(0, i, 1.0),
    "scatter_add_": lambda i, d: torch.rand(3, device=d).scatter_add_(
        0, i, torch.ones(1, device=d)
    ),
    "embedding": lambda i, d: F.embedding(i, torch.rand(3, 2, device=d)),
    "cross_entropy": lambda i, d: F.cross_entropy(torch.rand(1, 3, device=d), i),
    "nll_loss": lambda i, d: F.nll_loss(torch.rand(1, 3, device=d), i),
}


@pytest.mark.parametrize("name", _OUTSIDE)
def test_an_index_outside_raises_the_exception_of_the_cpu_when_the_device_is_waited_for(
    name: str,
) -> None:
    function = _OUTSIDE[name]
    with pytest.raises((IndexError, RuntimeError)) as on_cpu:
        function(torch.tensor([7]), "cpu")
    function(torch.tensor([7], device=DEVICE), DEVICE)
    with pytest.raises(on_cpu.type, match=r"7.*aten::.* on device neuron"):
        torch.neuron.synchronize()
    torch.neuron.synchronize()  # said once
    assert torch.ones(2, device=DEVICE).sum().item() == 2  # the device goes on


def test_item_and_copies_to_the_host_say_that_an_index_was_outside() -> None:
    x = torch.arange(3.0, device=DEVICE)
    picked = x[torch.tensor([3], device=DEVICE)]
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        picked.cpu()
    picked = x[torch.tensor([-4], device=DEVICE)]
    with pytest.raises(IndexError, match="index -4 is out of bounds"):
        picked.item()


def test_indices_at_both_ends_are_inside() -> None:
    x = torch.arange(3.0, device=DEVICE)
    close(x[torch.tensor([-3, 2, 0, -1], device=DEVICE)], torch.tensor([0.0, 2, 0, 2]))
    torch.neuron.synchronize()


def test_ignored_classes_are_no_indices_outside() -> None:
    loss = F.cross_entropy(torch.zeros(2, 3, device=DEVICE), torch.tensor([-100, 1], device=DEVICE))
    close(loss, F.cross_entropy(torch.zeros(2, 3), torch.tensor([-100, 1])))


def test_launch_blocking_raises_at_the_line(run_python: Callable) -> None:
    script = """
import torch
x = torch.arange(3.0, device="neuron")
i = torch.tensor([9], device="neuron")
try:
    x[i]
except IndexError as error:
    print("here:", error)
"""
    done = run_python(script, NEURON_LAUNCH_BLOCKING="1")
    assert "here: index 9 is out of bounds for dimension 0 with size 3" in done.stdout, done.stderr


def test_masked_scatter_with_too_few_elements() -> None:
    x = torch.zeros(3, device=DEVICE)
    x.masked_scatter_(torch.tensor([True, True, False], device=DEVICE), x.new_ones(1))
    with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
        torch.neuron.synchronize()
    with pytest.raises(RuntimeError, match="boolean masks"):
        x.masked_scatter_(torch.ones(3, dtype=torch.uint8, device=DEVICE), x)


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [float("inf"), 1.0], [float("nan"), 1.0]])
def test_multinomial_refuses_what_are_no_probabilities(weights: list[float]) -> None:
    torch.multinomial(torch.tensor(weights, device=DEVICE), 1)
    with pytest.raises(RuntimeError, match="probability tensor contains either"):
        torch.neuron.synchronize()


@pytest.mark.parametrize("wrong", [-0.25, 1.25, float("nan")])
def test_binary_cross_entropy_refuses_what_is_no_probability(wrong: float) -> None:
    x, y = torch.tensor([0.0, 1.0, wrong]), torch.tensor([0.0, 1.0, 1.0])
    with pytest.raises(RuntimeError, match="between 0 and 1") as cpu:
        torch.nn.functional.binary_cross_entropy(x, y)
    torch.nn.functional.binary_cross_entropy(x.to(DEVICE), y.to(DEVICE))
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        torch.neuron.synchronize()
    assert "all elements of input should be between 0 and 1" in str(cpu.value)
    assert torch.nn.functional.binary_cross_entropy(x[:2].to(DEVICE), y[:2].to(DEVICE)).item() == 0


def test_multinomial_refuses_a_row_of_zeros() -> None:
    torch.multinomial(torch.tensor([[1.0, 0.0], [0.0, 0.0]], device=DEVICE), 1)
    with pytest.raises(RuntimeError, match="sum of probabilities <= 0"):
        torch.neuron.synchronize()


_WRITTEN_TWICE = {
    "add_": lambda x: x.add_(1.0),
    "copy_": lambda x: x.copy_(torch.ones(3, 2, device=x.device)),
    "normal_": lambda x: x.normal_(),
    "clamp_": lambda x: x.clamp_(0.0, 1.0),
    "out": lambda x: torch.add(torch.ones(3, 2, device=x.device), 1.0, out=x),
    "matmul out": lambda x: torch.mm(x.new_ones(3, 4), x.new_ones(4, 2), out=x),
    "scatter_": lambda x: x.scatter_(0, torch.zeros(1, 2, dtype=torch.long, device=x.device), 1.0),
    "index_add_": lambda x: x.index_add_(
        0, torch.zeros(1, dtype=torch.long, device=x.device), x.new_ones(1, 2)
    ),
    "foreach": lambda x: torch._foreach_add_([x], 1.0),
}


@pytest.mark.parametrize("name", _WRITTEN_TWICE)
def test_expanded_tensors_are_not_written(name: str) -> None:
    for device in ("cpu", DEVICE):
        x = torch.zeros(1, 2, device=device).expand(3, 2)
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            _WRITTEN_TWICE[name](x)
    close(x, torch.zeros(3, 2))


def test_expanded_tensors_are_filled_as_on_the_cpu() -> None:
    x = torch.zeros(1, 2, device=DEVICE)
    x.expand(3, 2).fill_(4.0)
    close(x, torch.full((1, 2), 4.0))
    x.expand(3, 2).zero_()
    close(x, torch.zeros(1, 2))


_MOVED = {
    "copy_": lambda x: x[1:].copy_(x[:-1]),
    "add_": lambda x: x[1:].add_(x[:-1]),
    "out": lambda x: torch.mul(x[:-1], 2.0, out=x[1:]),
    "gather out": lambda x: torch.gather(
        x, 0, torch.zeros(4, dtype=torch.long, device=x.device), out=x
    ),
    "cat out": lambda x: torch.cat([x[:2], x[2:]], out=x),
}


@pytest.mark.parametrize("name", _MOVED)
def test_memory_is_not_written_while_it_is_read_elsewhere(name: str) -> None:
    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            _MOVED[name](torch.arange(4.0, device=device))


def test_the_same_tensor_is_read_and_written() -> None:
    x = torch.arange(4.0, device=DEVICE)
    x.mul_(x)
    torch.add(x, x, out=x)
    close(x, torch.tensor([0.0, 2, 8, 18]))


def test_out_of_another_type_is_refused_where_torch_refuses_it() -> None:
    for device in ("cpu", DEVICE):
        x = torch.rand(2, 2, device=device)
        i = torch.zeros(1, 1, dtype=torch.long, device=device)
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
            torch.gather(x, 1, i, out=torch.empty(1, 1, dtype=torch.float64, device=device))
        close_type = torch.add(x, 1, out=torch.empty(2, 2, dtype=torch.float64, device=device))
        assert close_type.dtype == torch.float64


_NUMBERS = {
    "uniform_": lambda x: x.uniform_(3, -1),
    "normal_": lambda x: x.normal_(0, -1),
    "log_normal_": lambda x: x.log_normal_(0, 0),
    "exponential_": lambda x: x.exponential_(0),
    "geometric_": lambda x: x.geometric_(-1),
    "cauchy_": lambda x: x.cauchy_(0, 0),
    "bernoulli_": lambda x: x.bernoulli_(1.5),
    "random_": lambda x: x.random_(5, 5),
    "randint": lambda x: torch.randint(3, 2, (2,), device=x.device),
}


@pytest.mark.parametrize("name", _NUMBERS)
def test_numbers_that_describe_no_distribution(name: str) -> None:
    x = torch.rand(3, device=DEVICE)
    x.uniform_(), x.normal_(), x.log_normal_(), x.exponential_(), x.geometric_(0.5)
    x.cauchy_(), x.bernoulli_(0.5), x.random_(1, 5)  # the programs are there
    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError, match=r"expects|expected|from"):
            _NUMBERS[name](torch.rand(3, device=device))


def test_new_bounds_of_random_integers_compile_nothing() -> None:
    import torch_neuronx._C as c

    torch.randint(0, 10, (5,), device=DEVICE)
    before = c.counters()
    for low, high in ((0, 7), (-3, 9), (5, 6), (0, 2**31 - 1)):
        x = torch.randint(low, high, (5,), device=DEVICE)
        assert bool((x >= low).all()) and bool((x < high).all())
    torch.randint(4, (5,), device=DEVICE)
    assert c.counters()["programs"] - before["programs"] <= 6  # those of the comparisons
    for low, high in ((0, 2**40), (-(2**40), 3), (-(2**63), 2**63 - 1), (5, 2**31 + 5)):
        x = torch.randint(low, high, (64,), device=DEVICE)
        assert bool((x >= low).all()) and bool((x < high).all())
