# SPDX-License-Identifier: Apache-2.0
"""A compile cache: compiled programs in memory and, if wanted, in a folder that processes share."""

import ctypes
import os
import weakref

from opennrt.bindings import CacheOptions, CacheStats, nrtcc, nrtcc_call, nrtcc_text


class CompileCache:
    """Programs by graph and options. One cache serves any number of threads.

    `folder` is a path or a file:// URL. Without one, that of NEURON_COMPILE_CACHE_URL is used if it
    is set; "" keeps programs in memory only. A folder that can't be used is no error: `problem`
    says why, and compilation goes on without it. Sizes are in bytes: 0 is the default, -1 no limit
    on disk or nothing in memory."""

    def __init__(
        self, folder: str | os.PathLike | None = None, *, disk_size: int = 0, memory_size: int = 0
    ) -> None:
        chosen = os.environ.get("NEURON_COMPILE_CACHE_URL", "") if folder is None else folder
        options = CacheOptions(
            struct_size=ctypes.sizeof(CacheOptions),
            folder=os.fsencode(chosen),
            disk_bytes=disk_size,
            memory_bytes=memory_size,
        )
        self.handle = ctypes.c_void_p()
        nrtcc_call("nrtcc_cache_open", ctypes.byref(options), ctypes.byref(self.handle))
        weakref.finalize(self, nrtcc().nrtcc_cache_close, self.handle)

    @property
    def problem(self) -> str:
        """Why the folder isn't used; "" if it is, or if there is none."""
        return nrtcc_text("nrtcc_cache_problem", self.handle)

    def stats(self) -> dict[str, int]:
        """Counters of nrtcc_cache_stats_t: memory_hits, disk_hits, compiled, ..."""
        stats = CacheStats(struct_size=ctypes.sizeof(CacheStats))
        nrtcc_call("nrtcc_cache_stats", self.handle, ctypes.byref(stats))
        names = (field[0] for field in CacheStats._fields_)
        return {name: getattr(stats, name) for name in names if name != "struct_size"}
