# SPDX-License-Identifier: Apache-2.0
"""Loops and branches lowered from JAX equal JAX's CPU; random bits of the default key exactly.

Tolerances are those of test_jax_oracle.py; what loops accumulate in f32 gets a little more.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from neff_runner import Runtime
from oracle import check, compile_bytes, module_of

rng = np.random.default_rng(20260102)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Normal numbers of f32."""
    return (rng.standard_normal(shape) * scale).astype(np.float32)


# ---- scan --------------------------------------------------------------------------------------


def lstm(weights: tuple, xs: jax.Array) -> tuple:
    """All hidden states of an LSTM and its last cell."""
    w, u, b = weights

    def step(carry: tuple, x: jax.Array) -> tuple:
        h, c = carry
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((xs.shape[1], u.shape[0]), xs.dtype)
    (_, c), hs = jax.lax.scan(step, (zeros, zeros), xs)
    return hs, c


def lstm_arguments() -> tuple:
    """Weights (9 inputs, 16 units) and 12 steps of a batch of 4."""
    return (normal(9, 64, scale=0.3), normal(16, 64, scale=0.3), normal(64)), normal(12, 4, 9)


def test_lstm_by_scan(runtime: Runtime) -> None:
    weights, xs = lstm_arguments()
    check(runtime, lstm, weights, xs)


def test_gradient_of_an_lstm_scan(runtime: Runtime) -> None:
    weights, xs = lstm_arguments()

    def loss(weights: tuple, xs: jax.Array) -> jax.Array:
        hs, c = lstm(weights, xs)
        return (hs**2).sum() + c.sum()

    check(runtime, jax.value_and_grad(loss), weights, xs, tolerance=5e-5)


def test_selective_scan(runtime: Runtime) -> None:
    """The recurrence of Mamba: a state of 8 per channel, decay and input chosen by the data."""

    def mamba(a: jax.Array, xs: jax.Array, delta: jax.Array, b: jax.Array, c: jax.Array) -> tuple:
        def step(h: jax.Array, inputs: tuple) -> tuple:
            x, d, bt, ct = inputs
            h = jnp.exp(d[:, None] * a) * h + (d * x)[:, None] * bt[None, :]
            return h, h @ ct

        return jax.lax.scan(step, jnp.zeros_like(a), (xs, delta, b, c))

    steps, channels, state = 24, 12, 8
    check(
        runtime,
        mamba,
        -np.abs(normal(channels, state)),
        normal(steps, channels),
        np.abs(normal(steps, channels)),
        normal(steps, state),
        normal(steps, state),
        tolerance=3e-5,
    )


def test_scan_backwards_and_of_no_steps(runtime: Runtime) -> None:
    def running(xs: jax.Array) -> tuple:
        return jax.lax.scan(lambda c, x: (c + x, c * x), jnp.float32(0), xs, reverse=True)

    check(runtime, running, normal(17))
    check(runtime, lambda xs: running(xs[:0]), normal(3))


def test_scan_over_integers_and_bf16(runtime: Runtime) -> None:
    def mixed(xs: jax.Array, ys: jax.Array) -> tuple:
        def step(carry: tuple, inputs: tuple) -> tuple:
            total, last = carry
            x, y = inputs
            return (total * 31 + x, y), (total, last + y)

        return jax.lax.scan(step, (jnp.uint32(7), jnp.zeros(3, jnp.bfloat16)), (xs, ys))

    ys = np.asarray(jnp.asarray(normal(9, 3), jnp.bfloat16))
    check(runtime, mixed, rng.integers(0, 2**31, 9, dtype=np.uint32), ys, tolerance=2.0**-8)


def test_scan_that_reads_and_writes_its_state(runtime: Runtime) -> None:
    """Each step changes row i of the state by what row i + 1 held."""

    def relax(grid: jax.Array) -> jax.Array:
        def step(i: jax.Array, g: jax.Array) -> jax.Array:
            below = jax.lax.dynamic_slice(g, (i + 1, 0), (1, 5))
            here = jax.lax.dynamic_slice(g, (i, 0), (1, 5))
            return jax.lax.dynamic_update_slice(g, here * 0.5 + below * 2, (i, 0))

        return jax.lax.fori_loop(0, grid.shape[0] - 1, step, grid)

    check(runtime, relax, normal(8, 5))


# ---- while -------------------------------------------------------------------------------------


def test_fori_loop_with_a_bound_from_the_data(runtime: Runtime) -> None:
    def power(n: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, n, lambda i, y: y * x + i.astype(jnp.float32), x)

    for n in (np.int32(0), np.int32(1), np.int32(9), np.int32(-3)):
        check(runtime, power, n, normal(6, scale=0.5))


def test_while_until_it_converges(runtime: Runtime) -> None:
    def square_root(x: jax.Array) -> tuple:
        def unfinished(state: tuple) -> jax.Array:
            y, steps = state
            return (jnp.abs(y * y - x).max() > 1e-4 * x.max()) & (steps < 50)

        def newton(state: tuple) -> tuple:
            y, steps = state
            return 0.5 * (y + x / y), steps + 1

        return jax.lax.while_loop(unfinished, newton, (x, jnp.int32(0)))

    check(runtime, square_root, np.abs(normal(5)) * 10 + 1)


def test_collatz_of_a_batch(runtime: Runtime) -> None:
    """A loop per element: vmap makes one loop of them that runs until all are done."""

    def steps(n: jax.Array) -> jax.Array:
        def step(state: tuple) -> tuple:
            n, count = state
            return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

        return jax.lax.while_loop(lambda s: s[0] != 1, step, (n, jnp.int32(0)))[1]

    check(runtime, jax.vmap(steps), np.array([1, 2, 7, 27, 97], np.int32))


def test_values_that_trade_places(runtime: Runtime) -> None:
    def rotate(n: jax.Array, a: jax.Array, b: jax.Array, c: jax.Array) -> tuple:
        def step(_: jax.Array, state: tuple) -> tuple:
            a, b, c, _ = state
            return b, c, a, a

        return jax.lax.fori_loop(0, n, step, (a, b, c, a))

    for n in range(5):
        check(runtime, rotate, np.int32(n), normal(7), normal(7), normal(7), tolerance=0)


# ---- branches ----------------------------------------------------------------------------------


def test_cond_and_switch(runtime: Runtime) -> None:
    def choose(p: jax.Array, i: jax.Array, x: jax.Array, y: jax.Array) -> tuple:
        a = jax.lax.cond(p, lambda x, y: x @ y, lambda x, y: x - y, x, y)
        branches = [lambda x: x, jnp.exp, lambda x: x.at[1].set(0), lambda x: x[::-1]]
        return a, jax.lax.switch(i, branches, x), jax.lax.cond(p, lambda: (x, y), lambda: (y, x))

    x, y = normal(6, 6), normal(6, 6)
    for p, i in ((True, 0), (False, 1), (True, 2), (False, 3), (True, 99), (False, -5)):
        check(runtime, choose, np.bool_(p), np.int32(i), x, y)


def test_loop_in_a_branch_in_a_loop(runtime: Runtime) -> None:
    def nested(x: jax.Array, n: jax.Array) -> tuple:
        def odd(state: tuple) -> tuple:
            x, i = state
            return jax.lax.fori_loop(0, i, lambda k, y: jnp.sin(y) + k * 0.1, x), i + 1

        def even(state: tuple) -> tuple:
            x, i = state
            return x * 0.5, i + 1

        def step(state: tuple) -> tuple:
            return jax.lax.cond(state[1] % 2 == 1, odd, even, state)

        return jax.lax.while_loop(lambda s: s[1] < n, step, (x, jnp.int32(0)))

    check(runtime, nested, normal(11), np.int32(7), tolerance=3e-5)


def test_gradient_through_cond_in_scan(runtime: Runtime) -> None:
    def loss(w: jax.Array, xs: jax.Array) -> jax.Array:
        def step(h: jax.Array, x: jax.Array) -> tuple:
            h = jax.lax.cond(x.sum() > 0, lambda h: jnp.tanh(h @ w + x), lambda h: h * 0.9, h)
            return h, h.sum()

        h, sums = jax.lax.scan(step, jnp.zeros(8), xs)
        return (h**2).sum() + (sums * jnp.arange(sums.size)).sum()

    check(runtime, jax.grad(loss), normal(8, 8, scale=0.4), normal(10, 8), tolerance=5e-5)


# ---- decoding ----------------------------------------------------------------------------------

LAYERS, HEADS, WIDTH, VOCABULARY, LENGTH = 2, 2, 16, 23, 10


def decode(weights: dict, caches: jax.Array, tokens: jax.Array, start: jax.Array) -> tuple:
    """Greedy decoding from position `start` to the end of `tokens` as one while."""

    def attend(x: jax.Array, w: jax.Array, cache: jax.Array, at: jax.Array) -> tuple:
        q, k, v = jnp.split(x @ w, 3)
        shape = (1, 1, HEADS, WIDTH // HEADS)
        cache = jax.lax.dynamic_update_slice(cache, k.reshape(shape), (0, at, 0, 0))
        cache = jax.lax.dynamic_update_slice(cache, v.reshape(shape), (1, at, 0, 0))
        q = q.reshape(HEADS, -1)
        scores = jnp.einsum("hd,thd->ht", q, cache[0]) / np.sqrt(WIDTH // HEADS)
        scores = jnp.where(jnp.arange(LENGTH) <= at, scores, -1e30)
        out = jnp.einsum("ht,thd->hd", jax.nn.softmax(scores), cache[1])
        return out.reshape(-1), cache

    def step(state: tuple) -> tuple:
        at, tokens, caches = state
        x = weights["embedding"][tokens[at]] + weights["positions"][at]
        for layer in range(LAYERS):
            y, cache = attend(x, weights["qkv"][layer], caches[layer], at)
            caches = caches.at[layer].set(cache)
            x = x + y
            x = x + jax.nn.gelu(x @ weights["up"][layer]) @ weights["down"][layer]
        token = jnp.argmax(x @ weights["embedding"].T).astype(jnp.int32)
        return at + 1, tokens.at[at + 1].set(token), caches

    state = (start, tokens, caches)
    _, tokens, caches = jax.lax.while_loop(lambda s: s[0] + 1 < LENGTH, step, state)
    return tokens, caches


def decode_arguments() -> tuple:
    """Weights, caches, tokens and a start. The seed gives several different tokens."""
    own = np.random.default_rng(5)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (own.standard_normal(shape) * scale).astype(np.float32)

    weights = {
        "embedding": normal(VOCABULARY, WIDTH),
        "positions": normal(LENGTH, WIDTH, scale=2),
        "qkv": normal(LAYERS, WIDTH, 3 * WIDTH, scale=0.4),
        "up": normal(LAYERS, WIDTH, 32, scale=0.3),
        "down": normal(LAYERS, 32, WIDTH, scale=0.3),
    }
    caches = np.zeros((LAYERS, 2, LENGTH, HEADS, WIDTH // HEADS), np.float32)
    tokens = np.zeros(LENGTH, np.int32)
    tokens[0] = 5
    return weights, caches, tokens, np.int32(0)


def test_greedy_decoding_with_a_cache(runtime: Runtime) -> None:
    tokens, _ = check(runtime, decode, *decode_arguments(), tolerance=3e-5)
    assert len(set(tokens.tolist())) > 2  # the case says something


def test_greedy_decoding_in_the_memory_of_its_arguments(runtime: Runtime) -> None:
    weights, caches, tokens, start = decode_arguments()
    expected = jax.jit(decode)(weights, caches, tokens, start)
    module = module_of(decode, weights, caches, tokens, start, donate_argnums=(1, 2))
    model = runtime.load(compile_bytes(module))
    leaves = [
        np.asarray(each) for each in jax.tree_util.tree_leaves((weights, caches, tokens, start))
    ]
    ours = model.run(leaves, {0: 6, 1: 5})
    model.unload()
    assert np.array_equal(ours[0], expected[0])
    assert np.allclose(ours[1], expected[1], atol=1e-4)


# ---- random numbers ----------------------------------------------------------------------------


def test_random_bits_of_the_default_generator(runtime: Runtime) -> None:
    key = np.asarray(jax.random.key_data(jax.random.key(42)))

    def draw(data: jax.Array) -> list:
        key = jax.random.wrap_key_data(data, impl="threefry2x32")
        first, second = jax.random.split(key)
        return [
            jax.random.bits(key, (3, 5)),
            jax.random.bits(first, (7,), "uint8"),
            jax.random.bits(second, (9,), "uint16"),
            jax.random.key_data(jax.random.fold_in(key, 7)),
            jax.random.randint(first, (20,), -5, 100),
            jax.random.bernoulli(second, 0.3, (20,)),
            jax.random.key_data(jax.random.split(key, 5)),
        ]

    check(runtime, draw, key)


def test_random_floats_of_the_default_generator(runtime: Runtime) -> None:
    key = np.asarray(jax.random.key_data(jax.random.key(7)))

    def draw(data: jax.Array) -> list:
        key = jax.random.wrap_key_data(data, impl="threefry2x32")
        return [
            jax.lax.bitcast_convert_type(jax.random.uniform(key, (50,)), jnp.uint32),
            jax.random.uniform(key, (50,), jnp.bfloat16),
        ]

    check(runtime, draw, key, tolerance=0)

    def more(data: jax.Array) -> list:
        key = jax.random.wrap_key_data(data, impl="threefry2x32")
        return [
            jax.random.uniform(key, (50,), minval=-2, maxval=3),
            jax.random.normal(key, (100,)),
            jax.random.exponential(key, (20,)),
            jax.random.gumbel(key, (20,)),
            jax.random.truncated_normal(key, -1.0, 1.0, (20,)),
        ]

    check(runtime, more, key, tolerance=2e-5)


def test_random_choices_of_the_default_generator(runtime: Runtime) -> None:
    key = np.asarray(jax.random.key_data(jax.random.key(3)))

    def draw(data: jax.Array, logits: jax.Array) -> list:
        key = jax.random.wrap_key_data(data, impl="threefry2x32")
        return [
            jax.random.categorical(key, logits, shape=(40, 5)),
            jax.random.randint(key, (33,), 0, 7),
        ]

    check(runtime, draw, key, normal(5, 8))


def test_random_numbers_inside_a_loop(runtime: Runtime) -> None:
    def walk(data: jax.Array) -> tuple:
        def step(carry: tuple, _: None) -> tuple:
            key, at = carry
            key, sub = jax.random.split(key)
            at = at + jax.random.randint(sub, (4,), -3, 4)
            return (key, at), at

        key = jax.random.wrap_key_data(data, impl="threefry2x32")
        (key, _), path = jax.lax.scan(step, (key, jnp.zeros(4, jnp.int32)), None, length=12)
        return path, jax.random.key_data(key)

    check(runtime, walk, np.asarray(jax.random.key_data(jax.random.key(11))))


# ---- limits ------------------------------------------------------------------------------------


def test_loops_at_every_level_of_optimisation(runtime: Runtime) -> None:
    weights, xs = lstm_arguments()
    for level in ("1", "2", "3"):
        check(runtime, lstm, weights, xs, flags=("-O", level))


ENDLESS = """
import sys
import numpy as np
from neff_runner import NrtError, Runtime

endless, add = (open(path, "rb").read() for path in sys.argv[1:])
runtime = Runtime()
x = np.ones(3, np.int32)
model = runtime.load(endless)
try:
    model.run([x])
except NrtError as error:
    assert error.status == 5, error
    assert "deadline" in str(error) or "EXEC_TIMEOUT" in str(error), error
else:
    raise SystemExit("the loop ended")
model.unload()
print(runtime.load(add).run([x])[0].tolist())
runtime.close()
"""


def test_an_endless_loop_is_stopped_and_the_core_goes_on(tmp_path: Path) -> None:
    def endless(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda x: True, lambda x: x + 1, x)

    x = np.ones(3, np.int32)
    paths = []
    for name, function in (("endless", endless), ("add", lambda x: x + 1)):
        paths.append(tmp_path / name)
        paths[-1].write_bytes(compile_bytes(module_of(function, x)))
    environment = dict(os.environ) | {
        "NEURON_RT_EXEC_TIMEOUT": "1",
        "OPENNRT_MACHINE_DIR": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).parent),
    }
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS, *map(str, paths)],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[2, 2, 2]"
