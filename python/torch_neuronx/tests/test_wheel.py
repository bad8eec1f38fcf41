# SPDX-License-Identifier: Apache-2.0
"""The wheel installs and works without the stage it was made from."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
_STAGE = Path(os.environ.get("ONRT_STAGE", _ROOT / "build" / "stage"))


def test_an_installed_wheel_needs_nothing_else(tmp_path: Path, run_python: Callable) -> None:
    done = subprocess.run(
        [
            sys.executable,
            _ROOT / "packaging" / "make_wheel.py",
            "--stage",
            _STAGE,
            "--out",
            tmp_path,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    wheel = done.stdout.strip()
    target = tmp_path / "installed"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, wheel],
        check=True,
    )
    script = """
import torch
print((torch.ones(2, device="neuron") + 1).tolist())
import torch_neuronx
from torch_neuronx import _C
print(torch_neuronx.__file__)
print(*_C.library_paths().values())
"""
    ran = run_python(script, PYTHONPATH=str(target), LD_LIBRARY_PATH=None)
    lines = ran.stdout.splitlines()
    assert lines[0] == "[2.0, 2.0]", ran.stderr
    assert all(path.startswith(str(target)) for path in [lines[1], *lines[2].split()])
