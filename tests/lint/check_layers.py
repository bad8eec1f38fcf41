# SPDX-License-Identifier: Apache-2.0
"""Checks tests/lint/layers.txt against every #include "..." of the tree."""

import re
import subprocess
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def read_rules() -> dict[str, list[str]]:
    rules: dict[str, list[str]] = {}
    for line in Path("tests/lint/layers.txt").read_text().splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            folder, _, allowed = line.partition(":")
            rules[folder.strip()] = allowed.split()
    return rules


def within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def rule_of(path: str, rules: dict[str, list[str]]) -> str | None:
    matches = [folder for folder in rules if within(path, folder)]
    return max(matches, key=len) if matches else None


def main() -> int:
    rules = read_rules()
    listing = subprocess.run(
        ["git", "ls-files", "*.h", "*.cc", "*.c", "*.def"],
        capture_output=True,
        text=True,
        check=True,
    )
    problems = []
    for name in listing.stdout.splitlines():
        path = Path(name)
        if not path.is_file() or name.startswith("include/"):
            continue
        if name.endswith("_test.cc") or "testing" in path.parts:
            continue
        folder = rule_of(name, rules)
        if folder is None:
            problems.append(f"{name}: its folder has no rule in tests/lint/layers.txt")
            continue
        for target in INCLUDE.findall(path.read_text()):
            if not (Path(target).is_file() and "/" in target):
                continue  # generated, public (include/) or local header
            allowed = rules[folder] + [folder]
            if "*" in allowed or any(within(target, other) for other in allowed):
                continue
            problems.append(f"{name}: {folder} may not include {target}")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
