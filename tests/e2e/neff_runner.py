# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs HLO modules the way a client does: neuronx-cc, then the C interface of libnrt.

Only public functions of include/nrt/*.h are called. One Runtime per process.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np

STAGE = Path(os.environ.get("ONRT_STAGE", Path(__file__).parents[2] / "build" / "stage"))
COMPILER = STAGE / "bin" / "neuronx-cc"

# nrt_dtype_t -> numpy; truth values are reported as uint8 and fp8 as int8.
DTYPES = {
    0x1: np.uint64,
    0x2: np.int8,
    0x3: np.uint8,
    0x4: np.int16,
    0x5: np.uint16,
    0x6: ml_dtypes.bfloat16,
    0x7: np.float16,
    0x8: np.int32,
    0x9: np.uint32,
    0xA: np.float32,
    0xC: np.int64,
}
INPUT, OUTPUT, DEVICE = 0, 1, 0


class TensorInfo(ctypes.Structure):
    """nrt_tensor_info_t."""

    _fields_ = (
        ("name", ctypes.c_char * 256),
        ("usage", ctypes.c_int),
        ("size", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_uint32)),
        ("ndim", ctypes.c_uint32),
    )


class NrtError(RuntimeError):
    """A call of libnrt that failed; `status` is its NRT_STATUS."""

    def __init__(self, call: str, status: int, text: str) -> None:
        super().__init__(f"{call} -> {status}: {text}")
        self.status = status


def compile_module(pb: Path, neff: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """`neuronx-cc compile` of a serialized module; does not check the exit status."""
    command = [COMPILER, "compile", "--framework", "XLA", pb, "--target", "trn2"]
    command += ["--output", neff, "--logfile", "/dev/null", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


class Runtime:
    """libnrt, open on one core of the machine that the environment names."""

    def __init__(self) -> None:
        self.nrt = ctypes.CDLL(str(STAGE / "lib" / "libnrt.so.1"))
        self.nrt.onrt_last_error.restype = ctypes.c_char_p
        self.call("nrt_init", 1, b"", b"")

    def close(self) -> None:
        """Gives the core back."""
        self.nrt.nrt_close()

    def call(self, name: str, *arguments: object) -> None:
        """One function of libnrt; raises NrtError unless it succeeds."""
        status = getattr(self.nrt, name)(*arguments)
        if status != 0:
            text = self.nrt.onrt_last_error() or b""
            raise NrtError(name, status, text.decode(errors="replace"))

    def load(self, neff: bytes) -> Model:
        """The model of a NEFF on core 0."""
        return Model(self, neff)


class Model:
    """A loaded NEFF."""

    def __init__(self, runtime: Runtime, neff: bytes) -> None:
        self.runtime = runtime
        self.handle = ctypes.c_void_p()
        runtime.call("nrt_load", neff, ctypes.c_size_t(len(neff)), 0, 1, ctypes.byref(self.handle))
        table = ctypes.c_void_p()
        runtime.call("nrt_get_model_tensor_info", self.handle, ctypes.byref(table))
        count = ctypes.c_uint64.from_address(table.value or 0).value
        rows = (TensorInfo * count).from_address((table.value or 0) + 8)
        self.tensors = [
            (row.name, row.usage, row.size, row.dtype, tuple(row.shape[: row.ndim])) for row in rows
        ]
        runtime.call("nrt_free_model_tensor_info", table)

    def unload(self) -> None:
        """Frees the model."""
        self.runtime.call("nrt_unload", self.handle)

    def run(self, inputs: Sequence[np.ndarray], aliases: dict[int, int] | None = None) -> list:
        """Executes once; `aliases` maps an output to the input whose tensor it shares."""
        bound = BoundModel(self, inputs, aliases)
        try:
            bound.execute()
            return bound.results()
        finally:
            bound.free()


class BoundModel:
    """A model with tensors for its inputs, which hold `inputs`, and its outputs."""

    def __init__(
        self, model: Model, inputs: Sequence[np.ndarray], aliases: dict[int, int] | None = None
    ) -> None:
        self.model = model
        self.runtime = model.runtime
        self.sets = [ctypes.c_void_p(), ctypes.c_void_p()]
        self.tensors: list[list[ctypes.c_void_p]] = [[], []]
        try:
            self._bind(inputs, aliases or {})
        except BaseException:
            self.free()
            raise

    def _bind(self, inputs: Sequence[np.ndarray], aliases: dict[int, int]) -> None:
        call = self.runtime.call
        for each in self.sets:
            call("nrt_allocate_tensor_set", ctypes.byref(each))
        for name, usage, size, _, _ in self.model.tensors:
            number = len(self.tensors[usage])
            if size == 0:  # has no tensor
                self.tensors[usage].append(ctypes.c_void_p())
                continue
            shared = aliases.get(number) if usage == OUTPUT else None
            tensor = ctypes.c_void_p()
            if shared is not None:
                tensor = self.tensors[INPUT][shared]
            else:
                call(
                    "nrt_tensor_allocate",
                    DEVICE,
                    0,
                    ctypes.c_size_t(size),
                    name,
                    ctypes.byref(tensor),
                )
            self.tensors[usage].append(tensor)
            call("nrt_add_tensor_to_tensor_set", self.sets[usage], name, tensor)
            if usage == INPUT:
                self._write(tensor, inputs[number], name, size)

    def execute(self) -> None:
        """nrt_execute."""
        self.runtime.call("nrt_execute", self.model.handle, *self.sets)

    def results(self) -> list[np.ndarray]:
        """The outputs as they are now."""
        rows = [row for row in self.model.tensors if row[1] == OUTPUT]
        return [self._read(t, *row[2:]) for t, row in zip(self.tensors[OUTPUT], rows, strict=True)]

    def free(self) -> None:
        """Frees tensors and sets."""
        for each in self.sets:
            self.runtime.nrt.nrt_destroy_tensor_set(ctypes.byref(each))
        for address in {t.value for group in self.tensors for t in group if t.value}:
            self.runtime.nrt.nrt_tensor_free(ctypes.byref(ctypes.c_void_p(address)))

    def _write(self, tensor: ctypes.c_void_p, value: np.ndarray, name: bytes, size: int) -> None:
        data = np.ascontiguousarray(value)
        assert data.nbytes == size, f"input {name!r}: {data.nbytes} bytes for a tensor of {size}"
        self.runtime.call(
            "nrt_tensor_write",
            tensor,
            data.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(0),
            ctypes.c_size_t(size),
        )

    def _read(
        self, tensor: ctypes.c_void_p, size: int, dtype: int, shape: tuple[int, ...]
    ) -> np.ndarray:
        data = np.empty(size, np.uint8)
        self.runtime.call(
            "nrt_tensor_read",
            tensor,
            data.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(0),
            ctypes.c_size_t(size),
        )
        return data.view(DTYPES[dtype]).reshape(shape)
