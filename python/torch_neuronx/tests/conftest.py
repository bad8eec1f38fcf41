# SPDX-License-Identifier: Apache-2.0
"""The tests use the installed package of the stage, on an emulated machine of their own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_STAGE = Path(os.environ.get("ONRT_STAGE", Path(__file__).resolve().parents[3] / "build" / "stage"))
# Before torch is imported: it loads the backend then.
sys.path.insert(0, str(_STAGE / "python"))
_machines = tempfile.TemporaryDirectory(prefix="opennrt-torch-")
for _name in ("OPENNRT_MACHINE", "OPENNRT_LIBNRT", "NEURON_RT_VISIBLE_CORES", "LOCAL_RANK"):
    os.environ.pop(_name, None)
os.environ["OPENNRT_EMULATE"] = "trn2.3xlarge"
os.environ["OPENNRT_MACHINE_DIR"] = _machines.name
os.environ["PYTHONPATH"] = str(_STAGE / "python")

import torch  # noqa: E402


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def run_python(tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Runs a script in a process of its own, on a machine of its own; `env` is added to this one's
    (None removes a variable)."""

    def run(script: str, **env: str | None) -> subprocess.CompletedProcess[str]:
        merged: dict[str, str | None] = {**os.environ, "OPENNRT_MACHINE_DIR": str(tmp_path), **env}
        return subprocess.run(
            [sys.executable, "-c", script],
            env={k: v for k, v in merged.items() if v is not None},
            capture_output=True,
            text=True,
            timeout=120,
        )

    yield run
