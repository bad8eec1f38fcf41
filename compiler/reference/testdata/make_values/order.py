# SPDX-License-Identifier: Apache-2.0
"""Sorts and windows."""

from __future__ import annotations

import jax
import numpy as np
from case import BF16, FLOATS, NAMES, SPECIAL, emit, function, scalar_computation


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
