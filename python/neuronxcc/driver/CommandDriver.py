# SPDX-License-Identifier: Apache-2.0
"""Runs neuronx-cc with the arguments of sys.argv, as clients of the vendor's package do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Names the program; for trees that are laid out in another way than ours.
VARIABLE = "OPENNRT_NEURONX_CC"


def find_compiler() -> str:
    """Path of neuronx-cc: named by the environment, in the same stage as this file, or on PATH.

    Raises FileNotFoundError with the places that were looked at.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise FileNotFoundError(f"{VARIABLE} names {named!r}, which is not an executable file")
        return named
    beside = Path(__file__).resolve().parents[3] / "bin" / "neuronx-cc"
    if os.access(beside, os.X_OK):
        return str(beside)
    found = shutil.which("neuronx-cc")
    if found:
        return found
    raise FileNotFoundError(
        f"neuronx-cc is not at {str(beside)!r} and not on PATH; set {VARIABLE} to its path"
    )


def main() -> int:
    """Exit status of `neuronx-cc` run with sys.argv[1:]; its output goes where ours goes."""
    try:
        compiler = find_compiler()
    except FileNotFoundError as error:
        print(f"neuronxcc: {error}", file=sys.stderr)
        return 127
    sys.stdout.flush()
    sys.stderr.flush()
    return subprocess.run([compiler, *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
