# SPDX-License-Identifier: Apache-2.0
"""Operations that move, add up, multiply and index arrays."""

from __future__ import annotations

import jax
import numpy as np
from case import BF16, emit, rng, scalar_computation


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
