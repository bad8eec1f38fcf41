#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lowers the digits demo from JAX: HLO of a training and a predict step, and JAX's loss curve.

Initial parameters come from a generator that train_digits.c repeats bit for bit, so the two loss
curves start at the same point and differ only by how each side computes.
"""

import argparse
import csv
import gzip
import pathlib
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

PIXELS = 64
CLASSES = 10
Params = Sequence[jax.Array]


def logits(params: Params, pixels: jax.Array) -> jax.Array:
    """Two dense layers; pixels run from 0 to 16."""
    w1, b1, w2, b2 = params
    hidden = jnp.tanh((pixels / 16) @ w1 + b1)
    return hidden @ w2 + b2


def loss_of(params: Params, pixels: jax.Array, digits: jax.Array) -> jax.Array:
    """Mean softmax cross entropy."""
    log_probabilities = jax.nn.log_softmax(logits(params, pixels))
    return -jnp.mean(jnp.sum(log_probabilities * jax.nn.one_hot(digits, CLASSES), axis=1))


def make_step(rate: float, momentum: float) -> Callable[..., tuple[Params, Params, jax.Array]]:
    """One step of gradient descent with momentum: new parameters, new momenta, loss before it."""

    def step(
        params: Params, momenta: Params, pixels: jax.Array, digits: jax.Array
    ) -> tuple[Params, Params, jax.Array]:
        loss, gradients = jax.value_and_grad(loss_of)(params, pixels, digits)
        momenta = [momentum * m + g for m, g in zip(momenta, gradients, strict=True)]
        params = [p - rate * m for p, m in zip(params, momenta, strict=True)]
        return params, momenta, loss

    return step


def uniform(count: int, state: int) -> tuple[np.ndarray, int]:
    """`count` numbers in [-1, 1), each 24 bits of a linear congruential generator."""
    numbers = np.empty(count, np.float32)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        numbers[i] = np.float32(state >> 8) * np.float32(2.0**-23) - np.float32(1)
    return numbers, state


def initial_params(hidden: int, seed: int) -> list[np.ndarray]:
    """Weights uniform in +-sqrt(6 / inputs), biases zero."""
    params = []
    state = seed
    for inputs, outputs in ((PIXELS, hidden), (hidden, CLASSES)):
        numbers, state = uniform(inputs * outputs, state)
        limit = np.sqrt(np.float32(6) / np.float32(inputs))
        params += [(numbers * limit).reshape(inputs, outputs), np.zeros(outputs, np.float32)]
    return params


def load(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """All pixels as float32 and all digits as int32."""
    with gzip.open(path, "rt") as text:
        rows = np.array(list(csv.reader(text)), np.int32)
    return rows[:, :PIXELS].astype(np.float32), rows[:, PIXELS]


def strip_metadata(module: bytes) -> bytes:
    """Drops what names files of this machine: each instruction's metadata and the stack frames."""
    drop = {("module",): {17, 25}, ("module", 3, 2): {7}}
    nested = {("module",): {3}, ("module", 3): {2}}

    def varint(data: bytes, at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = data[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at

    def encode(value: int) -> bytes:
        out = bytearray()
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    def walk(data: bytes, path: tuple[object, ...]) -> bytes:
        out, at = bytearray(), 0
        while at < len(data):
            start = at
            tag, at = varint(data, at)
            field, kind = tag >> 3, tag & 7
            if kind == 2:
                size, at = varint(data, at)
                body, at = data[at : at + size], at + size
                if field in drop.get(path, ()):
                    continue
                if field in nested.get(path, ()):
                    body = walk(body, (*path, field))
                out += encode(tag) + encode(len(body)) + body
            else:
                at = varint(data, at)[1] if kind == 0 else at + {1: 8, 5: 4}[kind]
                out += data[start:at]
        return bytes(out)

    return walk(module, ("module",))


def lower(function: Callable[..., object], *arguments: object, donate: tuple[int, ...]) -> bytes:
    """Serialized HloModuleProto of a function, without metadata."""
    lowered = jax.jit(function, donate_argnums=donate).lower(*arguments)
    return strip_metadata(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())


def main() -> None:
    """Writes train_step.pb, predict.pb and curve.csv."""
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=here)
    parser.add_argument("--data", type=pathlib.Path, default=here / "digits.csv.gz")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=220)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0.2)
    parser.add_argument("--momentum", type=float, default=0.9)
    options = parser.parse_args()

    pixels, digits = load(options.data)
    is_test = np.arange(len(digits)) % 5 == 4
    train_pixels, train_digits = pixels[~is_test], digits[~is_test]
    params = initial_params(options.hidden, options.seed)
    momenta = [np.zeros_like(p) for p in params]
    step = make_step(options.rate, options.momentum)

    first = np.arange(options.batch) % len(train_digits)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "train_step.pb").write_bytes(
        lower(step, params, momenta, train_pixels[first], train_digits[first], donate=(0, 1))
    )
    (options.out / "predict.pb").write_bytes(lower(logits, params, pixels[is_test], donate=()))

    run = jax.jit(step)
    with open(options.out / "curve.csv", "w", newline="") as file:
        file.write(
            f"# seed={options.seed} hidden={options.hidden} batch={options.batch}"
            f" steps={options.steps} rate={options.rate} momentum={options.momentum}\n"
        )
        file.write("step,loss\n")
        for number in range(options.steps):
            rows = np.arange(number * options.batch, (number + 1) * options.batch)
            rows %= len(train_digits)
            params, momenta, loss = run(params, momenta, train_pixels[rows], train_digits[rows])
            file.write(f"{number},{float(loss):.9g}\n")
    guesses = np.argmax(logits(params, pixels[is_test]), axis=1)
    right = int((guesses == digits[is_test]).sum())
    print(f"JAX: {right} of {int(is_test.sum())} test digits right, last loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
