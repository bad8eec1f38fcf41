# SPDX-License-Identifier: Apache-2.0
"""The programs of tests/programs, compiled by neuronx-cc and run through libnrt, equal JAX."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from neff_runner import Runtime
from oracle import check, compile_bytes, module_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from programs import Program, all_programs

PROGRAMS = list(all_programs())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_program_equals_jax(runtime: Runtime, program: Program) -> None:
    function, arguments = program.make(large=False)
    check(runtime, function, *arguments, tolerance=program.tolerance, what=program.name)


def test_subnormal_numbers_are_kept(runtime: Runtime) -> None:
    """JAX's CPU backend flushes them to zero; IEEE 754, hence numpy, and the device keep them."""
    x = np.array([1e-40, -1e-45, 1.17e-38, 3e-39, 0.0], np.float32)
    y = np.array([2.0, 1.0, 0.5, -1e-39, 1e-40], np.float32)

    def run(x: jax.Array, y: jax.Array) -> tuple:
        return x + y, x * y, x / y, jnp.maximum(x, y), x > 0, -x, jnp.abs(x)

    module = module_of(run, x, y)
    model = runtime.load(compile_bytes(module))
    ours = model.run([x, y])
    model.unload()
    expected = [x + y, x * y, x / y, np.maximum(x, y), x > 0, -x, np.abs(x)]
    for mine, theirs in zip(ours, expected, strict=True):
        assert np.array_equal(mine, theirs)


def test_there_are_at_least_forty_programs() -> None:
    assert len(PROGRAMS) >= 40
