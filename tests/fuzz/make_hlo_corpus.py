#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of hlo_fuzz: small modules lowered from JAX, each with other attributes.

make_hlo_corpus.py [FOLDER]; needs JAX.
"""

import pathlib
import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "examples" / "digits"))
from generate import lower  # noqa: E402

X = np.arange(6, dtype=np.float32).reshape(2, 3)
I = np.array([0, 1, 1], np.int32)  # noqa: E741

PROGRAMS: dict[str, tuple[Callable[..., object], tuple[object, ...]]] = {
    "add": (lambda x: x + 1, (X,)),
    "dot": (lambda x: x @ x.T, (X,)),
    "softmax": (lambda x: jax.nn.softmax(x, axis=1), (X,)),
    "gather": (lambda x, i: jnp.take(x, i, axis=0), (X, I)),
    "scatter": (lambda x, i: x.at[i].add(2.0), (X.T.copy(), I)),
    "movement": (
        lambda x: (jnp.pad(x, 1)[::2], jnp.concatenate([x, x[::-1]]), jnp.tile(x, (2, 1))),
        (X,),
    ),
    "dynamic": (
        lambda x, i: jax.lax.dynamic_update_slice(
            x, jax.lax.dynamic_slice(x, (i[0], i[1]), (1, 1)), (i[1], i[2])
        ),
        (X, I),
    ),
    "types": (
        lambda x: (x.astype(jnp.bfloat16), x > 2, x.astype(jnp.int8), jnp.float8_e4m3fn(x)),
        (X,),
    ),
    "literals": (
        lambda x: (
            x + np.array([[1, 2, 3], [4, 5, 6]], np.float32),
            np.array([1, 2], np.int8),
            np.array([True, False]),
            np.array([3, 4], np.uint16),
        ),
        (X,),
    ),
    "loop": (lambda n: jax.lax.fori_loop(0, n, lambda i, s: s + i, 0), (np.int32(3),)),
    "sort": (lambda x: jnp.sort(x, axis=0), (X,)),
    "argmax": (lambda x: jnp.argmax(x, axis=1), (X,)),
    "window": (
        lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2), (1, 1), "SAME"),
        (X,),
    ),
}


def main() -> None:
    """One file a program, plus one with aliased parameters."""
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "corpus" / "hlo"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (function, arguments) in PROGRAMS.items():
        (folder / f"{name}.pb").write_bytes(lower(function, *arguments, donate=()))
    (folder / "alias.pb").write_bytes(lower(lambda x: (x * 2, x[0]), X, donate=(0,)))


if __name__ == "__main__":
    main()
