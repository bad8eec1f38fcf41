# SPDX-License-Identifier: Apache-2.0
"""Measures torch on request of bench_gemm: one request a line on stdin, seconds of
processor time per call back.

Request: `mm DTYPE M N K SECONDS`. First line sent: the versions."""

import statistics
import sys
import time
from collections.abc import Callable

import torch

WINDOWS = 9


def seconds_per_call(body: Callable[[], object], least: float) -> float:
    """As timed() in bench/harness.cc: the median of nine windows."""
    calls = 1
    windows: list[float] = []
    total = 0.0
    while len(windows) < WINDOWS and (len(windows) < 3 or total < 2 * least):
        start = time.thread_time()
        for _ in range(calls):
            body()
        passed = time.thread_time() - start
        if passed >= 0.8 * least / WINDOWS:
            windows.append(passed / calls)
            total += passed
            continue
        windows.clear()
        factor = min(10.0, least / WINDOWS / passed) if passed > 0 else 10.0
        calls = max(calls + 1, int(calls * factor))
    return statistics.median(windows)


def matmul(dtype: torch.dtype, m: int, n: int, k: int) -> Callable[[], object]:
    a = torch.randn(m, k).to(dtype)
    b = torch.randn(k, n).to(dtype)
    c = torch.empty(m, n, dtype=dtype)
    return lambda: torch.mm(a, b, out=c)


def main() -> None:
    torch.set_num_threads(1)
    print(f"torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})", flush=True)
    calls: dict[tuple[str, ...], Callable[[], object]] = {}
    for line in sys.stdin:
        _, dtype, m, n, k, least = line.split()
        key = (dtype, m, n, k)
        if key not in calls:
            calls[key] = matmul(getattr(torch, dtype), int(m), int(n), int(k))
        print(seconds_per_call(calls[key], float(least)), flush=True)


if __name__ == "__main__":
    main()
