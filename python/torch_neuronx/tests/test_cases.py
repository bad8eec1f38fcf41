# SPDX-License-Identifier: Apache-2.0
"""Mistakes that other backends made, as users reported them: writes through views, float64, bools,
scatters, copies that outrun their source, checkpoints, autocast, generation. Right values: torch on
the CPU, or by hand where a test says so."""

import copy
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from compare import DEVICE, close
from torch.nn import functional as F

os.environ["HF_HUB_OFFLINE"] = "1"


def test_updates_through_transposed_and_sliced_views() -> None:  # pytorch#118115, #104832
    made = [torch.rand(2, 3).t(), torch.rand(2, 3).t() + 1, torch.rand(2, 3).t() + 1]
    x, y, z = (t.to(DEVICE) for t in made)
    assert x.stride() == (1, 3)
    close(x.addcdiv_(y, z), made[0].addcdiv_(made[1], made[2]))
    wide, square = torch.zeros(8, 16, device=DEVICE), torch.randn(8, 8)
    torch.matmul(square.to(DEVICE), square.to(DEVICE), out=wide[:, 4:12])
    close(wide[:, 4:12], square @ square, rtol=1e-4, atol=1e-4)
    assert wide[:, :4].abs().sum().item() == wide[:, 12:].abs().sum().item() == 0
    grid = torch.arange(25.0).reshape(5, 5)
    for matrix in (grid, on_device := grid.to(DEVICE)):
        matrix[:, :2] += matrix[:, 4:]
        matrix[:, :2].clamp_(0, 20)
        matrix[1:4, ::2].mul_(-1)
        matrix.t()[0].add_(1)
    close(on_device, grid)
    assert on_device[:2].tolist() == [[5, 5, 2, 3, 4], [-13, 15, -7, 8, -9]]  # by hand


def test_float64_data_trains_a_module(run_python: Callable) -> None:  # pytorch#79019
    done = run_python("""
import torch, warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    a = torch.rand(100, dtype=torch.float64)
    b = a.to("neuron") * 3 + 1
    layer = torch.nn.Linear(2, 2).double().to("neuron")
    layer(torch.ones(1, 2, dtype=torch.float64, device="neuron")).sum().backward()
    line = torch.linspace(0, 1, 5, dtype=torch.float64, device="neuron")
torch.testing.assert_close(b.cpu(), a * 3 + 1, atol=1e-6, rtol=1e-6)
assert line.tolist() == [0, 0.25, 0.5, 0.75, 1] and line.dtype == torch.float64
assert torch.arange(0, 1, 0.1, dtype=torch.float64, device="neuron").numel() == 10
assert layer.weight.grad.dtype == torch.float64 and layer.weight.grad.tolist() == [[1, 1], [1, 1]]
print(len([w for w in told if "float64" in str(w.message)]))
""")
    assert done.stdout.strip() == "1", done.stderr


def test_bools_are_summed_as_whole_numbers() -> None:  # pytorch#96614, #79849
    ones = torch.ones(300, dtype=torch.bool, device=DEVICE)
    assert ones[:256].any().item() and ones.float().mean().item() == 1
    assert torch.count_nonzero(~ones).item() == 0


def test_repeated_indices_are_accumulated() -> None:  # index_put kept one of them
    rows = torch.zeros(8, 3, device=DEVICE)
    index = torch.tensor([5, 5, 5, 7], device=DEVICE)
    values = torch.tensor([1.0, 10.0, 100.0, 7.0], device=DEVICE)[:, None].expand(4, 3)
    rows.index_put_((index,), values, accumulate=True)
    assert rows[5].tolist() == [111] * 3 and rows[7].tolist() == [7] * 3
    rows[rows > 50] = -1
    assert rows[5].tolist() == [-1] * 3
    embedding = torch.nn.Embedding(8, 3).to(DEVICE)
    embedding(torch.tensor([[2, 2], [2, 6]], device=DEVICE)).sum().backward()
    assert embedding.weight.grad[:, 0].tolist() == [0, 0, 3, 0, 0, 0, 1, 0]


def test_copies_do_not_outrun_their_source() -> None:  # pytorch#130785, #127612
    x = torch.zeros(1 << 20, device=DEVICE)
    for i in range(10):
        x.add_(1)
        host = x.to("cpu", non_blocking=True)
        torch.neuron.synchronize()
        assert host[0] == host[-1] == i + 1
        assert x.add(1).cpu()[-1] == i + 2

    def sent() -> torch.Tensor:  # the host's tensor dies as soon as it is sent
        return torch.full((1 << 20,), 7.0).to(DEVICE, non_blocking=True)

    tensors = [sent() for _ in range(4)]
    others = [torch.full((1 << 20,), -1.0) for _ in range(4)]
    assert all((y == 7).all().item() for y in tensors) and len(others) == 4


def test_checkpoints_are_read_without_the_backend(  # pytorch#123072, #62273
    tmp_path: Path, run_python: Callable
) -> None:
    t = torch.arange(6.0, device=DEVICE)
    net = torch.nn.Linear(3, 2).to(DEVICE)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(1, 3, device=DEVICE)).sum().backward()
    optimizer.step()
    file = tmp_path / "checkpoint.pt"
    torch.save({"m": net.state_dict(), "o": optimizer.state_dict(), "v": (t, t[2:4])}, file)
    whole, part = torch.load(file, map_location="cpu", weights_only=True)["v"]
    part.fill_(9)
    assert whole.tolist() == [0, 1, 9, 9, 4, 5]
    back = torch.load(file, weights_only=True)
    assert back["v"][1].device == t.device and back["v"][1].tolist() == [2, 3]
    optimizer.load_state_dict(back["o"])
    optimizer.step()
    done = run_python(
        f"import torch; d = torch.load({str(file)!r}, map_location='cpu', weights_only=True)\n"
        "print(d['v'][0].sum().item(), d['m']['weight'].device)",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert done.stdout.split() == ["15.0", "cpu"], done.stderr


def test_autocast_has_the_lists_of_cuda_and_can_be_left() -> None:
    w = torch.randn(4, 4, device=DEVICE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            a = w @ w
            assert a.dtype == F.linear(w, w).dtype == torch.bfloat16
            assert w.dtype == torch.float32
            wide = (a.softmax(-1), a.sum(), a.exp(), F.layer_norm(a, (4,)), F.mse_loss(a, w))
            assert {x.dtype for x in wide} == {torch.float32}
            with torch.autocast(DEVICE, enabled=False):
                assert (w @ w).dtype == torch.float32


@pytest.mark.filterwarnings("ignore")
def test_later_requests_generate_what_the_first_did() -> None:  # a stale key-value cache
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    cpu = transformers.LlamaForCausalLM(config).eval()
    device = copy.deepcopy(cpu).to(DEVICE)
    ids = torch.tensor([[0, 0, 5, 6, 7], [9, 10, 11, 12, 13]])  # padded on the left
    mask = (ids != 0).long()
    options = {"max_new_tokens": 24, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    expected = cpu.generate(ids, attention_mask=mask, **options).tolist()
    for more in ({}, {}, {"use_cache": False}):
        tokens = device.generate(ids.to(DEVICE), attention_mask=mask.to(DEVICE), **options, **more)
        assert tokens.tolist() == expected


def test_rotary_embeddings_of_a_model_under_autocast() -> None:  # diffusers#13920
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    rotary = LlamaRotaryEmbedding(transformers.LlamaConfig(hidden_size=32, num_attention_heads=4))
    positions = torch.arange(65536, 65544)[None]  # in bf16 they would be one
    x = torch.zeros(1, 8, 8, dtype=torch.bfloat16)
    expected, _ = rotary(x, positions)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        cos, _ = copy.deepcopy(rotary).to(DEVICE)(x.to(DEVICE), positions.to(DEVICE))
    close(cos.float(), expected.float(), rtol=1e-2, atol=1e-2)
    assert len(set(cos[0, :, 0].tolist())) == 8
