# SPDX-License-Identifier: Apache-2.0
"""Sorts, top-k and windows lowered from JAX equal JAX's CPU backend: orders exactly, sums within
1e-5 of the result's largest magnitude (narrow floats: a few roundings)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from neff_runner import Runtime
from oracle import assert_same, check, compile_bytes, module_of

BF16 = ml_dtypes.bfloat16
BF16_STEP = 2.0**-8
JAX_SUM = 8 * BF16_STEP  # JAX rounds every partial sum of a window, we the total
rng = np.random.default_rng(20261130)
SPECIAL = np.array(
    [np.nan, 3, -0.0, np.inf, 0.0, -1, np.nan, -np.inf, -0.0, 2, 3, 0.0, 1e-30, -1e-30], np.float32
)


def normal(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """Standard normal numbers."""
    return rng.standard_normal(shape).astype(dtype)


def bits(x: jax.Array) -> jax.Array:
    """Makes signs of zeros visible; NaNs alike."""
    return lax.bitcast_convert_type(jnp.where(jnp.isnan(x), jnp.float32(jnp.nan), x), jnp.int32)


# ---- sort --------------------------------------------------------------------------------------


def test_sorts_and_argsorts_along_any_dimension(runtime: Runtime) -> None:
    x = normal(4, 33, 6)
    functions = [
        lambda x: jnp.sort(x), lambda x: jnp.sort(x, axis=0), lambda x: jnp.sort(x, axis=1),
        lambda x: jnp.argsort(x), lambda x: jnp.argsort(x, axis=1),
        lambda x: jnp.sort(x, axis=1, descending=True), lambda x: jnp.sort(x, axis=None),
        lambda x: jnp.argsort(x, axis=0, descending=True), lambda x: jnp.argsort(x, stable=False),
        lambda x: jnp.sort(x[:, ::-2].T, axis=1),
    ]  # fmt: skip
    check(runtime, lambda x: [f(x) for f in functions], x, tolerance=0)


def test_nans_infinities_and_zeros_have_jaxs_places(runtime: Runtime) -> None:
    x = np.concatenate([SPECIAL, normal(20), SPECIAL])
    functions = [
        lambda x: bits(jnp.sort(x)), jnp.argsort, lambda x: jnp.argsort(x, descending=True),
        lambda x: bits(jnp.sort(x, descending=True)), lambda x: jnp.argsort(-x),
    ]  # fmt: skip
    check(runtime, lambda x: [f(x) for f in functions], x)


def test_top_k_of_special_values(runtime: Runtime) -> None:
    x = np.concatenate([SPECIAL, normal(20), SPECIAL])
    for k in (1, 5, 40, x.size):
        check(runtime, lambda x, k=k: [lax.top_k(x, k)[1], bits(lax.top_k(x, k)[0])], x)


def test_ties_keep_their_order(runtime: Runtime) -> None:
    keys, values = rng.integers(0, 5, 2000, dtype=np.int32), np.arange(2000, dtype=np.int32)
    check(runtime, lambda k, v: lax.sort((k, v), num_keys=1), keys, values)
    check(runtime, lambda k, v: lax.sort((k % 3, v), num_keys=1, is_stable=True), keys, values)
    check(runtime, lambda k: [jnp.argsort(k), lax.top_k(k, 300)], keys)


TYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.bool_, np.float16, BF16]


@pytest.mark.parametrize("dtype", TYPES)
def test_keys_of_every_type(runtime: Runtime, dtype: type) -> None:
    x = (rng.integers(-120, 120, (3, 70)) * 5 / 8).astype(np.float32)
    x = (np.abs(x) if np.dtype(dtype).kind == "u" else x).astype(dtype)
    check(
        runtime,
        lambda x: [jnp.sort(x), jnp.argsort(x), jnp.sort(x, axis=0), lax.top_k(x, 7)],
        x, tolerance=0,
    )  # fmt: skip


def test_keys_of_64_bits(runtime: Runtime) -> None:
    with jax.enable_x64(True):
        x = rng.integers(-(2**62), 2**62, (2, 3000), dtype=np.int64) >> rng.integers(0, 60)
        u = x.astype(np.uint64)
        check(runtime, lambda x, u: [jnp.sort(x), jnp.argsort(u), lax.top_k(x, 9)], x, u)


def test_several_keys_and_payloads(runtime: Runtime) -> None:
    a = rng.integers(0, 4, (3, 60)).astype(np.float32)
    b, c = rng.integers(0, 3, (3, 60), dtype=np.int32), normal(3, 60)
    d = normal(3, 60, dtype=BF16)
    a[0, :4] = [np.nan, -0.0, 0.0, np.inf]
    for keys in (1, 2, 3):
        check(
            runtime,
            lambda *xs, keys=keys: lax.sort(xs, num_keys=keys, dimension=1),
            a, b, c, d, tolerance=0,
        )  # fmt: skip
    check(runtime, lambda a, b, c: jnp.lexsort((c, b, a)), a, b, c)


def test_other_comparators(runtime: Runtime) -> None:
    x = normal(3, 40)
    check(runtime, lambda x: lax.approx_max_k(x, 5), x, tolerance=0)
    check(runtime, lambda x: lax.approx_min_k(x, 5), x, tolerance=0)


def test_what_is_made_of_sorts(runtime: Runtime) -> None:
    x, i = normal(5, 31), rng.integers(0, 9, 40, dtype=np.int32)
    check(
        runtime,
        lambda x, i: [
            jnp.median(x, axis=1), jnp.percentile(x, 30, axis=0), jnp.sort(x, axis=1)[:, 3],
            jnp.unique(i, size=9, fill_value=99),
            jnp.searchsorted(jnp.sort(x[0]), x[1], method="sort"),
            jnp.searchsorted(jnp.sort(x[0]), x[1], method="compare_all"),
            jnp.unique_counts(i, size=9).counts, jnp.argsort(jnp.argsort(x[:, 0])),
            jnp.partition(x, 4, axis=1)[:, 4], jnp.isin(i, i[:3]),
        ],
        x, i,
    )  # fmt: skip


def test_gradient_of_a_sort(runtime: Runtime) -> None:
    x, w = normal(4, 12), normal(4, 12)
    check(runtime, jax.grad(lambda x, w: jnp.sum(jnp.sort(x) * w)), x, w)
    check(runtime, jax.grad(lambda x: jnp.sum(lax.top_k(x, 3)[0] ** 2)), x)


def test_sorts_of_few_elements(runtime: Runtime) -> None:
    check(runtime, lambda x: [jnp.sort(x), jnp.argsort(x), lax.top_k(x, 1)], normal(5, 1))
    check(runtime, lambda x: [jnp.sort(x, axis=0), x + 1], normal(1, 7))
    check(runtime, lambda x: [jnp.sort(x[:, :0], axis=1), x.sum()], normal(3, 4))
    check(runtime, lambda x: [lax.top_k(x, 0)[0], x + 1], normal(3, 4))
    check(runtime, lambda x: jnp.sort(x, axis=2), normal(2, 3, 5, 2, 3))
    check(runtime, jnp.sort, normal(70000))


def test_the_top_k_of_the_vendors_frameworks(runtime: Runtime) -> None:
    x = np.concatenate([SPECIAL, normal(50)]).reshape(4, 16)
    rows = jax.ShapeDtypeStruct((4, 5), np.float32), jax.ShapeDtypeStruct((4, 5), np.uint32)

    def call(x: jax.Array) -> list[jax.Array]:
        return jax.ffi.ffi_call(
            "AwsNeuronTopK", rows, custom_call_api_version=2, legacy_backend_config="5"
        )(x)

    model = runtime.load(compile_bytes(module_of(call, x)))
    try:
        values, positions = model.run([x])
    finally:
        model.unload()
    expected = [np.asarray(each) for each in lax.top_k(x, 5)]
    assert_same(values, expected[0], 0, "values")
    assert np.array_equal(positions, expected[1].astype(np.uint32))


# ---- reduce-window -----------------------------------------------------------------------------

POOLS: dict[str, dict[str, object]] = {
    "2x2 valid": {"window": (2, 2), "strides": (2, 2), "padding": "VALID"},
    "3x3 same": {"window": (3, 3), "strides": (1, 1), "padding": "SAME"},
    "3x3 stride 2": {"window": (3, 3), "strides": (2, 2), "padding": "SAME"},
    "2x3 uneven": {"window": (2, 3), "strides": (3, 1), "padding": ((1, 0), (0, 2))},
    "negative padding": {"window": (2, 2), "strides": (1, 2), "padding": ((-1, 0), (2, -2))},
    "dilated window": {"window": (2, 3), "strides": (1, 1), "padding": "SAME", "dilation": (2, 3)},
    "dilated base": {"window": (3, 2), "strides": (2, 1), "padding": "VALID", "base": (2, 3)},
    "global": {"window": (9, 11), "strides": (1, 1), "padding": "VALID"},
}


def pool(x: jax.Array, init: float, op: Callable[..., object], case: dict, layout: str) -> object:
    """One pooling of a 4-d array whose spatial dimensions are H and W of `layout`."""
    at = [layout.index("H"), layout.index("W")]

    def spread(pair: tuple, other: object) -> tuple:
        full: list[object] = [other] * 4
        full[at[0]], full[at[1]] = pair
        return tuple(full)

    padding = case["padding"]
    return lax.reduce_window(
        x,
        np.asarray(init, x.dtype)[()],
        op,
        spread(case["window"], 1),
        spread(case["strides"], 1),
        padding if isinstance(padding, str) else spread(padding, (0, 0)),
        spread(case.get("base", (1, 1)), 1),
        spread(case.get("dilation", (1, 1)), 1),
    )


def pooled_input(layout: str, dtype: type = np.float32) -> np.ndarray:
    """2 images of 9 x 11 with 5 features."""
    sizes = {"N": 2, "C": 5, "H": 9, "W": 11}
    return normal(*(sizes[letter] for letter in layout), dtype=dtype)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "HWNC"])
def test_pooling(runtime: Runtime, layout: str) -> None:
    x = pooled_input(layout)
    for name, case in POOLS.items():
        check(
            runtime,
            lambda x, case=case: [
                pool(x, -np.inf, lax.max, case, layout), pool(x, np.inf, lax.min, case, layout),
                pool(x, 0, lax.add, case, layout), pool(x, 1, lax.mul, case, layout),
            ],
            x, what=name,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [BF16, np.float16, np.int32, np.int8, np.uint8])
def test_pooling_of_other_types(runtime: Runtime, dtype: type) -> None:
    x = np.abs(pooled_input("NHWC") * 3).astype(dtype)
    floats = dtype in (BF16, np.float16)
    low = -np.inf if floats else np.iinfo(dtype).min
    case = POOLS["3x3 stride 2"]
    check(
        runtime,
        lambda x: [pool(x, low, lax.max, case, "NHWC"), pool(x, 0, lax.add, case, "NHWC")],
        x, tolerance=JAX_SUM if floats else 0,
    )  # fmt: skip


GRADIENTS = ["2x2 valid", "3x3 same", "3x3 stride 2", "2x3 uneven", "global"]


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_gradients_of_pooling(runtime: Runtime, layout: str) -> None:
    x = pooled_input(layout)
    for name, op in itertools.product(GRADIENTS, (lax.max, lax.min, lax.add)):
        init = {lax.max: -np.inf, lax.min: np.inf}.get(op, 0.0)
        check(
            runtime,
            jax.grad(
                lambda x, op=op, init=init, name=name: jnp.sum(
                    pool(x, init, op, POOLS[name], layout) ** 2
                )
            ),
            x, what=f"{name} {op.__name__}",
        )  # fmt: skip


def test_gradient_of_max_pooling_with_ties(runtime: Runtime) -> None:
    x = rng.integers(0, 3, (1, 8, 8, 2)).astype(np.float32)
    g = normal(1, 4, 4, 2)

    def loss(x: jax.Array, g: jax.Array) -> jax.Array:
        return jnp.sum(pool(x, -np.inf, lax.max, POOLS["2x2 valid"], "NHWC") * g)

    check(runtime, jax.grad(loss), x, g)
    check(runtime, jax.grad(loss), x.astype(BF16), g.astype(BF16), tolerance=BF16_STEP)


def test_average_pooling_and_its_gradient(runtime: Runtime) -> None:
    def average(x: jax.Array) -> jax.Array:
        case = POOLS["3x3 stride 2"]
        ones = pool(jnp.ones_like(x), 0, lax.add, case, "NHWC")
        return pool(x, 0, lax.add, case, "NHWC") / ones

    x = pooled_input("NHWC")
    check(runtime, average, x)
    check(runtime, jax.grad(lambda x: jnp.sum(average(x) ** 2)), x)


def test_windows_of_pairs(runtime: Runtime) -> None:
    def later(a: tuple, b: tuple) -> tuple:
        first = a[0] >= b[0]
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    x = normal(6, 14)
    check(
        runtime,
        lambda x: lax.reduce_window(
            (x, lax.broadcasted_iota(jnp.int32, x.shape, 1)),
            (jnp.float32(-jnp.inf), jnp.int32(-1)),
            later, (2, 3), (2, 2), "VALID",
        ),
        x,
    )  # fmt: skip


def test_windows_of_unusual_shapes(runtime: Runtime) -> None:
    x = normal(2, 3, 4, 5, 6)
    window, ones = (1, 2, 3, 1, 2), (1,) * 5
    check(
        runtime,
        lambda x: [
            lax.reduce_window(x, 0.0, lax.add, window, (1, 1, 2, 2, 1), "SAME"),
            lax.reduce_window(x, -jnp.inf, lax.max, window, ones, "VALID"),
            lax.reduce_window(x[0, 0, 0, 0], 1.0, lax.add, (3,), (2,), ((2, 2),)),
            lax.reduce_window(x[0, 0, 0, 0], 0.0, lax.add, (9,), (1,), "VALID"),
            lax.reduce_window(x[:, :0, 0, 0, 0], 4.0, lax.add, (1, 2), (1, 1), ((0, 0), (2, 1))),
            lax.reduce_window(x[0, 0, 0, 0, 0], 0.0, lax.add, (), (), ()),
            x.sum(),
        ],
        x,
    )  # fmt: skip


# ---- running folds -----------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_running_folds(runtime: Runtime, reverse: bool) -> None:
    x = normal(3, 40, 5)
    for axis in (0, 1, 2):
        check(
            runtime,
            lambda x, axis=axis: [
                f(x, axis=axis, reverse=reverse)
                for f in (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp)
            ],
            x, what=f"axis {axis}",
        )  # fmt: skip


def test_long_running_folds(runtime: Runtime) -> None:
    x = rng.random(50001, dtype=np.float32)
    check(
        runtime,
        lambda x: [jnp.cumsum(x), lax.cumsum(x, reverse=True), lax.cummax(x), jnp.cumprod(x + 0.5)],
        x,
    )
    check(runtime, lambda x: [lax.cumlogsumexp(x), lax.cumlogsumexp(x, reverse=True)], x[:5000])


def test_running_folds_of_other_types(runtime: Runtime) -> None:
    i, b = rng.integers(-50, 50, (4, 300), dtype=np.int32), normal(4, 300, dtype=BF16)
    check(
        runtime,
        lambda i: [
            jnp.cumsum(i, axis=1), lax.cummax(i, axis=1), lax.cummin(i, axis=0, reverse=True),
            jnp.cumsum(i > 0, axis=1), jnp.cumprod(i, axis=1),
            jnp.cumsum(i.astype(jnp.int8), axis=1),
        ],
        i,
    )  # fmt: skip
    check(runtime, lambda b: [jnp.cumsum(b, axis=1), lax.cummax(b, axis=1)], b, tolerance=JAX_SUM)


def test_gradients_of_running_folds(runtime: Runtime) -> None:
    x, w = normal(3, 20), normal(3, 20)
    check(runtime, jax.grad(lambda x, w: jnp.sum(jnp.cumsum(x, axis=1) * w)), x, w)
    check(runtime, jax.grad(lambda x, w: jnp.sum(lax.cumlogsumexp(x, axis=1) * w)), x, w)


# ---- scalar functions --------------------------------------------------------------------------

FUNCTIONS = {
    "acos": jnp.arccos, "asin": jnp.arcsin, "atan": jnp.arctan, "sinh": jnp.sinh,
    "cosh": jnp.cosh, "asinh": jnp.arcsinh, "acosh": jnp.arccosh, "atanh": jnp.arctanh,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.float16])
def test_inverse_and_hyperbolic_functions(runtime: Runtime, dtype: type) -> None:
    x = np.concatenate([np.linspace(-1, 1, 41), [0.0, -0.0, 2, -3, 10, np.inf, -np.inf, np.nan]])
    check(
        runtime,
        lambda x: [f(x) for f in FUNCTIONS.values()],
        x.astype(dtype),
        tolerance=1e-5 if dtype is np.float32 else BF16_STEP,
        what=f"one of {list(FUNCTIONS)}",
    )


F8 = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3]


@pytest.mark.parametrize("dtype", F8)
def test_elementwise_operations_of_8_bit_floats(runtime: Runtime, dtype: type) -> None:
    codes = np.arange(256, dtype=np.uint8).view(dtype)
    other = np.random.default_rng(3).permutation(codes)
    check(
        runtime,
        lambda a, b: [
            a + b, a * b, a - b, jnp.maximum(a, b), -a, jnp.abs(a), jnp.where(a < b, a, b),
            a.astype(jnp.float32), a.astype(jnp.bfloat16), a == b, jnp.sort(a),
        ],
        codes, other, tolerance=0,
    )  # fmt: skip
