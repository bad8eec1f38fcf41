#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes scalar_table.inc: results of exact HLO operations by JAX on the CPU.

usage: XLA_FLAGS=--xla_allow_excess_precision=false make_scalar_table.py > scalar_table.inc
Operations with rounding freedom (exp, tanh, ...) are compared with libm instead. Denormal operands
and results are left out: XLA's CPU code may flush them.
"""

import itertools
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)

TYPES = {
    "Pred": np.bool_,
    "S8": np.int8,
    "S16": np.int16,
    "S32": np.int32,
    "S64": np.int64,
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "F16": np.float16,
    "F32": np.float32,
    "BF16": ml_dtypes.bfloat16,
    "F8E5M2": ml_dtypes.float8_e5m2,
    "F8E4M3FN": ml_dtypes.float8_e4m3fn,
    "F8E4M3": ml_dtypes.float8_e4m3,
}
FLOATS = ["F16", "F32", "BF16", "F8E5M2", "F8E4M3FN", "F8E4M3"]
SIGNED = ["S8", "S16", "S32", "S64"]
UNSIGNED = ["U8", "U16", "U32", "U64"]


def values(name: str) -> np.ndarray:
    """Values of a type that matter: ends of the range, ties, zeros of both signs, NaN."""
    dtype = TYPES[name]
    if name == "Pred":
        return np.array([False, True])
    if name in FLOATS:
        plain = [
            0.0,
            -0.0,
            0.5,
            -0.5,
            1.0,
            -1.0,
            1.5,
            -1.5,
            2.5,
            -2.5,
            3.0,
            7.0,
            -7.25,
            100.0,
            240.0,
            np.nan,
        ]
        if name in ("F16", "F32", "BF16"):
            plain += [np.inf, -np.inf, 1000.5, -3e4, 65504.0, 127.5, 255.0, 256.0]
        if name in ("F32", "BF16"):
            plain += [3e9, -3e9, 1e19, -1e19, 1e37, 2147483648.0, 1e-5]
        return np.array(plain, np.float64).astype(dtype)
    info = np.iinfo(dtype)
    return np.array(
        [0, 1, 2, 3, 7, 100, info.max, info.max - 1]
        + ([-1, -2, -7, -100, info.min, info.min + 1] if name in SIGNED else []),
        dtype,
    )


def bits(array: np.ndarray) -> list[int]:
    array = np.asarray(array)
    width = array.dtype.itemsize
    return [int(v) for v in array.reshape(-1).view(f"u{width}")]


ROWS = []


def add(
    op: str, kind: str, result_kind: str, function: Callable, operands: list[np.ndarray]
) -> None:
    """One row per element; operands are equally long arrays."""
    result = np.asarray(jax.jit(function)(*[jnp.asarray(o) for o in operands]))
    columns = [bits(o) for o in operands]
    for i, r in enumerate(bits(result)):
        args = [c[i] for c in columns] + [0] * (3 - len(columns))
        ROWS.append((op, kind, result_kind, args, r))


def pairs(name: str) -> tuple[np.ndarray, np.ndarray]:
    v = values(name)
    grid = list(itertools.product(range(len(v)), repeat=2))
    grid = grid[:: max(1, len(grid) // 14)]
    return v[[a for a, _ in grid]], v[[b for _, b in grid]]


UNARY = {
    "Abs": (lax.abs, FLOATS + SIGNED),
    "Negate": (lax.neg, FLOATS + SIGNED + UNSIGNED),
    "Sign": (lax.sign, FLOATS + SIGNED + UNSIGNED),
    "Not": (lax.bitwise_not, SIGNED + UNSIGNED + ["Pred"]),
    "PopulationCount": (lax.population_count, SIGNED + UNSIGNED),
    "CountLeadingZeros": (lax.clz, SIGNED + UNSIGNED),
    "Floor": (lax.floor, FLOATS),
    "Ceil": (lax.ceil, FLOATS),
    "RoundNearestAfz": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), FLOATS),
    "RoundNearestEven": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), FLOATS),
}
BINARY = {
    "Add": (lax.add, FLOATS + SIGNED + UNSIGNED),
    "Subtract": (lax.sub, FLOATS + SIGNED + UNSIGNED),
    "Multiply": (lax.mul, FLOATS + SIGNED + UNSIGNED),
    "Divide": (lax.div, FLOATS + SIGNED + UNSIGNED),
    "Remainder": (lax.rem, ["F32", "BF16", "F16", *SIGNED, *UNSIGNED]),
    "Maximum": (lax.max, FLOATS + SIGNED + UNSIGNED),
    "Minimum": (lax.min, FLOATS + SIGNED + UNSIGNED),
    "And": (lax.bitwise_and, SIGNED + UNSIGNED + ["Pred"]),
    "Or": (lax.bitwise_or, SIGNED + UNSIGNED + ["Pred"]),
    "Xor": (lax.bitwise_xor, SIGNED + UNSIGNED + ["Pred"]),
    "ShiftLeft": (lax.shift_left, SIGNED + UNSIGNED),
    "ShiftRightArithmetic": (lax.shift_right_arithmetic, SIGNED + UNSIGNED),
    "ShiftRightLogical": (lax.shift_right_logical, SIGNED + UNSIGNED),
}
COMPARE = {
    "CompareEq": lax.eq,
    "CompareNe": lax.ne,
    "CompareLt": lax.lt,
    "CompareLe": lax.le,
    "CompareGt": lax.gt,
    "CompareGe": lax.ge,
}


def main() -> None:
    for op, (function, names) in UNARY.items():
        for name in names:
            add(op, name, name, function, [values(name)])
    for name in FLOATS:
        add("IsFinite", name, "Pred", lax.is_finite, [values(name)])
    for op, (function, names) in BINARY.items():
        for name in names:
            add(op, name, name, function, list(pairs(name)))
    for op, function in COMPARE.items():
        for name in ["F32", "BF16", "S8", "S64", "U64", "Pred"]:
            add(op, name, "Pred", function, list(pairs(name)))
    for source, target in itertools.permutations(TYPES, 2):
        add(
            "Convert",
            source,
            target,
            lambda x, t=target: lax.convert_element_type(x, TYPES[t]),
            [values(source)[::2]],
        )
    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Generated by make_scalar_table.py: jax", jax.__version__, "on the CPU.")
    for op, kind, result_kind, args, result in ROWS:
        print(f"ROW({op}, {kind}, {result_kind}, {args[0]:#x}, {args[1]:#x}, {result:#x})")
    print(len(ROWS), "rows", file=sys.stderr)


if __name__ == "__main__":
    main()
