# SPDX-License-Identifier: Apache-2.0
"""The samples of one entry of torch's op_db, run on device neuron and on the CPU.

Kinds of runs: `plain` (results and gradients), and for the first samples `strided` (arguments that
are not contiguous), `empty` (no elements), `inplace`, `out`; `raises` are the entry's inputs that
are errors on the CPU. A run that the CPU refuses is left out, but for `raises`.
"""

import os
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any

DTYPES = {
    "f32": "float32",
    "bf16": "bfloat16",
    "f16": "float16",
    "f64": "float64",
    "i64": "int64",
    "bool": "bool",
}
# Tolerances (relative, absolute) by the type of a result; float64 is computed in float32.
_TOLERANCES = {
    "torch.float32": (2e-4, 1e-4),
    "torch.float64": (2e-4, 1e-4),
    "torch.complex64": (2e-4, 1e-4),
    "torch.complex128": (2e-4, 1e-4),
    "torch.bfloat16": (4e-2, 4e-2),
    "torch.float16": (5e-3, 5e-3),
}
# Entries whose values are not defined or drawn from the device's own generator: type and shape are
# compared. Entries that draw only in some samples are compared where they don't.
_UNDEFINED = re.compile(r"((new_)?empty(_like|_strided|_permuted)?|resize_)$")
_RANDOM = re.compile(
    r"(bernoulli|cauchy|exponential|geometric|log_normal|multinomial|normal|uniform|randn?|randint|"
    r"rand_like|randn_like|randint_like|pca_lowrank|svd_lowrank)(\.|$)"
)
_DRAWS = re.compile(
    r"dropout|scaled_dot_product_attention|multi_head_attention|rrelu|fractional_max"
)
_MOST_FAILURES = 40  # that a row lists


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def _map(function: Callable, tree: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_map

    return tree_map(lambda x: function(x) if isinstance(x, torch.Tensor) else x, tree)


def to_device(tree: Any, device: str = "neuron") -> Any:
    import torch
    from torch.utils._pytree import tree_map

    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            if x.layout != torch.strided:
                return x.detach().to(device).requires_grad_(x.requires_grad)
            moved = x.detach()
            if not moved.is_contiguous() and not moved.is_conj() and not moved.is_neg():
                # The same strides over memory of its own.
                moved = _with_strides(moved, device)
            else:
                moved = moved.to(device)
            return moved.requires_grad_(x.requires_grad)
        if isinstance(x, torch.device):
            return torch.device(device)
        return x

    return tree_map(move, tree)


def _with_strides(x: Any, device: str) -> Any:
    import torch

    last = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else -1
    flat = x.as_strided((last + 1,), (1,), x.storage_offset()).clone()
    return torch.as_strided(flat.to(device), x.shape, x.stride())


def tensors_of(tree: Any) -> list:
    import torch
    from torch.utils._pytree import tree_leaves

    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def compare(device: Any, cpu: Any, values: bool = True) -> None:
    import torch

    left, right = tensors_of(device), tensors_of(cpu)
    if len(left) != len(right):
        raise AssertionError(f"{len(left)} results where the CPU has {len(right)}")
    for a, b in zip(left, right, strict=True):
        if b.layout != torch.strided:
            continue
        if not values:
            assert a.dtype == b.dtype, f"{a.dtype} where the CPU has {b.dtype}"
            assert a.shape == b.shape, f"{list(a.shape)} where the CPU has {list(b.shape)}"
            continue
        rtol, atol = _TOLERANCES.get(str(b.dtype), (0, 0))
        a, b = (
            a.detach().cpu().resolve_conj().resolve_neg(),
            b.detach().resolve_conj().resolve_neg(),
        )
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)


def _gradients(results: Any, inputs: list) -> list:
    import torch

    outputs = [x for x in tensors_of(results) if x.requires_grad]
    wanted = [x for x in inputs if x.requires_grad]
    if not outputs or not wanted:
        return []
    total = sum(x.abs().sum().to(torch.float32) for x in outputs)
    grads = torch.autograd.grad(total, wanted, allow_unused=True)
    return [g for g in grads if g is not None]


def _repeats(op: Any, args: Any, kwargs: dict) -> bool:
    """Whether calls on the CPU give the same again and again: nothing is drawn."""
    import torch

    try:
        first, *others = (tensors_of(op(*args, **kwargs)) for _ in range(20))
    except Exception:  # found again, and reported, by the comparison
        return True
    return all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


class Unfit(Exception):
    """The run isn't for the CPU either."""


def _both(function: Callable, args: Any, kwargs: dict, values: bool, grads: bool = True) -> None:
    """AssertionError or whatever the device raised where the CPU did not."""
    import torch

    device_args, device_kwargs = to_device((args, kwargs))
    if "device" in device_kwargs:
        device_kwargs["device"] = "neuron"
    try:
        cpu = function(*args, **kwargs)
        cpu_grads = _gradients(cpu, tensors_of((args, kwargs))) if grads else []
    except Exception as error:
        raise Unfit from error
    result = function(*device_args, **device_kwargs)
    given = tensors_of((device_args, device_kwargs))
    found = [result, _gradients(result, given) if grads else []]
    try:
        compare(found, [cpu, cpu_grads], values)
    except AssertionError:
        if not any(x.dtype in (torch.bfloat16, torch.float16) for x in given):
            raise
        # The CPU rounds what is between; the device is right as well if it rounds once.
        args, kwargs = _map(_widened, (args, kwargs))
        try:
            cpu = function(*args, **kwargs)
            cpu_grads = _gradients(cpu, tensors_of((args, kwargs))) if grads else []
        except Exception:
            cpu = None
        if cpu is None:
            raise
        pairs = zip(tensors_of([cpu, cpu_grads]), tensors_of(found), strict=True)
        compare(found, [x.to(y.dtype) for x, y in pairs], values)


def _widened(x: Any) -> Any:
    import torch

    if x.dtype not in (torch.bfloat16, torch.float16):
        return x
    return x.detach().float().requires_grad_(x.requires_grad)


def _strided(x: Any) -> Any:
    import torch

    if x.layout != torch.strided or x.dim() == 0 or x.numel() < 2:
        return x
    wide = x.detach().repeat_interleave(2, dim=-1)
    return wide[..., ::2].requires_grad_(x.requires_grad)


def _emptied(x: Any) -> Any:
    return x if x.dim() == 0 else x[:0].clone()


def _runs(op: Any, sample: Any, first: bool) -> Iterator[tuple[str, Callable]]:
    """The kinds of runs of a sample; only `plain` if it is not one of the first."""
    import torch

    args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
    name = name_of(op)
    values = not (_UNDEFINED.match(name) or _RANDOM.match(name))
    if _DRAWS.search(name):
        values = _repeats(op, args, kwargs)
    yield "plain", lambda: _both(op, args, kwargs, values)
    if not first:
        return
    detached = _map(lambda x: x.detach(), (args, kwargs))
    yield "strided", lambda: _both(op, *_map(_strided, (args, kwargs)), values)
    # Without gradients: some of the CPU's kernels divide by the number of elements, and die.
    yield "empty", lambda: _both(op, *_map(_emptied, detached), values, grads=False)
    if op.inplace_variant is not None and isinstance(sample.input, torch.Tensor):

        def in_place(x: Any, *rest: Any, **named: Any) -> Any:
            x = x.clone()
            return op.inplace_variant(x, *rest, **named), x

        yield "inplace", lambda: _both(in_place, *detached, values, grads=False)
    if op.supports_out:
        yield "out", lambda: _out(op, *detached, values)


def _out(op: Any, args: Any, kwargs: dict, values: bool) -> None:
    import torch

    with torch.no_grad():
        try:
            right = op(*args, **kwargs)
        except Exception as error:
            raise Unfit from error
    if not tensors_of(right):
        raise Unfit

    def with_out(*rest: Any, **named: Any) -> Any:
        where = next((x.device for x in tensors_of((rest, named))), torch.device("cpu"))
        if "device" in named:
            where = torch.device(named["device"])
        out = _map(lambda x: torch.empty_like(x, device=where), right)
        result = op(*rest, **named, out=out)
        return result, out

    _both(with_out, args, kwargs, values, grads=False)


def _raises(op: Any) -> Iterator[Callable]:
    try:
        given = list(op.error_inputs("cpu"))
    except Exception:  # entries without any
        return
    for error in given:
        sample = error.sample_input
        args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)

        def run(args: Any = args, kwargs: dict = kwargs) -> None:
            device_args, device_kwargs = to_device((args, kwargs))
            if "device" in device_kwargs:
                device_kwargs["device"] = "neuron"
            try:
                op(*args, **kwargs)
            except Exception as right:
                try:
                    for result in tensors_of(op(*device_args, **device_kwargs)):
                        result.cpu()  # what only the device can see is raised here
                except Exception:
                    return
                text = str(right).splitlines()[0] if str(right) else type(right).__name__
                raise AssertionError(f"no error, the CPU says: {text}") from None
            raise Unfit

        yield run


def run_entry(
    op: Any, dtypes: list[str], most: int, most_extra: int, report: Callable[[dict], None]
) -> None:
    """Reports what it is about to run, and a row for each type."""
    import torch
    import torch_neuronx

    for short in dtypes:
        dtype = getattr(torch, DTYPES[short])
        row: dict[str, Any] = {"op": name_of(op), "dtype": short, "kinds": {}, "failures": []}

        def attempt(kind: str, number: int, run: Callable, row: dict = row) -> None:
            report({"at": f"{row['dtype']} {kind} {number}"})
            torch.manual_seed(1)
            try:
                run()
                result = "ok"
            except Unfit:
                return
            except Exception as error:
                wrong = isinstance(error, AssertionError)
                result = "wrong" if wrong else "error"
                lines = [line for line in str(error).splitlines() if line.strip()] or [""]
                text = " ".join(lines[:4] if wrong else lines[:1])[:240]
                if not wrong:
                    text = f"{type(error).__name__}: {text}"
                if len(row["failures"]) < _MOST_FAILURES:
                    row["failures"].append([kind, number, text])
                if os.environ.get("ONRT_SWEEP_TRACE"):
                    traceback.print_exc()
            counts = row["kinds"].setdefault(kind, {"ok": 0, "wrong": 0, "error": 0})
            counts[result] += 1

        if op.supports_dtype(dtype, "cpu"):
            grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
            torch.manual_seed(0)
            torch_neuronx.clear_op_tracking()
            samples = op.sample_inputs("cpu", dtype, requires_grad=grad)
            for number, sample in enumerate(samples):
                if number >= most:
                    break
                for kind, run in _runs(op, sample, number < most_extra):
                    attempt(kind, number, run)
            row["fallback"] = torch_neuronx.get_fallback_ops()
            if short == "f32" and most_extra:
                for number, run in enumerate(_raises(op)):
                    attempt("raises", number, run)
        report(row)
