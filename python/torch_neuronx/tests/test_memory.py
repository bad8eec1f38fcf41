# SPDX-License-Identifier: Apache-2.0
"""The caching allocator over long runs: counters that agree, no growth, recovery when full."""

import gc
import random

import pytest
import torch

DEVICE = "neuron"


@pytest.fixture(autouse=True)
def _clean() -> None:
    gc.collect()
    torch.neuron.empty_cache()


def check_counters() -> None:
    stats = torch.neuron.memory_stats()
    allocated = stats["allocated_bytes.all.current"]
    assert stats["requested_bytes.all.current"] <= allocated <= stats["reserved_bytes.all.current"]
    assert allocated <= stats["allocated_bytes.all.peak"] <= stats["reserved_bytes.all.peak"]
    assert torch.neuron.memory_allocated() == allocated


def test_sizes_that_come_and_go_at_random_do_not_fill_the_device() -> None:
    chance = random.Random(3)
    base = torch.neuron.memory_allocated()
    held: list[tuple[int, torch.Tensor]] = []
    torch.neuron.reset_peak_memory_stats()
    for turn in range(1500):
        if len(held) > 24 or (held and chance.random() < 0.45):
            size, tensor = held.pop(chance.randrange(len(held)))
            assert tensor[0].item() == tensor[-1].item() == size  # nobody wrote into it
            del tensor
        else:
            size = int(2 ** chance.uniform(0, 21))
            held.append((size, torch.full((size,), float(size), device=DEVICE)))
        if turn % 100 == 0:
            check_counters()
    check_counters()
    # Holes cost less than what is in use at the most.
    peak = torch.neuron.max_memory_allocated()
    assert torch.neuron.max_memory_reserved() <= 2 * peak + (64 << 20)
    held.clear()
    assert torch.neuron.memory_allocated() <= base + (1 << 20)  # the numbers of new programs
    torch.neuron.empty_cache()
    check_counters()
    assert torch.neuron.memory_reserved() <= base + (32 << 20)


def test_a_training_loop_needs_no_more_memory_with_time() -> None:
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)
    ).to(DEVICE)
    optimizer = torch.optim.AdamW(net.parameters())
    sizes = [8, 24, 16, 40]

    def step(rows: int) -> None:
        loss = net(torch.ones(rows, 64, device=DEVICE)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    for rows in sizes * 2:
        step(rows)
    reserved, peak = torch.neuron.memory_reserved(), torch.neuron.max_memory_allocated()
    for rows in sizes * 20:
        step(rows)
    assert torch.neuron.memory_reserved() == reserved
    assert torch.neuron.max_memory_allocated() <= peak + (1 << 20)


def test_the_peak_is_that_of_what_was_held_at_once() -> None:
    mib = 1 << 18  # floats
    for _ in range(2):  # the first time programs are made, which keep their numbers
        torch.neuron.reset_peak_memory_stats()
        base = torch.neuron.memory_allocated()
        a = torch.zeros(8 * mib, device=DEVICE)
        b = a + 1
        del a, b
        torch.zeros(4 * mib, device=DEVICE)
    assert torch.neuron.max_memory_allocated() - base == 16 << 20
    assert torch.neuron.memory_allocated() == base


def test_running_out_of_memory_changes_nothing() -> None:
    x = torch.arange(1000.0, device=DEVICE)
    before = torch.neuron.memory_stats()
    for _ in range(3):
        y = x * 2  # queued
        with pytest.raises(torch.OutOfMemoryError, match="tried to allocate"):
            torch.empty(1 << 42, dtype=torch.uint8, device=DEVICE)
        assert y[-1].item() == 1998
    after = torch.neuron.memory_stats()
    assert after["num_ooms"] == before["num_ooms"] + 3
    del y
    check_counters()
    assert torch.equal(x.cpu(), torch.arange(1000.0))


def test_torch_accelerator_knows_the_memory() -> None:
    accelerator = torch.accelerator
    accelerator.reset_peak_memory_stats()
    base = accelerator.memory_allocated()
    x = torch.zeros(1 << 20, device=DEVICE)
    assert accelerator.memory_allocated() >= base + (4 << 20)
    assert accelerator.memory_allocated() == torch.neuron.memory_allocated()
    assert accelerator.memory_reserved() == torch.neuron.memory_reserved()
    assert accelerator.max_memory_allocated() == torch.neuron.max_memory_allocated()
    assert accelerator.max_memory_reserved() == torch.neuron.max_memory_reserved()
    stats = accelerator.memory_stats()
    assert stats["num_ooms"] == torch.neuron.memory_stats()["num_ooms"]
    del x
    accelerator.empty_cache()
    accelerator.reset_accumulated_memory_stats()
    assert accelerator.memory_stats()["allocated_bytes.all.freed"] == 0
    free, total = accelerator.get_memory_info()
    assert (free, total) == torch.neuron.mem_get_info() and 0 < free <= total
