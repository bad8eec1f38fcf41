# SPDX-License-Identifier: Apache-2.0
"""opennrt-sysfs and opennrt-run as processes. Paths and what writes and poll() do: SDK
documentation, "Neuron Sysfs User Guide"."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

DEVICES = "/sys/devices/virtual/neuron_device"


def test_a_snapshot_is_written_and_written_again(run: Callable, tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    for _ in range(2):
        told = run("opennrt-sysfs", folder)
        assert (told.returncode, told.stdout, told.stderr) == (0, "", "")
    device = folder / "class" / "neuron_device" / "neuron0"
    assert device.is_symlink() and (device / "core_count").read_text() == "8"
    assert (device / "connected_devices").read_text() == "\n"
    assert (folder / "devices/virtual/dmi/id/product_name").read_text() == "trn2.3xlarge\n"
    counters = list(device.glob("neuron_core*/stats/status/*/total"))
    assert len(counters) == 8 * 24
    assert all(path.read_text() == "0\n" for path in counters)


def test_mistakes_are_one_line(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    for words, code in (
        (["opennrt-sysfs"], 2),
        (["opennrt-sysfs", "--x"], 2),
        (["opennrt-sysfs", tmp_path / "mine"], 1),
        (["opennrt-sysfs", tmp_path / "mine" / "notes"], 1),
        (["opennrt-run", "--instance", "trn2.3xlarge"], 125),
        (["opennrt-run", "--instance", "trn9", "--", "true"], 125),
        (["opennrt-run", "--x"], 125),
    ):
        told = run(*words)
        assert (told.returncode, told.stdout, told.stderr.count("\n")) == (code, "", 1), words
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes"]


def namespaces_work() -> bool:
    unshare = shutil.which("unshare")
    probe = ["-rm", "mount", "-t", "tmpfs", "none", "/sys/devices/virtual"]
    return (
        unshare is not None
        and subprocess.run([unshare, *probe], capture_output=True).returncode == 0
    )


needs_namespaces = pytest.mark.skipif(
    not namespaces_work(), reason="this host forbids user namespaces with mounts"
)


@needs_namespaces
def test_a_program_finds_the_files_at_their_places(run: Callable) -> None:
    script = f"""
set -e
cat {DEVICES}/neuron0/core_count /sys/class/neuron_device/neuron0/core_count
cat /sys/devices/virtual/dmi/id/product_name /sys/module/neuron/version
ls /sys/class | wc -l
/opt/aws/neuron/bin/neuron-ls -j | head -c 1
exit 7
"""
    told = run("opennrt-run", "--instance", "trn1.2xlarge", "--", "sh", "-c", script)
    assert told.returncode == 7, told.stderr
    lines = told.stdout.splitlines()
    assert lines[:2] == ["22trn1.2xlarge", "2.24.7.0"]
    assert int(lines[2]) >= len(list(Path("/sys/class").iterdir())) and lines[3] == "["
    assert not Path(DEVICES).exists() or os.listdir(DEVICES)
    assert run("opennrt-run", "-i", "trn1.2xlarge", "--", "/nowhere").returncode == 127


@needs_namespaces
def test_without_live_files_they_are_read_only(run: Callable) -> None:
    file = f"{DEVICES}/neuron0/neuron_core0/stats/status/success/total"
    script = f"cat {file}; echo 1 > {file}"
    told = run("opennrt-run", "--snapshot", "-i", "trn1.2xlarge", "--", "sh", "-c", script)
    assert told.stdout == "0\n" and told.returncode != 0


LIVE = """
import os, select, subprocess, sys
core = "/sys/devices/virtual/neuron_device/neuron0/neuron_core0/stats/"
def read(name):
    with open(core + name) as file:
        return int(file.read())
assert read("status/success/total") == 0
with open(core + "../../info/notify_delay", "w") as file:
    file.write("0")
watched = os.open(core + "status/success/total", os.O_RDONLY)
assert os.read(watched, 100) == b"0\\n"
poll = select.poll()
poll.register(watched, select.POLLERR | select.POLLPRI)
assert poll.poll(300) == []  # nothing happens
worker = subprocess.Popen([sys.executable, sys.argv[1], "1", "0.5", sys.argv[2]])
events = poll.poll(20000)
assert events and events[0][1] & select.POLLPRI
os.lseek(watched, 0, os.SEEK_SET)
assert int(os.read(watched, 100)) >= 1
assert read("memory_usage/device_mem/tensors/total") >= 2 << 20
assert worker.wait(30) == 0
done = read("status/success/total")
assert done > 1 and read("other_info/nc_time_in_use/total") > 1000
assert read("memory_usage/device_mem/tensors/total") == 0  # given back
with open(core + "status/success/total", "w") as file:
    file.write("1")
assert read("status/success/total") == 0
try:
    open(core + "../info/architecture/arch_type", "w")
    raise SystemExit("arch_type can be written")
except PermissionError:
    pass
print("done", done)
"""


@needs_namespaces
@pytest.mark.skipif(not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="no /dev/fuse")
def test_files_are_live_wake_poll_and_are_cleared_by_writes(run: Callable, tmp_path: Path) -> None:
    worker = Path(__file__).parent / "worker.py"
    told = run(
        *("opennrt-run", "--instance", "trn2.3xlarge", "--"),
        *(sys.executable, "-c", LIVE, worker, tmp_path / "log.json"),
        NEURON_RT_NUM_CORES="1",
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[-1].startswith("done")


RAY = """
from ray._private.accelerators.neuron import NeuronAcceleratorManager as manager
print(manager.get_current_node_num_accelerators())
"""


@needs_namespaces
@pytest.mark.parametrize(("instance_type", "cores"), [("trn1.2xlarge", 2), ("trn2.48xlarge", 64)])
def test_ray_finds_the_cores(run: Callable, instance_type: str, cores: int) -> None:
    pytest.importorskip("ray")
    told = run("opennrt-run", "-i", instance_type, "--", sys.executable, "-c", RAY)
    assert told.stdout.split() == [str(cores)], told.stderr
