# SPDX-License-Identifier: Apache-2.0
"""What users of the vendor's tools complained about in public, one test each. Each names its issue;
more of them are in test_neuron_ls.py, test_neuron_monitor.py and test_hostile_machines.py."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MACHINES = Path(__file__).parents[2] / "emulator" / "machines"

COUNTS = """
import ctypes, json, os
lib = ctypes.CDLL(os.environ["OPENNRT_LIBNRT"])
def count(name):
    value = ctypes.c_uint32()
    assert getattr(lib, name)(ctypes.byref(value)) == 0
    return value.value
print(json.dumps([count("nrt_get_total_nc_count"), count("nrt_get_visible_vnc_count")]))
"""


def counts(environment: dict, **variables: str) -> list[int]:
    """Logical cores of the host and of this process, as the runtime counts them."""
    told = subprocess.run(
        [sys.executable, "-c", COUNTS],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(told.stdout)


def test_part_of_a_host_is_the_same_part_for_everybody(
    run: Callable, environment: dict, tmp_path: Path
) -> None:
    """huggingface/optimum-neuron#544: a container with one of six devices, where sysfs still shows
    six, so that twelve cores were expected instead of two."""
    part = json.loads((MACHINES / "inf2.24xlarge.json").read_text())
    part |= {"instance_type": "part", "device_count": 1, "links": {"kind": "none"}}
    part["devices"] = part["devices"][2:3]
    file = tmp_path / "part.json"
    file.write_text(json.dumps(part))
    variables = {"OPENNRT_EMULATE": "part", "OPENNRT_MACHINE_FILE": str(file)}
    [device] = json.loads(run("neuron-ls", "-j", **variables).stdout)
    assert device["nc_count"] == 2 and device["connected_to"] is None
    assert run("opennrt-sysfs", tmp_path / "tree", **variables).returncode == 0
    [folder] = (tmp_path / "tree" / "class" / "neuron_device").glob("neuron*")
    assert (folder / "core_count").read_text() == "2"
    assert len(list(folder.glob("neuron_core*"))) == 2
    assert counts(environment, **variables) == [2, 2]
    figures = json.loads(run("neuron-top", "--json", "--interval=0.1", **variables).stdout)
    assert figures["neuroncore_count"] == 2


@pytest.mark.parametrize(("size", "cores"), [("1", 8), ("2", 4)])
def test_devices_cores_and_logical_cores_are_told_apart(
    run: Callable, environment: dict, holder: Callable, size: str, cores: int
) -> None:
    """ai-dynamo/nixl#1994, aws-neuron-samples#43, djl-serving#2695: which number is of what?"""
    variables = {"NEURON_LOGICAL_NC_CONFIG": size}
    [device] = json.loads(run("neuron-ls", "-j", **variables).stdout)
    assert device["nc_count"] == cores and device["neuroncore_ids"] == list(range(cores))
    assert device["logical_neuroncore_config"] == int(size)
    assert counts(environment, **variables) == [cores, cores]
    # The last id of the list can be asked for, and the one after it can't.
    last = str(device["neuroncore_ids"][-1])
    holder(NEURON_RT_VISIBLE_CORES=last, **variables)
    refused = subprocess.run(
        [sys.executable, "-c", "import opennrt; opennrt.Runtime()"],
        env=environment | variables | {"NEURON_RT_VISIBLE_CORES": str(cores)},
        capture_output=True,
        text=True,
    )
    assert refused.returncode != 0 and "NEURON_RT_VISIBLE_CORES" in refused.stderr


def test_a_core_is_shown_under_one_process_only(
    run: Callable, stage: Path, environment: dict, holder: Callable
) -> None:
    """aws/amazon-cloudwatch-agent#1713: utilisation of a core repeated for every process."""
    holders = [holder(NEURON_RT_VISIBLE_CORES=cores) for cores in ("0", "1-2", "3")]
    with subprocess.Popen(
        [stage / "bin" / "neuron-monitor"], env=environment, stdout=subprocess.PIPE, text=True
    ) as monitor:
        report = json.loads(monitor.stdout.readline())
        monitor.terminate()
    shown = {
        data["pid"]: sorted(data["report"]["neuroncore_counters"]["neuroncores_in_use"])
        for data in report["neuron_runtime_data"]
    }
    expected = [["0"], ["1", "2"], ["3"]]
    assert shown == {h.pid: cores for h, cores in zip(holders, expected, strict=True)}


def test_tools_work_by_their_path_without_any_search_path(
    stage: Path, environment: dict, tmp_path: Path
) -> None:
    """aws-neuron-sdk#447, ray#40405, libfabric#10660: callers know one folder and set no PATH."""
    bare = {k: v for k, v in environment.items() if k.startswith("OPENNRT_")}
    for words in (
        ["neuron-ls", "-j"],
        ["neuron-top", "--json", "--interval=0.1"],
        ["opennrt-sysfs", tmp_path / "tree"],
    ):
        told = subprocess.run(
            [stage / "bin" / words[0], *words[1:]], env=bare, capture_output=True, text=True
        )
        assert (told.returncode, told.stderr) == (0, ""), told


def test_a_stopped_owner_of_the_cores_is_named(environment: dict, holder: Callable) -> None:
    """aws-neuron-samples#44, aws-neuron-sdk#1065: "Requested:2 Available:0", but who has them?"""
    owner = holder(NEURON_RT_VISIBLE_CORES="0-3")
    refused = subprocess.run(
        [sys.executable, "-c", "import opennrt; opennrt.Runtime()"],
        env=environment | {"NEURON_RT_NUM_CORES": "2"},
        capture_output=True,
        text=True,
    )
    assert refused.returncode != 0
    assert str(owner.pid) in refused.stderr and Path(sys.executable).name in refused.stderr


def other_pids() -> bool:
    probe = [shutil.which("unshare") or "unshare", "-rpf", "true"]
    try:
        return subprocess.run(probe, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not other_pids(), reason="this host forbids user namespaces")
def test_a_process_of_another_container_is_shown_with_its_tag(
    run: Callable, environment: dict
) -> None:
    """aws-neuron-sdk#697: processes of containers are missing, or break the list."""
    program = "import opennrt, sys\nr = opennrt.Runtime()\nprint(1, flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        ["unshare", "-rpf", "--kill-child", sys.executable, "-c", program],
        env=environment | {"NEURON_PROCESS_TAG": "inside", "NEURON_RT_NUM_CORES": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as inside:
        assert inside.stdout.readline() == "1\n"
        [device] = json.loads(run("neuron-ls", "-j").stdout)
        table = run("neuron-ls").stdout
        figures = json.loads(run("neuron-top", "--json", "--interval=0.1").stdout)
        inside.stdin.close()
    assert inside.returncode == 0
    assert len(device["neuron_processes"]) == 1 and "2.35" in table
    assert [app["tag"] for app in figures["apps"]] == ["inside"]
