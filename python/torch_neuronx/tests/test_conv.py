# SPDX-License-Identifier: Apache-2.0
"""Convolution, pooling and resampling, forward and backward. Right values: torch on the CPU."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compare import DEVICE, agree, close, nothing_falls_back


def sample(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype).requires_grad_()


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stride": {"stride": 2},
    "stride that leaves a rest": {"stride": 3, "padding": 1},
    "padding": {"padding": 2},
    "dilation": {"dilation": 2, "padding": 1},
    "groups": {"groups": 2},
    "all": {"stride": 2, "padding": 1, "dilation": 2, "groups": 2},
}
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kwargs", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
def test_convolution(kwargs: dict[str, Any], rank: int) -> None:
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    groups = kwargs.get("groups", 1)
    x, w = sample(2, 4, *(9, 8, 7)[:rank]), sample(6, 4 // groups, *(3, 2, 3)[:rank])
    agree(lambda x, w, b: function(x, w, b, **kwargs), x, w, sample(6), **TOLERANCE)
    agree(lambda x, w: function(x, w, **kwargs), x[0].detach(), w, **TOLERANCE)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kwargs", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
def test_transposed_convolution(kwargs: dict[str, Any], rank: int) -> None:
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
    if kwargs.get("stride", 1) > 1:
        kwargs = {**kwargs, "output_padding": 1}
    groups = kwargs.get("groups", 1)
    x, w = sample(2, 4, *(5, 4, 3)[:rank]), sample(4, 6 // groups, *(3, 2, 3)[:rank])
    agree(lambda x, w, b: function(x, w, b, **kwargs), x, w, sample(6), **TOLERANCE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_convolution_of_other_types(dtype: torch.dtype) -> None:
    x, w, b = (
        sample(2, 3, 8, 8, dtype=dtype),
        sample(4, 3, 3, 3, dtype=dtype),
        sample(4, dtype=dtype),
    )
    tolerance = TOLERANCE if dtype == torch.float64 else {"rtol": 2e-2, "atol": 6e-2}
    agree(lambda x, w, b: F.conv2d(x, w, b, padding=1), x, w, b, **tolerance)


def test_convolution_of_whole_numbers_is_exact() -> None:
    x = torch.randint(-(2**40), 2**40, (2, 4, 6, 6))
    w, b = torch.randint(-9, 9, (6, 2, 3, 3)), torch.arange(6)
    agree(lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=2), x, w, b)
    agree(lambda x, w: F.conv_transpose2d(x, w, stride=2), x, w[:4])


def test_depthwise_and_only_some_gradients() -> None:
    x, w = sample(2, 6, 7, 7), sample(6, 1, 3, 3)
    agree(lambda x, w: F.conv2d(x, w, padding=1, groups=6), x, w, **TOLERANCE)
    agree(lambda x, w: F.conv2d(x, w), x.detach(), sample(2, 6, 3, 3), **TOLERANCE)
    agree(lambda x, w: F.conv2d(x, w), x, torch.randn(2, 6, 3, 3), **TOLERANCE)


def test_channels_last_is_kept() -> None:
    net = torch.nn.Conv2d(3, 5, 3, padding=1)
    x = torch.randn(2, 3, 6, 6).contiguous(memory_format=torch.channels_last)
    wanted = net(x)
    with nothing_falls_back():
        y = net.to(DEVICE)(x.to(DEVICE))
    assert y.is_contiguous(memory_format=torch.channels_last)
    close(y, wanted, **TOLERANCE)


POOLS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "max": (lambda x: F.max_pool2d(x, 2), (2, 3, 7, 8)),
    "max with overlap": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 7, 8)),
    "max, all else": (
        lambda x: F.max_pool2d(x, (2, 3), (2, 1), (1, 1), (2, 1), ceil_mode=True),
        (1, 2, 9, 8),
    ),
    "max 1d": (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 9)),
    "max 3d": (lambda x: F.max_pool3d(x, 2, ceil_mode=True), (1, 2, 5, 4, 6)),
    "max of one picture": (lambda x: F.max_pool2d(x, 2), (3, 6, 6)),
    "average": (lambda x: F.avg_pool2d(x, 2), (2, 3, 6, 8)),
    "average with padding": (lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 3, 7, 8)),
    "average without padding's count": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        (2, 3, 8, 7),
    ),
    "average by a divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), (1, 2, 4, 4)),
    "average 1d": (lambda x: F.avg_pool1d(x, 3, 2), (2, 3, 9)),
    "average 3d": (lambda x: F.avg_pool3d(x, 2, ceil_mode=True), (1, 2, 5, 4, 6)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), (2, 3, 7, 5)),
    "adaptive to one": (lambda x: F.adaptive_avg_pool2d(x, 1), (2, 3, 7, 5)),
    "adaptive 3d": (lambda x: F.adaptive_avg_pool3d(x, 2), (1, 3, 3, 5, 4)),
}


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS.keys())
def test_pooling(pool: tuple[Any, tuple[int, ...]]) -> None:
    function, shape = pool
    agree(function, sample(*shape))
    if len(shape) < 5:  # torch's CPU kernels of three dimensions have no bfloat16
        agree(function, sample(*shape, dtype=torch.bfloat16), rtol=2e-2, atol=2e-2)


def test_positions_of_the_greatest_are_those_of_the_cpu() -> None:
    x = torch.randint(0, 3, (2, 2, 6, 7)).float()
    x[0, 0, 1, 1] = float("nan")
    x[1, 1] = -float("inf")
    agree(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)
    agree(lambda x: F.avg_pool2d(x, 2), x)
    agree(lambda x: F.adaptive_avg_pool2d(x, 3), x)


def test_pooling_is_undone() -> None:
    def undone(x: torch.Tensor) -> torch.Tensor:
        y, where = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y, where, 2)

    agree(undone, torch.randn(2, 3, 6, 4))


RESAMPLED: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "nearest 1d": ({"scale_factor": 2.5}, (2, 3, 5)),
    "nearest": ({"size": (7, 3)}, (2, 3, 5, 4)),
    "nearest 3d": ({"scale_factor": 2}, (1, 2, 3, 2, 3)),
    "nearest exact": ({"size": (7, 3), "mode": "nearest-exact"}, (2, 3, 5, 4)),
    "linear": ({"scale_factor": 1.7, "mode": "linear"}, (2, 3, 5)),
    "bilinear": ({"size": (7, 3), "mode": "bilinear"}, (2, 3, 5, 4)),
    "bilinear between corners": (
        {"scale_factor": 2, "mode": "bilinear", "align_corners": True},
        (2, 3, 5, 4),
    ),
    "bicubic": ({"size": (7, 9), "mode": "bicubic"}, (2, 3, 5, 4)),
    "trilinear": ({"scale_factor": (2, 1, 0.5), "mode": "trilinear"}, (1, 2, 3, 4, 4)),
}


@pytest.mark.parametrize("case", RESAMPLED.values(), ids=RESAMPLED.keys())
def test_resampling(case: tuple[dict[str, Any], tuple[int, ...]]) -> None:
    kwargs, shape = case
    agree(lambda x: F.interpolate(x, **kwargs), sample(*shape), **TOLERANCE)
    agree(
        lambda x: F.interpolate(x, **kwargs),
        sample(*shape, dtype=torch.bfloat16),
        rtol=2e-2,
        atol=2e-2,
    )
