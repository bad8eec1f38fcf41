# SPDX-License-Identifier: Apache-2.0
"""PyTorch on device "neuron": Trainium, or OpenNRT's emulator of it.

Nothing needs to be imported: torch loads this package through its entry point. The functions here
tell which operations ran on the device and which on the CPU.
"""

import importlib
from types import ModuleType

_loaded = False


def _autoload() -> None:
    """Called by torch when it is imported (entry point `torch.backends`). Never raises: a program
    that doesn't use the device must not notice."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    try:
        setup: ModuleType = importlib.import_module("torch_neuronx._setup")
        setup.run()
    except Exception as error:  # CPU users must not stumble over it
        import warnings

        warnings.warn(f"device 'neuron' is not available: {error}", stacklevel=2)


# `_autoload` must exist when torch looks for it.
import torch  # noqa: E402, F401

_autoload()

from torch_neuronx.tracking import (  # noqa: E402
    FallbackOp,
    clear_op_tracking,
    fallback_report,
    get_executed_ops,
    get_fallback_ops,
    set_fallback_mode,
)

__version__ = "2.13.0"
__all__ = [
    "FallbackOp",
    "clear_op_tracking",
    "fallback_report",
    "get_executed_ops",
    "get_fallback_ops",
    "set_fallback_mode",
]
