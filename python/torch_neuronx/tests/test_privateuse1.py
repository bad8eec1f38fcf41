# SPDX-License-Identifier: Apache-2.0
"""What torch promises of every out-of-tree device, topic by topic as the tests of its model backend
(torch_openreg) list them: names, devices, streams, events, random numbers, storages, autocast,
processes. Right values: torch on the CPU."""

import copy
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

DEVICE = "neuron"


# ---- names ----


def test_the_backend_has_its_name_everywhere() -> None:
    assert torch._C._get_privateuse1_backend_name() == "neuron"
    assert torch.device("neuron:1").type == "neuron"
    assert torch.get_device_module("neuron") is torch.neuron
    assert torch.accelerator.current_accelerator().type == "neuron"


def test_tensors_modules_storages_and_sequences_have_its_methods() -> None:
    x = torch.ones(2, 3)
    assert not x.is_neuron and x.neuron().is_neuron
    layer = torch.nn.Linear(3, 2).neuron()
    assert layer.weight.is_neuron
    storage = x.neuron().untyped_storage()
    assert storage.is_neuron and not x.untyped_storage().is_neuron
    packed = pack_padded_sequence(torch.ones(4, 2, 3), [4, 2]).neuron()
    assert packed.data.is_neuron and packed.is_neuron


# ---- devices ----


def test_guards_choose_the_device_and_give_it_back() -> None:
    assert torch.neuron.device_count() >= 2
    assert torch.neuron.current_device() == 0
    with torch.neuron.device(1):
        assert torch.neuron.current_device() == 1
        assert torch.ones(1, device=DEVICE).device.index == 1
    with torch.neuron.device(-1):
        assert torch.neuron.current_device() == 0
    torch.neuron.set_device(1)
    try:
        assert torch.accelerator.current_device_index() == 1
    finally:
        torch.neuron.set_device(0)
    with pytest.raises(RuntimeError, match=r"invalid device ordinal|there is no device"):
        torch.neuron.set_device(99)


def test_tensors_move_between_devices() -> None:
    x = torch.arange(6.0, device="neuron:1").view(2, 3)
    y = x.t().to("neuron:0")
    assert y.device.index == 0
    assert y.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    with pytest.raises(RuntimeError, match="same device"):
        x + y.t()


# ---- streams and events ----


def test_streams_are_made_entered_and_compared() -> None:
    first = torch.Stream(device=DEVICE)
    second = torch.Stream(device="neuron:1")
    assert first.device == torch.device("neuron:0") and second.device.index == 1
    assert first == torch.Stream(
        stream_id=first.stream_id, device_index=0, device_type=first.device_type
    )
    assert first != second and hash(first) != hash(second)
    before = torch.accelerator.current_stream()
    with first:
        assert torch.accelerator.current_stream() == first
    assert torch.accelerator.current_stream() == before
    first.wait_stream(second)
    first.synchronize()
    assert first.query()


def test_a_stream_of_one_device_waits_for_an_event_of_another() -> None:
    a = torch.ones(300, 300, device="neuron:1")
    for _ in range(5):
        a = a @ a * (1 / 300)
    event = torch.Event(device="neuron:1")
    event.record(torch.accelerator.current_stream(torch.device("neuron:1")))
    here = torch.accelerator.current_stream(torch.device("neuron:0"))
    here.wait_event(event)
    assert event.query()
    assert a.sum().item() == pytest.approx(90000.0)


def test_events_record_wait_and_take_the_time() -> None:
    stream = torch.Stream(device=DEVICE)
    first = stream.record_event(torch.Event(device=DEVICE, enable_timing=True))
    last = torch.Event(device=DEVICE, enable_timing=True)
    never = torch.Event(device=DEVICE, enable_timing=True)
    last.record(stream)
    last.wait()
    last.synchronize()
    assert first.query() and last.query() and never.query()
    assert first.elapsed_time(last) >= 0
    with pytest.raises((RuntimeError, ValueError), match="recorded"):
        first.elapsed_time(never)


# ---- random numbers ----


def test_states_are_read_written_and_forked() -> None:
    torch.neuron.manual_seed(7)
    state = torch.neuron.get_rng_state()
    first = torch.rand(5, device=DEVICE).cpu()
    with torch.random.fork_rng(devices=[0], device_type=DEVICE):
        torch.neuron.manual_seed(1)
        torch.rand(100, device=DEVICE)
    second = torch.rand(5, device=DEVICE).cpu()
    torch.neuron.set_rng_state(state)
    assert torch.equal(torch.rand(5, device=DEVICE).cpu(), first)
    assert torch.equal(torch.rand(5, device=DEVICE).cpu(), second)
    assert torch.neuron.initial_seed() == 7


def test_generators_are_independent_and_belong_to_a_device() -> None:
    one, two = torch.Generator(device=DEVICE), torch.Generator(device="neuron:0")
    one.manual_seed(3)
    two.manual_seed(3)
    a = torch.randn(4, generator=one, device=DEVICE)
    torch.randn(4, device=DEVICE)
    assert torch.equal(torch.randn(4, generator=two, device=DEVICE).cpu(), a.cpu())
    assert one.device == torch.device("neuron:0") and one.initial_seed() == 3
    two.set_state(one.get_state())
    left, right = (torch.rand(3, generator=g, device=DEVICE).cpu() for g in (one, two))
    assert torch.equal(left, right)
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, generator=torch.Generator(), device=DEVICE)


def test_seeding_torch_seeds_every_device() -> None:
    torch.manual_seed(11)
    first = [torch.rand(3, device=f"neuron:{i}").cpu() for i in range(2)]
    torch.manual_seed(11)
    for i, expected in enumerate(first):
        assert torch.equal(torch.rand(3, device=f"neuron:{i}").cpu(), expected)


# ---- storages ----


def test_storages_are_filled_copied_resized_and_cloned() -> None:
    x = torch.arange(4.0, device=DEVICE)
    storage = x.untyped_storage()
    assert storage.nbytes() == 16 and storage.device == torch.device("neuron:0")
    assert storage.data_ptr() == x.data_ptr() != 0
    clone = storage.clone()
    assert clone.data_ptr() != storage.data_ptr()
    x.zero_()
    y = torch.empty(0, device=DEVICE).set_(clone)
    assert y.tolist() == [0.0, 1.0, 2.0, 3.0]
    storage.copy_(clone)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    storage.resize_(32)
    assert storage.nbytes() == 32 and x.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert bytes(storage.cpu()[:4]) == b"\0\0\0\0"
    storage.resize_(0)
    assert storage.nbytes() == 0
    with pytest.raises(RuntimeError, match=r"out of bounds|no device memory"):
        x.tolist()


def test_copies_of_tensors_and_modules_are_deep() -> None:
    layer = torch.nn.Linear(3, 3).to(DEVICE)
    twin = copy.deepcopy(layer)
    with torch.no_grad():
        layer.weight.zero_()
    assert twin.weight.abs().sum().item() > 0 and twin.weight.is_neuron
    shared = {"a": layer.weight, "b": layer.weight}
    both = copy.deepcopy(shared)
    assert both["a"] is both["b"]


def test_a_dead_tensor_gives_its_memory_back() -> None:
    torch.ones(1 << 20, device=DEVICE)  # the program keeps memory for its numbers
    gc.collect()
    before = torch.neuron.memory_allocated()
    x = torch.ones(1 << 20, device=DEVICE)
    assert torch.neuron.memory_allocated() >= before + (4 << 20)
    del x
    assert torch.neuron.memory_allocated() == before
    assert torch.neuron.memory_reserved() >= torch.neuron.memory_allocated()


# ---- autocast and attention ----


def test_autocast_nests_and_can_be_left() -> None:
    a = torch.randn(4, 4, device=DEVICE)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert torch.is_autocast_enabled(DEVICE)
        assert (a @ a).dtype == torch.bfloat16
        with torch.autocast(DEVICE, enabled=False):
            assert (a @ a).dtype == torch.float32
        with torch.autocast(DEVICE, dtype=torch.float16):
            assert (a @ a).dtype == torch.float16
        assert torch.nn.functional.softmax(a @ a, -1).dtype == torch.float32
    assert not torch.is_autocast_enabled(DEVICE)
    assert (a @ a).dtype == torch.float32


def test_attention_and_its_gradients_equal_the_cpus() -> None:
    shapes = [(2, 4, 9, 8), (2, 4, 7, 8), (2, 4, 7, 8)]
    cpu = [torch.randn(s, requires_grad=True) for s in shapes]
    neuron = [t.detach().to(DEVICE).requires_grad_() for t in cpu]
    results = [torch.nn.functional.scaled_dot_product_attention(*t) for t in (cpu, neuron)]
    torch.testing.assert_close(results[1].cpu(), results[0])
    for result, inputs in zip(results, (cpu, neuron), strict=True):
        result.backward(torch.ones_like(result))
        assert all(t.grad is not None for t in inputs)
    for c, n in zip(cpu, neuron, strict=True):
        torch.testing.assert_close(n.grad.cpu(), c.grad)


# ---- processes ----

_SPAWN = """
import torch, torch.multiprocessing as mp

def child(rank, queue):
    x = torch.full((3,), float(rank), device=f"neuron:{rank}")
    queue.put((rank, (x + 1).sum().item()))

if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=child, args=(0, queue))]
    for p in processes: p.start()
    for p in processes: p.join()
    print(queue.get(), [p.exitcode for p in processes])
"""


def test_spawned_children_use_the_device(tmp_path: Path, run_python: Callable) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(_SPAWN)
    done = run_python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
    assert done.stdout.strip() == "(0, 3.0) [0]", done.stderr


def test_forked_loader_workers_that_touch_cpu_data_work(run_python: Callable) -> None:
    done = run_python("""
import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.arange(32.0).view(16, 2))
weight = torch.ones(2, 1, device="neuron")
total = 0.0
for (batch,) in DataLoader(data, batch_size=4, num_workers=2, pin_memory=True):
    assert batch.is_pinned()
    total += (batch.to("neuron", non_blocking=True) @ weight).sum().item()
print(total)
""")
    assert done.stdout.strip() == str(float(sum(range(32)))), done.stderr


def test_ctrl_c_ends_a_long_loop(tmp_path: Path) -> None:
    # A job in the background is started with the signal ignored.
    script = """
import signal, torch
signal.signal(signal.SIGINT, signal.default_int_handler)
a = torch.ones(256, 256, device="neuron")
a = a @ a * (1 / 256)  # the first call imports torch's meta kernels
print("ready", flush=True)
try:
    while True:
        a = a @ a * (1 / 256)
except KeyboardInterrupt:
    print("interrupted", a[0, 0].item(), flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "OPENNRT_MACHINE_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out.strip() == "interrupted 1.0"
    assert process.returncode == 0


_CACHE = """
import torch
x = torch.ones(7, device="neuron")
print(((x * 3).tanh() + 1).sum().item())
print(torch.neuron.counters()["compiled"])
"""


def test_processes_share_compiled_programs_on_disk(tmp_path: Path, run_python: Callable) -> None:
    folder = str(tmp_path / "cache")
    cold = run_python(_CACHE, TORCH_NEURONX_NEFF_CACHE_DIR=folder).stdout.split()
    warm = run_python(_CACHE, TORCH_NEURONX_NEFF_CACHE_DIR=folder).stdout.split()
    assert cold[0] == warm[0] and int(cold[1]) > 0 and warm[1] == "0"
    # Entries that are garbage are compiled again.
    for file in Path(folder).rglob("*"):
        if file.is_file():
            file.write_bytes(b"\xff" * 64)
    broken = run_python(_CACHE, TORCH_NEURONX_NEFF_CACHE_DIR=folder)
    assert broken.stdout.split()[0] == cold[0], broken.stderr
    # A folder that can't be written is no reason to stop.
    assert (
        run_python(_CACHE, TORCH_NEURONX_NEFF_CACHE_DIR="/proc/nowhere").stdout.split()[:1]
        == cold[:1]
    )
