# SPDX-License-Identifier: Apache-2.0
"""neuron-ls as a process: exit codes and streams follow captures of the vendor's tool quoted in
lablup/all-smi#417. What it prints is checked in tools/neuron_ls/neuron_ls_test.cc."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

MACHINES = Path(__file__).parents[2] / "emulator" / "machines"
TYPES = sorted(path.stem for path in MACHINES.glob("*.json"))


@pytest.mark.parametrize("instance_type", TYPES)
def test_every_instance_type_is_listed_without_creating_it(
    run: Callable, instance_type: str, environment: dict[str, str]
) -> None:
    listed = run("neuron-ls", "-j", OPENNRT_EMULATE=instance_type)
    devices = json.loads(listed.stdout)
    assert listed.returncode == 0 and listed.stderr == "" and not listed.stdout.endswith("\n")
    profile = json.loads((MACHINES / f"{instance_type}.json").read_text())
    assert len(devices) == profile["device_count"]
    assert ("logical_neuroncore_config" in devices[0]) == instance_type.startswith(("trn2", "trn3"))
    for flags in ([], ["-w"], ["--wide", "--topology"], ["-at"], ["--show-all-procs"]):
        table = run("neuron-ls", *flags, OPENNRT_EMULATE=instance_type)
        assert table.returncode == 0 and f"instance-type: {instance_type}\n" in table.stdout
    assert list(Path(environment["OPENNRT_MACHINE_DIR"]).iterdir()) == []


@pytest.mark.parametrize(
    "variables",
    [
        {"OPENNRT_EMULATE": None},
        {"OPENNRT_EMULATE": "none"},
        {"OPENNRT_EMULATE": "trn9.huge"},
        {"OPENNRT_BACKEND": "null"},
        {"OPENNRT_BACKEND": "kernel"},
        {"NEURON_LOGICAL_NC_CONFIG": "3"},
        {"OPENNRT_EMULATE": None, "OPENNRT_MACHINE": "missing"},
    ],
)
@pytest.mark.parametrize("level", ["ERROR", "DEBUG"])
def test_no_device_is_exit_1_and_one_line_on_stderr(
    run: Callable, variables: dict, level: str
) -> None:
    for flags in ([], ["-j"]):
        listed = run("neuron-ls", *flags, NEURON_RT_LOG_LEVEL=level, **variables)
        assert (listed.returncode, listed.stdout) == (1, "")
        assert listed.stderr.count("\n") == 1 and listed.stderr.startswith("neuron-ls: ")


def test_wrong_flags_are_exit_1_with_the_message_on_stdout(run: Callable) -> None:
    listed = run("neuron-ls", "-x")
    assert (listed.returncode, listed.stdout, listed.stderr) == (1, "unknown flag `x'\n", "")
    listed = run("neuron-ls", "--nope")
    assert (listed.returncode, listed.stdout) == (1, "unknown flag `nope'\n")
    assert run("neuron-ls", "--help").returncode == 0


def test_two_processes_are_shown_on_their_devices_with_command_and_version(
    run: Callable, holder: Callable
) -> None:
    first = holder(OPENNRT_EMULATE="trn2.48xlarge", NEURON_RT_VISIBLE_CORES="0-3")
    second = holder(OPENNRT_EMULATE="trn2.48xlarge", NEURON_RT_VISIBLE_CORES="8")
    for level in ("ERROR", "DEBUG"):
        listed = run("neuron-ls", "-j", OPENNRT_EMULATE="trn2.48xlarge", NEURON_RT_LOG_LEVEL=level)
        devices = json.loads(listed.stdout)
        pids = [[p["pid"] for p in d["neuron_processes"]] for d in devices]
        assert pids == [[first.pid], [], [second.pid], *[[]] * 13]
        process = devices[0]["neuron_processes"][0]
        assert process["command"].startswith(sys.executable[:37])
        assert process["neuron_runtime_version"].count(".") == 2
    # A reader that was told nothing finds the only machine there is.
    assert len(json.loads(run("neuron-ls", "-j", OPENNRT_EMULATE=None).stdout)) == 16
    everything = json.loads(run("neuron-ls", "-aj", OPENNRT_EMULATE="trn2.48xlarge").stdout)
    onlookers = everything[5]["neuron_processes"]
    assert [p["neuron_runtime_version"] for p in onlookers] == ["NA"]
    assert onlookers[0]["command"].endswith(("-aj", "..."))  # long paths are cut


def test_killed_processes_are_not_shown(run: Callable, holder: Callable) -> None:
    process = holder()
    process.kill()
    process.wait()
    process.wait = lambda timeout: 0  # the fixture expects a clean end otherwise
    assert json.loads(run("neuron-ls", "-j").stdout)[0]["neuron_processes"] == []


def test_32_at_once_work_while_a_process_comes_and_goes(
    run: Callable, environment: dict[str, str]
) -> None:
    cycles = "import opennrt\nfor _ in range(40):\n    opennrt.Runtime().close()\n"
    cycling = subprocess.Popen([sys.executable, "-c", cycles], env=environment)
    with ThreadPoolExecutor(32) as pool:
        listings = list(pool.map(lambda _: run("neuron-ls", "-j"), range(64)))
    assert cycling.wait(timeout=60) == 0
    for listing in listings:
        assert (listing.returncode, listing.stderr) == (0, "")
        assert [d["nc_count"] for d in json.loads(listing.stdout)] == [4]


def test_another_user_gets_pure_json_too(
    environment: dict[str, str], holder: Callable, stage: Path
) -> None:
    """As the user nobody, where machines belong to somebody else: an idle one of their own, or, for
    a folder that they may not use, one sentence and no JSON at all."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    holder()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # the stage may lie where nobody can't go
        own = {"NEURON_RT_LOG_LEVEL": "DEBUG", "OPENNRT_MACHINE_DIR": ""}
        theirs = {"NEURON_RT_LOG_LEVEL": "DEBUG"}
        program = shutil.copy(stage / "bin" / "neuron-ls", folder)
        listed, refused = (
            subprocess.run(
                [program, "-j"],
                env=environment | variables,
                user="nobody",
                cwd="/",
                capture_output=True,
                text=True,
                timeout=60,
            )
            for variables in (own, theirs)
        )
    assert listed.returncode == 0 and len(json.loads(listed.stdout)) == 1
    assert refused.returncode != 0 and refused.stdout == "" and "Permission" in refused.stderr
