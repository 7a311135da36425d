"""Training steps as PyTorch traces them, forward and backward in one graph (AOTAutograd's joint graph), planned.

    PYTHONPATH=benchmarks python -m scale.traced_training [--orders given free] [--seconds 10] [--keep FOLDER]
        [--json FILE]

ResNet-50 (He et al. 2016, table 1) on 8 images of 224 x 224 and a U-Net (Ronneberger et al. 2015, with padding and
normalisation) on 2 of 128 x 128, cross-entropy, elements of four bytes. What a gradient is made of is PyTorch's own:
its ATen operators after its decompositions, as `torch.export` gives them. Nothing is computed, so no seed matters.
`--keep` writes the graph files. Needs torch (`pip install 'onchip[torch]'`). Capacities are M_R.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from scale.planned_run import planned
from scale.vision import CLASSES, STAGES
from shared.results import write_results
from torch import nn

from onchip.formats.networks import graph_from_torch
from onchip.formats.own.graph_json import write_graph
from onchip.ir.graph import Graph

Module: TypeAlias = Any
"""A torch module."""


def resnet50_step(batch: int = 8, side: int = 224) -> Graph:
    """Return a training step of ResNet-50 on square images with `side` pixels a side."""
    layers = [*_convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    incoming = 64
    for number, (blocks, channels) in enumerate(STAGES):
        for block in range(blocks):
            layers.append(_Bottleneck(incoming, channels, 2 if number and not block else 1))
            incoming = 4 * channels
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(incoming, CLASSES)]
    target = torch.zeros(batch, dtype=torch.int64)
    return step_of("resnet50-traced", nn.Sequential(*layers), torch.zeros(batch, 3, side, side), target)


def unet_step(batch: int = 2, side: int = 128, channels: int = 64, levels: int = 4) -> Graph:
    """Return a training step of a U-Net: each level halves the side and doubles the channels; two classes a pixel."""
    target = torch.zeros(batch, side, side, dtype=torch.int64)
    network = nn.Sequential(_Level(3, channels, levels), nn.Conv2d(channels, 2, 1))
    return step_of("unet-traced", network, torch.zeros(batch, 3, side, side), target)


def step_of(name: str, network: Module, images: torch.Tensor, target: torch.Tensor) -> Graph:
    """Return the joint graph of a network and the cross-entropy of its output; its gradients are outputs."""
    from torch.export.experimental import _export_forward_backward

    traced = torch.export.export(_Step(network).train(), (images, target))
    return graph_from_torch(_export_forward_backward(traced), name=name)


class _Step(nn.Module):  # type: ignore[misc]
    def __init__(self, network: Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.network(images), target)


class _Bottleneck(nn.Module):  # type: ignore[misc]
    def __init__(self, incoming: int, channels: int, stride: int) -> None:
        super().__init__()
        wide = 4 * channels
        changes = incoming != wide or stride > 1
        self.shortcut = nn.Sequential(*_convolution(incoming, wide, 1, stride)) if changes else nn.Identity()
        self.inner = nn.Sequential(
            *(*_convolution(incoming, channels, 1), nn.ReLU()),
            *(*_convolution(channels, channels, 3, stride), nn.ReLU()),
            *_convolution(channels, wide, 1),
        )

    def forward(self, read: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.inner(read) + self.shortcut(read))


class _Level(nn.Module):  # type: ignore[misc]
    """Two convolutions; below them a level of half the side, if there is one; what comes up, and two more."""

    def __init__(self, incoming: int, channels: int, levels_below: int) -> None:
        super().__init__()
        self.down = _twice(incoming, channels)
        self.below = None
        if levels_below:
            self.below = nn.Sequential(
                nn.MaxPool2d(2),
                _Level(channels, 2 * channels, levels_below - 1),
                nn.ConvTranspose2d(2 * channels, channels, 2, 2),
            )
            self.up = _twice(2 * channels, channels)

    def forward(self, read: torch.Tensor) -> torch.Tensor:
        kept = self.down(read)
        return kept if self.below is None else self.up(torch.cat([kept, self.below(kept)], 1))


def _twice(incoming: int, channels: int) -> Module:
    return nn.Sequential(
        *(*_convolution(incoming, channels, 3), nn.ReLU()), *(*_convolution(channels, channels, 3), nn.ReLU())
    )


def _convolution(incoming: int, channels: int, kernel: int, stride: int = 1) -> tuple[Module, Module]:
    """Return a convolution that keeps the side except for its stride, and its normalisation."""
    return nn.Conv2d(incoming, channels, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(channels)


@dataclass(frozen=True, slots=True)
class StepRow:
    """One training step in one order; values are non-compulsory bytes."""

    network: str
    operators: int
    order: str
    status: str
    objective_value: int | None
    lower_bound: int
    gap: float | None
    seconds: float
    cpu_seconds: float


STEPS: Final[tuple[Callable[[], Graph], ...]] = (resnet50_step, unet_step)


def planned_step(graph: Graph, order: str, seconds: int, folder: Path) -> StepRow:
    """Plan a step in M_R."""
    run = planned(graph, ("--order", order, "--sram", "m_r", "--time-limit", str(seconds)), folder)
    said = run.said
    figures = said["status"], said["objective_value"], said["lower_bound"], said["gap"]
    return StepRow(graph.name, len(graph.operators), order, *figures, run.seconds, run.processor_seconds)


def main() -> None:
    """Print a row for each step and order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", nargs="+", choices=("given", "free"), default=["given", "free"])
    parser.add_argument("--seconds", type=int, default=10, help="time limit of each plan")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write the graph files there")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows: list[object] = []
    print("| network | operators | order | status | value | bound | gap | seconds | CPU s |", flush=True)
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for make in STEPS:
            graph = make()
            if asked.keep:
                asked.keep.mkdir(parents=True, exist_ok=True)
                write_graph(graph, asked.keep / f"{graph.name}.json")
            for order in asked.orders:
                row = planned_step(graph, order, asked.seconds, Path(folder))
                rows.append(asdict(row))
                print(f"| {' | '.join(str(value) for value in asdict(row).values())} |", flush=True)
    if asked.json:
        write_results(asked.json, {"traced_training": rows})


if __name__ == "__main__":
    main()
