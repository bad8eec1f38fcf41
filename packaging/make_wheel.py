# SPDX-License-Identifier: Apache-2.0
"""Packs the PyTorch backend of a stage into a wheel that brings libnrt and libnrtcc along.

usage: make_wheel.py --stage build/stage --out build/dist   (needs the package `wheel`)
"""

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

_LIBRARIES = ("libnrt.so.1", "libnrtcc.so.1")
_TORCH = "2.13"


def _metadata(version: str) -> str:
    return f"""Metadata-Version: 2.1
Name: opennrt-torch-neuronx
Version: {version}
Summary: PyTorch on device "neuron": AWS Trainium, or OpenNRT's emulator of it
License: Apache-2.0
Requires-Python: >=3.11
Requires-Dist: torch=={_TORCH}.*
"""


def _wheel(tag: str) -> str:
    return f"""Wheel-Version: 1.0
Generator: opennrt make_wheel
Root-Is-Purelib: false
Tag: {tag}
"""


def build(stage: Path, out: Path) -> Path:
    """The wheel's path. FileNotFoundError if the stage was made without torch."""
    source = stage / "python" / "torch_neuronx"
    extension = f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not (source / extension).exists():
        raise FileNotFoundError(
            f"{source / extension}: build the stage with a Python that has torch (make stage)"
        )
    info = next((stage / "python").glob("opennrt_torch_neuronx-*.dist-info"))
    version = info.name.split("-")[1].removesuffix(".dist")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "wheel"
        package = root / "torch_neuronx"
        shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__", "lib"))
        (package / "lib").mkdir()
        for name in _LIBRARIES:  # the files themselves: wheels have no links
            shutil.copy(stage / "lib" / name, package / "lib" / name)
        target = root / info.name
        target.mkdir()
        (target / "METADATA").write_text(_metadata(version))
        (target / "WHEEL").write_text(_wheel(f"{python}-{python}-{platform}"))
        shutil.copy(info / "entry_points.txt", target)
        shutil.copy(stage / "share" / "opennrt" / "LICENSE", target)
        out.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "wheel", "pack", str(root), "--dest-dir", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr or done.stdout)
    return out / f"opennrt_torch_neuronx-{version}-{python}-{python}-{platform}.whl"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    try:
        print(build(options.stage, options.out))
    except (FileNotFoundError, RuntimeError) as error:
        print(f"make_wheel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
