"""The mapping of each loop nest of a schedule, and the violations for a missing or an extra one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.schedule import Homes, ScheduledMapping
from onchip.ir.layer import Layer
from onchip.verify.rules import Rule
from onchip.verify.schedule.machine import MappingsInUse, NestAtHomes
from support.schedule_cases import CONV2, NEAR_AND_FAR, NestFigures, mapped, one_by_one, price

AT_HOMES = Homes("near", "far", None)
FAR_AND_SUMS = {"near": 16 * 16, "far": 8 * 8}


def in_use(*mappings: ScheduledMapping) -> MappingsInUse:
    return MappingsInUse(mappings, NEAR_AND_FAR, price)


def nest(*, is_input: bool = False) -> NestAtHomes:
    return NestAtHomes(1, CONV2, AT_HOMES, is_input)


def test_a_nest_without_a_mapping_says_where_its_operands_are() -> None:
    found = in_use(mapped(0, CONV2, AT_HOMES), mapped(1, CONV2, Homes()))
    assert found.run("conv2", nest()) is None
    (violation,) = found.violations
    assert (violation.rule, violation.subject) == (Rule.MAPPING_MISSING, "conv2")
    where = "a loop nest of 32 multiply-accumulates with input in near, weight in far, output in dram"
    assert violation.detail == f"stack 1 has no mapping of {where}"
    assert found.priced == 0


def test_mappings_by_which_nothing_runs_are_said_by_number() -> None:
    found = in_use(mapped(1, CONV2, Homes()), mapped(1, CONV2, AT_HOMES), mapped(2, Layer(k=2), AT_HOMES))
    assert found.run("conv2", nest()) is not None
    assert [(one.rule, one.subject) for one in found.unused()] == [
        (Rule.MAPPING_UNUSED, "mapping 0"),
        (Rule.MAPPING_UNUSED, "mapping 2"),
    ]
    first, last = (one.detail for one in found.unused())
    assert first.startswith("no Compute of stack 1 runs a loop nest of 32 multiply-accumulates with input in dram")
    assert last.startswith("no Compute of stack 2 runs a loop nest of 2 multiply-accumulates with input in near")


def test_a_mapping_is_priced_once_for_parameters_and_once_for_maps() -> None:
    asked = []

    def priced(problem: LayerProblem, mapping: LayerMapping) -> NestFigures:
        asked.append(problem.weight_is_an_input)
        return price(problem, mapping)

    found = MappingsInUse((mapped(1, CONV2, Homes("near", None, None)),), NEAR_AND_FAR, priced)
    streamed = replace(nest(), homes=Homes("near", None, None))
    first = found.run("conv2", streamed)
    assert first is not None
    assert found.run("again", streamed) is first
    assert found.run("maps", replace(streamed, is_input=True)) is not None
    assert asked == [False, True]
    assert (found.priced, found.violations, list(found.unused())) == (2, [], [])


def test_an_illegal_mapping_is_said_once_and_is_not_priced() -> None:
    found = in_use(replace(mapped(1, CONV2, AT_HOMES), mapping=one_by_one(replace(CONV2, q=3))))
    assert found.run("conv2", nest()) is None
    assert found.run("conv2", nest()) is None
    (violation,) = found.violations
    assert (violation.rule, violation.subject) == (Rule.TOO_FEW_ITERATIONS, "mapping 0, Q")
    assert found.priced == 0
    assert list(found.unused()) == []


def test_a_home_that_does_not_hold_the_operand_is_none() -> None:
    """The near memory holds maps alone: it holds weights only if they are a map."""
    at_near = Homes("far", "near", "far")
    found = in_use(mapped(1, CONV2, at_near))
    assert found.run("maps", NestAtHomes(1, CONV2, at_near, is_input=True)) is not None
    assert found.violations == []
    assert found.run("conv2", NestAtHomes(1, CONV2, at_near, is_input=False)) is None
    assert [(one.rule, one.subject) for one in found.violations] == [(Rule.NOT_HELD, "mapping 0")]


@pytest.mark.parametrize(
    ("homes", "kept", "bits"),
    [
        (Homes("far", "far", "far"), {"input": [Kept("near", 2)]}, {"near": 8 * 8, "far": 16 * 16}),
        (Homes(None, None, "near"), {"weight": [Kept("register", 0)], "input": [Kept("far", 2)]}, FAR_AND_SUMS),
    ],
)
def test_a_workspace_is_all_that_lies_in_addressed_memories_beside_operands(
    homes: Homes, kept: dict[str, list[Kept]], bits: dict[str, int]
) -> None:
    """Partial sums are 16 bits wider than the output, if they are stored at its home."""
    found = in_use(mapped(1, CONV2, homes, **kept)).run("conv2", NestAtHomes(1, CONV2, homes, is_input=False))
    assert found is not None
    assert found.workspace_bits == bits


def test_the_same_mapping_in_several_stacks_is_priced_once_and_judged_in_each() -> None:
    asked = []

    def priced(problem: LayerProblem, mapping: LayerMapping) -> NestFigures:
        asked.append(mapping)
        return price(problem, mapping)

    legal = mapped(1, CONV2, AT_HOMES)
    illegal = replace(legal, stack=3, mapping=one_by_one(replace(CONV2, q=3)))
    several = (legal, replace(legal, stack=2), illegal, replace(illegal, stack=4))
    found = MappingsInUse(several, NEAR_AND_FAR, priced)
    first, second, *wrong = (found.run("conv2", replace(nest(), stack=stack)) for stack in (1, 2, 3, 4))
    assert first is not None
    assert first == second
    assert wrong == [None, None]
    assert [one.subject for one in found.violations] == ["mapping 2, Q", "mapping 3, Q"]
    assert (asked, list(found.unused())) == ([legal.mapping], [])
