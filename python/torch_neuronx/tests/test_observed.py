# SPDX-License-Identifier: Apache-2.0
"""Training steps as another process sees them: neuron-monitor reads libnrt's counters."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[3]
_MONITOR = Path(os.environ.get("ONRT_STAGE", _ROOT / "build" / "stage")) / "bin" / "neuron-monitor"

# One step for each line of the standard input; schedulers change the learning rate each time.
_TRAIN = """
import sys, torch
from torch.nn import functional as F
import train_same_script as script
torch.manual_seed(0)
if sys.argv[1] == "llama":
    net = script.Llama(width=32, layers=2, heads=4, groups=2)
    x, y = torch.randint(256, (2, 16)), torch.randint(256, (2 * 16,))
elif sys.argv[1] == "conv":
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.Dropout(0.1), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(8, 10))
    x, y = torch.randn(4, 3, 8, 8), torch.randint(10, (4,))
else:
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 10))
    x, y = torch.randn(4, 8), torch.randint(10, (4,))
net.to("neuron")
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
for _ in sys.stdin:
    loss = F.cross_entropy(net(x.to("neuron")).flatten(0, -2), y.to("neuron"))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    print(loss.item(), flush=True)
"""


def _report(environment: dict[str, str]) -> dict[str, Any]:
    monitor = subprocess.Popen([_MONITOR], env=environment, stdout=subprocess.PIPE, text=True)
    with monitor:
        assert monitor.stdout is not None
        line = monitor.stdout.readline()
        monitor.terminate()
    [process] = json.loads(line)["neuron_runtime_data"]
    return process["report"]


def _programs(environment: dict[str, str]) -> tuple[set[int], int]:
    """Loaded programs, and how many executions there were."""
    report = _report(environment)
    models = {model["model_id"] for model in report["memory_used"]["loaded_models"]}
    return models, report["execution_stats"]["execution_summary"]["completed"]


@pytest.mark.parametrize("model", ["llama", "conv", "mlp"])
def test_from_the_second_step_on_nothing_is_compiled(model: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "OPENNRT_MACHINE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(_ROOT / "examples")]),
    }
    with subprocess.Popen(
        [sys.executable, "-c", _TRAIN, model],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as training:
        assert training.stdin is not None and training.stdout is not None

        def step() -> float:
            training.stdin.write("\n")
            training.stdin.flush()
            return float(training.stdout.readline())

        first = step()
        models, before = _programs(environment)
        losses = [step() for _ in range(4)]
        later, after = _programs(environment)
        training.stdin.close()
    assert training.returncode == 0
    assert losses[-1] < first
    assert later == models  # whoever compiles loads
    executions = after - before
    assert executions % 4 == 0 and 0 < executions // 4 < 1000
