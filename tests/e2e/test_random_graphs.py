# SPDX-License-Identifier: Apache-2.0
"""Random graphs equal jaxlib's CPU client, operation by operation: see random_graphs.py.

ONRT_RANDOM_GRAPHS: how many in all (default 100; tests/run --all takes 10,000)."""

import os
from pathlib import Path

import pytest
from random_graphs import FAMILIES, run

BUILD = Path(os.environ.get("ONRT_BUILD", Path(__file__).parents[2] / "build" / "release"))
TOOL = BUILD / "compiler" / "hlo" / "random_hlo"
COUNT = int(os.environ.get("ONRT_RANDOM_GRAPHS", "100")) // len(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_random_graphs_equal_jaxlib(family: str) -> None:
    """No operation differs; XLA takes most graphs."""
    outcome = run(TOOL, family, 100000, COUNT)
    assert not outcome.faults, "\n".join(outcome.faults[:20])
    assert outcome.graphs >= COUNT * 0.9, "\n".join(outcome.refused[:20])
