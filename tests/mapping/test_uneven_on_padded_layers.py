"""`uneven` over a padded input: its counts equal those of the cost model, and no order and no cut is better."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.result import Status
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Dram, Memory, MemoryLevel
from onchip.ir.layer import Layer
from onchip.mapping.tile_search.uneven import solve_uneven
from onchip.model.accounting.accounting import DEFINES, ZIGZAG, Accounting
from onchip.model.layer.cost import layer_cost
from onchip.search.budget.limits import Run
from onchip.verify.mapping import verify_mapping
from oracles.mapping_unrolled import least_uneven_pj
from support.series import with_slow

PADDINGS = ((1, 1, 1, 1), (2, 0, 1, 1), (0, 1, 1, 0), (2, 2, 2, 2))


def _machine(capacity_bytes: int, units: int = 1) -> Accelerator:
    """Return a machine with one scratchpad, whose access width differs from every element width."""
    memory = Memory("scratchpad", capacity_bytes)
    level = MemoryLevel(memory, None, is_scratchpad=True, access=Access(15, 1.0, 1.0))
    dram = Dram(Access(16, 100.0, 110.0))
    return Accelerator("small", (memory,), (level,), None, ComputeArray({"lane": units}, mac_energy_pj=0.0), dram)


def _padded_layer(random: Random) -> Layer:
    taps, padding = random.choice((1, 1, 2)), random.choice(PADDINGS)
    return Layer(
        n=random.choice((1, 2)),
        c=random.choice((1, 2)),
        p=5,
        q=random.choice((5, 7)),
        r=taps,
        dilation=(2, 2),
        padding=padding,
        input_bits=4,
        weight_bits=4,
        output_bits=4,
        partial_bits=4,
    )


@pytest.mark.parametrize("accounting", [ZIGZAG, DEFINES])
@pytest.mark.parametrize("seed", with_slow(range(12), {6}.__contains__))
def test_on_padded_layers_the_proven_mapping_is_legal_and_the_best(seed: int, accounting: Accounting) -> None:
    random = Random(seed)
    layer = _padded_layer(random)
    accelerator = _machine(random.choice((12, 20, 27, 35)), random.choice((1, 2)))
    least = least_uneven_pj(layer, accelerator, accounting)
    result = solve_uneven(
        LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run(), accounting, has_stored_room=True
    )
    assert result.status is (Status.INFEASIBLE if least == inf else Status.OPTIMAL)
    if result.answer is not None:
        assert verify_mapping(LayerProblem(layer, accelerator), result.answer) == ()
        assert result.objective_value == pytest.approx(1000 * least, rel=1e-9)


def test_a_tile_that_needs_no_room_for_zeros_is_found_where_filters_have_one_tap() -> None:
    """Counted with its zeros, the image of one turn would not fit together with its outputs."""
    layer = replace(
        Layer(n=2, p=5, q=5, dilation=(2, 2), padding=(0, 1, 1, 0)),
        input_bits=4,
        weight_bits=4,
        output_bits=4,
        partial_bits=4,
    )
    accelerator = _machine(35)
    result = solve_uneven(
        LayerProblem(layer, accelerator), MappingObjective.ENERGY, Run(), DEFINES, has_stored_room=True
    )
    assert result.answer is not None
    cost = layer_cost(LayerProblem(layer, accelerator), result.answer, DEFINES)
    assert result.objective_value == pytest.approx(1000 * cost.energy_pj)
    assert cost.memory_energy_pj["dram", "input"] == 8 * 100.0
