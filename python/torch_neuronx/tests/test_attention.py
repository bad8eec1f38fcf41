# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention as one program. Right values: torch on the CPU."""

import pytest
import torch
import torch_neuronx
from compare import DEVICE, agree, close
from torch.nn.functional import scaled_dot_product_attention as sdpa

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
PROGRAM = "aten::_scaled_dot_product_fused_attention_overrideable"


def sample(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape).to(dtype).requires_grad_()


def qkv(
    dtype: torch.dtype = torch.float32,
    queries: int = 5,
    keys: int = 7,
    heads: int = 4,
    shared: int = 1,
) -> tuple[torch.Tensor, ...]:
    return (
        sample(dtype, 2, heads, queries, 8),
        sample(dtype, 2, heads // shared, keys, 8),
        sample(dtype, 2, heads // shared, keys, 6),
    )


def same(function: object, *args: object) -> None:
    """Both agree and the device ran the attention program."""
    dtype = args[0].dtype
    narrow = dtype in (torch.bfloat16, torch.float16)
    tolerance = 1e-2 if narrow else 1e-5
    agree(
        function,
        *args,
        rounded_once=dtype if narrow else None,
        rtol=tolerance,
        atol=tolerance,
    )
    assert PROGRAM in torch_neuronx.get_executed_ops()


@pytest.mark.parametrize("dtype", FLOATS)
def test_plain(dtype: torch.dtype) -> None:
    same(lambda q, k, v: sdpa(q, k, v), *qkv(dtype))
    same(lambda q, k, v: sdpa(q, k, v, scale=0.3), *qkv(dtype))


@pytest.mark.parametrize("queries", [1, 3, 7, 9])
def test_causal_aligns_at_the_first_query(queries: int) -> None:
    same(lambda q, k, v: sdpa(q, k, v, is_causal=True), *qkv(queries=queries))


@pytest.mark.parametrize(
    ("queries", "keys"), [(96, 96), (128, 128), (130, 70), (70, 200), (300, 300), (257, 1)]
)
def test_long_causal_attention_is_done_in_parts(queries: int, keys: int) -> None:
    same(lambda q, k, v: sdpa(q, k, v, is_causal=True), *qkv(queries=queries, keys=keys))
    same(
        lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True),
        *qkv(torch.bfloat16, queries=queries, keys=keys, shared=2),
    )


@pytest.mark.parametrize("shared", [1, 2, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_heads_that_share_keys(shared: int, dtype: torch.dtype) -> None:
    same(
        lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=True),
        *qkv(dtype, shared=shared),
    )


SHAPES = [(2, 4, 5, 7), (2, 1, 5, 7), (1, 1, 1, 7), (5, 7), (1, 4, 5, 1)]


@pytest.mark.parametrize("shape", SHAPES)
def test_masks_of_booleans(shape: tuple[int, ...]) -> None:
    mask = torch.rand(shape) > 0.4
    same(lambda q, k, v, m: sdpa(q, k, v, m), *qkv(), mask)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("learned", [False, True])
def test_masks_of_numbers_and_their_gradients(shape: tuple[int, ...], learned: bool) -> None:
    mask = torch.randn(shape).requires_grad_(learned)
    same(lambda q, k, v, m: sdpa(q, k, v, m), *qkv(), mask)


def test_rows_that_are_masked_off_give_zero() -> None:
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[2] = False
    same(lambda q, k, v, m: sdpa(q, k, v, m), *qkv(), mask)
    numbers = torch.zeros(5, 7).masked_fill(~mask, -float("inf"))
    same(lambda q, k, v, m: sdpa(q, k, v, m), *qkv(), numbers)
    q, k, v = (x.detach().to(DEVICE) for x in qkv())
    assert sdpa(q, k, v, mask.to(DEVICE))[:, :, 2].count_nonzero().item() == 0


def test_layouts_of_projections() -> None:
    x = sample(torch.float32, 2, 5, 3 * 4 * 8)

    def heads(x: torch.Tensor) -> torch.Tensor:
        q, k, v = x.view(2, 5, 3, 4, 8).unbind(2)
        y = sdpa(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return y.transpose(1, 2).reshape(2, 5, 32)

    agree(heads, x, allow=("aten::stack.out", "aten::stack", "aten::cat.out"))


def test_large_scores_stay_finite() -> None:
    agree(lambda q, k, v: sdpa(q, k, v, scale=300.0), *qkv(), rtol=1e-4, atol=1e-4)


def test_other_calls_take_separate_operations() -> None:
    agree(
        lambda q, k, v: sdpa(q, k, v),
        sample(torch.float32, 5, 8),
        *[sample(torch.float32, 7, 8) for _ in range(2)],
    )
    agree(lambda q, k, v: sdpa(q, k, v), *[torch.zeros(1, 2, 0, 8) for _ in range(3)])
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        torch_neuronx.clear_op_tracking()
        q, k, v = (x.detach() for x in qkv())
        close(sdpa(q.to(DEVICE), k.to(DEVICE), v.to(DEVICE)), sdpa(q, k, v))
        assert PROGRAM not in torch_neuronx.get_executed_ops()


def test_a_mask_beside_is_causal_is_refused() -> None:
    q, k, v = (x.detach().to(DEVICE) for x in qkv())
    with pytest.raises(RuntimeError, match="is_causal"):
        sdpa(q, k, v, torch.ones(5, 7, dtype=torch.bool, device=DEVICE), is_causal=True)


def test_multi_head_attention() -> None:
    torch.manual_seed(3)
    cpu = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    device = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    device.load_state_dict(cpu.state_dict())
    device.to(DEVICE)
    x = torch.randn(2, 5, 8)
    ours = device(x.to(DEVICE), x.to(DEVICE), x.to(DEVICE), need_weights=False)[0]
    close(ours, cpu(x, x, x, need_weights=False)[0])
