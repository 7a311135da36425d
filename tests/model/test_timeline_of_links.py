"""Timelines over several scratchpads and their links, by hand, and properties of every timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Problem
from onchip.answer.program import Copy, Plan
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Dma, Link, MemoryLevel, Port
from onchip.errors import AcceleratorError
from onchip.verify.verifier import verify
from support.programs import HELD, MOVED, Case, graph, linked
from support.several import scattered_plans
from support.timelines import LOAD_BESIDE_WRITE, TWO_LOADS, chip, clock, intervals, timed


def test_a_move_waits_for_its_bytes_and_takes_two_bytes_a_cycle() -> None:
    assert intervals(timed(HELD)) == ["x 0-4", "w 4-6", "f 6-16", "a 16-18", "g 18-28", "y 28-33"]


def test_a_move_does_not_wait_for_dram_on_another_queue() -> None:
    """x is moved from 4 to 6, while u is loaded; f reads it from the scratchpad of the load."""
    case = linked(
        Case(
            Problem(TWO_LOADS.problem.graph, MOVED.problem.memories),
            """
            allocate x left 0
            copy x dram left
            allocate u left 4
            allocate x right 0
            copy u dram left
            copy x left right
            allocate y right 8
            compute f
            copy y right dram
            """,
        ),
        ("left", "right"),
    )
    assert intervals(timed(case, chip(case, queues=3))) == ["x 0-4", "u 4-8", "x 4-6", "f 8-18", "y 18-22"]
    assert intervals(timed(case, chip(case))) == ["x 0-4", "u 4-8", "x 8-10", "f 8-18", "y 18-22"]


CROSSING = Case(
    Problem(graph("x:input:4 u:input:4 y:output:4", f="x u -> y"), MOVED.problem.memories),
    """
    allocate x left 0
    copy x dram left
    allocate u left 4
    copy u dram left
    allocate x right 0
    allocate u right 4
    copy x left right
    copy u left right
    free x left
    free u left
    allocate y left 0
    compute f
    copy y left dram
    """,
)


def test_a_link_moves_one_tensor_at_a_time() -> None:
    """The copies have separate queues and u waits for the link; only its set-up overlaps the move of x."""
    case = linked(CROSSING, ("left", "right"))
    slow = replace(chip(case, (Port(Direction.READ_WRITE, 64),), queues=4), links=(Link("left", "right", 4),))
    assert intervals(timed(case, slow)) == ["x 0-1", "u 1-2", "x 1-9", "u 9-17", "f 17-27", "y 27-28"]
    setting_up = replace(slow, dma=Dma(4, 3))
    assert intervals(timed(case, setting_up))[2:4] == ["x 4-15", "u 12-23"]


def test_what_takes_the_place_of_a_moved_tensor_waits_for_the_move() -> None:
    """u is loaded to the place from which the link reads x from 4 to 12."""
    case = linked(
        Case(
            Problem(TWO_LOADS.problem.graph, MOVED.problem.memories),
            """
            allocate x left 0
            copy x dram left
            allocate x right 0
            copy x left right
            free x left
            allocate u left 0
            copy u dram left
            allocate y left 4
            compute f
            copy y left dram
            """,
        ),
        ("left", "right"),
    )
    slow = replace(chip(case, queues=3), links=(Link("left", "right", 4),))
    assert intervals(timed(case, slow)) == ["x 0-4", "x 4-12", "u 12-16", "f 16-26", "y 26-30"]
    elsewhere = case.edited(5, "allocate u left 8")
    assert intervals(timed(elsewhere, slow)) == ["x 0-4", "x 4-12", "u 4-8", "f 12-22", "y 22-26"]


def test_a_move_waits_until_its_place_is_read_no_more() -> None:
    """u takes the place from which f reads x until 14."""
    case = linked(
        Case(
            Problem(LOAD_BESIDE_WRITE.problem.graph, MOVED.problem.memories),
            """
            allocate x right 0
            copy x dram right
            allocate u left 0
            copy u dram left
            allocate y left 4
            compute f
            free x right
            allocate u right 0
            copy u left right
            copy y left dram
            free u left
            allocate z left 8
            compute g
            copy z left dram
            """,
        ),
        ("left", "right"),
    )
    assert intervals(timed(case, chip(case, queues=2)))[:5] == ["x 0-4", "u 4-8", "f 4-14", "u 14-16", "y 14-18"]
    elsewhere = case.edited(7, "allocate u right 4")
    assert intervals(timed(elsewhere, chip(case, queues=2)))[:4] == ["x 0-4", "u 4-8", "f 4-14", "u 8-10"]


def test_an_operator_does_not_wait_for_a_place_that_it_does_not_write_to() -> None:
    """w is loaded until 8 to the place among the inputs to which a, an output, is moved later."""
    case = HELD.edited(4, "allocate w inputs 8", "copy w dram inputs", "free w inputs", "allocate a outputs 5")
    case = case.edited(9, "allocate a inputs 8")
    expected = ["x 0-4", "w 4-6", "w 6-8", "f 6-16", "a 16-18", "g 18-28", "y 28-33"]
    assert intervals(timed(case)) == expected


def test_a_link_nobody_knows_the_speed_of_cannot_be_timed() -> None:
    with pytest.raises(AcceleratorError, match="link from 'left' to 'right': nothing says how many bits per cycle"):
        timed(MOVED, replace(chip(MOVED), links=(Link("left", "right"),)))
    with pytest.raises(AcceleratorError, match="no link leads from 'left' to 'right'"):
        timed(MOVED, replace(chip(MOVED), links=()))


def test_a_move_reads_one_scratchpad_and_writes_the_other() -> None:
    costs = {"weights": Access(8, 1000.0, 1000.0), "inputs": Access(8, 1.0, 2.0), "outputs": Access(8, 10.0, 20.0)}
    levels = tuple(MemoryLevel(each, is_scratchpad=True, access=costs[each.name]) for each in HELD.problem.memories)
    energy = timed(HELD, replace(chip(HELD), levels=levels)).energy
    # f reads x(4) and w(2), g reads a(3); a and y(5) are read among the outputs.
    assert energy.scratchpad_read_pj == 4 * 1 + 2 * 1000 + 3 * 1 + 3 * 10 + 5 * 10
    # x and w are loaded, a is written among the outputs and again among the inputs, then y is written.
    assert energy.scratchpad_write_pj == 4 * 2 + 2 * 1000 + 3 * 20 + 3 * 2 + 5 * 20


@st.composite
def timed_scattered_plans(draw: st.DrawFn) -> tuple[Problem, Plan, Accelerator, Mapping[str, int]]:
    problem, plan = draw(scattered_plans())
    ports = (Port(Direction.READ, draw(st.integers(1, 24))), Port(Direction.WRITE, draw(st.integers(1, 24))))
    accelerator = chip(Case(problem, ""), ports, draw(st.integers(1, 3)), draw(st.integers(0, 5)))
    return problem, plan, accelerator, {operator.name: draw(st.integers(0, 12)) for operator in problem.graph.operators}


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(timed_scattered_plans())
def test_a_channel_moves_one_tensor_at_a_time_and_nothing_waits_without_need(
    case: tuple[Problem, Plan, Accelerator, Mapping[str, int]],
) -> None:
    timeline = clock(*case)
    transfers = [activity for activity in timeline.activities if activity.queue is not None]
    for ends in {(activity.source, activity.target) for activity in transfers}:
        same_way = [activity for activity in transfers if (activity.source, activity.target) == ends]
        moving = [(activity.start + timeline.dma.setup_cycles, activity.stop) for activity in same_way]
        if DRAM not in ends:
            assert all(first[1] <= second[0] for first, second in pairwise(moving))
    stops = {0, *(activity.stop for activity in timeline.activities)}
    setup_cycles = timeline.dma.setup_cycles
    for activity in timeline.activities:
        assert activity.start in stops or activity.start + setup_cycles in stops
    assert timeline.total_cycles <= timeline.compute_cycles + timeline.transfer_cycles


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(timed_scattered_plans())
def test_bytes_are_read_from_a_scratchpad_only_once_they_are_there(
    case: tuple[Problem, Plan, Accelerator, Mapping[str, int]],
) -> None:
    """Operators read a tensor, and copies send it, only after a write of it into that scratchpad has ended."""
    problem, plan, *_ = case
    written: dict[tuple[str, str], int] = {}
    memories = {memory.name: memory for memory in problem.memories}
    for activity in clock(*case).activities:
        instruction = plan.instructions[activity.instruction]
        if isinstance(instruction, Copy):
            if instruction.source != DRAM:
                assert activity.start >= written[instruction.tensor, instruction.source]
            if instruction.target != DRAM:
                written[instruction.tensor, instruction.target] = activity.stop
        else:
            operator = problem.graph.operator[activity.subject]
            for tensor in problem.operands(operator):
                operand = problem.operand(operator, tensor)
                held = [(tensor.name, name) for name, memory in memories.items() if operand in memory.holds]
                if tensor.name in operator.outputs:
                    written |= dict.fromkeys(held, activity.stop)
                else:
                    assert activity.start >= min(written[place] for place in held if place in written)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(timed_scattered_plans(), st.integers(1, 16))
def test_a_faster_link_is_never_slower(case: tuple[Problem, Plan, Accelerator, Mapping[str, int]], more: int) -> None:
    problem, plan, accelerator, cycles = case
    faster = tuple(replace(link, bits_per_cycle=16 + more) for link in accelerator.links)
    after = clock(problem, plan, replace(accelerator, links=faster), cycles)
    assert after.total_cycles <= clock(*case).total_cycles


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(timed_scattered_plans())
def test_every_byte_that_moves_is_read_at_one_end_and_written_at_the_other(
    case: tuple[Problem, Plan, Accelerator, Mapping[str, int]],
) -> None:
    problem, plan, accelerator, cycles = case
    assert accelerator.dram is not None
    one = Access(8, 1.0, 1.0)
    levels = tuple(replace(level, access=one) for level in accelerator.levels)
    counting = replace(accelerator, levels=levels, dram=replace(accelerator.dram, access=one))
    energy = clock(problem, plan, counting, cycles).energy
    figures = verify(problem, plan).figures
    reads = sum(
        tensor.size_bytes
        for operator in problem.graph.operators
        for tensor in problem.operands(operator)
        if tensor.name not in operator.outputs
    )
    assert (energy.dram_read_pj, energy.dram_write_pj) == (figures.loads, figures.write_backs)
    assert energy.scratchpad_read_pj == reads + figures.write_backs + figures.moved
