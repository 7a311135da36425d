from __future__ import annotations

from onchip.analysis.fusable import FusableNetwork
from onchip.errors import InputError
from onchip.frontends.accelerator_yaml import load_accelerator
from onchip.plan.strategy import OverlapMode, Tiling
from onchip.solve.fusion.objective import FusionObjective
from onchip.solve.fusion.space import StackChoice
from onchip.solve.fusion.stacks import Span
from onchip.solve.fusion.workers import Costing, costs_of
from onchip.solve.limits import Limits, Run
from stacks import fsrcnn

TILES = [
    StackChoice(Span(0, 2), Tiling(16, 9, OverlapMode.FULLY_CACHED)),
    StackChoice(Span(0, 2), Tiling(16, 9, OverlapMode.RECOMPUTE)),
    StackChoice(Span(0, 2), Tiling(9999, 9, OverlapMode.RECOMPUTE)),
]


def test_two_processes_cost_what_one_does_and_refuse_the_same() -> None:
    stack = fsrcnn()
    network = FusableNetwork("fsrcnn", stack.inputs, stack.layers)
    costing = Costing(network, load_accelerator("meta-prototype-df"), FusionObjective.ENERGY, "loma", use_cache=False)
    with costs_of(costing, Run()) as alone, costs_of(costing, Run(Limits(workers=2))) as together:
        found = alone.costs(TILES)
        assert together.costs(TILES) == found
        assert None in found
        assert found[0] is not None
        assert list(together.refusals) == list(alone.refusals) == [TILES[2]]
        assert isinstance(together.refusals[TILES[2]], InputError)
