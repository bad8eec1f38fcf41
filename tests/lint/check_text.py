# SPDX-License-Identifier: Apache-2.0
"""Checks every tracked text file: licence line, white space, no path of a private machine."""

import re
import subprocess
import sys
from pathlib import Path

LICENCE = "SPDX-License-Identifier: Apache-2.0"
BINARY = {".pb", ".gz", ".npy", ".neff", ".png", ".ncx"}
# Files that can't hold a comment, or are data.
NO_LICENCE = {".json", ".txt", ".csv", ".abi", ".hlo"} | BINARY
NO_LICENCE_NAMES = {"LICENSE", "VERSION", ".gitignore", "py.typed", ".gitattributes"}
# open(2) gives 0, 1 or 2 to a process whose standard streams are closed: runtime/base/file.h.
RAW_OPEN = re.compile(r"::open(at)?\(|\bmkos?temp\(|\bfopen\(")
RAW_OPEN_ALLOWED = {"runtime/base/file.cc", "emulator/testing.cc"}
PRIVATE = re.compile(r"/(work|root)/")
TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)


def problems_of(path: Path) -> list[str]:
    if path.suffix in BINARY or "corpus" in path.parts:
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return [f"{path}: not UTF-8"]
    found = []
    if (
        path.suffix not in NO_LICENCE
        and path.name not in NO_LICENCE_NAMES
        and LICENCE not in text[:400]
    ):
        found.append(f"{path}: no '{LICENCE}' line near the top")
    if TRAILING.search(text) and path.suffix != ".abi":
        found.append(f"{path}: trailing white space")
    if text and not text.endswith("\n") and path.suffix not in {".json", ".abi"}:
        found.append(f"{path}: no newline at the end")
    ours = path.suffix in {".cc", ".h"} and path.parts[0] not in {"tests", "bench", "examples"}
    if (
        ours
        and not path.name.endswith("_test.cc")
        and str(path) not in RAW_OPEN_ALLOWED
        and any(
            not m.group().startswith("::") or text[m.start() - 1] in " (!"
            for m in RAW_OPEN.finditer(text)
        )
    ):
        found.append(f"{path}: opens a file without runtime/base/file.h")
    if path != Path("tests/lint/check_text.py") and PRIVATE.search(text):
        found.append(f"{path}: names a path of a private machine")
    return found


def main() -> int:
    listing = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    problems = []
    for name in listing.stdout.splitlines():
        path = Path(name)
        if path.is_file() and not path.is_symlink():
            problems += problems_of(path)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
