"""Operators as equal bands of their channels, where their files state what such a band costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.region import Region
from onchip.ir.stated_cost import StatedCost
from onchip.ir.tile import Tile
from onchip.ops.derive.channels import Channels
from onchip.transform.slices.bands import Bands


@dataclass(frozen=True, slots=True)
class ChannelBands:
    """Runs operators, by name, in so many `parts` as their `splits` allow.

    It ensures that band k of operator OP is the operator `OP#k` with its cycles and its share of the energy, that bands
    of a tensor partition it, cut at the boundaries of its writer and of every reader, and that operators that are not
    cut keep their names. The order is that of the operators, band by band.
    """

    parts: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __call__(self, graph: Graph) -> Graph:
        """The graph in bands; raises GraphError for an operator that is not there or cannot run in so many parts."""
        channels = Channels(graph)
        for name, parts in self.parts.items():
            if name not in graph.operator:
                raise GraphError("there is no such operator", place=f"operator {name!r}", expected="one of the graph")
            _ensure_it_may_run_in(channels, graph.operator[name], parts)
        if not self.parts:
            return graph
        emission = _Emission(graph, self.parts)
        tensors = tuple(band for tensor in graph.tensors for band in emission.bands[tensor.name].all)
        return Graph(graph.name, tensors, tuple(emission.operators()), graph.states_among(tensors))


def _ensure_it_may_run_in(channels: Channels, operator: Operator, parts: int) -> None:
    place, splits = f"operator {operator.name!r}", operator.stated.splits
    if splits is None or splits.cycles_of(parts) is None:
        ways = "none" if splits is None else ", ".join(str(parts) for parts, _ in splits.ways)
        raise GraphError(f"its file states no cost of {parts} parts", place=place, expected=f"of these: {ways}")
    cut_inputs = operator.inputs if splits.cuts_inputs else ()
    for name in (*operator.outputs, *operator.parameters, *cut_inputs):
        count = channels.count(channels.graph.tensor[name])
        if count is None or count % parts:
            what = f"{name!r} has {'no' if count is None else count} channels for {parts} equal bands"
            raise GraphError(what, place=place, expected=f"a multiple of {parts}")


class _Emission:
    """The bands of all tensors, and the operators over them."""

    def __init__(self, graph: Graph, parts: Mapping[str, int]) -> None:
        self._graph = graph
        self._parts = parts
        self._channels = Channels(graph)
        cuts = {tensor.name: [set[int]() for _ in tensor.shape or ()] for tensor in graph.tensors}
        for name, count in parts.items():
            for operand in _cut_operands(graph.operator[name]):
                tensor = graph.tensor[operand]
                channels = self._channels.count(tensor) or 0
                lines = cuts[operand][self._channels.axis(tensor)]
                lines |= {part * channels // count for part in range(1, count)}
        self.bands = {tensor.name: Bands.of(tensor, cuts[tensor.name]) for tensor in graph.tensors}

    def operators(self) -> Iterator[Operator]:
        """Yield the bands of each operator, or itself over all bands of its operands."""
        for operator in self._graph.operators:
            count = self._parts.get(operator.name, 1)
            if count == 1:
                yield self._over_bands(operator, 0, 1)
                continue
            splits, stated = operator.stated.splits, operator.stated
            energy_pj = None if stated.energy_pj is None else stated.energy_pj / count
            cost = StatedCost(splits.cycles_of(count) if splits else None, energy_pj)
            for part in range(count):
                band = self._over_bands(operator, part, count)
                yield replace(band, name=f"{operator.name}#{part}", stated=cost)

    def _over_bands(self, operator: Operator, part: int, count: int) -> Operator:
        cut = _cut_operands(operator) if count > 1 else frozenset()

        def bands(names: Sequence[str]) -> tuple[str, ...]:
            found = (self.bands[name].within(self._region(name, part, count, is_cut=name in cut)) for name in names)
            return tuple(dict.fromkeys(band for each in found for band in each))

        inputs, parameters, outputs = map(bands, (operator.inputs, operator.parameters, operator.outputs))
        if (inputs, parameters, outputs) == (operator.inputs, operator.parameters, operator.outputs):
            return operator
        names = (*operator.inputs, *operator.parameters, *operator.outputs)
        shapes = tuple(self._graph.tensor[name].shape or () for name in names)
        regions = tuple(self._region(name, part, count, is_cut=True) for name in operator.outputs)
        tile = Tile(operator.name, operator.inputs, operator.parameters, operator.outputs, shapes, regions)
        return replace(operator, inputs=inputs, parameters=parameters, outputs=outputs, tile=tile, in_place=())

    def _region(self, name: str, part: int, count: int, *, is_cut: bool) -> Region:
        shape = self._graph.tensor[name].shape or ()
        whole = tuple((0, size) for size in shape)
        if not is_cut or count == 1:
            return whole
        axis = self._channels.axis(self._graph.tensor[name])
        band = (part * shape[axis] // count, (part + 1) * shape[axis] // count)
        return (*whole[:axis], band, *whole[axis + 1 :])


def _cut_operands(operator: Operator) -> frozenset[str]:
    """What each band has a part of: outputs and parameters, and inputs if the operator cuts them."""
    splits = operator.stated.splits
    inputs = operator.inputs if splits is not None and splits.cuts_inputs else ()
    return frozenset((*operator.outputs, *operator.parameters, *inputs))
