# SPDX-License-Identifier: Apache-2.0
"""Element types under three names: HLO text, NumPy, and the numbers of the two C interfaces."""

from typing import NamedTuple

import numpy as np

try:
    import ml_dtypes
except ImportError:  # bf16 and fp8 are then arrays of raw bytes
    ml_dtypes = None


class Row(NamedTuple):
    """One element type. nrt: nrt_dtype_t as libnrt reports it. xla: PrimitiveType."""

    name: str
    numpy: np.dtype
    nrt: int
    xla: int


def _extension(name: str, size: int) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if ml_dtypes is not None else np.dtype(f"V{size}")


# libnrt reports pred as uint8, fp8 as int8 and does not know f64; the first row with a number wins.
TABLE = (
    Row("f32", np.dtype("<f4"), 0xA, 11),
    Row("f16", np.dtype("<f2"), 0x7, 10),
    Row("bf16", _extension("bfloat16", 2), 0x6, 16),
    Row("f64", np.dtype("<f8"), 0x0, 12),
    Row("s8", np.dtype("i1"), 0x2, 2),
    Row("s16", np.dtype("<i2"), 0x4, 3),
    Row("s32", np.dtype("<i4"), 0x8, 4),
    Row("s64", np.dtype("<i8"), 0xC, 5),
    Row("u8", np.dtype("u1"), 0x3, 6),
    Row("u16", np.dtype("<u2"), 0x5, 7),
    Row("u32", np.dtype("<u4"), 0x9, 8),
    Row("u64", np.dtype("<u8"), 0x1, 9),
    Row("pred", np.dtype("?"), 0x3, 1),
    Row("f8e5m2", _extension("float8_e5m2", 1), 0x2, 19),
    Row("f8e4m3fn", _extension("float8_e4m3fn", 1), 0x2, 20),
    Row("f8e4m3", _extension("float8_e4m3", 1), 0x2, 28),
)


def row_of(dtype: "str | np.dtype | type") -> Row:
    """The row of an HLO name ("f32") or of whatever numpy.dtype() takes."""
    for row in TABLE:
        if row.name == dtype:
            return row
    wanted = np.dtype(dtype)
    for row in TABLE:
        if row.numpy == wanted and wanted.kind != "V":
            return row
    raise TypeError(f"element type {dtype!r} is not one of {', '.join(r.name for r in TABLE)}")


def numpy_dtype(dtype: "str | np.dtype | type") -> np.dtype:
    """NumPy's type for an HLO name. bf16 and fp8 need the ml_dtypes package, else they are raw."""
    return row_of(dtype).numpy


def numpy_of_nrt(code: int, item_bytes: int) -> np.dtype:
    """NumPy's type for an nrt_dtype_t; raw bytes when libnrt has no name for the type."""
    for row in TABLE:
        if row.nrt == code and row.numpy.itemsize == item_bytes:
            return row.numpy
    return np.dtype(f"V{item_bytes}")
