# SPDX-License-Identifier: Apache-2.0
"""Every test session has its own emulated machine and uses the libraries of the build."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the package beside these tests


@pytest.fixture(scope="session", autouse=True)
def _machine() -> Iterator[None]:
    stage = os.environ.get("ONRT_STAGE")
    if stage:
        os.environ.setdefault("OPENNRT_LIBNRT", str(Path(stage) / "lib" / "libnrt.so.1"))
        os.environ.setdefault("OPENNRT_LIBNRTCC", str(Path(stage) / "lib" / "libnrtcc.so.1"))
    os.environ["OPENNRT_EMULATE"] = "trn2.3xlarge"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OPENNRT_MACHINE_DIR"] = folder
        yield
