# SPDX-License-Identifier: Apache-2.0
"""A training run on device neuron as neuron-monitor and neuron-top see it: its tag, models, memory,
executions. Bytes are those of nrt_get_vnc_memory_stats() in the process itself."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRAIN = """
import ctypes, os, sys, torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
net.to("neuron")
optimizer = torch.optim.AdamW(net.parameters())
x, y = torch.randn(64, 256, device="neuron"), torch.randint(0, 10, (64,)).to("neuron")
for step in range(5):
    loss = torch.nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
assert loss.item() > 0
torch.neuron.synchronize()
stats, size = (ctypes.c_uint64 * 2)(), ctypes.c_size_t()
lib = ctypes.CDLL(os.environ["OPENNRT_LIBNRT"])
assert lib.nrt_get_vnc_memory_stats(0, stats, 16, ctypes.byref(size)) == 0
print(stats[0], flush=True)
sys.stdin.read()
"""


def test_a_training_run_shows_its_tag_models_and_memory(stage: Path, environment: dict) -> None:
    if not (stage / "python" / "torch_neuronx").exists():
        pytest.skip("built without PyTorch")
    environment = environment | {
        "NEURON_RT_NUM_CORES": "1",
        "NEURON_PROCESS_TAG": "training",
        "PYTHONPATH": str(stage / "python"),
    }
    with subprocess.Popen(
        [sys.executable, "-c", TRAIN],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as training:
        try:
            used = int(training.stdout.readline())
            with subprocess.Popen(
                [stage / "bin" / "neuron-monitor"],
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            ) as monitor:
                report = json.loads(monitor.stdout.readline())
                monitor.terminate()
            figures = json.loads(
                subprocess.run(
                    [stage / "bin" / "neuron-top", "--json", "--interval=0.1"],
                    env=environment,
                    capture_output=True,
                    check=True,
                ).stdout
            )
        finally:
            training.stdin.close()
    assert training.returncode == 0
    [shown] = report["neuron_runtime_data"]
    assert shown["neuron_runtime_tag"] == "training" and shown["pid"] == training.pid
    memory = shown["report"]["memory_used"]
    assert memory["neuron_runtime_used_bytes"]["neuron_device"] == used > 0
    tensors = memory["neuron_runtime_used_bytes"]["usage_breakdown"]["neuroncore_memory_usage"]
    # Parameters, gradients and AdamW's two moments are four times 136,714 floats.
    assert tensors["0"]["tensors"] >= 4 * 4 * (256 * 512 + 512 + 512 * 10 + 10)
    models = memory["loaded_models"]
    assert len(models) > 3 and all(model["name"] for model in models)
    [app] = figures["apps"]
    assert app["tag"] == "training" and app["device_memory"]["total"] == used
    assert len(app["models"]) == len(models)
