# SPDX-License-Identifier: Apache-2.0
"""Which operations ran on the device and which fell back to the CPU."""

import atexit
import os
import sys
import time
from dataclasses import dataclass

from torch_neuronx import _C

_start = time.monotonic()
_MODES = {"warn": 0, "silent": 1, "error": 2}


@dataclass(frozen=True)
class FallbackOp:
    """An operation that ran on the CPU."""

    name: str
    calls: int
    nbytes: int
    seconds: float
    reason: str
    source: str  # "file:line" that first called it; empty where no Python did


def get_executed_ops() -> list[str]:
    """Names of the operations that ran on the device since the start or the last clear."""
    return sorted(row["name"] for row in _C.op_counts() if row["native"] > 0)


def get_fallback_ops() -> list[str]:
    """Names of the operations that ran on the CPU since the start or the last clear."""
    return sorted(row["name"] for row in _C.op_counts() if row["fallback"] > 0)


def clear_op_tracking() -> None:
    """Forgets what ran, and which warnings were given; shares of time count from here."""
    global _start
    _start = time.monotonic()
    _C.clear_op_counts()


def set_fallback_mode(mode: str) -> None:
    """What an operation without a lowering does: "warn" (once per operation, then the CPU runs
    it), "silent", or "error"."""
    if mode not in _MODES:
        raise ValueError(f"unknown mode {mode!r}: one of {', '.join(_MODES)}")
    _C.set_fallback_mode(_MODES[mode])


def fallbacks() -> list[FallbackOp]:
    """Operations that ran on the CPU, the most expensive first."""
    rows = [
        FallbackOp(
            r["name"],
            r["fallback"],
            r["fallback_bytes"],
            r["fallback_seconds"],
            r["reason"],
            r["source"],
        )
        for r in _C.op_counts()
        if r["fallback"] > 0
    ]
    return sorted(rows, key=lambda row: -row.seconds)


def fallback_report() -> str:
    """What ran on the CPU and what it cost, as a table; one line if nothing did."""
    rows = fallbacks()
    if not rows:
        return "No operation fell back to the CPU."
    share = 100 / max(time.monotonic() - _start, 1e-9)
    lines = [
        f"{'operation':44}{'calls':>8}{'bytes':>14}{'seconds':>9}{'time':>7}  why, where first"
    ]
    lines += [
        f"{row.name:44}{row.calls:8}{row.nbytes:14,}{row.seconds:9.3f}"
        f"{row.seconds * share:6.1f}%  {row.reason}{', ' + row.source if row.source else ''}"
        for row in rows
    ]
    return "\n".join(lines)


def _source() -> str:
    """Innermost Python line outside of torch and this package."""
    frame = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        if module not in ("torch", "torch_neuronx"):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def configure() -> None:
    """Takes the mode and the wish for a report at exit from the environment."""
    _C.set_source_hook(_source)
    mode = os.environ.get("TORCH_NEURONX_FALLBACK", "warn")
    set_fallback_mode(mode if mode in _MODES else "warn")
    if os.environ.get("TORCH_NEURONX_FALLBACK_REPORT", "0") not in ("", "0"):
        atexit.register(lambda: print(fallback_report(), file=sys.stderr))
