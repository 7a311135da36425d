"""Bands of tensors, cut at the boundaries of operator tiles, and the tiles themselves."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.region import Region, whole_region
from onchip.ir.tensor import Tensor, size_in_bytes
from onchip.ir.tile import Tile


@dataclass(frozen=True, slots=True)
class Bands:
    """A tensor partitioned into bands; `edges` are the grid lines along each dimension, including both ends."""

    base: Tensor
    edges: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, tensor: Tensor, cuts: Sequence[AbstractSet[int]]) -> Bands:
        """Return the tensor cut at the given lines."""
        shape = tensor.shape or ()
        return cls(tensor, tuple(tuple(sorted(lines | {0, size})) for lines, size in zip(cuts, shape, strict=True)))

    @property
    def is_whole(self) -> bool:
        """Return True if no line cuts the tensor."""
        return all(len(lines) <= 2 for lines in self.edges)

    @property
    def all(self) -> tuple[Tensor, ...]:
        """Return every band, with the last dimension fastest; the tensor itself if it is not cut."""
        if self.is_whole:
            return (self.base,)
        return tuple(
            band_of_tensor(self.base, region) for region in product(*(pairwise(lines) for lines in self.edges))
        )

    def within(self, region: Region) -> tuple[str, ...]:
        """Return the names of the bands that make up a region, whose boundaries must be grid lines."""
        if self.is_whole:
            return (self.base.name,)
        ranges = [
            pairwise(lines[bisect_left(lines, start) : bisect_left(lines, stop) + 1])
            for lines, (start, stop) in zip(self.edges, region, strict=True)
        ]
        return tuple(self.base.name + _shown(self.base, each) for each in product(*ranges))


def band_of_tensor(base: Tensor, region: Region, mark: str = "") -> Tensor:
    """Return a band, named like `conv1#3[:,:,0:8,0:16]` with mark `#3`; without a mark the whole tensor is itself."""
    if not mark and region == whole_region(base.shape or ()):
        return base
    ending = mark + _shown(base, region)
    sizes, bits = tuple([stop - start for start, stop in region]), base.bits or 0
    aliases = tuple([alias + ending for alias in base.aliases])
    size_bytes = size_in_bytes(sizes, bits)
    return Tensor(base.name + ending, size_bytes, base.role, sizes, bits, aliases, base.name, region)


def _shown(base: Tensor, region: Region) -> str:
    """Return the text of a region's ranges; an uncut dimension is `:`."""
    sizes = zip(region, base.shape or (), strict=True)
    shown = [":" if start == 0 and stop == size else f"{start}:{stop}" for (start, stop), size in sizes]
    return f"[{','.join(shown)}]"


def tile_of(graph: Graph, operator: Operator, regions: tuple[Region, ...] | None = None) -> Tile:
    """Return the tile of an operator that computes these regions of its outputs; by default all of them."""
    names = (*operator.inputs, *operator.parameters, *operator.outputs)
    shapes = tuple(graph.tensor[name].shape or () for name in names)
    whole = map(whole_region, shapes[len(shapes) - len(operator.outputs) :])
    written = tuple(whole) if regions is None else regions
    return Tile(operator.name, operator.inputs, operator.parameters, operator.outputs, shapes, written)


@lru_cache(maxsize=1024)
def named_bands(bands: Bands) -> Mapping[str, Tensor]:
    """Return the bands by name."""
    return {band.name: band for band in bands.all}
