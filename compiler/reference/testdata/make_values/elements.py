# SPDX-License-Identifier: Apache-2.0
"""Operations on each element, and conversions of types."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
from case import BF16, FLOATS, INTS, OTHER_INTS, OTHERS, emit


def elementwise() -> None:
    """Scalar operations on f32 with special values, on bf16 and on integers."""
    lax = jax.lax
    unary = {
        "abs": lax.abs,
        "acos": lax.acos,
        "acosh": lax.acosh,
        "asin": lax.asin,
        "asinh": lax.asinh,
        "atan": lax.atan,
        "atanh": lax.atanh,
        "cbrt": lax.cbrt,
        "ceil": lax.ceil,
        "cosh": lax.cosh,
        "cosine": lax.cos,
        "erf": lax.erf,
        "exponential": lax.exp,
        "exponential-minus-one": lax.expm1,
        "floor": lax.floor,
        "log": lax.log,
        "log-plus-one": lax.log1p,
        "logistic": lax.logistic,
        "negate": lax.neg,
        "round-nearest-even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
        "round-nearest-afz": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
        "rsqrt": lax.rsqrt,
        "sign": lax.sign,
        "sine": lax.sin,
        "sinh": lax.sinh,
        "sqrt": lax.sqrt,
        "tan": lax.tan,
        "tanh": lax.tanh,
        "is-finite": lax.is_finite,
    }
    exact = {
        "abs",
        "ceil",
        "floor",
        "negate",
        "round-nearest-even",
        "round-nearest-afz",
        "sign",
        "is-finite",
        "sqrt",
    }
    # XLA's CPU backend flushes denormals and its sine and tangent of 3e38 are approximate.
    x = FLOATS[(FLOATS != np.float32(1e-40)) & (np.abs(FLOATS) != np.float32(3e38))]
    for name, function in unary.items():
        emit(name, f"{name}(%0)", [x], [function(x)], 0 if name in exact else 4e-7)
    half = x.astype(BF16)
    for name in ("exponential", "tanh", "sqrt", "negate"):
        expected = np.asarray(unary[name](half.astype(np.float32))).astype(BF16)
        emit(f"{name}-bf16", f"{name}(%0)", [half], [expected], 8e-3)
    y = OTHERS[: len(x)]
    y = np.where(np.abs(y) == np.float32(3e38), np.float32(2), y)
    y = np.where(y == np.float32(1e-40), np.float32(3), y)
    binary = {
        "add": np.add,
        "subtract": np.subtract,
        "multiply": np.multiply,
        "divide": np.divide,
        "maximum": lax.max,
        "minimum": lax.min,
        "remainder": np.fmod,
        "power": np.power,
        "atan2": np.arctan2,
    }
    with np.errstate(all="ignore"):
        for name, function in binary.items():
            tolerance = 4e-7 if name in ("power", "atan2") else 0
            emit(name, f"{name}(%0, %1)", [x, y], [np.asarray(function(x, y))], tolerance)
    integer = {
        "add": lax.add,
        "subtract": lax.sub,
        "multiply": lax.mul,
        "divide": lax.div,
        "remainder": lax.rem,
        "maximum": lax.max,
        "minimum": lax.min,
        "and": lax.bitwise_and,
        "or": lax.bitwise_or,
        "xor": lax.bitwise_xor,
        "shift-left": lax.shift_left,
        "shift-right-arithmetic": lax.shift_right_arithmetic,
        "shift-right-logical": lax.shift_right_logical,
        "power": None,
    }
    for name, function in integer.items():
        if function is not None:
            emit(f"{name}-s32", f"{name}(%0, %1)", [INTS, OTHER_INTS], [function(INTS, OTHER_INTS)])
    emit(
        "power-s32",
        "power(%0, %1)",
        [INTS, np.array([3, 0, 5, 2, 3, 1, 1, 2], np.int32)],
        [np.array([0, 1, -1, 49, -343, 2**31 - 1, -(2**31), 152399025], np.int32)],
    )
    for name, function in {
        "not": lax.bitwise_not,
        "popcnt": lax.population_count,
        "count-leading-zeros": lax.clz,
        "abs": lax.abs,
    }.items():
        emit(f"{name}-s32", f"{name}(%0)", [INTS], [function(INTS)])
    for direction, function in {
        "EQ": np.equal,
        "NE": np.not_equal,
        "LT": np.less,
        "LE": np.less_equal,
        "GT": np.greater,
        "GE": np.greater_equal,
    }.items():
        emit(
            f"compare-{direction}",
            f'compare(%0, %1), direction="{direction}"',
            [x, y],
            [function(x, y)],
        )
    emit("select", "select(%0, %1, %2)", [x > y, x, y], [np.where(x > y, x, y)])
    emit(
        "clamp",
        "clamp(%0, %1, %2)",
        [np.float32(-1), x, np.float32(2)],
        [lax.clamp(np.float32(-1), x, np.float32(2))],
    )
    emit(
        "reduce-precision",
        "reduce-precision(%0), exponent_mantissa={5,4}",
        [x],
        [lax.reduce_precision(x, 5, 4)],
    )


def conversions() -> None:
    """XLA's rules: toward zero, saturating, NaN to 0; floats to nearest even."""
    big = np.array([0.5, -1.5, 2.5, 300.7, -300.7, 3e9, -3e9, np.nan], np.float32)
    for target in (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.bool_):
        emit(
            f"convert-{np.dtype(target).name}",
            "convert(%0)",
            [big],
            [jax.lax.convert_element_type(big, target)],
        )
    values = np.array([0.1, 1.00390625, 1.01171875, 65519, 65520, -1e-7, 448, 465], np.float32)
    for target in (BF16, np.float16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        emit(f"convert-{np.dtype(target).name}", "convert(%0)", [values], [values.astype(target)])
    wide = np.array([2**53 + 1, -(2**63), 2**63 - 1, 16777217], np.int64)
    emit("convert-s64-s32", "convert(%0)", [wide], [wide.astype(np.int32)])
    emit("convert-s64-f32", "convert(%0)", [wide], [wide.astype(np.float32)])
    emit("bitcast-convert", "bitcast-convert(%0)", [values], [values.view(np.uint32)])
    emit(
        "bitcast-convert-narrow",
        "bitcast-convert(%0)",
        [values],
        [values.view(np.uint8).reshape(8, 4)],
    )
    emit(
        "bitcast-convert-wide",
        "bitcast-convert(%0)",
        [values.view(np.uint16).reshape(8, 2)],
        [values.view(np.uint32)],
    )
