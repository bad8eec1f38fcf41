# SPDX-License-Identifier: Apache-2.0
"""Writes values.txt: small HIR programs with the results that JAX's CPU backend or numpy give.

usage: make_values.py > values.txt        (needs jax and numpy; results are committed)
"""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(7)
BF16 = ml_dtypes.bfloat16
NAMES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int8": "s8",
    "int16": "s16",
    "int32": "s32",
    "int64": "s64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "pred",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2",
}

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.5, 1e-40, 3e38, np.inf, -np.inf, np.nan], np.float32
)
FLOATS = np.concatenate([SPECIAL, rng.standard_normal(19).astype(np.float32) * 3])
OTHERS = np.concatenate([rng.standard_normal(19).astype(np.float32) * 3, SPECIAL])
INTS = np.array([0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 12345], np.int32)
OTHER_INTS = np.array([3, 0, -1, 2, -2, 5, -1, 33], np.int32)


def shape(value: np.ndarray) -> str:
    """An array's HIR shape."""
    return f"{NAMES[value.dtype.name]}[{','.join(map(str, value.shape))}]"


def emit(
    name: str, operation: str, inputs: list, outputs: list, tolerance: float = 0, extra: str = ""
) -> None:
    """One case: `operation` with %0, %1, ... as parameters; the root's arrays are `outputs`."""
    inputs = [np.asarray(each) for each in inputs]
    outputs = [np.asarray(each) for each in outputs]
    print(f"case {name} {tolerance}")
    print(f'HloModule "{name}"')
    print(extra, end="")
    print('ENTRY %0 "main" {')
    for i, each in enumerate(inputs):
        print(f"  %{i} = {shape(each)} parameter(), parameter_number={{{i}}}")
    result = shape(outputs[0]) if len(outputs) == 1 else f"({', '.join(map(shape, outputs))})"
    print(f"  ROOT %{len(inputs)} = {result} {operation}")
    print("}")
    for each in inputs:
        print("input", each.tobytes().hex() or "-")
    for each in outputs:
        print("output", NAMES[each.dtype.name], each.tobytes().hex() or "-")
    print("end")


def scalar_computation(opcode: str, dtype: str = "f32") -> str:
    """%1: a binary operation on scalars."""
    return (
        f'%1 "combine" {{\n  %0 = {dtype}[] parameter(), parameter_number={{0}}\n'
        f"  %1 = {dtype}[] parameter(), parameter_number={{1}}\n"
        f"  ROOT %2 = {dtype}[] {opcode}(%0, %1)\n}}\n"
    )


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


def movement() -> None:
    """Numpy says where elements go."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    row = np.arange(3, dtype=np.int32)
    emit("reshape", "reshape(%0)", [x], [x.reshape(4, 6)])
    emit("transpose", "transpose(%0), dimensions={2,0,1}", [x], [x.transpose(2, 0, 1)])
    emit(
        "broadcast",
        "broadcast(%0), dimensions={1}",
        [row],
        [np.broadcast_to(row[None, :, None], (2, 3, 2))],
    )
    emit("reverse", "reverse(%0), dimensions={0,2}", [x], [x[::-1, :, ::-1]])
    emit("slice", "slice(%0), slice={0,2,1,1,3,1,0,4,3}", [x], [x[:, 1:3, ::3]])
    emit(
        "concatenate",
        "concatenate(%0, %1), dimensions={1}",
        [x, x[:, :1]],
        [np.concatenate([x, x[:, :1]], 1)],
    )
    emit(
        "pad",
        "pad(%0, %1), padding={-1,1,0,0,2,1,1,-2,2}",
        [x, np.float32(9)],
        [jax.lax.pad(x, np.float32(9), ((-1, 1, 0), (0, 2, 1), (1, -2, 2)))],
    )
    emit(
        "iota",
        "iota(), dimensions={1}",
        [],
        [np.broadcast_to(np.arange(3, dtype=np.int16), (2, 3))],
    )
    emit("copy", "copy(%0)", [x], [x])


def sums() -> None:
    """Small sums: every order gives the same integers; floats within rounding."""
    x = rng.standard_normal((5, 40)).astype(np.float32)
    zero = np.float32(0)
    add = scalar_computation("add")
    emit(
        "reduce-add",
        "reduce(%0, %1), dimensions={1}, to_apply={1}",
        [x, zero],
        [x.sum(1)],
        1e-6,
        add,
    )
    emit(
        "reduce-all",
        "reduce(%0, %1), dimensions={0,1}, to_apply={1}",
        [x, zero],
        [x.sum()],
        1e-5,
        add,
    )
    emit(
        "reduce-max",
        "reduce(%0, %1), dimensions={0}, to_apply={1}",
        [x, np.float32(-np.inf)],
        [x.max(0)],
        0,
        scalar_computation("maximum"),
    )
    emit(
        "reduce-empty",
        "reduce(%0, %1), dimensions={0}, to_apply={1}",
        [np.zeros((0, 3), np.float32), np.float32(7)],
        [np.full(3, 7, np.float32)],
        0,
        add,
    )
    k = rng.integers(-9, 9, (4, 3000)).astype(np.int32)
    emit(
        "reduce-s32",
        "reduce(%0, %1), dimensions={1}, to_apply={1}",
        [k, np.int32(5)],
        [k.sum(1).astype(np.int32) + np.int32(5)],
        0,
        scalar_computation("add", "s32"),
    )
    # Not associative on purpose: x - y over 3 values is (init - (x0 op ...)) in the stated order;
    # three values are three lanes, folded (l0, l2), (l0, l1): init - ((x0 - x2) - x1).
    v = np.array([10, 4, 1], np.float32)
    emit(
        "reduce-general-order",
        "reduce(%0, %1), dimensions={0}, to_apply={1}",
        [v, np.float32(100)],
        [np.float32(100 - ((10 - 1) - 4))],
        0,
        scalar_computation("subtract"),
    )
    # bf16 sums keep f32 until the end: 256 ones are 256, plus 1 more is 257 -> 256 (nearest even).
    ones = np.ones(257, BF16)
    emit(
        "reduce-bf16",
        "reduce(%0, %1), dimensions={0}, to_apply={1}",
        [ones, BF16(2)],
        [np.asarray(259, np.float32).astype(BF16)],
        0,
        scalar_computation("add", "bf16"),
    )
    argmax = (
        '%1 "argmax" {\n  %0 = f32[] parameter(), parameter_number={0}\n'
        "  %1 = s32[] parameter(), parameter_number={1}\n"
        "  %2 = f32[] parameter(), parameter_number={2}\n"
        "  %3 = s32[] parameter(), parameter_number={3}\n"
        '  %4 = pred[] compare(%0, %2), direction="GE"\n'
        "  %5 = f32[] select(%4, %0, %2)\n  %6 = s32[] select(%4, %1, %3)\n"
        "  ROOT %7 = (f32[], s32[]) tuple(%5, %6)\n}\n"
    )
    positions = np.broadcast_to(np.arange(40, dtype=np.int32), x.shape)
    emit(
        "reduce-argmax",
        "reduce(%0, %1, %2, %3), dimensions={1}, to_apply={1}",
        [x, positions, np.float32(-np.inf), np.int32(0)],
        [x.max(1), x.argmax(1).astype(np.int32)],
        0,
        argmax,
    )


def products() -> None:
    """Dots against numpy in f64, rounded."""
    a = rng.standard_normal((4, 300)).astype(np.float32)
    b = rng.standard_normal((300, 5)).astype(np.float32)
    exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    emit(
        "dot",
        "dot(%0, %1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        [a, b],
        [exact],
        1e-6,
    )
    c = rng.standard_normal((3, 2, 4, 6)).astype(np.float32)
    d = rng.standard_normal((6, 3, 5, 4)).astype(np.float32)
    emit(
        "dot-general",
        "dot(%0, %1), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2,3}, "
        "rhs_contracting_dims={3,0}",
        [c, d],
        [np.einsum("bmjk,kbnj->bmn", c, d)],
        1e-6,
    )
    e, f = a[:, :9].astype(BF16), b[:9].astype(BF16)
    wide = e.astype(np.float64) @ f.astype(np.float64)
    emit(
        "dot-bf16",
        "dot(%0, %1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        [e, f],
        [wide.astype(np.float32).astype(BF16)],
    )
    i8 = rng.integers(-128, 127, (3, 9)).astype(np.int8)
    j8 = rng.integers(-128, 127, (9, 2)).astype(np.int8)
    emit(
        "dot-s8-s32",
        "dot(%0, %1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        [i8, j8],
        [i8.astype(np.int32) @ j8.astype(np.int32)],
    )
    emit(
        "dot-nothing",
        "dot(%0, %1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        [np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)],
        [np.zeros((2, 3), np.float32)],
    )


def indexed() -> None:
    """Out-of-range starts are clamped by slices and gathers, skipped by scatters (JAX's modes)."""
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    emit(
        "dynamic-slice",
        "dynamic-slice(%0, %1, %2), slice_sizes={2,3}",
        [x, np.int32(5), np.int32(-2)],
        [x[4:6, 0:3]],
    )
    update = np.full((2, 2), -1, np.float32)
    expected = x.copy()
    expected[4:6, 1:3] = -1
    emit(
        "dynamic-update-slice",
        "dynamic-update-slice(%0, %1, %2, %3)",
        [x, update, np.int32(99), np.int32(1)],
        [expected],
    )
    index = np.array([[0], [9], [3]], np.int32)
    emit(
        "gather",
        "gather(%0, %1), offset_dims={1}, collapsed_dims={0}, index_map={0}, "
        "index_vector_dim={1}, slice_sizes={1,4}",
        [x, index],
        [x[[0, 5, 3]]],
    )
    pairs = np.array([[1, 2], [5, 9]], np.int32)
    emit(
        "gather-points",
        "gather(%0, %1), offset_dims={}, collapsed_dims={0,1}, index_map={0,1}, "
        "index_vector_dim={1}, slice_sizes={1,1}",
        [x, pairs],
        [x[[1, 5], [2, 3]]],
    )
    updates = np.array([[1] * 4, [10] * 4, [100] * 4, [7] * 4], np.float32)
    where = np.array([[5], [5], [6], [-1]], np.int32)
    expected = x.copy()
    expected[5] += 11
    emit(
        "scatter-add",
        "scatter(%0, %1, %2), offset_dims={1}, collapsed_dims={0}, index_map={0}, "
        "index_vector_dim={1}, to_apply={1}",
        [x, where, updates],
        [expected],
        0,
        scalar_computation("add"),
    )


def random_bits() -> None:
    """JAX's CPU backend expands rng-bit-generator as XLA does everywhere."""
    state = np.array([1, 2, 3, 4], np.uint32)
    algorithms = {
        "threefry": (1, jax.lax.RandomAlgorithm.RNG_THREE_FRY),
        "philox": (2, jax.lax.RandomAlgorithm.RNG_PHILOX),
    }
    for name, (number, algorithm) in algorithms.items():
        for shape_, dtype in (
            ((3, 5), np.uint32),
            ((2, 6), np.uint32),
            ((7,), np.uint8),
            ((5,), np.uint64),
        ):
            after, bits = jax.lax.rng_bit_generator(state, shape_, dtype=dtype, algorithm=algorithm)
            emit(
                f"{name}-{np.dtype(dtype).name}-{len(shape_)}-{shape_[-1]}",
                f"rng-bit-generator(%0), algorithm={{{number}}}",
                [state.view(np.uint64)],
                [np.asarray(after).view(np.uint64), bits],
            )


DOUBLES = """%1 "below 100" {
  %0 = s32[4] parameter(), parameter_number={0}
  %1 = s32[1] slice(%0), slice={0,1,1}
  %2 = s32[] reshape(%1)
  %3 = s32[] constant(), literal={100}
  ROOT %4 = pred[] compare(%2, %3), direction="LT"
}
%2 "double" {
  %0 = s32[4] parameter(), parameter_number={0}
  ROOT %1 = s32[4] add(%0, %0)
}
"""
FIBONACCI = """%1 "goes on" {
  %0 = (s32[], (s64[], s64[])) parameter(), parameter_number={0}
  %1 = s32[] get-tuple-element(%0), index={0}
  %2 = s32[] constant(), literal={0}
  ROOT %3 = pred[] compare(%1, %2), direction="GT"
}
%2 "step" {
  %0 = (s32[], (s64[], s64[])) parameter(), parameter_number={0}
  %1 = s32[] get-tuple-element(%0), index={0}
  %2 = s32[] constant(), literal={1}
  %3 = s32[] subtract(%1, %2)
  %4 = (s64[], s64[]) get-tuple-element(%0), index={1}
  %5 = s64[] get-tuple-element(%4), index={0}
  %6 = s64[] get-tuple-element(%4), index={1}
  %7 = s64[] add(%5, %6)
  %8 = (s64[], s64[]) tuple(%6, %7)
  ROOT %9 = (s32[], (s64[], s64[])) tuple(%3, %8)
}
%3 "fibonacci" {
  %0 = s32[] parameter(), parameter_number={0}
  %1 = s64[] parameter(), parameter_number={1}
  %2 = s64[] parameter(), parameter_number={2}
  %3 = (s64[], s64[]) tuple(%1, %2)
  %4 = (s32[], (s64[], s64[])) tuple(%0, %3)
  %5 = (s32[], (s64[], s64[])) while(%4), to_apply={1,2}
  %6 = (s64[], s64[]) get-tuple-element(%5), index={1}
  %7 = s64[] get-tuple-element(%6), index={0}
  %8 = s64[] get-tuple-element(%6), index={1}
  ROOT %9 = (s64[], s64[]) tuple(%7, %8)
}
"""
BRANCHES = "".join(
    f'%{i} "{opcode}" {{\n  %0 = f32[3] parameter(), parameter_number={{0}}\n'
    f"  ROOT %1 = f32[3] {opcode}(%0)\n}}\n"
    for i, opcode in ((1, "negate"), (2, "copy"), (3, "sign"))
)


def control() -> None:
    """Loops from JAX and by hand; branches by the rule of XLA's conditional: a number that is none
    of a branch takes the last one (JAX clamps it first)."""
    for name, first in (("while-several-turns", 3), ("while-no-turn", 100)):
        x = np.array([first, -1, 2**30, 7], np.int32)
        result = jax.lax.while_loop(lambda s: s[0] < 100, lambda s: s + s, x)
        emit(name, "while(%0), to_apply={1,2}", [x], [result], 0, DOUBLES)
    for n, expected in (
        (0, (0, 1)),
        (1, (1, 1)),
        (10, (55, 89)),
        (90, (2880067194370816120, 4660046610375530309)),
    ):
        emit(
            f"while-fibonacci-{n}",
            "call(%0, %1, %2), to_apply={3}",
            [np.int32(n), np.int64(0), np.int64(1)],
            [np.int64(value) for value in expected],
            0,
            FIBONACCI,
        )
    x, y, z = (np.array(each, np.float32) for each in ([1, -2, 3], [4, 5, 6], [-7, 8, 0]))
    results = (-x, y, np.sign(z))
    for number, taken in ((0, 0), (1, 1), (2, 2), (3, 2), (-1, 2), (-(2**31), 2)):
        emit(
            f"conditional-{number}",
            "conditional(%0, %1, %2, %3), to_apply={1,2,3}",
            [np.int32(number), x, y, z],
            [results[taken]],
            0,
            BRANCHES,
        )
    for value in (True, False):
        emit(
            f"conditional-{value}".lower(),
            "conditional(%0, %1, %2), to_apply={1,2}",
            [np.bool_(value), x, y],
            [-x if value else y],
            0,
            BRANCHES,
        )


def convolution(
    name: str,
    lhs: np.ndarray,
    rhs: np.ndarray,
    numbers: tuple[str, str, str],
    *,
    strides: tuple[int, ...] = (),
    padding: tuple[tuple[int, int], ...] = (),
    lhs_dilation: tuple[int, ...] = (),
    rhs_dilation: tuple[int, ...] = (),
    groups: tuple[int, int] = (1, 1),
    result: type | None = None,
    reverse: bool = False,
) -> None:
    """A convolution as JAX's CPU backend computes it. Numbers are small integers: exact sums."""
    axes = lhs.ndim - 2
    strides = strides or (1,) * axes
    padding = padding or ((0, 0),) * axes
    lhs_dilation = lhs_dilation or (1,) * axes
    rhs_dilation = rhs_dilation or (1,) * axes
    dims = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, numbers)
    kernel = dims.rhs_spec  # output feature, input feature, spatial
    flipped = np.flip(rhs, kernel[2:]) if reverse else rhs
    value = jax.lax.conv_general_dilated(
        lhs.astype(np.float64),
        flipped.astype(np.float64),
        strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dims,
        groups[0],
        groups[1],
    )
    window = [
        number
        for i in range(axes)
        for number in (
            rhs.shape[kernel[2 + i]],
            strides[i],
            *padding[i],
            rhs_dilation[i],
            lhs_dilation[i],
            int(reverse),
        )
    ]
    flat = [*dims.lhs_spec, kernel[1], kernel[0], *kernel[2:], *dims.out_spec]
    listed = ",".join(map(str, flat))
    emit(
        f"convolution-{name}",
        f"convolution(%0, %1), conv_dims={{{listed}}}, window={{{','.join(map(str, window))}}}, "
        f"groups={{{groups[0]},{groups[1]}}}",
        [lhs, rhs],
        [np.asarray(value).astype(result or lhs.dtype)],
    )


def convolutions() -> None:
    """Layouts, paddings, strides, dilations, groups and element types."""
    own = np.random.default_rng(11)

    def some(*dims: int, dtype: type = np.float32) -> np.ndarray:
        return own.integers(-4, 5, dims).astype(dtype)

    nhwc = ("NHWC", "HWIO", "NHWC")
    nchw = ("NCHW", "OIHW", "NCHW")
    convolution("no-axes", some(3, 4), some(4, 5), ("NC", "IO", "NC"))
    convolution("1d", some(2, 3, 9), some(4, 3, 3), ("NCH", "OIH", "NCH"), padding=((1, 1),))
    convolution("nhwc", some(2, 5, 6, 3), some(3, 2, 3, 4), nhwc, padding=((1, 1), (0, 1)))
    convolution("nchw", some(2, 3, 5, 6), some(4, 3, 3, 2), nchw, strides=(2, 1))
    convolution("negative", some(1, 6, 7, 2), some(2, 2, 2, 3), nhwc, padding=((-1, 2), (0, -2)))
    convolution("dilated", some(1, 2, 8, 9), some(3, 2, 3, 2), nchw, rhs_dilation=(2, 3))
    convolution(
        "transposed",
        some(2, 4, 3, 2),
        some(3, 3, 2, 5),
        nhwc,
        padding=((2, 1), (1, 1)),
        lhs_dilation=(2, 3),
    )
    convolution(
        "all-at-once",
        some(1, 4, 5, 6),
        some(6, 2, 3, 2),
        nchw,
        strides=(2, 1),
        padding=((2, -1), (3, 2)),
        lhs_dilation=(3, 2),
        rhs_dilation=(1, 2),
        groups=(2, 1),
    )
    convolution("reversed", some(1, 5, 5, 2), some(3, 2, 2, 3), nhwc, reverse=True)
    convolution("grouped", some(2, 6, 4, 4), some(9, 2, 3, 3), nchw, groups=(3, 1))
    convolution("depthwise", some(2, 4, 5, 6), some(2, 3, 1, 12), nhwc, groups=(6, 1))
    convolution("batch-groups", some(6, 4, 5, 2), some(3, 3, 2, 9), nhwc, groups=(1, 3))
    convolution("weights", some(2, 6, 6, 3), some(2, 4, 4, 5), ("CHWN", "IHWO", "HWNC"))
    convolution("3d", some(1, 2, 4, 3, 5), some(3, 2, 2, 2, 3), ("NCDHW", "OIDHW", "NCDHW"))
    convolution("padding-only", some(1, 1, 1, 2), some(2, 2, 2, 1), nhwc, padding=((5, 5), (1, 1)))
    convolution("many-terms", some(1, 3, 3, 70), some(3, 3, 70, 2), nhwc)
    convolution("bf16", some(1, 4, 4, 2, dtype=BF16), some(2, 2, 2, 3, dtype=BF16), nhwc)
    convolution(
        "f16-to-f32",
        some(1, 4, 4, 2, dtype=np.float16),
        some(2, 2, 2, 3, dtype=np.float16),
        nhwc,
        result=np.float32,
    )
    convolution(
        "s8-to-s32",
        own.integers(-128, 128, (1, 4, 4, 9)).astype(np.int8),
        own.integers(-128, 128, (3, 3, 9, 2)).astype(np.int8),
        nhwc,
        result=np.int32,
    )


def normalisations() -> None:
    """Batch normalisation from its formulas in f64."""
    own = np.random.default_rng(12)
    x = own.standard_normal((4, 3, 5)).astype(np.float32) * 2 + 1
    dy = own.standard_normal(x.shape).astype(np.float32)
    scale, offset = (own.standard_normal(3).astype(np.float32) for _ in range(2))
    epsilon = np.float32(1e-3)
    text = "".join(f"\\x{byte:02x}" for byte in epsilon.tobytes())
    attributes = f'dimensions={{1}}, epsilon="{text}"'
    wide = x.astype(np.float64)
    mean, variance = wide.mean((0, 2)), wide.var((0, 2))
    column = (slice(None), None)
    r = 1 / np.sqrt(variance + epsilon)
    normalised = (wide - mean[column]) * r[column]
    out = normalised * scale[column] + offset[column]
    f32 = np.float32
    emit(
        "batch-norm-training",
        f"batch-norm-training(%0, %1, %2), {attributes}",
        [x, scale, offset],
        [out.astype(f32), mean.astype(f32), variance.astype(f32)],
        1e-5,
    )
    emit(
        "batch-norm-inference",
        f"batch-norm-inference(%0, %1, %2, %3, %4), {attributes}",
        [x, scale, offset, mean.astype(f32), variance.astype(f32)],
        [out.astype(f32)],
        1e-5,
    )
    d_scale, d_offset = (dy * normalised).sum((0, 2)), dy.astype(np.float64).sum((0, 2))
    n = x.size // 3
    shared = (d_offset / n)[column] + normalised * (d_scale / n)[column]
    dx = (scale * r)[column] * (dy - shared)
    emit(
        "batch-norm-grad",
        f"batch-norm-grad(%0, %1, %2, %3, %4), {attributes}",
        [x, scale, mean.astype(f32), variance.astype(f32), dy],
        [dx.astype(f32), d_scale.astype(f32), d_offset.astype(f32)],
        1e-4,
    )


def triangles() -> None:
    """Cholesky factors and triangular systems from numpy.linalg in f64."""
    own = np.random.default_rng(13)
    a = own.standard_normal((2, 6, 6))
    spd = (a @ a.swapaxes(1, 2) + 6 * np.eye(6)).astype(np.float32)
    lower = np.linalg.cholesky(spd.astype(np.float64)).astype(np.float32)
    emit("cholesky-lower", "cholesky(%0), triangle={1}", [np.tril(spd)], [lower], 1e-5)
    upper = lower.swapaxes(1, 2)
    emit("cholesky-upper", "cholesky(%0), triangle={0}", [np.triu(spd)], [upper], 1e-5)
    for left in (0, 1):
        b = own.standard_normal((2, 6, 4) if left else (2, 4, 6)).astype(np.float32)
        for low in (0, 1):
            for unit in (0, 1):
                for transpose in (1, 2, 3):
                    wide = (np.tril if low else np.triu)(spd.astype(np.float64))
                    if unit:
                        wide = wide * 0.1
                        wide[:, range(6), range(6)] = 1
                    given = (spd * 0.1 if unit else spd).astype(np.float32)
                    system = wide if transpose == 1 else wide.swapaxes(1, 2)
                    if left:
                        x = np.linalg.solve(system, b.astype(np.float64))
                    else:
                        x = np.linalg.solve(
                            system.swapaxes(1, 2), b.astype(np.float64).swapaxes(1, 2)
                        ).swapaxes(1, 2)
                    emit(
                        f"triangular-solve-{left}{low}{unit}{transpose}",
                        f"triangular-solve(%0, %1), triangle={{{left},{low},{unit},{transpose}}}",
                        [given, b],
                        [x.astype(np.float32)],
                        1e-4,
                    )


def function(name: str, types: list[str], root: str, body: list[str], number: int = 1) -> str:
    """A computation whose parameters have these scalar types; `body` continues after them."""
    lines = [f'%{number} "{name}" {{']
    for i, type_ in enumerate(types):
        lines.append(f"  %{i} = {type_}[] parameter(), parameter_number={{{i}}}")
    lines += [f"  %{len(types) + i} = {line}" for i, line in enumerate(body)]
    return "\n".join([*lines, f"  ROOT %{len(types) + len(body)} = {root}", "}", ""])


def jax_order(type_: str) -> str:
    """The comparator of jnp.sort: NaNs alike, zeros alike, then the total order."""
    body = [f"{type_}[] constant(), literal={{nan}}", f"{type_}[] constant(), literal={{0}}"]
    body[0] = body[0].replace("nan", "0x7fc00000")
    for side in (0, 1):
        at = 4 + 4 * side
        body += [
            f'pred[] compare(%{side}, %{side}), direction="NE"',
            f'pred[] compare(%{side}, %3), direction="EQ"',
            f"{type_}[] select(%{at + 1}, %3, %{side})",
            f"{type_}[] select(%{at}, %2, %{at + 2})",
        ]
    return function(
        "before", [type_, type_], 'pred[] compare(%7, %11), direction="LT", total_order', body
    )


def ordered() -> None:
    """Sorts and top-k; jnp.sort and lax.sort, stable."""
    lax = jax.lax
    x = np.concatenate([FLOATS, -SPECIAL, SPECIAL]).reshape(2, 29)
    x[(np.abs(x) < 1e-38) & (x != 0)] = 1e-30  # XLA's CPU code takes denormals for zeros
    for axis in (0, 1):
        emit(
            f"sort-f32-{axis}",
            f"sort(%0), dimensions={{{axis}}}, is_stable, to_apply={{1}}",
            [x],
            [jax.numpy.sort(x, axis=axis)],
            0,
            jax_order("f32"),
        )
    keys = (np.arange(40) * 7 % 5).astype(np.int32)
    places = np.arange(40).astype(np.int16)
    down = function(
        "down", ["s32", "s32", "s16", "s16"], 'pred[] compare(%0, %1), direction="GT"', []
    )
    order = np.argsort(-keys, kind="stable")
    emit(
        "sort-descending-pairs",
        "sort(%0, %1), dimensions={0}, to_apply={1}",
        [keys, places],
        [keys[order], places[order]],
        0,
        down,
    )
    two = function(
        "two",
        ["s32", "s32", "s16", "s16"],
        "pred[] or(%4, %7)",
        [
            'pred[] compare(%0, %1), direction="LT"',
            'pred[] compare(%0, %1), direction="EQ"',
            'pred[] compare(%2, %3), direction="GT"',
            "pred[] and(%5, %6)",
        ],
    )
    order = np.lexsort((-places, keys))
    emit(
        "sort-two-keys",
        "sort(%0, %1), dimensions={0}, to_apply={1}",
        [keys, places],
        [keys[order], places[order]],
        0,
        two,
    )
    plain = np.array([3, 1, 2], np.float32)
    le = function("le", ["f32", "f32"], 'pred[] compare(%0, %1), direction="LE"', [])
    # By hand: merging [3] [1] gives [1 3]; then 2 <= 1 is false and 2 <= 3 is true.
    emit("sort-by-le", "sort(%0), dimensions={0}, to_apply={1}", [plain], [np.sort(plain)], 0, le)
    for values, k in ((x, 5), (keys.reshape(4, 10), 3), (x.astype(BF16), 29)):
        top = lax.top_k(values, k)
        emit(
            f"topk-{NAMES[values.dtype.name]}", f"topk(%0), k={{{k}}}, largest", [values], list(top)
        )
    values, places = lax.top_k(x, 4)
    emit(
        "custom-call-topk",
        'custom-call(%0), custom_call_target="AwsNeuronTopK", backend_config="4"',
        [x],
        [values, np.asarray(places).astype(np.uint32)],
    )
    smallest = np.argsort(keys.reshape(4, 10), axis=1, kind="stable")[:, :3]
    emit(
        "topk-smallest",
        "topk(%0), k={3}",
        [keys.reshape(4, 10)],
        [np.take_along_axis(keys.reshape(4, 10), smallest, 1), smallest.astype(np.int32)],
    )


def window_text(window: tuple, strides: tuple, padding: tuple, base: tuple, dilation: tuple) -> str:
    """Attribute window."""
    numbers = []
    for d in range(len(window)):
        numbers += [window[d], strides[d], *padding[d], dilation[d], base[d], 0]
    return "window={" + ",".join(map(str, numbers)) + "}"


def windows() -> None:
    """reduce-window and select-and-scatter from JAX; running folds from numpy."""
    lax = jax.lax
    x = (np.random.default_rng(17).standard_normal((6, 7)) * 4).astype(np.float32)
    ones = (1, 1)
    cases = {
        "plain": ((2, 3), ones, ((0, 0), (0, 0)), ones, ones),
        "strided": ((2, 2), (2, 3), ((1, 1), (0, 2)), ones, ones),
        "negative": ((2, 2), ones, ((-1, 0), (2, -2)), ones, ones),
        "dilated": ((2, 3), ones, ((0, 1), (2, 0)), (2, 3), (3, 2)),
    }
    for name, case in cases.items():
        for opcode, op, init in (("add", lax.add, 0), ("maximum", lax.max, -np.inf)):
            start = np.float32(init)
            emit(
                f"reduce-window-{name}-{opcode}",
                f"reduce-window(%0, %1), {window_text(*case)}, to_apply={{1}}",
                [x, start],
                [lax.reduce_window(x, start, op, *case)],
                1e-6 if opcode == "add" else 0,
                scalar_computation(opcode),
            )
    i = np.random.default_rng(18).integers(-9, 9, 2500).astype(np.int32)
    n = len(i)
    zero = np.int32(0)
    for name, pad, want in (
        ("forward", (n - 1, 0), np.cumsum(i)),
        ("backward", (0, n - 1), np.cumsum(i[::-1])[::-1]),
    ):
        emit(
            f"cumsum-{name}",
            f"reduce-window(%0, %1), {window_text((n,), (1,), (pad,), (1,), (1,))}, to_apply={{1}}",
            [i, zero],
            [want.astype(np.int32)],
            0,
            scalar_computation("add", "s32"),
        )
    argmax = function(
        "argmax",
        ["f32", "s32", "f32", "s32"],
        "(f32[], s32[]) tuple(%5, %6)",
        [
            'pred[] compare(%0, %2), direction="GE"',
            "f32[] select(%4, %0, %2)",
            "s32[] select(%4, %1, %3)",
        ],
    )
    places = np.broadcast_to(np.arange(7, dtype=np.int32), (6, 7)).copy()
    blocks = x.reshape(3, 2, 7)[:, :, :6].reshape(3, 2, 3, 2).transpose(0, 2, 1, 3).reshape(3, 3, 4)
    best = blocks.argmax(axis=2)
    emit(
        "reduce-window-pairs",
        "reduce-window(%0, %1, %2, %3), "
        + window_text((2, 2), (2, 2), ((0, 0), (0, 0)), ones, ones)
        + ", to_apply={1}",
        [x, places, np.float32(-np.inf), np.int32(-1)],
        [blocks.max(axis=2), (best % 2 + np.arange(3) * 2).astype(np.int32)],
        0,
        argmax,
    )
    select = function("select", ["f32", "f32"], 'pred[] compare(%0, %1), direction="GE"', [])
    add = scalar_computation("add").replace("%1", "%2", 1)
    ties = np.round(x)
    for name in ("plain", "strided"):
        window, strides, padding, _, _ = cases[name]

        def pooled(
            v: np.ndarray,
            window: tuple = window,
            strides: tuple = strides,
            padding: tuple = padding,
        ) -> object:
            return lax.reduce_window(v, -np.inf, lax.max, window, strides, padding)

        out, gradient = jax.vjp(pooled, ties)
        source = np.random.default_rng(19).standard_normal(out.shape).astype(np.float32)
        emit(
            f"select-and-scatter-{name}",
            f"select-and-scatter(%0, %1, %2), {window_text(window, strides, padding, ones, ones)}"
            ", to_apply={1,2}",
            [ties, source, np.float32(0)],
            [gradient(source)[0]],
            1e-6,
            select + add,
        )


for part in (elementwise, conversions, movement, sums, products, indexed, random_bits, control):
    part()
for part in (convolutions, normalisations, triangles):
    part()
for part in (ordered, windows):
    part()
