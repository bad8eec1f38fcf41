# SPDX-License-Identifier: Apache-2.0
"""neuron-bench exec: files and results are NumPy's."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

COMPILE = """
import sys, opennrt
graph = opennrt.Graph("axpy")
a, x, y = (graph.parameter("f32", (2, 3)) for _ in range(3))
for i, name in enumerate("axy"):
    graph.name_input(i, name)
graph.root(graph.op("add", graph.op("multiply", a, x), y))
graph.name_output(0, "sum")
open("axpy.neff", "wb").write(graph.compile(target="trn2"))
"""


@pytest.fixture
def files(tmp_path: Path, environment: dict[str, str]) -> dict[str, np.ndarray]:
    """axpy.neff, a.npy, x.npy, y.npy and all.npz in the test's folder; the arrays."""
    subprocess.run(
        [sys.executable, "-c", COMPILE], env=environment, cwd=tmp_path, check=True, timeout=60
    )
    arrays = {n: np.arange(6, dtype="f4").reshape(2, 3) + i for i, n in enumerate("axy")}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.savez_compressed(tmp_path / "all.npz", **arrays)
    return arrays


@pytest.mark.parametrize(
    "words", [["a.npy", "x.npy", "y.npy"], ["y=y.npy", "a.npy", "x.npy"], ["all.npz"]]
)
def test_result_is_numpys(run: Callable, files: dict, tmp_path: Path, words: list[str]) -> None:
    ended = run("neuron-bench", "exec", "axpy.neff", *words, "-o", "out.npz", "--require-inputs")
    assert ended.returncode == 0, ended.stderr
    assert "wall time" in ended.stdout and "device time" in ended.stdout
    with np.load(tmp_path / "out.npz") as out:
        assert list(out) == ["sum"]
        np.testing.assert_array_equal(out["sum"], files["a"] * files["x"] + files["y"])


def test_cost_is_the_hand_calculation(run: Callable, files: dict) -> None:
    """a * x + y on six f32: two operations an element, three arrays read and one written."""
    report = json.loads(run("neuron-bench", "exec", "axpy.neff", "--json").stdout)
    info = json.loads(run("neuron-packager", "info", "--cost", "--json", "axpy.neff").stdout)
    assert report["cost"] == info["cost"]
    assert info["cost"]["flops"] == 2 * 6 and info["cost"]["hbm_bytes"] == 4 * 6 * 4
    assert info["cost"]["tensor_bytes"] == 4 * 6 * 4 and not info["cost"]["loops_counted_once"]
    assert info["cost"]["device_ns"] == round(report["device_us"] * 1000)
    text = run("neuron-packager", "info", "--cost", "axpy.neff").stdout
    assert "FLOPs             12.000 FLOP" in text and "model of a NeuronCore" in text


def test_json_report(run: Callable, files: dict) -> None:
    ended = run("neuron-bench", "exec", "axpy.neff", "y=y.npy", "-n", "7", "-w", "2", "--json")
    report = json.loads(ended.stdout)
    assert ended.returncode == 0 and report["iterations"] == 7 and report["status"] == 0
    assert report["wall_us"]["least"] <= report["wall_us"]["median"] <= report["wall_us"]["most"]
    assert report["device_us"] > 0
    assert [t["file"] for t in report["tensors"]] == [None, None, "y.npy", None]
    assert [t["type"] for t in report["tensors"]] == ["<f4"] * 4


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ([], 2, "expected 'exec MODEL.neff'"),
        (["exec", "axpy.neff", "-n", "0"], 2, "expected 1 to"),
        (["exec", "missing.neff"], 1, "missing.neff"),
        (["exec", "a.npy"], 1, "NEFF"),
        (["exec", "axpy.neff", "z=a.npy"], 1, "no input 'z'; it has a, x, y"),
        (["exec", "axpy.neff", "wide.npy"], 1, "expected <f4[2,3] of 24 bytes, found <f8[2,3]"),
        (["exec", "axpy.neff", "a.npy", "--require-inputs"], 1, "input 'x' has no file"),
        (["exec", "axpy.neff", "-c", "99"], 1, "nrt_load"),
        (["exec", "axpy.neff", "-o", "no/such/folder/out.npz"], 1, "no/such/folder"),
    ],
)
def test_mistakes_are_named(
    run: Callable, files: dict, tmp_path: Path, words: list[str], code: int, reason: str
) -> None:
    np.save(tmp_path / "wide.npy", files["a"].astype("f8"))
    ended = run("neuron-bench", *words)
    assert ended.returncode == code and ended.stdout == ""
    assert reason in ended.stderr.splitlines()[-1]


def test_an_injected_dma_fault_is_told(run: Callable, files: dict) -> None:
    ended = run("neuron-bench", "exec", "axpy.neff", "all.npz", OPENNRT_FAULTS="dma@2=1203")
    assert ended.returncode == 1 and "1203" in ended.stderr


def test_damaged_program_is_refused(run: Callable, files: dict, tmp_path: Path) -> None:
    neff = bytearray((tmp_path / "axpy.neff").read_bytes())
    neff[neff.rfind(b"opennrt/sg00.ncx") + 512 + 100] ^= 1
    (tmp_path / "bad.neff").write_bytes(neff)
    ended = run("neuron-bench", "exec", "bad.neff", "all.npz")
    assert ended.returncode == 1 and "status 2" in ended.stderr and "damaged" in ended.stderr
    assert not os.path.exists(tmp_path / "out.npz")


def test_output_leaves_devices_pipes_and_links_as_they_are(
    run: Callable, files: dict, tmp_path: Path
) -> None:
    def bench(out: str | Path) -> subprocess.CompletedProcess:
        return run("neuron-bench", "exec", "axpy.neff", "all.npz", "-o", out)

    full = bench("/dev/full")
    assert full.returncode == 1 and "No space left" in full.stderr
    assert Path("/dev/full").is_char_device()
    assert bench("/dev/null").returncode == 0 and Path("/dev/null").is_char_device()
    (tmp_path / "link.npz").symlink_to("target.npz")
    assert bench("link.npz").returncode == 0
    assert (tmp_path / "link.npz").is_symlink() and (tmp_path / "target.npz").is_file()
    old = os.umask(0o077)
    try:
        assert bench("private.npz").returncode == 0
    finally:
        os.umask(old)
    assert (tmp_path / "private.npz").stat().st_mode & 0o777 == 0o600


def test_huge_and_endless_files_are_refused_by_size(run: Callable, tmp_path: Path) -> None:
    with open(tmp_path / "huge.neff", "wb") as huge:
        huge.truncate(200 << 30)
    for words in (["neuron-bench", "exec"], ["neuron-packager", "info"]):
        ended = run(*words, "huge.neff")
        assert ended.returncode == 1 and "huge.neff" in ended.stderr
        assert "larger than 4 GiB" in ended.stderr


def test_a_file_size_limit_is_a_message(run: Callable, files: dict, tmp_path: Path) -> None:
    """And no SIGXFSZ: `ulimit -f` is too small for the machine's files."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limit[1]))
    try:
        ended = run("neuron-bench", "exec", "axpy.neff", "all.npz")
        doctor = run("opennrt-doctor")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert ended.returncode == 1 and "ulimit -f" in ended.stderr
    assert "file size" in doctor.stdout and "ulimit -f unlimited" in doctor.stdout
