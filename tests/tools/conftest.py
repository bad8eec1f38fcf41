# SPDX-License-Identifier: Apache-2.0
"""The staged tools (ONRT_STAGE, else build/stage), each test with a machine of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAGE = Path(os.environ.get("ONRT_STAGE") or ROOT / "build" / "stage")
sys.path.insert(0, str(ROOT / "python"))

Run = Callable[..., subprocess.CompletedProcess]


@pytest.fixture
def stage() -> Path:
    return STAGE


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables of a process that uses an emulated trn2.3xlarge of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NEURON_", "OPENNRT_"))}
    machines = tmp_path / "machines"
    machines.mkdir()
    return kept | {
        "OPENNRT_EMULATE": "trn2.3xlarge",
        "OPENNRT_MACHINE_DIR": str(machines),
        "OPENNRT_LIBNRT": str(STAGE / "lib" / "libnrt.so.1"),
        "OPENNRT_LIBNRTCC": str(STAGE / "lib" / "libnrtcc.so.1"),
        "LD_LIBRARY_PATH": str(STAGE / "lib"),
        "PYTHONPATH": str(ROOT / "python"),
    }


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Run:
    """run("neuron-ls", "-j", OPENNRT_EMULATE="none"): None as a value removes the variable."""

    def call(name: str, *words: str | Path, **variables: str | None) -> subprocess.CompletedProcess:
        merged = environment | {k: v for k, v in variables.items() if v is not None}
        for gone in [k for k, v in variables.items() if v is None]:
            merged.pop(gone, None)
        return subprocess.run(
            [STAGE / "bin" / name, *words],
            env=merged,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return call


HOLDER = """
import sys, opennrt
with opennrt.Runtime() as runtime:
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts processes that hold cores until their standard input is closed."""
    started: list[subprocess.Popen] = []

    def start(**variables: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER],
            env=environment | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=30) == 0
