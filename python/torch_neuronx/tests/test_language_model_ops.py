# SPDX-License-Identifier: Apache-2.0
"""Every overload that language models dispatch (language_model_ops.txt) has a kernel of the device,
or is made of others that have one."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from compare import DEVICE, close, nothing_falls_back

_OVERLOADS = [
    line.split()[0]
    for line in (Path(__file__).parent / "language_model_ops.txt").read_text().splitlines()
    if not line.startswith("#")
]
# The CPU's name of attention; models on the device dispatch the overridable one.
_OF_THE_CPU = {
    "_scaled_dot_product_flash_attention_for_cpu.default",
    "_scaled_dot_product_flash_attention_for_cpu_backward.default",
}


@pytest.mark.parametrize("overload", _OVERLOADS)
def test_an_overload_of_language_models_is_native(overload: str) -> None:
    torch.ones(1, device=DEVICE)
    name = "aten::" + overload.removesuffix(".default")
    keys = ("PrivateUse1", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
    keys += ("CompositeExplicitAutogradNonFunctional",)
    found = any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)
    assert found != (overload in _OF_THE_CPU)


def test_attention_has_the_devices_name() -> None:
    q = torch.randn(1, 2, 8, 4, requires_grad=True)
    on_device = q.detach().to(DEVICE).requires_grad_()
    attention = torch.nn.functional.scaled_dot_product_attention
    with nothing_falls_back():
        attention(on_device, on_device, on_device, is_causal=True).sum().backward()
    attention(q, q, q, is_causal=True).sum().backward()
    close(on_device.grad, q.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.view_as_real(torch.polar(x.abs(), x)),
        lambda x: torch.linalg.qr(x)[1].abs(),
    ],
)
def test_complex_numbers_and_qr_fall_back_and_are_right(call: Callable) -> None:
    x = torch.randn(4, 4)
    close(call(x.to(DEVICE)), call(x), rtol=1e-4, atol=1e-5)
