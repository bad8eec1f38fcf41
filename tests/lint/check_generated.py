# SPDX-License-Identifier: Apache-2.0
"""Regenerates every committed generated file and compares. One row per file in GENERATED."""

import subprocess
import sys
from pathlib import Path

# (committed file, command that prints it)
GENERATED: list[tuple[str, list[str]]] = [
    ("docs/man/opennrt-settings.7.md", [sys.executable, "docs/man/make_settings_page.py"]),
]


def main() -> int:
    status = 0
    for name, command in GENERATED:
        made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if not Path(name).is_file() or Path(name).read_text() != made:
            print(f"{name}: not what `{' '.join(command[1:])}` prints; run it and commit")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
