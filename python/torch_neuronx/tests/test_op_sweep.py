# SPDX-License-Identifier: Apache-2.0
"""Two samples of every operation that torch has samples for, against the CPU: nothing crashes, and
nothing is worse than op_ratchet.json. All samples and types: op_sweep.py by hand."""

import os
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def test_no_operation_is_worse_than_it_was(tmp_path: Path) -> None:
    command = [sys.executable, _HERE / "op_sweep.py", "--samples", "2"]
    done = subprocess.run(
        [*command, "--ratchet", _HERE / "op_ratchet.json"],
        env={
            **os.environ,
            "OPENNRT_MACHINE_DIR": str(tmp_path),
        },  # these tests hold their own cores
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
