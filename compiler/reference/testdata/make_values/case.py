# SPDX-License-Identifier: Apache-2.0
"""How a case is written, and numbers that many cases share."""

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


def function(name: str, types: list[str], root: str, body: list[str], number: int = 1) -> str:
    """A computation whose parameters have these scalar types; `body` continues after them."""
    lines = [f'%{number} "{name}" {{']
    for i, type_ in enumerate(types):
        lines.append(f"  %{i} = {type_}[] parameter(), parameter_number={{{i}}}")
    lines += [f"  %{len(types) + i} = {line}" for i, line in enumerate(body)]
    return "\n".join([*lines, f"  ROOT %{len(types) + len(body)} = {root}", "}", ""])
