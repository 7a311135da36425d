"""Bands: a grid of cuts through each tensor, at the boundaries of all that its writer and its readers take at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise, product

from onchip.ir.region import Region
from onchip.ir.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Bands:
    """A tensor in pieces, which partition it; `edges` are the grid's lines along each dimension, with both ends."""

    base: Tensor
    edges: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, tensor: Tensor, cuts: Sequence[AbstractSet[int]]) -> Bands:
        """Cut at the given lines."""
        shape = tensor.shape or ()
        return cls(tensor, tuple(tuple(sorted(lines | {0, size})) for lines, size in zip(cuts, shape, strict=True)))

    @property
    def is_whole(self) -> bool:
        """Whether nothing cuts the tensor."""
        return all(len(lines) <= 2 for lines in self.edges)

    @property
    def all(self) -> tuple[Tensor, ...]:
        """Every band, the last dimension fastest; the tensor itself where it is whole."""
        if self.is_whole:
            return (self.base,)
        return tuple(self._band(region) for region in product(*(pairwise(lines) for lines in self.edges)))

    def within(self, region: Region) -> tuple[str, ...]:
        """The names of the bands that make up a region, whose boundaries are cuts."""
        if self.is_whole:
            return (self.base.name,)
        ranges = [
            pairwise(lines[bisect_left(lines, start) : bisect_left(lines, stop) + 1])
            for lines, (start, stop) in zip(self.edges, region, strict=True)
        ]
        return tuple(self._name(self.base.name, each) for each in product(*ranges))

    def _band(self, region: Region) -> Tensor:
        base = self.base
        shape = tuple(stop - start for start, stop in region)
        band = Tensor.of_shape(self._name(base.name, region), shape, base.bits or 0, base.role)
        aliases = tuple(self._name(alias, region) for alias in base.aliases)
        return replace(band, aliases=aliases, part_of=base.name, region=region)

    def _name(self, base: str, region: Region) -> str:
        ranges = (
            ":" if each == (0, size) else f"{each[0]}:{each[1]}"
            for each, size in zip(region, self.base.shape or (), strict=True)
        )
        return f"{base}[{','.join(ranges)}]"


@lru_cache(maxsize=1024)
def named_bands(bands: Bands) -> Mapping[str, Tensor]:
    """Return every band by its name."""
    return {band.name: band for band in bands.all}
