# SPDX-License-Identifier: Apache-2.0
"""The table of programs. A program is a factory that makes a function and its arguments."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import ml_dtypes
import numpy as np

BF16 = ml_dtypes.bfloat16


class Data:
    """Random arguments from a seed that is a function of the program's name."""

    def __init__(self, name: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def normal(self, *shape: int, scale: float = 1.0, dtype: type = np.float32) -> np.ndarray:
        """Normal numbers with this deviation."""
        return (self.rng.standard_normal(shape) * scale).astype(dtype)

    def weight(self, *shape: int, dtype: type = np.float32) -> np.ndarray:
        """Normal numbers with deviation 1/sqrt(inputs); the last dimension is the outputs."""
        return self.normal(*shape, scale=float(np.prod(shape[:-1])) ** -0.5, dtype=dtype)

    def integers(self, limit: int, *shape: int) -> np.ndarray:
        """int32 in [0, limit)."""
        return self.rng.integers(0, limit, shape, dtype=np.int32)

    def bits(self, *shape: int, dtype: type = np.uint32) -> np.ndarray:
        """All bit patterns of an integer type."""
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


Factory = Callable[[Data, bool], tuple[Callable[..., object], tuple[object, ...]]]


@dataclass(frozen=True)
class Program:
    """`tolerance`: |a - b| over the largest magnitude of a result; integers are always exact."""

    name: str
    tolerance: float
    bench: bool
    factory: Factory

    def make(self, large: bool) -> tuple[Callable[..., object], tuple[object, ...]]:
        """The function and its arguments; `large` for benchmarks."""
        return self.factory(Data(self.name), large)


_table: dict[str, Program] = {}


def program(tolerance: float = 1e-5, bench: bool = True) -> Callable[[Factory], Factory]:
    """Registers the factory under its function's name."""

    def add(factory: Factory) -> Factory:
        name = factory.__name__
        assert name not in _table, name
        _table[name] = Program(name, tolerance, bench, factory)
        return factory

    return add


def all_programs() -> Iterator[Program]:
    """In order of registration."""
    for module in ("models", "layers", "indexing", "numerics"):
        importlib.import_module(f"programs.{module}")
    yield from _table.values()
