# SPDX-License-Identifier: Apache-2.0
"""Calls, loops and branches."""

from __future__ import annotations

import jax
import numpy as np
from case import emit

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
