# SPDX-License-Identifier: Apache-2.0
"""Several programs on one machine: notebooks side by side, and what reports say of the backend."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch

# What a kernel of a notebook does: it computes, then stays.
NOTEBOOK = """
import sys, torch
torch.set_default_device("neuron")
x = torch.arange(8.0)
print((x + 1).sum().item(), x.device, flush=True)
for line in sys.stdin:
    print(eval(line), flush=True)
"""


class Notebook:
    def __init__(self, folder: Path, cores: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", NOTEBOOK],
            env={**os.environ, "OPENNRT_MACHINE_DIR": str(folder), "NEURON_RT_NUM_CORES": cores},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def evaluate(self, text: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.line()

    def close(self) -> int:
        self.process.communicate()
        return self.process.returncode


def test_two_notebooks_work_side_by_side(tmp_path: Path, run_python: Callable) -> None:
    first, second = Notebook(tmp_path, "1"), Notebook(tmp_path, "1")
    assert first.line() == "36.0 neuron:0"
    assert second.line() == "36.0 neuron:0"
    for notebook in (first, second, first):
        assert notebook.evaluate("(x @ x).item()") == "140.0"
    # A third one that wants all cores is told what to do, and disturbs nobody.
    greedy = run_python(
        "import torch; torch.ones(1, device='neuron')", OPENNRT_MACHINE_DIR=str(tmp_path)
    )
    assert greedy.returncode == 1
    assert "NEURON_RT_NUM_CORES=1" in greedy.stderr
    assert second.evaluate("torch.ones(3).sum().item()") == "3.0"
    # A kernel that was killed gives its core back.
    first.process.kill()
    first.close()
    third = Notebook(tmp_path, "1")
    assert third.line() == "36.0 neuron:0"
    assert (second.close(), third.close()) == (0, 0)


def test_the_default_device_is_used_by_factories_and_modules(run_python: Callable) -> None:
    done = run_python("""
import torch
torch.set_default_device("neuron")
layer = torch.nn.Linear(3, 2)
print(layer.weight.device, torch.randn(2).device, torch.get_default_device())
with torch.device("cpu"):
    print(torch.ones(1).device)
""")
    assert done.stdout.splitlines() == ["neuron:0 neuron:0 neuron:0", "cpu"], done.stderr


def test_collect_env_names_the_backend(run_python: Callable) -> None:
    """What people paste into a bug report: torch/utils/collect_env.py."""
    done = run_python(
        "from torch.utils import collect_env as c\n"
        "print(c.get_pip_packages(lambda *a: (0, __import__('subprocess').run(*a,"
        " capture_output=True, text=True, shell=isinstance(a[0], str)).stdout, '')))"
    )
    assert "opennrt-torch-neuronx" in done.stdout, done.stderr
    assert f"torch=={torch.__version__}" in done.stdout
