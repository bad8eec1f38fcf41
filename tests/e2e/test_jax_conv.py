# SPDX-License-Identifier: Apache-2.0
"""Convolutions and what nets are made of them, lowered from JAX, against JAX's CPU backend.

f32 within 1e-5 of the result's largest magnitude (training steps: 1e-4), bf16 and f16 within one
rounding of the same, integers exactly. cholesky and triangular-solve come to JAX's CPU backend as
calls of LAPACK: their modules are made by hand and compared with numpy.linalg.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax._src.lib import _jax as _xla
from neff_runner import Runtime
from oracle import assert_same, check, compile_bytes

BF16 = ml_dtypes.bfloat16
mlir = _xla.mlir
STEP = {np.float32: 1e-5, BF16: 2.0**-8, np.float16: 2.0**-10}
rng = np.random.default_rng(20260202)
NHWC = ("NHWC", "HWIO", "NHWC")
NCHW = ("NCHW", "OIHW", "NCHW")
Arrays = dict[str, np.ndarray]


def normal(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """Standard normal numbers."""
    return rng.standard_normal(shape).astype(dtype)


def conv(numbers: tuple[str, str, str], **options: Any) -> Callable[..., jax.Array]:
    """A convolution of two arrays; stride 1 and VALID unless told."""
    strides = options.pop("window_strides", (1,) * (len(numbers[0]) - 2))
    padding = options.pop("padding", "VALID")

    def run(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(
            x, w, strides, padding, dimension_numbers=numbers, **options
        )

    return run


def with_gradients(f: Callable[..., jax.Array]) -> Callable[..., object]:
    """The result and the gradients by both operands of a weighted sum of it."""

    def run(x: jax.Array, w: jax.Array, g: jax.Array) -> object:
        y, back = jax.vjp(f, x, w)
        return y, *back(g)

    return run


def check_all(runtime: Runtime, f: Callable[..., jax.Array], x: np.ndarray, w: np.ndarray) -> None:
    """Forward, gradient of the input, gradient of the kernel."""
    y = jax.eval_shape(f, x, w)
    g = normal(*y.shape, dtype=x.dtype.type)
    check(runtime, with_gradients(f), x, w, g, tolerance=STEP[x.dtype.type])


TWO_D = {
    "valid": {},
    "same": {"padding": "SAME"},
    "explicit": {"padding": ((2, 1), (0, 3))},
    "negative": {"padding": ((-1, 2), (1, -2))},
    "strides": {"window_strides": (2, 3), "padding": "SAME"},
    "kernel-dilation": {"rhs_dilation": (2, 1), "padding": "SAME"},
    "input-dilation": {"lhs_dilation": (2, 3), "padding": ((2, 2), (2, 2))},
    "everything": {
        "window_strides": (2, 1), "padding": ((3, -1), (2, 2)),
        "lhs_dilation": (3, 2), "rhs_dilation": (1, 2),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", TWO_D)
@pytest.mark.parametrize("numbers", [NHWC, NCHW], ids=["nhwc", "nchw"])
def test_two_dimensions(runtime: Runtime, name: str, numbers: tuple[str, str, str]) -> None:
    channels_last = numbers is NHWC
    x = normal(2, 9, 11, 5) if channels_last else normal(2, 5, 9, 11)
    w = normal(3, 3, 5, 7) if channels_last else normal(7, 5, 3, 3)
    check_all(runtime, conv(numbers, **TWO_D[name]), x, w)


def test_one_and_three_dimensions(runtime: Runtime) -> None:
    check_all(
        runtime,
        conv(("NWC", "WIO", "NWC"), padding="SAME", window_strides=(2,)),
        normal(3, 33, 6),
        normal(5, 6, 8),
    )
    check_all(
        runtime,
        conv(("NCDHW", "OIDHW", "NCDHW"), padding="SAME", window_strides=(1, 2, 1)),
        normal(2, 3, 5, 6, 7),
        normal(4, 3, 3, 2, 3),
    )


@pytest.mark.parametrize("size", [(2, 8, 8, 64, 40), (1, 28, 28, 24, 24), (8, 5, 5, 300, 16)])
def test_sizes_of_several_tiles(runtime: Runtime, size: tuple[int, ...]) -> None:
    n, h, w, c, f = size
    check_all(runtime, conv(NHWC, padding="SAME"), normal(n, h, w, c), normal(3, 3, c, f))
    check_all(runtime, conv(NCHW, padding="SAME"), normal(n, c, h, w), normal(f, c, 3, 3))


@pytest.mark.parametrize("groups", [2, 6])
def test_groups(runtime: Runtime, groups: int) -> None:
    f = conv(NHWC, padding="SAME", feature_group_count=groups)
    check_all(runtime, f, normal(2, 7, 8, 6), normal(3, 3, 6 // groups, 12))
    f = conv(NCHW, window_strides=(2, 2), feature_group_count=groups)
    check_all(runtime, f, normal(2, 6, 7, 8), normal(12, 6 // groups, 3, 3))


def test_batch_groups(runtime: Runtime) -> None:
    f = conv(NHWC, padding="SAME", batch_group_count=3)
    check(runtime, f, normal(6, 5, 5, 4), normal(3, 3, 4, 9))


def test_pointwise_convolution(runtime: Runtime) -> None:
    check_all(runtime, conv(NHWC), normal(2, 6, 7, 32), normal(1, 1, 32, 20))
    check_all(runtime, conv(NCHW), normal(2, 32, 6, 7), normal(20, 32, 1, 1))
    check_all(runtime, conv(NHWC, window_strides=(2, 2)), normal(2, 6, 7, 32), normal(1, 1, 32, 20))


def test_transposed_convolution(runtime: Runtime) -> None:
    for padding in ("SAME", "VALID"):
        for flip in (False, True):
            check(
                runtime,
                lambda x, w, padding=padding, flip=flip: jax.lax.conv_transpose(
                    x, w, (2, 2), padding, dimension_numbers=NHWC, transpose_kernel=flip
                ),
                normal(2, 5, 6, 4),
                normal(3, 3, 4, 4),
            )


@pytest.mark.parametrize("dtype", [BF16, np.float16])
def test_half_precision(runtime: Runtime, dtype: type) -> None:
    x, w = normal(2, 6, 6, 16, dtype=dtype), normal(3, 3, 16, 8, dtype=dtype)
    check_all(runtime, conv(NHWC, padding="SAME"), x, w)
    wide = conv(NHWC, padding="SAME", preferred_element_type=np.float32)
    check(runtime, wide, x, w)


def test_integers(runtime: Runtime) -> None:
    x = rng.integers(-128, 128, (2, 6, 6, 5)).astype(np.int8)
    w = rng.integers(-128, 128, (3, 3, 5, 4)).astype(np.int8)
    check(runtime, conv(NHWC, padding="SAME", preferred_element_type=np.int32), x, w)


def test_bias_and_activation_join_the_convolution(runtime: Runtime) -> None:
    def layer(x: jax.Array, w: jax.Array, b: jax.Array, y: jax.Array) -> jax.Array:
        return jax.nn.relu(conv(NCHW, padding="SAME")(x, w) + b[:, None, None]) * 2 + y

    check(runtime, layer, normal(2, 4, 7, 9), normal(6, 4, 3, 3), normal(6), normal(2, 6, 7, 9))


def batch_norm(x: jax.Array, scale: jax.Array, offset: jax.Array) -> jax.Array:
    """Over all but the last dimension."""
    mean = x.mean((0, 1, 2))
    variance = ((x - mean) ** 2).mean((0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + offset


def train(loss: Callable[..., jax.Array]) -> Callable[..., object]:
    """One step of gradient descent."""

    def step(parameters: Arrays, *data: jax.Array) -> object:
        value, gradients = jax.value_and_grad(loss)(parameters, *data)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

    return step


def test_training_step_of_a_resnet_block(runtime: Runtime) -> None:
    same = conv(NHWC, padding="SAME")
    down = conv(NHWC, padding="SAME", window_strides=(2, 2))

    def loss(p: Any, x: jax.Array, target: jax.Array) -> jax.Array:
        y = jax.nn.relu(batch_norm(down(x, p["w1"]), p["s1"], p["o1"]))
        y = batch_norm(same(y, p["w2"]), p["s2"], p["o2"])
        y = jax.nn.relu(y + down(x, p["skip"]))
        logits = y.mean((1, 2)) @ p["head"]
        return -(jax.nn.log_softmax(logits) * target).sum(-1).mean()

    parameters = {
        "w1": normal(3, 3, 8, 16) * 0.1, "s1": normal(16), "o1": normal(16),
        "w2": normal(3, 3, 16, 16) * 0.1, "s2": normal(16), "o2": normal(16),
        "skip": normal(1, 1, 8, 16), "head": normal(16, 10),
    }  # fmt: skip
    target = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 4)]
    check(runtime, train(loss), parameters, normal(4, 12, 12, 8), target, tolerance=1e-4)


def test_training_step_of_a_unet_block(runtime: Runtime) -> None:
    same = conv(NCHW, padding="SAME")
    down = conv(NCHW, padding="SAME", window_strides=(2, 2))

    def loss(p: Any, x: jax.Array, target: jax.Array) -> jax.Array:
        left = jax.nn.silu(same(x, p["in"]) + p["b"][:, None, None])
        bottom = jax.nn.silu(same(jax.nn.silu(down(left, p["down"])), p["bottom"]))
        up = jax.lax.conv_transpose(bottom, p["up"], (2, 2), "SAME", dimension_numbers=NCHW)
        both = jnp.concatenate([left, up], axis=1)
        return ((same(both, p["out"]) - target) ** 2).mean()

    parameters = {
        "in": normal(8, 3, 3, 3) * 0.2, "b": normal(8), "down": normal(16, 8, 3, 3) * 0.1,
        "bottom": normal(16, 16, 3, 3) * 0.1, "up": normal(8, 16, 2, 2) * 0.1,
        "out": normal(3, 16, 3, 3) * 0.1,
    }  # fmt: skip
    x, target = normal(2, 3, 16, 12), normal(2, 3, 16, 12)
    check(runtime, train(loss), parameters, x, target, tolerance=1e-4)


# ---- opcodes that JAX's CPU backend has other words for ----------------------------------


def run_module(
    runtime: Runtime, module: bytes, arguments: list[np.ndarray], expected: list[np.ndarray]
) -> None:
    """Compares with values from numpy."""
    model = runtime.load(compile_bytes(module))
    try:
        ours = model.run(arguments)
    finally:
        model.unload()
    assert len(ours) == len(expected)
    for i, (mine, theirs) in enumerate(zip(ours, expected, strict=True)):
        assert_same(mine, theirs.astype(np.float32), 1e-4, f"result {i}")


def tpu_module(function: Callable[..., object], *arguments: np.ndarray) -> bytes:
    """As JAX lowers it where linear algebra are operations, not calls of LAPACK."""
    traced = jax.jit(function, keep_unused=True).trace(*arguments)
    lowered = traced.lower(lowering_platforms=("tpu",))
    return lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()


def test_cholesky(runtime: Runtime) -> None:
    a = rng.standard_normal((3, 20, 20))
    a = (a @ a.swapaxes(1, 2) + 20 * np.eye(20)).astype(np.float32)
    module = tpu_module(lambda a: jax.lax.linalg.cholesky(a), a)
    run_module(runtime, module, [a], [np.linalg.cholesky(a.astype(np.float64))])


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_solve(
    runtime: Runtime, left: bool, lower: bool, transpose: bool, unit: bool
) -> None:
    a = (rng.standard_normal((2, 9, 9)) * 0.2 + 2 * np.eye(9)).astype(np.float32)
    b = normal(2, 9, 150) if left else normal(2, 5, 9)
    module = tpu_module(
        lambda a, b: jax.lax.linalg.triangular_solve(
            a, b, left_side=left, lower=lower, transpose_a=transpose, unit_diagonal=unit
        ),
        a,
        b,
    )
    system = (np.tril if lower else np.triu)(a.astype(np.float64))
    if unit:
        system[:, range(9), range(9)] = 1
    if transpose == left:
        system = system.swapaxes(1, 2)
    x = np.linalg.solve(system, b if left else b.swapaxes(1, 2))
    run_module(runtime, module, [a, b], [x if left else x.swapaxes(1, 2)])


def stablehlo_module(body: str) -> bytes:
    """The module of a StableHLO function body."""
    text = f"module {{ func.func public @main{body} }}"
    made = mlir.mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=True)
    return made.as_serialized_hlo_module_proto()


def test_batch_normalisation(runtime: Runtime) -> None:
    x, dy, scale, offset = normal(4, 6, 5), normal(4, 6, 5), normal(6), normal(6)
    wide = x.astype(np.float64)
    mean, variance = wide.mean((0, 2)), wide.var((0, 2))
    r = 1 / np.sqrt(variance + 0.001)
    normalised = (wide - mean[:, None]) * r[:, None]
    out = normalised * scale[:, None] + offset[:, None]
    t, v = "tensor<4x6x5xf32>", "tensor<6xf32>"
    end = f"({t}, {v}, {v})"
    how = "{epsilon = 0.001 : f32, feature_index = 1 : i64}"
    module = stablehlo_module(
        f"(%x: {t}, %s: {v}, %o: {v}) -> {end} {{ "
        f'%r:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {how} : ({t}, {v}, {v}) -> {end} '
        f"return %r#0, %r#1, %r#2 : {t}, {v}, {v} }}"
    )
    run_module(runtime, module, [x, scale, offset], [out, mean, variance])
    module = stablehlo_module(
        f"(%x: {t}, %s: {v}, %m: {v}, %v: {v}, %g: {t}) -> {end} {{ "
        f'%r:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) {how} : '
        f"({t}, {v}, {v}, {v}, {t}) -> {end} return %r#0, %r#1, %r#2 : {t}, {v}, {v} }}"
    )
    d_scale, d_offset = (dy * normalised).sum((0, 2)), dy.astype(np.float64).sum((0, 2))
    mean_shift = (d_offset / 20)[:, None] + normalised * (d_scale / 20)[:, None]
    dx = (scale * r)[:, None] * (dy - mean_shift)
    arguments = [x, scale, mean.astype(np.float32), variance.astype(np.float32), dy]
    run_module(runtime, module, arguments, [dx, d_scale, d_offset])
