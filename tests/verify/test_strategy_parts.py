"""Violations of a strategy's stacks and homes, in addition to the table of refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onchip.answer.document import Claim
from onchip.answer.result import Status
from onchip.answer.stacks import LayerInNetwork, OverlapMode, StackStrategy, Tiling
from onchip.answer.strategy import FusionStrategy, StrategyFigures
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.verify.rules import Rule
from onchip.verify.strategy import verify_strategy, verify_strategy_claim

PIXEL = Tiling(1, 1, OverlapMode.RECOMPUTE)
CHAIN = (LayerInNetwork("a", ("x",), "A", 4, 4, 64), LayerInNetwork("b", ("A",), "B", 4, 4, 64))
THREE = (*CHAIN, LayerInNetwork("c", ("B",), "C", 4, 4, 64))


def at_home(name: str) -> FusionStrategy:
    return FusionStrategy((StackStrategy(("a",), PIXEL, name), StackStrategy(("b",), PIXEL)))


def chip(level: MemoryLevel, array: ComputeArray | None) -> Accelerator:
    return Accelerator("chip", (SPARE.memory,), (level, SPARE), array=array)


SPARE = MemoryLevel(Memory("spare", 8), None, is_scratchpad=True)
ARRAY = ComputeArray({"K": 2, "OX": 2})


@pytest.mark.parametrize(
    ("serves", "array", "is_one"),
    [
        (None, None, True),
        (None, ARRAY, True),
        (("K", "OX"), ARRAY, True),
        (("K",), ARRAY, False),
        ((), ARRAY, False),
        ((), ComputeArray({"K": 1}, None), False),
    ],
)
def test_a_map_lies_where_one_instance_serves_the_array(
    serves: tuple[str, ...] | None, array: ComputeArray | None, is_one: bool
) -> None:
    machine = chip(MemoryLevel(Memory("buffer", 8), serves), array)
    found = verify_strategy(CHAIN, machine, at_home("buffer"))
    assert [(one.rule, one.subject) for one in found] == ([] if is_one else [(Rule.NOT_HELD, "buffer")])


@pytest.mark.parametrize("holds", [(Operand.INPUT,), (Operand.OUTPUT,), (Operand.WEIGHT,)])
def test_a_map_lies_where_inputs_and_outputs_may(holds: tuple[Operand, ...]) -> None:
    machine = chip(MemoryLevel(Memory("buffer", 8, holds=holds), None), ARRAY)
    (found,) = verify_strategy(CHAIN, machine, at_home("buffer"))
    assert (found.rule, found.detail) == (Rule.NOT_HELD, "'A' lies in it")
    both = chip(MemoryLevel(Memory("buffer", 8, holds=(Operand.INPUT, Operand.OUTPUT)), None), ARRAY)
    assert verify_strategy(CHAIN, both, at_home("buffer")) == ()


def test_what_is_wrong_is_said_with_names_and_numbers() -> None:
    machine = chip(MemoryLevel(Memory("buffer", 7), None), ARRAY)
    (found,) = verify_strategy(CHAIN, machine, at_home("buffer"))
    assert (found.rule, found.subject) == (Rule.HOME_EXCEEDED, "buffer")
    assert found.detail == "64 bits in 56 while stack 0 runs"
    (found,) = verify_strategy(CHAIN, machine, at_home("cache"))
    assert (found.rule, found.subject, found.detail) == (Rule.NO_SUCH_HOME, "cache", "'A' lies in it")
    forked = (*CHAIN, LayerInNetwork("c", ("A", "B"), "C", 4, 4, 64))
    stacks = FusionStrategy((StackStrategy(("a", "b"), PIXEL), StackStrategy(("c",), PIXEL)))
    (found,) = verify_strategy(forked, machine, stacks)
    assert found.detail == "'c' reads 'A' outside the stack that ends with 'b'"
    swapped = FusionStrategy(tuple(StackStrategy((name,), PIXEL) for name in "cab"))
    assert [(one.subject, one.detail) for one in verify_strategy(THREE, machine, swapped)] == [
        ("a", "it runs after 'c'"),
        ("b", "it runs after 'c'"),
    ]
    tall = FusionStrategy((StackStrategy(("a",), replace(PIXEL, rows=5)), StackStrategy(("b",), PIXEL)))
    (found,) = verify_strategy(CHAIN, machine, tall)
    assert (found.subject, found.detail) == ("stack 0", "tiles of 1 x 5 in a map of 4 x 4")


@pytest.mark.parametrize(("capacity", "rules"), [(24, []), (16, [Rule.HOME_EXCEEDED]), (15, [Rule.HOME_EXCEEDED] * 2)])
def test_maps_take_room_until_their_last_reader_has_run(capacity: int, rules: list[Rule]) -> None:
    """A (8 bytes) and B live while b runs, A, B and C while c does, D and C while d does."""
    layers = (
        *CHAIN,
        LayerInNetwork("c", ("A",), "C", 4, 4, 64),
        LayerInNetwork("d", ("B", "C"), "D", 4, 4, 64),
    )
    stacks = (*(StackStrategy((name,), PIXEL, "buffer") for name in "abc"), StackStrategy(("d",), PIXEL))
    machine = chip(MemoryLevel(Memory("buffer", capacity), None), ARRAY)
    found = verify_strategy(layers, machine, FusionStrategy(stacks))
    assert [one.rule for one in found] == rules


def test_a_map_that_nobody_reads_takes_room_while_it_is_written() -> None:
    machine = chip(MemoryLevel(Memory("buffer", 7), None), ARRAY)
    stacks = StackStrategy(("a",), PIXEL), StackStrategy(("b",), PIXEL, "buffer")
    found = verify_strategy(CHAIN, machine, FusionStrategy(stacks))
    assert [one.rule for one in found] == [Rule.OUTPUT_NOT_IN_DRAM, Rule.HOME_EXCEEDED]


HOMES = ("buffer", "spare", "dram")


def test_a_map_in_another_memory_takes_no_room() -> None:
    machine = chip(MemoryLevel(Memory("buffer", 8), None), ARRAY)
    stacks = tuple(StackStrategy((name,), PIXEL, home) for name, home in zip("abc", HOMES, strict=True))
    assert verify_strategy(THREE, machine, FusionStrategy(stacks)) == ()


def test_a_feasible_claim_may_have_any_bound_below_its_value() -> None:
    figures = StrategyFigures(1500, 1.5, 7.0, 3, 64)
    claim = Claim("exact", Status.FEASIBLE, "energy", 1500, 0, figures.named)
    assert verify_strategy_claim(claim, figures) == ()
    (found,) = verify_strategy_claim(replace(claim, status=Status.OPTIMAL), figures)
    assert (found.rule, found.detail) == (Rule.OPTIMAL_UNPROVEN, "0 with an objective value of 1500")


def test_what_costs_nothing_may_be_left_out_or_said() -> None:
    figures = StrategyFigures(1500, 1.5, 7.0, 3, 64, {("buffer", "copy"): 1.5, ("buffer", "input"): 0.0})
    claim = Claim("exact", Status.FEASIBLE, "energy", 1500, 0, figures.named)
    said = {name: one for name, one in figures.named.items() if not name.endswith("input")}
    assert verify_strategy_claim(replace(claim, figures=said), figures) == ()
    assert verify_strategy_claim(replace(claim, figures=said | {"energies_pj.buffer.weight": 0}), figures) == ()
    (found,) = verify_strategy_claim(replace(claim, figures=said | {"energies_pj.buffer.weight": 1}), figures)
    assert found.subject == "result.energies_pj.buffer.weight"


def test_operators_outside_are_those_of_the_network_each_once() -> None:
    machine = chip(MemoryLevel(Memory("buffer", 64), None), None)
    stacks = at_home("buffer").stacks
    found = {
        outside: [
            (one.rule, one.subject)
            for one in verify_strategy(CHAIN, machine, FusionStrategy(stacks, (), outside), "st")
        ]
        for outside in (("s", "t"), ("s",), ("s", "t", "u"), ("s", "t", "s"), ())
    }
    missing = [(Rule.LAYER_MISSING, "s"), (Rule.LAYER_MISSING, "t")]
    twice = [(Rule.OUT_OF_ORDER, "s")] * 2
    unknown = [(Rule.UNKNOWN_LAYER, "u")]
    assert list(found.values()) == [[], missing[1:], unknown, twice, missing]


def test_a_layer_that_runs_alone_is_a_stack_in_one_tile() -> None:
    machine = chip(MemoryLevel(Memory("buffer", 64), None), None)
    layers = (CHAIN[0], replace(CHAIN[1], runs_alone=True))
    whole = Tiling(4, 4, OverlapMode.RECOMPUTE)
    cuts = {
        "alone": (StackStrategy(("a",), PIXEL), StackStrategy(("b",), whole)),
        "in tiles": (StackStrategy(("a",), PIXEL), StackStrategy(("b",), replace(whole, rows=2))),
        "with another": (StackStrategy(("a", "b"), whole),),
    }
    found = {
        how: [(one.rule, one.subject) for one in verify_strategy(layers, machine, FusionStrategy(stacks))]
        for how, stacks in cuts.items()
    }
    rule = Rule.NOT_IN_TILES
    assert found == {"alone": [], "in tiles": [(rule, "stack 1")], "with another": [(rule, "stack 0")]}


@pytest.mark.parametrize("value", [2**63 + 1, 2**64 - 1, 10448572526032297360])
def test_a_value_of_more_than_63_bits_is_right_as_it_is_and_as_a_file_says_it(value: int) -> None:
    figures = StrategyFigures(value, 1.0, 1.0, 1, 1)
    for said in (value, float(value)):
        claim = Claim("exact", Status.FEASIBLE, "edp", said, 0, figures.named)
        assert verify_strategy_claim(claim, figures) == ()
    wrong = Claim("exact", Status.FEASIBLE, "edp", value + 2**20, 0, figures.named)
    assert [one.rule for one in verify_strategy_claim(wrong, figures)] == [Rule.FIGURE_DIFFERS]
