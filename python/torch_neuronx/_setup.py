# SPDX-License-Identifier: Apache-2.0
"""Makes "neuron" known to torch. Opens no device and no library: that happens at first use."""

import atexit
import os
from pathlib import Path

import torch


def _other_accelerator() -> bool:
    """A build of torch for CUDA or ROCm on a machine without Neuron devices keeps its own."""
    accelerated = torch.version.cuda is not None or torch.version.hip is not None
    wanted = Path("/dev/neuron0").exists() or os.environ.get("OPENNRT_EMULATE")
    return accelerated and not wanted


def run() -> None:
    """Renames the PrivateUse1 backend, registers kernels, torch.neuron and autocast."""
    if _other_accelerator():
        return
    torch.utils.rename_privateuse1_backend("neuron")
    from torch_neuronx import _C

    _C.setup(str(Path(__file__).parent))
    # Before the interpreter goes: what it frees later finds the device closed and does nothing.
    atexit.register(_C.shut_down)
    from torch_neuronx import neuron

    torch._register_device_module("neuron", neuron)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    from torch_neuronx import modules, optimizers, printing, safetensors, tracking

    modules.keep_parameters()
    optimizers.install()
    printing.install()
    safetensors.install()
    tracking.configure()
