# SPDX-License-Identifier: Apache-2.0
"""The emulated machine of these tests: one of their own, in a temporary folder."""

import os
import tempfile
from collections.abc import Iterator

import pytest

# Before JAX is imported: rounding after every bf16 operation, as the modules say.
os.environ.setdefault("XLA_FLAGS", "--xla_allow_excess_precision=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from neff_runner import Runtime


@pytest.fixture(scope="session")
def runtime() -> Iterator[Runtime]:
    """libnrt on one logical core of an emulated trn2.3xlarge."""
    with tempfile.TemporaryDirectory(prefix="opennrt-e2e-") as folder:
        for name in ("OPENNRT_MACHINE", "NEURON_RT_VISIBLE_CORES", "OPENNRT_FAULTS"):
            os.environ.pop(name, None)
        os.environ["OPENNRT_EMULATE"] = "trn2.3xlarge"
        os.environ["OPENNRT_MACHINE_DIR"] = folder
        os.environ["NEURON_RT_NUM_CORES"] = "1"
        opened = Runtime()
        yield opened
        opened.close()
