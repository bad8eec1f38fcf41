# SPDX-License-Identifier: Apache-2.0
"""opennrt-doctor says the same as nrt_init() would."""

import fcntl
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

OPEN = "import opennrt; opennrt.Runtime().close()"


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


def test_the_python_on_the_path_is_asked_for_pytorch(run: Callable, tmp_path: Path) -> None:
    """A torch and a backend of files alone: the doctor imports neither."""
    for package in ("torch", "torch_neuronx"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('imported')")
    info = tmp_path / "opennrt_torch_neuronx-9.8.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: opennrt-torch-neuronx\nVersion: 9.8\n"
    )
    (info / "entry_points.txt").write_text("[torch.backends]\nx = torch_neuronx:_autoload\n")
    found = findings(run("opennrt-doctor", "--json", PYTHONPATH=str(tmp_path)))
    assert found["pytorch", "torch"]["value"].endswith(f"in {tmp_path}/torch")
    backend = found["pytorch", "torch_neuronx"]
    assert backend["value"].startswith("9.8 in") and backend["level"] == "problem"
    assert "another Python" in backend["value"]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    (tmp_path / "torch_neuronx" / f"_C{suffix}").touch()
    found = findings(run("opennrt-doctor", "--json", PYTHONPATH=str(tmp_path)))
    assert found["pytorch", "torch_neuronx"]["level"] == "ok"
    none = run("opennrt-doctor", "--json", PATH=str(tmp_path))
    assert findings(none)["pytorch", "python"]["level"] == "note"


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


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda m: (m / "control").write_bytes(b"x" * 100), "damaged"),
        (lambda m: m.chmod(0o777), "mode 777"),
        (lambda m: ((m / "locks").unlink(), (m / "locks").mkdir()), "locks is not a plain file"),
        (lambda m: ((m / "control").unlink(), os.mkfifo(m / "control")), "control is not a plain"),
    ],
)
def test_a_machine_that_can_not_be_used_is_a_problem(
    run: Callable, environment: dict[str, str], spoil: Callable, reason: str
) -> None:
    assert run("opennrt-machine", "create", "trn2.3xlarge").returncode == 0
    (machine,) = Path(environment["OPENNRT_MACHINE_DIR"]).iterdir()
    spoil(machine)
    ended = run("opennrt-doctor")
    assert ended.returncode == 1 and "Not ready" in ended.stdout and reason in ended.stdout
    listed = run("neuron-ls", "-j")
    assert listed.returncode != 0 and listed.stdout == "" and reason in listed.stderr
    assert run("opennrt-machine", "rm", "trn2.3xlarge").returncode == (
        0 if "777" not in reason else 1
    )


def test_a_stopped_holder_of_the_machine_is_named(
    run: Callable, environment: dict[str, str]
) -> None:
    assert run("opennrt-machine", "create", "trn2.3xlarge").returncode == 0
    (machine,) = Path(environment["OPENNRT_MACHINE_DIR"]).iterdir()
    with open(machine / "locks", "r+b") as locks:
        fcntl.lockf(locks, fcntl.LOCK_EX, 1, 0)
        ended = run("opennrt-doctor")
    assert ended.returncode == 1 and f"pid {os.getpid()} holds its lock" in ended.stdout


def test_closed_standard_streams_leave_the_machine_whole(
    run: Callable, environment: dict[str, str], stage: Path
) -> None:
    """The line that says so on stderr must not land in the machine's files."""
    for _ in range(2):
        subprocess.run(
            ["bash", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, OPEN],
            env=environment,
            timeout=60,
        )
        (machine,) = Path(environment["OPENNRT_MACHINE_DIR"]).iterdir()
        assert (machine / "control").read_bytes()[:8] == b"ONRTMACH"
    assert run("opennrt-doctor").returncode == 0


def test_wrong_command_line(run: Callable) -> None:
    assert run("opennrt-doctor", "--nope").returncode == 2
    assert run("opennrt-doctor", "x").returncode == 2
