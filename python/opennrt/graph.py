# SPDX-License-Identifier: Apache-2.0
"""Graphs of HLO operations, built in memory or read from text, and their compilation to a NEFF."""

import ctypes
import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from opennrt.bindings import (
    Attribute,
    CompileError,
    Options,
    Shape,
    nrtcc,
    nrtcc_call,
    nrtcc_text,
    nrtcc_warnings,
)
from opennrt.cache import CompileCache
from opennrt.dtypes import Row, row_of

# nrtcc_attr_key_t: name -> number. Values of `_INTS` are whole numbers or sequences of them, of
# `_TEXT` str or bytes, of `_FLAGS` True.
_INTS = {
    "parameter_number": 1,
    "dimensions": 3,
    "slice": 4,
    "padding": 5,
    "lhs_contracting": 8,
    "rhs_contracting": 9,
    "lhs_batch": 10,
    "rhs_batch": 11,
    "called": 12,
    "offset_dims": 13,
    "collapsed_dims": 14,
    "index_map": 15,
    "index_vector_dim": 16,
    "slice_sizes": 17,
    "operand_batching": 18,
    "indices_batching": 19,
    "rng_distribution": 22,
    "rng_algorithm": 23,
    "tuple_index": 24,
    "exponent_mantissa": 27,
    "window": 29,
    "conv_dims": 30,
    "groups": 31,
}
_TEXT = {"comparison": 6, "target": 25, "backend_config": 26, "name": 33, "source": 34}
_FLAGS = {"total_order": 7, "indices_sorted": 20, "unique_indices": 21, "stable": 28}
_LITERAL = 2
_EPSILON = 32
_AUTO_CAST = {"none": 0, "matmult": 1, "all": 2}


@dataclass(frozen=True)
class Value:
    """Result of an operation: an array, or a tuple when `elements` is set."""

    number: int
    computation: int
    dtype: str
    shape: tuple[int, ...]
    elements: tuple["Value", ...] | None = None


class _Attributes:
    """An array of nrtcc_attr_t and what it points to."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._keep: list[object] = []
        rows = [self._row(name, value) for name, value in values.items()]
        self.count = len(rows)
        self.array = (Attribute * self.count)(*rows)

    def _row(self, name: str, value: Any) -> Attribute:
        if name == "literal":
            return self._bytes(_LITERAL, np.ascontiguousarray(value).tobytes())
        if name == "epsilon":
            return self._bytes(_EPSILON, np.float32(value).tobytes())
        if name in _TEXT:
            data = value if isinstance(value, bytes) else str(value).encode()
            return self._bytes(_TEXT[name], data)
        if name in _FLAGS:
            return Attribute(key=_FLAGS[name])
        if name in _INTS:
            items = [value] if isinstance(value, int | Computation) else list(value)
            numbers = [i.number if isinstance(i, Computation) else int(i) for i in items]
            ints = (ctypes.c_int64 * len(numbers))(*numbers)
            self._keep.append(ints)
            return Attribute(key=_INTS[name], count=len(numbers), ints=ints)
        known = sorted([*_INTS, *_TEXT, *_FLAGS, "literal", "epsilon"])
        raise TypeError(f"unknown attribute {name!r}; known: {', '.join(known)}")

    def _bytes(self, key: int, data: bytes) -> Attribute:
        buffer = ctypes.create_string_buffer(data, len(data))
        self._keep.append(buffer)
        return Attribute(key=key, data=ctypes.addressof(buffer), size=len(data))


def _shape(value: Value, keep: list[object]) -> Shape:
    if value.elements is not None:
        elements = (Shape * len(value.elements))(*(_shape(e, keep) for e in value.elements))
        keep.append(elements)
        return Shape(dtype=13, rank=len(value.elements), elements=elements)
    dims = (ctypes.c_int64 * len(value.shape))(*value.shape)
    keep.append(dims)
    return Shape(dtype=row_of(value.dtype).xla, rank=len(value.shape), dims=dims)


class Computation:
    """Operations with parameters and a root. The entry computation is part of every Graph; others
    are called by reduce, scatter, while, ..."""

    def __init__(self, graph: "Graph", number: int) -> None:
        self._graph = graph
        self.number = number
        self._parameters: list[Value] = []
        self.result: Value | None = None

    def parameter(self, dtype: "str | np.dtype | type", shape: Sequence[int] = ()) -> Value:
        """The next parameter."""
        value = self.op(
            "parameter", dtype=dtype, shape=shape, parameter_number=len(self._parameters)
        )
        self._parameters.append(value)
        return value

    def constant(self, array: ArrayLike, dtype: "str | np.dtype | type | None" = None) -> Value:
        """A constant; Python numbers need a dtype or become what NumPy makes of them."""
        row: Row = row_of(dtype if dtype is not None else np.asarray(array).dtype)
        data = np.asarray(array, dtype=row.numpy)
        return self.op("constant", dtype=row.name, shape=data.shape, literal=data)

    def op(
        self,
        opcode: str,
        *operands: Value,
        dtype: "str | np.dtype | type | None" = None,
        shape: Sequence[int] | None = None,
        **attributes: Any,
    ) -> Value:
        """Appends an HLO operation such as "add" or "dynamic-slice". Type and shape of the result
        are those of the first operand unless given. Attributes: see nrtcc.h, in lower case."""
        first = operands[0] if operands else None
        if first is None and (dtype is None or shape is None):
            raise TypeError(f"{opcode}: without operands, dtype and shape must be given")
        name = row_of(dtype).name if dtype is not None else first.dtype
        dims = tuple(int(d) for d in shape) if shape is not None else first.shape
        return self._append(opcode, operands, Value(-1, self.number, name, dims), attributes)

    def tuple(self, *values: Value) -> Value:
        """Several results in one value; the usual root of a graph with many outputs."""
        return self._append("tuple", values, Value(-1, self.number, "", (), tuple(values)), {})

    def root(self, value: Value) -> None:
        """The result of the computation."""
        nrtcc_call("nrtcc_set_root", self._graph.handle, self.number, value.number)
        self.result = value

    def _append(
        self, opcode: str, operands: Sequence[Value], result: Value, attributes: dict[str, Any]
    ) -> Value:
        code = nrtcc().nrtcc_opcode(opcode.encode())
        if code < 0:
            raise CompileError("nrtcc_opcode", 1, f"unknown HLO opcode {opcode!r}")
        keep: list[object] = []
        shape = _shape(result, keep)
        numbers = (ctypes.c_int32 * len(operands))(*(o.number for o in operands))
        rows = _Attributes(attributes)
        number = ctypes.c_int32(-1)
        nrtcc_call(
            "nrtcc_op",
            self._graph.handle,
            self.number,
            code,
            numbers,
            len(operands),
            ctypes.byref(shape),
            rows.array,
            rows.count,
            ctypes.byref(number),
        )
        return Value(number.value, self.number, result.dtype, result.shape, result.elements)


class Graph(Computation):
    """A module: its entry computation and those that it calls."""

    def __init__(self, name: str = "main", *, _handle: ctypes.c_void_p | None = None) -> None:
        handle = _handle
        if handle is None:
            handle = ctypes.c_void_p()
            nrtcc_call("nrtcc_graph_create", name.encode(), ctypes.byref(handle))
        self.handle = handle
        weakref.finalize(self, nrtcc().nrtcc_graph_destroy, handle)
        super().__init__(self, 0)

    @classmethod
    def parse(cls, text: str) -> "Graph":
        """Reads the text form that `str(graph)` gives."""
        data = text.encode()
        handle = ctypes.c_void_p()
        nrtcc_call("nrtcc_parse", data, len(data), ctypes.byref(handle))
        return cls(_handle=handle)

    def __str__(self) -> str:
        return nrtcc_text("nrtcc_print", self.handle)

    def computation(self, name: str) -> Computation:
        """A new computation to be called, e.g. by reduce(called=...)."""
        number = ctypes.c_int32()
        nrtcc_call("nrtcc_computation", self.handle, name.encode(), ctypes.byref(number))
        return Computation(self, number.value)

    def name_input(self, parameter: int, name: str) -> None:
        """Name of a parameter in the NEFF's tensor table (default input0, input1, ...)."""
        nrtcc_call("nrtcc_set_input_name", self.handle, parameter, name.encode())

    def name_output(self, output: int, name: str) -> None:
        """Name of an output in the NEFF's tensor table (default output0, output1, ...)."""
        nrtcc_call("nrtcc_set_output_name", self.handle, output, name.encode())

    def alias(self, output: int, parameter: int) -> None:
        """The output may live in the buffer of the parameter."""
        nrtcc_call("nrtcc_set_alias", self.handle, output, parameter)

    def compile(
        self,
        target: str = "trn2",
        *,
        lnc: int = 0,
        optimization: int = -1,
        compress: bool = False,
        auto_cast: str = "none",
        auto_cast_type: str = "bf16",
        dump_dir: str | None = None,
        cache: CompileCache | None = None,
    ) -> bytes:
        """The NEFF, from the cache if it has it. CompileError names the operation that can't be
        compiled; what the compiler wants the user to know is a RuntimeWarning."""
        options = Options(
            struct_size=ctypes.sizeof(Options),
            target=target.encode(),
            lnc=lnc,
            optimization=optimization,
            compress=int(compress),
            auto_cast=_AUTO_CAST[auto_cast],
            auto_cast_type=row_of(auto_cast_type).xla,
            dump_dir=dump_dir.encode() if dump_dir is not None else None,
        )
        neff = ctypes.POINTER(ctypes.c_uint8)()
        size = ctypes.c_size_t()
        wanted = (self.handle, ctypes.byref(options), ctypes.byref(neff), ctypes.byref(size))
        if cache is None:
            nrtcc_call("nrtcc_compile", *wanted)
        else:
            nrtcc_call("nrtcc_compile_cached", cache.handle, *wanted, None)
        try:
            made = ctypes.string_at(neff, size.value)
        finally:
            nrtcc().nrtcc_free(neff)
        for line in nrtcc_warnings():
            warnings.warn(line, RuntimeWarning, stacklevel=2)
        return made

    def interpret(self, *inputs: ArrayLike) -> list[np.ndarray]:
        """Outputs by the reference interpreter: slow, needs no device. For graphs built here."""
        if self.result is None:
            raise ValueError("the graph has no root")
        arrays = []
        for value, array in zip(self._parameters, inputs, strict=True):
            source = np.ascontiguousarray(array, dtype=row_of(value.dtype).numpy)
            if source.shape != value.shape:
                raise ValueError(f"expected shape {value.shape}, found {source.shape}")
            arrays.append(source)
        results = self.result.elements or (self.result,)
        outputs = [np.empty(r.shape, row_of(r.dtype).numpy) for r in results]
        given = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        wanted = (ctypes.c_void_p * len(outputs))(*(o.ctypes.data for o in outputs))
        nrtcc_call("nrtcc_interpret", self.handle, given, len(arrays), wanted, len(outputs))
        return outputs


def compile_text(text: str, target: str = "trn2", **options: Any) -> bytes:
    """Compiles a graph in text form (docs/nrtcc.md); options as in Graph.compile()."""
    return Graph.parse(text).compile(target, **options)
