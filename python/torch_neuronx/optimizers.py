# SPDX-License-Identifier: Apache-2.0
"""Adam and AdamW on the device as one program a step.

torch's default there is the list of operations that its `foreach` implementation makes: eight
programs, each of which reads and writes all parameters. This does the same update by
`torch._fused_adam_` with the steps where they are, on the CPU; results differ in their last bits,
as those of `fused=True` do. State and checkpoints are those of the default implementation.
"""

import functools
from typing import Any

import torch
from torch.optim import adam

_DEVICE = "neuron"


def _one_program(lists: tuple[list[Any], ...], numbers: tuple[Any, ...]) -> bool:
    """Whether all tensors are of one kind and the numbers are plain."""
    params = lists[0]
    first = params[0]
    if any(isinstance(number, torch.Tensor) for number in numbers):
        return False
    if first.device.type != _DEVICE or not first.dtype.is_floating_point:
        return False
    kind = (first.device, first.dtype)
    return all((x.device, x.dtype) == kind for tensors in lists for x in tensors)


def install() -> None:
    """Wraps the implementation of lists that torch.optim.Adam and AdamW choose by default."""
    original = adam._multi_tensor_adam

    @functools.wraps(original)
    def multi_tensor_adam(
        params: list[torch.Tensor],
        grads: list[torch.Tensor],
        exp_avgs: list[torch.Tensor],
        exp_avg_sqs: list[torch.Tensor],
        max_exp_avg_sqs: list[torch.Tensor],
        state_steps: list[torch.Tensor],
        grad_scale: torch.Tensor | None,
        found_inf: torch.Tensor | None,
        **options: Any,
    ) -> None:
        lists = (params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs)
        numbers = tuple(options[name] for name in ("lr", "beta1", "beta2"))
        if (
            not params
            or torch.compiler.is_compiling()
            or options["capturable"]
            or options["differentiable"]
            or grad_scale is not None
            or found_inf is not None
            or not _one_program(lists, numbers)
            or any(step.device.type != "cpu" for step in state_steps)
        ):
            original(*lists, state_steps, grad_scale, found_inf, **options)
            return
        torch._foreach_add_(state_steps, 1)
        alike = len({step.item() for step in state_steps}) == 1
        function = torch._fused_adamw_ if options["decoupled_weight_decay"] else torch._fused_adam_
        function(
            *lists,
            state_steps[:1] if alike else state_steps,
            lr=options["lr"],
            beta1=options["beta1"],
            beta2=options["beta2"],
            weight_decay=options["weight_decay"],
            eps=options["eps"],
            amsgrad=options["amsgrad"],
            maximize=options["maximize"],
        )

    adam._multi_tensor_adam = multi_tensor_adam
