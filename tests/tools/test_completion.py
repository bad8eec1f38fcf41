# SPDX-License-Identifier: Apache-2.0
"""Completion for bash, by the tools' own help; and a man page for every tool that is installed."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "packaging" / "share" / "completion" / "opennrt.bash"


def complete(stage: Path, environment: dict, *words: str) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""
source {SCRIPT}
COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
_opennrt_complete
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    told = subprocess.run(
        ["bash", "-c", script],
        env=environment | {"PATH": f"{stage / 'bin'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.returncode == 0 and told.stderr == "", told
    return told.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["neuron-ls", "--t"], ["--topology"]),
        (["neuron-monitor", "--c"], ["--config-file"]),
        (["neuron-top", "--o"], ["--once"]),
        (["opennrt-run", "--instance", "trn2.3"], ["trn2.3xlarge"]),
        (["opennrt-machine", "create", "inf2.x"], ["inf2.xlarge"]),
        (["opennrt-machine", "re"], ["reset"]),
        (["nccom-test", "--warm"], ["--warmup_iters"]),
        (["opennrt-flight", "--jo"], ["--job"]),
        (["opennrt-plan", "--det"], ["--deterministic"]),
        (["opennrt-plan", "ver"], ["verify"]),
    ],
)
def test_flags_types_and_commands(
    stage: Path, environment: dict, words: list, expected: list
) -> None:
    assert complete(stage, environment, *words) == expected


def test_every_installed_tool_is_completed(stage: Path) -> None:
    script = f"source {SCRIPT}; complete -p"
    told = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    known = {line.split()[-1] for line in told.stdout.splitlines()}
    assert {tool.name for tool in (stage / "bin").iterdir()} <= known


def test_machines_are_offered(stage: Path, environment: dict, run: Callable) -> None:
    assert run("opennrt-machine", "create", "trn1.2xlarge", "--name", "box").returncode == 0
    assert complete(stage, environment, "opennrt-machine", "rm", "") == ["box"]


def test_every_tool_has_a_man_page_that_names_its_flags(stage: Path, run: Callable) -> None:
    for tool in sorted((stage / "bin").iterdir()):
        name = tool.name.removesuffix(".py")
        page = ROOT / "docs" / "man" / f"{name}.1.md"
        assert page.exists(), name
        if name.startswith(("neuron-ls", "neuron-top", "neuron-monitor", "opennrt-run")):
            text = page.read_text()
            for word in run(tool.name, "--help").stdout.split():
                if word.startswith("--") and len(word) > 2:
                    flag = word.strip(",.|[]")
                    assert flag in text or flag in ("--help", "--version"), (name, flag)
