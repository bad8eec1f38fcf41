# SPDX-License-Identifier: Apache-2.0
"""Filters file names on standard input: prints those that a compilation database knows."""

import json
import pathlib
import sys


def main() -> int:
    database = pathlib.Path(sys.argv[1]) / "compile_commands.json"
    root = pathlib.Path.cwd()
    known = {pathlib.Path(row["file"]).resolve() for row in json.loads(database.read_text())}
    for line in sys.stdin:
        name = line.strip()
        if (root / name).resolve() in known:
            print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
