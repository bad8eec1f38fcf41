#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch in eager mode on device neuron (emulated) beside torch's CPU kernels.

usage: bench/torch_eager.py [--rounds N] [--only NAME,...] [--cpus 1,2] [--json]
       (ONRT_STAGE: the stage)

Operations: microseconds of one call from Python on one element: until 900 are queued, until 1,000
are done, and one after the other with a wait each. Steps: milliseconds of forward, backward and
AdamW of a Llama (width 256, 4 layers, 4 x 128 tokens), a residual convolution net (8 pictures of
32 x 32) and an MLP (512-1024-1024-10, 64 rows); launches and compiled programs of a step as
neuron-monitor reads them from libnrt's counters. Both sides in turns in one process that may use
as many processors as --cpus says (one run each), with as many threads; figures are medians of the
rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
_STAGE = Path(os.environ.get("ONRT_STAGE", _ROOT / "build" / "stage"))
sys.path[:0] = [str(_STAGE / "python"), str(_ROOT / "examples")]
_machines = tempfile.TemporaryDirectory(prefix="opennrt-bench-")
os.environ.setdefault("OPENNRT_EMULATE", "trn2.3xlarge")
os.environ["OPENNRT_MACHINE_DIR"] = _machines.name
os.environ["NEURON_RT_NUM_CORES"] = "1"

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from train_same_script import Llama  # noqa: E402

Row = dict[str, Any]
_CALLS = 1000


def make_row(key: str, title: str, unit: str, ours: float, cpu: float, goal: float) -> Row:
    ratio = cpu / ours
    return {
        "key": key, "title": title, "unit": unit, "higher_is_better": False, "ours": ours,
        "peers": {"torch cpu": cpu}, "ratio": ratio, "goal": goal, "limit": 0,
        "verdict": "met" if ratio >= goal else "MISSED",
    }  # fmt: skip


# ---- operations ----


def operations(device: str) -> dict[str, Callable[[], object]]:
    x, y = torch.ones(1, device=device), torch.ones(1, device=device)
    z = torch.ones(64, 64, device=device)
    return {
        "add": lambda: x + y,
        "add_": lambda: x.add_(y, alpha=0.5),
        "view": lambda: z[1:3],
        "empty": lambda: torch.empty(1, device=device),
        "transposed add": lambda: z.t() + z,
    }


def call_time(call: Callable[[], object]) -> float:
    """Microseconds of a call, the wait for all of them included."""
    start = time.perf_counter()
    for _ in range(_CALLS):
        call()
    torch.neuron.synchronize()
    return (time.perf_counter() - start) / _CALLS * 1e6


def enqueue_time(call: Callable[[], object]) -> float:
    """Microseconds until a call returns, with a queue that never fills."""
    calls = 900  # the queue holds 1,024
    start = time.perf_counter()
    for _ in range(calls):
        call()
    end = time.perf_counter()
    torch.neuron.synchronize()
    return (end - start) / calls * 1e6


def lone_time(call: Callable[[], object]) -> float:
    """Microseconds of a call and a wait for it."""
    calls = 300
    start = time.perf_counter()
    for _ in range(calls):
        call()
        torch.neuron.synchronize()
    return (time.perf_counter() - start) / calls * 1e6


# What is timed, of which operations, and the least of torch CPU's speed that is asked for.
_TIMINGS: tuple[tuple[str, Callable[[Callable[[], object]], float], set[str], float], ...] = (
    ("enqueued", enqueue_time, {"add"}, 1 / 1.3),
    (f"{_CALLS} calls and a wait", call_time, set(), 1 / 2),
    ("a lone call and a wait", lone_time, {"add"}, 1 / 4),
)


# ---- training steps ----


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(3))
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.norms[2](self.short(x)))


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), Block(16, 32, 2), Block(32, 64, 2), Block(64, 64, 1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )


def step_of(name: str, device: str) -> Callable[[], None]:
    torch.manual_seed(0)
    if name == "llama":
        model: nn.Module = Llama(width=256, layers=4, heads=8, groups=4)
        inputs = torch.randint(256, (4, 128))
        targets = torch.randint(256, (4 * 128,))
    elif name == "resnet":
        model, inputs, targets = resnet(), torch.randn(8, 3, 32, 32), torch.randint(10, (8,))
    else:
        model, inputs, targets = mlp(), torch.randn(64, 512), torch.randint(10, (64,))
    model.to(device)
    inputs, targets = inputs.to(device), targets.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, -2), targets)
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def measure_operations(rounds: int, only: set[str], tag: str) -> list[Row]:
    ours, cpu = operations("neuron"), operations("cpu")
    rows = []
    for name in ours:
        if only and name not in only:
            continue
        for what, timing, chosen, goal in _TIMINGS:
            if chosen and name not in chosen:
                continue
            for call in (ours[name], cpu[name]):
                timing(call)
            pairs = [(timing(ours[name]), timing(cpu[name])) for _ in range(rounds)]
            rows.append(
                make_row(
                    f"torch/op/{name}/{what}/{tag}",
                    f"torch {name}, {what}, {tag}",
                    "us",
                    statistics.median(pair[0] for pair in pairs),
                    statistics.median(pair[1] for pair in pairs),
                    goal,
                )
            )
    return rows


def observed() -> tuple[set[int], int]:
    """This process's loaded programs and its executions, read from outside by neuron-monitor."""
    monitor = subprocess.Popen([_STAGE / "bin" / "neuron-monitor"], stdout=subprocess.PIPE)
    with monitor:
        assert monitor.stdout is not None
        line = monitor.stdout.readline()
        monitor.terminate()
    runtimes = json.loads(line)["neuron_runtime_data"]
    [report] = [r["report"] for r in runtimes if r["pid"] == os.getpid()]
    models = {model["model_id"] for model in report["memory_used"]["loaded_models"]}
    return models, report["execution_stats"]["execution_summary"]["completed"]


def measure_steps(rounds: int, only: set[str], tag: str) -> list[Row]:
    rows = []
    for name in ("llama", "resnet", "mlp"):
        if only and name not in only:
            continue
        steps = {"ours": step_of(name, "neuron"), "cpu": step_of(name, "cpu")}
        times: dict[str, list[float]] = {"ours": [], "cpu": []}
        for step in steps.values():
            step()
            step()
        models, before = observed()
        for _ in range(rounds):
            for side, step in steps.items():
                start = time.perf_counter()
                step()
                times[side].append((time.perf_counter() - start) * 1e3)
        later, after = observed()
        launches = (after - before) / rounds
        compiled = len(later - models)
        title = f"torch training step, {name}, {tag} ({launches:.0f} launches, {compiled} compiled)"
        rows.append(
            make_row(
                f"torch/step/{name}/{tag}",
                title,
                "ms",
                statistics.median(times["ours"]),
                statistics.median(times["cpu"]),
                1.0,
            )
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", type=lambda text: set(filter(None, text.split(","))))
    parser.add_argument("--cpus", default=[1, 2], type=lambda t: [int(n) for n in t.split(",")])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    allowed = sorted(os.sched_getaffinity(0))
    if len(options.cpus) > 1:  # a process each: the runtime looks once at what it may use
        worst = 0
        for count in options.cpus:
            if count <= len(allowed):
                command = [sys.executable, __file__, "--rounds", str(options.rounds)]
                command += ["--only", ",".join(options.only), "--cpus", str(count)]
                command += ["--json"] if options.json else []
                worst = max(worst, subprocess.run(command).returncode)
        return worst
    threads = options.cpus[0]
    os.sched_setaffinity(0, allowed[:threads])
    torch.set_num_threads(threads)
    tag = f"{threads} cpu" + ("s" if threads > 1 else "")
    warnings.simplefilter("ignore")
    rows = measure_operations(options.rounds, options.only, tag)
    rows += measure_steps(options.rounds, options.only, tag)
    for row in rows:
        print(
            json.dumps(row)
            if options.json
            else f"{row['title']}: {row['ours']:.3g} {row['unit']}, torch cpu "
            f"{row['peers']['torch cpu']:.3g}, {row['ratio']:.2f}x"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
