#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains three small models on a device, the same script for every device.

usage: train_same_script.py --device cpu|neuron [--models digits,conv,llama] [--steps N]
                            [--out FOLDER] [--compare]

digits: a classifier of handwritten digits; conv: a convolution net with batch normalisation on
the same; llama: a language model of Llama's form on this project's own text. --compare trains on
the CPU as well, draws both learning curves side by side and fails if the last loss or the accuracy
differs by more than the tolerance, if nothing ran on the device, or if an operation fell back to
the CPU.
"""

import argparse
import csv
import gzip
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parent
SEED = 20
# Losses of the last steps may differ by this, relative: sums are taken in another order, and
# training makes such differences larger with every step.
LOSS_TOLERANCE = 0.02
ACCURACY_TOLERANCE = 0.02


# ---- data ----


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """1,797 pictures of 8 x 8 grey values in 0..1, and what they show."""
    with gzip.open(ROOT / "digits" / "digits.csv.gz", "rt") as file:
        rows = torch.tensor([[int(v) for v in row] for row in csv.reader(file)])
    return rows[:, :64].float() / 16, rows[:, 64].long()


def text() -> torch.Tensor:
    """This project's documentation as bytes."""
    pages = [ROOT.parent / "README.md", *sorted((ROOT.parent / "docs").glob("*.md"))]
    return torch.tensor(list(b"".join(page.read_bytes() for page in pages)))


# ---- models ----


def classifier() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10)
    )


class ConvNet(nn.Module):
    """Two residual convolutions with batch normalisation, pooling, a linear layer."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.first = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        )
        self.second = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        )
        self.head = nn.Linear(width * 16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.stem(x.view(-1, 1, 8, 8)))
        x = F.relu(x + self.first(x))
        x = F.max_pool2d(F.relu(x + self.second(x)), 2)
        return self.head(x.flatten(1))


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class LlamaBlock(nn.Module):
    """Grouped-query attention with rotary positions, gated feed-forward."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.before, self.between = RmsNorm(width), RmsNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, self.groups * self.size, bias=False)
        self.value = nn.Linear(width, self.groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.before(x)
        q = self.query(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.key(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        v = self.value(y).view(batch, length, self.groups, self.size).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(a.transpose(1, 2).reshape(batch, length, width))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A language model over bytes."""

    def __init__(self, width: int = 64, layers: int = 2, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.size = width // heads
        self.embedding = nn.Embedding(256, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, groups) for _ in range(layers))
        self.norm = RmsNorm(width)
        self.head = nn.Linear(width, 256, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        at = torch.arange(ids.shape[1], device=ids.device, dtype=torch.float32)
        rates = 10000.0 ** (-torch.arange(0, self.size, 2, device=ids.device) / self.size)
        angles = torch.outer(at, rates).repeat(1, 2)
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, angles.cos(), angles.sin())
        return self.head(self.norm(x))


# ---- training ----


@dataclass
class Curve:
    """What training gave."""

    losses: list[float] = field(default_factory=list)
    accuracy: float | None = None
    seconds: float = 0.0


def batches(count: int, size: int, steps: int) -> Iterator[torch.Tensor]:
    """The same indices on every device."""
    generator = torch.Generator().manual_seed(SEED)
    for _ in range(steps):
        yield torch.randint(count, (size,), generator=generator)


def fit(
    model: nn.Module,
    device: torch.device,
    steps: int,
    batch: Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    count: int,
    size: int,
) -> Curve:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / steps))
    )
    curve = Curve()
    start = time.monotonic()
    for step, index in enumerate(batches(count, size, steps)):
        inputs, targets = batch(index)
        logits = model(inputs.to(device))
        loss = F.cross_entropy(logits.flatten(0, -2), targets.to(device).flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        curve.losses.append(loss.item())
        if sys.stderr.isatty():
            print(f"\r{step + 1}/{steps} loss {curve.losses[-1]:.4f}", end="", file=sys.stderr)
    curve.seconds = time.monotonic() - start
    return curve


def train_classifier(make: Callable[[], nn.Module], device: torch.device, steps: int) -> Curve:
    pictures, labels = digits()
    split = 1500
    torch.manual_seed(SEED)
    model = make().to(device)
    curve = fit(model, device, steps, lambda i: (pictures[i], labels[i]), split, 64)
    model.eval()
    with torch.no_grad():
        predicted = model(pictures[split:].to(device)).argmax(-1)
        curve.accuracy = (predicted == labels[split:].to(device)).float().mean().item()
    return curve


def train_llama(device: torch.device, steps: int) -> Curve:
    data, length = text(), 64
    torch.manual_seed(SEED)
    model = Llama().to(device)

    def batch(index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = data[index[:, None] + torch.arange(length + 1)]
        return rows[:, :-1], rows[:, 1:]

    return fit(model, device, steps, batch, len(data) - length - 1, 8)


MODELS: dict[str, tuple[Callable[[torch.device, int], Curve], int]] = {
    "digits": (lambda device, steps: train_classifier(classifier, device, steps), 150),
    "conv": (lambda device, steps: train_classifier(ConvNet, device, steps), 60),
    "llama": (train_llama, 60),
}


# ---- report ----


def draw(curves: dict[str, dict[str, Curve]], picture: Path) -> None:
    """Loss of each step, one picture a model, a line a device."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(5 * len(curves), 4), layout="constrained")
    for axis, (name, by_device) in zip(
        [axes] if len(curves) == 1 else axes, curves.items(), strict=True
    ):
        for style, (device, curve) in zip(
            ({"linewidth": 4, "alpha": 0.4}, {}), by_device.items(), strict=False
        ):
            axis.plot(curve.losses, label=f"{device}, {curve.seconds:.1f} s", **style)
        axis.set_title(name)
        axis.set_xlabel("step")
        axis.set_ylabel("cross entropy")
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(picture, dpi=110)


def differences(name: str, cpu: Curve, device: Curve) -> list[str]:
    """What is beyond the tolerances."""
    problems = []
    last = [sum(curve.losses[-10:]) / len(curve.losses[-10:]) for curve in (cpu, device)]
    if abs(last[0] - last[1]) > LOSS_TOLERANCE * max(abs(last[0]), 0.1):
        problems.append(f"{name}: loss {last[1]:.5f} where the CPU has {last[0]:.5f}")
    if cpu.accuracy is not None and device.accuracy is not None:
        if abs(cpu.accuracy - device.accuracy) > ACCURACY_TOLERANCE:
            problems.append(f"{name}: accuracy {device.accuracy:.4f}, CPU {cpu.accuracy:.4f}")
    return problems


def device_problems() -> list[str]:
    """What did not run where it should."""
    import torch_neuronx

    problems = []
    if torch.neuron.counters()["launches"] == 0:
        problems.append("nothing ran on device neuron")
    if torch_neuronx.get_fallback_ops():
        problems.append("operations fell back to the CPU:\n" + torch_neuronx.fallback_report())
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="neuron", choices=("cpu", "neuron"))
    parser.add_argument("--models", default=",".join(MODELS), type=lambda names: names.split(","))
    parser.add_argument("--steps", type=int, help="steps of every model, instead of its own number")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of training.png")
    parser.add_argument(
        "--compare", action="store_true", help="train on the CPU as well and compare"
    )
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"unknown model {unknown[0]}; there are {', '.join(MODELS)}")
    devices = ["cpu", options.device] if options.compare else [options.device]
    if options.device == "neuron" and not torch.neuron.is_available():
        print(
            "no Neuron device; set OPENNRT_EMULATE=trn2.3xlarge to use the emulator",
            file=sys.stderr,
        )
        return 1
    curves: dict[str, dict[str, Curve]] = {}
    problems = []
    for name in options.models:
        train, steps = MODELS[name]
        curves[name] = {}
        for device in devices:
            curve = train(torch.device(device), options.steps or steps)
            curves[name][device] = curve
            shown = "" if curve.accuracy is None else f", accuracy {100 * curve.accuracy:.2f} %"
            print(
                f"{name:8} on {device:6}: "
                f"loss {curve.losses[0]:.4f} -> {curve.losses[-1]:.4f}{shown}, "
                f"{1000 * curve.seconds / len(curve.losses):.1f} ms a step",
                flush=True,
            )
        if options.compare:
            problems += differences(name, *curves[name].values())
    if options.device == "neuron":
        problems += device_problems()
    options.out.mkdir(parents=True, exist_ok=True)
    draw(curves, options.out / "training.png")
    print(f"learning curves: {options.out / 'training.png'}")
    for problem in problems:
        print(f"FAILED {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
