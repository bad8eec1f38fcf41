#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives of one host against Open MPI and MPICH, in turns: medians, ratios and goals.

usage: bench/collectives.py PROGRAM [--rounds N] [--runs N] [--only G1,G2,...] [--json]

PROGRAM is bench_collectives_ranks. A peer that is not installed is left out with a line that says
so. Ratios are our time over the faster peer's (G4: Open MPI's; G7: the bound's); goals that are
missed are marked. --json: a line a row, as bench/run reads it; there ratios are the peer's time
over ours."""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIZES = [8, 1024, 65536, 1 << 20, 16 << 20, 64 << 20]
# name: (operation, buffers, ranks, peers, goal by size)
GOALS = {
    "G1": ("allreduce", "pool", 2, ["openmpi", "mpich"], [1.0, 0.6, 0.25, 0.35, 0.45, 0.20]),
    "G2": ("allreduce", "private", 2, ["openmpi", "mpich"], [1.2, 0.8, 0.6, 0.65, 0.55, 0.30]),
    "G3": ("allgather", "pool", 2, ["openmpi", "mpich"], [0.8, 0.6, 0.5, 0.8, 0.95, 0.95]),
    "G4": ("allreduce", "pool", 4, ["openmpi"], [1.3, 0.8, 0.35, 0.35, 0.45, 0.25]),
    "G7": ("allreduce", "pool", 2, ["bound"], [3.0, 3.0, 1.3, 1.3, 1.3, 1.3]),
}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def parse(text: str) -> dict[int, float]:
    rows = (line.split() for line in text.splitlines())
    return {int(row[0]): float(row[1]) for row in rows if len(row) == 2 and row[0].isdigit()}


def run(command: list[str], extra: dict[str, str] | None = None) -> dict[int, float]:
    done = subprocess.run(
        command,
        env={**os.environ, **(extra or {})},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return parse(done.stdout)


def build_peers(folder: str) -> dict[str, str]:
    found = {}
    for name in ("openmpi", "mpich"):
        compiler = shutil.which(f"mpicc.{name}")
        if compiler is None or shutil.which(f"mpirun.{name}") is None:
            print(f"{name}: not installed, left out", file=sys.stderr)
            continue
        target = f"{folder}/{name}"
        subprocess.run([compiler, "-O3", str(HERE / "collectives_mpi.c"), "-o", target], check=True)
        found[name] = target
    return found


def peer_command(name: str, binary: str, op: str, ranks: int, runs: int) -> list[str]:
    bind = "core" if ranks <= (os.cpu_count() or 1) else "none"
    tail = [binary, op, str(runs)]
    if name == "openmpi":
        flags = ["--mca", "pml", "ob1", "--mca", "btl", "self,vader", "--bind-to", bind]
        return ["mpirun.openmpi", "-np", str(ranks), "--oversubscribe", *flags, *tail]
    flags = ["-bind-to", bind, "-genv", "UCX_TLS", "posix,cma,self"]
    return ["mpirun.mpich", "-np", str(ranks), *flags, *tail]


def measure(goal: str, program: str, peers: dict[str, str], rounds: int, runs: int) -> list[dict]:
    op, mode, ranks, wanted, limits = GOALS[goal]
    ours: list[dict[int, float]] = []
    others: dict[str, list[dict[int, float]]] = {}
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            where = {
                "NEURON_RT_ROOT_COMM_ID": f"127.0.0.1:{free_port()}",
                "OPENNRT_MACHINE_DIR": folder,
            }
            ours.append(run([program, mode, op, str(ranks), str(runs)], where))
        for name in wanted:
            if name == "bound":
                command = [program, "bound", op, str(ranks), str(runs)]
            elif name in peers:
                command = peer_command(name, peers[name], op, ranks, runs)
            else:
                continue
            others.setdefault(name, []).append(run(command, root))
    rows = []
    for size, limit in zip(SIZES, limits, strict=True):
        mine = statistics.median(figures[size] for figures in ours)
        theirs = {n: statistics.median(f[size] for f in fs) for n, fs in others.items()}
        ratio = mine / min(theirs.values()) if theirs else None
        row = {"goal": goal, "op": op, "buffers": mode, "ranks": ranks, "bytes": size}
        row |= {"ours_us": mine, "peers_us": theirs, "ratio": ratio, "wanted": limit}
        row["met"] = None if ratio is None else ratio <= limit
        rows.append(row)
    return rows


def text_of(row: dict) -> str:
    theirs = "  ".join(f"{n} {us:.2f}" for n, us in row["peers_us"].items())
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
    mark = {None: "", True: "ok", False: "MISSED"}[row["met"]]
    return (
        f"{row['goal']} {row['op']} {row['buffers']} {row['ranks']} ranks {row['bytes']:>9} B"
        f"  ours {row['ours_us']:.2f} us  {theirs}  ratio {ratio}"
        f" (wanted {row['wanted']:.2f}) {mark}"
    )


def json_of(row: dict) -> str:
    what = f"{row['op']} {row['buffers']}, {row['ranks']} ranks, {row['bytes']} B"
    fields = {
        "key": f"collectives/{row['goal']}/{row['bytes']}",
        "title": f"{row['goal']} {what}",
        "unit": "us",
        "higher_is_better": False,
        "ours": row["ours_us"],
        "peers": row["peers_us"],
        "ratio": 0 if row["ratio"] is None else 1 / row["ratio"],
        "goal": 1 / row["wanted"],
        "limit": 0,
        "verdict": {None: "-", True: "met", False: "MISSED"}[row["met"]],
    }
    return json.dumps(fields)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default=",".join(GOALS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        peers = build_peers(folder)
        for goal in arguments.only.split(","):
            for row in measure(goal, arguments.program, peers, arguments.rounds, arguments.runs):
                print(json_of(row) if arguments.json else text_of(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
