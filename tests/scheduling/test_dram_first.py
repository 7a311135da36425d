"""Mappings by DRAM traffic: no mapping of a tiny mapspace moves fewer bits; of equals, none takes less on chip."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice

import pytest

from onchip.answer.layer_mapping import LayerMapping, MappingError
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.arch.memory import Access
from onchip.model.program.compute_cost import nest_cost
from onchip.scheduling.mappings.nest_mapper import PICOJOULES_OF_A_DRAM_BIT, BestMapper, dram_first
from onchip.scheduling.program.runs import NestPlace
from onchip.search.budget.limits import Run
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import all_mappings, homed_toy, lean_toy, toy
from support.series import series
from support.small_schedules import skip_chip

MOST_MAPPINGS = 2000
SLACK = 1.1e-9
"""By which sums of the same energies may differ: the exact search neglects less."""


def costs_of_all(problem: LayerProblem) -> list[tuple[int, float]] | None:
    """Return DRAM bits and energy on chip in pJ of every mapping that fits; None if there are too many mappings."""
    mappings = list(islice(all_mappings(problem), MOST_MAPPINGS + 1))
    return None if len(mappings) > MOST_MAPPINGS else [one for one in map(partial(cost_of, problem), mappings) if one]


def cost_of(problem: LayerProblem, mapping: LayerMapping) -> tuple[int, float] | None:
    """Return DRAM bits and energy on chip in pJ; None if the mapping does not fit."""
    dram = problem.accelerator.dram
    assert dram is not None
    free = replace(problem.accelerator, dram=replace(dram, access=Access(1, 0, 0)))
    try:
        cost = nest_cost(replace(problem, accelerator=free), mapping)
    except MappingError:
        return None
    return cost.dram_read_bits + cost.dram_written_bits, cost.energy_pj


@pytest.mark.parametrize("seed", series(range(120), 30))
def test_no_mapping_of_a_tiny_mapspace_moves_fewer_bits(seed: int) -> None:
    problem = (toy, lean_toy, homed_toy)[seed % 3](seed)
    costs = costs_of_all(problem)
    if not costs:
        return
    machine = problem.accelerator
    mapper = BestMapper(machine, MappingObjective.ENERGY, Run(), prices=dram_first(machine))
    nest = NestPlace(0, problem.layer, problem.homes, weight_is_an_input=problem.weight_is_an_input)

    found = mapper(nest, problem.room_bytes)

    assert found is not None
    cost, (least_bits, least_pj) = cost_of(problem, found.mapping), min(costs)
    assert cost is not None
    assert not verify_mapping(problem, found.mapping)
    assert cost[0] == mapper.value_of(found)[0] <= least_bits
    assert cost[0] < least_bits or cost[1] <= least_pj + SLACK * PICOJOULES_OF_A_DRAM_BIT * least_bits


def test_most_of_the_mapspaces_are_compared() -> None:
    assert sum(bool(costs_of_all((toy, lean_toy, homed_toy)[seed % 3](seed))) for seed in range(12)) >= 6


def test_a_machine_that_states_no_energies_of_dram_stays_as_it_is() -> None:
    chip = skip_chip()
    assert chip.dram is not None
    silent = replace(chip, dram=replace(chip.dram, access=None))
    assert dram_first(silent) == silent
    assert dram_first(chip) != chip
