# SPDX-License-Identifier: Apache-2.0
"""What people reported of other backends, as tests of ours. Right values: torch on the CPU."""

import copy
import os
from collections.abc import Callable

import pytest
import torch
import torch_neuronx
from torch.nn import functional as F

DEVICE = "neuron"


def equal(device: torch.Tensor, cpu: torch.Tensor, **tolerances: float) -> None:
    torch.testing.assert_close(device.detach().cpu(), cpu.detach(), **tolerances)


def test_rand_moves_to_a_numbered_device() -> None:  # pytorch#134293, #144845
    x = torch.rand(1, 4)
    equal(x.to("neuron:0"), x)


def test_without_autoload_the_name_is_refused_clearly(run_python: Callable) -> None:
    done = run_python(
        "import torch; torch.ones(1, device='neuron')", TORCH_DEVICE_BACKEND_AUTOLOAD="0"
    )
    assert "neuron" in done.stderr and done.returncode == 1


def test_pinned_memory_of_a_generator_ends_cleanly(run_python: Callable) -> None:
    # pytorch#147066, #159740: a crash at exit.
    script = """
import torch
def batches():
    while True:
        yield torch.ones(1000).pin_memory()
for number, batch in enumerate(batches()):
    assert batch.is_pinned()
    y = batch.to("neuron", non_blocking=True) + number
    if number == 20:
        break
print(y.sum().item())
"""
    done = run_python(script)
    assert done.returncode == 0 and done.stdout.strip() == "21000.0", done.stderr


def test_int64_indices_and_values_are_exact() -> None:  # aws-neuron-sdk#937
    values = torch.tensor([2**31 + 7, -(2**40) - 1, 2**62 + 5, 3])
    index = torch.tensor([2, 0, 3, 1, 2])
    device = values.to(DEVICE)
    equal(device[index.to(DEVICE)], values[index])
    equal(device.index_select(0, index.to(DEVICE)), values.index_select(0, index))
    equal(device.gather(0, index.to(DEVICE)), values.gather(0, index))


def test_int64_indices_run_what_int32_indices_run() -> None:  # gather was 291 to 731 times slower
    table = torch.randn(50, 7)
    wide = torch.tensor([3, 49, 0, 3])
    done = {}
    for index in (wide, wide.int()):
        torch_neuronx.clear_op_tracking()
        found = table.to(DEVICE).index_select(0, index.to(DEVICE)).cpu()
        equal(found, table.index_select(0, index))
        done[index.dtype] = torch_neuronx.get_executed_ops()
        assert torch_neuronx.get_fallback_ops() == []
    assert done[torch.int64] == done[torch.int32]


def test_masked_assignment_of_a_flipped_selection() -> None:  # aws-neuron-sdk#1381
    generator = torch.Generator().manual_seed(5)
    for _ in range(200):
        cpu = torch.randn(12, generator=generator)
        mask = torch.rand(12, generator=generator) > 0.5
        device, device_mask = cpu.to(DEVICE), mask.to(DEVICE)
        cpu[mask] = cpu[mask].flip(-1)
        device[device_mask] = device[device_mask].flip(-1)
        equal(device, cpu)


def test_masked_select_takes_an_expanded_mask() -> None:
    x = torch.randn(5, 3)
    mask = torch.tensor([True, False, True, True, False])
    expected = torch.masked_select(x, mask.view(-1, 1).expand(-1, 3))
    equal(torch.masked_select(x.to(DEVICE), mask.to(DEVICE).view(-1, 1).expand(-1, 3)), expected)


def test_two_thousand_parameters_take_a_step_at_once() -> None:
    generator = torch.Generator().manual_seed(6)
    cpu = [torch.randn(3, generator=generator).requires_grad_() for _ in range(2000)]
    device = [p.detach().to(DEVICE).requires_grad_() for p in cpu]
    for parameters in (cpu, device):
        optimizer = torch.optim.Adam(parameters, lr=0.1)
        for p in parameters:
            p.grad = p.detach() * 2
        optimizer.step()
    equal(torch.stack(device), torch.stack(cpu), rtol=1e-4, atol=1e-5)


def test_what_runs_on_the_host_is_listed() -> None:  # an op ran 5,500 times slower, unnoticed
    torch_neuronx.clear_op_tracking()
    with pytest.warns(UserWarning, match="runs on the CPU"):
        torch.linalg.svd(torch.randn(3, 3, device=DEVICE))
    assert any("svd" in name for name in torch_neuronx.get_fallback_ops())


@pytest.mark.parametrize("queries", [1, 3, 8])
def test_causal_attention_aligns_as_on_the_cpu(queries: int) -> None:
    q, k, v = torch.randn(2, 4, queries, 8), torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    got = F.scaled_dot_product_attention(*(x.to(DEVICE) for x in (q, k, v)), is_causal=True)
    equal(got, expected, rtol=1e-4, atol=1e-5)


def _yolos() -> tuple[torch.nn.Module, torch.Tensor]:
    import transformers

    config = transformers.YolosConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=[16, 16], patch_size=4, num_detection_tokens=4,
    )  # fmt: skip
    return transformers.YolosModel(config), torch.randn(1, 3, 16, 16)


def _wav2vec2() -> tuple[torch.nn.Module, torch.Tensor]:
    import transformers

    config = transformers.Wav2Vec2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        conv_dim=[16, 16], conv_stride=[4, 4], conv_kernel=[8, 4], num_feat_extract_layers=2,
        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    return transformers.Wav2Vec2Model(config), torch.randn(1, 400)


def _convbert() -> tuple[torch.nn.Module, torch.Tensor]:
    import transformers

    config = transformers.ConvBertConfig(
        vocab_size=97, embedding_size=32, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=64,
    )  # fmt: skip
    return transformers.ConvBertModel(config), torch.randint(97, (2, 9))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [_yolos, _wav2vec2, _convbert])
def test_models_that_crashed_in_tracing_run(  # aws-neuron-sdk#1265
    make: Callable[[], tuple[torch.nn.Module, torch.Tensor]],
) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    pytest.importorskip("transformers")
    torch.manual_seed(8)
    model, inputs = make()
    model.eval()
    device = copy.deepcopy(model).to(DEVICE)
    with torch.no_grad():
        expected = model(inputs).last_hidden_state
        got = device(inputs.to(DEVICE)).last_hidden_state
    equal(got, expected, rtol=1e-3, atol=1e-4)


def test_conversions_and_sums_of_bools() -> None:
    mask = torch.ones(300, dtype=torch.bool, device=DEVICE)
    assert mask.sum().item() == 300 and mask.sum().dtype == torch.int64
    assert mask.cumsum(0)[-1].item() == 300
    assert sum(torch.tensor(True, device=DEVICE) for _ in range(10)).item() == 10
    assert torch.stack([mask, ~mask]).all(1).tolist() == [True, False]


def test_rotary_positions_beyond_bf16_stay_apart_under_autocast() -> None:
    # Positions 65536.. differ only in f32: autocast must leave arange and the product alone.
    positions = torch.arange(65536, 65544).float()
    rates = 1.0 / 10000 ** (torch.arange(0, 8, 2).float() / 8)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        angles = positions.to(DEVICE)[:, None] * rates.to(DEVICE)
        cos = angles.cos()
    equal(cos, (positions[:, None] * rates).cos(), rtol=1e-2, atol=1e-2)
    assert len(set(cos[:, 0].tolist())) == 8
