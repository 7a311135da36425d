"""DeFiNES's data on its five networks (tests/data/defines)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from re import fullmatch

_FILE = Path(__file__).parents[1] / "data" / "defines" / "networks.json"


@dataclass(frozen=True)
class PublishedLayer:
    """A layer: `bounds` by DeFiNES's names of loops; `reads` are numbers of layers, -1 the input."""

    kind: str
    bounds: dict[str, int]
    stride: int
    reads: tuple[int, ...]

    def bound(self, loop: str) -> int:
        return self.bounds.get(loop, 1)


@dataclass(frozen=True)
class PublishedNetwork:
    """A network; `unrolling` maps an architecture to, per layer, array dimension -> loop and units."""

    macs: int
    weight_bytes: int
    largest_map_bytes: int
    layers: tuple[PublishedLayer, ...]
    unrolling: dict[str, list[dict[str, tuple[str, int]]]]


def _layer(text: str) -> PublishedLayer:
    left, reads = text.split(" from ")
    kind, *loops, stride = left.split()
    bounds = [fullmatch(r"([A-Z]+)([0-9]+)", loop) for loop in loops]
    return PublishedLayer(
        kind,
        {match[1]: int(match[2]) for match in bounds if match},
        int(stride.removeprefix("stride")),
        tuple(map(int, reads.split(","))),
    )


def _unrolling(text: str) -> dict[str, tuple[str, int]]:
    found = [fullmatch(r"([A-Z]+):([A-Z]+)([0-9]+)", part) for part in text.split()]
    return {match[1]: (match[2], int(match[3])) for match in found if match}


def published_networks() -> dict[str, PublishedNetwork]:
    """Return the networks by the names of the bundled graphs."""
    return {
        name: PublishedNetwork(
            one["macs"],
            one["weight_bytes"],
            one["largest_map_bytes"],
            tuple(map(_layer, one["layers"])),
            {array: list(map(_unrolling, layers)) for array, layers in one["unrolling"].items()},
        )
        for name, one in json.loads(_FILE.read_text(encoding="utf-8")).items()
    }
