"""Parts of a network's operators, collected in the order in which they run, with the bands that they write and read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.region import Region, size_of, whole_region
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Tile
from onchip.ops.registry.kinds import geometry_of
from onchip.ops.views.joined_maps import JoinedMaps
from onchip.ops.views.views import paces_of
from onchip.transform.slices.bands import tile_of
from onchip.transform.slices.tile_bytes import place_of

_RUN_IN_PARTS: frozenset[str] = frozenset({"ConvTranspose"})
"""Kinds that run in parts in addition to views and the kinds of `split_operators`."""


@dataclass
class EmittedParts:
    """Operators by name; of each tensor of `graph` the bands that are used, by name.

    `parameters` are those that the parts of an operator read, by its name; of an operator that it does not name, all.
    Concatenations that are `joined` are not made: operators list the bands of their parts.
    """

    graph: Graph
    parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joined: JoinedMaps = field(default_factory=dict)
    operators: dict[str, Operator] = field(default_factory=dict)
    bands: dict[str, dict[str, Tensor]] = field(default_factory=lambda: defaultdict(dict))
    _runs_in_parts: dict[str, bool] = field(default_factory=dict)
    _whole_tiles: dict[str, Tile] = field(default_factory=dict)

    def add(self, operator: Operator, name: str, inputs: Sequence[Tensor], written: Sequence[Tensor]) -> None:
        """Add the part of an operator that writes these bands, under a name; or the operator itself if nothing is cut.

        Raises GraphError for a kind that cannot run in parts, or a name that is taken.
        """
        for band in (*inputs, *written):
            self.bands[band.part_of or band.name][band.name] = band
        if name in self.operators:
            raise GraphError("a tile of another operator has this name", place=f"operator {name!r}", expected="another")
        parameters = self.parameters.get(operator.name, operator.parameters)
        if all(band.part_of is None for band in (*inputs, *written)):
            if not any(read in self.joined for read in operator.inputs):
                self.operators[operator.name] = replace(operator, parameters=parameters)
                return
            name = operator.name
        region = _region_of(written)
        self._ensure_it_runs(operator, inputs, region)
        self.operators[name] = Operator(
            name,
            operator.kind,
            tuple(dict.fromkeys([band.name for band in inputs])),
            tuple([band.name for band in written]),
            parameters,
            operator.attributes,
            operator.members,
            replace(self._whole_tile(operator), regions=(region,)),
        )

    def add_whole(self, operator: Operator, bands_of: Callable[[str], Sequence[Tensor]]) -> None:
        """Add an operator that runs whole, with all bands of each tensor that is cut.

        Raises GraphError if a tile of another operator has its name.
        """
        listed = []
        for names in (operator.inputs, operator.outputs):
            bands = {name: bands_of(name) for name in names}
            for band in (band for own in bands.values() for band in own):
                self.bands[band.part_of or band.name][band.name] = band
            listed.append(tuple(band.name for name in names for band in bands[name]))
        if operator.name in self.operators:
            raise GraphError("a tile has this name", place=f"operator {operator.name!r}", expected="another")
        if listed != [operator.inputs, operator.outputs]:
            tile = operator.tile or self._whole_tile(operator)
            operator = replace(operator, inputs=tuple(dict.fromkeys(listed[0])), outputs=listed[1], tile=tile)
        parameters = self.parameters.get(operator.name, operator.parameters)
        self.operators[operator.name] = replace(operator, parameters=parameters)

    def fresh_name(self, name: str) -> str:
        """`name`, or with a number where an operator is called that already."""
        numbered = (name if not again else f"{name}.{again}" for again in range(len(self.operators) + 1))
        return next(each for each in numbered if each not in self.operators)

    def keep(self, name: str, bands: Iterable[Tensor]) -> None:
        """Record these bands of a tensor of `graph` as used."""
        self.bands[name].update((band.name, band) for band in bands)

    def finished(self, inputs: Mapping[str, Iterable[Tensor]]) -> Graph:
        """Return the graph of all parts; `inputs` are the bands of network inputs, some possibly without readers."""
        return Graph(self.graph.name, tuple(self.tensors(inputs)), tuple(self.operators.values()))

    def tensors(self, inputs: Mapping[str, Iterable[Tensor]]) -> list[Tensor]:
        """Return the parameters, the bands of network inputs (as given, else whole), and the used bands of others."""
        tensors: list[Tensor] = []
        for tensor in self.graph.tensors:
            if tensor.role is Role.PARAMETER:
                tensors.append(tensor)
            elif tensor.role is Role.INPUT:
                tensors.extend(inputs.get(tensor.name, (tensor,)))
            else:
                tensors.extend(self.bands[tensor.name].values())
        return tensors

    def _whole_tile(self, operator: Operator) -> Tile:
        """Return the tile that covers all of an operator.

        The operator's other tiles differ from it only in the region.
        """
        if operator.name not in self._whole_tiles:
            joined = tuple(part for name in dict.fromkeys(operator.inputs) for part in self.joined.get(name, ()))
            self._whole_tiles[operator.name] = replace(tile_of(self.graph, operator), joined=joined)
        return self._whole_tiles[operator.name]

    def _ensure_it_runs(self, operator: Operator, inputs: Sequence[Tensor], region: Region) -> None:
        if self._runs_in_parts.get(operator.name) or self._is_all(operator, inputs, region):
            return
        if operator.name not in self._runs_in_parts:
            source, written = (
                self.graph.tensor[each].shape or () for each in (operator.inputs[0], operator.outputs[0])
            )
            self._runs_in_parts[operator.name] = (
                operator.kind in _RUN_IN_PARTS
                or paces_of(operator, source, written) is not None
                or geometry_of(operator, self.graph, is_model=False) is not None
            )
        if not self._runs_in_parts[operator.name]:
            raise GraphError(
                f"it cannot run in parts ({operator.kind})",
                place=f"operator {operator.name!r}",
                expected="convolutions, pools, elementwise operators, Slice or Pad, or else a stack in one tile",
            )

    def _is_all(self, operator: Operator, inputs: Sequence[Tensor], region: Region) -> bool:
        """Return True if the part reads and writes everything that the operator does."""
        read = [self._whole_tile(operator).seen(band) for band in dict.fromkeys(inputs)]
        given = {
            name: sum(prod(band.shape or ()) for band in read if place_of(band)[0] == name) for name in operator.inputs
        }
        is_read = all(given[name] == prod(self.graph.tensor[name].shape or ()) for name in operator.inputs)
        return is_read and size_of(region) == prod(self.graph.tensor[operator.outputs[0]].shape or ())


def _region_of(bands: Sequence[Tensor]) -> Region:
    """Return the rectangle that bands in row-major order make up, from the first's start to the last's end."""
    first, last = (band.region or whole_region(band.shape or ()) for band in (bands[0], bands[-1]))
    return tuple([(begin[0], end[1]) for begin, end in zip(first, last, strict=True)])
