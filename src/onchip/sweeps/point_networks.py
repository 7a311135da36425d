"""The networks of a sweep's points: their readings, hashes, and a cache per process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onchip.answer.bindings import Bindings
from onchip.answer.document import Granularity, Reading, Split
from onchip.answer.problem import Count
from onchip.answer.recomputation import Recompute
from onchip.api.layers import layers_named
from onchip.api.networks import network_to_plan, read_network
from onchip.errors import InputError
from onchip.formats.canonical import canonical_sha256
from onchip.formats.own.graph_json import graph_sha256
from onchip.ir.graph import Graph
from onchip.ops.derive.layers_of import Precision
from onchip.sweeps.point import SweepPoint
from onchip.sweeps.verbs import SweptVerb

GRAPHS_KEPT: Final = 32
"""Size of the cache in a worker process: reading a network takes longer than planning a small one."""
_graphs: dict[tuple[str, str, str], Graph] = {}


def reading_of(options: Mapping[str, Any]) -> Reading:
    """Return the reading in a plan's options, without byte sharing."""
    return Reading(
        options["bits"],
        options["dims"] or {},
        Granularity(options["granularity"]),
        Count(options["count"]),
        Split(options["split"]),
        options["cap_tensors"],
        shapes=shapes_of(options),
        recompute=Recompute(options["recompute"]),
    )


def shapes_of(options: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of network inputs in the options."""
    return {name: tuple(shape) for name, shape in (options["shapes"] or {}).items()}


def network_sha256(verb: SweptVerb, network: str, options: Mapping[str, Any]) -> str:
    """Return the hash of the parts of a network that a verb reads; raises InputError for an unreadable network."""
    if verb is SweptVerb.PLAN:
        return graph_sha256(network_to_plan(network, reading_of(options)))
    bindings = Bindings(options["dims"] or {}, shapes_of(options), {})
    reading = Reading.of(bindings, Granularity(options["granularity"]))
    if verb is not SweptVerb.MAP:
        return graph_sha256(read_network(network, reading))
    layers, _ = layers_named(network, reading, Precision(options["bits"], options["partial_bits"]))
    return canonical_sha256([repr(sorted(layers.layers.items())), repr(sorted(layers.times.items()))], InputError)


def graph_of_point(point: SweepPoint, named: Reading, reading: Reading) -> Graph:
    """Return the network of a plan's point, read as `reading` says and cached for the next point.

    Raises InputError if the network, read as `named` by the options, has changed since the sweep began.
    """
    place = point.network, point.network_sha256, repr(reading)
    if place not in _graphs:
        graph = network_to_plan(point.network, reading)
        as_named = graph if reading == named else network_to_plan(point.network, named)
        if graph_sha256(as_named) != point.network_sha256:
            raise InputError("the network has changed since the sweep began", place=point.network, expected="the same")
        if len(_graphs) >= GRAPHS_KEPT:
            _graphs.pop(next(iter(_graphs)))
        _graphs[place] = graph
    return _graphs[place]
