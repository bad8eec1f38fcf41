# SPDX-License-Identifier: Apache-2.0
"""The command line of neuronx-cc as clients use it: outputs, refusals, Python entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from neff_runner import COMPILER, STAGE, compile_module
from oracle import module_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def add_module(tmp_path: Path) -> Path:
    """A module that compiles."""
    path = tmp_path / "m.pb"
    path.write_bytes(module_of(lambda x: x + 1, np.ones(4, np.float32)))
    return path


def run(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program with these arguments in that folder."""
    return subprocess.run(
        [COMPILER, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=60,
    )


def refuse(pb: Path, neff: Path, *words: str) -> None:
    """Exit 1, every word in the message, no traceback and no output, not even an older one."""
    neff.write_bytes(b"older")
    done = compile_module(pb, neff)
    assert done.returncode == 1
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert not neff.exists()
    assert [p.name for p in neff.parent.iterdir() if p.suffix not in (".pb",)] == []


def test_refuses_a_library_call_by_its_target(tmp_path: Path) -> None:
    pb = tmp_path / "m.pb"
    pb.write_bytes(module_of(jnp.linalg.eigh, np.eye(3, dtype=np.float32)))
    refuse(pb, tmp_path / "m.neff", "custom-call", "lapack_ssyevd_ffi", "instruction '", ", op '")


def test_refuses_an_opcode_that_does_not_exist(tmp_path: Path) -> None:
    module = module_of(jnp.sin, np.ones(4, np.float32))
    assert b"sine" in module
    pb = tmp_path / "m.pb"
    pb.write_bytes(module.replace(b"sine", b"sinx"))
    refuse(pb, tmp_path / "m.neff", "'sinx'")


def test_refuses_what_it_does_not_lower_by_opcode_and_instruction(tmp_path: Path) -> None:
    pb = tmp_path / "m.pb"
    pb.write_bytes(module_of(lambda x: jnp.fft.fft(x).real, np.ones(4, np.float32)))
    refuse(pb, tmp_path / "m.neff", "opcode '", "instruction '", "computation '")


def test_refuses_files_that_are_no_module(tmp_path: Path, add_module: Path) -> None:
    neff = tmp_path / "m.neff"
    whole = add_module.read_bytes()
    for content in (b"", b"HloModule text", whole[: len(whole) // 2], os.urandom(100)):
        add_module.write_bytes(content)
        refuse(add_module, neff, str(add_module))
    add_module.unlink()
    refuse(add_module, neff, "No such file")


def test_writes_a_relative_output_into_the_current_folder(tmp_path: Path, add_module: Path) -> None:
    done = run(
        "compile", "--framework", "XLA", add_module, "--pipeline", "compile", "SaveTemps",
        "--target", "trn2", "--output=file.neff", "--lnc", "1", "--internal-tensorizer-opt-level=2",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "file.neff").stat().st_size > 1024
    assert (tmp_path / "log-neuron-cc.txt").exists()
    assert done.stderr == ""


def test_the_same_module_gives_the_same_neff(tmp_path: Path, add_module: Path) -> None:
    first, second = tmp_path / "a.neff", tmp_path / "b.neff"
    for neff in (first, second):
        assert compile_module(add_module, neff).returncode == 0
    assert first.read_bytes() == second.read_bytes()


def test_fast_loading_binaries_are_larger_and_plain(tmp_path: Path, add_module: Path) -> None:
    packed, plain = tmp_path / "a.neff", tmp_path / "b.neff"
    assert compile_module(add_module, packed).returncode == 0
    flag = "--enable-fast-loading-neuron-binaries"
    assert compile_module(add_module, plain, flag).returncode == 0
    assert packed.read_bytes()[1024:1026] == b"\x1f\x8b"
    assert b"opennrt.json" in plain.read_bytes()


def test_usage_errors_exit_with_2_and_name_the_flag(tmp_path: Path, add_module: Path) -> None:
    for arguments, word in (
        (("compile", add_module, "--framework", "XLA", "--targt", "trn2"), "--target"),
        (("compile", add_module), "--framework"),
        (("frobnicate",), "frobnicate"),
        ((), "compile"),
    ):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert word in done.stderr
        assert done.stderr.count("\n") == 1


def test_an_unwritable_output_is_an_error(tmp_path: Path, add_module: Path) -> None:
    done = compile_module(add_module, tmp_path / "absent" / "m.neff")
    assert done.returncode == 1
    assert "absent" in done.stderr


def test_list_operators_help_and_version(tmp_path: Path) -> None:
    listed = run("list-operators", "--framework", "XLA", cwd=tmp_path)
    assert listed.returncode == 0
    assert {"add", "dot", "reduce", "gather"} <= set(listed.stdout.split("\n"))
    for arguments in (("--help",), ("compile", "--help"), ("--version",)):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 0
        assert done.stdout


def test_an_exported_graph_is_a_module_that_jax_runs(tmp_path: Path, add_module: Path) -> None:
    """The way to the vendor's compiler: graph text -> HloModuleProto; here XLA is the judge."""
    graph = tmp_path / "graph.txt"
    graph.write_text(
        'HloModule "m"\n\nENTRY %0 "main" {\n'
        "  %0 = f32[4] parameter(), parameter_number={0}\n"
        "  ROOT %1 = f32[4] add(%0, %0)\n}\n"
    )
    pb = tmp_path / "graph.pb"
    done = run("export-hlo", graph, pb, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    from jax._src.lib import xla_client

    text = xla_client.XlaComputation(pb.read_bytes()).as_hlo_text()
    assert "f32[4]{0} add(" in text


def test_the_python_entry_point_runs_the_program(tmp_path: Path, add_module: Path) -> None:
    code = "import sys; from neuronxcc.driver import CommandDriver; sys.exit(CommandDriver.main())"
    command = [sys.executable, "-c", code, "compile", "--framework", "XLA", "m.pb"]
    for folder in (STAGE / "python", ROOT / "python"):
        path = {"PATH": f"{STAGE / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(folder)}
        done = subprocess.run(
            [*command, "--output", "m.neff"],
            cwd=tmp_path,
            env={**os.environ, **path},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "m.neff").exists()
        (tmp_path / "m.neff").unlink()
    failed = subprocess.run(
        [*command[:-1], "absent.pb"], cwd=tmp_path, env={**os.environ, **path}, capture_output=True
    )
    assert failed.returncode == 1
    assert b"absent.pb" in failed.stderr


def test_the_python_package_installs(tmp_path: Path) -> None:
    """pip install ./python/neuronxcc, without reaching for an index."""
    source = tmp_path / "source"
    subprocess.run(["cp", "-r", ROOT / "python" / "neuronxcc", source], check=True)
    target = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation",
         "--no-deps", "--target", target, source],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (target / "neuronxcc" / "driver" / "CommandDriver.py").exists()


def test_a_cache_is_used_when_asked_for(tmp_path: Path, add_module: Path) -> None:
    folder = tmp_path / "cache"
    compile_it = ["compile", add_module, "--framework", "XLA", "--verbose", "info", "--output"]
    plain = run(*compile_it, "0.neff", cwd=tmp_path)
    assert plain.returncode == 0 and "cache miss" not in plain.stdout
    first = run(*compile_it, "1.neff", "--cache-dir", folder, cwd=tmp_path)
    assert "cache miss" in first.stdout

    # Other names of the module and of source lines.
    def renamed(argument: jnp.ndarray) -> jnp.ndarray:
        return argument + 1

    add_module.write_bytes(module_of(renamed, np.ones(4, np.float32)))
    again = run(*compile_it, "2.neff", cwd=tmp_path, NEURON_COMPILE_CACHE_URL=str(folder))
    assert "cache hit" in again.stdout
    made = [(tmp_path / f"{i}.neff").read_bytes() for i in range(3)]
    assert made[0] == made[1] == made[2]
    listed = json.loads(run("cache", "list", "--json", "--cache-dir", folder, cwd=tmp_path).stdout)
    assert len(listed) == 1 and listed[0]["hits"] == 1
    run("cache", "clear", cwd=tmp_path, NEURON_COMPILE_CACHE_URL=str(folder))
    info = json.loads(run("cache", "info", "--json", "--cache-dir", folder, cwd=tmp_path).stdout)
    assert info["entries"] == 0


def test_a_folder_that_cannot_be_used_is_one_warning(tmp_path: Path, add_module: Path) -> None:
    done = run(
        "compile", add_module, "--framework", "XLA", "--cache-dir", "s3://bucket/x", cwd=tmp_path
    )
    assert done.returncode == 0 and (tmp_path / "file.neff").exists()
    assert done.stderr.count("s3://bucket/x") == 1
