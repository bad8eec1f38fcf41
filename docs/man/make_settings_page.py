# SPDX-License-Identifier: Apache-2.0
"""Prints docs/man/opennrt-settings.7.md from the rows of runtime/base/settings.def."""

import re
from pathlib import Path

ROW = re.compile(
    r'ONRT_SETTING\(\w+, "([^"]+)", (\w+), "([^"]*)", "([^"]*)", "([^"]*)", "([^"]*)"\)'
)

HEAD = """---
# SPDX-License-Identifier: Apache-2.0
title: OPENNRT-SETTINGS
section: 7
footer: OpenNRT
---

# NAME

opennrt-settings - environment variables that OpenNRT reads

# DESCRIPTION

Variables are read once, when the library is initialised. A value that is not allowed makes
`nrt_init()` fail with a message that names variable, value and what was expected. An empty value is
the same as none. An unknown `NEURON_RT_` or `OPENNRT_` name is warned about once, with the nearest
known name.

# VARIABLES
"""

TYPES = {"Flag": "0, 1, true or false", "Integer": "whole number", "Text": "text"}


def main() -> None:
    text = HEAD
    rows = ROW.findall(Path("runtime/base/settings.def").read_text())
    for name, kind, default, unit, allowed, doc in rows:
        shown = f"default {default}" if default else "not set by default"
        kind_text = TYPES[kind] + (f", {unit}" if unit else "")
        if ".." in allowed:
            kind_text = kind_text.replace(
                TYPES[kind], f"whole number {allowed}".replace("..", " to ")
            )
        elif allowed and not allowed.startswith(","):
            kind_text = "one of " + allowed.replace("|", ", ")
        text += f"\n**{name}**\n:   {doc[0].upper() + doc[1:]}. ({kind_text}; {shown})\n"
    print(text, end="")


if __name__ == "__main__":
    main()
