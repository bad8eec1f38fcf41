# SPDX-License-Identifier: Apache-2.0
"""Compares every operation of torch's op_db on device neuron with the CPU.

usage: python op_sweep.py [--ops REGEX] [--dtypes f32,bf16,...] [--samples N] [--extra N]
                          [--jobs N] [--results FILE] [--ratchet FILE [--update]]

A child for each entry, so that a crash costs one entry; the parent never touches the device. A
sample is right if results, and gradients where torch has them, are close to the CPU's; an entry is
native if no operation of its samples fell back. Every failure has one of the reasons in
op_reasons.py. With --results, rows go to that file as they come, one JSON object a line, and what
is there already is not run again: a sweep that was interrupted goes on.
Exit code 1: worse than the ratchet, a failure without a reason, or a crash.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from op_reasons import reason_of
from op_samples import name_of, run_entry


def _child(op: Any, dtypes: list[str], options: argparse.Namespace, core: int, write: int) -> None:
    status = 0
    try:
        os.environ["NEURON_RT_VISIBLE_CORES"] = str(core)
        with warnings.catch_warnings(), os.fdopen(write, "w") as out:
            warnings.simplefilter("ignore")

            def report(row: dict) -> None:
                signal.alarm(options.seconds)
                out.write(json.dumps(row) + "\n")
                out.flush()

            run_entry(op, dtypes, options.samples, options.extra, report)
    except BaseException:
        traceback.print_exc()
        status = 3
    sys.stderr.flush()
    os._exit(status)


class _Child:
    """A running child; what it wrote is read when it has ended."""

    def __init__(self, op: Any, dtypes: list[str], options: argparse.Namespace, core: int) -> None:
        self.op, self.dtypes, self.core = op, dtypes, core
        self.start = time.monotonic()
        self.rows = tempfile.TemporaryFile()
        self.pid = os.fork()
        if self.pid == 0:
            _child(op, dtypes, options, core, os.dup(self.rows.fileno()))

    def finish(self, status: int) -> tuple[list[dict], list[str]]:
        """Rows, and types that are still to do after a crash."""
        self.rows.seek(0)
        at, rows = "the start", []
        for line in self.rows.read().decode().splitlines():
            entry = json.loads(line)
            if "at" in entry:
                at = entry["at"]
            else:
                rows.append(entry)
        self.rows.close()
        done = {row["dtype"] for row in rows}
        missing = [dtype for dtype in self.dtypes if dtype not in done]
        if missing:
            kind, how = "crash", f"exit code {os.waitstatus_to_exitcode(status)}"
            if os.WIFSIGNALED(status):
                how = signal.Signals(os.WTERMSIG(status)).name
                kind = "timeout" if how == "SIGALRM" else "crash"
            rows.append({"op": name_of(self.op), "dtype": missing[0], kind: f"{how} at {at}"})
        rows[-1]["seconds"] = round(time.monotonic() - self.start, 1)
        return rows, missing[1:]


def _sweep(entries: list, options: argparse.Namespace, rows: dict) -> None:
    """Adds to `rows`, by operation and type."""
    waiting = []
    for op in entries:
        left = [dtype for dtype in options.dtypes if (name_of(op), dtype) not in rows]
        if left:
            waiting.append((op, left))
    total, done = len(waiting), 0
    running: dict[int, _Child] = {}
    cores = list(range(options.jobs))
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(options.results.open("a")) if options.results else None
        while waiting or running:
            while waiting and cores:
                child = _Child(*waiting.pop(0), options, cores.pop())
                running[child.pid] = child
            pid, status = os.wait()
            child = running.pop(pid)
            cores.append(child.core)
            found, left = child.finish(status)
            if left:
                waiting.insert(0, (child.op, left))
            done += not left
            for row in found:
                rows[row["op"], row["dtype"]] = row
                if file:
                    file.write(json.dumps(row) + "\n")
                    file.flush()
            if sys.stderr.isatty() or done % 50 == 0:
                text = f"\r{done}/{total} {name_of(child.op):50.50}"
                print(text, end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def _right(row: dict) -> bool:
    """Every sample; what should raise and doesn't is counted apart."""
    kinds = row.get("kinds", {}).items()
    return all(n["wrong"] + n["error"] == 0 for kind, n in kinds if kind != "raises")


def _state(row: dict) -> str:
    if "crash" in row or "timeout" in row:
        return "crash" if "crash" in row else "timeout"
    if not _right(row):
        return "partly"
    return "fallback" if row["fallback"] else "native"


def _summary(rows: list[dict]) -> list[str]:
    by_type: dict[str, Counter] = {}
    kinds: dict[tuple[str, str], Counter] = {}
    for row in rows:
        if not row.get("kinds") and "crash" not in row and "timeout" not in row:
            continue  # not of this type
        total = by_type.setdefault(row["dtype"], Counter())
        total["entries"] += 1
        total[_state(row)] += 1
        for kind, counts in row.get("kinds", {}).items():
            kinds.setdefault((row["dtype"], kind), Counter()).update(counts)
    words = ("entries", "native", "fallback", "partly", "crash", "timeout")
    lines = [f"{'type':6}" + "".join(f"{word:>10}" for word in words)]
    for dtype, n in by_type.items():
        lines.append(f"{dtype:6}" + "".join(f"{n[word]:10}" for word in words))
    words = ("ok", "wrong", "error")
    lines += ["", f"{'type':6}{'kind':10}" + "".join(f"{word:>10}" for word in words)]
    for (dtype, kind), n in kinds.items():
        lines.append(f"{dtype:6}{kind:10}" + "".join(f"{n[word]:10}" for word in words))
    return lines


def _explain(rows: list[dict]) -> tuple[list[str], list[str]]:
    """Reasons with their numbers, and failures that have none."""
    reasons: Counter = Counter()
    unexplained = []
    for row in rows:
        for word in ("crash", "timeout"):
            if word in row:
                unexplained.append(f"{row['op']} {row['dtype']}: {word}: {row[word]}")
        for kind, number, text in row.get("failures", []):
            reason = reason_of(row["op"], row["dtype"], kind, text)
            if reason:
                reasons[reason] += 1
            else:
                unexplained.append(f"{row['op']} {row['dtype']} {kind} {number}: {text}")
    return [f"{n:6} {reason}" for reason, n in reasons.most_common()], unexplained


_RANK = {"crash": 0, "timeout": 0, "partly": 1, "fallback": 2, "native": 3}


def _check_ratchet(rows: list[dict], file: Path, update: bool) -> list[str]:
    now = {f"{row['op']} {row['dtype']}": _state(row) for row in rows if row.get("kinds")}
    before = json.loads(file.read_text()) if file.exists() else {}
    if update:
        file.write_text(json.dumps(dict(sorted({**before, **now}.items())), indent=0) + "\n")
        return []
    return [
        f"{key}: {before[key]} before, {now[key]} now"
        for key in sorted(now.keys() & before.keys())
        if _RANK[now[key]] < _RANK[before[key]]
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--ops", default="", help="entries whose name matches this expression")
    parser.add_argument("--dtypes", default="f32", type=lambda text: text.split(","))
    parser.add_argument("--samples", type=int, default=1 << 30, help="most samples of an entry")
    parser.add_argument(
        "--extra", type=int, default=0, help="first samples that also run in the other kinds"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=120, help="most for one run of a sample")
    parser.add_argument("--results", type=Path, help="rows, as they come; those there are kept")
    parser.add_argument("--ratchet", type=Path, help="fails where it was better before")
    parser.add_argument("--update", action="store_true", help="writes the ratchet file")
    parser.add_argument("-v", "--verbose", action="store_true", help="shows what is not right")
    return parser.parse_args()


def _read(file: Path | None) -> dict:
    rows = {}
    if file and file.exists():
        for line in file.read_text().splitlines():
            row = json.loads(line)
            rows[row["op"], row["dtype"]] = row
    return rows


def main() -> int:
    options = _options()
    os.environ.setdefault("NEURON_RT_LOG_LEVEL", "ERROR")
    import torch

    torch.set_num_threads(1)
    with contextlib.redirect_stdout(sys.stderr):
        from torch.testing._internal import common_methods_invocations as invocations
    # Entries that draw set the same seed before each call; without it _repeats() can tell them.
    invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    entries = [op for op in invocations.op_db if re.search(options.ops, name_of(op))]
    start = time.monotonic()
    rows = _read(options.results)
    _sweep(entries, options, rows)
    names = {name_of(op) for op in entries}
    chosen = [row for (name, dtype), row in rows.items() if name in names]
    if options.verbose:
        for row in chosen:
            if row.get("fallback"):
                print(f"{row['op']} {row['dtype']}: fallback {row['fallback']}")
    reasons, unexplained = _explain(chosen)
    print("\n".join([*_summary(chosen), "", *reasons, "", *unexplained]))
    print(f"{len(entries)} entries in {time.monotonic() - start:.0f} s")
    worse = []
    if options.ratchet:
        worse = _check_ratchet(chosen, options.ratchet, options.update)
    print("\n".join(worse), end="\n" if worse else "")
    return 1 if worse or unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
