# SPDX-License-Identifier: Apache-2.0
"""Damaged, foreign and changing machine directories: every observing tool gives one sentence and an
exit code, or a right answer, never a crash or a half line."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROUNDS = int(os.environ.get("ONRT_CHURN", "10"))  # make test-all: 500

TOOLS = {
    "neuron-ls": ["neuron-ls", "-j"],
    "neuron-top": ["neuron-top", "--json", "--interval=0.1"],
    "opennrt-sysfs": ["opennrt-sysfs", "tree"],
    "opennrt-run": ["opennrt-run", "--snapshot", "--", "true"],
}


@pytest.fixture
def control(run: Callable, environment: dict) -> Path:
    assert run("opennrt-machine", "create", "trn2.3xlarge").returncode == 0
    [machine] = Path(environment["OPENNRT_MACHINE_DIR"]).iterdir()
    return machine / "control"


def told_in_one_line(run: Callable, name: str, **variables: str) -> None:
    told = run(*TOOLS[name], **variables)
    assert told.returncode in (1, 125), told
    assert told.stdout == "" and told.stderr.count("\n") == 1, told


def monitor_line(stage: Path, environment: dict) -> dict:
    monitor = subprocess.Popen(
        [stage / "bin" / "neuron-monitor"], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert monitor.stdout is not None
    line = monitor.stdout.readline()
    monitor.terminate()
    assert monitor.wait(timeout=10) == 0
    monitor.stdout.close()
    return json.loads(line)


def damage(control: Path, how: str) -> None:
    size = control.stat().st_size
    with control.open("r+b") as file:
        if how == "garbage":
            file.write(bytes(random.Random(1).randbytes(4096)))
        elif how == "older layout":
            file.seek(8)
            file.write((1).to_bytes(4, "little"))
        elif how == "truncated":
            file.truncate(size // 2)
        elif how == "a page":
            file.truncate(4096)


@pytest.mark.parametrize("how", ["garbage", "older layout", "truncated", "a page"])
def test_a_damaged_machine_is_one_sentence(
    run: Callable, stage: Path, environment: dict, control: Path, how: str
) -> None:
    damage(control, how)
    for name in TOOLS:
        told_in_one_line(run, name)
    report = monitor_line(stage, environment)
    assert report["neuron_runtime_data"] == [] and report["neuron_hardware_info"]["error"]


def test_what_is_no_folder_or_file_is_one_sentence(run: Callable, control: Path) -> None:
    control.unlink()
    control.mkdir()
    for name in TOOLS:
        told_in_one_line(run, name)
    shutil.rmtree(control.parent)
    control.parent.touch()
    for name in TOOLS:
        told_in_one_line(run, name)


@pytest.mark.skipif(os.geteuid() != 0, reason="root, to become another user")
def test_another_users_machine_is_one_sentence(
    run: Callable, control: Path, environment: dict, stage: Path
) -> None:
    for part in (control.parent.parent, *control.parent.parent.parents):
        if part.owner() == "root" and "pytest" in str(part):
            part.chmod(0o755)
    public = control.parent.parent.parent / "bin"  # the stage may lie in a private folder
    public.mkdir()
    for name, words in TOOLS.items():
        shutil.copy(stage / "bin" / words[0], public)
        told = subprocess.run(
            [public / words[0], *words[1:]],
            env=environment,
            user=65534,
            group=65534,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert told.returncode in (1, 125), (name, told)
        assert told.stdout == "" and told.stderr.count("\n") == 1, (name, told)


def test_random_bytes_never_crash_a_tool(run: Callable, control: Path) -> None:
    original = {}
    places = [0, 64, 256, 512, 151552, 151552 + 256 * 99328]  # header ... first process, cores
    with control.open("rb") as file:
        for place in places:
            file.seek(place)
            original[place] = file.read(1024)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chooser = random.Random(seed)
    for _ in range(6):
        with control.open("r+b") as file:
            for place, content in original.items():
                file.seek(place)
                file.write(content)
            for _ in range(8):
                file.seek(chooser.choice(places) + chooser.randrange(1000))
                file.write(chooser.randbytes(chooser.randrange(1, 24)))
        for words in TOOLS.values():
            told = run(*words)
            assert told.returncode in (0, 1, 125), (seed, told)
            assert told.returncode == 0 or told.stderr.count("\n") == 1, (seed, told)


WORKER = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np, opennrt
from worker import model
with opennrt.Runtime() as runtime:
    loaded = model(runtime, 64, 2)
    data = np.ones((64, 64), "f4")
    for _ in range(int(sys.argv[2])):
        loaded(data, data)
    if sys.argv[3] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_tools_are_right_while_processes_come_run_and_are_killed(
    stage: Path, environment: dict, tmp_path: Path
) -> None:
    config = tmp_path / "fast.conf"
    runtime = [{"type": name} for name in ("neuroncore_counters", "memory_used", "execution_stats")]
    config.write_text(json.dumps({"period": "100ms", "neuron_runtimes": [{"metrics": runtime}]}))
    monitor = subprocess.Popen(
        [stage / "bin" / "neuron-monitor", "-c", config],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(monitor.stdout), daemon=True)
    reader.start()
    others: list[subprocess.CompletedProcess] = []
    stop = threading.Event()

    def look() -> None:
        commands = [TOOLS["neuron-ls"], TOOLS["neuron-top"], TOOLS["opennrt-sysfs"]]
        while not stop.is_set():
            for words in commands:
                others.append(
                    subprocess.run(
                        [stage / "bin" / words[0], *words[1:]],
                        env=environment,
                        cwd=tmp_path,
                        capture_output=True,
                        text=True,
                    )
                )
            time.sleep(0.1)

    looker = threading.Thread(target=look)
    looker.start()
    worker = [sys.executable, "-c", WORKER, Path(__file__).parent]
    for number in range(ROUNDS):
        end = "kill" if number % 2 else "close"
        done = subprocess.run(
            [*worker, str(number % 7), end],
            env=environment | {"NEURON_RT_NUM_CORES": "2"},
            capture_output=True,
        )
        assert done.returncode == (-signal.SIGKILL if end == "kill" else 0), done.stderr
    stop.set()
    looker.join()
    monitor.terminate()
    assert monitor.wait(timeout=10) == 0
    reader.join()
    assert monitor.stderr.read() == ""
    for line in lines:
        check(json.loads(line))
    # Before the first process there is no machine; afterwards every look succeeds.
    assert others and all(look.returncode == 0 and look.stderr == "" for look in others), others
    for look in others:
        if look.args[0].name != "opennrt-sysfs":
            json.loads(look.stdout)


def check(report: dict) -> None:
    for data in report["neuron_runtime_data"]:
        shown = data["report"]
        cores = shown.get("neuroncore_counters", {}).get("neuroncores_in_use", {})
        assert all(0 <= core["neuroncore_utilization"] <= 100 for core in cores.values())
        if "memory_used" not in shown:
            continue
        used = shown["memory_used"]["neuron_runtime_used_bytes"]
        per_core = used["usage_breakdown"]["neuroncore_memory_usage"].values()
        assert used["neuron_device"] == sum(sum(core.values()) for core in per_core)
        assert used["neuron_device"] < 1 << 34
        for model in shown["memory_used"]["loaded_models"]:
            assert model["name"] == "worker"
        counts = shown["execution_stats"]["execution_summary"]
        assert sum(v for k, v in counts.items() if k != "completed") == 0
