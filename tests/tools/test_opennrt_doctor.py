# SPDX-License-Identifier: Apache-2.0
"""opennrt-doctor says the same as nrt_init() would."""

import json
import os
from collections.abc import Callable
from pathlib import Path


def findings(ended: object) -> dict[tuple[str, str], dict]:
    report = json.loads(ended.stdout)
    assert report["ready"] == (ended.returncode == 0)
    return {(f["topic"], f["name"]): f for f in report["findings"]}


def test_ready_with_an_emulated_machine(run: Callable, environment: dict[str, str]) -> None:
    found = findings(run("opennrt-doctor", "--json"))
    assert found["backend", "chosen"]["value"].startswith("emulator")
    assert found["library", "libnrt"]["value"].endswith("(OPENNRT_LIBNRT)")
    assert "not created yet" in found["machine", "folder"]["value"]
    assert list(Path(environment["OPENNRT_MACHINE_DIR"]).iterdir()) == []
    bundled = findings(run("opennrt-doctor", "--json", OPENNRT_LIBNRT=None))
    assert bundled["library", "libnrt"]["value"].endswith("(comes with this program)")


def test_a_machine_in_use_shows_folder_processes_and_backing(
    run: Callable, holder: Callable, environment: dict[str, str]
) -> None:
    holder()
    found = findings(run("opennrt-doctor", "--json"))
    assert found["machine", "folder"]["value"].startswith(environment["OPENNRT_MACHINE_DIR"])
    assert found["machine", "processes"]["value"] == "1"
    assert found["machine", "owner"]["value"] == f"uid {os.geteuid()}, mode 700"
    assert ("machine", "HBM backing") in found


def test_not_ready_says_why_and_what_to_do(run: Callable) -> None:
    ended = run("opennrt-doctor", "--json", OPENNRT_EMULATE=None)
    found = findings(ended)
    assert ended.returncode == 1
    assert "OPENNRT_EMULATE" in found["backend", "emulator"]["value"]
    assert "trn2.3xlarge" in found["backend", "chosen"]["advice"]
    missing = findings(run("opennrt-doctor", "--json", OPENNRT_LIBNRT="/nowhere/libnrt.so.1"))
    assert missing["library", "libnrt"]["level"] == "problem"
    text = run("opennrt-doctor", NEURON_RT_EXEC_TIMEOUT="soon", OPENNRT_MASHINE="x")
    assert text.returncode == 1 and "NEURON_RT_EXEC_TIMEOUT='soon'" in text.stdout
    assert "OPENNRT_MACHINE" in text.stdout and "Not ready" in text.stdout


def test_wrong_command_line(run: Callable) -> None:
    assert run("opennrt-doctor", "--nope").returncode == 2
    assert run("opennrt-doctor", "x").returncode == 2
