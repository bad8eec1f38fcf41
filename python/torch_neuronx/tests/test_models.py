# SPDX-License-Identifier: Apache-2.0
"""Hugging Face models with tiny random configurations: loss, gradients, a step of AdamW and greedy
generation equal the CPU's. Nothing is downloaded. Right values: the same model on the CPU."""

import copy
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_neuronx

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

DEVICE = "neuron"
_LM: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _gpt2() -> Any:
    config = transformers.GPT2Config(
        vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=64,
        bos_token_id=1, eos_token_id=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def _llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**_LM, num_key_value_heads=2))


def _qwen3() -> Any:
    config = transformers.Qwen3Config(**_LM, num_key_value_heads=2, head_dim=8)
    return transformers.Qwen3ForCausalLM(config)


def _mixtral() -> Any:
    config = transformers.MixtralConfig(
        **_LM, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2
    )
    return transformers.MixtralForCausalLM(config)


def _mamba() -> Any:
    config = transformers.MambaConfig(
        vocab_size=97, hidden_size=32, state_size=8, num_hidden_layers=2,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return transformers.MambaForCausalLM(config)


def _bert() -> Any:
    config = transformers.BertConfig(
        **_LM, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    return transformers.BertForMaskedLM(config)


def _t5() -> Any:
    config = transformers.T5Config(
        vocab_size=97, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


def _vit() -> Any:
    config = transformers.ViTConfig(
        image_size=16, patch_size=4, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, num_labels=5, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.ViTForImageClassification(config)


def _resnet() -> Any:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=5, layer_type="basic"
    )
    return transformers.ResNetForImageClassification(config)


def _whisper() -> Any:
    config = transformers.WhisperConfig(
        vocab_size=97, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8,
        max_source_positions=16, max_target_positions=32, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1, dropout=0.0, suppress_tokens=None,
        begin_suppress_tokens=None,
    )  # fmt: skip
    return transformers.WhisperForConditionalGeneration(config)


def _ids() -> dict[str, torch.Tensor]:
    ids = torch.randint(3, 97, (2, 9))
    return {"input_ids": ids, "labels": ids}


def _pictures() -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([1, 3])}


def _sound() -> dict[str, torch.Tensor]:
    return {"input_features": torch.randn(2, 8, 32), "labels": torch.randint(3, 97, (2, 7))}


# Name: model, batch, whether everything must run on the device.
MODELS: dict[str, tuple[Callable[[], Any], Callable[[], dict[str, torch.Tensor]], bool]] = {
    "gpt2": (_gpt2, _ids, True),
    "llama": (_llama, _ids, True),
    "qwen3": (_qwen3, _ids, True),
    "mixtral": (_mixtral, _ids, False),
    "mamba": (_mamba, _ids, False),
    "bert": (_bert, _ids, True),
    "t5": (_t5, _ids, False),
    "vit": (_vit, _pictures, False),
    "resnet": (_resnet, _pictures, True),
    "whisper": (_whisper, _sound, False),
}


def _step(model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss = model(**batch).loss
    loss.backward()
    grads = [p.grad.detach().cpu().clone() for p in model.parameters() if p.grad is not None]
    optimizer.step()
    return loss.detach().cpu(), grads


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_equals_the_cpu(name: str) -> None:
    make, batch_of, native = MODELS[name]
    torch.manual_seed(3)
    cpu = make().train()
    batch = batch_of()
    device = copy.deepcopy(cpu).to(DEVICE)
    torch_neuronx.clear_op_tracking()
    loss, grads = _step(device, {key: value.to(DEVICE) for key, value in batch.items()})
    fell_back = torch_neuronx.get_fallback_ops()
    cpu_loss, cpu_grads = _step(cpu, batch)
    torch.testing.assert_close(loss, cpu_loss, rtol=1e-4, atol=1e-4)
    assert len(grads) == len(cpu_grads)
    for ours, theirs in zip(grads, cpu_grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=2e-4)
    for ours, theirs in zip(device.parameters(), cpu.parameters(), strict=True):
        torch.testing.assert_close(ours.detach().cpu(), theirs.detach(), rtol=1e-2, atol=2e-3)
    if native:
        assert fell_back == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3", "mixtral", "mamba", "t5", "whisper"])
def test_greedy_generation_gives_the_same_tokens(name: str) -> None:
    make, batch_of, native = MODELS[name]
    torch.manual_seed(4)
    cpu = make().eval()
    batch = batch_of()
    batch.pop("labels")
    device = copy.deepcopy(cpu).to(DEVICE)
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None}
    expected = cpu.generate(**batch, **options)
    torch_neuronx.clear_op_tracking()
    tokens = device.generate(**{key: value.to(DEVICE) for key, value in batch.items()}, **options)
    assert tokens.cpu().tolist() == expected.tolist()
    if native:
        assert torch_neuronx.get_fallback_ops() == []
