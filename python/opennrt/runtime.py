# SPDX-License-Identifier: Apache-2.0
"""The runtime: cores, device tensors, loaded models."""

import ctypes
import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from opennrt.bindings import (
    ModelTimes,
    NeuronError,
    TensorInfoRow,
    TensorInfoTable,
    nrt,
    nrt_call,
)
from opennrt.dtypes import numpy_of_nrt

_FRAMEWORK_NONE = 1
_DEVICE = 0
_OUTPUTS_ARE_THERE = (1003, 1004)  # completed with NaN, or with another error


@dataclass(frozen=True)
class TensorInfo:
    """One input or output of a model."""

    name: str
    is_input: bool
    dtype: np.dtype
    shape: tuple[int, ...]
    nbytes: int


def _info_of(row: TensorInfoRow) -> TensorInfo:
    shape = tuple(row.shape[i] for i in range(row.ndim))
    count = int(np.prod(shape, dtype=np.int64))
    item = row.size // count if count else 1
    dtype = numpy_of_nrt(row.dtype, item)
    return TensorInfo(row.name.decode("utf-8", "replace"), row.usage == 0, dtype, shape, row.size)


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Tensor:
    """Memory in the HBM of a core, with a NumPy type and shape. Made by Runtime.tensor()."""

    def __init__(self, core: int, dtype: np.dtype, shape: tuple[int, ...], name: str) -> None:
        self.dtype = dtype
        self.shape = shape
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        handle = ctypes.c_void_p()
        nrt_call(
            "nrt_tensor_allocate", _DEVICE, core, self.nbytes, name.encode(), ctypes.byref(handle)
        )
        self._handle = handle
        # Freeing after nrt_close() is allowed and does nothing.
        self._finalizer = weakref.finalize(self, nrt().nrt_tensor_free, ctypes.byref(handle))

    @property
    def handle(self) -> ctypes.c_void_p:
        """nrt_tensor_t*. NeuronError's sibling ValueError after free()."""
        if not self._finalizer.alive:
            raise ValueError("the tensor was freed")
        return self._handle

    def write(self, array: ArrayLike) -> None:
        """Copies an array of the tensor's shape to the device; other types are refused."""
        source = np.asarray(array)
        if source.shape != self.shape or source.dtype != self.dtype:
            raise ValueError(
                f"expected {self.dtype}{list(self.shape)}, found {source.dtype}{list(source.shape)}"
            )
        source = np.ascontiguousarray(source)
        nrt_call("nrt_tensor_write", self.handle, _pointer(source), 0, self.nbytes)

    def numpy(self) -> np.ndarray:
        """A copy in host memory."""
        array = np.empty(self.shape, self.dtype)
        nrt_call("nrt_tensor_read", self.handle, _pointer(array), 0, self.nbytes)
        return array

    def free(self) -> None:
        """Gives the memory back now instead of at garbage collection."""
        self._finalizer()


class _TensorSet:
    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        nrt_call("nrt_allocate_tensor_set", ctypes.byref(handle))
        self.handle = handle
        self.tensors: dict[str, Tensor] = {}
        weakref.finalize(self, nrt().nrt_destroy_tensor_set, ctypes.byref(handle))

    def put(self, name: str, tensor: Tensor) -> None:
        nrt_call("nrt_add_tensor_to_tensor_set", self.handle, name.encode(), tensor.handle)
        self.tensors[name] = tensor  # keeps it alive


class Model:
    """A loaded NEFF. Calling it copies inputs to the device, executes, and copies outputs back."""

    def __init__(self, neff: bytes, core: int) -> None:
        handle = ctypes.c_void_p()
        nrt_call("nrt_load", neff, len(neff), core, -1, ctypes.byref(handle))
        self._handle = handle
        self._finalizer = weakref.finalize(self, nrt().nrt_unload, handle)
        self.core = core
        table = ctypes.POINTER(TensorInfoTable)()
        nrt_call("nrt_get_model_tensor_info", handle, ctypes.byref(table))
        address = ctypes.addressof(table.contents) + TensorInfoTable.rows.offset
        rows = (TensorInfoRow * table.contents.count).from_address(address)
        infos = tuple(_info_of(row) for row in rows)
        nrt_call("nrt_free_model_tensor_info", table)
        self.inputs = tuple(info for info in infos if info.is_input)
        self.outputs = tuple(info for info in infos if not info.is_input)
        self._sets: tuple[_TensorSet, _TensorSet] | None = None

    def execute(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        """Runs on device tensors that the caller owns, given by name."""
        sets = (_TensorSet(), _TensorSet())
        for target, tensors in zip(sets, (inputs, outputs), strict=True):
            for name, tensor in tensors.items():
                target.put(name, tensor)
        self._run(sets)

    def __call__(self, *args: ArrayLike, **kwargs: ArrayLike) -> dict[str, np.ndarray]:
        """Inputs by position or by name; outputs by name. NeuronError(1003) when NaN was found and
        the runtime was told to look: its attribute `outputs` then has the arrays."""
        given = self._bind(args, kwargs)
        sets = self._own_sets()
        for info in self.inputs:
            sets[0].tensors[info.name].write(given[info.name])
        try:
            self._run(sets)
        except NeuronError as error:
            if error.status in _OUTPUTS_ARE_THERE:
                error.outputs = self._read(sets[1])
            raise
        return self._read(sets[1])

    def times(self) -> dict[str, int] | None:
        """Executions, device time (by the timing model) and wall time in ns; None where libnrt does
        not report them."""
        if not hasattr(nrt(), "onrt_get_model_times"):
            return None
        times = ModelTimes()
        size = ctypes.c_size_t()
        nrt_call(
            "onrt_get_model_times",
            self._handle,
            ctypes.byref(times),
            ctypes.sizeof(times),
            ctypes.byref(size),
        )
        return {name: getattr(times, name) for name, _ in ModelTimes._fields_}

    def unload(self) -> None:
        """Frees the model and its buffers now instead of at garbage collection."""
        self._sets = None
        self._finalizer()

    def _run(self, sets: tuple[_TensorSet, _TensorSet]) -> None:
        if not self._finalizer.alive:
            raise ValueError("the model was unloaded")
        nrt_call("nrt_execute", self._handle, sets[0].handle, sets[1].handle)

    def _own_sets(self) -> tuple[_TensorSet, _TensorSet]:
        if self._sets is None:
            sets = (_TensorSet(), _TensorSet())
            for target, infos in zip(sets, (self.inputs, self.outputs), strict=True):
                for info in infos:
                    target.put(info.name, Tensor(self.core, info.dtype, info.shape, info.name))
            self._sets = sets
        return self._sets

    def _read(self, outputs: _TensorSet) -> dict[str, np.ndarray]:
        return {info.name: outputs.tensors[info.name].numpy() for info in self.outputs}

    def _bind(self, args: tuple, kwargs: dict[str, ArrayLike]) -> dict[str, np.ndarray]:
        names = [info.name for info in self.inputs]
        if len(args) > len(names):
            raise TypeError(f"the model has {len(names)} inputs, {len(args)} were given")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in given:
                raise TypeError(f"input {name!r} is unknown or given twice; inputs: {names}")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            raise TypeError(f"no value for inputs {missing}")
        return {info.name: self._adapt(info, given[info.name]) for info in self.inputs}

    @staticmethod
    def _adapt(info: TensorInfo, value: ArrayLike) -> np.ndarray:
        """Plain Python numbers take the input's type; arrays must have it (bool counts as u8, and
        any one-byte type as fp8)."""
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            if array.dtype != info.dtype and array.dtype.itemsize == info.dtype.itemsize:
                raw = (
                    array.dtype.kind in "bV" or info.dtype.kind == "V" or array.dtype.isbuiltin == 2
                )
                array = np.ascontiguousarray(array).view(info.dtype) if raw else array
        else:
            array = np.asarray(value, dtype=info.dtype)
        if array.shape != info.shape or array.dtype != info.dtype:
            raise ValueError(
                f"input {info.name!r}: expected {info.dtype}{list(info.shape)}, "
                f"found {array.dtype}{list(array.shape)}"
            )
        return array


class Runtime:
    """The process' use of its visible cores: nrt_init() on entry, nrt_close() on exit."""

    def __init__(self, framework: int = _FRAMEWORK_NONE) -> None:
        nrt_call("nrt_init", framework, b"", b"")
        self._open = True
        self._models: weakref.WeakSet[Model] = weakref.WeakSet()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unloads its models and gives the cores back. Its tensors are dead afterwards."""
        if self._open:
            self._open = False
            for model in list(self._models):
                model.unload()
            nrt().nrt_close()

    @property
    def core_count(self) -> int:
        """Visible (logical) cores."""
        count = ctypes.c_uint32()
        nrt_call("nrt_get_visible_vnc_count", ctypes.byref(count))
        return count.value

    def load(self, neff: bytes | str | os.PathLike, core: int = 0) -> Model:
        """Loads a NEFF from bytes or a file."""
        data = neff if isinstance(neff, bytes) else Path(neff).read_bytes()
        model = Model(data, core)
        self._models.add(model)
        return model

    def tensor(self, array: ArrayLike, core: int = 0, name: str = "") -> Tensor:
        """A device tensor with a copy of an array."""
        source = np.asarray(array)
        tensor = self.empty(source.shape, source.dtype, core, name)
        tensor.write(source)
        return tensor

    def empty(
        self,
        shape: tuple[int, ...],
        dtype: "np.dtype | type | str",
        core: int = 0,
        name: str = "",
    ) -> Tensor:
        """A device tensor; its first content is undefined."""
        return Tensor(core, np.dtype(dtype), tuple(shape), name)
