# SPDX-License-Identifier: Apache-2.0
"""Attention, norms, losses, convolutions and pooling, forward and gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from programs.models import attend, conv, layer_norm, pool_max, rms_norm
from programs.registry import BF16, Data, program

BF16_STEP = 2.0**-8


def qkv(data: Data, large: bool, heads: int, kv: int, dtype: type = np.float32) -> tuple:
    """Queries, keys and values of [batch, time, heads, width]."""
    n, t, width = (2, 128, 64) if large else (2, 9, 8)
    return (
        data.normal(n, t, heads, width, dtype=dtype),
        data.normal(n, t, kv, width, dtype=dtype),
        data.normal(n, t, kv, width, dtype=dtype),
    )


def causal(t: int) -> jax.Array:
    """Each position sees itself and what is before."""
    return jnp.tril(jnp.ones((t, t), bool))


@program()
def attention_full(data: Data, large: bool) -> tuple:
    """No mask."""
    return lambda q, k, v: attend(q, k, v, None), qkv(data, large, 4, 4)


@program()
def attention_causal_grouped(data: Data, large: bool) -> tuple:
    """Eight query heads on two key heads."""
    return lambda q, k, v: attend(q, k, v, causal(q.shape[1])), qkv(data, large, 8, 2)


@program()
def attention_sliding_window(data: Data, large: bool) -> tuple:
    """Each position sees the last few."""

    def run(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        t = q.shape[1]
        apart = jnp.arange(t)[:, None] - jnp.arange(t)[None, :]
        return attend(q, k, v, (apart >= 0) & (apart < t // 3))

    return run, qkv(data, large, 4, 4)


@program()
def attention_with_rows_off(data: Data, large: bool) -> tuple:
    """A padding mask of -inf in which whole rows see nothing: softmax gives NaN, then zero."""

    def run(q: jax.Array, k: jax.Array, v: jax.Array, keep: jax.Array) -> jax.Array:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        scores = jnp.where(keep[:, None, None, :], scores, -jnp.inf)
        weights = jax.nn.softmax(scores, axis=-1)
        weights = jnp.where(jnp.isnan(weights), 0.0, weights)
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v)

    arguments = qkv(data, large, 4, 4)
    keep = data.integers(2, *arguments[0].shape[:2]).astype(bool)
    keep[0] = False
    return run, (*arguments, keep)


@program()
def attention_gradient(data: Data, large: bool) -> tuple:
    """Of causal attention, for queries, keys and values."""

    def loss(q: jax.Array, k: jax.Array, v: jax.Array, g: jax.Array) -> jax.Array:
        return jnp.sum(attend(q, k, v, causal(q.shape[1])) * g)

    arguments = qkv(data, large, 4, 4)
    return jax.grad(loss, argnums=(0, 1, 2)), (*arguments, data.normal(*arguments[0].shape))


@program(tolerance=3 * BF16_STEP)
def attention_bf16(data: Data, large: bool) -> tuple:
    """Scores in f32, operands in bf16."""

    def run(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32)
        weights = jax.nn.softmax(scores * q.shape[-1] ** -0.5, axis=-1).astype(q.dtype)
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v)

    return run, qkv(data, large, 4, 4, BF16)


@program()
def softmax_and_gradient(data: Data, large: bool) -> tuple:
    """Over the last dimension."""
    shape = (512, 1000) if large else (8, 33)

    def run(x: jax.Array, g: jax.Array) -> tuple:
        return jax.nn.softmax(x), jax.grad(lambda x: jnp.sum(jax.nn.softmax(x) * g))(x)

    return run, (data.normal(*shape, scale=3), data.normal(*shape))


@program()
def layer_norm_and_gradient(data: Data, large: bool) -> tuple:
    """With scale and shift."""
    n, width = (512, 768) if large else (6, 40)

    def loss(x: jax.Array, s: jax.Array, b: jax.Array, g: jax.Array) -> jax.Array:
        return jnp.sum(layer_norm(x, s, b) * g)

    return jax.value_and_grad(loss, argnums=(0, 1, 2)), (
        data.normal(n, width),
        data.normal(width),
        data.normal(width),
        data.normal(n, width),
    )


@program(tolerance=2 * BF16_STEP)
def rms_norm_bf16(data: Data, large: bool) -> tuple:
    """In f32 inside, as Llama does."""
    n, width = (512, 1024) if large else (6, 40)

    def run(x: jax.Array, s: jax.Array) -> jax.Array:
        return rms_norm(x.astype(jnp.float32), jnp.float32(1)).astype(x.dtype) * s

    return run, (data.normal(n, width, dtype=BF16), data.normal(width, dtype=BF16))


@program()
def cross_entropy_and_gradient(data: Data, large: bool) -> tuple:
    """With label smoothing, by one-hot."""
    n, classes = (512, 1000) if large else (16, 10)

    def loss(z: jax.Array, y: jax.Array) -> jax.Array:
        target = jax.nn.one_hot(y, classes) * 0.9 + 0.1 / classes
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(z) * target, axis=1))

    return jax.value_and_grad(loss), (data.normal(n, classes, scale=2), data.integers(classes, n))


@program()
def embedding_gradient(data: Data, large: bool) -> tuple:
    """A scatter of sums over repeated rows."""
    vocab, width, n = (2000, 128, 512) if large else (50, 16, 28)

    def loss(table: jax.Array, tokens: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.mean(jnp.square(table[tokens] - target))

    return jax.value_and_grad(loss), (
        data.normal(vocab, width),
        data.integers(vocab, n),
        data.normal(n, width),
    )


@program()
def gelu_mlp_block(data: Data, large: bool) -> tuple:
    """A transformer's feed-forward block with its residual."""
    n, width = (256, 256) if large else (12, 16)

    def run(x: jax.Array, a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> jax.Array:
        return x + jax.nn.gelu(x @ a + b) @ c + d

    return run, (
        data.normal(n, width),
        data.weight(width, 4 * width),
        data.normal(4 * width),
        data.weight(4 * width, width),
        data.normal(width),
    )


@program()
def elementwise_chain(data: Data, large: bool) -> tuple:
    """Many cheap operations on one large array."""
    n = 1 << 20 if large else 77

    def run(x: jax.Array, y: jax.Array) -> jax.Array:
        z = x * 1.5 + y
        z = jnp.where(z > 0, z * z, -z) + jnp.minimum(x, y) * 0.25
        return jnp.tanh(z) * jax.nn.sigmoid(x) - jnp.sqrt(jnp.abs(y) + 1.0)

    return run, (data.normal(n), data.normal(n))


@program()
def convolutions_2d(data: Data, large: bool) -> tuple:
    """Strided, dilated, grouped and depthwise."""
    n, size, c = (4, 28, 32) if large else (2, 7, 4)

    def run(x: jax.Array, w: jax.Array, grouped: jax.Array, deep: jax.Array) -> tuple:
        return (
            conv(x, w, 2),
            conv(x, w, 1, rhs_dilation=(2, 2)),
            conv(x, grouped, 1, feature_group_count=2),
            conv(x, deep, 1, feature_group_count=c),
        )

    return run, (
        data.normal(n, size, size, c),
        data.weight(3, 3, c, c),
        data.weight(3, 3, c // 2, c),
        data.weight(3, 3, 1, c),
    )


@program()
def convolution_gradients(data: Data, large: bool) -> tuple:
    """For the input and the kernel, NCHW, strided."""
    n, size, c = (4, 28, 32) if large else (2, 7, 3)

    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        y = jax.lax.conv_general_dilated(x, w, (2, 2), ((1, 1), (1, 1)))
        return jnp.sum(jnp.square(y))

    return jax.grad(loss, argnums=(0, 1)), (
        data.normal(n, c, size, size),
        data.weight(c, c, 3, 3) * np.float32(3),
    )


@program()
def convolution_1d_causal(data: Data, large: bool) -> tuple:
    """Padded on the left, as in WaveNet and Mamba."""
    n, t, c = (4, 256, 64) if large else (2, 9, 4)

    def run(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x, w, (1,), ((3, 0),), dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=c
        )

    return run, (data.normal(n, t, c), data.weight(4, 1, c))


@program()
def max_pool_and_gradient(data: Data, large: bool) -> tuple:
    """Select-and-scatter."""
    n, size, c = (8, 32, 32) if large else (2, 6, 3)

    def loss(x: jax.Array, g: jax.Array) -> jax.Array:
        return jnp.sum(pool_max(x) * g)

    half = size // 2
    return jax.value_and_grad(loss), (
        data.normal(n, size, size, c),
        data.normal(n, half, half, c),
    )


@program()
def average_pool_and_gradient(data: Data, large: bool) -> tuple:
    """Overlapping windows, same padding."""
    n, size, c = (8, 32, 32) if large else (2, 6, 3)

    def pool(x: jax.Array) -> jax.Array:
        window = ((1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        sums = jax.lax.reduce_window(x, 0.0, jax.lax.add, *window)
        return sums / jax.lax.reduce_window(jnp.ones_like(x), 0.0, jax.lax.add, *window)

    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.square(pool(x)))

    return jax.value_and_grad(loss), (data.normal(n, size, size, c),)
