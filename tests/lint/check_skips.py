# SPDX-License-Identifier: Apache-2.0
"""Fails when a test was skipped that tests/skips.txt does not list with a reason.

usage: check_skips.py RESULTS_DIR SKIPS_FILE   (RESULTS_DIR holds JUnit XML files)
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def read_allowed(path: Path) -> list[tuple[re.Pattern[str], str]]:
    allowed = []
    for line in path.read_text().splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            pattern, _, reason = line.partition(": ")
            if not reason:
                raise SystemExit(f"{path}: '{line}' has no reason")
            allowed.append((re.compile(pattern), reason))
    return allowed


def main() -> int:
    results, skips = Path(sys.argv[1]), Path(sys.argv[2])
    allowed = read_allowed(skips)
    ran = skipped = 0
    problems = []
    for file in sorted(results.glob("*.xml")):
        for case in ElementTree.parse(file).getroot().iter("testcase"):
            ran += 1
            mark = case.find("skipped")
            if mark is None:
                continue
            skipped += 1
            name = f"{case.get('classname')}.{case.get('name')}"
            if not any(pattern.fullmatch(name) for pattern, _ in allowed):
                problems.append(f"skipped without a line in {skips}: {name}: {mark.get('message')}")
    print("\n".join(problems), end="\n" if problems else "")
    print(f"{ran} test cases, {skipped} skipped with a listed reason, {len(problems)} without")
    return 1 if problems or ran == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
