# SPDX-License-Identifier: Apache-2.0
"""Random numbers, integers and bits, special values, narrow types."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from programs.registry import Data, program


@program(tolerance=0)
def random_bits(data: Data, large: bool) -> tuple:
    """ThreeFry, split and folded."""
    n = 100000 if large else 33

    def run(seed: jax.Array) -> tuple:
        key = jax.random.key(seed)
        a, b = jax.random.split(key)
        return (
            jax.random.bits(a, (n,)),
            jax.random.bits(jax.random.fold_in(b, 7), (n,), jnp.uint8),
            jax.random.randint(b, (n,), -5, 100),
            jax.random.permutation(a, 50),
        )

    return run, (np.int32(42),)


@program()
def random_distributions(data: Data, large: bool) -> tuple:
    """Uniform, normal, truncated, categorical, dropout."""
    n = 50000 if large else 50

    def run(seed: jax.Array, x: jax.Array) -> tuple:
        keys = jax.random.split(jax.random.key(seed), 5)
        return (
            jax.random.uniform(keys[0], (n,)),
            jax.random.normal(keys[1], (n,)),
            jax.random.truncated_normal(keys[2], -2, 2, (n,)),
            jax.random.categorical(keys[3], x, axis=-1),
            jnp.where(jax.random.bernoulli(keys[4], 0.9, x.shape), x / 0.9, 0),
        )

    return run, (np.int32(7), data.normal(64 if large else 6, 30))


@program(tolerance=0)
def integer_arithmetic(data: Data, large: bool) -> tuple:
    """Wrapping, division towards zero, by zero, of the least number."""
    n = 100000 if large else 40
    a, b = data.bits(n, dtype=np.int32), data.integers(9, n) - 4
    a[:3], b[:3] = (-(2**31), 7, -7), (-1, 0, 2)

    def run(a: jax.Array, b: jax.Array) -> tuple:
        return (
            a + b, a - b, a * b, jax.lax.div(a, b), jax.lax.rem(a, b), a // 3, a % 7,
            jnp.sign(a), jnp.abs(a), jnp.maximum(a, b), jnp.minimum(a, b), -a,
            a.astype(jnp.int8), a.astype(jnp.uint16), a.astype(jnp.float32).astype(jnp.int32),
        )  # fmt: skip

    return run, (a, b)


@program(tolerance=0)
def bit_operations(data: Data, large: bool) -> tuple:
    """Shifts beyond the width, counts, rotations, reinterpretation."""
    n = 100000 if large else 40

    def run(a: jax.Array, b: jax.Array) -> tuple:
        return (
            a & b, a | b, a ^ b, ~a, a << (b % 40), a >> (b % 40),
            jax.lax.shift_right_arithmetic(a.view(jnp.int32), (b % 40).astype(jnp.int32)),
            jax.lax.population_count(a), jax.lax.clz(a), (a << 13) | (a >> 19),
            jax.lax.bitcast_convert_type(a, jnp.int32),
            jax.lax.bitcast_convert_type(a, jnp.uint8),
        )  # fmt: skip

    return run, (data.bits(n), data.bits(n))


@program()
def special_values(data: Data, large: bool) -> tuple:
    """NaN, infinities and signed zeros through the functions."""
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.2e-38, 3.4e38, 1.0, -1.0, 0.5]
    x = np.repeat(np.array(special, np.float32), 1000 if large else 1)

    def run(x: jax.Array) -> tuple:
        y = x[::-1]
        return (
            x + y, x * y, x / y, jnp.maximum(x, y), jnp.minimum(x, y), x < y, x == y, x != x,
            jnp.exp(x), jnp.log(x), jnp.tanh(x), jnp.sqrt(x), jax.lax.rsqrt(x), jnp.sign(x),
            jnp.isfinite(x), jnp.where(jnp.isnan(x), 0, x), jnp.abs(x), jnp.floor(x),
            jnp.round(x), jax.nn.relu(x), jnp.sum(x[3:6]), jnp.max(x), jnp.argmax(x),
        )  # fmt: skip

    return run, (x,)


@program()
def transcendental_functions(data: Data, large: bool) -> tuple:
    """The functions of one argument over their range."""
    n = 100000 if large else 64
    x = data.normal(n, scale=2)

    def run(x: jax.Array) -> tuple:
        positive = jnp.abs(x) + 0.01
        return (
            jnp.exp(x), jnp.expm1(x * 0.1), jnp.log(positive), jnp.log1p(positive), jnp.sin(x),
            jnp.cos(x), jnp.tan(x * 0.5), jnp.tanh(x), jax.lax.erf(x), jnp.cbrt(x),
            jnp.power(positive, x), jnp.arctan2(x, positive), jax.nn.softplus(x),
            jax.scipy.special.erfinv(jnp.tanh(x) * 0.9), jnp.arctan(x), jnp.sinh(x),
            jnp.logaddexp(x, -x),
        )  # fmt: skip

    return run, (x,)


@program(tolerance=0)
def narrow_type_casts(data: Data, large: bool) -> tuple:
    """bf16, f16 and both fp8 kinds: rounding, overflow, subnormals, and back."""
    n = 100000 if large else 50
    edges = [0, -0.0, 1, 448, 449, 464, 465, 480, 57344, 61440, 65504, 65520, 1e-8, 2**-9, 2**-10]
    x = np.concatenate([np.array([*edges, np.inf, -np.inf], np.float32), data.normal(n, scale=30)])
    types = (jnp.bfloat16, jnp.float16, jnp.float8_e4m3fn, jnp.float8_e5m2)

    def run(x: jax.Array) -> tuple:
        narrow = [x.astype(t) for t in types]
        return narrow, [each.astype(jnp.float32) for each in narrow], x.astype(jnp.int8)

    return run, (x,)


@program(tolerance=2.0**-10)
def half_precision_mlp(data: Data, large: bool) -> tuple:
    """f16 matrix products with f32 accumulation."""
    n, width = (128, 256) if large else (9, 20)

    def run(x: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
        y = jnp.matmul(x, a, preferred_element_type=jnp.float32)
        return jnp.matmul(jax.nn.relu(y).astype(jnp.float16), b, preferred_element_type=jnp.float32)

    return run, (
        data.normal(n, width, dtype=np.float16),
        data.weight(width, width, dtype=np.float16),
        data.weight(width, 10, dtype=np.float16),
    )


@program(tolerance=0)
def quantised_matmul(data: Data, large: bool) -> tuple:
    """int8 by int8, summed in int32."""
    n, width = (128, 512) if large else (9, 20)

    def run(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.matmul(x, w, preferred_element_type=jnp.int32)

    return run, (data.bits(n, width, dtype=np.int8), data.bits(width, n, dtype=np.int8))


@program()
def reductions(data: Data, large: bool) -> tuple:
    """Of every kind, over every set of dimensions."""
    shape = (64, 128, 64) if large else (5, 7, 11)

    def run(x: jax.Array) -> tuple:
        return (
            jnp.sum(x), jnp.sum(x, axis=0), jnp.sum(x, axis=1), jnp.sum(x, axis=2),
            jnp.max(x, axis=(0, 2)), jnp.min(x, axis=1), jnp.prod(1 + x * 0.01, axis=2),
            jnp.mean(x, axis=(1, 2)), jnp.var(x, axis=-1), jnp.argmax(x, axis=1),
            jnp.argmin(x, axis=2), jax.nn.logsumexp(x, axis=0), jnp.any(x > 3, axis=0),
            jnp.all(x > -3, axis=1), jnp.linalg.norm(x.reshape(shape[0], -1), axis=1),
        )  # fmt: skip

    return run, (data.normal(*shape),)
