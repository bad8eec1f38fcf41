# SPDX-License-Identifier: Apache-2.0
"""What every tool prints of every instance type, against a table written by hand. Devices, cores,
memory and links: the instance pages of the SDK documentation; columns and keys: the user guides of
neuron-ls, neuron-top, neuron-monitor and sysfs, and the capture of a trn1 in lablup/all-smi#417
(no logical_neuroncore_config before trn2, connected_to null without links, numa_node as text)."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "packaging" / "share" / "schemas"


class Host(NamedTuple):
    devices: int
    cores: int  # logical ones of a device
    gib: int  # memory of a device
    first: list[int] | None  # neighbours of device 0
    last: list[int] | None  # neighbours of the last device
    kind: str
    core_version: str


HOSTS = {
    "inf2.xlarge": Host(1, 2, 32, None, None, "inferentia2", "v2"),
    "inf2.8xlarge": Host(1, 2, 32, None, None, "inferentia2", "v2"),
    "inf2.24xlarge": Host(6, 2, 32, [1], [4], "inferentia2", "v2"),
    "inf2.48xlarge": Host(12, 2, 32, [11, 1], [10, 0], "inferentia2", "v2"),
    "trn1.2xlarge": Host(1, 2, 32, None, None, "trainium", "v2"),
    "trn1.32xlarge": Host(16, 2, 32, [12, 3, 4, 1], [11, 14, 3, 12], "trainium", "v2"),
    "trn1n.32xlarge": Host(16, 2, 32, [12, 3, 4, 1], [11, 14, 3, 12], "trainium", "v2"),
    "trn2.3xlarge": Host(1, 4, 96, None, None, "trainium2", "v3d"),
    "trn2.48xlarge": Host(16, 4, 96, [12, 3, 4, 1], [11, 14, 3, 12], "trainium2", "v3d"),
    "trn2u.48xlarge": Host(16, 4, 96, [12, 3, 4, 1], [11, 14, 3, 12], "trainium2", "v3d"),
    "trn3-gen1": Host(64, 4, 144, None, None, "trainium3", "v4d"),
    "trn3-gen2": Host(144, 4, 144, None, None, "trainium3", "v4d"),
}
EVERY = pytest.mark.parametrize("name", HOSTS)


def has_sizes(name: str) -> bool:  # logical cores of more than one size
    return name.startswith(("trn2", "trn3"))


def validate(value: object, tool: str) -> None:
    schema = json.loads((SCHEMAS / f"{tool}.schema.json").read_text())
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    validator.check_schema(schema)
    validator(schema).validate(value)


def test_every_instance_type_has_a_row() -> None:
    machines = (ROOT / "emulator" / "machines").glob("*.json")
    assert {path.stem for path in machines} == set(HOSTS)


@EVERY
def test_neuron_ls_json(run: Callable, name: str) -> None:
    host = HOSTS[name]
    devices = json.loads(run("neuron-ls", "-j", OPENNRT_EMULATE=name).stdout)
    validate(devices, "neuron-ls")
    keys = ["neuron_device", "bdf", "cpu_affinity", "numa_node", "connected_to", "nc_count"]
    keys += ["logical_neuroncore_config"] if has_sizes(name) else []
    keys += ["memory_size", "neuroncore_ids", "neuron_processes"]
    assert [list(device) for device in devices] == [keys] * host.devices
    for number, device in enumerate(devices):
        assert device["neuron_device"] == number and device["nc_count"] == host.cores
        assert device["memory_size"] == host.gib << 30
        first = number * host.cores
        assert device["neuroncore_ids"] == list(range(first, first + host.cores))
    assert devices[0]["connected_to"] == host.first
    assert devices[-1]["connected_to"] == host.last
    assert len({device["bdf"] for device in devices}) == host.devices


@EVERY
def test_neuron_ls_table(run: Callable, name: str) -> None:
    host = HOSTS[name]
    lines = run("neuron-ls", OPENNRT_EMULATE=name).stdout.splitlines()
    assert lines[0] == f"instance-type: {name}" and lines[1].startswith("instance-id: ")
    if has_sizes(name):
        assert lines.pop(2) == "logical-neuroncore-config: 2"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[3:]]
    columns = [" ".join(words).strip() for words in zip(cells[0], cells[1], strict=True)]
    links = ["CONNECTED DEVICES"] if host.first else []
    assert columns == [
        *("NEURON DEVICE", "NEURON CORES", "NEURON CORE IDS", "NEURON MEMORY", *links),
        *("PCI BDF", "CPU AFFINITY", "NUMA NODE"),
    ]
    rows = cells[3:-1]
    assert len(rows) == host.devices
    for number, row in enumerate(rows):
        ids = f"{number * host.cores}-{(number + 1) * host.cores - 1}"
        assert row[:4] == [str(number), str(host.cores), ids, f"{host.gib} GB"]
    if host.first:
        assert rows[0][4] == ", ".join(map(str, host.first))
        assert rows[-1][4] == ", ".join(map(str, host.last))


@EVERY
def test_neuron_monitor_line(stage: Path, environment: dict, name: str) -> None:
    host = HOSTS[name]
    with subprocess.Popen(
        [stage / "bin" / "neuron-monitor"],
        env=environment | {"OPENNRT_EMULATE": name},
        stdout=subprocess.PIPE,
        text=True,
    ) as monitor:
        report = json.loads(monitor.stdout.readline())
        monitor.terminate()
    assert monitor.returncode == 0
    validate(report, "neuron-monitor")
    assert set(report) == {
        *("neuron_runtime_data", "system_data", "instance_info", "neuron_hardware_info"),
    }
    assert set(report["system_data"]) == {"vcpu_usage", "memory_info", "neuron_hw_counters"}
    hardware = report["neuron_hardware_info"]
    # The device's own version is documented for trn2 only ("v4"), and seen on a trn1 ("v2").
    assert hardware.pop("neuron_device_version") in ("v2", "v4", "")
    assert hardware == {
        "neuron_device_type": host.kind,
        "neuroncore_version": host.core_version,
        "neuron_device_count": host.devices,
        "neuron_device_memory_size": host.gib << 30,
        "neuroncore_per_device_count": host.cores,
        "logical_neuroncore_config": 2 if has_sizes(name) else 1,
        "error": "",
    }
    counters = report["system_data"]["neuron_hw_counters"]["neuron_devices"]
    assert [counter["neuron_device_index"] for counter in counters] == list(range(host.devices))
    assert set(counters[0]) == {
        *("neuron_device_index", "mem_ecc_corrected", "mem_ecc_uncorrected"),
        *("sram_ecc_uncorrected", "sram_ecc_corrected"),
    }
    info = report["instance_info"]
    assert info["instance_type"] == name
    assert set(info) >= {
        *("instance_name", "instance_id", "instance_availability_zone", "instance_region"),
        *("instance_availability_zone_id", "ami_id", "subnet_id", "error"),
    }


@EVERY
def test_neuron_top_text(run: Callable, name: str) -> None:
    host = HOSTS[name]
    told = run("neuron-top", "--once", "--interval=0.1", OPENNRT_EMULATE=name)
    assert (told.returncode, told.stderr) == (0, "")
    shown = told.stdout
    assert re.match(rf"\s*neuron-top [\d.]+ running on \S* ?\({re.escape(name)}\)\n", shown)
    assert f"NeuronCore {host.core_version} Utilization (Avg: 0.00%)" in shown
    header = next(line for line in shown.splitlines() if line.split()[:1] == ["NC0"])
    assert header.split() == [f"NC{core}" for core in range(host.cores)]
    rows = [line for line in shown.splitlines() if re.match(r"ND\d+ ", line)]
    assert [row.split()[0] for row in rows] == [f"ND{n}" for n in range(host.devices)]
    assert all(row.count("[  0.00%]") == host.cores for row in rows)
    for part in (
        *("vCPU Utilization", "System vCPU Usage", "Runtime vCPU Usage", "Memory Usage Summary"),
        *("Tensors", "Constants", "DMA Buffers", "App. Memory", "Model Code"),
        *("Memory Usage Details", "Model ID", "Device Memory", "Host Memory"),
        *("[-] ND 0", "    [-] NC 0", "Runtime Memory", "Model Scratchpad"),
        *("Neuron Apps", ">[1]:all<"),
    ):
        assert part in shown, part


@EVERY
def test_neuron_top_json(run: Callable, name: str) -> None:
    host = HOSTS[name]
    told = run("neuron-top", "--json", "--interval=0.1", OPENNRT_EMULATE=name)
    figures = json.loads(told.stdout)
    validate(figures, "neuron-top")
    assert figures["instance_type"] == name
    assert figures["neuroncore_version"] == host.core_version
    assert figures["neuron_device_count"] == host.devices
    assert figures["neuroncore_count"] == host.devices * host.cores and figures["apps"] == []


@EVERY
def test_sysfs_tree(run: Callable, name: str, tmp_path: Path) -> None:
    host = HOSTS[name]
    assert run("opennrt-sysfs", tmp_path / "tree", OPENNRT_EMULATE=name).returncode == 0
    tree = tmp_path / "tree" / "devices" / "virtual" / "neuron_device"
    found = {path.name for path in tree.iterdir() if path.is_dir()}
    assert found == {f"neuron{number}" for number in range(host.devices)}
    # Files count physical cores; two of them are a logical one from trn2 on.
    physical = host.cores * (2 if has_sizes(name) else 1)
    for number, links in ((0, host.first), (host.devices - 1, host.last)):
        device = tree / f"neuron{number}"
        assert (device / "core_count").read_text() == str(physical)
        assert len(list(device.glob("neuron_core*"))) == physical
        told = ", ".join(map(str, links or []))
        assert (device / "connected_devices").read_text() == f"{told}\n"
    product = tmp_path / "tree" / "devices" / "virtual" / "dmi" / "id" / "product_name"
    assert product.read_text() == f"{name}\n"


def test_a_busy_process_fits_the_schemas(run: Callable, holder: Callable) -> None:
    process = holder(NEURON_PROCESS_TAG="tag", NEURON_RT_VISIBLE_CORES="1-2")
    devices = json.loads(run("neuron-ls", "-aj").stdout)
    figures = json.loads(run("neuron-top", "--json", "--interval=0.1").stdout)
    validate(devices, "neuron-ls")
    validate(figures, "neuron-top")
    assert process.pid in [shown["pid"] for shown in devices[0]["neuron_processes"]]
    [app] = figures["apps"]
    assert (app["pid"], app["tag"]) == (process.pid, "tag")
    assert [core["neuroncore"] for core in app["neuroncores"]] == [1, 2]
    for where in ("host_memory", "device_memory"):
        for memory in (figures[where], app[where]):
            assert memory["total"] == sum(v for k, v in memory.items() if k != "total")
