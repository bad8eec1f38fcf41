# SPDX-License-Identifier: Apache-2.0
"""Training steps and decoding of whole, small models."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from programs.registry import BF16, Data, program

Arrays = dict[str, jax.Array]


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean of -log softmax(logits)[label]."""
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
    return -jnp.mean(picked)


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Root-mean-square norm over the last dimension."""
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def layer_norm(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    """Over the last dimension."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-5) * scale + shift


def sgd(loss: object, rate: float) -> object:
    """A step: (loss, new parameters)."""

    def step(params: object, *batch: jax.Array) -> tuple[jax.Array, object]:
        value, gradient = jax.value_and_grad(loss)(params, *batch)
        return value, jax.tree.map(lambda p, g: (p - rate * g).astype(p.dtype), params, gradient)

    return step


def mlp_of(data: Data, sizes: tuple[int, ...], dtype: type = np.float32) -> list[np.ndarray]:
    """Weights and biases of dense layers."""
    made = []
    for a, b in itertools.pairwise(sizes):
        made += [data.weight(a, b, dtype=dtype), data.normal(b, scale=0.1, dtype=dtype)]
    return made


def run_mlp(params: list[jax.Array], x: jax.Array) -> jax.Array:
    """Dense layers with relu between."""
    pairs = list(zip(params[::2], params[1::2], strict=True))
    for i, (w, b) in enumerate(pairs):
        x = x @ w + b
        x = jax.nn.relu(x) if i + 1 < len(pairs) else x
    return x


@program()
def mlp_training_step(data: Data, large: bool) -> tuple:
    """A classifier of three layers, SGD."""
    sizes = (784, 512, 256, 10) if large else (20, 48, 32, 5)
    n = 128 if large else 24

    def loss(params: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
        return cross_entropy(run_mlp(params, x), y)

    batch = (data.normal(n, sizes[0]), data.integers(sizes[-1], n))
    return sgd(loss, 0.1), (mlp_of(data, sizes), *batch)


@program(tolerance=4 * 2.0**-8)
def mlp_training_step_bf16(data: Data, large: bool) -> tuple:
    """The same in bf16."""
    sizes = (784, 512, 256, 10) if large else (20, 48, 32, 5)
    n = 128 if large else 24

    def loss(params: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean(jnp.square(run_mlp(params, x) - y))

    batch = (data.normal(n, sizes[0], dtype=BF16), data.normal(n, sizes[-1], dtype=BF16))
    return sgd(loss, 0.1), (mlp_of(data, sizes, BF16), *batch)


def rope(x: jax.Array) -> jax.Array:
    """Rotary position embedding of [batch, time, heads, width]."""
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = jnp.arange(x.shape[1], dtype=jnp.float32)[:, None] * rates
    cos, sin = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def attend(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None) -> jax.Array:
    """Softmax attention of [batch, time, heads, width]; groups of queries share keys (GQA)."""
    groups = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(each, groups, axis=2) for each in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = jnp.where(mask, scores, -1e30)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)


def llama_params(data: Data, layers: int, width: int, heads: int, kv: int, vocab: int) -> list:
    """Embedding, blocks, final norm (the embedding is tied to the output)."""
    head = width // heads
    blocks = [
        {
            "wq": data.weight(width, width),
            "wk": data.weight(width, kv * head),
            "wv": data.weight(width, kv * head),
            "wo": data.weight(width, width),
            "gate": data.weight(width, 2 * width),
            "up": data.weight(width, 2 * width),
            "down": data.weight(2 * width, width),
            "n1": np.ones(width, np.float32),
            "n2": np.ones(width, np.float32),
        }
        for _ in range(layers)
    ]
    embedding = data.normal(vocab, width, scale=0.02)
    return [embedding, blocks, np.ones(width, np.float32)]


def llama(params: list, tokens: jax.Array, heads: int, kv: int) -> jax.Array:
    """Logits of every position."""
    embedding, blocks, norm = params
    x = embedding[tokens]
    n, t, width = x.shape
    mask = jnp.tril(jnp.ones((t, t), bool))
    for block in blocks:
        y = rms_norm(x, block["n1"])
        q = rope((y @ block["wq"]).reshape(n, t, heads, -1))
        k = rope((y @ block["wk"]).reshape(n, t, kv, -1))
        v = (y @ block["wv"]).reshape(n, t, kv, -1)
        x = x + attend(q, k, v, mask).reshape(n, t, width) @ block["wo"]
        y = rms_norm(x, block["n2"])
        x = x + (jax.nn.silu(y @ block["gate"]) * (y @ block["up"])) @ block["down"]
    return rms_norm(x, norm) @ embedding.T


@program()
def llama_training_step(data: Data, large: bool) -> tuple:
    """Two blocks with RoPE, grouped queries and SwiGLU."""
    layers, width, heads, kv, vocab, t = (2, 256, 8, 4, 1000, 64) if large else (2, 32, 4, 2, 50, 8)

    def loss(params: list, tokens: jax.Array) -> jax.Array:
        return cross_entropy(llama(params, tokens[:, :-1], heads, kv), tokens[:, 1:])

    params = llama_params(data, layers, width, heads, kv, vocab)
    return sgd(loss, 0.1), (params, data.integers(vocab, 2, t + 1))


@program()
def llama_forward(data: Data, large: bool) -> tuple:
    """Prefill: logits of all positions."""
    layers, width, heads, kv, vocab, t = (
        (2, 256, 8, 4, 1000, 128) if large else (2, 32, 4, 2, 50, 8)
    )
    params = llama_params(data, layers, width, heads, kv, vocab)
    return lambda p, tokens: llama(p, tokens, heads, kv), (params, data.integers(vocab, 1, t))


@program()
def kv_cache_decode(data: Data, large: bool) -> tuple:
    """Greedy decoding with a key-value cache, as one while loop."""
    width, vocab, steps, room = (128, 500, 16, 64) if large else (16, 30, 5, 8)
    names = ("wq", "wk", "wv", "wo", "out")
    shapes = ((width, width),) * 4 + ((width, vocab),)
    weights = {name: data.weight(*shape) for name, shape in zip(names, shapes, strict=True)}

    def decode(w: Arrays, embedding: jax.Array, first: jax.Array) -> tuple:
        def body(carry: tuple) -> tuple:
            i, token, keys, values, tokens = carry
            x = embedding[token]
            q = x @ w["wq"]
            keys = jax.lax.dynamic_update_slice(keys, (x @ w["wk"])[None], (i, 0))
            values = jax.lax.dynamic_update_slice(values, (x @ w["wv"])[None], (i, 0))
            scores = jnp.where(jnp.arange(room) <= i, keys @ q * width**-0.5, -1e30)
            x = x + (jax.nn.softmax(scores) @ values) @ w["wo"]
            token = jnp.argmax(x @ w["out"]).astype(jnp.int32)
            tokens = jax.lax.dynamic_update_slice(tokens, token[None], (i,))
            return i + 1, token, keys, values, tokens

        cache = jnp.zeros((room, width))
        start = (jnp.int32(0), first, cache, cache, jnp.zeros(room, jnp.int32))
        return jax.lax.while_loop(lambda c: c[0] < steps, body, start)

    return decode, (weights, data.normal(vocab, width), np.int32(3))


@program()
def vit_training_step(data: Data, large: bool) -> tuple:
    """Patches, two pre-norm blocks, mean pooling."""
    size, patch, width, heads, n = (32, 4, 128, 4, 8) if large else (8, 4, 16, 2, 2)
    tokens = (size // patch) ** 2
    block = lambda: {  # noqa: E731
        "qkv": data.weight(width, 3 * width),
        "o": data.weight(width, width),
        "a": data.weight(width, 4 * width),
        "b": data.weight(4 * width, width),
        "n": [np.ones(width, np.float32), np.zeros(width, np.float32)] * 2,
    }
    params = {
        "patch": data.weight(patch * patch * 3, width),
        "position": data.normal(tokens, width, scale=0.02),
        "blocks": [block(), block()],
        "head": data.weight(width, 10),
    }

    def loss(p: dict, images: jax.Array, labels: jax.Array) -> jax.Array:
        side = size // patch
        x = images.reshape(n, side, patch, side, patch, 3).transpose(0, 1, 3, 2, 4, 5)
        x = x.reshape(n, tokens, -1) @ p["patch"] + p["position"]
        for block in p["blocks"]:
            y = layer_norm(x, *block["n"][:2]) @ block["qkv"]
            q, k, v = jnp.split(y.reshape(n, tokens, 3 * heads, -1), 3, axis=2)
            x = x + attend(q, k, v, None).reshape(n, tokens, width) @ block["o"]
            x = x + jax.nn.gelu(layer_norm(x, *block["n"][2:]) @ block["a"]) @ block["b"]
        return cross_entropy(jnp.mean(x, axis=1) @ p["head"], labels)

    return sgd(loss, 0.1), (params, data.normal(n, size, size, 3), data.integers(10, n))


def conv(x: jax.Array, w: jax.Array, stride: int = 1, **options: object) -> jax.Array:
    """NHWC by HWIO, same padding."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=numbers, **options
    )


def batch_norm(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
    """By the statistics of the batch, over all but the last dimension."""
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.mean(jnp.square(x - mean), axis=(0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + shift


def pool_max(x: jax.Array) -> jax.Array:
    """2 x 2, stride 2."""
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@program()
def resnet_block_training_step(data: Data, large: bool) -> tuple:
    """Two 3 x 3 convolutions with batch norm and a strided shortcut."""
    n, size, a, b = (8, 28, 32, 64) if large else (2, 6, 4, 8)
    params = {
        "c1": data.weight(3, 3, a, b),
        "c2": data.weight(3, 3, b, b),
        "short": data.weight(1, 1, a, b),
        "n1": [np.ones(b, np.float32), np.zeros(b, np.float32)],
        "n2": [np.ones(b, np.float32), np.zeros(b, np.float32)],
    }

    def loss(p: dict, x: jax.Array, target: jax.Array) -> jax.Array:
        y = jax.nn.relu(batch_norm(conv(x, p["c1"], 2), *p["n1"]))
        y = batch_norm(conv(y, p["c2"]), *p["n2"])
        return jnp.mean(jnp.square(jax.nn.relu(y + conv(x, p["short"], 2)) - target))

    half = size // 2
    return sgd(loss, 0.1), (params, data.normal(n, size, size, a), data.normal(n, half, half, b))


@program()
def unet_block_training_step(data: Data, large: bool) -> tuple:
    """Down by pooling, up by a transposed convolution, joined by concatenation."""
    n, size, c = (4, 32, 32) if large else (2, 8, 4)
    params = {
        "in": data.weight(3, 3, c, c),
        "down": data.weight(3, 3, c, 2 * c),
        "up": data.weight(2, 2, 2 * c, c),
        "out": data.weight(3, 3, 2 * c, c),
    }

    def loss(p: dict, x: jax.Array, target: jax.Array) -> jax.Array:
        skip = jax.nn.relu(conv(x, p["in"]))
        y = jax.nn.relu(conv(pool_max(skip), p["down"]))
        y = jax.lax.conv_transpose(
            y, p["up"], (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return jnp.mean(jnp.square(conv(jnp.concatenate([skip, y], axis=-1), p["out"]) - target))

    x = data.normal(n, size, size, c)
    return sgd(loss, 0.1), (params, x, data.normal(n, size, size, c))


@program()
def lstm_training_step(data: Data, large: bool) -> tuple:
    """A scan over time, its gradient too."""
    n, t, width = (16, 32, 128) if large else (3, 6, 8)
    params = {
        "x": data.weight(width, 4 * width),
        "h": data.weight(width, 4 * width),
        "b": data.normal(4 * width, scale=0.1),
    }

    def loss(p: Arrays, x: jax.Array, target: jax.Array) -> jax.Array:
        def cell(carry: tuple, x: jax.Array) -> tuple:
            h, c = carry
            i, f, g, o = jnp.split(x @ p["x"] + h @ p["h"] + p["b"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = (jnp.zeros((n, width)), jnp.zeros((n, width)))
        return jnp.mean(jnp.square(jax.lax.scan(cell, start, x)[1] - target))

    return sgd(loss, 0.1), (params, data.normal(t, n, width), data.normal(t, n, width))


@program()
def mamba_scan(data: Data, large: bool) -> tuple:
    """Selective state-space recurrence: the state decays by a factor that depends on the input."""
    n, t, width, state = (2, 64, 128, 16) if large else (2, 7, 6, 4)

    def run(x: jax.Array, delta: jax.Array, a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
        def step(h: jax.Array, now: tuple) -> tuple:
            x, delta, b, c = now
            decay = jnp.exp(delta[..., None] * a)
            h = decay * h + (delta * x)[..., None] * b[:, None, :]
            return h, jnp.einsum("nds,ns->nd", h, c)

        return jax.lax.scan(step, jnp.zeros((n, width, state)), (x, delta, b, c))[1]

    steps = np.abs(data.normal(t, n, width)) * np.float32(0.1)
    return run, (
        data.normal(t, n, width),
        steps,
        -np.abs(data.normal(width, state)),
        data.normal(t, n, state),
        data.normal(t, n, state),
    )


@program()
def mixture_of_experts(data: Data, large: bool) -> tuple:
    """The best two of the experts for each token, weighed by softmax."""
    n, width, experts = (256, 128, 8) if large else (10, 8, 4)

    def run(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
        scores, chosen = jax.lax.top_k(x @ gate, 2)
        weights = jax.nn.softmax(scores, axis=-1)
        hidden = jax.nn.relu(jnp.einsum("nw,ewh->neh", x, up))
        each = jnp.einsum("neh,ehw->new", hidden, down)
        picked = jnp.take_along_axis(each, chosen[..., None], axis=1)
        return jnp.sum(picked * weights[..., None], axis=1)

    return run, (
        data.normal(n, width),
        data.weight(width, experts),
        data.normal(experts, width, 2 * width, scale=width**-0.5),
        data.normal(experts, 2 * width, width, scale=(2 * width) ** -0.5),
    )


@program()
def adam_over_many_tensors(data: Data, large: bool) -> tuple:
    """200 tensors of mixed sizes."""
    count = 200
    scale = 16 if large else 1
    shapes = [(1 + i % 7, scale * (1 + i % 13)) for i in range(count)]
    group = lambda: [data.normal(*shape) for shape in shapes]  # noqa: E731

    def adam(p: list, g: list, m: list, v: list, t: jax.Array) -> tuple:
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g, strict=True)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g, strict=True)]
        rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        p = [w - rate * a / (jnp.sqrt(b) + 1e-8) for w, a, b in zip(p, m, v, strict=True)]
        return p, m, v

    return adam, (group(), group(), group(), [np.abs(each) for each in group()], np.float32(3))
