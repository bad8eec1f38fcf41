# SPDX-License-Identifier: Apache-2.0
"""Convolutions and batch normalisation."""

from __future__ import annotations

import jax
import numpy as np
from case import BF16, emit


def convolution(
    name: str,
    lhs: np.ndarray,
    rhs: np.ndarray,
    numbers: tuple[str, str, str],
    *,
    strides: tuple[int, ...] = (),
    padding: tuple[tuple[int, int], ...] = (),
    lhs_dilation: tuple[int, ...] = (),
    rhs_dilation: tuple[int, ...] = (),
    groups: tuple[int, int] = (1, 1),
    result: type | None = None,
    reverse: bool = False,
) -> None:
    """A convolution as JAX's CPU backend computes it. Numbers are small integers: exact sums."""
    axes = lhs.ndim - 2
    strides = strides or (1,) * axes
    padding = padding or ((0, 0),) * axes
    lhs_dilation = lhs_dilation or (1,) * axes
    rhs_dilation = rhs_dilation or (1,) * axes
    dims = jax.lax.conv_dimension_numbers(lhs.shape, rhs.shape, numbers)
    kernel = dims.rhs_spec  # output feature, input feature, spatial
    flipped = np.flip(rhs, kernel[2:]) if reverse else rhs
    value = jax.lax.conv_general_dilated(
        lhs.astype(np.float64),
        flipped.astype(np.float64),
        strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dims,
        groups[0],
        groups[1],
    )
    window = [
        number
        for i in range(axes)
        for number in (
            rhs.shape[kernel[2 + i]],
            strides[i],
            *padding[i],
            rhs_dilation[i],
            lhs_dilation[i],
            int(reverse),
        )
    ]
    flat = [*dims.lhs_spec, kernel[1], kernel[0], *kernel[2:], *dims.out_spec]
    listed = ",".join(map(str, flat))
    emit(
        f"convolution-{name}",
        f"convolution(%0, %1), conv_dims={{{listed}}}, window={{{','.join(map(str, window))}}}, "
        f"groups={{{groups[0]},{groups[1]}}}",
        [lhs, rhs],
        [np.asarray(value).astype(result or lhs.dtype)],
    )


def convolutions() -> None:
    """Layouts, paddings, strides, dilations, groups and element types."""
    own = np.random.default_rng(11)

    def some(*dims: int, dtype: type = np.float32) -> np.ndarray:
        return own.integers(-4, 5, dims).astype(dtype)

    nhwc = ("NHWC", "HWIO", "NHWC")
    nchw = ("NCHW", "OIHW", "NCHW")
    convolution("no-axes", some(3, 4), some(4, 5), ("NC", "IO", "NC"))
    convolution("1d", some(2, 3, 9), some(4, 3, 3), ("NCH", "OIH", "NCH"), padding=((1, 1),))
    convolution("nhwc", some(2, 5, 6, 3), some(3, 2, 3, 4), nhwc, padding=((1, 1), (0, 1)))
    convolution("nchw", some(2, 3, 5, 6), some(4, 3, 3, 2), nchw, strides=(2, 1))
    convolution("negative", some(1, 6, 7, 2), some(2, 2, 2, 3), nhwc, padding=((-1, 2), (0, -2)))
    convolution("dilated", some(1, 2, 8, 9), some(3, 2, 3, 2), nchw, rhs_dilation=(2, 3))
    convolution(
        "transposed",
        some(2, 4, 3, 2),
        some(3, 3, 2, 5),
        nhwc,
        padding=((2, 1), (1, 1)),
        lhs_dilation=(2, 3),
    )
    convolution(
        "all-at-once",
        some(1, 4, 5, 6),
        some(6, 2, 3, 2),
        nchw,
        strides=(2, 1),
        padding=((2, -1), (3, 2)),
        lhs_dilation=(3, 2),
        rhs_dilation=(1, 2),
        groups=(2, 1),
    )
    convolution("reversed", some(1, 5, 5, 2), some(3, 2, 2, 3), nhwc, reverse=True)
    convolution("grouped", some(2, 6, 4, 4), some(9, 2, 3, 3), nchw, groups=(3, 1))
    convolution("depthwise", some(2, 4, 5, 6), some(2, 3, 1, 12), nhwc, groups=(6, 1))
    convolution("batch-groups", some(6, 4, 5, 2), some(3, 3, 2, 9), nhwc, groups=(1, 3))
    convolution("weights", some(2, 6, 6, 3), some(2, 4, 4, 5), ("CHWN", "IHWO", "HWNC"))
    convolution("3d", some(1, 2, 4, 3, 5), some(3, 2, 2, 2, 3), ("NCDHW", "OIDHW", "NCDHW"))
    convolution("padding-only", some(1, 1, 1, 2), some(2, 2, 2, 1), nhwc, padding=((5, 5), (1, 1)))
    convolution("many-terms", some(1, 3, 3, 70), some(3, 3, 70, 2), nhwc)
    convolution("bf16", some(1, 4, 4, 2, dtype=BF16), some(2, 2, 2, 3, dtype=BF16), nhwc)
    convolution(
        "f16-to-f32",
        some(1, 4, 4, 2, dtype=np.float16),
        some(2, 2, 2, 3, dtype=np.float16),
        nhwc,
        result=np.float32,
    )
    convolution(
        "s8-to-s32",
        own.integers(-128, 128, (1, 4, 4, 9)).astype(np.int8),
        own.integers(-128, 128, (3, 3, 9, 2)).astype(np.int8),
        nhwc,
        result=np.int32,
    )


def normalisations() -> None:
    """Batch normalisation from its formulas in f64."""
    own = np.random.default_rng(12)
    x = own.standard_normal((4, 3, 5)).astype(np.float32) * 2 + 1
    dy = own.standard_normal(x.shape).astype(np.float32)
    scale, offset = (own.standard_normal(3).astype(np.float32) for _ in range(2))
    epsilon = np.float32(1e-3)
    text = "".join(f"\\x{byte:02x}" for byte in epsilon.tobytes())
    attributes = f'dimensions={{1}}, epsilon="{text}"'
    wide = x.astype(np.float64)
    mean, variance = wide.mean((0, 2)), wide.var((0, 2))
    column = (slice(None), None)
    r = 1 / np.sqrt(variance + epsilon)
    normalised = (wide - mean[column]) * r[column]
    out = normalised * scale[column] + offset[column]
    f32 = np.float32
    emit(
        "batch-norm-training",
        f"batch-norm-training(%0, %1, %2), {attributes}",
        [x, scale, offset],
        [out.astype(f32), mean.astype(f32), variance.astype(f32)],
        1e-5,
    )
    emit(
        "batch-norm-inference",
        f"batch-norm-inference(%0, %1, %2, %3, %4), {attributes}",
        [x, scale, offset, mean.astype(f32), variance.astype(f32)],
        [out.astype(f32)],
        1e-5,
    )
    d_scale, d_offset = (dy * normalised).sum((0, 2)), dy.astype(np.float64).sum((0, 2))
    n = x.size // 3
    shared = (d_offset / n)[column] + normalised * (d_scale / n)[column]
    dx = (scale * r)[column] * (dy - shared)
    emit(
        "batch-norm-grad",
        f"batch-norm-grad(%0, %1, %2, %3, %4), {attributes}",
        [x, scale, mean.astype(f32), variance.astype(f32), dy],
        [dx.astype(f32), d_scale.astype(f32), d_offset.astype(f32)],
        1e-4,
    )
