# SPDX-License-Identifier: Apache-2.0
"""Compiled programs on disk: shared by processes that run at once, and never in the way, whatever
happens to the folder. Right values: by hand."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Compiles programs of as many shapes as said, prints each one's number when it is done.
_WORK = """
import sys, torch
for n in range(1, int(sys.argv[1]) + 1):
    x = torch.arange(float(n), device="neuron")
    assert ((x * 2 + 1).sum().item(), x.flip(0)[0].item()) == (n * n, n - 1), n
    print(n, flush=True)
counters = torch.neuron.counters()
print("compiled", counters["compiled"], "programs", counters["programs"], flush=True)
"""


def _environment(folder: Path, machine: Path) -> dict[str, str]:
    return {
        **os.environ,
        "TORCH_NEURONX_NEFF_CACHE_DIR": str(folder),
        "OPENNRT_MACHINE_DIR": str(machine),
        "NEURON_RT_NUM_CORES": "1",
    }


def _start(folder: Path, machine: Path, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WORK, str(count)],
        env=_environment(folder, machine),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _work(folder: Path, machine: Path, count: int) -> tuple[int, int, str]:
    """Programs compiled, programs loaded, and what was said on stderr."""
    process = _start(folder, machine, count)
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    words = out.splitlines()[-1].split()
    return int(words[1]), int(words[3]), error


def test_processes_that_compile_at_once_share_a_folder(tmp_path: Path) -> None:
    folder, machine = tmp_path / "cache", tmp_path / "machine"
    both = [_start(folder, machine, 12) for _ in range(2)]
    for process in both:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
    compiled, programs, _ = _work(folder, machine, 12)
    assert compiled == 0 and programs > 12


def test_a_writer_that_is_killed_leaves_a_folder_that_works(tmp_path: Path) -> None:
    folder, machine = tmp_path / "cache", tmp_path / "machine"
    for lines in (1, 2, 4, 7):
        process = _start(folder, machine, 1000)
        assert process.stdout is not None
        for _ in range(lines):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
    first, programs, _ = _work(folder, machine, 9)
    again, _, _ = _work(folder, machine, 9)
    assert first < programs and again == 0


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _garbage(file: Path) -> None:
    file.write_bytes(bytes(range(256)) * 8)


def _flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for at in range(0, len(data), 97):
        data[at] ^= 0x20
    file.write_bytes(data)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [_empty, _cut, _garbage, _flipped, _folder])
def test_damaged_entries_are_compiled_again(damage: Callable, tmp_path: Path) -> None:
    folder, machine = tmp_path / "cache", tmp_path / "machine"
    _work(folder, machine, 3)
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files
    for file in files:
        damage(file)
    compiled, programs, _ = _work(folder, machine, 3)
    assert compiled == programs


def test_a_folder_that_cannot_be_made_is_said_once_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    compiled, programs, error = _work(tmp_path / "file" / "cache", tmp_path / "machine", 3)
    assert compiled == programs
    said = [line for line in error.splitlines() if str(tmp_path / "file") in line]
    assert len(said) == 1, error


def test_a_full_disk_costs_the_cache_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    mount = f"mount -t tmpfs -o size=16k,mode=0700 none {folder}"
    unshare = shutil.which("unshare")
    if (
        unshare is None
        or subprocess.run([unshare, "-rm", "sh", "-c", mount], capture_output=True).returncode
    ):
        pytest.skip("needs unprivileged user namespaces with mounts")
    done = subprocess.run(
        [unshare, "-rm", "sh", "-c", f'{mount} && exec "$0" -c "$1" 60', sys.executable, _WORK],
        env=_environment(folder, tmp_path / "machine"),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "60" in done.stdout.splitlines()
    assert done.stderr.count("No space left") <= 1, done.stderr
