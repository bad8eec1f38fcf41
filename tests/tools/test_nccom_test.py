# SPDX-License-Identifier: Apache-2.0
"""nccom-test on this host. Columns, keys and factors: the SDK documentation's page on nccom-test,
restated here by hand."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

OPERATIONS = [
    "all_reduce", "all_gather", "all_gatherv", "reduce_scatter", "sendrecv", "alltoall",
    "alltoallv", "permute",
]  # fmt: skip
HEADING = ["size(B)", "count(elems)", "type", "time:avg(us)", "algbw(GB/s)", "busbw(GB/s)"]
QUICK = ["-n", "3", "-w", "1"]


@pytest.mark.parametrize("buffers", ["device", "host"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_is_right(run: Callable, operation: str, buffers: str) -> None:
    done = run(
        "nccom-test", "-r", "3", "-b", "8", "-e", "100kb", "-f", "100", "-d", "fp32", *QUICK,
        "--check", "--seed", "5", "--buffers", buffers, operation,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == HEADING
    assert len(lines) == 5
    assert lines[-1].startswith("Avg bus bandwidth:\t") and lines[-1].endswith("GB/s")


@pytest.mark.parametrize(
    "dtype",
    ["uint8", "int8", "uint16", "int16", "fp8", "fp16", "bf16", "int32", "uint32", "fp32"],
)
def test_every_type_adds_up(run: Callable, dtype: str) -> None:
    for check in ("random", "all_ones"):
        done = run(
            "nccom-test", "-r", "2", "-b", "4099", "-e", "4099", "-d", dtype, *QUICK,
            "--check", check, "allr",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_report_has_the_documented_keys(run: Callable, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = run(
        "nccom-test", "-r", "2", "-b", "1kb", "-e", "4kb", "-f", "4", "-d", "fp32", *QUICK,
        "--stats", "avg", "p50", "--show-algorithm", "--show-input-output-size",
        "--report-to-json-file", report, "allg",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == [
        "size(B)", "count(elems)", "total_input_size(B)", "total_output_size(B)", "type",
        "time:avg(us)", "time:p50(us)", "algbw(GB/s)", "busbw(GB/s)", "algorithm",
    ]  # fmt: skip
    document = json.loads(report.read_text())
    assert [r["size(B)"] for r in document["results"]] == [1024, 4096]
    for result in document["results"]:
        assert result["count(elems)"] == result["size(B)"] / 4
        assert result["total_input_size(B)"] == result["size(B)"] / 2  # between two ranks
        algbw = result["size(B)"] / (result["time:avg(us)"] * 1e-6) / 2**30
        assert result["algbw(GB/s)"] == pytest.approx(algbw)
        assert result["busbw(GB/s)"] == pytest.approx(algbw / 2)
        assert result["algorithm"] and result["why"] and result["transport"] == "shm"
    assert document["config"]["path"] == "host"
    assert document["config"]["clock"] == "wall"


def test_groups_work_by_themselves(run: Callable, tmp_path: Path) -> None:
    groups = tmp_path / "groups.json"
    groups.write_text('{"replica_groups": [[[0, 2], [3, 1]]]}')
    done = run(
        "nccom-test", "-r", "4", "-b", "4kb", "-e", "4kb", "-d", "int32", *QUICK, "--check",
        "--custom-replica-groups", groups, "redsct",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_rank_without_a_core_is_told_what_to_do(run: Callable) -> None:
    done = run("nccom-test", "-r", "5", *QUICK, "-b", "8", "-e", "8", "--timeout", "20", "allr")
    assert done.returncode == 1
    assert "1 errors found - test failed" in done.stdout
    assert "--buffers host" in done.stderr, done.stderr


def test_a_killed_rank_fails_the_row_and_is_named(
    stage: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [stage / "bin" / "nccom-test", "-r", "3", "-n", "100000000", "-b", "8", "-e", "8",
         "--buffers", "host", "allr"],
        env=environment | {"TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    children: list[int] = []
    while len(children) < 3:
        assert time.monotonic() < deadline
        text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        children = [int(pid) for pid in text.split()]
    time.sleep(1.5)  # they have joined and are at it
    os.kill(children[1], signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Failure running rank" in out and "1 errors found - test failed" in out
    assert "rank 1" in err or "signal 9" in err, err
    assert list(tmp_path.glob("nccom_test_log_*.log"))


def test_wrong_words_are_refused(run: Callable) -> None:
    for words in (["allr"], ["-r", "2", "allsum"], ["-r", "2", "-N", "2", "allr"]):
        done = run("nccom-test", *words)
        assert done.returncode == 2
        assert done.stderr.startswith("nccom-test: ") and "--help" in done.stderr
        assert done.stdout == ""
