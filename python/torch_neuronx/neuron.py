# SPDX-License-Identifier: Apache-2.0
"""torch.neuron: devices, memory and random numbers, under the names of torch.cuda."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from torch_neuronx import _C

Device = torch.device | str | int | None
Stream = torch.Stream
Event = torch.Event


def _index(device: Device) -> int:
    if device is None:
        return _C.current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != "neuron":
        raise ValueError(f"expected a neuron device, found {device}")
    return _C.current_device() if device.index is None else device.index


# ---- devices ----


def is_available() -> bool:
    """Whether there is a device: never raises and initialises nothing."""
    return _C.device_count() > 0


def device_count() -> int:
    """Cores visible to this process."""
    return _C.device_count()


def init() -> None:
    """Claims the cores now instead of at first use. RuntimeError says why it can't."""
    _C.initialize()


_lazy_init = init


def is_initialized() -> bool:
    """Whether this process has claimed its cores."""
    return _C.is_initialized()


def _is_in_bad_fork() -> bool:
    return _C.in_bad_fork()


def current_device() -> int:
    """Index of the device that new tensors go to."""
    return _C.current_device()


def set_device(device: Device) -> None:
    """Chooses the device of this thread."""
    _C.exchange_device(_index(device))


class device(contextlib.ContextDecorator):
    """Context in which `device` is the current one; None or -1 changes nothing."""

    def __init__(self, device: Device) -> None:
        self.index = -1 if device is None or device == -1 else _index(device)
        self._before = -1

    def __enter__(self) -> None:
        if self.index >= 0:
            self._before = _C.exchange_device(self.index)

    def __exit__(self, *_: object) -> None:
        if self.index >= 0:
            _C.exchange_device(self._before)


class device_of(device):
    """Context in which a tensor's device is the current one."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == "neuron" else None)


@dataclass(frozen=True)
class DeviceProperties:
    """What get_device_properties() tells of a core."""

    name: str
    total_memory: int
    multi_processor_count: int = 1


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Name and HBM bytes of a core."""
    index = _index(device)
    if not 0 <= index < device_count():
        raise RuntimeError(_C.why_no_device() or f"there is no device neuron:{index}")
    return DeviceProperties(get_device_name(index), _C.total_memory(index))


# Generation of the NeuronCore by the compiler's name of the instance family.
_GENERATIONS = {"trn1": 2, "trn1n": 2, "inf2": 2, "trn2": 3, "trn3": 4}


def get_device_name(device: Device = None) -> str:
    """Name of a core, such as "NeuronCore-v3"."""
    return f"NeuronCore-v{get_device_capability(device)[0]}"


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """Generation of a core and 0, for programs that compare it as they do CUDA's."""
    return (_GENERATIONS[_C.compile_target()], 0)


def synchronize(device: Device = None) -> None:
    """Waits for all queued work of a device; raises what went wrong in it."""
    _C.synchronize(_index(device))


# ---- streams ----


def current_stream(device: Device = None) -> torch.Stream:
    """The stream that work is queued on."""
    return torch.accelerator.current_stream(torch.device("neuron", _index(device)))


def default_stream(device: Device = None) -> torch.Stream:
    """The stream of a device that work goes to when none is chosen."""
    return torch.Stream(
        stream_id=0,
        device_index=_index(device),
        device_type=torch._C._autograd.DeviceType.PrivateUse1,
    )


def set_stream(stream: torch.Stream) -> None:
    """Makes a stream the current one."""
    torch.accelerator.set_stream(stream)


@contextlib.contextmanager
def stream(stream: torch.Stream | None) -> Iterator[None]:
    """Context in which work goes to `stream`."""
    if stream is None:
        yield
        return
    with stream:
        yield


# ---- memory ----


def memory_stats(device: Device = None) -> dict[str, int]:
    """Counters of the caching allocator; keys as in torch.cuda.memory_stats."""
    index = _index(device)
    if not 0 <= index < max(device_count(), 1):
        raise RuntimeError(f"invalid device ordinal {index}: there are {device_count()} devices")
    return _C.memory_stats(index)


def memory_allocated(device: Device = None) -> int:
    """Bytes in use by tensors."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: Device = None) -> int:
    """Most bytes in use by tensors since the start or the last reset."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: Device = None) -> int:
    """Bytes taken from the runtime, in use or cached."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: Device = None) -> int:
    """Most bytes taken from the runtime since the start or the last reset."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device: Device = None) -> None:
    """The peaks become the present values."""
    _C.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """The sums of all allocations start again at 0."""
    _C.reset_accumulated_memory_stats(_index(device))


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the runtime."""
    if is_initialized():
        for index in range(device_count()):
            if memory_reserved(index) > 0:
                _C.empty_cache(index)


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes of a core's HBM."""
    total = _C.total_memory(_index(device))
    return total - memory_reserved(device), total


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The counters as a table."""
    stats = memory_stats(device)
    rows = [
        ("allocated memory", "allocated_bytes.all"),
        ("requested memory", "requested_bytes.all"),
        ("reserved memory", "reserved_bytes.all"),
        ("allocations", "allocation.all"),
        ("segments", "segment.all"),
    ]
    lines = [
        f"Memory of neuron:{_index(device)} "
        f"({stats['num_ooms']} out of memory, {stats['num_alloc_retries']} retries)",
        f"{'':20}{'current':>16}{'peak':>16}"
        + ("" if abbreviated else f"{'in all':>16}{'freed':>16}"),
    ]
    for title, key in rows:
        values = [stats[f"{key}.{field}"] for field in ("current", "peak", "allocated", "freed")]
        shown = values[:2] if abbreviated else values
        lines.append(f"{title:20}" + "".join(f"{value:16,}" for value in shown))
    return "\n".join(lines)


# ---- random numbers ----


class _Generators:
    """The default generator of each device, by index."""

    def __getitem__(self, index: int) -> torch.Generator:
        return _C.default_generator(index)

    def __len__(self) -> int:
        return device_count()


default_generators = _Generators()


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current device."""
    if is_available():
        default_generators[current_device()].manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices."""
    for index in range(device_count()):
        default_generators[index].manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's generator with a number of the system."""
    default_generators[current_device()].seed()


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return default_generators[current_device()].initial_seed()


def get_rng_state(device: Device = "neuron") -> torch.Tensor:
    """State of a device's generator: 16 bytes on the CPU."""
    return default_generators[_index(device)].get_state()


def set_rng_state(state: torch.Tensor, device: Device = "neuron") -> None:
    """Sets the state of a device's generator."""
    default_generators[_index(device)].set_state(state)


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(states: list[torch.Tensor]) -> None:
    """Sets the states of all generators."""
    for index, state in enumerate(states):
        set_rng_state(state, index)


# ---- types ----


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types that torch.autocast("neuron") takes."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """bfloat16 is a native type."""
    return True


def counters() -> dict[str, int]:
    """Program launches, programs built, and those of them that had to be compiled."""
    return _C.counters()


def __getattr__(name: str) -> bool:
    # torch.utils.checkpoint saves the generator's state only where this says so.
    if name == "_initialized":
        return _C.is_initialized()
    raise AttributeError(f"module 'torch.neuron' has no attribute {name!r}")
