#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random graphs (compiler/hlo/testing/random_hlo.cc) on jaxlib's CPU client beside our results.

usage: tests/e2e/random_graphs.py --tool PATH [--family NAME] [--first SEED] [--count N]

Every operation is compared by itself, on the operands our program had, so that errors don't add up.
What may differ, in units in the last place (ulp) of the result's type:
- EXACT operations (everything not named below): nothing, but for the sign of zero and a NaN's bits;
- APPROXIMATE ones: ULPS of the result, as both sides approximate the function in f32;
- SUMS: SUM_ULPS of the largest sum that the operands could give, since the order of additions is
  free; products of many factors likewise, relative to the result.
Where that is exceeded, a function of the mathematical value (TRUE_VALUES, in f64 or integers)
decides: XLA:CPU is off in places. Elements are left out where an operand or a result is subnormal
(XLA:CPU flushes those to zero), where a factorisation does not exist, where zeros of a
convolution's padding (or of how XLA expands groups) meet infinities, where a sum in f16 or a
variance overflows, where integers are raised to powers inside of a computation (CALLERS), and
where a fold or a sort by an order that is not total meets NaNs. XLA's pass simplify-while-loops is
off: it runs "for i = 0; i < 1; i += 2" never instead of once."""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np

FAMILIES = ("plain", "products", "indexed", "ordered", "control")

APPROXIMATE = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cosh", "cosine", "erf",
    "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "rsqrt",
    "sine", "sinh", "tan", "tanh",
}  # fmt: skip
SUMS = {
    "batch-norm-grad", "batch-norm-inference", "batch-norm-training", "cholesky", "convolution",
    "dot", "reduce", "reduce-window", "scatter", "select-and-scatter", "triangular-solve",
}  # fmt: skip
# Operations that call a computation. XLA:CPU is wrong for large exponents of integers, which
# a single `power` shows (TRUE_VALUES) and one inside of a computation does not.
CALLERS = {
    "call", "conditional", "map", "reduce", "reduce-window", "scatter", "select-and-scatter",
    "while",
}  # fmt: skip
ULPS = 16
SUM_ULPS = 4
TRUE_ULPS = 4  # of ours beside the true value

TRUE_VALUES = {
    "atan2": np.arctan2, "cbrt": np.cbrt, "cosine": np.cos, "exponential": np.exp,
    "exponential-minus-one": np.expm1, "log": np.log, "log-plus-one": np.log1p, "power": np.power,
    "logistic": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x),
    "sine": np.sin, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip


@dataclass
class Result:
    opcode: str
    operands: list[int]  # parameter numbers
    data: bytes


@dataclass
class Case:
    seed: int
    module: bytes
    parameters: list[bytes]
    results: list[Result]


def read_cases(stream: IO[bytes]) -> Iterator[Case]:
    def number() -> int:
        return struct.unpack("<Q", stream.read(8))[0]

    def data() -> bytes:
        return stream.read(number())

    while head := stream.read(8):
        seed = struct.unpack("<Q", head)[0]
        module = data()
        parameters = [data() for _ in range(number())]
        results = [
            Result(data().decode(), [number() for _ in range(number())], data())
            for _ in range(number())
        ]
        yield Case(seed, module, parameters, results)


class Refused(Exception):
    """The peer does not take the module: StableHLO, on the way into jaxlib, knows fewer types."""


class Peer:
    """jaxlib's CPU client."""

    def __init__(self) -> None:
        import jax
        from jax._src import xla_bridge
        from jax._src.lib import xla_client

        jax.config.update("jax_enable_x64", True)  # else 64-bit integers would lose half
        self.put = jax.device_put
        self.xla = xla_client
        self.client = xla_bridge.get_backend("cpu")
        self.devices = xla_client.DeviceList(tuple(self.client.local_devices()[:1]))

    def run(self, case: Case) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Parameters and results as arrays."""
        computation = self.xla.XlaComputation(case.module)
        arguments = [
            np.frombuffer(data, shape.numpy_dtype()).reshape(shape.dimensions())
            for data, shape in zip(
                case.parameters, computation.program_shape().parameter_shapes(), strict=True
            )
        ]
        try:
            text = self.xla._xla.mlir.xla_computation_to_mlir_module(computation)
            program = self.client.compile_and_load(text, self.devices, self.xla.CompileOptions())
        except self.xla.XlaRuntimeError as error:
            raise Refused(str(error).split("\n")[0]) from None
        buffers = [self.put(each) for each in arguments]
        return arguments, [np.asarray(each) for each in program.execute(buffers)]


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype in (ml_dtypes.bfloat16,)


def is_subnormal(array: np.ndarray) -> np.ndarray:
    if not is_float(array.dtype):
        return np.zeros(array.shape, bool)
    smallest = float(ml_dtypes.finfo(array.dtype).smallest_normal)
    wide = np.abs(array.astype(np.float64))
    return (wide > 0) & (wide < max(smallest, float(np.finfo(np.float32).smallest_normal)))


def largest(array: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        wide = np.abs(array.astype(np.float64))
    return float(np.max(wide, where=np.isfinite(wide), initial=0.0))


def allowed(result: Result, expected: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """Largest difference of each element."""
    info = ml_dtypes.finfo(expected.dtype)
    magnitude = np.abs(expected.astype(np.float64))
    eps = float(info.eps)
    if result.opcode in APPROXIMATE:
        ulps = ULPS if expected.dtype == np.float32 else 1
        return ulps * eps * np.maximum(magnitude, float(info.smallest_normal))
    if result.opcode in SUMS:
        terms = max([1, *(each.size for each in operands)])
        scale = max([0.0, *(largest(each) for each in operands)])
        if result.opcode in ("dot", "convolution", "triangular-solve", "cholesky"):
            scale = float(np.prod([max(1.0, largest(each)) for each in operands]))
        return SUM_ULPS * eps * terms * np.maximum(magnitude, scale)
    return np.zeros(expected.shape)


def is_true(result: Result, ours: Any, operands: list[Any]) -> bool:
    """Whether one element of ours is the true value, within TRUE_ULPS."""
    if is_float(ours.dtype):
        function = TRUE_VALUES.get(result.opcode)
        if function is None:
            return False
        with np.errstate(all="ignore"):
            true = float(function(*(np.float64(each) for each in operands)))
        info = ml_dtypes.finfo(ours.dtype)
        if not np.isfinite(true) or abs(true) > float(info.max):
            return bool(ours.astype(np.float64) == ours.dtype.type(true).astype(np.float64))
        room = TRUE_ULPS * float(info.eps) * max(abs(true), float(info.smallest_normal))
        return abs(float(ours) - true) <= room
    if result.opcode == "power":  # in the integers modulo 2^bits
        bits = ours.dtype.itemsize * 8
        base, exponent = (int(each) for each in operands)
        return exponent >= 0 and (pow(base, exponent, 1 << bits) - int(ours)) % (1 << bits) == 0
    return False


def fault(
    result: Result, ours: np.ndarray, expected: np.ndarray, operands: list[np.ndarray]
) -> str:
    """What is wrong with our result; "" if nothing is."""
    skip = is_subnormal(expected) | is_subnormal(ours)
    if any(is_subnormal(each).any() for each in operands):
        for each in operands:
            if each.shape == expected.shape:
                skip |= is_subnormal(each)
            elif is_subnormal(each).any():
                return ""
    if is_float(expected.dtype):
        with np.errstate(invalid="ignore", over="ignore"):
            a, b = ours.astype(np.float64), expected.astype(np.float64)
            good = (a == b) | (np.isnan(a) & np.isnan(b))
            good |= np.abs(a - b) <= allowed(result, expected, operands)
    else:
        good = ours == expected
    if result.opcode in SUMS and expected.dtype == np.float16:
        # A sum in f16 may leave its range on the way, one in f32 does not.
        skip |= ~np.isfinite(expected) | ~np.isfinite(ours)
    if result.opcode.startswith(("batch-norm", "cholesky", "convolution", "triangular-solve")):
        skip |= ~np.isfinite(expected.astype(np.float64)) | ~np.isfinite(ours.astype(np.float64))
    several = len(operands) > 2 and result.opcode in ("reduce", "reduce-window")
    # NaNs are not in the strict weak order that a comparison other than the total one makes.
    several = several or result.opcode == "sort"
    if several and any(is_float(each.dtype) and np.isnan(each).any() for each in operands):
        return ""
    bad = [tuple(at) for at in np.argwhere(~(good | skip))]
    if all(each.shape == expected.shape for each in operands):
        bad = [at for at in bad if not is_true(result, ours[at], [each[at] for each in operands])]
    if not bad:
        return ""
    at = bad[0]
    inputs = [each[at] if each.shape == expected.shape else each.shape for each in operands]
    return (
        f"{result.opcode} of {[str(each.dtype) for each in operands]} to {expected.dtype}"
        f"{list(expected.shape)}: element {list(map(int, at))}: {ours[at]!r}, XLA has "
        f"{expected[at]!r}, operands {inputs}; {len(bad)} differ"
    )


def compare(case: Case, peer: Peer) -> list[str]:
    """Everything that is wrong with the case. Raises Refused."""
    parameters, results = peer.run(case)
    faults = []
    for result, expected in zip(case.results, results, strict=True):
        if result.opcode in CALLERS and not is_float(expected.dtype) and b"power" in case.module:
            continue
        ours = np.frombuffer(result.data, expected.dtype).reshape(expected.shape)
        operands = [parameters[number] for number in result.operands]
        if text := fault(result, ours, expected, operands):
            faults.append(text)
    return faults


def work(tool: Path, family: str, first: int, count: int) -> None:
    """One line of JSON for each graph: seed, operations, faults, why XLA refused it."""
    peer = Peer()
    with subprocess.Popen(
        [tool, family, str(first), str(count)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for case in read_cases(process.stdout):
            faults: list[str] = []
            refused = ""
            try:
                faults = compare(case, peer)
            except Refused as reason:
                refused = str(reason)
            line = {"seed": case.seed, "operations": len(case.results), "faults": faults,
                    "refused": refused}  # fmt: skip
            print(json.dumps(line), flush=True)
    sys.exit(process.returncode)


@dataclass
class Outcome:
    graphs: int = 0  # compared
    operations: int = 0
    faults: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # by XLA, or the end of it


def run(tool: Path, family: str, first: int, count: int) -> Outcome:
    """In a process of its own, since some modules end jaxlib; the next ones go on without it."""
    outcome = Outcome()
    end = first + count
    while first < end:
        command = [sys.executable, __file__, "--work", "--tool", tool, "--family", family]
        command += ["--first", str(first), "--count", str(end - first)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            for text in process.stdout:
                line = json.loads(text)
                first = line["seed"] + 1
                if line["refused"]:
                    outcome.refused.append(f"{family} {line['seed']}: {line['refused']}")
                    continue
                outcome.graphs += 1
                outcome.operations += line["operations"]
                name = f"{family} {line['seed']}"
                outcome.faults += [f"{name}: {each}" for each in line["faults"]]
        if process.returncode != 0:
            outcome.refused.append(f"{family} {first}: jaxlib ended with {process.returncode}")
            first += 1
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--family", choices=FAMILIES, action="append")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100, help="graphs of each family")
    parser.add_argument("--work", action="store_true", help="one family, one line of JSON a graph")
    options = parser.parse_args()
    if options.work:
        work(options.tool, options.family[0], options.first, options.count)
    failed = False
    for family in options.family or FAMILIES:
        outcome = run(options.tool, family, options.first, options.count)
        print(
            f"{family}: {outcome.graphs} graphs, {outcome.operations} operations, "
            f"{len(outcome.faults)} differ, XLA refused {len(outcome.refused)} graphs",
            flush=True,
        )
        print("\n".join(outcome.faults + outcome.refused), flush=True)
        failed = failed or bool(outcome.faults)
    sys.exit(1 if failed else 0)


os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_allow_excess_precision=false --xla_backend_optimization_level=0 "
    "--xla_cpu_multi_thread_eigen=false --xla_disable_hlo_passes=simplify-while-loops",
)

if __name__ == "__main__":
    main()
