# SPDX-License-Identifier: Apache-2.0
"""Modules that move between the CPU and the device keep their parameters' identity.

torch exchanges the data of a Parameter in place only between device types that it lists, and this
one is not among them: `Module.to` would make new Parameters, one for each place, and weights that
are tied (an embedding and the output layer) would be two from then on. Where nothing else holds the
tensors torch's own exchange of whole tensors is used, and optimizers made before keep working;
else tied weights are tied again.
"""

import functools
import weakref
from collections.abc import Callable

import torch

_DEVICE = "neuron"


def _moves(module: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    """Whether fn takes parameters to the device or away from it."""
    first = next(module.parameters(), None)
    if first is None:
        return False
    try:
        to = fn(torch.empty(0, dtype=first.dtype)).device.type
    except Exception:  # not made for this probe: leave it to torch
        return False
    return (to == _DEVICE) != (first.device.type == _DEVICE)


def _exchangeable(module: torch.nn.Module) -> bool:
    """Whether only Python's references to the parameters exist: no graph, no weak reference."""
    return all(p._use_count() <= 1 and not weakref.getweakrefs(p) for p in module.parameters())


def _places(module: torch.nn.Module) -> dict[int, list[tuple[torch.nn.Module, str]]]:
    places: dict[int, list[tuple[torch.nn.Module, str]]] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                places.setdefault(id(parameter), []).append((part, name))
    return places


def keep_parameters() -> None:
    """Wraps torch.nn.Module._apply; other moves go through as before."""
    original = torch.nn.Module._apply
    depth = 0

    @functools.wraps(original)
    def apply(
        self: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True
    ) -> torch.nn.Module:
        nonlocal depth
        if depth > 0 or not _moves(self, fn):
            return original(self, fn, recurse)
        swap = torch.__future__.get_swap_module_params_on_conversion()
        exchange = _exchangeable(self)
        places = {} if exchange else _places(self)
        depth += 1
        try:
            torch.__future__.set_swap_module_params_on_conversion(swap or exchange)
            result = original(self, fn, recurse)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(swap)
            depth -= 1
        for tied in places.values():
            module, name = tied[0]
            for other, other_name in tied[1:]:
                other._parameters[other_name] = module._parameters[name]
        return result

    torch.nn.Module._apply = apply  # type: ignore[method-assign]
