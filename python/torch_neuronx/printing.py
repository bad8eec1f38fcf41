# SPDX-License-Identifier: Apache-2.0
"""Tensors are printed from a copy on the host: torch's formatter looks at them by a dozen small
operations, in float64, each of which would be compiled for every shape that is printed."""

import functools

import torch
from torch import _tensor_str

_DEVICE = "neuron"


def install() -> None:
    """Wraps torch's function that writes the numbers; what is behind them stays as it was."""
    original = _tensor_str._tensor_str

    @functools.wraps(original)
    def tensor_str(self: torch.Tensor, indent: int) -> str:
        on_device = self.device.type == _DEVICE and self.layout == torch.strided
        return original(self.detach().cpu() if on_device else self, indent)

    _tensor_str._tensor_str = tensor_str
