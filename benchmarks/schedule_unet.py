"""A U-Net (O. Ronneberger et al., MICCAI 2015) of large maps, scheduled: value, bound and gap by each objective.

    python benchmarks/schedule_unet.py [--pixels 512] [--accelerators NAME ...] [--objectives latency energy]
                                       [--seconds 60]

Five levels of 64 to 1,024 channels, two convolutions of 3 x 3 each, padded so that maps keep their size; 2 x 2 pools on
the way down, transposed convolutions of 2 x 2 on the way up, skip connections joined by channels; 8 bits an element. At
512 x 512 pixels a map of the first level has 16 MiB, and what two such maps are joined to 32 MiB.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Final

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.formats.own.graph_json import write_graph
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.search.budget.limits import Limits

LEVELS: Final = (64, 128, 256, 512, 1024)
CLASSES: Final = 2


@dataclass(slots=True)
class UNet:
    """Builds the network, operator after operator."""

    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)

    def graph(self, pixels: int) -> Graph:
        """Return the graph for one picture of one channel with `pixels` rows and columns, a multiple of sixteen."""
        source = self._map("picture", 1, pixels, Role.INPUT)
        skipped = []
        for level, channels in enumerate(LEVELS):
            source = self._two(f"down{level}", source, channels)
            if level + 1 < len(LEVELS):
                skipped.append(source)
                source = self._pooled(f"pool{level}", source)
        for level in reversed(range(len(skipped))):
            risen = self._risen(f"up{level}", source, LEVELS[level])
            joined = self._joined(f"join{level}", skipped[level], risen)
            source = self._two(f"back{level}", joined, LEVELS[level])
        self._convolution("classes", source, CLASSES, 1, Role.OUTPUT)
        return Graph("unet", tuple(self.tensors), tuple(self.operators))

    def _map(self, name: str, channels: int, pixels: int, role: Role = Role.ACTIVATION) -> Tensor:
        self.tensors.append(Tensor.of_shape(name, (1, channels, pixels, pixels), 8, role))
        return self.tensors[-1]

    def _two(self, name: str, source: Tensor, channels: int) -> Tensor:
        first = self._convolution(f"{name}a", source, channels, 3)
        return self._convolution(f"{name}b", first, channels, 3)

    def _convolution(self, name: str, source: Tensor, channels: int, taps: int, role: Role = Role.ACTIVATION) -> Tensor:
        _, depth, pixels, _ = source.shape or ()
        target = self._map(f"{name}.map", channels, pixels, role)
        weight = self._weight(name, (channels, depth, taps, taps))
        self._add(name, "Conv", (source,), target, (weight,), taps, 1, taps // 2)
        return target

    def _risen(self, name: str, source: Tensor, channels: int) -> Tensor:
        _, depth, pixels, _ = source.shape or ()
        target = self._map(f"{name}.map", channels, 2 * pixels)
        weight = self._weight(name, (depth, channels, 2, 2))
        self._add(name, "ConvTranspose", (source,), target, (weight,), 2, 2, 0)
        return target

    def _pooled(self, name: str, source: Tensor) -> Tensor:
        _, channels, pixels, _ = source.shape or ()
        target = self._map(f"{name}.map", channels, pixels // 2)
        self._add(name, "MaxPool", (source,), target, (), 2, 2, 0)
        return target

    def _joined(self, name: str, one: Tensor, other: Tensor) -> Tensor:
        (_, channels, pixels, _), (_, more, _, _) = one.shape or (), other.shape or ()
        target = self._map(f"{name}.map", channels + more, pixels)
        self.operators.append(Operator(name, "Concat", (one.name, other.name), (target.name,), (), {"axis": 1}))
        return target

    def _weight(self, name: str, shape: tuple[int, ...]) -> Tensor:
        self.tensors.append(Tensor.of_shape(f"{name}.weight", shape, 8, Role.PARAMETER))
        return self.tensors[-1]

    def _add(
        self,
        name: str,
        kind: str,
        sources: tuple[Tensor, ...],
        target: Tensor,
        parameters: tuple[Tensor, ...],
        taps: int,
        stride: int,
        padding: int,
    ) -> None:
        attributes: dict[str, AttributeValue] = {
            "kernel_shape": [taps, taps],
            "strides": [stride, stride],
            "pads": [padding] * 4,
        }
        if kind != "MaxPool":
            attributes |= {"dilations": [1, 1], "group": 1}
        reads, weights = (tuple(one.name for one in some) for some in (sources, parameters))
        self.operators.append(Operator(name, kind, reads, (target.name,), weights, attributes))


def main() -> int:
    """Print a line for each machine and objective; return 1 if one has no schedule."""
    asked = _arguments()
    is_all_there = True
    print(
        "| accelerator | objective | value | bound | gap | stacks, tile operators | s | processor s |\n|" + "---|" * 8
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "unet.json"
        write_graph(UNet().graph(asked.pixels), path)
        for accelerator in asked.accelerators:
            for objective in map(ScheduleObjective, asked.objectives):
                begun, limits = process_time(), Limits(asked.seconds)
                outcome = schedule_network(ScheduleRequest(str(path), accelerator, objective, limits=limits, bits=8))
                result, document, tiles = outcome.result, outcome.document, outcome.tiles
                is_all_there &= document is not None
                counts = (
                    "-"
                    if document is None or tiles is None
                    else f"{len(document.answer.stacks)}, {len(tiles.operators)}"
                )
                seconds = outcome.seconds.read + outcome.seconds.solve + outcome.seconds.verify
                cells = accelerator, objective, result.objective_value, result.lower_bound, result.gap, counts
                print("| {} | {} | {:,} | {:,} | {:.1%} | {} |".format(*cells), end="")
                print(f" {seconds:.1f} | {process_time() - begun:.0f} |", flush=True)
    return int(not is_all_there)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pixels", type=int, default=512)
    parser.add_argument("--accelerators", nargs="+", metavar="NAME", default=["simba", "meta-prototype-df"])
    parser.add_argument("--objectives", nargs="+", choices=[*ScheduleObjective], default=["latency", "energy"])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each schedule")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
