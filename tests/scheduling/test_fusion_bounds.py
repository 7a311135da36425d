"""Bounds of fused groups, against every tiling, and cases that once exceeded the cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.options.fusion_objective import FusionObjective, value_of
from onchip.answer.options.tile_sizes import TileSizes
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Operand, Port
from onchip.bounds.group.given_unrolling import GivenUnrolling
from onchip.bounds.group.reuse_floors import reuse_floors
from onchip.bounds.layer.layer_floors import MachineFloors
from onchip.bounds.layer.unit_shares import AnyUnrolling, Sharing
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml, load_accelerator
from onchip.ir.layer import Layer
from onchip.ir.window import Window
from onchip.mapping.methods.registry import METHODS
from onchip.mapping.tile_search.uneven import (
    FixedUnrolling,
    TemporalMethod,
    unrolling_groups,
    unrollings_for,
)
from onchip.model.accounting.conventions import DEFINES, OURS, Conventions
from onchip.model.group.mapper import Mapper, Memoized
from onchip.ops.fusable import FeatureMap, FusableLayer, FusableNetwork
from onchip.scheduling.candidates.spaces import StackSpace
from onchip.scheduling.fronts.costs import StackCosts
from onchip.scheduling.fronts.mappers import LayerMapper
from onchip.search.budget.limits import Run
from onchip.transform.groups.stacks import LayerSpan, StackChoice, TileBox, boxes_of, legal_spans, stack_of
from support import fused_files
from support.series import series, with_slow
from support.stacks import ONE, chain, convolution, fsrcnn, pool, random_stack, tilings_of

CHIP = fused_files.CHIP.replace("512B", "256B")
SMALL = accelerator_from_yaml(CHIP, "chip.yaml")
FREE = accelerator_from_yaml(
    CHIP.replace("dimensions: {K: 2, OX: 2}", "free: 8").replace("serves: [OX], ", ""), "f.yaml"
)
WIDE = accelerator_from_yaml(CHIP.replace("{K: 2, OX: 2}", "{lane: 4, OX: 2, FX: 3}"), "w.yaml")
REGISTERS = accelerator_from_yaml(
    CHIP.replace(
        "  - {name: buffer",
        """  - {name: sums, capacity: 2B, holds: [output], serves: [K], access_bits: 8, read_energy_pj: 0.3,
     write_energy_pj: 0.2, ports: [{direction: read_write, bits_per_cycle: 64}]}
  - {name: buffer""",
    ),
    "r.yaml",
)


PARTS_CHIP = """
format: onchip-accelerator
version: 1
name: parts
array: {dimensions: {K: 4, C: 3, OX: 3, OY: 2}, mac_energy_pj: 0.04}
memories:
  - {name: weights, capacity: 2B, holds: [weight], serves: [OX], access_bits: 8, read_energy_pj: 0.2,
     write_energy_pj: 0.3, ports: [{direction: read_write, bits_per_cycle: 8}]}
  - {name: sums, capacity: 4B, holds: [output], serves: [C], access_bits: 16, read_energy_pj: 0.5,
     write_energy_pj: 0.4, ports: [{direction: read_write, bits_per_cycle: 32}]}
  - {name: near, capacity: 64B, holds: [input, output], serves: [K, C, OX], access_bits: 8, read_energy_pj: 0.9,
     write_energy_pj: 0.8, ports: [{direction: read_write, bits_per_cycle: 64}]}
  - {name: buffer, capacity: 256B, scratchpad: true, access_bits: 8, read_energy_pj: 5,
     write_energy_pj: 6, ports: [{direction: read_write, bits_per_cycle: 64}]}
dram: {access_bits: 8, read_energy_pj: 20, write_energy_pj: 25, ports: [{direction: read_write, bits_per_cycle: 64}]}
"""
PARTS = accelerator_from_yaml(PARTS_CHIP, "p.yaml")
_NARROW_SUMS = PARTS_CHIP.replace("sums, capacity: 4B", "sums, capacity: 1B")
_NARROW_BOTH = _NARROW_SUMS.replace("weights, capacity: 2B", "weights, capacity: 1B, double_buffered: true")
NARROW = tuple(accelerator_from_yaml(text, "n.yaml") for text in (_NARROW_SUMS, _NARROW_BOTH))
"""A sum, or also two weights, have no room near the units."""


@dataclass(frozen=True)
class Kind:
    """Of mappers, what is known of all of them, and how stacks are counted."""

    mapper: Callable[[FusionObjective], Mapper]
    sharing: Callable[[Accelerator], Sharing]
    conventions: Conventions = OURS


def of_registry(name: str) -> Callable[[FusionObjective], Mapper]:
    return lambda objective: LayerMapper(METHODS[name], objective.of_layers, Run())


def by_rule(method: TemporalMethod) -> Callable[[FusionObjective], Mapper]:
    return lambda objective: FixedUnrolling(method, objective=objective.of_layers)


def by_rules(accelerator: Accelerator) -> Sharing:
    return GivenUnrolling(unrolling_groups(accelerator), unrollings_for)


def keeping(accelerator: Accelerator) -> Sharing:
    return AnyUnrolling(accelerator, every_memory_keeps=True)


def dividing(accelerator: Accelerator) -> Sharing:
    return AnyUnrolling(accelerator, every_memory_keeps=True, divides_loops=True)


KINDS = {
    "any": Kind(of_registry("loma"), AnyUnrolling),
    "loma": Kind(of_registry("loma"), keeping),
    "exact": Kind(of_registry("exact"), keeping),
    "even": Kind(of_registry("exact-even"), dividing),
    "defines": Kind(by_rule(TemporalMethod.LOMA), by_rules),
    "uneven": Kind(by_rule(TemporalMethod.UNEVEN), by_rules),
    "all-defines": Kind(by_rule(TemporalMethod.LOMA), by_rules, DEFINES),
    "all-uneven": Kind(by_rule(TemporalMethod.UNEVEN), by_rules, DEFINES),
}


def costs_on(
    network: FusableNetwork, accelerator: Accelerator, objective: FusionObjective, kind: str = "loma"
) -> StackCosts:
    own = KINDS[kind]
    mapper, sharing = own.mapper(objective), own.sharing(accelerator)
    return StackCosts(network, accelerator, objective, Memoized(mapper), own.conventions, sharing)


def choices_on(network: FusableNetwork, accelerator: Accelerator) -> Sequence[StackChoice]:
    def tilings(span: LayerSpan) -> Sequence[Tiling]:
        return tilings_of(stack_of(network, span).output, TileSizes.HALVES)

    arcs, _ = StackSpace(network, accelerator, legal_spans(network), tilings).arcs()
    return [choice for arc in arcs for choice in arc.choices]


@pytest.mark.parametrize("kind", with_slow(KINDS, {"exact"}.__contains__))
@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([SMALL, FREE, WIDE, REGISTERS, PARTS, *NARROW]), st.data())
def test_no_stack_costs_less_than_its_bound(
    kind: str, seed: int, accelerator: Accelerator, data: st.DataObject
) -> None:
    objective = FusionObjective.ENERGY if "uneven" in kind else data.draw(st.sampled_from(FusionObjective))
    stack = random_stack(seed)
    network = FusableNetwork("net", stack.inputs, stack.layers)
    costs = costs_on(network, accelerator, objective, kind)
    for choice in data.draw(st.lists(st.sampled_from(choices_on(network, accelerator)), min_size=1, max_size=3)):
        bound = costs.bound(choice)
        (cost,) = costs.costs([choice])
        if bound is None:
            assert cost is None
        elif cost is not None:
            assert all(map(int.__le__, bound, cost)), choice


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([SMALL, FREE, WIDE, REGISTERS, PARTS, *NARROW]),
    st.sampled_from(["loma", "even", "all-defines"]),
    st.sampled_from(FusionObjective),
    st.data(),
)
def test_no_tiling_of_a_list_costs_less_than_its_bound_and_all_are_in_order(
    seed: int, accelerator: Accelerator, kind: str, objective: FusionObjective, data: st.DataObject
) -> None:
    """Bounds of all tilings of a box are calculated together."""
    stack = random_stack(seed)
    network = FusableNetwork("net", stack.inputs, stack.layers)
    costs = costs_on(network, accelerator, objective, kind)
    arcs, _ = StackSpace(network, accelerator, legal_spans(network), lambda span: _boxes(network, span)).arcs()
    box = data.draw(st.sampled_from([choice for arc in arcs for choice in arc.choices]))
    least, in_order = costs.bound(box), list(costs.by_bound(box))
    bounds = [bound for one in in_order if (bound := costs.bound(one)) is not None]
    values = list(map(value_of, bounds))
    assert all(one <= other + 2 * (sum(bounds[0]) + 1) for one, other in pairwise(values))
    assert len(bounds) < len(in_order) or set(in_order) == set(box.singly())
    one = data.draw(st.sampled_from(box.singly()))
    (cost,), bound = costs.costs([one]), costs.bound(one)
    if cost is not None:
        assert least is not None
        assert bound is not None
        assert all(map(int.__le__, least, bound)), one
        assert all(map(int.__le__, bound, cost)), one


def _boxes(network: FusableNetwork, span: LayerSpan) -> tuple[TileBox, ...]:
    return boxes_of(stack_of(network, span).output, TileSizes.HALVES)


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
    bound = bounds.bound(StackChoice(LayerSpan(0, 8), tiling))
    assert bound is not None
    assert 0.7 * energy_mj < bound[0] / 1e12 < energy_mj
    assert 0.6 * mega_cycles < bound[1] / 1e6 < mega_cycles


def test_where_pixels_are_skipped_a_smaller_tile_may_load_less_than_the_whole_map() -> None:
    """The second layer sees every other column of what the first computes as a whole."""
    stack = chain(9, Window(1, 1, 1, 0), Window(1, 2, 1, 0))
    network = FusableNetwork("net", stack.inputs, stack.layers)
    costs = costs_on(network, SMALL, FusionObjective.DRAM)
    whole, single = (StackChoice(LayerSpan(0, 2), Tiling(side, side, OverlapMode.RECOMPUTE)) for side in (5, 1))
    (most,), (least,) = (costs.costs([one]) for one in (whole, single))
    assert most is not None
    assert least is not None
    assert least < most
    every = replace(single, box=TileBox((1, 5), (1, 5), OverlapMode.RECOMPUTE))
    bound = costs.bound(every)
    assert bound is not None
    assert (0,) < bound <= least


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([SMALL, FREE, WIDE, REGISTERS, PARTS, *NARROW]),
    st.sampled_from(FusionObjective),
    st.data(),
)
def test_no_tiling_of_a_box_has_a_lower_bound_than_the_box(
    seed: int, accelerator: Accelerator, objective: FusionObjective, data: st.DataObject
) -> None:
    stack = random_stack(seed)
    network = FusableNetwork("net", stack.inputs, stack.layers)
    costs = costs_on(network, accelerator, objective)
    span = data.draw(st.sampled_from(legal_spans(network)))
    boxes = list(boxes_of(stack_of(network, span).output, TileSizes.ALL))
    box = data.draw(st.sampled_from(boxes))
    while box.count > 2 and data.draw(st.booleans()):
        box = data.draw(st.sampled_from(box.quarters()))
    least = costs.bound(StackChoice(span, box.tilings[0], box=box))
    assert least is not None
    for tiling in data.draw(st.lists(st.sampled_from(box.tilings), min_size=1, max_size=6)):
        bound = costs.bound(StackChoice(span, tiling))
        assert bound is None or all(map(int.__le__, least, bound)), (box, tiling)


def test_registers_of_one_weight_and_one_sum_cannot_both_be_used_again() -> None:
    """A weight has 256 uses, 16 in a cycle: it is fetched 16 times, unless sums of 16 products go and come instead."""
    layer = Layer(k=16, c=16, p=16, q=16)
    accelerator = load_accelerator("meta-prototype-df")
    machine = MachineFloors(accelerator, AnyUnrolling(accelerator))
    reuse = reuse_floors(machine.of([layer]))
    near = machine.homes(Operand.WEIGHT).index("weight_local_buffer")
    of_weights = reuse.weight_pj(np.array([256.0]))[:, near, 0]
    fetched_pj = 8 * 17.2 / 512
    assert of_weights.min() < 2 * fetched_pj
    assert (of_weights + 16 * reuse.more_per_output[:, 0]).min() >= 16 * fetched_pj


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([SMALL, WIDE, PARTS]), st.sampled_from(FusionObjective), st.data())
def test_as_defines_counts_no_stack_of_all_layers_costs_less_than_the_floor(
    seed: int, accelerator: Accelerator, objective: FusionObjective, data: st.DataObject
) -> None:
    stack = random_stack(seed)
    network = FusableNetwork("net", stack.inputs, stack.layers)
    costs = costs_on(network, accelerator, objective, "all-defines")
    tilings = tilings_of(stack.output, TileSizes.HALVES)
    whole = StackChoice(LayerSpan(0, len(stack.layers)), data.draw(st.sampled_from(tilings)))
    (cost,) = costs.costs([whole])
    assert cost is None or all(map(int.__le__, costs.floor(), cost))


@pytest.mark.parametrize("objective", [each for each in FusionObjective if each is not FusionObjective.DRAM])
def test_as_defines_counts_convolutions_have_a_floor(objective: FusionObjective) -> None:
    stack = chain(9, Window(3, 1, 1, 0), Window(3, 1, 1, 0), channels=4)
    network = FusableNetwork("net", stack.inputs, stack.layers)
    assert any(costs_on(network, SMALL, objective, "all-defines").floor())


PORTS = (Port(Direction.READ_WRITE, 64),)
INPUT, WEIGHT, OUTPUT = Operand.INPUT, Operand.WEIGHT, Operand.OUTPUT
Level = tuple[str, int, tuple[Operand, ...], tuple[str, ...] | None, float, float]
"""Name, bytes, operands, dimensions that it serves, pJ of a read and of a write of a byte."""


def buffer(capacity_bytes: int = 4000) -> Level:
    return "buffer", capacity_bytes, (INPUT, WEIGHT, OUTPUT), None, 0.0, 0.0


@dataclass(frozen=True)
class Hard:
    layer: FusableLayer
    source: FeatureMap
    levels: Sequence[Level]
    tile: tuple[int, int]
    is_of_parts: bool = False
    dimensions: Mapping[str, int] = field(default_factory=lambda: {"K": 1, "C": 1})
    dram_pj: float = 0.0

    def machine(self) -> Accelerator:
        levels = tuple(
            MemoryLevel(
                Memory(name, capacity, 1, holds),
                serves,
                is_scratchpad=name == "buffer",
                access=Access(8, read_pj, write_pj),
                ports=PORTS,
            )
            for name, capacity, holds, serves, read_pj, write_pj in self.levels
        )
        dram = Dram(Access(8, self.dram_pj, self.dram_pj), PORTS)
        array = ComputeArray(dict(self.dimensions), None, 0.0)
        return Accelerator("hard", (levels[-1].memory,), levels, None, array, dram)

    def mapper(self, method: str) -> tuple[Mapper, Sharing]:
        machine = self.machine()
        if self.is_of_parts:
            return FixedUnrolling(TemporalMethod(method)), GivenUnrolling(unrolling_groups(machine), unrollings_for)
        mapper = LayerMapper(METHODS[method], FusionObjective.ENERGY.of_layers, Run())
        return mapper, AnyUnrolling(machine, every_memory_keeps=True)


def hard_of(
    size: tuple[int, int, int],
    windows: tuple[Window, Window],
    levels: Sequence[Level],
    tile: tuple[int, int],
    *,
    channels: int = 1,
    partial_bits: int = 8,
    is_of_parts: bool = False,
    dimensions: Mapping[str, int] | None = None,
    dram_pj: float = 0.0,
) -> Hard:
    source = FeatureMap("in", *size)
    layer = convolution(source, "y", *windows, channels)
    layer = replace(layer, layer=replace(layer.layer, partial_bits=partial_bits))
    return Hard(layer, source, levels, tile, is_of_parts, dimensions or {"K": 1, "C": 1}, dram_pj)


def rounded_up() -> Hard:
    source = FeatureMap("in", 1, 1, 3)
    layer = pool(source, "y", ONE, ONE)
    layer = replace(layer, layer=replace(layer.layer, partial_bits=24))
    levels = [("near", 8, (INPUT, OUTPUT), (), 0.0, 1.0), buffer()]
    return Hard(layer, source, levels, (3, 1), is_of_parts=True, dimensions={"OX": 2})


HARD_REGISTERS = [("w", 1, (WEIGHT,), (), 0.0, 1.0), ("s", 1, (OUTPUT,), (), 0.8, 0.8), buffer()]
CASES = {
    "tiles differ in who is reused, weights or sums": hard_of((2, 20, 11), (ONE, ONE), HARD_REGISTERS, (10, 1)),
    "only one of several instances gets a sum back": hard_of(
        (4, 4, 4),
        (Window(3, 1, 1, 0),) * 2,
        [
            ("w", 1, (WEIGHT,), (), 0.0, 10.0),
            ("s", 1, (OUTPUT,), (), 0.0, 1.0),
            ("t", 1, (OUTPUT,), (), 0.0, 0.0),
            buffer(),
        ],
        (2, 2),
        dimensions={"C": 4},
    ),
    "stride and dilation have a common divisor": hard_of(
        (1, 41, 41),
        (Window(2, 2, 2, 0),) * 2,
        [("reg", 64, (INPUT, WEIGHT, OUTPUT), None, 0.0, 0.0), buffer(1000)],
        (20, 20),
        is_of_parts=True,
        dram_pj=10.0,
    ),
    "taps lie in the padding": hard_of(
        (4, 3, 3), (Window(3, 1, 2, 1),) * 2, [("reg", 1, (INPUT,), None, 0.0, 100.0), buffer(1000)], (1, 1)
    ),
    "parts are rounded up where nothing is to be added": rounded_up(),
    "instances are rounded up": hard_of(
        (3, 18, 3),
        (Window(3, 1, 1, 0), ONE),
        [
            ("w", 1, (WEIGHT,), (), 0.0, 0.0),
            ("s", 2, (OUTPUT,), ("K",), 0.0, 0.0),
            ("t", 400, (OUTPUT,), ("K", "OX"), 0.0, 1.0),
            ("wb", 400, (WEIGHT,), None, 50.0, 0.0),
            buffer(),
        ],
        (3, 16),
        channels=2,
        is_of_parts=True,
        dimensions={"K": 2, "OX": 2, "C": 2},
    ),
}


@pytest.mark.parametrize("name", with_slow(CASES, lambda name: name.startswith("only one of several")))
@pytest.mark.parametrize("objective", series([FusionObjective.DRAM, FusionObjective.ENERGY], 1))
def test_the_bound_is_no_higher_than_the_cost(name: str, objective: FusionObjective) -> None:
    case = CASES[name]
    for method in ("loma", "uneven") if case.is_of_parts else ("loma", "exact"):
        mapper, sharing = case.mapper(method)
        network = FusableNetwork("net", (case.source,), (case.layer,))
        costs = StackCosts(network, case.machine(), objective, Memoized(mapper), sharing=sharing)
        choice = StackChoice(LayerSpan(0, 1), Tiling(*case.tile, OverlapMode.RECOMPUTE))
        (cost,), bound = costs.costs([choice]), costs.bound(choice)
        assert cost is not None
        assert bound is not None
        assert bound <= cost
