from __future__ import annotations

import pytest

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.bounds.group.given_unrolling import GivenUnrolling
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.mapping.tile_search.uneven import (
    FixedUnrolling,
    TemporalMethod,
    unrolling_groups,
    unrollings_for,
)
from onchip.model.accounting.accounting import AccountingName
from onchip.model.accounting.conventions import DEFINES
from onchip.model.group.cost import stack_cost
from onchip.ops.fusable import FusableNetwork
from onchip.scheduling.fronts.workers import Costing, costs_of
from onchip.search.budget.limits import Limits, Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, stack_of
from support.series import series
from support.stacks import fsrcnn

TILES = [
    StackChoice(LayerSpan(0, 2), Tiling(16, 9, OverlapMode.FULLY_CACHED)),
    StackChoice(LayerSpan(0, 2), Tiling(16, 9, OverlapMode.RECOMPUTE)),
    StackChoice(LayerSpan(0, 2), Tiling(9999, 9, OverlapMode.RECOMPUTE)),
]


MACHINE = load_accelerator("meta-prototype-df")


def costing_of(accounting: AccountingName, mapper: str = "loma") -> Costing:
    stack = fsrcnn()
    network = FusableNetwork("fsrcnn", stack.inputs, stack.layers)
    return Costing(network, MACHINE, FusionObjective.ENERGY, mapper, use_cache=False, accounting=accounting)


@pytest.mark.parametrize("accounting", series([AccountingName.INTERPRETER, AccountingName.DEFINES], 1))
def test_two_processes_cost_what_one_does_and_refuse_the_same(accounting: AccountingName) -> None:
    costing = costing_of(accounting)
    with costs_of(costing, Run()) as alone, costs_of(costing, Run(Limits(workers=2))) as together:
        found = alone.costs(TILES)
        assert together.costs(TILES) == found
        assert None in found
        assert found[0] is not None
        assert list(together.refusals) == list(alone.refusals) == [TILES[2]]
        assert isinstance(together.refusals[TILES[2]], InputError)


@pytest.mark.parametrize("method", TemporalMethod)
def test_as_defines_counts_a_stack_costs_what_the_mapper_of_its_rule_makes_of_it(method: TemporalMethod) -> None:
    costs = costing_of(AccountingName.DEFINES, method).costs(Run())
    assert costs.sharing == GivenUnrolling(unrolling_groups(MACHINE), unrollings_for)
    for choice in TILES[:2]:
        (criteria,) = costs.costs([choice])
        stack = stack_of(costs.network, choice.span)
        assert costs.found[choice] == stack_cost(stack, MACHINE, choice.tiling, FixedUnrolling(method), DEFINES)
        bound = costs.bound(choice)
        assert bound is not None
        assert criteria is not None
        assert 0 < bound[0] <= criteria[0]
