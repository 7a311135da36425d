"""Bands of tensors, the bytes of a tile, and tiles put together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor, size_in_bytes
from onchip.ir.tile import Region, Tile, whole_region


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


Bytes: TypeAlias = npt.NDArray[np.uint8]


def place_of(tensor: Tensor) -> tuple[str, Region]:
    """Return the tensor and the region that a band is; a tensor that is not a band is all of itself."""
    if tensor.part_of is None or tensor.region is None:
        return tensor.name, whole_region(tensor.shape or ())
    return tensor.part_of, tensor.region


def slices(region: Region, within: Region) -> tuple[slice, ...]:
    """Return the slices of a region in an array that begins at the start of `within`."""
    return tuple(slice(start - first, stop - first) for (start, stop), (first, _) in zip(region, within, strict=True))


def bytes_of_region(content: Bytes, shape: tuple[int, ...], region: Region) -> Bytes:
    """Return the bytes of a region of a whole tensor, whose elements have one or several bytes."""
    if region == whole_region(shape):
        return content
    elements = content.reshape(*shape, -1)
    return np.ascontiguousarray(elements[slices(region, whole_region(shape))]).reshape(-1)


def bytes_put_together(base: Tensor, bands: Iterable[tuple[Tensor, Bytes]]) -> Bytes:
    """Return a whole tensor's bytes assembled from its bands; zero in gaps between bands."""
    shape, element_bytes = base.shape or (), (base.bits or 0) // 8
    content = np.zeros((*shape, element_bytes), np.uint8)
    for tensor, part in bands:
        content[slices(place_of(tensor)[1], whole_region(shape))] = part.reshape(*(tensor.shape or ()), element_bytes)
    return content.reshape(-1)


def untiled(graph: Graph) -> Graph | None:
    """Return the network of whole operators, in the order of their first tiles; None if no operator is a tile.

    A concatenation that tiles read in parts is an operator with the name of its output, in front of its first reader.
    """
    tiles = {operator.name: operator.tile for operator in graph.operators if operator.tile is not None}
    if not tiles:
        return None
    operators: dict[str, Operator] = {}
    for operator in graph.operators:
        tile = tiles.get(operator.name)
        for joined in () if tile is None else _concatenations(tile):
            operators.setdefault(joined.name, joined)
        whole = operator if tile is None else _whole(operator, tile)
        operators.setdefault(whole.name, whole)
    shapes = {name: shape for tile in tiles.values() for name, shape in tile.shape.items()}
    named = {name for operator in operators.values() for name in (*operator.reads, *operator.outputs)}
    tensors: dict[str, Tensor] = {}
    for tensor in graph.tensors:
        name = tensor.part_of or tensor.name
        if name in named or tensor.role is not Role.ACTIVATION:
            tensors.setdefault(name, _whole_tensor(tensor, name, shapes.get(name, tensor.shape)))
    for one in (one for tile in tiles.values() for one in tile.joined):
        bits = tensors[one.part].bits
        if one.whole not in tensors and bits is not None:
            tensors[one.whole] = Tensor.of_shape(one.whole, shapes[one.whole], bits, Role.ACTIVATION)
    return Graph(graph.name, tuple(tensors.values()), tuple(operators.values()), graph.states_among(tensors.values()))


def _concatenations(tile: Tile) -> Iterator[Operator]:
    """Yield the concatenations that an operator reads in parts, along the channels."""
    for whole in dict.fromkeys(one.whole for one in tile.joined):
        parts = sorted((one for one in tile.joined if one.whole == whole), key=lambda one: one.first_channel)
        yield Operator(whole, "Concat", tuple(one.part for one in parts), (whole,), attributes={"axis": 1})


def _whole(operator: Operator, tile: Tile) -> Operator:
    return replace(
        operator,
        name=tile.operator,
        inputs=tile.inputs,
        parameters=tile.parameters,
        outputs=tile.outputs,
        tile=None,
        in_place=(),
    )


def _whole_tensor(tensor: Tensor, name: str, shape: tuple[int, ...] | None) -> Tensor:
    if tensor.part_of is None or shape is None or tensor.bits is None:
        return tensor
    return Tensor.of_shape(name, shape, tensor.bits, tensor.role)
