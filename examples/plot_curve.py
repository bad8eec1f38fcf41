#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the learning curve that train_digits wrote: plot_curve.py CURVE.csv PICTURE.png."""

import csv
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main() -> None:
    """Loss of each step, ours over JAX's, and below it their difference."""
    source, picture = sys.argv[1:]
    with open(source, newline="") as file:
        rows = list(csv.DictReader(file))
    steps = [int(row["step"]) for row in rows]
    ours = [float(row["loss"]) for row in rows]
    jax = [float(row["jax"]) for row in rows]

    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(8, 6), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    top.plot(steps, jax, color="tab:orange", linewidth=4, alpha=0.5, label="JAX on a CPU, recorded")
    top.plot(steps, ours, color="tab:blue", linewidth=1.2, label="OpenNRT, emulated NeuronCore")
    top.set_yscale("log")
    top.set_ylabel("softmax cross entropy")
    top.set_title("Handwritten digits: loss of each training step")
    top.grid(alpha=0.3)
    top.legend()
    bottom.plot(steps, [a - b for a, b in zip(ours, jax, strict=True)], color="tab:gray")
    bottom.set_ylabel("difference")
    bottom.set_xlabel("step")
    bottom.grid(alpha=0.3)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main()
