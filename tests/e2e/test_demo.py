# SPDX-License-Identifier: Apache-2.0
"""The digits demo with other sizes and seeds, and what must make it fail."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from neff_runner import STAGE, compile_module

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits"
NEFF_HEADER_BYTES = 1024


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train_digits, built against the stage as a user would."""
    path = tmp_path_factory.mktemp("demo") / "train_digits"
    subprocess.run(
        ["cc", "-O2", "-Wall", f"-I{STAGE / 'include'}", ROOT / "examples" / "train_digits.c",
         "-o", path, f"-L{STAGE / 'lib'}", f"-Wl,-rpath,{STAGE / 'lib'}", "-lnrt", "-lz", "-lm"],
        check=True,
    )  # fmt: skip
    return path


def compile_demo(modules: Path, out: Path, *flags: str) -> tuple[Path, Path]:
    """NEFFs of the training and the predict step."""
    neffs = out / "train_step.neff", out / "predict.neff"
    for neff in neffs:
        done = compile_module((modules / neff.name).with_suffix(".pb"), neff, *flags)
        assert done.returncode == 0, done.stderr
    return neffs


def train(
    program: Path, neffs: tuple[Path, Path], curve: Path, out: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """One run on a machine of its own."""
    machine = out / "machines"
    machine.mkdir(exist_ok=True)
    settings = {
        "OPENNRT_EMULATE": "trn2.3xlarge",
        "OPENNRT_MACHINE_DIR": str(machine),
        "NEURON_RT_NUM_CORES": "1",
    }
    arguments = [program, *neffs, DIGITS / "digits.csv.gz", curve, out / "ours.csv"]
    return subprocess.run(
        arguments,
        env={**os.environ, **settings, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def generate(out: Path, *options: str) -> None:
    """Modules and curve of another configuration."""
    command = [sys.executable, DIGITS / "generate.py", "--out", out, *options]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    subprocess.run(command, check=True, env=environment, timeout=300)


@pytest.mark.parametrize(
    "options",
    [
        ("--hidden", "33", "--batch", "100", "--steps", "300", "--seed", "3"),
        ("--hidden", "200", "--batch", "256", "--steps", "150", "--seed", "5"),
    ],
)
def test_other_sizes_and_seeds_follow_jax(
    program: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    generate(tmp_path, *options)
    neffs = compile_demo(tmp_path, tmp_path)
    done = train(program, neffs, tmp_path / "curve.csv", tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


def test_the_committed_modules_are_what_the_generator_writes(tmp_path: Path) -> None:
    generate(tmp_path)
    for name in ("train_step.pb", "predict.pb"):
        assert (tmp_path / name).read_bytes() == (DIGITS / name).read_bytes(), name


def test_the_committed_modules_name_no_file(tmp_path: Path) -> None:
    for path in DIGITS.glob("*.pb"):
        assert b".py" not in path.read_bytes()


def test_a_wrong_curve_is_noticed(program: Path, tmp_path: Path) -> None:
    lines = (DIGITS / "curve.csv").read_text().splitlines()
    step, loss = lines[5].split(",")
    lines[5] = f"{step},{float(loss) + 0.01}"
    curve = tmp_path / "jax.csv"
    curve.write_text("\n".join(lines[:20]) + "\n")
    done = train(program, compile_demo(DIGITS, tmp_path), curve, tmp_path)
    assert done.returncode == 1


def test_one_corrupted_program_byte_makes_the_demo_fail(program: Path, tmp_path: Path) -> None:
    neffs = compile_demo(DIGITS, tmp_path, "--enable-fast-loading-neuron-binaries")
    whole = neffs[0].read_bytes()
    with tarfile.open(fileobj=io.BytesIO(whole[NEFF_HEADER_BYTES:])) as archive:
        member = archive.getmember("opennrt/sg00.ncx")
    for place in (0, 40, member.size // 3, member.size // 2, member.size - 1):
        damaged = bytearray(whole)
        damaged[NEFF_HEADER_BYTES + member.offset_data + place] ^= 0x10
        neffs[0].write_bytes(damaged)
        done = train(program, neffs, DIGITS / "curve.csv", tmp_path)
        assert done.returncode == 1, f"byte {place} of {member.size}: {done.stdout[-500:]}"
        assert "status" in done.stderr


def test_a_failing_dma_transfer_is_reported_as_1203(program: Path, tmp_path: Path) -> None:
    neffs = compile_demo(DIGITS, tmp_path)
    done = train(program, neffs, DIGITS / "curve.csv", tmp_path, OPENNRT_FAULTS="dma@40=1203")
    assert done.returncode == 1
    assert "1203" in done.stderr
    again = train(program, neffs, DIGITS / "curve.csv", tmp_path)
    assert again.returncode == 0, again.stderr


def test_the_whole_demo(tmp_path: Path) -> None:
    done = subprocess.run(
        [ROOT / "examples" / "demo.sh", "--stage", STAGE, "--python", sys.executable,
         "--out", tmp_path],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert (tmp_path / "learning_curve.png").read_bytes()[:4] == b"\x89PNG"
    for words in ("largest difference", "test digits recognised", "device time", "wall time"):
        assert words in done.stdout
