"""Parts of a network's operators, collected in the order in which they run, with the bands that they write and read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from onchip.errors import GraphError
from onchip.facts.tile_bytes import place_of
from onchip.facts.views import paces_of
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.region import Region, size_of, whole_region
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Tile
from onchip.lower.split.kinds import geometry_of

_RUN_IN_PARTS: frozenset[str] = frozenset({"ConvTranspose"})
"""Beside what `split_operators` knows, and views."""


@dataclass
class EmittedParts:
    """Operators by name; of each tensor of `graph` the bands that are used, by name."""

    graph: Graph
    operators: dict[str, Operator] = field(default_factory=dict)
    bands: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    _runs_in_parts: dict[str, bool] = field(default_factory=dict)

    def add(self, operator: Operator, name: str, inputs: Sequence[Tensor], written: Sequence[Tensor]) -> None:
        """The part of an operator that writes these bands, called `name`; the operator itself where all is whole.

        Raises GraphError for a kind that cannot run in parts.
        """
        for band in (*inputs, *written):
            self.bands.setdefault(place_of(band)[0], {})[band.name] = band
        if name in self.operators:
            raise GraphError("a tile of another operator has this name", place=f"operator {name!r}", expected="another")
        if all(band.part_of is None for band in (*inputs, *written)):
            self.operators[operator.name] = operator
            return
        region = _around(written)
        self._ensure_it_runs(operator, inputs, region)
        names = (*operator.inputs, *operator.parameters, *operator.outputs)
        shapes = tuple(self.graph.tensor[each].shape or () for each in names)
        tile = Tile(operator.name, operator.inputs, operator.parameters, operator.outputs, shapes, (region,))
        self.operators[name] = replace(
            operator,
            name=name,
            inputs=tuple(dict.fromkeys(band.name for band in inputs)),
            outputs=tuple(band.name for band in written),
            tile=tile,
        )

    def fresh_name(self, name: str) -> str:
        """`name`, or with a number where an operator is called that already."""
        numbered = (name if not again else f"{name}.{again}" for again in range(len(self.operators) + 1))
        return next(each for each in numbered if each not in self.operators)

    def keep(self, name: str, bands: Iterable[Tensor]) -> None:
        """Of the tensor of this name in `graph` these are used."""
        self.bands.setdefault(name, {}).update((band.name, band) for band in bands)

    def finished(self, inputs: Mapping[str, Iterable[Tensor]]) -> Graph:
        """The graph of all parts; `inputs` are the bands of network inputs, of which some may be read by nobody."""
        return Graph(self.graph.name, tuple(self.tensors(inputs)), tuple(self.operators.values()))

    def tensors(self, inputs: Mapping[str, Iterable[Tensor]]) -> list[Tensor]:
        """Parameters, the bands of network inputs, as given or else whole, and of other tensors what is used."""
        tensors: list[Tensor] = []
        for tensor in self.graph.tensors:
            if tensor.role is Role.PARAMETER:
                tensors.append(tensor)
            elif tensor.role is Role.INPUT:
                tensors.extend(inputs.get(tensor.name, (tensor,)))
            else:
                tensors.extend(self.bands.get(tensor.name, {}).values())
        return tensors

    def _ensure_it_runs(self, operator: Operator, inputs: Sequence[Tensor], region: Region) -> None:
        if self._is_all(operator, inputs, region):
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
        """Whether this part reads and writes all that the operator does."""
        read = dict.fromkeys(inputs)
        given = {
            name: sum(prod(band.shape or ()) for band in read if place_of(band)[0] == name) for name in operator.inputs
        }
        is_read = all(given[name] == prod(self.graph.tensor[name].shape or ()) for name in operator.inputs)
        return is_read and size_of(region) == prod(self.graph.tensor[operator.outputs[0]].shape or ())


def _around(bands: Sequence[Tensor]) -> Region:
    """The least region with all bands; all of a tensor that is no band."""
    regions = [band.region or whole_region(band.shape or ()) for band in bands]
    return tuple((min(each[0] for each in one), max(each[1] for each in one)) for one in zip(*regions, strict=True))
