# SPDX-License-Identifier: Apache-2.0
"""safetensors with device="neuron": its own list of devices is closed, so files are opened for the
CPU and each tensor is moved. The package is neither needed nor imported: it is wrapped when
somebody imports it."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch


class _Slice:
    """A part of a file's tensor that is moved when it is read."""

    def __init__(self, inner: Any, device: torch.device) -> None:
        self._inner, self._device = inner, device

    def __getitem__(self, where: Any) -> torch.Tensor:
        return self._inner[where].to(self._device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _File:
    """An open file whose tensors come out on the device."""

    def __init__(self, inner: Any, device: torch.device) -> None:
        self._inner, self._device = inner, device

    def __enter__(self) -> "_File":
        self._inner.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        return self._inner.__exit__(*error)

    def get_tensor(self, name: str) -> torch.Tensor:
        return self._inner.get_tensor(name).to(self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        return {name: x.to(self._device) for name, x in self._inner.get_tensors().items()}

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self._inner.get_slice(name), self._device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _wrap(module: ModuleType) -> None:
    original = module.safe_open

    class Checks(type):  # the original class can't be derived from
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, (original, _File))

    class safe_open(metaclass=Checks):
        """safetensors.safe_open, with device="neuron" too."""

        def __new__(cls, filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
            text = str(device)
            if framework in ("pt", "torch", "pytorch") and text.split(":")[0] == "neuron":
                return _File(original(filename, framework, "cpu", **options), torch.device(text))
            return original(filename, framework, device, **options)

    safe_open.__module__ = original.__module__
    module.safe_open = safe_open
    names = sys.modules.get("safetensors.torch")
    if names is not None and getattr(names, "safe_open", None) is original:
        names.safe_open = safe_open


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        if hasattr(module, "safe_open"):
            _wrap(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds "safetensors" as Python would, once."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "safetensors":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install() -> None:
    if "safetensors" in sys.modules:
        if hasattr(sys.modules["safetensors"], "safe_open"):
            _wrap(sys.modules["safetensors"])
    else:
        sys.meta_path.insert(0, _Finder())
