# SPDX-License-Identifier: Apache-2.0
"""Measures torch on request of bench_gemm: one request a line on stdin, seconds per call back.

Request: `mm DTYPE M N K SECONDS`. First line sent: the versions."""

import sys
import time

import torch


def seconds_per_call(body, least):
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            body()
        passed = time.perf_counter() - start
        if passed >= least:
            return passed / calls
        calls = max(calls + 1, int(calls * min(10.0, 1.2 * least / max(passed, 1e-9))))


def main():
    torch.set_num_threads(1)
    print(f"torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})", flush=True)
    cache = {}
    for line in sys.stdin:
        _, dtype, m, n, k, least = line.split()
        key = (dtype, m, n, k)
        if key not in cache:
            m, n, k = int(m), int(n), int(k)
            kind = getattr(torch, dtype)
            a = torch.randn(m, k).to(kind)
            b = torch.randn(k, n).to(kind)
            cache[key] = (a, b, torch.empty(m, n, dtype=kind))
        a, b, c = cache[key]
        print(seconds_per_call(lambda: torch.mm(a, b, out=c), float(least)), flush=True)


if __name__ == "__main__":
    main()
