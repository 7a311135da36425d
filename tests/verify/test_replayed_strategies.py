"""The verifier's own sums of a strategy equal those of the cost model that the search uses."""

from __future__ import annotations

import pytest

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.strategy import StrategyFigures
from onchip.model.accounting.conventions import DEFINES, OURS, Conventions
from support.fusion_strategies import random_strategy
from support.series import with_slow

SEEDS = (*range(100), 120, 128, 285, 288, 1109)
"""The seeds: in 120 a map waits for a layer after the next, in 128 an output fits to the bit.

In 285 and 288 a map that lies whole on the chip may move no higher, in 1109 others fill a memory.
"""


def assert_same(found: StrategyFigures, expected: StrategyFigures) -> None:
    assert (found.macs, found.dram_bits, found.peak_bytes) == (expected.macs, expected.dram_bits, expected.peak_bytes)
    assert found.objective_value == expected.objective_value
    assert found.latency_cycles == pytest.approx(expected.latency_cycles, rel=1e-12)
    assert {place: energy for place, energy in found.energies_pj.items() if energy} == pytest.approx(
        {place: energy for place, energy in expected.energies_pj.items() if energy}, rel=1e-12
    )
    assert found.energy_pj == pytest.approx(expected.energy_pj, rel=1e-12)


@pytest.mark.parametrize("seed", with_slow(SEEDS, lambda seed: seed < 100 and seed % 5))
@pytest.mark.parametrize("conventions", [OURS, DEFINES])
def test_a_strategy_costs_in_the_verifier_what_the_cost_model_says(seed: int, conventions: Conventions) -> None:
    one = random_strategy(seed, conventions)
    objective = tuple(FusionObjective)[seed % 4]
    replayed = one.replayed(objective=objective)
    assert replayed.violations == ()
    assert replayed.figures is not None
    assert replayed.priced == len(one.strategy.mappings)
    assert_same(replayed.figures, one.figures(objective))
