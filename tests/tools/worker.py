# SPDX-License-Identifier: Apache-2.0
"""A program that keeps a core busy for a known share of the time and writes when it was.

python worker.py SECONDS SHARE LOG: a line "ready" on standard output after the first execution; at
the end LOG holds the intervals [start, end] by CLOCK_MONOTONIC in seconds. An execution takes some
20 ms, beside which the way from Python to the core is short.
"""

import json
import sys
import time

import numpy as np
import opennrt


def model(runtime: opennrt.Runtime, size: int = 1024, steps: int = 16) -> opennrt.Model:
    graph = opennrt.Graph("worker")
    first, second = (graph.parameter("f32", (size, size)) for _ in range(2))
    value = graph.op("add", first, second)
    for _ in range(steps):
        value = graph.op("sine", value)
    graph.root(value)
    return runtime.load(graph.compile(target="trn2"))


def main() -> None:
    seconds, share, log = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    with opennrt.Runtime() as runtime:
        loaded = model(runtime)
        data = runtime.tensor(np.ones((1024, 1024), "f4"))
        out = runtime.tensor(np.zeros((1024, 1024), "f4"))
        inputs, outputs = {"input0": data, "input1": data}, {"output0": out}
        loaded.execute(inputs, outputs)
        print("ready", flush=True)
        intervals = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.monotonic()
            loaded.execute(inputs, outputs)
            stop = time.monotonic()
            intervals.append((start, stop))
            time.sleep((stop - start) * (1 - share) / share)
        with open(log, "w", encoding="utf-8") as file:
            json.dump(intervals, file)


if __name__ == "__main__":
    main()
