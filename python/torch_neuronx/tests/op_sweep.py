# SPDX-License-Identifier: Apache-2.0
"""Compares every operation of torch's op_db on device neuron with the CPU.

usage: python op_sweep.py [--ops REGEX] [--dtypes f32,bf16,...] [--samples N] [--jobs N]
                          [--json FILE] [--ratchet FILE [--update]]

A child for each entry, so that a crash costs one entry; the parent never touches the device. A
sample is right if results, and gradients where torch has them, are close to the CPU's; an entry is
native if no operation of its samples fell back. Exit code 1: worse than the ratchet, or a crash.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

_DTYPES = {
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
_MOST_SECONDS = 120
# Entries whose values are not defined or drawn from the device's own generator: type and shape are
# compared. Entries that draw only in some samples are compared where they don't.
_UNDEFINED = re.compile(r"(new_)?empty(_like|_strided|_permuted)?$")
_RANDOM = re.compile(
    r"(bernoulli|cauchy|exponential|geometric|log_normal|multinomial|normal|uniform|randn?|randint|"
    r"rand_like|randn_like|randint_like|pca_lowrank|svd_lowrank)(\.|$)"
)
_DRAWS = re.compile(
    r"dropout|scaled_dot_product_attention|multi_head_attention|rrelu|fractional_max"
)
# What no sample can pass, and why. Everything else that fails is "partly" in the ratchet.
REASONS = {
    "as_strided.partial_views": "the sample's storage is larger than its tensor, a copy's isn't",
    "sparse.mm.reduce": "sparse tensors are not held by the device",
    "sparse.sampled_addmm": "sparse tensors are not held by the device",
    "to_sparse": "sparse tensors are not held by the device",
    "tensor_split": "torch wants the indices on the CPU",
}


def _to(value: Any, device: str) -> Any:
    import torch
    from torch.utils._pytree import tree_map

    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.detach().to(device).requires_grad_(x.requires_grad)
        if isinstance(x, torch.device):
            return torch.device(device)
        return x

    return tree_map(move, value)


def _tensors(value: Any) -> list:
    import torch
    from torch.utils._pytree import tree_leaves

    return [x for x in tree_leaves(value) if isinstance(x, torch.Tensor)]


def _compare(device: Any, cpu: Any, values: bool = True) -> None:
    import torch

    left, right = _tensors(device), _tensors(cpu)
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

    outputs = [x for x in _tensors(results) if x.requires_grad]
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
        first, *others = (_tensors(op(*args, **kwargs)) for _ in range(20))
    except Exception:  # found again, and reported, by the comparison
        return True
    return all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def _run_sample(op: Any, sample: Any) -> None:
    """AssertionError or whatever the device raised where the CPU did not."""
    args = (sample.input, *sample.args)
    kwargs = dict(sample.kwargs)
    name = _name(op)
    values = not (_UNDEFINED.match(name) or _RANDOM.match(name))
    if _DRAWS.search(name):
        values = _repeats(op, args, kwargs)
    try:
        cpu = op(*args, **kwargs)
        cpu_grads = _gradients(cpu, _tensors((args, kwargs)))
    except Exception:  # the sample isn't for the CPU
        return
    device_args, device_kwargs = _to((args, kwargs), "neuron")
    if "device" in device_kwargs:
        device_kwargs["device"] = "neuron"
    result = op(*device_args, **device_kwargs)
    _compare(result, cpu, values)
    grads = _gradients(result, _tensors((device_args, device_kwargs)))
    _compare(grads, cpu_grads, values)


def _run_entry(op: Any, dtypes: list[str], most: int) -> dict:
    import torch
    import torch_neuronx

    report: dict[str, dict] = {}
    for name in dtypes:
        dtype = getattr(torch, _DTYPES[name])
        if not op.supports_dtype(dtype, "cpu"):
            continue
        row: dict[str, Any] = {"ok": 0, "wrong": 0, "error": 0, "native": True, "why": Counter()}
        grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        torch.manual_seed(0)
        torch_neuronx.clear_op_tracking()
        samples = op.sample_inputs("cpu", dtype, requires_grad=grad)
        for number, sample in enumerate(samples):
            if number >= most:
                break
            try:
                torch.manual_seed(1)
                _run_sample(op, sample)
                row["ok"] += 1
            except AssertionError as error:
                row["wrong"] += 1
                row["why"][str(error).splitlines()[0][:120]] += 1
            except Exception as error:
                row["error"] += 1
                row["why"][f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"] += 1
        row["fallback"] = torch_neuronx.get_fallback_ops()
        row["native"] = not row["fallback"]
        row["why"] = dict(row["why"].most_common(3))
        report[name] = row
    return report


def _child(op: Any, options: argparse.Namespace, core: int, write: int) -> None:
    status = 0
    try:
        os.environ["NEURON_RT_VISIBLE_CORES"] = str(core)
        signal.alarm(_MOST_SECONDS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = _run_entry(op, options.dtypes, options.samples)
        with os.fdopen(write, "w") as out:
            json.dump(report, out)
    except BaseException:
        traceback.print_exc()
        status = 3
    sys.stderr.flush()
    os._exit(status)


def _sweep(entries: list, options: argparse.Namespace) -> dict[str, dict]:
    results: dict[str, dict] = {}
    running: dict[int, tuple[str, int, int]] = {}
    cores = list(range(options.jobs))
    waiting = list(entries)
    done = 0
    while waiting or running:
        while waiting and cores:
            op = waiting.pop(0)
            core = cores.pop()
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(read)
                _child(op, options, core, write)
            os.close(write)
            running[pid] = (_name(op), read, core)
        pid, status = os.wait()
        name, read, core = running.pop(pid)
        with os.fdopen(read) as pipe:
            text = pipe.read()
        cores.append(core)
        done += 1
        if os.WIFSIGNALED(status):
            kind = "timeout" if os.WTERMSIG(status) == signal.SIGALRM else "crash"
            results[name] = {kind: signal.Signals(os.WTERMSIG(status)).name}
        elif text:
            results[name] = json.loads(text)
        else:
            results[name] = {"crash": f"exit code {os.waitstatus_to_exitcode(status)}"}
        if sys.stderr.isatty() or done % 50 == 0:
            print(f"\r{done}/{len(entries)} {name:50.50}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return results


def _name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def _summary(results: dict[str, dict]) -> list[str]:
    lines = []
    by_type: dict[str, Counter] = {}
    for entry in results.values():
        for dtype, row in entry.items():
            if not isinstance(row, dict):
                continue
            total = by_type.setdefault(dtype, Counter())
            total["entries"] += 1
            total["samples"] += row["ok"] + row["wrong"] + row["error"]
            total["ok"] += row["ok"]
            total["right"] += row["wrong"] == 0 and row["error"] == 0
            total["native"] += row["native"] and row["wrong"] == 0 and row["error"] == 0
    lines.append(f"{'type':6}{'entries':>9}{'right':>9}{'native':>9}{'samples':>10}{'ok':>10}")
    for dtype, n in by_type.items():
        lines.append(
            f"{dtype:6}{n['entries']:9}{n['right']:9}{n['native']:9}{n['samples']:10}{n['ok']:10}"
        )
    crashes = {name: e for name, e in results.items() if "crash" in e or "timeout" in e}
    lines += [f"{name}: {next(iter(e.items()))}" for name, e in sorted(crashes.items())]
    return lines


def _ratchet_of(results: dict[str, dict]) -> dict[str, str]:
    """A word for each operation and type: native, fallback, partly (some samples are wrong)."""
    words = {}
    for name, entry in sorted(results.items()):
        for dtype, row in entry.items():
            if isinstance(row, dict):
                right = row["wrong"] == 0 and row["error"] == 0
                words[f"{name} {dtype}"] = (
                    "partly" if not right else "native" if row["native"] else "fallback"
                )
    return words


_RANK = {"partly": 0, "fallback": 1, "native": 2}


def _check_ratchet(results: dict[str, dict], file: Path, update: bool) -> list[str]:
    now = _ratchet_of(results)
    before = json.loads(file.read_text()) if file.exists() else {}
    if update:
        merged = {**before, **now}
        file.write_text(json.dumps(dict(sorted(merged.items())), indent=0) + "\n")
        return []
    return [
        f"{key}: {before[key]} before, {now[key]} now"
        for key in sorted(now.keys() & before.keys())
        if _RANK[now[key]] < _RANK[before[key]]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--ops", default="", help="entries whose name matches this expression")
    parser.add_argument("--dtypes", default="f32", type=lambda text: text.split(","))
    parser.add_argument("--samples", type=int, default=1 << 30, help="most samples of an entry")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="writes the whole report")
    parser.add_argument("--ratchet", type=Path, help="fails where it was better before")
    parser.add_argument("--update", action="store_true", help="writes the ratchet file")
    parser.add_argument("-v", "--verbose", action="store_true", help="shows what is not right")
    options = parser.parse_args()
    os.environ.setdefault("NEURON_RT_LOG_LEVEL", "ERROR")
    import torch

    torch.set_num_threads(1)
    with contextlib.redirect_stdout(sys.stderr):
        from torch.testing._internal import common_methods_invocations as invocations
    # Entries that draw set the same seed before each call; without it _repeats() can tell them.
    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    entries = [op for op in invocations.op_db if re.search(options.ops, _name(op))]
    start = time.monotonic()
    results = _sweep(entries, options)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.verbose:
        for name, entry in sorted(results.items()):
            for dtype, row in entry.items():
                if isinstance(row, dict) and (row["wrong"] or row["error"] or row["fallback"]):
                    print(
                        f"{name} {dtype}: ok {row['ok']} wrong {row['wrong']} error {row['error']}"
                        f" fallback {row['fallback']} {row['why']}"
                    )
    print("\n".join(_summary(results)))
    print(f"{len(entries)} entries in {time.monotonic() - start:.0f} s")
    worse = _check_ratchet(results, options.ratchet, options.update) if options.ratchet else []
    print("\n".join(worse), end="\n" if worse else "")
    crashed = any("crash" in entry for entry in results.values())
    return 1 if worse or crashed else 0


if __name__ == "__main__":
    sys.exit(main())
