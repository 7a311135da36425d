"""Operators in equal bands of their channels, for files that state the cost of such a band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from onchip.arch.memory import Operand
from onchip.errors import GraphError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator, StatedCost
from onchip.ops.layers_of import Channels
from onchip.ops.slicing import Geometry, OperandAccess, Span, TileAxis
from onchip.transform.slices.bands import Bands
from onchip.transform.slices.emission import SliceEmission
from onchip.transform.slices.tiles_along_axis import TilesAlongAxis, cut


@dataclass(frozen=True, slots=True)
class ChannelBands:
    """The transform that runs operators, by name, in `parts` equal parts that their `splits` allow.

    Band k of operator OP is the operator `OP#k` with its cycles and its share of the energy. The bands of a tensor
    partition it, cut at the boundaries of its writer and of every reader. Operators that are not cut keep their names.
    The order is that of the operators, band by band.
    """

    parts: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __call__(self, graph: Graph) -> Graph:
        """Return the graph in bands; raises GraphError for an unknown operator, or an unsupported number of parts."""
        channels = Channels(graph)
        for name, parts in self.parts.items():
            if name not in graph.operator:
                raise GraphError("there is no such operator", place=f"operator {name!r}", expected="one of the graph")
            _ensure_it_may_run_in(channels, graph.operator[name], parts)
        if not self.parts:
            return graph
        several = {name: parts for name, parts in self.parts.items() if parts > 1}
        splits = {name: _channel_split(channels, graph.operator[name], parts) for name, parts in several.items()}
        cuts = {tensor.name: [set[int]() for _ in tensor.shape or ()] for tensor in graph.tensors}
        for tiles in splits.values():
            cut(cuts, tiles)
        bands = {tensor.name: Bands.of(tensor, cuts[tensor.name]) for tensor in graph.tensors}
        tensors = tuple(band for each in bands.values() for band in each.all)
        emission = SliceEmission(graph, splits, bands)
        operators = (self._with_cost(one, band) for one in graph.operators for band in emission.slices(one))
        return Graph(graph.name, tensors, tuple(operators), graph.states_among(tensors))

    def _with_cost(self, whole: Operator, band: Operator) -> Operator:
        """Return the band with the cost that the operator's file states for it; bands share no bytes in place."""
        if band is whole:
            return band
        parts, stated = self.parts.get(whole.name, 1), whole.stated
        if parts > 1:
            energy_pj = None if stated.energy_pj is None else stated.energy_pj / parts
            stated = StatedCost(stated.splits.cycles_of(parts) if stated.splits else None, energy_pj)
        return replace(band, stated=stated, in_place=())


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


def _channel_split(channels: Channels, operator: Operator, parts: int) -> TilesAlongAxis:
    """Return the operator in equal bands of its channels, with one tile per band."""
    cut_operands = _cut_operands(operator)

    def access(name: str) -> OperandAccess:
        tensor = channels.graph.tensor[name]
        spans = [Span(size) for size in tensor.shape or ()]
        if name in cut_operands:
            axis = channels.axis(tensor)
            size = spans[axis].size
            spans[axis] = Span(size, 0, step=size // parts, extent=size // parts)
        operand = Operand.OUTPUT if name in operator.outputs else Operand.INPUT
        return OperandAccess(name, operand, (tensor.bits or 0) // 8, tuple(spans))

    reads, writes = tuple(map(access, dict.fromkeys(operator.reads))), tuple(map(access, operator.outputs))
    return TilesAlongAxis(Geometry((TileAxis(parts),), reads, writes), 0, tuple(range(1, parts + 1)))


def _cut_operands(operator: Operator) -> frozenset[str]:
    """Return the operands that each band has a part of: outputs, parameters, and inputs if the operator cuts them."""
    splits = operator.stated.splits
    inputs = operator.inputs if splits is not None and splits.cuts_inputs else ()
    return frozenset((*operator.outputs, *operator.parameters, *inputs))
