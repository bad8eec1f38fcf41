# SPDX-License-Identifier: Apache-2.0
"""neuron-top on a pseudo terminal, read by an independent terminal emulator (pyte). What is
expected: SDK documentation, neuron-top user guide. Layout is checked in
tools/neuron_top/neuron_top_test.cc, output for scripts in test_documented.py."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


class Screen:
    """A program on a terminal of its own."""

    def __init__(self, command: list, environment: dict, width: int, height: int) -> None:
        pyte = pytest.importorskip("pyte")
        self.screen = pyte.Screen(width, height)
        self.stream = pyte.ByteStream(self.screen)
        self.master, slave = pty.openpty()
        self.size(width, height)
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def size(self, width: int, height: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self.screen.resize(height, width)

    def text(self) -> str:
        return "\n".join(self.screen.display)

    def wait_for(self, *parts: str, absent: str = "", seconds: float = 10) -> str:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    self.stream.feed(os.read(self.master, 65536))
                except OSError:
                    break
            shown = self.text()
            if all(part in shown for part in parts) and (not absent or absent not in shown):
                return shown
        raise AssertionError(f"{parts} without '{absent}' not in\n{self.text()}")

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())


@pytest.fixture
def top(stage: Path, environment: dict) -> Iterator[Callable[..., Screen]]:
    if not (stage / "bin" / "neuron-top").exists():
        pytest.skip("built without ncurses")
    started = []

    def start(width: int = 160, height: int = 50, **variables: str) -> Screen:
        command = [stage / "bin" / "neuron-top", "--interval", "0.2"]
        merged = environment | {"TERM": "linux"} | variables
        started.append(Screen(command, merged, width, height))
        return started[-1]

    yield start
    for screen in started:
        if screen.process.poll() is None:
            screen.press("q")
            assert screen.process.wait(timeout=10) == 0
        os.close(screen.master)


def worker(environment: dict, tmp_path: Path, **variables: str) -> subprocess.Popen:
    process = subprocess.Popen(
        [
            *(sys.executable, Path(__file__).parent / "worker.py"),
            *("60", "0.5", tmp_path / "log.json"),
        ],
        env=environment | {"NEURON_RT_NUM_CORES": "1"} | variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_applications_come_work_and_die(top: Callable, environment: dict, tmp_path: Path) -> None:
    screen = top()
    screen.wait_for("NeuronCore v3d Utilization (Avg: 0.00%)", ">[1]:all<")
    process = worker(environment, tmp_path, NEURON_PROCESS_TAG="trainer")
    try:
        screen.wait_for("[2]:trainer", absent="Utilization (Avg: 0.00%)")
        screen.press("2")
        screen.wait_for(">[2]:trainer<", "worker", "1001")  # its model is in the tree
        screen.press("f")
        screen.wait_for("NeuronCore v3d TFLOPS")
        screen.press("f")
        screen.wait_for("Utilization")
        screen.press("x")
        screen.wait_for("[+] ND 0", absent="NC 0")
        screen.press("\n")
        screen.wait_for("[-] ND 0", "NC 0")
    finally:
        process.kill()
        process.wait()
    screen.wait_for(">[1]:all<", "Avg: 0.00%", absent="trainer")


def test_it_follows_the_size_of_the_terminal(top: Callable) -> None:
    screen = top(width=160, height=60, OPENNRT_EMULATE="trn2.48xlarge")
    screen.wait_for("ND15", "NC3", "1-9: select tab")
    for width, height in ((80, 24), (40, 12), (200, 70)):
        screen.size(width, height)
        screen.process.send_signal(signal.SIGWINCH)
        screen.wait_for("Neuron Apps", "NC0", "trn2.48xlarge" if width > 60 else "q: quit")
    screen.size(30, 8)
    screen.process.send_signal(signal.SIGWINCH)
    screen.wait_for("too small")


def test_a_terminal_without_colour_serves(top: Callable) -> None:
    screen = top(width=80, height=24, TERM="vt100")
    screen.wait_for("Neuron Apps")


@pytest.mark.parametrize(("terminal", "told"), [("dumb", "cursor"), ("nothing", "is not known")])
def test_a_terminal_that_is_none_is_told(top: Callable, terminal: str, told: str) -> None:
    screen = top(width=80, height=24, TERM=terminal)
    screen.wait_for("neuron-top: ", told, "--once")
    assert screen.process.wait(timeout=10) == 1


def test_a_stopped_session_ends_it(top: Callable) -> None:
    screen = top()
    screen.wait_for("Neuron Apps")
    screen.process.send_signal(signal.SIGTERM)
    assert screen.process.wait(timeout=10) == 0


def test_without_a_terminal_it_says_so(run: Callable) -> None:
    for words in ([], ["--interval", "0"], ["--width", "3", "--once"], ["x"], ["--x"]):
        told = run("neuron-top", *words)
        assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1), words
    told = run("neuron-top", "--once", OPENNRT_EMULATE="none")
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1)
