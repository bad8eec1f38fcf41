# SPDX-License-Identifier: Apache-2.0
"""Expected values come from NumPy."""

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import opennrt
import pytest


def axpy() -> opennrt.Graph:
    graph = opennrt.Graph("axpy")
    a, x, y = (graph.parameter("f32", (2, 3)) for _ in range(3))
    graph.root(graph.op("add", graph.op("multiply", a, x), y))
    graph.name_output(0, "sum")
    return graph


def row_sums() -> opennrt.Graph:
    graph = opennrt.Graph("row_sums")
    add = graph.computation("add")
    add.root(add.op("add", add.parameter("f32"), add.parameter("f32")))
    x = graph.parameter("f32", (2, 3))
    total = graph.op(
        "reduce", x, graph.constant(0.0, "f32"), shape=(2,), dimensions=[1], called=add
    )
    graph.root(graph.tuple(total, graph.op("negate", x)))
    return graph


@pytest.fixture(scope="module")
def runtime() -> opennrt.Runtime:
    with opennrt.Runtime() as opened:
        yield opened


def test_a_graph_built_here_runs_on_the_device(runtime: opennrt.Runtime) -> None:
    a, x, y = (np.arange(6, dtype="f4").reshape(2, 3) + i for i in range(3))
    model = runtime.load(axpy().compile(target="trn2"))
    assert [info.name for info in model.inputs] == ["input0", "input1", "input2"]
    np.testing.assert_array_equal(model(a, x, input2=y)["sum"], a * x + y)
    np.testing.assert_array_equal(model(a, x, y)["sum"], axpy().interpret(a, x, y)[0])
    times = model.times()
    assert times is None or times["executions"] == 2


def test_several_outputs_and_called_computations(runtime: opennrt.Runtime) -> None:
    x = np.arange(6, dtype="f4").reshape(2, 3)
    got = runtime.load(row_sums().compile())(x)
    np.testing.assert_array_equal(got["output0"], x.sum(axis=1))
    np.testing.assert_array_equal(got["output1"], -x)


def test_text_form_round_trips_and_compiles(runtime: opennrt.Runtime) -> None:
    text = str(row_sums())
    assert str(opennrt.Graph.parse(text)) == text
    x = np.ones((2, 3), "f4")
    got = runtime.load(opennrt.compile_text(text))(x)
    np.testing.assert_array_equal(got["output0"], np.float32([3, 3]))


def test_device_tensors_keep_their_bytes(runtime: opennrt.Runtime) -> None:
    for array in (np.arange(7, dtype="i8"), np.float16([[1.5], [-2]]), np.bool_([True, False])):
        tensor = runtime.tensor(array, core=runtime.core_count - 1)
        np.testing.assert_array_equal(tensor.numpy(), array)
        tensor.write(array[::-1])  # not contiguous
        np.testing.assert_array_equal(tensor.numpy(), array[::-1])
        tensor.free()
        with pytest.raises(ValueError, match="freed"):
            tensor.numpy()


def test_execute_on_tensors_of_the_caller(runtime: opennrt.Runtime) -> None:
    model = runtime.load(axpy().compile())
    one = runtime.tensor(np.ones((2, 3), "f4"))
    out = runtime.empty((2, 3), "f4")
    model.execute({f"input{i}": one for i in range(3)}, {"sum": out})
    np.testing.assert_array_equal(out.numpy(), np.full((2, 3), 2, "f4"))


def test_mistakes_name_what_is_wrong(runtime: opennrt.Runtime) -> None:
    model = runtime.load(axpy().compile())
    x = np.ones((2, 3), "f4")
    with pytest.raises(ValueError, match=r"'input1': expected float32\[2, 3\], found float64\[6\]"):
        model(x, np.ones(6), x)
    with pytest.raises(TypeError, match="no value for inputs"):
        model(x)
    with pytest.raises(opennrt.NeuronError) as caught:
        runtime.load(b"not a NEFF")
    assert caught.value.status == 2 and "NEFF" in str(caught.value)
    graph = opennrt.Graph()
    p = graph.parameter("f32", (2,))
    with pytest.raises(opennrt.CompileError, match=r"expected f32\[2\], found f32\[3\]"):
        graph.op("negate", p, shape=(3,))
    with pytest.raises(opennrt.CompileError, match="frobnicate"):
        graph.op("frobnicate", p)
    with pytest.raises(TypeError, match="unknown attribute"):
        graph.op("negate", p, colour=1)


def test_a_cache_gives_the_same_bytes(tmp_path: Path) -> None:
    neff = axpy().compile()
    first = opennrt.CompileCache(tmp_path / "cache")
    assert [axpy().compile(cache=first) for _ in range(3)] == [neff] * 3
    assert first.problem == ""
    assert {k: first.stats()[k] for k in ("compiled", "memory_hits", "disk_hits", "disk_used")} == {
        "compiled": 1,
        "memory_hits": 2,
        "disk_hits": 0,
        "disk_used": 1,
    }
    second = opennrt.CompileCache(f"file://{tmp_path}/cache")
    assert axpy().compile(cache=second) == neff
    assert axpy().compile(cache=second, optimization=0) != neff
    assert second.stats()["disk_hits"] == 1 and second.stats()["compiled"] == 1


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", str(tmp_path / "cache"))
    axpy().compile(cache=opennrt.CompileCache())
    assert [p.name.split("-")[0] for p in (tmp_path / "cache").iterdir()] == ["neuronxcc"]
    assert opennrt.CompileCache("").stats()["disk_used"] == 0


def test_an_unusable_folder_is_a_warning() -> None:
    cache = opennrt.CompileCache("s3://bucket/neffs")
    assert "s3://bucket/neffs" in cache.problem
    with pytest.warns(RuntimeWarning, match="s3://bucket/neffs.*without it"):
        axpy().compile(cache=cache)


def test_objects_may_outlive_the_runtime(runtime: opennrt.Runtime) -> None:
    # The module's runtime closes after this; collection then must do no harm.
    keep = [runtime.tensor(np.ones(3)), runtime.load(axpy().compile())]
    del keep
    gc.collect()
    assert runtime.core_count > 0


def test_closing_the_runtime_unloads_its_models(tmp_path: Path) -> None:
    """The example of the package's documentation used to end with an error of nrt_unload."""
    example = textwrap.dedent((opennrt.__doc__ or "").split("\n\n", 1)[1].split("\n\nSet ")[0])
    package = Path(opennrt.__file__).resolve().parents[1]
    environment = dict(os.environ, OPENNRT_MACHINE_DIR=str(tmp_path), PYTHONPATH=str(package))
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == 0 and "[1. 2. 3. 4.]" in done.stdout, done.stderr
    assert "ERROR" not in done.stderr, done.stderr
