# SPDX-License-Identifier: Apache-2.0
"""Softmax, losses, normalisation and embedding. Right values: torch on the CPU."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from compare import agree, close

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
REDUCTIONS = ["none", "mean", "sum"]


def sample(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape).to(dtype).requires_grad_()


# ---- softmax ----

SOFTMAX = {
    "softmax": lambda x: x.softmax(-1),
    "along the first": lambda x: x.softmax(0),
    "of a view": lambda x: x.transpose(0, 2)[1:].softmax(1),
    "as float": lambda x: x.softmax(1, dtype=torch.float32),
    "log_softmax": lambda x: x.log_softmax(1),
    "log_softmax of large numbers": lambda x: (x * 100).log_softmax(2),
    "safe softmax": lambda x: torch._safe_softmax(x, 1),
}


@pytest.mark.parametrize("function", SOFTMAX.values(), ids=SOFTMAX.keys())
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(function: Callable, dtype: torch.dtype) -> None:
    # The CPU rounds intermediate results of bfloat16 gradients.
    loose = {"rtol": 2e-2, "atol": 3e-2} if dtype == torch.bfloat16 else {}
    agree(function, sample(dtype, 4, 5, 3), **loose)


def test_softmax_of_infinities_and_of_nothing() -> None:
    inf = float("inf")
    x = torch.tensor([[-inf, -inf], [-inf, 1.0], [inf, 1.0], [float("nan"), 0]])
    agree(lambda x: (x.softmax(1), x.log_softmax(1), torch._safe_softmax(x, 1)), x)
    agree(lambda x: (x.softmax(0), x.log_softmax(0)), torch.tensor(3.0))
    agree(lambda x: (x.softmax(0), x.softmax(1)), torch.zeros(0, 3))


# ---- classes ----


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_cross_entropy(reduction: str, weighted: bool, dtype: torch.dtype) -> None:
    weight = torch.rand(7).to(dtype) if weighted else None
    target = torch.tensor([0, 6, 3, -100, 2, 3])
    loose = {"rtol": 2e-2, "atol": 5e-2} if dtype == torch.bfloat16 else {}
    agree(
        lambda x, w, t: F.cross_entropy(x, t, w, reduction=reduction),
        sample(dtype, 6, 7),
        weight,
        target,
        **loose,
    )
    agree(
        lambda x, w, t: F.cross_entropy(
            x, t, w, reduction=reduction, ignore_index=3, label_smoothing=0.1
        ),
        sample(dtype, 6, 7),
        weight,
        target.clamp_min(0),
        # Label smoothing with weights selects by mask: a size that depends on the data.
        allow=("aten::masked_select", "aten::gather.out"),
        **loose,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_loss_of_images(reduction: str, weighted: bool) -> None:
    weight = torch.rand(4) if weighted else None
    agree(
        lambda x, w, t: F.nll_loss(x.log_softmax(1), t, w, reduction=reduction, ignore_index=2),
        sample(torch.float32, 2, 4, 3, 5),
        weight,
        torch.randint(0, 4, (2, 3, 5)),
    )


def test_nll_loss_at_the_edges() -> None:
    ignored = torch.full((3,), -100)
    agree(lambda x, t: F.nll_loss(x, t), sample(torch.float32, 3, 4), ignored)
    agree(lambda x, t: F.nll_loss(x, t, reduction="sum"), sample(torch.float32, 3, 4), ignored)
    agree(lambda x, t: F.nll_loss(x, t), sample(torch.float32, 4), torch.tensor(2))
    none = torch.zeros(0, dtype=torch.int64)
    agree(lambda x, t: F.nll_loss(x, t), torch.zeros(0, 4), none)
    agree(lambda x, t: F.nll_loss(x, t, reduction="none"), torch.zeros(0, 4), none)


def test_cross_entropy_with_probabilities() -> None:
    target = torch.rand(6, 7).softmax(1)
    agree(lambda x, t: F.cross_entropy(x, t), sample(torch.float32, 6, 7), target)


# ---- losses element by element ----

LOSSES = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth l1": F.smooth_l1_loss,
    "smooth l1 of a small beta": lambda x, t, **k: F.smooth_l1_loss(x, t, beta=0.1, **k),
    "smooth l1 of no beta": lambda x, t, **k: F.smooth_l1_loss(x, t, beta=0.0, **k),
    "huber": lambda x, t, **k: F.huber_loss(x, t, delta=0.5, **k),
    "kl_div": lambda x, t, **k: F.kl_div(x, t.abs(), **k),
    "kl_div of logarithms": lambda x, t, **k: F.kl_div(x, t, log_target=True, **k),
    "bce": lambda x, t, **k: F.binary_cross_entropy(x.sigmoid(), t.detach().sigmoid(), **k),
    "bce with a weight": lambda x, t, **k: F.binary_cross_entropy(
        x.sigmoid(), t.detach().sigmoid(), t.detach().abs(), **k
    ),
    "bce with logits": F.binary_cross_entropy_with_logits,
    "bce with logits and weights": lambda x, t, **k: F.binary_cross_entropy_with_logits(
        x, t, t.detach().abs(), pos_weight=t.detach().sum(0).exp(), **k
    ),
    "soft margin": lambda x, t, **k: F.soft_margin_loss(x, t.sign(), **k),
    "poisson": lambda x, t, **k: F.poisson_nll_loss(x, t.abs(), full=True, **k),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses(loss: Callable, reduction: str) -> None:
    target = torch.randn(4, 5)
    agree(lambda x, t: loss(x, t, reduction=reduction), sample(torch.float32, 4, 5), target)
    agree(lambda x, t: loss(x, t, reduction=reduction), torch.zeros(0, 5), torch.zeros(0, 5))


@pytest.mark.parametrize("dtype", FLOATS)
def test_losses_of_every_type(dtype: torch.dtype) -> None:
    target = torch.randn(4, 5).to(dtype)
    loose = {"rtol": 2e-2, "atol": 3e-2} if dtype == torch.bfloat16 else {}
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        agree(loss, sample(dtype, 4, 5), target, **loose)


def test_xlogy_and_logit() -> None:
    x = torch.tensor([0.0, 0.0, 2.0, -1.0, 0.5])
    y = torch.tensor([0.0, float("nan"), 3.0, 0.0, 0.25])
    agree(
        lambda x, y: (torch.xlogy(x, y), torch.special.xlog1py(x, y), torch.special.entr(x)), x, y
    )
    inside = torch.tensor([0.1, 0.5, 0.9]).requires_grad_()
    agree(lambda x: (x.logit(), x.logit(0.2)), inside)


# ---- normalisation ----


def normalised(function: Callable, dtype: torch.dtype, *args: object) -> None:
    # The CPU keeps statistics of bfloat16 inputs in bfloat16; the device in float32.
    narrow = dtype in (torch.bfloat16, torch.float16)
    agree(
        function,
        *args,
        rounded_once=dtype if narrow else None,
        rtol=1e-2 if narrow else 1e-4,
        atol=2e-2 if narrow else 1e-5,
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(dtype: torch.dtype, affine: bool) -> None:
    x = sample(dtype, 3, 4, 5)
    weight, bias = (sample(dtype, 4, 5), sample(dtype, 4, 5)) if affine else (None, None)
    normalised(lambda x, w, b: F.layer_norm(x, (4, 5), w, b), dtype, x, weight, bias)
    normalised(lambda x: F.layer_norm(x.transpose(0, 1), (5,), eps=0.1), dtype, x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rms_norm(dtype: torch.dtype) -> None:
    x, weight = sample(dtype, 3, 4, 5), sample(dtype, 5)
    normalised(lambda x, w: F.rms_norm(x, (5,), w, eps=1e-5), dtype, x, weight)
    normalised(lambda x: F.rms_norm(x, (4, 5), eps=1e-3), dtype, x)


def test_fused_rms_norm() -> None:
    x, weight = sample(torch.float32, 3, 4, 5), sample(torch.float32, 5)
    agree(lambda x, w: torch._fused_rms_norm(x, (5,), w, 1e-5)[0], x, weight)
    agree(lambda x: torch._fused_rms_norm(x, (4, 5), None, None)[0], x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_group_norm(dtype: torch.dtype, groups: int) -> None:
    x, weight, bias = sample(dtype, 2, 6, 3, 5), sample(dtype, 6), sample(dtype, 6)
    normalised(lambda x, w, b: F.group_norm(x, groups, w, b), dtype, x, weight, bias)
    normalised(lambda x: F.group_norm(x, groups), dtype, x)


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_batch_norm_in_training_and_evaluation(
    shape: tuple[int, ...], affine: bool, dtype: torch.dtype
) -> None:
    x = sample(dtype, *shape)
    weight, bias = (sample(dtype, 3), sample(dtype, 3)) if affine else (None, None)

    def run(x: torch.Tensor, w: torch.Tensor | None, b: torch.Tensor | None) -> object:
        mean = torch.zeros(3, device=x.device)
        variance = torch.ones(3, device=x.device)
        once = F.batch_norm(x, mean, variance, w, b, training=True, momentum=0.3)
        after = F.batch_norm(x, mean, variance, w, b, training=False)
        alone = F.batch_norm(x, None, None, w, b, training=True)
        return once, after, alone, mean, variance

    normalised(run, dtype, x, weight, bias)


def test_modules_of_batch_norm_agree_over_steps() -> None:
    torch.manual_seed(1)
    cpu = torch.nn.BatchNorm1d(4)
    device = torch.nn.BatchNorm1d(4).to("neuron")
    for _ in range(3):
        x = torch.randn(6, 4) * 2 + 1
        cpu(x), device(x.to("neuron"))
    cpu.eval(), device.eval()
    close(device(x.to("neuron")), cpu(x))
    for ours, theirs in zip(device.buffers(), cpu.buffers(), strict=True):
        close(ours, theirs)


def test_instance_norm() -> None:
    x = sample(torch.float32, 2, 3, 4, 5)
    normalised(lambda x: F.instance_norm(x), torch.float32, x)


# ---- embedding ----


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding(dtype: torch.dtype, by_frequency: bool) -> None:
    index = torch.tensor([[1, 4, 1], [0, 2, 1]])
    for of_type in (torch.int64, torch.int32):
        agree(
            lambda w, i: F.embedding(i, w, padding_idx=4, scale_grad_by_freq=by_frequency),
            sample(dtype, 5, 3),
            index.to(of_type),
        )


def test_embedding_of_nothing_and_of_one() -> None:
    weight = sample(torch.float32, 5, 3)
    agree(lambda w, i: F.embedding(i, w), weight, torch.zeros(0, 2, dtype=torch.int64))
    agree(lambda w, i: F.embedding(i, w), weight, torch.tensor(3))
    agree(
        lambda w, i: F.embedding(i[:, 1], w[1:].t().contiguous()), weight, torch.ones(2, 3).long()
    )
