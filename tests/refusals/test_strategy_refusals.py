"""The nearest legal strategy and the nearest illegal ones for every rule of strategies and their mappings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from onchip.answer.document import Claim
from onchip.answer.layer_mapping import Kept, Loop
from onchip.answer.result import Status
from onchip.answer.schedule import Homes
from onchip.answer.stacks import LayerInNetwork, OverlapMode, StackStrategy, Tiling
from onchip.answer.strategy import FusionStrategy, StrategyFigures
from onchip.arch.memory import Operand
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.ir.window import Window
from onchip.verify.rules import Rule
from onchip.verify.stack.verifier import RunCost, objective_range
from onchip.verify.strategy import verify_strategy, verify_strategy_claim
from support.fusion_strategies import StrategyCase, small_case, with_kept, with_nest

CHIP = accelerator_from_yaml(
    """\
format: onchip-accelerator
version: 1
name: chip
array: {dimensions: {K: 2, OX: 2}, mac_energy_pj: 0}
memories:
  - {name: weights, capacity: 64B, holds: [weight]}
  - {name: near, capacity: 64B, serves: [K]}
  - {name: buffer, capacity: 64B, scratchpad: true}
""",
    "chip.yaml",
)
LAYERS = (
    LayerInNetwork("a", ("x",), "A", 8, 6, 256),
    LayerInNetwork("b", ("A",), "B", 8, 6, 256),
    LayerInNetwork("c", ("A", "B"), "C", 8, 6, 256),
    LayerInNetwork("d", ("C",), "D", 4, 3, 128),
)
WHOLE = Tiling(8, 6, OverlapMode.RECOMPUTE)
LEGAL = FusionStrategy(
    (
        StackStrategy(("a",), WHOLE, "buffer"),
        StackStrategy(("b", "c"), Tiling(8, 3, OverlapMode.FULLY_CACHED), "buffer"),
        StackStrategy(("d",), Tiling(4, 3, OverlapMode.RECOMPUTE)),
    )
)
ENERGIES = {("buffer", "copy"): 1.0, ("a.b", "weight"): 0.25, ("macs", "mac"): 0.25}
FIGURES = StrategyFigures(1500, 1.5, 7.0, 3, 64, ENERGIES, {"buffer": 64, "a.b": 8})
CLAIM = Claim("exact", Status.OPTIMAL, "energy", 1500, 1500, FIGURES.named)


def rules(strategy: FusionStrategy, layers: Sequence[LayerInNetwork] = LAYERS) -> list[Rule]:
    return [violation.rule for violation in verify_strategy(layers, CHIP, strategy)]


def stacked(*stacks: tuple[str, ...]) -> FusionStrategy:
    """Return a strategy with tiles of one pixel, and all maps between stacks in DRAM."""
    return FusionStrategy(tuple(StackStrategy(one, Tiling(1, 1, OverlapMode.RECOMPUTE)) for one in stacks))


def with_stack(at: int, stack: StackStrategy) -> FusionStrategy:
    stacks = list(LEGAL.stacks)
    stacks[at] = stack
    return FusionStrategy(tuple(stacks))


def test_the_legal_one_is_legal() -> None:
    assert rules(LEGAL) == []
    assert rules(stacked(("a", "b", "c", "d"))) == []
    assert verify_strategy_claim(CLAIM, FIGURES) == ()


@pytest.mark.parametrize(
    ("strategy", "rule", "subject"),
    [
        (stacked(("a", "b", "c", "d", "e")), Rule.UNKNOWN_LAYER, "e"),
        (stacked(("a", "b", "c")), Rule.LAYER_MISSING, "d"),
        (stacked(("b",), ("a", "c", "d")), Rule.OUT_OF_ORDER, "a"),
        (stacked(("a", "b"), ("c", "d")), Rule.OVER_A_BRANCH, "a"),
        (with_stack(1, StackStrategy(("b", "c"), Tiling(9, 3, WHOLE.mode))), Rule.TILE_EXCEEDS_MAP, "stack 1"),
        (with_stack(1, StackStrategy(("b", "c"), Tiling(8, 7, WHOLE.mode))), Rule.TILE_EXCEEDS_MAP, "stack 1"),
        (with_stack(2, StackStrategy(("d",), Tiling(5, 3, WHOLE.mode))), Rule.TILE_EXCEEDS_MAP, "stack 2"),
        (with_stack(0, StackStrategy(("a",), WHOLE, "nowhere")), Rule.NO_SUCH_HOME, "nowhere"),
        (with_stack(0, StackStrategy(("a",), WHOLE, "weights")), Rule.NOT_HELD, "weights"),
        (with_stack(0, StackStrategy(("a",), WHOLE, "near")), Rule.NOT_HELD, "near"),
        (with_stack(2, StackStrategy(("d",), Tiling(4, 3, WHOLE.mode), "buffer")), Rule.OUTPUT_NOT_IN_DRAM, "d"),
    ],
)
def test_each_rule_refuses_what_breaks_it(strategy: FusionStrategy, rule: Rule, subject: str) -> None:
    found = verify_strategy(LAYERS, CHIP, strategy)
    assert (rule, subject) in [(one.rule, one.subject) for one in found]
    assert {one.rule for one in found} <= {rule, Rule.HOME_EXCEEDED}


def test_an_output_of_the_network_ends_a_stack() -> None:
    lost = (*LAYERS[:3], replace(LAYERS[3], reads=("B",)))
    assert rules(stacked(("a", "b", "c"), ("d",)), lost) == [Rule.OVER_A_BRANCH]
    unread = (*LAYERS[:2], replace(LAYERS[2], reads=("A",)), replace(LAYERS[3], reads=("C",)))
    assert rules(stacked(("a", "b", "c", "d")), unread) == [Rule.OUTPUT_LOST]
    assert rules(stacked(("a",), ("b",), ("c", "d")), unread) == []


def test_an_output_of_the_network_that_is_read_ends_a_stack_and_lies_in_dram() -> None:
    """The second stack writes C, and the third reads it."""
    leaving = (*LAYERS[:2], replace(LAYERS[2], is_output=True), LAYERS[3])
    in_dram = with_stack(1, replace(LEGAL.stacks[1], output_home="dram"))
    assert rules(in_dram, leaving) == []
    assert rules(LEGAL, leaving) == [Rule.OUTPUT_NOT_IN_DRAM]
    (found,) = verify_strategy(leaving, CHIP, stacked(("a",), ("b", "c", "d")))
    assert str(found) == "output-lost: 'c': 'C' leaves the network"


def test_maps_that_lie_in_a_memory_at_a_time_fit_together() -> None:
    """A (32 bytes) is alive while C (32) is written: 64 bytes hold both, without a spare bit."""
    larger = (*LAYERS[:2], replace(LAYERS[2], output_bits=257), LAYERS[3])
    assert rules(LEGAL, larger) == [Rule.HOME_EXCEEDED]


def test_a_map_that_is_read_no_more_takes_no_room() -> None:
    chain = (LAYERS[0], LAYERS[1], replace(LAYERS[2], reads=("B",)), LAYERS[3])
    kept = (StackStrategy((one.name,), WHOLE, "buffer") for one in chain[:3])
    every = FusionStrategy((*kept, StackStrategy(("d",), Tiling(4, 3, OverlapMode.RECOMPUTE))))
    assert rules(every, chain) == []
    assert rules(every) == [Rule.HOME_EXCEEDED]


@pytest.mark.parametrize(
    ("claim", "rule", "subject"),
    [
        (replace(CLAIM, figures=FIGURES.named | {"energy_pj": 1.6}), Rule.FIGURE_DIFFERS, "result.energy_pj"),
        (replace(CLAIM, figures=FIGURES.named | {"macs": 4}), Rule.FIGURE_DIFFERS, "result.macs"),
        (replace(CLAIM, figures=FIGURES.named | {"dram_bits": 63}), Rule.FIGURE_DIFFERS, "result.dram_bits"),
        (replace(CLAIM, figures=FIGURES.named | {"latency_cycles": 8.0}), Rule.FIGURE_DIFFERS, "result.latency_cycles"),
        (replace(CLAIM, objective_value=1499, lower_bound=1499), Rule.FIGURE_DIFFERS, "result.objective_value"),
        (replace(CLAIM, objective_value=1501), Rule.FIGURE_DIFFERS, "result.objective_value"),
        (
            replace(CLAIM, figures=FIGURES.named | {"energies_pj.a.b.weight": 0.5}),
            Rule.FIGURE_DIFFERS,
            "result.energies_pj.a.b.weight",
        ),
        (
            replace(CLAIM, figures=FIGURES.named | {"energies_pj.buffer.weight": 0.5}),
            Rule.FIGURE_DIFFERS,
            "result.energies_pj.buffer.weight",
        ),
        (
            replace(CLAIM, figures={name: one for name, one in FIGURES.named.items() if "copy" not in name}),
            Rule.FIGURE_DIFFERS,
            "result.energies_pj.buffer.copy",
        ),
        (replace(CLAIM, figures=FIGURES.named | {"peak_bytes.a.b": 7}), Rule.FIGURE_DIFFERS, "result.peak_bytes.a.b"),
        (replace(CLAIM, lower_bound=1501), Rule.BOUND_ABOVE_OBJECTIVE, "result.lower_bound"),
        (replace(CLAIM, lower_bound=1499), Rule.OPTIMAL_UNPROVEN, "result.lower_bound"),
        (replace(CLAIM, status=Status.UNKNOWN), Rule.ANSWER_DENIED, "result.status"),
    ],
)
def test_each_claim_is_held_against_the_figures(claim: Claim, rule: Rule, subject: str) -> None:
    every = verify_strategy_claim(claim, FIGURES)
    found = every[0]
    assert (found.rule, found.subject) == (rule, subject)
    assert {one.rule for one in every[1:]} <= {Rule.OPTIMAL_UNPROVEN}
    assert "\n" not in str(found)


def test_a_claim_that_says_no_parts_is_held_against_the_sums_alone() -> None:
    sums = {name: one for name, one in FIGURES.named.items() if "." not in name}
    assert verify_strategy_claim(replace(CLAIM, figures=sums), FIGURES) == ()


def test_without_figures_only_what_contradicts_itself_is_found() -> None:
    other = replace(CLAIM, figures=FIGURES.named | {"macs": 9})
    assert verify_strategy_claim(other, None) == ()
    (found,) = verify_strategy_claim(replace(other, lower_bound=1501), None)
    assert found.rule is Rule.BOUND_ABOVE_OBJECTIVE


def test_bounds_lie_in_order_below_the_value() -> None:
    for seed in range(200):
        chance = Random(seed)
        low, among, value = (chance.randint(1, 4) for _ in range(3))
        claim = Claim("exact", Status.FEASIBLE, "energy", value, low, bound_among=chance.choice((None, among)))
        wrong = {"result.lower_bound"} if low > value else set()
        if claim.bound_among is not None and sorted((low, among, value)) != [low, among, value]:
            wrong.add("result.bound_among")
        found = verify_strategy_claim(claim, None)
        assert {(one.rule, one.subject) for one in found} == {(Rule.BOUND_ABOVE_OBJECTIVE, one) for one in wrong}


def test_whole_figures_are_held_to_the_last_digit_and_real_ones_to_the_twelfth() -> None:
    large = StrategyFigures(10**15, 1e12, 1e12, 10**15, 10**15)
    claim = Claim("exact", Status.FEASIBLE, "energy", 10**15, 0, large.named)
    wrong = {
        name: verify_strategy_claim(replace(claim, figures=large.named | {name: said}), large)
        for name, said in (("macs", 10**15 + 1), ("dram_bits", 10**15 - 1), ("energy_pj", 1e12 + 2))
    }
    assert {name: [one.subject for one in found] for name, found in wrong.items()} == {
        name: [f"result.{name}"] for name in wrong
    }
    near = replace(claim, figures=large.named | {"energy_pj": 1e12 + 0.5, "latency_cycles": 1e12 - 0.5})
    assert verify_strategy_claim(near, large) == ()


def test_an_objective_that_rounding_leads_to_is_so() -> None:
    """Energies of 1.5 and 2.5 femtojoules add up to 3 to 5 by their last digits, and to 4 if rounded."""
    objectives = objective_range("energy", [RunCost(0.0015, 3, 8), RunCost(0.0025, 4.5, 9)])
    assert (objectives.least, objectives.nearest, objectives.greatest) == (3, 4, 5)
    for said, is_so in ((2, False), (3, True), (4, True), (5, True), (6, False)):
        claim = Claim("exact", Status.FEASIBLE, "energy", said, 0, {})
        assert (verify_strategy_claim(claim, FIGURES, objectives) == ()) == is_so


def test_an_unknown_energy_can_not_be_claimed() -> None:
    figures = StrategyFigures(7, None, 7.0, 3, 64, {("buffer", "copy"): 1.0})
    claim = Claim("exact", Status.FEASIBLE, "latency", 7, 0, figures.named)
    assert "energy_pj" not in figures.named
    assert verify_strategy_claim(claim, figures) == ()
    assert verify_strategy_claim(replace(claim, figures=figures.named | {"peak_bytes.nowhere": 0}), figures) == ()
    for name in ("energy_pj", "energies_pj.macs.mac"):
        for said in (0, 1.0):
            (violation,) = verify_strategy_claim(replace(claim, figures=figures.named | {name: said}), figures)
            assert (violation.rule, violation.subject) == (Rule.FIGURE_DIFFERS, f"result.{name}")
            assert "unknown, as the accelerator does not state all energies" in violation.detail


def test_an_objective_without_energy_needs_none() -> None:
    stacks = [RunCost(None, 3, 8), RunCost(2.5, 4, 9)]
    assert [objective_range(objective, stacks).nearest for objective in ("latency", "dram")] == [7, 17]
    for objective in ("energy", "edp"):
        with pytest.raises(ValueError, match=objective):
            objective_range(objective, stacks)


@pytest.mark.parametrize(("objective", "value"), [("energy", 4000), ("latency", 7), ("edp", 28000), ("dram", 17)])
def test_an_objective_is_a_sum_over_stacks_or_a_product_of_sums(objective: str, value: int) -> None:
    found = objective_range(objective, [RunCost(1.5, 3, 8), RunCost(2.5, 4, 9)])
    assert (found.least, found.nearest, found.greatest) == (value, value, value)
    with pytest.raises(ValueError, match="power"):
        objective_range("power", [])


MAPPED = small_case()
FIRST = MAPPED.strategy.mappings[0]
INSIDE = FIRST.mapping.nest


def broken_rules(case: StrategyCase) -> list[tuple[Rule, str]]:
    return [(one.rule, one.subject) for one in case.replayed().violations]


def test_the_legal_one_is_legal_and_has_figures() -> None:
    replayed = MAPPED.replayed()
    assert replayed.violations == ()
    assert replayed.figures is not None
    assert replayed.priced == len(MAPPED.strategy.mappings) > 4


def test_equal_layers_of_a_stack_share_a_mapping() -> None:
    point = Window(1, 1, 1, 0)
    case = small_case(point, point, point)
    shared = next(one for one in case.strategy.mappings if len(one.names) > 1)
    assert case.replayed().violations == ()
    alone = case.with_mapping(case.strategy.mappings.index(shared), lambda one: replace(one, names=(one.names[0],)))
    assert broken_rules(alone) == [(Rule.MAPPING_MISSING, shared.names[1])]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda one: with_nest(one, *INSIDE[1:]), Rule.TOO_FEW_ITERATIONS),
        (lambda one: with_nest(one, *INSIDE, Loop(INSIDE[0].dimension, 2)), Rule.TOO_MANY_ITERATIONS),
        (lambda one: with_nest(one, *INSIDE, Loop("G", 1, "lane")), Rule.NO_SUCH_DIMENSION),
        (lambda one: with_kept(one, Operand.WEIGHT, Kept("nowhere", 0)), Rule.NO_SUCH_MEMORY),
        (lambda one: with_kept(one, Operand.INPUT, Kept("weights", 0)), Rule.NOT_HELD),
        (lambda one: with_kept(one, Operand.WEIGHT, Kept("shared", 0), Kept("weights", 0)), Rule.MISPLACED),
        (lambda one: with_kept(one, Operand.INPUT, Kept("shared", 0)), Rule.MISPLACED),
    ],
)
def test_a_mapping_that_is_not_legal_is_told_with_its_number(change: object, rule: Rule) -> None:
    case = MAPPED.with_mapping(0, change)  # type: ignore[arg-type]
    found = broken_rules(case)
    assert found
    assert {one for one, _ in found} == {rule}
    assert all(subject.startswith("mapping 0, ") for _, subject in found)
    assert case.replayed().figures is None


def test_tiles_have_the_room_that_operands_and_others_leave() -> None:
    """The weight memory of 64 bytes holds all of them; 71 bytes do not hold 72."""
    at = next(at for at, one in enumerate(MAPPED.strategy.mappings) if one.homes.weight is None)
    loops = len(MAPPED.strategy.mappings[at].mapping.nest)
    kept = (Kept("weights", loops),)
    case = MAPPED.with_mapping(at, lambda one: with_kept(one, Operand.WEIGHT, *kept, Kept("shared", loops)))
    assert broken_rules(case) == []
    smaller = tuple(
        replace(one, memory=replace(one.memory, capacity_bytes=35)) if one.memory.name == "weights" else one
        for one in case.chip.levels
    )
    narrow = replace(case.chip, levels=smaller, scratchpads=tuple(one.memory for one in smaller))
    assert (Rule.CAPACITY_EXCEEDED, f"mapping {at}, weights") in broken_rules(replace(case, chip=narrow))


@pytest.mark.parametrize("at", range(len(MAPPED.strategy.mappings)))
def test_no_mapping_may_be_missing_or_another_s(at: int) -> None:
    mappings = MAPPED.strategy.mappings
    name = mappings[at].names[0]
    assert (Rule.MAPPING_MISSING, name) in broken_rules(MAPPED.with_mappings(*mappings[:at], *mappings[at + 1 :]))
    other = "m2" if name == "m1" else "m1"
    for change in (
        {"names": (other,)},
        {"stack": 1},
        {"homes": Homes("near", None, "near")} if mappings[at].homes != Homes("near", None, "near") else {"stack": 2},
        {"layer": replace(mappings[at].layer, partial_bits=32)},
        {"room_bytes": {**mappings[at].room_bytes, "shared": 7}},
    ):
        found = broken_rules(MAPPED.with_mapping(at, lambda one, change=change: replace(one, **change)))  # type: ignore[misc]
        assert found == [(Rule.MAPPING_MISSING, name)], change


def test_no_mapping_may_be_there_that_no_tile_runs_by() -> None:
    mappings, number = MAPPED.strategy.mappings, f"mapping {len(MAPPED.strategy.mappings)}"
    for extra in (
        replace(FIRST, stack=1),
        replace(FIRST, names=("m7",)),
        replace(FIRST, layer=replace(FIRST.layer, p=1)),
        replace(FIRST, homes=Homes()),
        FIRST,
    ):
        assert broken_rules(MAPPED.with_mappings(*mappings, extra))[0] == (Rule.MAPPING_UNUSED, number)


def test_a_layer_that_does_not_run_by_a_mapping_is_not_named_in_it() -> None:
    named = MAPPED.with_mapping(0, lambda one: replace(one, names=(*one.names, "m2")))
    assert broken_rules(named) == [(Rule.MAPPING_UNUSED, "mapping 0")]


def test_a_tile_sees_more_than_padding() -> None:
    """The first pixel of a map that is padded by one reads only zeros through a kernel of one."""
    legal, padded = Window(3, 1, 1, 1), Window(1, 1, 1, 1)
    case = small_case(legal, tile=(1, 1))
    assert broken_rules(case) == []
    (layer,) = case.network.layers
    read = replace(layer.reads[0], rows=padded, columns=padded)
    blind = replace(case.network, layers=(replace(layer, reads=(read,)),))
    assert broken_rules(replace(case, network=blind)) == [(Rule.NOT_IN_TILES, "stack 0")]


def test_loops_may_run_longer_than_a_layer_where_units_count_in_parts() -> None:
    """DeFiNES lets a dimension of two units run three iterations in two steps."""
    case = small_case(Window(1, 1, 1, 0), channels=3)
    array = replace(case.chip.array, dimensions={"K": 2}) if case.chip.array else None
    case = replace(case, chip=replace(case.chip, array=array))

    def padded(case: StrategyCase) -> StrategyCase:
        for at, one in enumerate(case.strategy.mappings):
            inside = [loop for loop in one.mapping.nest if loop.dimension != "K"]
            nest = (Loop("K", 2, "K"), Loop("K", 2), *inside)
            case = case.with_mapping(at, lambda each, nest=nest: with_nest(each, *nest))  # type: ignore[misc]
        return case

    assert {rule for rule, _ in broken_rules(padded(case))} == {Rule.TOO_MANY_ITERATIONS}
    assert broken_rules(padded(replace(case, as_defines=True))) == []


def test_where_units_count_in_parts_the_cost_model_measures_capacities() -> None:
    case = replace(MAPPED, as_defines=True)
    assert broken_rules(case) == []
    at = next(at for at, one in enumerate(MAPPED.strategy.mappings) if one.homes.weight is None)
    loops = len(MAPPED.strategy.mappings[at].mapping.nest)
    full = case.with_mapping(
        at, lambda one: with_kept(one, Operand.WEIGHT, Kept("weights", loops), Kept("shared", loops))
    )
    assert broken_rules(full) == []
    smaller = tuple(
        replace(one, memory=replace(one.memory, capacity_bytes=35)) if one.memory.name == "weights" else one
        for one in case.chip.levels
    )
    narrow = replace(case.chip, levels=smaller, scratchpads=tuple(one.memory for one in smaller))
    assert (Rule.CAPACITY_EXCEEDED, f"mapping {at}") in broken_rules(replace(full, chip=narrow))


def test_groups_may_be_unrolled_along_every_dimension_where_units_count_in_parts() -> None:
    case = small_case(Window(1, 1, 1, 0))
    array = replace(case.chip.array, dimensions={"K": 2}) if case.chip.array else None
    case = replace(case, chip=replace(case.chip, array=array))
    for at, one in enumerate(case.strategy.mappings):
        nest = (Loop("G", 2, "K"), *one.mapping.nest)
        case = case.with_mapping(at, lambda each, nest=nest: with_nest(each, *nest))  # type: ignore[misc]
    assert Rule.NOT_UNROLLED in {rule for rule, _ in broken_rules(case)}
    assert Rule.NOT_UNROLLED not in {rule for rule, _ in broken_rules(replace(case, as_defines=True))}
