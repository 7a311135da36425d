"""The tile graph of a strategy, for planning and execution."""

from __future__ import annotations

from onchip.answer.document import Granularity, Reading
from onchip.answer.strategy import FusionStrategy
from onchip.api.networks import read_network
from onchip.api.phases import phase
from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.transform.groups.stack_in_tiles import graph_in_tiles
from onchip.transform.groups.stacks import spans_of, stack_of

WIDTHS_THAT_RUN = (8, 16, 32, 64)
"""Element widths in bits of a tile graph: elements can be split at any boundary, and their values can be computed."""


@phase("reading")
def network_to_tile(source: str, reading: Reading) -> Graph:
    """Return the network for tiling; raises UsageError if no tile graph of it could be planned and run."""
    if reading.bits not in WIDTHS_THAT_RUN:
        expected = f"some of {', '.join(map(str, WIDTHS_THAT_RUN))} to emit a graph"
        raise UsageError(f"elements of {reading.bits} bits are not cut into bands", place="bits", expected=expected)
    if reading.granularity is not Granularity.FUSED:
        what = "a reader of the graph of tiles would fuse the nodes"
        raise UsageError(what, place="granularity", expected=f"{Granularity.FUSED} to emit a graph")
    return read_network(source, reading)


@phase("cutting into tiles")
def tiled_graph(strategy: FusionStrategy, graph: Graph) -> Graph:
    """Return a network in the tiles of a legal strategy, an operator for each layer of each tile.

    Raises GraphError for an operator that cannot be split.
    """
    network = partly_fusable_of(graph).network
    spans = spans_of(network, [stack.layers for stack in strategy.stacks])
    tilings = [(stack_of(network, span), one.tiling) for span, one in zip(spans, strategy.stacks, strict=True)]
    return graph_in_tiles(graph, network, tilings)
