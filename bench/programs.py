#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of tests/programs at their large sizes, beside XLA:CPU in the same process.

usage: bench/programs.py --build-dir DIR [--rounds N] [--only NAME,...] [--json]

Run time is what a caller waits for one execution with its arguments in place: nrt_execute, and a
compiled JAX function until its results are ready; both on the one processor this process is pinned
to. Compile time is from the serialized module to NEFF bytes in process (bench_hlo_compile), and
XLA:CPU's compilation of the same module. Peak memory is arguments, results and temporary memory."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "e2e")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
flags = "--xla_allow_excess_precision=false --xla_cpu_multi_thread_eigen=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"

Row = dict[str, Any]
SECONDS = 0.05  # of one turn


def time_of(body: Callable[[], object]) -> float:
    """Median seconds of single calls over one turn."""
    samples: list[float] = []
    start = time.perf_counter()
    while len(samples) < 3 or (time.perf_counter() - start < SECONDS and len(samples) < 1001):
        before = time.perf_counter()
        body()
        samples.append(time.perf_counter() - before)
    return statistics.median(samples)


def make_row(key: str, title: str, unit: str, ours: float, peer: float, goal: float) -> Row:
    """A line for bench/run: smaller is better."""
    ratio = peer / ours if ours else 0.0
    verdict = "-" if not goal else "met" if ratio >= goal else "MISSED"
    return {
        "key": key, "title": title, "unit": unit, "higher_is_better": False, "ours": ours,
        "peers": {"xla:cpu": peer}, "ratio": ratio, "goal": goal, "limit": 0, "verdict": verdict,
    }  # fmt: skip


def geometric_mean(values: list[float]) -> float:
    """Of positive numbers."""
    return math.exp(statistics.fmean(math.log(each) for each in values))


class Ours:
    """libnrt, neuronx-cc and bench_hlo_compile of one build."""

    def __init__(self, build_dir: Path, folder: Path) -> None:
        from neff_runner import Runtime

        os.environ["OPENNRT_EMULATE"] = "trn2.3xlarge"
        os.environ["OPENNRT_MACHINE_DIR"] = str(folder)
        os.environ["NEURON_RT_NUM_CORES"] = "1"
        self.runtime = Runtime()
        self.compiler = subprocess.Popen(
            [build_dir / "bench" / "bench_hlo_compile"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def compile_seconds(self, pb: Path) -> float:
        """From bytes to NEFF bytes, in process."""
        assert self.compiler.stdin is not None and self.compiler.stdout is not None
        self.compiler.stdin.write(f"{pb}\n")
        self.compiler.stdin.flush()
        line = self.compiler.stdout.readline()
        if not line:
            sys.exit(f"bench/programs.py: bench_hlo_compile ended at {pb}")
        return float(line.split()[1])


def scratch_of(stage: Path, neff: Path) -> int:
    """Temporary memory of a NEFF, from neuron-packager."""
    command = [stage / "bin" / "neuron-packager", "info", "--json", neff]
    info = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return sum(each["scratch_bytes"] + each["constant_bytes"] for each in info["subgraphs"])


def measure(program: Any, ours: Ours, folder: Path, rounds: int) -> tuple[Row, Row, Row]:
    """Run time, compile time, peak memory."""
    import jax
    import numpy as np
    from neff_runner import STAGE, BoundModel, compile_module

    function, arguments = program.make(large=True)
    pb, neff = folder / f"{program.name}.pb", folder / f"{program.name}.neff"
    xla_compile = []
    for _ in range(3):
        jax.clear_caches()
        lowered = jax.jit(function, keep_unused=True).lower(*arguments)
        before = time.perf_counter()
        compiled = lowered.compile()
        xla_compile.append(time.perf_counter() - before)
    pb.write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    done = compile_module(pb, neff)
    if done.returncode != 0:
        sys.exit(f"bench/programs.py: {program.name}: {done.stderr}")
    model = ours.runtime.load(neff.read_bytes())
    bound = BoundModel(model, [np.asarray(each) for each in jax.tree.leaves(arguments)])
    on_device = jax.device_put(arguments)
    jax.block_until_ready(compiled(*on_device))
    turns: dict[str, list[float]] = {"ours": [], "xla": []}
    for _ in range(rounds):
        turns["ours"].append(time_of(bound.execute))
        turns["xla"].append(time_of(lambda: jax.block_until_ready(compiled(*on_device))))
    memory = compiled.memory_analysis()
    io = sum(row[2] for row in model.tensors)
    peak = io + scratch_of(STAGE, neff)
    peer = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    bound.free()
    model.unload()
    run = make_row(
        f"programs/run/{program.name}", f"run {program.name}", "us",
        statistics.median(turns["ours"]) * 1e6, statistics.median(turns["xla"]) * 1e6, 0.5,
    )  # fmt: skip
    compile_row = make_row(
        f"programs/compile/{program.name}", f"compile {program.name}", "ms",
        ours.compile_seconds(pb) * 1e3, statistics.median(xla_compile) * 1e3, 0,
    )  # fmt: skip
    memory_row = make_row(
        f"programs/memory/{program.name}", f"peak memory {program.name}", "KiB",
        peak / 1024, peer / 1024, 1 / 1.2,
    )  # fmt: skip
    return run, compile_row, memory_row


def summary(rows: list[Row], kind: str, title: str, goal: float) -> Row:
    """The geometric mean of the ratios of a kind, as a row; ours is the mean of ours / peer."""
    ratios = [row["ratio"] for row in rows if row["key"].startswith(f"programs/{kind}/")]
    return make_row(f"programs/{kind}", title, "x", 1 / geometric_mean(ratios), 1.0, goal)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--build-dir", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="names, comma separated")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    from programs import all_programs

    only = set(filter(None, options.only.split(",")))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="opennrt-bench-", dir="/dev/shm") as text:
        folder = Path(text)
        ours = Ours(options.build_dir, folder)
        for program in all_programs():
            if program.bench and (not only or program.name in only):
                made = measure(program, ours, folder, options.rounds)
                rows += made
                print(
                    f"{program.name}: run {made[0]['ratio']:.2f}x, compile {made[1]['ratio']:.0f}x",
                    file=sys.stderr,
                )
        ours.runtime.close()
    rows.append(summary(rows, "run", "run time, geometric mean over XLA:CPU", 1.0))
    rows.append(summary(rows, "compile", "compile time, geometric mean over XLA:CPU", 20.0))
    for row in rows:
        print(json.dumps(row) if options.json else f"{row['title']}: {row['ratio']:.2f}")


if __name__ == "__main__":
    main()
