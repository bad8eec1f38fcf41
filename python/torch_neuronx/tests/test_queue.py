# SPDX-License-Identifier: Apache-2.0
"""Work is queued: order, waiting, errors that come later, threads, the end of the process. Right
values: torch on the CPU, or counting."""

import os
import threading
import time
from collections.abc import Callable

import pytest
import torch

DEVICE = "neuron"


def test_a_thousand_queued_additions_count_to_a_thousand() -> None:
    x = torch.zeros(1, device=DEVICE)
    one = torch.ones(1, device=DEVICE)
    for _ in range(1000):
        x = x + one
    assert x.item() == 1000.0


def test_more_than_the_queue_holds_is_not_lost() -> None:
    x = torch.zeros(3, dtype=torch.int64, device=DEVICE)
    for _ in range(5000):
        x += 1
    assert x.tolist() == [5000] * 3


def test_numbers_of_one_operation_keep_their_order() -> None:
    """The scalar inputs of calls that share a program are each call's own."""
    x = torch.zeros(1, device=DEVICE)
    results = [x + k for k in range(200)]
    assert [r.item() for r in results] == [float(k) for k in range(200)]


def test_a_host_tensor_may_change_as_soon_as_the_copy_returns() -> None:
    host = torch.zeros(1000)
    copies = []
    for k in range(50):
        host.fill_(k)
        torch.ones(64, 64, device=DEVICE) @ torch.ones(64, 64, device=DEVICE)
        copies.append(host.to(DEVICE, non_blocking=True))
    host.fill_(-1)
    assert [int(c[999].item()) for c in copies] == list(range(50))


def test_memory_of_a_queued_operand_may_be_freed_and_taken() -> None:
    """Freed blocks go to the next tensor while work on the old one is still queued."""
    total = torch.zeros((), device=DEVICE)
    for k in range(300):
        a = torch.full((256,), float(k), device=DEVICE)
        total += a.sum()
        del a
        torch.full((256,), 1e9, device=DEVICE)
    assert total.item() == 256 * sum(range(300))


def test_streams_and_the_host_see_one_order() -> None:
    side = torch.Stream(device=DEVICE)
    x = torch.ones(1000, device=DEVICE)
    with side:
        y = x * 2
    event = side.record_event()
    torch.accelerator.current_stream().wait_event(event)
    z = y + 1
    assert z.sum().item() == 3000.0
    assert event.query()
    side.synchronize()
    assert side.query()


def test_an_event_is_reached_without_anybody_waiting_for_it() -> None:
    x = torch.ones(10, device=DEVICE)
    event = torch.Event(device=DEVICE)
    x = x + 1
    event.record()
    deadline = time.monotonic() + 60
    while not event.query():
        assert time.monotonic() < deadline
    assert x.sum().item() == 20.0


def test_events_take_the_time_of_the_work_between_them() -> None:
    first = torch.Event(device=DEVICE, enable_timing=True)
    last = torch.Event(device=DEVICE, enable_timing=True)
    a = torch.ones(512, 512, device=DEVICE)
    a @ a
    torch.neuron.synchronize()
    began = time.perf_counter()
    first.record()
    for _ in range(4):
        a = a @ a * 1e-3
    last.record()
    last.synchronize()
    whole = (time.perf_counter() - began) * 1e3
    between = first.elapsed_time(last)
    assert 0 < between <= whole


FAULTY = """
import torch
x = torch.ones(4, device="neuron")
(x * 1).sum().item()
try:
    for i in range(8):
        x = x + 1
    print("queued")
    torch.neuron.synchronize()
    print("not told")
except RuntimeError as error:
    print("told:", error)
print(torch.ones(2, device="neuron").add(1).tolist())
"""


def test_an_error_of_queued_work_comes_out_of_the_wait(run_python: Callable) -> None:
    done = run_python(FAULTY, OPENNRT_FAULTS="program@5=1201")
    told = [line for line in done.stdout.splitlines() if line.startswith("told:")]
    assert len(told) == 1, done.stdout + done.stderr
    assert "add.Tensor" in told[0]
    assert "not told" not in done.stdout
    assert done.stdout.splitlines()[-1] == "[2.0, 2.0]"


def test_with_launch_blocking_an_error_comes_out_of_its_own_line(run_python: Callable) -> None:
    script = """
import torch
x = torch.ones(4, device="neuron")
for line in range(1, 100):
    try:
        x = x + 1
    except RuntimeError as error:
        print(line, "add.Tensor" in str(error))
        break
"""
    done = run_python(script, OPENNRT_FAULTS="program@5=1201", NEURON_LAUNCH_BLOCKING="1")
    # The first execution is that of ones().
    assert done.stdout.split() == ["4", "True"], done.stdout + done.stderr


def test_what_is_queued_behind_an_error_does_not_run(run_python: Callable) -> None:
    """A step whose gradient failed must not change the weights."""
    script = """
import torch
w = torch.zeros(4, device="neuron")
g = torch.ones(4, device="neuron")
(g * 2).sum().item(); w.add_(g, alpha=0.0).sum().item()
try:
    bad = g * 2
    w.add_(bad)
    torch.neuron.synchronize()
    print("not told")
except RuntimeError as error:
    print("told")
print(w.tolist())
"""
    for nth in range(5, 12):
        done = run_python(script, OPENNRT_FAULTS=f"program@{nth}=1201")
        lines = done.stdout.splitlines()
        if lines and lines[0] == "told":  # the first that reaches the try block hits g * 2
            assert lines[1] == "[0.0, 0.0, 0.0, 0.0]", (nth, done.stdout)
            return
    pytest.fail("no execution was hit")


def test_threads_queue_side_by_side() -> None:
    x = torch.arange(64, dtype=torch.float32, device=DEVICE)
    sums: dict[int, float] = {}

    def work(k: int) -> None:
        y = x
        for _ in range(100):
            y = y + k
        sums[k] = y.sum().item()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == {k: 64 * 63 / 2 + 64 * 100 * k for k in range(4)}


ENDINGS = {
    "the program ends": "pass",
    "sys.exit": "import sys; sys.exit(0)",
    "a daemon thread goes on": (
        "import threading\n"
        "def forever():\n"
        "    y = a\n"
        "    while True:\n"
        "        y = y + 1\n"
        "threading.Thread(target=forever, daemon=True).start()\n"
        "import time; time.sleep(0.2)"
    ),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_the_process_ends_with_work_in_flight(run_python: Callable, how: str) -> None:
    script = f"""
import torch
a = torch.ones(700, 700, device="neuron")
for _ in range(30):
    a = a @ a * 1e-3
{ENDINGS[how]}
"""
    done = run_python(script)
    assert done.returncode == 0, done.stderr
    assert "terminate" not in done.stderr


def test_an_unhandled_exception_ends_the_process_as_always(run_python: Callable) -> None:
    done = run_python("import torch\ntorch.ones(9, device='neuron') + 1\nraise SystemExit(3)")
    assert done.returncode == 3, done.stderr


def test_a_child_that_is_forked_with_work_in_flight_may_use_the_cpu(run_python: Callable) -> None:
    script = """
import os, torch
a = torch.ones(500, 500, device="neuron")
for _ in range(20):
    a = a @ a * 1e-3
child = os.fork()
if child == 0:
    os._exit(0 if torch.ones(3).sum().item() == 3 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(torch.isfinite(a).all().item())
"""
    done = run_python(script)
    assert done.stdout.split() == ["0", "True"], done.stderr


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")
def test_one_processor_is_enough(run_python: Callable) -> None:
    script = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import torch
x = torch.zeros(1, device="neuron")
for _ in range(3000):
    x += 1
e = torch.Event(device="neuron"); e.record()
while not e.query():
    pass
print(x.item())
"""
    done = run_python(script)
    assert done.stdout.strip() == "3000.0", done.stderr


def test_a_full_device_is_told_at_the_allocation_and_work_goes_on() -> None:
    x = torch.ones(1000, device=DEVICE)
    for _ in range(10):
        x = x + 1
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 45, dtype=torch.uint8, device=DEVICE)
    assert x.sum().item() == 11000.0
