# SPDX-License-Identifier: Apache-2.0
"""Tensors of the device in files and in other libraries: safetensors, DLPack, NumPy."""

from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch
from compare import DEVICE, close


def _tensors() -> dict[str, torch.Tensor]:
    return {
        "f32": torch.arange(6.0).view(2, 3),
        "bf16": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "i64": torch.tensor([2**62, -1]),
        "bool": torch.tensor([True, False]),
        "none": torch.empty(0, 3),
    }


def test_safetensors_save_and_load_on_the_device(tmp_path: Path) -> None:
    st = pytest.importorskip("safetensors.torch")
    file = tmp_path / "a.safetensors"
    st.save_file({k: v.to(DEVICE) for k, v in _tensors().items()}, file)
    for device in (DEVICE, "neuron:0", torch.device(DEVICE)):
        loaded = st.load_file(file, device=device)
        for name, x in _tensors().items():
            close(loaded[name], x)
    for name, x in st.load_file(file).items():
        assert x.device.type == "cpu"
        assert torch.equal(x, _tensors()[name])


def test_safe_open_gives_tensors_and_slices_on_the_device(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    from safetensors.torch import save_file

    file = tmp_path / "a.safetensors"
    save_file(_tensors(), file)
    with safetensors.safe_open(file, framework="pt", device=DEVICE) as opened:
        assert set(opened.keys()) == set(_tensors())
        close(opened.get_tensor("f32"), torch.arange(6.0).view(2, 3))
        part = opened.get_slice("f32")
        assert part.get_shape() == [2, 3]
        close(part[1:, :2], torch.tensor([[3.0, 4.0]]))
    with safetensors.safe_open(file, framework="pt") as opened:
        assert opened.get_tensor("f32").device.type == "cpu"


def test_a_model_is_saved_and_loaded_by_safetensors(tmp_path: Path) -> None:
    st = pytest.importorskip("safetensors.torch")
    model = torch.nn.Linear(3, 2).to(DEVICE)
    st.save_model(model, str(tmp_path / "m.safetensors"))
    other = torch.nn.Linear(3, 2).to(DEVICE)
    st.load_model(other, str(tmp_path / "m.safetensors"), device=DEVICE)
    close(other.weight, model.weight.cpu())


@pytest.mark.parametrize("first", ["torch", "safetensors", "safetensors.torch"])
def test_safetensors_may_be_imported_before_or_after(
    first: str, tmp_path: Path, run_python: Callable
) -> None:
    pytest.importorskip("safetensors")
    script = f"""
import {first}
import torch, safetensors.torch as st
st.save_file({{"a": torch.ones(2)}}, {str(tmp_path / "a.safetensors")!r})
print(st.load_file({str(tmp_path / "a.safetensors")!r}, device="neuron")["a"].device)
"""
    done = run_python(script)
    assert done.stdout.strip() == "neuron:0", done.stderr


def test_other_libraries_are_told_that_the_memory_is_not_theirs_to_read() -> None:
    x = torch.ones(2, device=DEVICE)
    with pytest.raises(ValueError, match="neuron"):
        torch.from_dlpack(x)
    with pytest.raises(ValueError, match="neuron"):
        x.__dlpack_device__()
    with pytest.raises((RuntimeError, TypeError, ValueError, BufferError)):
        numpy.from_dlpack(x)
    with pytest.raises(TypeError, match=r"Use Tensor\.cpu"):
        numpy.asarray(x)
    close(torch.from_dlpack(numpy.ones(2, numpy.float32)).to(DEVICE), torch.ones(2))
