"""Concatenations that a schedule does not run: which of them may be left out, and which maps their readers read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.stated_cost import NOTHING_STATED
from onchip.ir.tensor import Role
from onchip.ir.window import integer

PartsOf: TypeAlias = Mapping[str, Mapping[str, int]]
"""Map from a concatenation to the maps that are read in its place, each with the channel at which it begins there."""
_CHANNELS: Final = 1


def joins_left_out(network: Graph, tiles: Graph) -> PartsOf:
    """Return the concatenations along the channels that run nowhere and need not run, with their parts.

    Such a concatenation joins distinct feature maps that operators write, inside the network, and states no cost. Each
    reader, directly or through another concatenation, reads each part once.
    """
    runs = {operator.tile.operator if operator.tile else operator.name for operator in tiles.operators}
    found: dict[str, dict[str, int]] = {}
    for operator in network.operators:
        if operator.name not in runs and _moves_nothing(network, operator):
            begins = dict(_begins(network, operator, found))
            if len(begins) == sum(len(found.get(name, (name,))) for name in operator.inputs):
                found[operator.outputs[0]] = begins
    sees_twice = {name for operator in network.operators for name in _seen_twice(operator, found)}
    return {name: begins for name, begins in found.items() if name not in sees_twice}


def _seen_twice(operator: Operator, found: PartsOf) -> Iterator[str]:
    """Yield the concatenations with a part that the operator also reads elsewhere."""
    seen = [part for name in dict.fromkeys(operator.inputs) for part in found.get(name, (name,))]
    for name in operator.inputs:
        if any(seen.count(part) > 1 for part in found.get(name, ())):
            yield name


def _begins(network: Graph, operator: Operator, found: PartsOf) -> Iterator[tuple[str, int]]:
    begin = 0
    for name in operator.inputs:
        for part, channel in found.get(name, {name: 0}).items():
            yield part, begin + channel
        begin += (network.tensor[name].shape or ())[_CHANNELS]


def _moves_nothing(network: Graph, operator: Operator) -> bool:
    """Return True if the operator only concatenates feature maps along the channels, at no cost."""
    if operator.kind != "Concat" or operator.parameters or len(operator.outputs) != 1 or not operator.inputs:
        return False
    if operator.workspace_bytes or operator.stated != NOTHING_STATED:
        return False
    if len(operator.members) > 1 or operator.attributes.keys() - {"axis"}:
        return False
    whole = network.tensor[operator.outputs[0]]
    maps = [network.tensor[name] for name in operator.inputs]
    if any(one.role is not Role.ACTIVATION or one.shape is None or one.bits != whole.bits for one in (whole, *maps)):
        return False
    shape = whole.shape or ()
    if len(shape) not in (2, 4) or integer(operator, "axis", len(shape)) not in (_CHANNELS, _CHANNELS - len(shape)):
        return False
    channels = 0
    for one in maps:
        own = one.shape or ()
        if len(own) != len(shape) or own[0] != shape[0] or own[2:] != shape[2:]:
            return False
        channels += own[_CHANNELS]
    return channels == shape[_CHANNELS] and bool(network.readers[whole.name])
