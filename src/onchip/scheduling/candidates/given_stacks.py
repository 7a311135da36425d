"""Fused groups and tiles that the user gives, by the layer numbers and names of `fuse`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onchip.answer.options.fusion_options import LAYERS, OPTIMAL, FusionOptions
from onchip.errors import UsageError
from onchip.ir.graph import Graph
from onchip.ops.fusable import FusableNetwork
from onchip.ops.fusable_reading import partly_fusable_of
from onchip.ops.layers_of import Precision
from onchip.scheduling.candidates.spaces import ensure_a_tile_fits
from onchip.transform.groups.stacks import PLACE, given_stacks, single_layers

SEARCHED: Final = frozenset({OPTIMAL, LAYERS, "one", "greedy"})
"""Values of the option that name no layer."""


@dataclass(frozen=True, slots=True)
class GivenStacks:
    """The fused groups that the user gives, as layer names in network order."""

    network: str
    stacks: Sequence[Sequence[str]]

    def of_run(self, run: FusableNetwork) -> str:
        """Return the groups of a run of operators as a string of layer numbers within the run."""
        number = {layer.name: at for at, layer in enumerate(run.layers)}
        own = [[number[name] for name in stack if name in number] for stack in self.stacks]
        return ",".join(f"{min(one)}-{max(one)}" for one in own if one)

    def ensure_runs_have_them(self, runs: Sequence[FusableNetwork]) -> None:
        """Raise UsageError for a group whose layers belong to several runs of operators."""
        of_layer = {layer.name: at for at, run in enumerate(runs) for layer in run.layers}
        for stack in self.stacks:
            if len(stack) > 1 and len({of_layer.get(name, name) for name in stack}) > 1:
                what = f"the stack {stack[0]!r} to {stack[-1]!r} is over operators that cannot run in tiles"
                raise UsageError(what, file=self.network, place=PLACE, expected="stacks on one side of these")


def given_of(network: Graph, precision: Precision, options: FusionOptions) -> GivenStacks | None:
    """Return the groups that the options name, or None if the options leave the fusion open.

    Raises UsageError for layers or groups that the network lacks, and for a tile that is larger than every map.
    """
    if options.stacks in SEARCHED and options.tile is None:
        return None
    whole = partly_fusable_of(network, precision).network
    if options.stacks in SEARCHED:
        ensure_a_tile_fits(whole, single_layers(whole), options)
        return None
    if not whole.layers:
        raise UsageError(f"{options.stacks!r} are no stacks: no operator is a layer", file=network.name, place=PLACE)
    spans = given_stacks(whole, options.stacks)
    ensure_a_tile_fits(whole, spans, options)
    stacks = [[layer.name for layer in whole.layers[span.start : span.stop]] for span in spans]
    return GivenStacks(network.name, stacks)
