from __future__ import annotations

import pytest

from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.verb_options import FusionOptions, Placements, TileSizes
from onchip.answer.result import Status
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.window import Window
from onchip.ops.fusable import FusableNetwork, Stack
from onchip.scheduling.fronts.costs import Costing
from onchip.scheduling.search.fusion import best_strategy, solve_fusion
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice
from support.stacks import chain, tilings_of

CHIP = """\
format: onchip-accelerator
version: 1
name: chip
array: {dimensions: {K: 2}, mac_energy_pj: 0.5}
memories:
  - {name: buffer, capacity: 48B, access_bits: 8, read_energy_pj: 5, write_energy_pj: 6, scratchpad: true}
  - {name: global, capacity: 128B, access_bits: 8, read_energy_pj: 30, write_energy_pj: 35}
dram: {access_bits: 8, read_energy_pj: 400, write_energy_pj: 450}
"""
PAIR = chain(4, Window(2, 1, 1, 0), Window(2, 1, 1, 0), channels=2)


def least_energy_fj(capacities: dict[str, int]) -> int:
    """Return the least energy of both layers together, with the exact mapper and the tile sizes 1 and 2 of 2."""
    text = CHIP
    for name, capacity_bytes in capacities.items():
        before = {"buffer": 48, "global": 128}[name]
        text = text.replace(f"{name}, capacity: {before}B", f"{name}, capacity: {capacity_bytes}B")
    accelerator = accelerator_from_yaml(text, "chip.yaml")
    network = FusableNetwork("pair", PAIR.inputs, PAIR.layers)
    costing = Costing(network, accelerator, FusionObjective.ENERGY, "exact", use_cache=False)
    found = solve_fusion(costing, FusionOptions(groups="one", tile_sizes=TileSizes.ALL), Run())
    assert found.result.status is Status.OPTIMAL
    assert found.result.objective_value is not None
    return found.result.objective_value


@pytest.mark.parametrize(
    "growing",
    [
        [{"buffer": 24}, {"buffer": 32}, {"buffer": 48}, {"buffer": 64}, {"buffer": 128}],
        [{"global": 64}, {"global": 96}, {"global": 128}, {"global": 256}],
    ],
)
def test_more_capacity_never_costs_more(growing: list[dict[str, int]]) -> None:
    energies = [least_energy_fj(capacities) for capacities in growing]
    assert energies == sorted(energies, reverse=True)
    assert energies[-1] < energies[0] or "global" in growing[0]


@pytest.mark.parametrize(
    "stack",
    [
        pytest.param(chain(7, Window(3, 1, 1, 1), Window(3, 1, 1, 1), channels=2), marks=pytest.mark.slow),
        chain(9, Window(2, 2, 1, 0), Window(3, 1, 1, 1)),
        chain(9, Window(1, 1, 1, 0), Window(1, 2, 1, 0)),
    ],
)
def test_a_given_group_runs_in_the_best_tiling_of_all(stack: Stack) -> None:
    """The last network skips pixels."""
    network = FusableNetwork("net", stack.inputs, stack.layers)
    accelerator = accelerator_from_yaml(CHIP, "chip.yaml")
    costs = Costing(network, accelerator, FusionObjective.ENERGY, "loma", use_cache=False).costs(Run())
    span = LayerSpan(0, len(stack.layers))
    tilings = tilings_of(stack.output, TileSizes.ALL)
    values = (costs.value(StackChoice(span, tiling)) for tiling in tilings)
    every = [value for value in values if value is not None]
    options = FusionOptions(groups="one", tile_sizes=TileSizes.ALL, placements=Placements.DRAM)
    result = best_strategy(costs, options, Run()).result
    assert result.status is Status.OPTIMAL
    assert result.objective_value == min(every)
