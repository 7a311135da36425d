"""Run tiles of an ONNX model's operators: the whole operator on the bands with zeros elsewhere, then the tile's region.

This is exact if a region of the output depends only on the operands of the tile. A part of a sum is the operator on
that part with the neutral element elsewhere; terms that are added once, such as a bias, are subtracted from all parts
except the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from onchip.errors import GraphError
from onchip.formats.onnx.program import Array
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.region import Range, Region
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import SumPart, Tile
from onchip.ops.contractions.contractions import kept_dimensions, longest_reduced
from onchip.ops.pointwise.partial_sums import AFFINE, COMPARED, CONTINUED, MULTIPLIED, REDUCTIONS
from onchip.ops.registry.outline import Outline
from onchip.simulate.kernels.onnx_kernels import OnnxKernels
from onchip.transform.slices.tile_bytes import Bytes, bytes_of_region, bytes_put_together, place_of


class OnnxTileKernels:
    """Runs `graph`, the tiles of `whole`, with the operators of `kernels`."""

    name = OnnxKernels.name

    def __init__(self, graph: Graph, whole: Graph, kernels: OnnxKernels) -> None:
        self._graph = graph
        self._whole = whole
        self._kernels = kernels

    def parameter(self, tensor: Tensor) -> Bytes:
        """Return a parameter's bytes; of a band, its region."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.parameter(base), shape, place_of(tensor)[1])

    def network_input(self, tensor: Tensor) -> Bytes:
        """Return a random array for the seed; a band is a region of it."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.network_input(base), shape, place_of(tensor)[1])

    def given_input(self, tensor: Tensor, array: Array) -> Bytes:
        """Return the bytes of a value handed in for the whole tensor; of a band, its region. Raises InputError."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.given_input(base, array), shape, place_of(tensor)[1])

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """Return the operator's outputs; raises GraphError where onnxruntime does not know how."""
        tile = operator.tile
        if tile is None:
            return self._kernels.run(operator, operands)
        original = self._whole.operator[tile.operator]
        before = operator.inputs[-1] if tile.part.adds_to_a_sum else None
        bands: dict[str, list[tuple[Tensor, Bytes]]] = {name: [] for name in original.inputs}
        for name, content in operands.items():
            if name != before:
                tensor = tile.seen(self._graph.tensor[name])
                bands.setdefault(place_of(tensor)[0], []).append((tensor, content))
        if tile.part is SumPart.WHOLE:
            values = self._kernels.run(original, self._given(bands))
        else:
            earlier = None if before is None else operands[before]
            values = {tile.outputs[0]: self._part_of_sum(original, tile, bands, earlier)}
        written = {}
        for name in operator.outputs:
            base, region = place_of(self._graph.tensor[name])
            base, region = (base, region) if base in values else (tile.outputs[0], tile.regions[0])
            written[name] = bytes_of_region(values[base], self._whole.tensor[base].shape or (), region)
        return written

    def _given(self, bands: Mapping[str, list[tuple[Tensor, Bytes]]]) -> dict[str, Bytes]:
        return {name: self._put_together(self._whole.tensor[name], each) for name, each in bands.items()}

    def _part_of_sum(
        self,
        original: Operator,
        tile: Tile,
        bands: Mapping[str, list[tuple[Tensor, Bytes]]],
        before: Bytes | None,
    ) -> Bytes:
        """Return the bytes of the whole output, with the current partial sum in the tile's region."""
        output = tile.outputs[0]
        dtype, shape = self._kernels.element_type(output), self._whole.tensor[output].shape or ()
        combination = combination_of(original.kind, dtype)
        given, source = self._given(bands), original.inputs[0]
        earlier = None if before is None else before.view(dtype)
        if original.kind in REDUCTIONS:
            part = ReducedPart.of(original, self._whole, tile.reduction or (0, 1))
            alone = part.alone(given[source], combination)
            if earlier is not None and original.kind == CONTINUED:
                part.go_on(alone, tile.regions[0], earlier)
                earlier = None
            given[source] = alone.reshape(-1).view(np.uint8)
        found = self._kernels.run(original, given)[output].view(dtype).reshape(shape).copy()
        if earlier is None:
            return found.reshape(-1).view(np.uint8)
        if original.kind in AFFINE:
            nothing = {name: np.zeros_like(content) for name, content in given.items() if name in original.inputs}
            found -= self._kernels.run(original, nothing)[output].view(dtype).reshape(shape)
        here = tuple(slice(*each) for each in tile.regions[0])
        found[here] = combination.combine(found[here], earlier.reshape(found[here].shape))
        return found.reshape(-1).view(np.uint8)

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float:
        """Return the difference from the whole model, after the bands are put together."""
        given = {tensor.name: self._gathered(tensor, inputs) for tensor in self._whole.with_role(Role.INPUT)}
        found = {tensor.name: self._gathered(tensor, outputs) for tensor in self._whole.with_role(Role.OUTPUT)}
        return self._kernels.difference_from_whole_model(given, found)

    def _base(self, tensor: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        base = self._whole.tensor[place_of(tensor)[0]]
        return base, base.shape or ()

    def _gathered(self, base: Tensor, contents: Mapping[str, Bytes]) -> Bytes:
        if base.name in contents:
            return contents[base.name]
        bands = [(tensor, contents[tensor.name]) for tensor in self._graph.tensors if tensor.part_of == base.name]
        return self._put_together(base, bands)

    def _put_together(self, base: Tensor, bands: list[tuple[Tensor, Bytes]]) -> Bytes:
        if len(bands) == 1 and bands[0][0].part_of is None:
            return bands[0][1]
        return bytes_put_together(base, bands)


@dataclass(frozen=True, slots=True)
class PartCombination:
    """Combines the results of two parts into that of both; a `neutral` element changes no result."""

    combine: Callable[[Array, Array], Array]
    neutral: Any
    dtype: np.dtype[np.generic]


@dataclass(frozen=True, slots=True)
class ReducedPart:
    """A part of a reduction in the seen input: a range of the longest reduced dimension."""

    seen: tuple[int, ...]
    kept: Mapping[int, int]
    longest: int
    part: Range

    @classmethod
    def of(cls, original: Operator, graph: Graph, part: Range) -> Self:
        """Describe a part; raises GraphError for an operator whose kept dimensions are unknown, which is never cut."""
        outline = Outline(original, graph, is_model=True)
        seen = outline.shapes()[0]
        kept = kept_dimensions(original, seen, outline.written)
        longest = None if kept is None else longest_reduced(seen, kept)
        if kept is None or longest is None:
            raise GraphError("it has no parts", place=f"operator {original.name!r}", expected="a reduction")
        return cls(seen, kept, longest, part)

    def alone(self, content: Bytes, combination: PartCombination) -> Array:
        """Return the input with neutral elements outside the part: bands may hold more of a view than the part."""
        values = content.view(combination.dtype).reshape(self.seen)
        found = np.full_like(values, combination.neutral)
        here = self._at(slice(*self.part))
        found[here] = values[here]
        return found

    def go_on(self, values: Array, region: Region, before: Array) -> None:
        """Put the current partial sum next to the part: before it, or after it if it is the first."""
        start, stop = self.part
        here = list(self._at(start - 1 if start else stop))
        for at in range(len(here)):
            if at in self.kept:
                here[at] = slice(*region[self.kept[at]])
            elif at != self.longest:
                here[at] = 0
        place = tuple(here)
        values[place] = before.reshape(values[place].shape)

    def _at(self, along: slice | int) -> tuple[slice | int, ...]:
        return tuple(along if at == self.longest else slice(None) for at in range(len(self.seen)))


def combination_of(kind: str, dtype: np.dtype[np.generic]) -> PartCombination:
    """Return how parts of a reduction of this kind combine over elements of this type; most kinds add."""
    if kind in COMPARED:
        is_greatest = kind == "ReduceMax"
        combine = np.maximum if is_greatest else np.minimum
        if dtype.kind == "f":
            return PartCombination(combine, -np.inf if is_greatest else np.inf, dtype)
        limits = np.iinfo(dtype)  # type: ignore[type-var]
        return PartCombination(combine, limits.min if is_greatest else limits.max, dtype)
    return PartCombination(np.multiply, 1, dtype) if kind in MULTIPLIED else PartCombination(np.add, 0, dtype)
