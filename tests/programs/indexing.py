# SPDX-License-Identifier: Apache-2.0
"""Sorting, searching, sums along an axis, loops and branches, gathers and scatters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from programs.registry import Data, program


@program(tolerance=0)
def sort_and_argsort(data: Data, large: bool) -> tuple:
    """With ties, along both axes, ascending and descending."""
    shape = (64, 1024) if large else (5, 17)
    x = np.round(data.normal(*shape) * 4) / 4

    def run(x: jax.Array) -> tuple:
        return (
            jnp.sort(x, axis=1),
            jnp.argsort(x, axis=1, stable=True),
            jnp.sort(x, axis=0, descending=True),
            jnp.argsort(-x, axis=0),
        )

    return run, (x.astype(np.float32),)


@program(tolerance=0)
def top_k_rows(data: Data, large: bool) -> tuple:
    """The best of a vocabulary, values and positions."""
    return lambda x: jax.lax.top_k(x, 5), (data.normal(*((64, 4096) if large else (4, 31))),)


@program(tolerance=0)
def sort_by_two_keys(data: Data, large: bool) -> tuple:
    """Three operands move together; the first two are keys."""
    n = 20000 if large else 40
    return lambda a, b, c: jax.lax.sort((a, b, c), num_keys=2), (
        data.integers(7, n),
        data.normal(n),
        data.integers(1000, n),
    )


@program()
def running_sums(data: Data, large: bool) -> tuple:
    """cumsum, cumprod, cummax along each axis."""
    shape = (64, 1024) if large else (4, 23)

    def run(x: jax.Array) -> tuple:
        return (
            jnp.cumsum(x, axis=1),
            jnp.cumsum(x, axis=0),
            jnp.cumprod(1 + x * 0.01, axis=1),
            jax.lax.cummax(x, axis=1),
            jax.lax.cummin(x, axis=0, reverse=True),
        )

    return run, (data.normal(*shape),)


@program()
def nucleus_filter(data: Data, large: bool) -> tuple:
    """Top-p: sort, softmax, running sum, threshold."""
    n, vocab = (8, 2000) if large else (3, 20)

    def run(x: jax.Array) -> jax.Array:
        ordered = jnp.sort(x, axis=-1, descending=True)
        total = jnp.cumsum(jax.nn.softmax(ordered), axis=-1)
        last = jnp.sum(total < 0.9, axis=-1, keepdims=True)
        return jnp.where(x >= jnp.take_along_axis(ordered, last, axis=-1), x, -jnp.inf)

    return run, (data.normal(n, vocab),)


@program(tolerance=0)
def collatz_while(data: Data, large: bool) -> tuple:
    """A loop whose number of turns depends on the data, under vmap."""

    def steps(n: jax.Array) -> jax.Array:
        def body(carry: tuple) -> tuple:
            n, count = carry
            return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

        return jax.lax.while_loop(lambda c: c[0] != 1, body, (n, jnp.int32(0)))[1]

    return jax.vmap(steps), (data.integers(1000, 256 if large else 20) + 1,)


@program()
def branches(data: Data, large: bool) -> tuple:
    """cond and switch on values known only when the program runs."""
    n = 1000 if large else 12

    def run(x: jax.Array, i: jax.Array) -> tuple:
        a = jax.lax.cond(jnp.sum(x) > 0, lambda x: x * 2, lambda x: jnp.sin(x), x)
        b = jax.lax.switch(i, [lambda x: x + 1, lambda x: x * x, jnp.negative], x)
        return a, b

    return run, (data.normal(n), np.int32(7))


@program()
def scatter_and_segments(data: Data, large: bool) -> tuple:
    """Sums, extremes and counts by segment; indices out of range fall away."""
    n, segments = (20000, 100) if large else (60, 7)

    def run(x: jax.Array, i: jax.Array) -> tuple:
        return (
            jax.ops.segment_sum(x, i, segments),
            jax.ops.segment_max(x, i, segments),
            jnp.zeros(segments, jnp.int32).at[i].add(1, mode="drop"),
            x[jnp.clip(i * 3, 0, n - 1)],
        )

    return run, (data.normal(n), data.integers(segments + 2, n) - 1)


@program(tolerance=0)
def one_hot_and_take(data: Data, large: bool) -> tuple:
    """Gathers of every mode."""
    n, width = (500, 64) if large else (11, 6)

    def run(t: jax.Array, i: jax.Array) -> tuple:
        return (
            jax.nn.one_hot(i, n),
            jnp.take(t, i, axis=0, mode="clip"),
            jnp.take(t, i, axis=0, mode="fill", fill_value=-1),
            jnp.take(t, i, axis=0, mode="wrap"),
            jnp.take_along_axis(t, jnp.argsort(t, axis=0), axis=0),
        )

    return run, (data.normal(n, width), data.integers(2 * n, 3 * n) - n // 2)


@program(tolerance=0)
def shapes_and_pads(data: Data, large: bool) -> tuple:
    """Negative and interior padding, reversal, transposition, zero-size arrays."""
    shape = (64, 96, 40) if large else (4, 6, 5)

    def run(x: jax.Array) -> tuple:
        return (
            jax.lax.pad(x, 1.0, ((-1, 2, 0), (1, -2, 1), (0, 0, 2))),
            x[::-1, :, ::2].transpose(2, 0, 1),
            jnp.concatenate([x[:0], x, x[:, ::-1]], axis=0),
            jnp.roll(x, (1, -2), axis=(0, 2)),
            x[:, :0],
            jnp.sum(x[:, :0], axis=1),
            jnp.max(jnp.concatenate([x[:0], x[:1]], axis=0), axis=0),
        )

    return run, (data.normal(*shape),)
