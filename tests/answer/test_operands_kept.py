"""A memory keeps tiles of an operand only if it has room for one element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem, operands_kept
from onchip.answer.schedule import Homes
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory, MemoryLevel, Operand
from onchip.ir.layer import Layer
from onchip.model.layer.cost import layer_cost
from onchip.verify.mapping import verify_mapping
from oracles.mapspace import homed_toy, lean_toy, levels_with_room, narrow_toy, toy
from support.nests import one_after_the_other
from support.series import in_one_test

INPUT, WEIGHT, OUTPUT = Operand
SUM = Layer(k=4, c=2, input_bits=8, weight_bits=16, output_bits=8, partial_bits=24)
PRODUCT = replace(SUM, c=1)


def memory(
    capacity_bytes: int, holds: tuple[Operand, ...], *, double_buffered: bool = False, name: str = "memory"
) -> MemoryLevel:
    return MemoryLevel(Memory(name, capacity_bytes, holds=holds), double_buffered=double_buffered)


@pytest.mark.parametrize(
    ("level", "layer", "kept"),
    [
        (memory(1, (INPUT,)), SUM, {INPUT}),
        (memory(1, (INPUT,), double_buffered=True), SUM, set()),
        (memory(2, (INPUT,), double_buffered=True), SUM, {INPUT}),
        (memory(1, (WEIGHT,)), SUM, set()),
        (memory(2, (WEIGHT,)), SUM, {WEIGHT}),
        (memory(2, (WEIGHT,)), replace(SUM, has_weight=False), set()),
        (memory(2, (OUTPUT,)), SUM, set()),
        (memory(3, (OUTPUT,)), SUM, {OUTPUT}),
        (memory(1, (OUTPUT,)), PRODUCT, {OUTPUT}),
        (memory(3, (INPUT, WEIGHT, OUTPUT)), SUM, {OUTPUT}),
        (memory(4, (INPUT, WEIGHT, OUTPUT)), SUM, {OUTPUT, INPUT}),
        (memory(5, (INPUT, WEIGHT, OUTPUT)), SUM, {OUTPUT, INPUT}),
        (memory(6, (INPUT, WEIGHT, OUTPUT)), SUM, {OUTPUT, INPUT, WEIGHT}),
        (memory(2, (INPUT, WEIGHT, OUTPUT)), SUM, {INPUT}),
        (memory(2, (INPUT, WEIGHT)), SUM, {INPUT}),
        (memory(3, (INPUT, WEIGHT)), SUM, {INPUT, WEIGHT}),
    ],
)
def test_a_memory_keeps_that_of_which_an_element_fits_beside_those_served_first(
    level: MemoryLevel, layer: Layer, kept: set[Operand]
) -> None:
    assert [set(one) for one in operands_kept((level,), layer)] == [kept]


def test_only_the_nearest_memory_that_keeps_outputs_has_to_have_room_for_a_sum_in_the_making() -> None:
    below, wide, above = (memory(size, (OUTPUT,), name=f"of {size}") for size in (2, 3, 1))
    assert [list(kept) for kept in operands_kept((below, wide, above), SUM)] == [[], [OUTPUT], [OUTPUT]]


@pytest.mark.parametrize("make", [toy, lean_toy, homed_toy, narrow_toy])
def test_keepers_are_those_found_by_looking_at_every_choice(make: Callable[[int], LayerProblem]) -> None:
    for seed in range(60):
        problem = make(seed)
        found = levels_with_room(problem)
        for operand in problem.layer.operands:
            assert list(problem.keepers(operand)) == found[operand]


@pytest.mark.parametrize("make", [toy, lean_toy, narrow_toy])
def test_one_element_at_a_time_always_fits(make: Callable[[int], LayerProblem]) -> None:
    for seed in range(60):
        problem = replace(make(seed), homes=Homes(), room_bytes={})
        mapping = one_after_the_other(problem)
        assert verify_mapping(problem, mapping) == ()
        assert layer_cost(problem, mapping).energy_pj > 0


def test_a_tile_in_a_memory_that_mappers_leave_out_may_be_legal() -> None:
    """A finished output fits where a partial sum does not, if the whole sum is made in parallel."""
    problem = narrow_problem(partial_bits=16)
    mapping = LayerMapping((Loop("C", 2, "lane"),), output=(Kept("sums", 1),))
    assert [level.memory.name for level in problem.keepers(OUTPUT)] == ["both"]
    assert verify_mapping(problem, mapping) == ()
    assert layer_cost(problem, mapping).energy_pj > 0


def narrow_problem(partial_bits: int) -> LayerProblem:
    machine = lean_toy(0).accelerator
    level = MemoryLevel(Memory("sums", 1, holds=(OUTPUT,)), ("lane",), access=machine.levels[-1].access)
    levels = (level, machine.levels[-1])
    return LayerProblem(Layer(c=2, partial_bits=partial_bits), replace(machine, levels=levels))


@in_one_test("seed", range(40))
def test_without_memories_of_no_use_a_mapping_costs_the_same(seed: int) -> None:
    problem = narrow_toy(seed)
    less = problem.without_memories_of_no_use()
    mapping = one_after_the_other(problem)
    for operand in problem.layer.operands:
        kept, kept_there = ([level.memory.name for level in one.keepers(operand)] for one in (problem, less))
        assert kept == kept_there
    if verify_mapping(problem, mapping) == ():
        found, again = (layer_cost(one, mapping) for one in (problem, less))
        assert (found.energy_pj, found.cycles) == (again.energy_pj, again.cycles)


def test_some_memories_are_of_no_use_and_homes_never() -> None:
    gone = 0
    for seed in range(60):
        problem = narrow_toy(seed)
        less = problem.without_memories_of_no_use()
        gone += len(less.levels) < len(problem.levels)
        names = {level.memory.name for level in less.levels}
        assert {home for _, home in problem.homes} <= names
    assert gone >= 10


def test_a_machine_all_of_whose_memories_are_too_narrow_keeps_them() -> None:
    machine: Accelerator = lean_toy(0).accelerator
    wide = replace(lean_toy(0).layer, input_bits=4096, weight_bits=4096, output_bits=4096, partial_bits=4096)
    problem = LayerProblem(wide, machine)
    assert problem.without_memories_of_no_use() == problem
    assert all(problem.keepers(operand) == () for operand in Operand)
