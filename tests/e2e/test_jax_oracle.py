# SPDX-License-Identifier: Apache-2.0
"""Programs lowered from JAX, compiled by neuronx-cc and executed through libnrt, equal JAX's CPU.

f32 within 1e-5 of the result's largest magnitude; bf16 within one rounding of the same, against
JAX without excess precision; integers and movements of data exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from neff_runner import Runtime
from oracle import check

BF16 = ml_dtypes.bfloat16
BF16_STEP = 2.0**-8
rng = np.random.default_rng(20260101)


def normal(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """Standard normal numbers."""
    return rng.standard_normal(shape).astype(dtype)


def indices(limit: int, *shape: int) -> np.ndarray:
    """int32 in [0, limit)."""
    return rng.integers(0, limit, shape, dtype=np.int32)


# ---- elementwise -------------------------------------------------------------------------------

UNARY = {
    "abs": jnp.abs, "ceil": jnp.ceil, "cos": jnp.cos, "erf": jax.scipy.special.erf,
    "exp": jnp.exp, "expm1": jnp.expm1, "floor": jnp.floor, "is_finite": jnp.isfinite,
    "logistic": jax.nn.sigmoid, "neg": jnp.negative, "relu": jax.nn.relu, "round": jnp.round,
    "sign": jnp.sign, "sin": jnp.sin, "tan": jnp.tan, "tanh": jnp.tanh, "gelu": jax.nn.gelu,
    "silu": jax.nn.silu, "cbrt": jnp.cbrt, "softplus": jax.nn.softplus, "square": jnp.square,
}  # fmt: skip
POSITIVE = {"log": jnp.log, "log1p": jnp.log1p, "sqrt": jnp.sqrt, "rsqrt": jax.lax.rsqrt}
BINARY = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide,
    "max": jnp.maximum, "min": jnp.minimum, "atan2": jnp.arctan2, "rem": jax.lax.rem,
    "lt": jnp.less, "ge": jnp.greater_equal, "eq": jnp.equal, "ne": jnp.not_equal,
}  # fmt: skip
INTEGER = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jax.lax.div,
    "rem": jax.lax.rem, "max": jnp.maximum, "and": jnp.bitwise_and, "or": jnp.bitwise_or,
    "xor": jnp.bitwise_xor, "shl": lambda a, b: a << (b & 7), "shr": lambda a, b: a >> (b & 7),
    "popcnt": lambda a, b: jax.lax.population_count(a), "not": lambda a, b: ~a,
    "clz": lambda a, b: jax.lax.clz(a), "lt": jnp.less,
}  # fmt: skip


def test_unary_functions_of_f32(runtime: Runtime) -> None:
    x = np.concatenate([normal(64), [0.0, -0.0, 1.0, 3.5, -2.5, 8.0]]).astype(np.float32)
    check(runtime, lambda x: [f(x) for f in UNARY.values()], x, what=f"one of {list(UNARY)}")
    y = np.abs(x) + np.float32(0.01)
    check(runtime, lambda x: [f(x) for f in POSITIVE.values()], y, what=f"one of {list(POSITIVE)}")


def test_unary_functions_of_special_values(runtime: Runtime) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1e-30, 3e38, -3e38, 100, -100], np.float32)
    functions = [jnp.exp, jnp.tanh, jnp.abs, jnp.sqrt, jnp.isfinite, jax.nn.sigmoid, jnp.log]
    check(runtime, lambda x: [f(x) for f in functions], x)


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.float16])
def test_binary_functions(runtime: Runtime, dtype: type) -> None:
    a, b = normal(5, 13, dtype=dtype), normal(5, 13, dtype=dtype)
    tolerance = 1e-5 if dtype is np.float32 else BF16_STEP
    check(
        runtime,
        lambda a, b: [f(a, b) for f in BINARY.values()],
        a, b,
        tolerance=tolerance,
        what=f"one of {list(BINARY)}",
    )  # fmt: skip


def test_unary_functions_of_bf16(runtime: Runtime) -> None:
    functions = [jnp.exp, jnp.tanh, jnp.negative, jnp.abs, jax.nn.relu, jax.nn.sigmoid, jax.nn.gelu]
    x = normal(77, dtype=BF16)
    check(runtime, lambda x: [f(x) for f in functions], x, tolerance=BF16_STEP)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32])
def test_integer_functions(runtime: Runtime, dtype: type) -> None:
    info = np.iinfo(dtype)
    a = rng.integers(info.min, info.max, 40, dtype=dtype)
    b = rng.integers(1, 100, 40, dtype=dtype)
    check(runtime, lambda a, b: [f(a, b) for f in INTEGER.values()], a, b)


def test_64_bit_integers_are_exact(runtime: Runtime) -> None:
    with jax.enable_x64(True):
        a = rng.integers(-(2**62), 2**62, 20, dtype=np.int64)
        b = rng.integers(1, 2**40, 20, dtype=np.int64)
        functions = [jnp.add, jnp.subtract, jnp.multiply, jax.lax.div, jax.lax.rem, jnp.less]
        check(runtime, lambda a, b: [f(a, b) for f in functions], a, b)


def test_selection_and_clamp(runtime: Runtime) -> None:
    a, b = normal(6, 7), normal(6, 7)
    check(
        runtime,
        lambda a, b: [
            jnp.where(a > b, a, b * 2),
            jnp.clip(a, -0.5, 0.5),
            jax.lax.select(jnp.array(True), a, b),
            jnp.power(jnp.abs(a), b),
            a**2,
            a**3,
        ],
        a, b,
    )  # fmt: skip


def test_conversions(runtime: Runtime) -> None:
    types = [jnp.bfloat16, jnp.float16, jnp.int32, jnp.int8, jnp.uint8, jnp.bool_, jnp.float32]
    x = np.array([0, -0.0, 1, -1, 2.5, -2.5, 100.7, -100.2, 0.49, 1e-3], np.float32)
    check(runtime, lambda x: [x.astype(t) for t in types], x, tolerance=0)
    check(
        runtime,
        lambda x: [x.astype(t) for t in (jnp.float8_e4m3fn, jnp.float8_e5m2)],
        x, tolerance=0,
    )  # fmt: skip
    i = np.array([0, 1, -1, 127, -128, 300, 2**30], np.int32)
    check(runtime, lambda x: [x.astype(t) for t in types], i, tolerance=0)
    check(runtime, lambda x: jax.lax.bitcast_convert_type(x, jnp.uint32), x)


# ---- matrix products ---------------------------------------------------------------------------

DOTS: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...]]] = {
    "matrix matrix": (jnp.matmul, ((33, 17), (17, 65))),
    "matrix vector": (jnp.matmul, ((33, 17), (17,))),
    "vector vector": (jnp.dot, ((40,), (40,))),
    "outer": (jnp.outer, ((9,), (12,))),
    "left transposed": (lambda a, b: a.T @ b, ((17, 33), (17, 20))),
    "right transposed": (lambda a, b: a @ b.T, ((33, 17), (20, 17))),
    "both transposed": (lambda a, b: a.T @ b.T, ((17, 33), (20, 17))),
    "batched": (jnp.matmul, ((3, 8, 16), (3, 16, 5))),
    "attention scores": (
        lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k),
        ((2, 6, 3, 8), (2, 7, 3, 8)),
    ),
    "two contracted": (lambda a, b: jnp.tensordot(a, b, axes=2), ((4, 5, 6), (5, 6, 7))),
    "contracted apart": (lambda a, b: jnp.einsum("aib,icb->ac", a, b), ((4, 5, 6), (5, 3, 6))),
    "batch last": (lambda a, b: jnp.einsum("ijb,jkb->bik", a, b), ((4, 5, 3), (5, 6, 3))),
    "one by one": (jnp.matmul, ((1, 1), (1, 1))),
    "large": (jnp.matmul, ((256, 300), (300, 129))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_dot_general(runtime: Runtime, dtype: type) -> None:
    tolerance = 1e-5 if dtype is np.float32 else BF16_STEP
    for name, (function, shapes) in DOTS.items():
        a, b = (normal(*shape, dtype=dtype) for shape in shapes)
        check(runtime, function, a, b, tolerance=tolerance, what=name)


def test_dot_of_integers_and_mixed_types(runtime: Runtime) -> None:
    a, b = indices(100, 9, 12), indices(100, 12, 7)
    check(runtime, jnp.matmul, a, b)
    x, y = normal(9, 12, dtype=BF16), normal(12, 7, dtype=BF16)
    check(
        runtime,
        lambda x, y: jnp.matmul(x, y, preferred_element_type=jnp.float32),
        x, y,
    )  # fmt: skip


def test_dense_layer_with_epilogue(runtime: Runtime) -> None:
    x, w, b = normal(32, 64), normal(64, 48), normal(48)
    check(runtime, lambda x, w, b: jax.nn.gelu(x @ w + b) * 0.5 + 1, x, w, b)


# ---- reductions --------------------------------------------------------------------------------


def test_reductions(runtime: Runtime) -> None:
    x = normal(5, 7, 11)
    functions = [
        jnp.sum, jnp.max, jnp.min, jnp.prod,
        lambda x: jnp.sum(x, axis=0), lambda x: jnp.sum(x, axis=1), lambda x: jnp.sum(x, axis=2),
        lambda x: jnp.max(x, axis=(0, 2)), lambda x: jnp.mean(x, axis=(1, 2)),
        lambda x: jnp.var(x, axis=-1), lambda x: jnp.all(x > -3, axis=1),
        lambda x: jnp.any(x > 2, axis=0), lambda x: jnp.argmax(x, axis=1),
        lambda x: jnp.argmin(x, axis=2), lambda x: jax.nn.logsumexp(x, axis=1),
        lambda x: jnp.sum(x * x, axis=(0, 1, 2)),
    ]  # fmt: skip
    check(runtime, lambda x: [f(x) for f in functions], x)


def test_inputs_without_elements(runtime: Runtime) -> None:
    """They have no tensor: nrt_tensor_allocate refuses a size of 0."""
    check(
        runtime,
        lambda x, empty: [jnp.concatenate([x, empty]), jnp.sum(empty, axis=0), x + empty.sum()],
        normal(4, 3), np.zeros((0, 3), np.float32),
    )  # fmt: skip


def test_argmax_meets_the_first_of_several_nans(runtime: Runtime) -> None:
    """Its fold must keep the order of elements: lanes side by side met the second one first."""
    for size, nans in [(40, (9, 16)), (40, (31, 8, 17)), (3000, (2047, 1500, 2999)), (5, (4,))]:
        x = normal(size)
        x[list(nans)] = np.nan
        both = np.stack([x, x[::-1]])
        check(
            runtime,
            lambda x, y: [jnp.argmax(x), jnp.argmax(y, axis=1), jnp.argmax(y.T, axis=0)],
            x, both,
        )  # fmt: skip


def test_long_sums_keep_their_accuracy(runtime: Runtime) -> None:
    x = rng.random((3, 20001), dtype=np.float32)
    check(runtime, lambda x: [jnp.sum(x, axis=1), jnp.sum(x, axis=0), jnp.mean(x)], x)


def test_reductions_of_integers_and_truth_values(runtime: Runtime) -> None:
    i, t = indices(1000, 6, 9), indices(2, 6, 9).astype(bool)
    check(
        runtime,
        lambda i, t: [jnp.sum(i), jnp.max(i, axis=0), jnp.sum(t), jnp.all(t, axis=1), jnp.any(t)],
        i, t,
    )  # fmt: skip


def test_reductions_of_bf16(runtime: Runtime) -> None:
    x = normal(6, 50, dtype=BF16)
    check(
        runtime,
        lambda x: [jnp.sum(x, axis=1), jnp.max(x, axis=0), jnp.mean(x)],
        x,
        tolerance=BF16_STEP,
    )


# ---- movement of data --------------------------------------------------------------------------


def test_movements_are_exact(runtime: Runtime) -> None:
    x = normal(4, 6, 5)
    functions = [
        lambda x: x.reshape(24, 5), lambda x: x.transpose(2, 0, 1), lambda x: x[::-1, :, ::-1],
        lambda x: x[1:3, ::2, 4], lambda x: jnp.pad(x, ((1, 2), (0, 1), (3, 0)), constant_values=7),
        lambda x: jax.lax.pad(x, 1.0, ((0, 0, 1), (-1, 2, 0), (1, -1, 2))),
        lambda x: jnp.concatenate([x, x * 2, x[:, :, :1].repeat(5, 2)], axis=0),
        lambda x: jnp.concatenate([x[..., :2], x[..., 3:]], axis=2),
        lambda x: jnp.tile(x, (2, 1, 3)),
        lambda x: jnp.stack([x, x + 1]), lambda x: jnp.broadcast_to(x[:, :1], (4, 6, 5)),
        lambda x: x.T.reshape(6, 20).T, lambda x: jnp.roll(x, 2, axis=1), jnp.ravel,
        lambda x: jnp.swapaxes(x, 0, 2)[1:4], lambda x: jnp.split(x, 3, axis=1),
        lambda x: jnp.eye(4, 5)[None] + x[:, :4], jnp.triu, lambda x: x[None, ..., None],
    ]  # fmt: skip
    check(runtime, lambda x: [f(x) for f in functions], x, tolerance=0)


def test_iota_and_constants(runtime: Runtime) -> None:
    x = normal(3)
    check(
        runtime,
        lambda x: [
            jnp.arange(10), jnp.arange(12.0).reshape(3, 4), jnp.array([True, False, True]),
            jax.lax.broadcasted_iota(jnp.int8, (3, 4), 1), jnp.array([1.5, -2.5, 3.0]) + x,
            jnp.full((2, 2), 7, jnp.uint8), jnp.linspace(0, 1, 9), jnp.array(3, jnp.bfloat16),
        ],
        x,
    )  # fmt: skip


def test_scalars_and_results_without_elements(runtime: Runtime) -> None:
    x = normal()
    check(runtime, lambda x: [x + 1, jnp.zeros((0, 3)) + x, x.reshape(1, 1)], x)
    check(runtime, lambda x, unused: x * 2, normal(3), normal(4))
    check(runtime, lambda x: [x, x], normal(3))


def test_dynamic_slices(runtime: Runtime) -> None:
    x, u, i = normal(8, 9), normal(2, 3), indices(20, 2)
    check(
        runtime,
        lambda x, u, i: [
            jax.lax.dynamic_slice(x, (i[0], i[1]), (3, 4)),
            jax.lax.dynamic_update_slice(x, u, (i[1], i[0])),
            jax.lax.dynamic_index_in_dim(x, i[0] - 15, keepdims=False),
        ],
        x, u, i,
    )  # fmt: skip


# ---- gather and scatter ------------------------------------------------------------------------


def test_gather_forms(runtime: Runtime) -> None:
    t, i = normal(11, 6), indices(11, 4, 3)
    j = indices(6, 11, 2)
    check(
        runtime,
        lambda t, i, j: [
            t[i], t[i[:, 0], j[:4, 1]], t[:, j[0]], jnp.take(t, i, axis=0),
            jnp.take(t, i - 5, axis=0, mode="clip"), jnp.take_along_axis(t, j, axis=1),
            t[i[0]][:, None], jnp.take(t, i, axis=0, mode="wrap"),
        ],
        t, i, j,
    )  # fmt: skip


def test_gather_fills_what_is_out_of_range(runtime: Runtime) -> None:
    t = np.arange(12, dtype=np.float32).reshape(6, 2)
    take = lambda t, i: jnp.take(t, i, axis=0)  # noqa: E731
    check(runtime, take, t, np.array([0, 5, 3], np.int32), tolerance=0)
    (y,) = check(runtime, take, t, np.array([0, 99, 3], np.int32), tolerance=0)
    assert np.isnan(y[1]).all()


def test_scatter_forms(runtime: Runtime) -> None:
    t, u, i = normal(9, 4), normal(5, 4), np.array([1, 7, 1, 3, 7], np.int32)
    check(
        runtime,
        lambda t, u, i: [
            t.at[i].add(u), t.at[i].max(u), t.at[i].min(u), t.at[i].multiply(u),
            t.at[jnp.array([0, 4, 8])].set(u[:3]), t.at[:, jnp.array([2, 0])].set(1.0),
            t.at[i, jnp.array([0, 1, 2, 3, 0])].add(1.0), t.at[100].set(5.0), t.at[2].set(u[0]),
            jnp.zeros((9,), jnp.int32).at[i].add(1),
        ],
        t, u, i,
    )  # fmt: skip


def test_embedding_and_its_gradient(runtime: Runtime) -> None:
    table, tokens, target = normal(50, 16), indices(50, 4, 7), normal(4, 7, 16)

    def loss(table: jax.Array, tokens: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.mean((table[tokens] - target) ** 2)

    check(runtime, jax.value_and_grad(loss), table, tokens, target)


# ---- layers ------------------------------------------------------------------------------------


def test_softmax_forward_and_gradient(runtime: Runtime) -> None:
    x, g = normal(8, 33) * 3, normal(8, 33)
    functions = [jax.nn.softmax, jax.nn.log_softmax]
    check(runtime, lambda x, g: [f(x) for f in functions], x, g)
    check(
        runtime,
        lambda x, g: [jax.grad(lambda x, f=f: jnp.sum(f(x) * g))(x) for f in functions],
        x, g,
    )  # fmt: skip
    check(runtime, lambda x, g: jax.nn.softmax(x, axis=0), x, g)
    check(runtime, lambda x: jax.nn.softmax(x), x.astype(BF16), tolerance=BF16_STEP)


def layer_norm(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    """Over the last dimension, epsilon 1e-5."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift


def test_norms_forward_and_gradient(runtime: Runtime) -> None:
    x, s, b, g = normal(6, 40), normal(40), normal(40), normal(6, 40)
    check(runtime, layer_norm, x, s, b)

    def loss(x: jax.Array, s: jax.Array, b: jax.Array, g: jax.Array) -> jax.Array:
        return jnp.sum(layer_norm(x, s, b) * g)

    check(runtime, jax.grad(loss, argnums=(0, 1, 2)), x, s, b, g)
    check(
        runtime,
        lambda x, s: x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * s,
        x, s,
    )  # fmt: skip


def test_cross_entropy_and_its_gradient(runtime: Runtime) -> None:
    z, y = normal(16, 10) * 2, indices(10, 16)

    def by_one_hot(z: jax.Array, y: jax.Array) -> jax.Array:
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(z) * jax.nn.one_hot(y, 10), axis=1))

    def by_index(z: jax.Array, y: jax.Array) -> jax.Array:
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], axis=1))

    for loss in (by_one_hot, by_index):
        check(runtime, jax.value_and_grad(loss), z, y, what=loss.__name__)


def mlp(params: list[jax.Array], x: jax.Array) -> jax.Array:
    """Dense layers with relu between."""
    for w, b in zip(params[::2], params[1::2], strict=True):
        x = x @ w + b
        x = jax.nn.relu(x) if w is not params[-2] else x
    return x


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_mlp_gradient(runtime: Runtime, dtype: type) -> None:
    sizes = (20, 48, 32, 5)
    params = []
    for a, b in itertools.pairwise(sizes):
        params += [normal(a, b, dtype=dtype) / dtype(a**0.5), normal(b, dtype=dtype)]
    x, y = normal(24, 20, dtype=dtype), normal(24, 5, dtype=dtype)

    def loss(params: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((mlp(params, x) - y) ** 2)

    # A gradient in bf16 goes through a dozen roundings.
    check(
        runtime, jax.value_and_grad(loss), params, x, y,
        tolerance=1e-5 if dtype is np.float32 else 4 * BF16_STEP,
    )  # fmt: skip


def test_adam_step(runtime: Runtime) -> None:
    p, g, m, v = normal(30, 20), normal(30, 20), normal(30, 20), np.abs(normal(30, 20))

    def adam(p: jax.Array, g: jax.Array, m: jax.Array, v: jax.Array, t: jax.Array) -> tuple:
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        rate = 1e-2 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        return p - rate * m / (jnp.sqrt(v) + 1e-8), m, v

    check(runtime, adam, p, g, m, v, np.float32(3))


def test_attention_block(runtime: Runtime) -> None:
    x, wq, wk, wv, wo = normal(2, 9, 16), *(normal(16, 16) / 4 for _ in range(4))

    def attention(x: jax.Array, *weights: jax.Array) -> jax.Array:
        *inner, wo = weights
        q, k, v = (jnp.reshape(x @ w, (2, 9, 4, 4)) for w in inner)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2
        scores = jnp.where(jnp.tril(jnp.ones((9, 9), bool)), scores, -1e9)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(2, 9, 16) @ wo

    check(runtime, attention, x, wq, wk, wv, wo)
    check(
        runtime,
        lambda *a: jax.grad(lambda *a: jnp.sum(attention(*a) ** 2), argnums=(0, 1, 4))(*a),
        x, wq, wk, wv, wo,
    )  # fmt: skip


# ---- the compiler's flags ----------------------------------------------------------------------


def test_optimisation_levels_agree(runtime: Runtime) -> None:
    x, w = normal(12, 20), normal(20, 7)
    for flag in ("-O1", "-O2", "-O3", "--enable-fast-loading-neuron-binaries"):
        check(runtime, lambda x, w: jax.nn.softmax(jnp.tanh(x @ w)), x, w, flags=(flag,), what=flag)
