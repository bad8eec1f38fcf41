# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the two C libraries, once, and turns their failures into exceptions."""

import ctypes
import functools
import os
from pathlib import Path

RUNTIME = "libnrt.so.1"
COMPILER = "libnrtcc.so.1"
VENDOR_FOLDER = Path("/opt/aws/neuron/lib")


class NeuronError(RuntimeError):
    """A call of libnrt that failed. `status` is its NRT_STATUS."""

    def __init__(self, call: str, status: int, name: str, detail: str) -> None:
        super().__init__(f"{call}: {name} ({status})" + (f": {detail}" if detail else ""))
        self.status = status
        self.detail = detail


class CompileError(ValueError):
    """A call of libnrtcc that failed. `status` is its nrtcc_status_t."""

    def __init__(self, call: str, status: int, detail: str) -> None:
        super().__init__(f"{call}: {detail or f'status {status}'}")
        self.status = status
        self.detail = detail


def _already_loaded(name: str) -> Path | None:
    """Path of a library that this process has mapped."""
    stem = name.removesuffix(".1")
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in maps.splitlines():
        path = Path(line.split(maxsplit=5)[-1])
        if path.name.startswith(stem):
            return path
    return None


def _bundled(name: str) -> Path | None:
    """Beside this package: <prefix>/lib of <prefix>/python/opennrt, or a folder `lib` in it."""
    package = Path(__file__).resolve().parent
    for folder in (package / "lib", package.parent.parent / "lib"):
        if (folder / name).exists():
            return folder / name
    return None


def library_path(name: str = RUNTIME) -> str:
    """Which file is used: already loaded > OPENNRT_LIBNRT > the vendor's, if there is a device >
    the bundled one > the dynamic loader's search path."""
    loaded = _already_loaded(name)
    if loaded is not None:
        return str(loaded)
    if name == RUNTIME:
        chosen = os.environ.get("OPENNRT_LIBNRT")
        if chosen:
            return chosen
        vendor = VENDOR_FOLDER / name
        if Path("/dev/neuron0").exists() and vendor.exists():
            return str(vendor)
    elif chosen := os.environ.get("OPENNRT_LIBNRTCC"):
        return chosen
    bundled = _bundled(name)
    return str(bundled) if bundled is not None else name


def _load(name: str) -> ctypes.CDLL:
    path = library_path(name)
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise OSError(
            f"cannot load {path}: {error}; source share/opennrt/env.sh of an OpenNRT tree, or name "
            f"the file in {'OPENNRT_LIBNRT' if name == RUNTIME else 'OPENNRT_LIBNRTCC'}"
        ) from error


class TensorInfoRow(ctypes.Structure):
    """nrt_tensor_info_t."""

    _fields_ = (
        ("name", ctypes.c_char * 256),
        ("usage", ctypes.c_int),
        ("size", ctypes.c_size_t),
        ("dtype", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_uint32)),
        ("ndim", ctypes.c_uint32),
    )


class TensorInfoTable(ctypes.Structure):
    """nrt_tensor_info_array_t; the rows follow."""

    _fields_ = (("count", ctypes.c_uint64), ("rows", TensorInfoRow * 0))


class ModelTimes(ctypes.Structure):
    """onrt_model_times_t."""

    _fields_ = (
        ("executions", ctypes.c_uint64),
        ("last_device_ns", ctypes.c_uint64),
        ("total_device_ns", ctypes.c_uint64),
        ("last_wall_ns", ctypes.c_uint64),
        ("total_wall_ns", ctypes.c_uint64),
    )


class Shape(ctypes.Structure):
    """nrtcc_shape_t."""


Shape._fields_ = (
    ("dtype", ctypes.c_int),
    ("rank", ctypes.c_int32),
    ("dims", ctypes.POINTER(ctypes.c_int64)),
    ("elements", ctypes.POINTER(Shape)),
)


class Attribute(ctypes.Structure):
    """nrtcc_attr_t."""

    _fields_ = (
        ("key", ctypes.c_int),
        ("count", ctypes.c_int32),
        ("ints", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
    )


class Options(ctypes.Structure):
    """nrtcc_options_t."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("target", ctypes.c_char_p),
        ("lnc", ctypes.c_int32),
        ("optimization", ctypes.c_int32),
        ("compress", ctypes.c_int32),
        ("auto_cast", ctypes.c_int32),
        ("auto_cast_type", ctypes.c_int),
        ("dump_dir", ctypes.c_char_p),
    )


class CacheOptions(ctypes.Structure):
    """nrtcc_cache_options_t."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("folder", ctypes.c_char_p),
        ("disk_bytes", ctypes.c_int64),
        ("memory_bytes", ctypes.c_int64),
        ("memory_programs", ctypes.c_int64),
    )


class CacheStats(ctypes.Structure):
    """nrtcc_cache_stats_t."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("memory_hits", ctypes.c_uint64),
        ("memory_waits", ctypes.c_uint64),
        ("memory_evictions", ctypes.c_uint64),
        ("memory_programs", ctypes.c_uint64),
        ("memory_bytes", ctypes.c_uint64),
        ("disk_hits", ctypes.c_uint64),
        ("disk_stores", ctypes.c_uint64),
        ("disk_evictions", ctypes.c_uint64),
        ("disk_damaged", ctypes.c_uint64),
        ("compiled", ctypes.c_uint64),
        ("failed", ctypes.c_uint64),
        ("disk_used", ctypes.c_int32),
    )


_P = ctypes.c_void_p
_PP = ctypes.POINTER(ctypes.c_void_p)
_NRT_FUNCTIONS = {
    "nrt_init": (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p),
    "nrt_get_visible_vnc_count": (ctypes.POINTER(ctypes.c_uint32),),
    "nrt_load": (_P, ctypes.c_size_t, ctypes.c_int32, ctypes.c_int32, _PP),
    "nrt_unload": (_P,),
    "nrt_get_model_tensor_info": (_P, ctypes.POINTER(ctypes.POINTER(TensorInfoTable))),
    "nrt_free_model_tensor_info": (ctypes.POINTER(TensorInfoTable),),
    "nrt_allocate_tensor_set": (_PP,),
    "nrt_add_tensor_to_tensor_set": (_P, ctypes.c_char_p, _P),
    "nrt_tensor_allocate": (ctypes.c_int, ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p, _PP),
    "nrt_tensor_read": (_P, _P, ctypes.c_size_t, ctypes.c_size_t),
    "nrt_tensor_write": (_P, _P, ctypes.c_size_t, ctypes.c_size_t),
    "nrt_execute": (_P, _P, _P),
}
_NRTCC_FUNCTIONS = {
    "nrtcc_graph_create": (ctypes.c_char_p, _PP),
    "nrtcc_computation": (_P, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int32)),
    "nrtcc_op": (
        _P,
        ctypes.c_int32,
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_int32),
        ctypes.c_int32,
        ctypes.POINTER(Shape),
        ctypes.POINTER(Attribute),
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_int32),
    ),
    "nrtcc_set_root": (_P, ctypes.c_int32, ctypes.c_int32),
    "nrtcc_set_input_name": (_P, ctypes.c_int32, ctypes.c_char_p),
    "nrtcc_set_output_name": (_P, ctypes.c_int32, ctypes.c_char_p),
    "nrtcc_set_alias": (_P, ctypes.c_int32, ctypes.c_int32),
    "nrtcc_compile": (
        _P,
        ctypes.POINTER(Options),
        ctypes.POINTER(ctypes.POINTER(ctypes.c_uint8)),
        ctypes.POINTER(ctypes.c_size_t),
    ),
    "nrtcc_cache_open": (ctypes.POINTER(CacheOptions), _PP),
    "nrtcc_compile_cached": (
        _P,
        _P,
        ctypes.POINTER(Options),
        ctypes.POINTER(ctypes.POINTER(ctypes.c_uint8)),
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.POINTER(ctypes.c_int),
    ),
    "nrtcc_cache_stats": (_P, ctypes.POINTER(CacheStats)),
    "nrtcc_cache_problem": (_P, _PP),
    "nrtcc_cache_key": (_P, ctypes.POINTER(Options), _PP),
    "nrtcc_interpret": (_P, _PP, ctypes.c_int32, _PP, ctypes.c_int32),
    "nrtcc_print": (_P, _PP),
    "nrtcc_parse": (ctypes.c_char_p, ctypes.c_size_t, _PP),
}


def _declare(library: ctypes.CDLL, functions: dict[str, tuple]) -> None:
    for name, arguments in functions.items():
        function = getattr(library, name, None)
        if function is not None:  # an older library lacks some; calling one raises AttributeError
            function.argtypes = arguments
            function.restype = ctypes.c_int


@functools.cache
def nrt() -> ctypes.CDLL:
    """libnrt.so.1 with declared signatures."""
    library = _load(RUNTIME)
    _declare(library, _NRT_FUNCTIONS)
    library.nrt_close.argtypes = ()
    library.nrt_close.restype = None
    library.nrt_tensor_free.argtypes = (_PP,)
    library.nrt_tensor_free.restype = None
    library.nrt_destroy_tensor_set.argtypes = (_PP,)
    library.nrt_destroy_tensor_set.restype = None
    library.nrt_get_status_as_str.argtypes = (ctypes.c_int,)
    library.nrt_get_status_as_str.restype = ctypes.c_char_p
    if hasattr(library, "onrt_last_error"):  # not in the vendor's library
        library.onrt_last_error.argtypes = ()
        library.onrt_last_error.restype = ctypes.c_char_p
    if hasattr(library, "onrt_get_model_times"):
        library.onrt_get_model_times.argtypes = (
            _P,
            ctypes.POINTER(ModelTimes),
            ctypes.c_size_t,
            ctypes.POINTER(ctypes.c_size_t),
        )
        library.onrt_get_model_times.restype = ctypes.c_int
    return library


@functools.cache
def nrtcc() -> ctypes.CDLL:
    """libnrtcc.so.1 with declared signatures."""
    library = _load(COMPILER)
    _declare(library, _NRTCC_FUNCTIONS)
    library.nrtcc_graph_destroy.argtypes = (_P,)
    library.nrtcc_graph_destroy.restype = None
    library.nrtcc_free.argtypes = (_P,)
    library.nrtcc_free.restype = None
    library.nrtcc_opcode.argtypes = (ctypes.c_char_p,)
    library.nrtcc_opcode.restype = ctypes.c_int32
    library.nrtcc_last_error.argtypes = ()
    library.nrtcc_last_error.restype = ctypes.c_char_p
    library.nrtcc_last_warnings.argtypes = ()
    library.nrtcc_last_warnings.restype = ctypes.c_char_p
    if hasattr(library, "nrtcc_cache_close"):  # not in an older library
        library.nrtcc_cache_close.argtypes = (_P,)
        library.nrtcc_cache_close.restype = None
    return library


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")


def nrt_call(name: str, *arguments: object) -> None:
    """Calls a function of libnrt; NeuronError unless it returns NRT_SUCCESS."""
    library = nrt()
    status = getattr(library, name)(*arguments)
    if status != 0:
        detail = _text(library.onrt_last_error()) if hasattr(library, "onrt_last_error") else ""
        raise NeuronError(name, status, _text(library.nrt_get_status_as_str(status)), detail)


def nrtcc_call(name: str, *arguments: object) -> None:
    """Calls a function of libnrtcc; CompileError unless it returns NRTCC_OK."""
    library = nrtcc()
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise CompileError(name, status, _text(library.nrtcc_last_error()))


def nrtcc_text(name: str, *arguments: object) -> str:
    """Calls a function of libnrtcc whose last parameter receives a text."""
    text = ctypes.c_void_p()
    nrtcc_call(name, *arguments, ctypes.byref(text))
    try:
        return _text(ctypes.cast(text, ctypes.c_char_p).value)
    finally:
        nrtcc().nrtcc_free(text)


def nrtcc_warnings() -> list[str]:
    """What the last successful compilation of this thread wants the user to know."""
    return _text(nrtcc().nrtcc_last_warnings()).splitlines()
