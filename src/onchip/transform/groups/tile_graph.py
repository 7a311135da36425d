"""A network in tiles as a graph, and parts of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from onchip.answer.fused_network import FusedNetwork, MapInNetwork, NestInNetwork, ReadInNetwork
from onchip.answer.stacks import LayerInNetwork
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import VIEWS, InPlace, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Region, whole_region
from onchip.ops.contractions import ELEMENT_BY_ELEMENT
from onchip.ops.fusable import OF_ROWS, FeatureMap, FusableNetwork
from onchip.ops.layers_of import NestOperands


@dataclass(frozen=True, slots=True)
class TileOperator:
    """The origin of a tile operator: its stack (by number), its operator, and its loop nests in execution order.

    `operands` are the network's tensors that the nests read; None without nests.
    """

    stack: int
    operator: str
    nests: tuple[Layer, ...]
    operands: NestOperands | None = None


@dataclass(frozen=True, slots=True)
class TileGraph:
    """The graph that a program runs, with the origin of each operator of `graph`, by name.

    `not_counted` are parameters of the network that nothing in the graph reads: biases, and others that no loop nest
    multiplies.
    """

    graph: Graph
    operators: Mapping[str, TileOperator]
    not_counted: tuple[str, ...]

    @property
    def nests(self) -> Mapping[str, tuple[Layer, ...]]:
        """Map each operator to its loop nests."""
        return {name: one.nests for name, one in self.operators.items()}

    @property
    def nest_operands(self) -> Mapping[str, frozenset[str]]:
        """Map each operator with loop nests to the tensors that these read; the others that it reads cost nothing."""
        return {
            name: frozenset(filter(None, (one.operands.input, one.operands.weight)))
            for name, one in self.operators.items()
            if one.operands is not None
        }


def with_all_parameters(tiles: TileGraph, network: Graph) -> Graph:
    """Return the tile graph with every parameter that its operators have in the original network.

    A schedule neither moves nor counts the added parameters: they are available when an operator runs.
    """

    def with_all(operator: Operator) -> Operator:
        bands: dict[str, list[str]] = {}
        for name in operator.parameters:
            bands.setdefault(tiles.graph.tensor[name].part_of or name, []).append(name)
        every = network.operator[tiles.operators[operator.name].operator].parameters
        return replace(operator, parameters=tuple(band for name in every for band in bands.get(name, (name,))))

    operators = map(with_all, tiles.graph.operators)
    is_not_counted = set(tiles.not_counted)
    missing = tuple(tensor for tensor in network.tensors if tensor.name in is_not_counted)
    return Graph(tiles.graph.name, (*tiles.graph.tensors, *missing), tuple(operators))


def with_results_in_place(graph: Graph, network: Graph) -> Graph:
    """Return the tile graph in which operators state the inputs whose bytes their only output may take.

    These are operators element by element and softmaxes and normalisations of rows. The bytes are those of a band with
    the output's region, of an input with the shape and bits of the network's output.
    """

    def pairs(operator: Operator) -> tuple[InPlace, ...]:
        original = network.operator[operator.tile.operator if operator.tile else operator.name]
        if original.kind not in ELEMENT_BY_ELEMENT | OF_ROWS or VIEWS & original.attributes.keys():
            return ()
        if len(original.outputs) > 1 or len(operator.outputs) > 1:
            return ()
        whole = network.tensor[original.outputs[0]]
        alike = {
            name
            for name in original.inputs
            if (network.tensor[name].shape, network.tensor[name].bits) == (whole.shape, whole.bits) != (None, None)
        }
        written = graph.tensor[operator.outputs[0]]
        read = (graph.tensor[name] for name in dict.fromkeys(operator.inputs))
        return tuple(
            InPlace(one.name, written.name)
            for one in read
            if (one.part_of or one.name) in alike and _region(one) == _region(written)
        )

    return replace(graph, operators=tuple(replace(one, in_place=pairs(one)) for one in graph.operators))


def _region(band: Tensor) -> Region:
    return band.region or whole_region(band.shape or ())


def part_of_network(graph: Graph, names: Sequence[str]) -> Graph:
    """Return the graph of the named operators, in this order; tensors from outside become inputs.

    Outputs are the tensors that leave the network, that operators outside read, or that have no reader.
    """
    operators = tuple(graph.operator[name] for name in names)
    inside = set(names)
    written = {name for operator in operators for name in operator.outputs}
    tensors: dict[str, Tensor] = {}
    for operator in operators:
        for name in (*operator.reads, *operator.outputs):
            tensor, readers = graph.tensor[name], graph.readers[name]
            if name in written:
                leaves = not readers or any(reader.name not in inside for reader in readers)
                tensors[name] = replace(tensor, role=Role.OUTPUT) if leaves else tensor
            else:
                is_parameter = tensor.role is Role.PARAMETER
                tensors[name] = tensor if is_parameter else replace(tensor, role=Role.INPUT)
    return Graph(graph.name, tuple(tensors.values()), operators)


def layers_in_network(network: FusableNetwork) -> tuple[LayerInNetwork, ...]:
    """Return a network's layers with what the structure of a strategy has to respect of them."""
    return tuple(
        LayerInNetwork(
            layer.name,
            tuple(read.source for read in layer.reads),
            layer.output.name,
            layer.output.columns,
            layer.output.rows,
            layer.output.size_bits,
            layer.output.name in network.outputs,
            layer.runs_alone,
        )
        for layer in network.layers
    )


def network_to_replay(network: FusableNetwork) -> FusedNetwork:
    """Return a network's layers with their loop nests and windows, on which a strategy is replayed."""
    layers = tuple(
        NestInNetwork(
            layer.name,
            layer.layer,
            tuple(ReadInNetwork(read.source, read.rows, read.columns, read.channels) for read in layer.reads),
            _map(layer.output),
            layer.weight_bits,
            layer.runs_alone,
            layer.joins,
        )
        for layer in network.layers
    )
    return FusedNetwork(tuple(map(_map, network.inputs)), layers, network.moved)


def _map(one: FeatureMap) -> MapInNetwork:
    return MapInNetwork(one.name, one.channels, one.rows, one.columns, one.bits)
