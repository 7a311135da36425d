"""Views of feature maps, emitted for the region that a layer of a tile reads through them.

Such a view is no layer and costs nothing: every tile creates its own views, which are never cached.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.region import Region, whole_region
from onchip.ir.tensor import Role, Tensor
from onchip.ops.derive.fusable import ranges_of_pixels, region_of_pixels
from onchip.ops.views.views import paces_of, seen_region
from onchip.transform.groups.bands import JoinedBands, MapBands, TilePlace
from onchip.transform.groups.parts import EmittedParts
from onchip.transform.slices.bands import band_of_tensor


@dataclass
class ViewEmission:
    """The views of one tile, whose maps have the given `bands`; `made` are the views so far, by tensor and region."""

    parts: EmittedParts
    bands: Mapping[str, MapBands | JoinedBands]
    place: TilePlace
    made: dict[tuple[str, Region], tuple[Tensor, ...]] = field(default_factory=dict)

    def view(self, name: str, region: Region) -> tuple[Tensor, ...]:
        """Return a region of a view, or the bands of the parts of a concatenation that is not materialised.

        Raises GraphError if only a part of a view of another shape is requested.
        """
        if (name, region) not in self.made:
            self.made[name, region] = self._made(self.parts.graph.tensor[name], region)
        return self.made[name, region]

    def leave(self, tensor: Tensor) -> None:
        """Emit a whole view that is an output of the network."""
        operator = self.parts.graph.producer[tensor.name]
        region = whole_region(tensor.shape or ())
        name = self.parts.fresh_name(f"{operator.name}#{self.place.number}")
        self.parts.add(operator, name, self._seen(operator, tensor, region), (tensor,))

    def _made(self, tensor: Tensor, region: Region) -> tuple[Tensor, ...]:
        operator = self.parts.graph.producer[tensor.name]
        seen = self._seen(operator, tensor, region)
        if tensor.name in self.parts.joined:
            return seen
        is_whole = region == whole_region(tensor.shape or ()) and all(band.part_of is None for band in seen)
        if is_whole and operator.name in self.parts.operators:
            return (tensor,)
        name = self.parts.fresh_name(f"{operator.name}#{self.place.number}")
        written = band_of_tensor(tensor, region, "" if is_whole else name.removeprefix(operator.name))
        if not is_whole:
            written = replace(written, role=Role.ACTIVATION)
        self.parts.add(operator, name, seen, (written,))
        return (written,)

    def _seen(self, operator: Operator, tensor: Tensor, region: Region) -> tuple[Tensor, ...]:
        """Return the parts of the inputs that the region needs: bands of maps, or regions of further views."""
        sources = [self.parts.graph.tensor[name] for name in operator.inputs]
        wanted = (_wanted(operator, source, tensor, region) for source in sources)
        every = zip(sources, wanted, strict=True)
        return tuple(band for source, own in every for band in self._of_source(source.name, own))

    def _of_source(self, name: str, wanted: Region) -> tuple[Tensor, ...]:
        if name not in self.bands:
            return self.view(name, wanted)
        return self.bands[name].within(self.place, *ranges_of_pixels(wanted, self.bands[name].layout))


def shift_of_view(graph: Graph, name: str, maps: Container[str]) -> tuple[int, int]:
    """Return the rows and columns by which a view's pixels are shifted in the map that it shows."""
    down = across = 0
    while name not in maps:
        operator = graph.producer[name]
        source, written = (graph.tensor[each].shape or () for each in (operator.inputs[0], name))
        paces = paces_of(operator, source, written)
        if paces is not None:
            down, across = down + paces[-2].first, across + paces[-1].first
        name = operator.inputs[0]
    return down, across


def _wanted(operator: Operator, source: Tensor, written: Tensor, region: Region) -> Region:
    shape, after = source.shape or (), written.shape or ()
    paces = paces_of(operator, shape, after)
    if paces is not None:
        return seen_region(paces, region, shape)
    if shape == after:
        return region
    if operator.kind == "Concat":
        return region_of_pixels(whole_region(shape), *ranges_of_pixels(region))
    if region != whole_region(after):
        place = f"operator {operator.name!r}"
        raise GraphError(f"a part of it is read ({operator.kind})", place=place, expected="a stack in one tile")
    return whole_region(shape)
