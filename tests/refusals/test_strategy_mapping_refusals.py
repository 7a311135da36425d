"""The nearest legal strategy and the nearest illegal ones for every rule of a strategy's mappings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.layer_mapping import Kept, Loop
from onchip.answer.schedule import Homes
from onchip.arch.memory import Operand
from onchip.ir.window import Window
from onchip.verify.rules import Rule
from support.fusion_strategies import StrategyCase, small_case, with_kept, with_nest

LEGAL = small_case()
FIRST = LEGAL.strategy.mappings[0]
INSIDE = FIRST.mapping.nest


def rules(case: StrategyCase) -> list[tuple[Rule, str]]:
    return [(one.rule, one.subject) for one in case.replayed().violations]


def test_the_legal_one_is_legal_and_has_figures() -> None:
    replayed = LEGAL.replayed()
    assert replayed.violations == ()
    assert replayed.figures is not None
    assert replayed.priced == len(LEGAL.strategy.mappings) > 4


def test_equal_layers_of_a_stack_share_a_mapping() -> None:
    point = Window(1, 1, 1, 0)
    case = small_case(point, point, point)
    shared = next(one for one in case.strategy.mappings if len(one.names) > 1)
    assert case.replayed().violations == ()
    alone = case.with_mapping(case.strategy.mappings.index(shared), lambda one: replace(one, names=(one.names[0],)))
    assert rules(alone) == [(Rule.MAPPING_MISSING, shared.names[1])]


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
    case = LEGAL.with_mapping(0, change)  # type: ignore[arg-type]
    found = rules(case)
    assert found
    assert {one for one, _ in found} == {rule}
    assert all(subject.startswith("mapping 0, ") for _, subject in found)
    assert case.replayed().figures is None


def test_tiles_have_the_room_that_operands_and_others_leave() -> None:
    """The weight memory of 64 bytes holds all of them; 71 bytes do not hold 72."""
    at = next(at for at, one in enumerate(LEGAL.strategy.mappings) if one.homes.weight is None)
    loops = len(LEGAL.strategy.mappings[at].mapping.nest)
    kept = (Kept("weights", loops),)
    case = LEGAL.with_mapping(at, lambda one: with_kept(one, Operand.WEIGHT, *kept, Kept("shared", loops)))
    assert rules(case) == []
    smaller = tuple(
        replace(one, memory=replace(one.memory, capacity_bytes=35)) if one.memory.name == "weights" else one
        for one in case.chip.levels
    )
    narrow = replace(case.chip, levels=smaller, scratchpads=tuple(one.memory for one in smaller))
    assert (Rule.CAPACITY_EXCEEDED, f"mapping {at}, weights") in rules(replace(case, chip=narrow))


@pytest.mark.parametrize("at", range(len(LEGAL.strategy.mappings)))
def test_no_mapping_may_be_missing_or_another_s(at: int) -> None:
    mappings = LEGAL.strategy.mappings
    name = mappings[at].names[0]
    assert (Rule.MAPPING_MISSING, name) in rules(LEGAL.with_mappings(*mappings[:at], *mappings[at + 1 :]))
    other = "m2" if name == "m1" else "m1"
    for change in (
        {"names": (other,)},
        {"stack": 1},
        {
            "homes": Homes(
                "near",
                None,
                "near",
            )
        }
        if mappings[at].homes != Homes("near", None, "near")
        else {"stack": 2},
        {"layer": replace(mappings[at].layer, partial_bits=32)},
        {"room_bytes": {**mappings[at].room_bytes, "shared": 7}},
    ):
        found = rules(LEGAL.with_mapping(at, lambda one, change=change: replace(one, **change)))  # type: ignore[misc]
        assert found == [(Rule.MAPPING_MISSING, name)], change


def test_no_mapping_may_be_there_that_no_tile_runs_by() -> None:
    mappings, number = LEGAL.strategy.mappings, f"mapping {len(LEGAL.strategy.mappings)}"
    for extra in (
        replace(FIRST, stack=1),
        replace(FIRST, names=("m7",)),
        replace(FIRST, layer=replace(FIRST.layer, p=1)),
        replace(FIRST, homes=Homes()),
        FIRST,
    ):
        assert rules(LEGAL.with_mappings(*mappings, extra))[0] == (Rule.MAPPING_UNUSED, number)


def test_a_layer_that_does_not_run_by_a_mapping_is_not_named_in_it() -> None:
    named = LEGAL.with_mapping(0, lambda one: replace(one, names=(*one.names, "m2")))
    assert rules(named) == [(Rule.MAPPING_UNUSED, "mapping 0")]


def test_a_tile_sees_more_than_padding() -> None:
    """The first pixel of a map that is padded by one reads only zeros through a kernel of one."""
    legal, padded = Window(3, 1, 1, 1), Window(1, 1, 1, 1)
    case = small_case(legal, tile=(1, 1))
    assert rules(case) == []
    (layer,) = case.network.layers
    read = replace(layer.reads[0], rows=padded, columns=padded)
    blind = replace(case.network, layers=(replace(layer, reads=(read,)),))
    assert rules(replace(case, network=blind)) == [(Rule.NOT_IN_TILES, "stack 0")]


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

    assert {rule for rule, _ in rules(padded(case))} == {Rule.TOO_MANY_ITERATIONS}
    assert rules(padded(replace(case, as_defines=True))) == []


def test_where_units_count_in_parts_the_cost_model_measures_capacities() -> None:
    case = replace(LEGAL, as_defines=True)
    assert rules(case) == []
    at = next(at for at, one in enumerate(LEGAL.strategy.mappings) if one.homes.weight is None)
    loops = len(LEGAL.strategy.mappings[at].mapping.nest)
    full = case.with_mapping(
        at, lambda one: with_kept(one, Operand.WEIGHT, Kept("weights", loops), Kept("shared", loops))
    )
    assert rules(full) == []
    smaller = tuple(
        replace(one, memory=replace(one.memory, capacity_bytes=35)) if one.memory.name == "weights" else one
        for one in case.chip.levels
    )
    narrow = replace(case.chip, levels=smaller, scratchpads=tuple(one.memory for one in smaller))
    assert (Rule.CAPACITY_EXCEEDED, f"mapping {at}") in rules(replace(full, chip=narrow))


def test_groups_may_be_unrolled_along_every_dimension_where_units_count_in_parts() -> None:
    case = small_case(Window(1, 1, 1, 0))
    array = replace(case.chip.array, dimensions={"K": 2}) if case.chip.array else None
    case = replace(case, chip=replace(case.chip, array=array))
    for at, one in enumerate(case.strategy.mappings):
        nest = (Loop("G", 2, "K"), *one.mapping.nest)
        case = case.with_mapping(at, lambda each, nest=nest: with_nest(each, *nest))  # type: ignore[misc]
    assert Rule.NOT_UNROLLED in {rule for rule, _ in rules(case)}
    assert Rule.NOT_UNROLLED not in {rule for rule, _ in rules(replace(case, as_defines=True))}
