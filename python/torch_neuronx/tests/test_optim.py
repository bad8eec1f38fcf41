# SPDX-License-Identifier: Apache-2.0
"""Optimizers and the list operations under them. Right values: torch on the CPU."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from compare import DEVICE, agree, close, nothing_falls_back, to_device
from torch.testing._internal.common_optimizers import optim_db


def model(bias: bool) -> torch.nn.Sequential:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 6, bias), torch.nn.Tanh(), torch.nn.Linear(6, 3, bias)
    )


def trained(device: str, make: Callable, kwargs: dict[str, Any], steps: int = 3) -> list:
    net = model(bias=make is not torch.optim.Muon).to(device)
    optimizer = make(net.parameters(), **kwargs)
    torch.manual_seed(2)
    x, y = torch.randn(16, 5).to(device), torch.randn(16, 3).to(device)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = ((net(x) - y) ** 2).mean()
        value.backward()
        return value

    for _ in range(steps):
        optimizer.step(loss)
    return [p.detach() for p in net.parameters()]


def cases() -> list[tuple[str, Any, dict[str, Any]]]:
    found = []
    for info in optim_db:
        name = info.optim_cls.__name__
        if name == "SparseAdam":
            continue  # for sparse gradients, which the device hasn't
        for number, given in enumerate(info.optim_inputs_func(device="cpu")):
            kwargs = dict(given.kwargs)
            if "differentiable" in kwargs:
                continue
            if name == "LBFGS":
                kwargs["max_iter"] = 2  # its line searches multiply differences in the last bit
            ways: list[dict[str, bool]] = [{}]  # torch's choice is foreach where there is one
            if number == 0 and "foreach" in info.supported_impls:
                ways.append({"foreach": False})
            # A fused Adagrad is the CPU's only.
            if "fused" in info.supported_impls and name != "Adagrad":
                ways.append({"fused": True})
            for way in ways:
                found.append((f"{name} {given.desc} {way}", info.optim_cls, {**kwargs, **way}))
    return found


CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_three_steps_equal_the_cpu(case: tuple[str, Any, dict[str, Any]]) -> None:
    _, make, kwargs = case
    with nothing_falls_back():
        on_device = trained(DEVICE, make, copy.deepcopy(kwargs))
    close(on_device, trained("cpu", make, copy.deepcopy(kwargs)), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("make", "kwargs", "launches"),
    [
        (torch.optim.AdamW, {"fused": True}, 2),
        (torch.optim.AdamW, {}, 1),
        (torch.optim.Adam, {"amsgrad": True, "weight_decay": 0.1}, 1),
        (torch.optim.NAdam, {}, 20),
        (torch.optim.SGD, {"momentum": 0.9, "fused": True}, 1),
    ],
)
def test_steps_compile_nothing_and_their_launches_do_not_grow_with_the_model(
    make: Callable, kwargs: dict[str, Any], launches: int
) -> None:
    parameters = [torch.randn(3, 4, device=DEVICE, requires_grad=True) for _ in range(12)]
    optimizer = make(parameters, lr=0.1, **kwargs)
    for p in parameters:
        p.grad = torch.ones_like(p)
    optimizer.step()  # SGD's first step makes the buffers: another program
    optimizer.step()
    for step in range(4):
        optimizer.param_groups[0]["lr"] = 0.1 / (step + 2)
        before = torch.neuron.counters()
        optimizer.step()
        after = torch.neuron.counters()
        assert after["programs"] == before["programs"]
        assert after["launches"] - before["launches"] <= launches


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.AdamW])
def test_parameters_of_different_ages_take_their_own_steps(make: Callable) -> None:
    ends = []
    for device in (DEVICE, "cpu"):
        a, b = torch.ones(3).to(device), torch.full((2, 2), -1.0).to(device)
        optimizer = make([a.requires_grad_()], lr=0.1)
        for step in range(3):
            a.grad = torch.full_like(a, 0.5 + step)
            if step == 1:
                optimizer.add_param_group({"params": [b.requires_grad_()]})
                optimizer.param_groups[0]["params"].append(b)  # steps of one call differ
                optimizer.param_groups.pop()
            if step >= 1:
                b.grad = torch.full_like(b, 2.0)
            optimizer.step()
        steps = [optimizer.state[p]["step"] for p in (a, b)]
        assert [s.item() for s in steps] == [3, 2] and {s.device.type for s in steps} == {"cpu"}
        ends.append((a.detach(), b.detach()))
    close(*ends, rtol=1e-5, atol=1e-6)


def test_groups_of_several_types_and_numbers_in_tensors_still_work() -> None:
    ends = []
    for device in (DEVICE, "cpu"):
        a, b = torch.ones(3).to(device), torch.ones(4, dtype=torch.bfloat16).to(device)
        for p in (a, b):
            p.requires_grad_().grad = torch.full_like(p, 0.25)
        optimizer = torch.optim.AdamW([a, b], lr=0.5)
        optimizer.step()
        ends.append((a.detach(), b.detach()))
        with pytest.raises(ValueError, match="lr as a Tensor"):
            torch.optim.AdamW([a], lr=torch.tensor(0.1), foreach=True).step()
    close(*ends, rtol=1e-2, atol=1e-2)


def lists(dtype: torch.dtype) -> tuple[list[torch.Tensor], ...]:
    def one() -> list[torch.Tensor]:
        shapes: list[tuple[int, ...]] = [(3, 4), (), (5,), (0, 2)]
        if dtype.is_floating_point:
            return [torch.rand(s).add(0.5).to(dtype) for s in shapes]
        return [torch.randint(1, 9, s).to(dtype) for s in shapes]

    return one(), one(), one()


LISTS: dict[str, Callable] = {
    "add": lambda a, b, c: torch._foreach_add(a, b, alpha=2),
    "add number": lambda a, b, c: torch._foreach_add(a, 3),
    "add numbers": lambda a, b, c: torch._foreach_add(a, [1, 2.5, 3, 4]),
    "add 0-d": lambda a, b, c: torch._foreach_add(a, b[1]),
    "sub": lambda a, b, c: torch._foreach_sub(a, b, alpha=2),
    "mul": lambda a, b, c: torch._foreach_mul(a, b),
    "mul 0-d": lambda a, b, c: torch._foreach_mul(a, b[1]),
    "div": lambda a, b, c: torch._foreach_div(a, [2, 4, 5, 8]),
    "maximum": lambda a, b, c: torch._foreach_maximum(a, b),
    "minimum number": lambda a, b, c: torch._foreach_minimum(a, 1),
    "pow": lambda a, b, c: torch._foreach_pow(a, 2),
    "neg": lambda a, b, c: torch._foreach_neg(a),
    "sqrt": lambda a, b, c: torch._foreach_sqrt(a),
    "abs": lambda a, b, c: torch._foreach_abs(a),
}
FLOAT_LISTS: dict[str, Callable] = {
    "addcmul": lambda a, b, c: torch._foreach_addcmul(a, b, c, 0.5),
    "addcdiv": lambda a, b, c: torch._foreach_addcdiv(a, b, c, [0.5, 1, 2, 3]),
    "lerp": lambda a, b, c: torch._foreach_lerp(a, b, 0.25),
    "lerp lists": lambda a, b, c: torch._foreach_lerp(a, b, c),
    "norm": lambda a, b, c: torch._foreach_norm(a),
    "norm of 1": lambda a, b, c: torch._foreach_norm(a, 1),
    "greatest": lambda a, b, c: torch._foreach_norm(a[:3], float("inf")),
    "exp": lambda a, b, c: torch._foreach_exp(a),
    "reciprocal": lambda a, b, c: torch._foreach_reciprocal(a),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_operations_on_lists(dtype: torch.dtype) -> None:
    functions = LISTS if dtype == torch.int64 else LISTS | FLOAT_LISTS
    for function in functions.values():
        agree(function, *lists(dtype))


def test_lists_are_written_in_place_by_one_program() -> None:
    on_cpu = lists(torch.float32)
    on_device = to_device(on_cpu)
    before = torch.neuron.counters()["launches"]
    with nothing_falls_back():
        for a, b, c in (on_cpu, on_device):
            torch._foreach_mul_(a, 2)
            torch._foreach_addcmul_(a, b, c)
            torch._foreach_zero_(b)
    assert torch.neuron.counters()["launches"] - before == 3
    close(on_device, on_cpu)


def test_a_scaler_says_nothing_of_float64(run_python: Callable) -> None:
    done = run_python(
        """
import torch
net = torch.nn.Linear(3, 2).to("neuron")
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
scaler = torch.amp.GradScaler("neuron", init_scale=1024.0)
with torch.autocast("neuron"):
    loss = net(torch.ones(1, 3, device="neuron")).sum()
scaler.scale(loss).backward()
scaler.unscale_(optimizer)  # by 1 / scale in float64
scaler.step(optimizer)
scaler.update()
print(net.weight.grad.tolist())
""",
        TORCH_NEURONX_FLOAT64="error",
    )
    assert done.stdout.strip() == "[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]", done.stderr
    assert "Warning" not in done.stderr


def test_scaled_gradients_are_checked_and_the_scale_moves() -> None:
    for bad in (False, True):
        net = torch.nn.Linear(3, 2).to(DEVICE)
        weight = net.weight.detach().cpu().clone()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
        scaler = torch.amp.GradScaler(DEVICE, init_scale=1024.0, growth_interval=1)
        x = torch.full((1, 3), float("inf") if bad else 1.0, device=DEVICE)
        scaler.scale(net(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == (512.0 if bad else 2048.0)
        close(net.weight, weight if bad else weight - 0.5)
