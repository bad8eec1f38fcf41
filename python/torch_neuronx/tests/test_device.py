# SPDX-License-Identifier: Apache-2.0
"""The device as torch sees it: autoload, views, copies, errors. Right values: torch on the CPU."""

import pickle
from collections.abc import Callable

import pytest
import torch
import torch.utils.checkpoint
import torch_neuronx

DEVICE = "neuron"


def equal(device: torch.Tensor, cpu: torch.Tensor) -> None:
    assert device.device.type == DEVICE
    torch.testing.assert_close(device.detach().cpu(), cpu)


def test_torch_alone_loads_the_device(run_python: Callable) -> None:
    done = run_python("import torch; print(torch.ones(2, device='neuron').sum().item())")
    assert done.stdout.strip() == "2.0", done.stderr
    assert "torch_neuronx" not in done.stdout


@pytest.mark.parametrize("order", ["torch, torch_neuronx", "torch_neuronx, torch"])
def test_both_import_orders_work(run_python: Callable, order: str) -> None:
    done = run_python(f"import {order}; print((torch.ones(2, device='neuron') + 1).tolist())")
    assert done.stdout.strip() == "[2.0, 2.0]", done.stderr


def test_without_a_device_the_cpu_works_and_the_device_says_what_to_do(
    run_python: Callable,
) -> None:
    script = """
import torch
print(torch.ones(2).sum().item(), torch.neuron.is_available(), torch.neuron.device_count())
try:
    torch.ones(2, device="neuron")
except RuntimeError as error:
    print(error)
"""
    done = run_python(script, OPENNRT_EMULATE=None)
    lines = done.stdout.splitlines()
    assert lines[0] == "2.0 False 0", done.stderr
    assert "OPENNRT_EMULATE" in lines[1]
    assert done.stderr == ""


def test_accelerator_is_the_neuron_device() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    assert torch.accelerator.is_available()
    assert torch.neuron.device_count() >= 1
    assert torch.neuron.get_device_name() == "NeuronCore-v3"


VIEWS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.transpose(0, 2),
    "narrowed": lambda x: x[:, 1:3],
    "stepped": lambda x: x[::2, :, 1::3],
    "selected": lambda x: x[2],
    "one column": lambda x: x[..., 3],
    "expanded": lambda x: x[:, :1].expand(-1, 7, -1),
    "diagonal": lambda x: x[:4, :4, 0].diagonal(),
    "unfolded": lambda x: x.unfold(2, 3, 2),
    "reshaped": lambda x: x.view(5, 24)[:, 3:9],
    "as_strided": lambda x: x.as_strided((3, 4), (7, 2), 5),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
def test_views_are_read_in_place(view: Callable, dtype: torch.dtype) -> None:
    cpu = (torch.arange(120) % 5).reshape(5, 4, 6).to(dtype)
    device = cpu.to(DEVICE)
    assert view(device).stride() == view(cpu).stride()
    equal(view(device), view(cpu))
    equal(view(device).clone(), view(cpu).clone())
    if dtype != torch.bool:
        equal(view(device) + view(device), view(cpu) + view(cpu))


@pytest.mark.parametrize(
    "view",
    [v for k, v in VIEWS.items() if k not in ("expanded", "unfolded")],
    ids=[k for k in VIEWS if k not in ("expanded", "unfolded")],
)
def test_views_are_written_in_place(view: Callable) -> None:
    cpu = torch.arange(120.0).reshape(5, 4, 6)
    device = cpu.to(DEVICE)
    for tensor in (cpu, device):
        view(tensor).add_(100).mul_(2)
        view(tensor).copy_(view(tensor) - 1)
    equal(device, cpu)


def test_an_update_that_reads_a_neighbour_equals_the_cpu() -> None:
    # torch documents x[1:] += x[:-1] on one storage as unsupported; disjoint columns are fine.
    cpu = torch.arange(25.0).reshape(5, 5)
    device = cpu.to(DEVICE)
    for m in (cpu, device):
        m[:, :2] += m[:, 3:]
        m[1:4, ::2].mul_(-1)
        m.t()[0].add_(1)
    equal(device, cpu)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.bool,
    ],
)
def test_copies_keep_every_type(dtype: torch.dtype) -> None:
    cpu = torch.tensor([0, 1, 2, 3, 127]).to(dtype)
    device = cpu.to(DEVICE)
    assert device.dtype == dtype
    equal(device, cpu)
    equal(device.to(torch.float32), cpu.to(torch.float32))
    equal(torch.arange(3, device=DEVICE).to(dtype), torch.arange(3).to(dtype))


def test_int64_is_exact() -> None:
    cpu = torch.tensor([2**53 + 1, -(2**62) - 3, 2**40])
    equal(cpu.to(DEVICE) + 1, cpu + 1)
    equal(cpu.to(DEVICE) * 3, cpu * 3)


def test_tensors_of_two_devices_do_not_mix() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device=DEVICE) + torch.ones(3)
    equal(torch.ones(3, device=DEVICE) * torch.tensor(2.0), torch.full((3,), 2.0))


def test_shapes_that_do_not_fit_raise() -> None:
    with pytest.raises(RuntimeError, match="broadcast"):
        torch.ones(3, device=DEVICE) + torch.ones(4, device=DEVICE)


def test_changing_numbers_compile_nothing() -> None:
    x = torch.ones(4, device=DEVICE)
    x * 0.5 + 1
    before = torch.neuron.counters()
    for step in range(5):
        x.mul_(1 - 0.1 * step).add_(x, alpha=1 / (step + 2))
        x / (step + 3)
    after = torch.neuron.counters()
    assert after["programs"] - before["programs"] <= 3  # mul_, add_ and div, once each
    assert after["launches"] - before["launches"] == 15


def test_tracking_tells_device_from_fallback() -> None:
    torch_neuronx.clear_op_tracking()
    x = torch.ones(3, device=DEVICE) + 1
    with pytest.warns(UserWarning, match="aten::special_erfcx"):
        torch.special.erfcx(x)
    assert "aten::add.Tensor" in torch_neuronx.get_executed_ops()
    assert torch_neuronx.get_fallback_ops() == ["aten::special_erfcx.out"]
    report = torch_neuronx.fallback_report()
    assert "erfcx" in report and "test_device.py:" in report and "no lowering" in report
    torch_neuronx.set_fallback_mode("error")
    try:
        with pytest.raises(NotImplementedError, match="erfcx"):
            torch.special.erfcx(x)
    finally:
        torch_neuronx.set_fallback_mode("warn")


def test_memory_counters_go_back() -> None:
    before = torch.neuron.memory_allocated()
    x = torch.zeros(1 << 20, device=DEVICE)
    assert torch.neuron.memory_allocated() - before == 4 << 20
    assert torch.neuron.memory_reserved() >= torch.neuron.memory_allocated()
    del x
    assert torch.neuron.memory_allocated() == before
    torch.neuron.empty_cache()
    assert "allocated memory" in torch.neuron.memory_summary()


def test_out_of_memory_is_named_and_recoverable() -> None:
    with pytest.raises(torch.OutOfMemoryError, match=r"usage: tensors|bytes"):
        torch.empty(1 << 42, dtype=torch.uint8, device=DEVICE)
    equal(torch.ones(2, device=DEVICE) + 1, torch.full((2,), 2.0))


def test_results_written_into_a_view_leave_its_neighbours_alone() -> None:
    # A fallback's result came back by resize_, which made the view contiguous.
    whole = torch.zeros(8, 16, device=DEVICE)
    a = torch.randn(8, 8)
    torch.matmul(a.to(DEVICE), a.to(DEVICE), out=whole[:, 4:12])
    b = a[:4, :2].abs() + 1
    torch.special.erfcx(b.to(DEVICE), out=whole[:4, 12:14])
    torch.testing.assert_close(whole[:4, 12:14].cpu(), torch.special.erfcx(b))
    torch.testing.assert_close(whole[:, 4:12].cpu(), a @ a, rtol=1e-4, atol=1e-4)
    assert whole[:, :4].abs().sum().item() == whole[:, 14:].abs().sum().item() == 0


def test_complex_tensors_are_copied_and_conjugated() -> None:
    cpu = torch.randn(4, 3, dtype=torch.complex64)
    device = cpu.to(DEVICE)
    equal(device.t(), cpu.t())
    equal(device.conj().clone(), cpu.conj().clone())
    equal(device[:, 1].conj() + 1, cpu[:, 1].conj() + 1)
    equal(torch.view_as_real(device), torch.view_as_real(cpu))


def test_float64_keeps_its_type_and_warns_once(run_python: Callable) -> None:
    script = """
import torch, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    x = torch.rand(100, dtype=torch.float64)
    y = x.to("neuron") * 3 + 1
    z = y + y
torch.testing.assert_close(y.cpu(), x * 3 + 1, rtol=1e-6, atol=1e-6)
print(y.dtype, sum("float32" in str(w.message) for w in caught))
"""
    assert run_python(script).stdout.strip() == "torch.float64 1"
    done = run_python(script, TORCH_NEURONX_FLOAT64="error")
    assert "TORCH_NEURONX_FLOAT64=error" in done.stderr


def test_autocast_takes_the_lists_of_cuda() -> None:
    w = torch.randn(4, 4, device=DEVICE)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        product = w @ w
        assert product.dtype == torch.bfloat16
        assert torch.nn.functional.linear(w, w).dtype == torch.bfloat16
        assert product.exp().dtype == torch.float32
        with torch.autocast(DEVICE, enabled=False):
            assert (w @ w).dtype == torch.float32


def test_saved_tensors_come_back_on_either_device(tmp_path: object) -> None:
    x = torch.arange(6.0, device=DEVICE)
    path = f"{tmp_path}/saved.pt"
    torch.save((x, x[2:4]), path)
    on_cpu = torch.load(path, map_location="cpu", weights_only=True)
    on_cpu[1].fill_(9)
    assert on_cpu[0].tolist() == [0, 1, 9, 9, 4, 5]
    on_device = torch.load(path, weights_only=True)
    assert on_device[1].device.type == DEVICE
    assert on_device[1].tolist() == [2, 3]


def test_a_host_tensor_may_die_during_a_copy() -> None:
    copies = [torch.full((1 << 20,), 7.0).to(DEVICE, non_blocking=True) for _ in range(4)]
    junk = [torch.full((1 << 20,), -1.0) for _ in range(4)]
    assert all((copy == 7).all().item() for copy in copies) and len(junk) == 4


def test_pinned_memory_is_known_as_such() -> None:
    assert torch.ones(3).pin_memory().is_pinned()
    assert not torch.ones(3).is_pinned()


def test_a_forked_child_is_told_to_spawn(run_python: Callable) -> None:
    script = """
import os, torch
torch.ones(1, device="neuron")
pid = os.fork()
if pid == 0:
    try:
        torch.ones(1, device="neuron")
    except RuntimeError as error:
        print("spawn" in str(error), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
    assert run_python(script).stdout.strip() == "True"


def test_streams_and_events_tell_the_time() -> None:
    stream = torch.Stream("neuron")
    first, last = (torch.Event("neuron", enable_timing=True) for _ in range(2))
    with stream:
        first.record()
        x = torch.ones(100, device=DEVICE) + 1
        last.record()
    last.synchronize()
    assert first.elapsed_time(last) > 0 and last.query()
    equal(x, torch.full((100,), 2.0))


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_draws_the_same_numbers_again(reentrant: bool) -> None:
    # torch.utils.checkpoint looks at torch.neuron._initialized.
    x = torch.ones(1000, device=DEVICE, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(
        lambda a: torch.nn.functional.dropout(a * 1, 0.5), x, use_reentrant=reentrant
    )
    y.sum().backward()
    assert torch.equal(y.detach().cpu(), x.grad.cpu())


def test_tensors_are_pickled() -> None:
    x = torch.arange(6.0, device=DEVICE)
    again = pickle.loads(pickle.dumps(x[2:4]))
    assert again.device.type == DEVICE and again.tolist() == [2, 3]


def test_a_storage_without_memory_is_an_error() -> None:
    x = torch.arange(12.0, device=DEVICE)
    view = x[2:5]
    x.untyped_storage().resize_(0)
    for use in (lambda: x.fill_(1), lambda: view + 1, lambda: view.cpu()):
        with pytest.raises(RuntimeError, match=r"resized to 0 bytes|out of bounds"):
            use()


def test_many_shapes_do_not_fill_the_device() -> None:
    one = torch.ones(1, device=DEVICE)
    one.expand(1).add(1)
    start = torch.neuron.memory_allocated()
    for n in range(1, 2600):
        one.expand(n).add(1)
    # A program keeps the buffer of its numbers: at most 2,048 of them, 512 bytes each.
    assert torch.neuron.memory_allocated() - start <= 2049 * 512
    equal(one.expand(3).add(1), torch.full((3,), 2.0))


def test_infinities_win_over_nans_in_hypot() -> None:
    nan, inf = float("nan"), float("inf")
    a, b = torch.tensor([nan, inf, -inf, nan]), torch.tensor([inf, nan, 2.0, 1.0])
    for function, other in ((torch.hypot, b), (torch.heaviside, torch.tensor([1.0]))):
        got = function(a.to(DEVICE), other.to(DEVICE)).cpu()
        torch.testing.assert_close(got, function(a, other), equal_nan=True)


# Parts of rows: what is read and written begins in the middle of a row.
ROW_PARTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "second half": lambda x: x[..., 6:],
    "second half, transposed": lambda x: x[..., 6:].transpose(0, 1),
    "one of three": lambda x: x.view(4, 5, 3, 4)[:, :, 2],
    "middle": lambda x: x[:, 1:3, 3:7],
    "last column": lambda x: x[..., -1],
    "every second of the end": lambda x: x[..., 5::2],
    "last row": lambda x: x[3:, 4:, 6:],
    "wraps round": lambda x: x.as_strided((4, 3), (60, 12), 59 - 24),
}


@pytest.mark.parametrize("part", ROW_PARTS.values(), ids=ROW_PARTS.keys())
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_parts_of_rows_are_read_and_written(part: Callable, dtype: torch.dtype) -> None:
    cpu = torch.arange(240).reshape(4, 5, 12).to(dtype)
    device = cpu.to(DEVICE)
    assert torch.equal((part(device) + 1).cpu(), part(cpu) + 1)
    assert torch.equal(part(device).contiguous().cpu(), part(cpu).contiguous())
    for x in (cpu, device):
        part(x).mul_(2)
        part(x).copy_(part(x) + 1)
        part(x)[0].fill_(7)
    assert torch.equal(device.cpu(), cpu)


def test_lists_of_views_between_each_others_elements_are_all_written() -> None:
    for x in (cpu := torch.zeros(4, 32), device := torch.zeros(4, 32, device=DEVICE)):
        halves = [x[:, :16], x[:, 16:]]
        torch._foreach_add_(halves, 1.0)
        torch._foreach_mul_(halves, [2.0, 3.0])
        torch._foreach_add_(halves, [x[:, 16:] + 1, x[:, :16] + 2])
        torch._foreach_copy_([x[:, ::2], x[:, 1::2]], [x[:, 1::2] * 1, x[:, ::2] * 1])
    assert torch.equal(device.cpu(), cpu)


def test_deterministic_algorithms_fill_memory_and_repeat_their_bits() -> None:
    def numbers() -> list[torch.Tensor]:
        torch.manual_seed(7)
        x = torch.randn(40, 8, device=DEVICE, requires_grad=True)
        index = torch.randint(0, 5, (40,), device=DEVICE)
        y = torch.zeros(5, 8, device=DEVICE).index_add(0, index, x)
        torch.nn.functional.dropout(y.cumsum(0), 0.5).square().sum().backward()
        return [y.detach().cpu(), x.grad.cpu()]

    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3, device=DEVICE).isnan().all().item()
        assert torch.empty_strided((2, 2), (1, 2), device=DEVICE).isnan().all().item()
        largest = torch.iinfo(torch.int64).max
        assert torch.empty(2, dtype=torch.int64, device=DEVICE).tolist() == [largest] * 2
        grown = torch.zeros(2, device=DEVICE).resize_(4)
        assert grown[:2].tolist() == [0, 0] and grown[2:].isnan().all().item()
        first, second = numbers(), numbers()
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_falling_back_may_be_kept_for_what_is_not_implemented(run_python: Callable) -> None:
    done = run_python(
        """
import torch
print(torch.linalg.svdvals(torch.eye(2, device="neuron")).tolist())  # in no table
try:
    torch.ones(2, dtype=torch.complex64).to("neuron") + 1
except NotImplementedError as error:
    print(error)
""",
        TORCH_NEURONX_FALLBACK_ONLY_FOR_UNIMPLEMENTED_OPS="1",
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "[1.0, 1.0]", done.stderr
    assert "aten::add.Tensor is implemented" in lines[1] and "not for these arguments" in lines[1]


def test_printing_computes_nothing_on_the_device() -> None:
    cpu = torch.tensor([[1.0, 2.5e6], [float("nan"), -0.125]])
    for tensor in (cpu, cpu.to(torch.bfloat16), cpu.to(torch.complex64), cpu > 0, cpu[0, 0]):
        device = tensor.to(DEVICE)
        torch.neuron.synchronize()
        before = torch.neuron.counters()
        text = repr(device)
        assert text.replace(f", device='{DEVICE}:0'", "") == repr(tensor)
        assert torch.neuron.counters() == before
    assert "requires_grad=True" in repr(cpu.to(DEVICE).requires_grad_())
    assert "grad_fn=<MulBackward0>" in repr(cpu.to(DEVICE).requires_grad_() * 2)
