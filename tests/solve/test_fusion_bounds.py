from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.analysis.fusable import FusableNetwork
from onchip.arch.accelerator import Accelerator
from onchip.cost.fused_mapper import Memoized
from onchip.frontends.accelerator_yaml import accelerator_from_yaml, load_accelerator
from onchip.plan.strategy import OverlapMode, Tiling
from onchip.solve.fusion.costs import StackCosts
from onchip.solve.fusion.mappers import LayerMapper
from onchip.solve.fusion.objective import FusionObjective
from onchip.solve.fusion.space import StackChoice, StackSpace
from onchip.solve.fusion.stacks import Span, legal_spans, stack_of
from onchip.solve.fusion.tilings import TileSizes, tilings_of
from onchip.solve.limits import Run
from onchip.solve.mapping.registry import METHODS
from stacks import fsrcnn, random_stack

CHIP = """\
format: onchip-accelerator
version: 1
name: chip
array: {dimensions: {K: 2, OX: 2}, mac_energy_pj: 0.5}
memories:
  - {name: register, capacity: 1B, holds: [weight], serves: [OX], access_bits: 8, read_energy_pj: 0.1,
     write_energy_pj: 0.1, ports: [{direction: read_write, bits_per_cycle: 16}]}
  - {name: buffer, capacity: 256B, access_bits: 32, read_energy_pj: 5, write_energy_pj: 6,
     ports: [{direction: read_write, bits_per_cycle: 64}]}
  - {name: global, capacity: 1KiB, scratchpad: true, access_bits: 32, read_energy_pj: 30, write_energy_pj: 35,
     ports: [{direction: read_write, bits_per_cycle: 64}]}
dram: {access_bits: 64, read_energy_pj: 400, write_energy_pj: 450, ports: [{direction: read_write, bits_per_cycle: 64}]}
"""
SMALL = accelerator_from_yaml(CHIP, "chip.yaml")
FREE = accelerator_from_yaml(
    CHIP.replace("dimensions: {K: 2, OX: 2}", "free: 8").replace("serves: [OX], ", ""), "f.yaml"
)
WIDE = accelerator_from_yaml(CHIP.replace("{K: 2, OX: 2}", "{lane: 4, OX: 2, FX: 3}"), "w.yaml")


def costs_on(network: FusableNetwork, accelerator: Accelerator, objective: FusionObjective) -> StackCosts:
    mapper = LayerMapper(METHODS["loma"], objective.of_layers, Run())
    return StackCosts(network, accelerator, objective, Memoized(mapper))


def choices_on(network: FusableNetwork, accelerator: Accelerator) -> Sequence[StackChoice]:
    def tilings(span: Span) -> Sequence[Tiling]:
        return tilings_of(stack_of(network, span).output, TileSizes.HALVES)

    arcs, _ = StackSpace(network, accelerator, legal_spans(network), tilings).arcs()
    return [choice for arc in arcs for choice in arc.choices]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([SMALL, FREE, WIDE]),
    st.sampled_from(FusionObjective),
    st.data(),
)
def test_no_stack_costs_less_than_its_bound(
    seed: int, accelerator: Accelerator, objective: FusionObjective, data: st.DataObject
) -> None:
    stack = random_stack(seed)
    network = FusableNetwork("net", stack.inputs, stack.layers)
    costs = costs_on(network, accelerator, objective)
    for choice in data.draw(st.lists(st.sampled_from(choices_on(network, accelerator)), min_size=1, max_size=3)):
        bound, least = costs.bound(choice), costs.floor([choice])
        (cost,) = costs.costs([choice])
        assert cost is None or all(map(int.__le__, least, cost)), choice
        if bound is None:
            assert cost is None
        elif cost is not None:
            assert all(map(int.__le__, bound, cost)), choice


@pytest.mark.parametrize(
    ("tiling", "energy_mj", "mega_cycles"),
    [
        (Tiling(4, 72, OverlapMode.FULLY_CACHED), 1.8137, 18.485),
        (Tiling(4, 72, OverlapMode.H_CACHED), 1.8513, 19.450),
        (Tiling(4, 72, OverlapMode.RECOMPUTE), 3.4900, 43.894),
        (Tiling(60, 72, OverlapMode.FULLY_CACHED), 2.1547, 20.188),
        (Tiling(960, 540, OverlapMode.RECOMPUTE), 20.265, 29.008),
    ],
)
def test_published_costs_are_a_little_above_their_bounds(tiling: Tiling, energy_mj: float, mega_cycles: float) -> None:
    """DeFiNES (HPCA 2023), FSRCNN on its Meta_prototype_DF: of a bound so near, most other tiles need no costing."""
    stack = fsrcnn()
    network = FusableNetwork("fsrcnn", stack.inputs, stack.layers)
    bounds = costs_on(network, load_accelerator("meta-prototype-df"), FusionObjective.EDP)
    bound = bounds.bound(StackChoice(Span(0, 8), tiling))
    assert bound is not None
    assert 0.7 * energy_mj < bound[0] / 1e12 < energy_mj
    assert 0.6 * mega_cycles < bound[1] / 1e6 < mega_cycles
