"""A network of layers as the verifier of strategies has it."""

from __future__ import annotations

from onchip.answer.fused_network import FusedNetwork, MapInNetwork, NestInNetwork, ReadInNetwork
from onchip.answer.stacks import LayerInNetwork
from onchip.ops.derive.fusable import FeatureMap, FusableNetwork


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
