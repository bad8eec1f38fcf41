# SPDX-License-Identifier: Apache-2.0
"""Runs a JAX function on JAX's CPU backend and through neuronx-cc and libnrt, and compares."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from neff_runner import Runtime, compile_module


def module_of(function: Callable[..., object], *arguments: object, **jit: object) -> bytes:
    """The serialized HloModuleProto that JAX lowers the function to."""
    lowered = jax.jit(function, **jit).lower(*arguments)
    return lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()


def compile_bytes(module: bytes, *flags: str) -> bytes:
    """The NEFF of a serialized module; a refusal fails the test with the compiler's words."""
    with tempfile.TemporaryDirectory() as folder:
        pb, neff = Path(folder) / "m.pb", Path(folder) / "m.neff"
        pb.write_bytes(module)
        done = compile_module(pb, neff, *flags)
        assert done.returncode == 0, done.stderr
        return neff.read_bytes()


def assert_same(ours: np.ndarray, expected: np.ndarray, tolerance: float, what: str) -> None:
    """Exact for integers; for floats |a - b| <= tolerance * the largest finite magnitude of b,
    with equal infinities and NaNs."""
    assert ours.shape == expected.shape, f"{what}: shape {ours.shape}, JAX has {expected.shape}"
    if expected.dtype == np.bool_:
        expected = expected.astype(np.uint8)
    if expected.dtype.kind in "iu":
        assert np.array_equal(ours, expected), f"{what}: {ours} differs from JAX's {expected}"
        return
    if ours.dtype != expected.dtype:  # fp8 is reported as int8
        ours = ours.view(expected.dtype)
    a, b = ours.astype(np.float64), expected.astype(np.float64)
    special = ~np.isfinite(b)
    assert np.array_equal(a[special], b[special], equal_nan=True), f"{what}: infinities or NaNs"
    a, b = a[~special], b[~special]
    if b.size:
        limit = tolerance * np.abs(b).max()
        error = np.abs(a - b)
        at = int(error.argmax())
        assert error[at] <= limit, (
            f"{what}: {a[at]!r}, JAX has {b[at]!r}: off by {error[at]:.3g}, allowed {limit:.3g}"
        )


def check(
    runtime: Runtime,
    function: Callable[..., object],
    *arguments: np.ndarray,
    tolerance: float = 1e-5,
    flags: tuple[str, ...] = (),
    what: str = "",
) -> list[np.ndarray]:
    """Compares every result of `function`; returns ours. Results without elements are left out."""
    expected = jax.tree_util.tree_leaves(jax.jit(function)(*arguments))
    expected = [np.asarray(each) for each in expected if np.asarray(each).size > 0]
    # JAX leaves parameters out that the function does not use.
    module = module_of(function, *arguments, keep_unused=True)
    model = runtime.load(compile_bytes(module, *flags))
    try:
        ours = model.run([np.asarray(each) for each in jax.tree_util.tree_leaves(arguments)])
    finally:
        model.unload()
    assert len(ours) == len(expected)
    for i, (mine, theirs) in enumerate(zip(ours, expected, strict=True)):
        assert_same(mine, theirs, tolerance, f"{what or 'result'} {i}")
    return ours
