# SPDX-License-Identifier: Apache-2.0
"""Build, compile and run models on a Neuron runtime: ctypes over libnrt.so.1 and libnrtcc.so.1.

    import numpy as np, opennrt

    graph = opennrt.Graph("axpy")
    a, x, y = (graph.parameter("f32", (4,)) for _ in range(3))
    graph.root(graph.op("add", graph.op("multiply", a, x), y))
    with opennrt.Runtime() as runtime:
        model = runtime.load(graph.compile(target="trn2"))
        print(model(np.ones(4, "f4"), np.arange(4, dtype="f4"), np.ones(4, "f4"))["output0"])

Set OPENNRT_EMULATE (for example to trn2.3xlarge) where there is no Trainium.
"""

from opennrt.bindings import CompileError, NeuronError, library_path
from opennrt.cache import CompileCache
from opennrt.dtypes import numpy_dtype
from opennrt.graph import Computation, Graph, Value, compile_text
from opennrt.runtime import Model, Runtime, Tensor, TensorInfo

__all__ = [
    "CompileCache",
    "CompileError",
    "Computation",
    "Graph",
    "Model",
    "NeuronError",
    "Runtime",
    "Tensor",
    "TensorInfo",
    "Value",
    "compile_text",
    "library_path",
    "numpy_dtype",
]
__version__ = "2.35.0"
