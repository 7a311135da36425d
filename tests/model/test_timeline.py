"""Timelines computed by hand, and properties of every timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Order, Problem
from onchip.answer.program import Allocate, Copy, Free, Plan
from onchip.api.plan import plan_problem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Memory, MemoryLevel, Port
from onchip.errors import AcceleratorError
from onchip.ir.graph import Graph
from onchip.ir.operator import InPlace
from onchip.model.capacity.bounds import greatest_need
from support.programs import CHAIN, SPILLED, TWO_OUTPUTS, TWO_SCRATCHPADS, Case, graph, sram
from support.strategies import graphs
from support.timelines import LOAD_BESIDE_WRITE, TWO_LOADS, chip, clock, intervals, timed


def test_a_chain_waits_for_its_first_load_and_its_last_write() -> None:
    timeline = timed(CHAIN, f=10, g=20)
    assert intervals(timeline) == ["x 0-4", "f 4-14", "g 14-34", "y 34-39"]
    assert (timeline.total_cycles, timeline.compute_cycles, timeline.stalled_cycles) == (39, 30, 9)
    assert timeline.transfer_cycles == 9
    assert timeline.dma_utilisation == 9 / 39
    assert timeline.mac_utilisation == 4 * 30 / (4 * 39)


def test_a_spill_holds_its_place_until_it_is_written_back() -> None:
    """b takes the place of a; y takes that of x, which g reads until 28."""
    assert intervals(timed(SPILLED)) == ["x 0-4", "f 4-14", "a 14-18", "g 18-28", "a 18-22", "h 28-38", "y 38-42"]


def test_a_write_back_runs_beside_the_next_operator() -> None:
    assert intervals(timed(TWO_OUTPUTS)) == ["x 0-4", "f 4-14", "y 14-18", "g 14-24", "z 24-28"]


def test_one_queue_sets_up_a_transfer_after_the_other() -> None:
    timeline = timed(TWO_LOADS, chip(TWO_LOADS, setup_cycles=3))
    assert intervals(timeline) == ["x 0-7", "u 7-14", "f 14-24", "y 24-31"]


def test_a_second_queue_sets_up_while_the_first_moves_bytes() -> None:
    timeline = timed(TWO_LOADS, chip(TWO_LOADS, queues=2, setup_cycles=3))
    assert intervals(timeline) == ["x 0-7", "u 4-11", "f 11-21", "y 21-28"]
    assert [activity.queue for activity in timeline.activities] == [0, 1, None, 0]


def test_ports_for_reading_and_writing_apart_work_at_once() -> None:
    apart = (Port(Direction.READ, 8), Port(Direction.WRITE, 4))
    together = intervals(timed(LOAD_BESIDE_WRITE, chip(LOAD_BESIDE_WRITE, queues=2)))
    assert together[2:4] == ["y 14-18", "u 18-22"]
    assert intervals(timed(LOAD_BESIDE_WRITE, chip(LOAD_BESIDE_WRITE, apart, queues=2)))[2:4] == ["y 14-22", "u 14-18"]


def test_a_load_waits_until_its_place_is_read_no_more() -> None:
    """u takes the place of x, which f reads until 14."""
    case = LOAD_BESIDE_WRITE.edited(4).edited(9, "copy y sram dram", "copy z sram dram")
    assert intervals(timed(case))[:3] == ["x 0-4", "f 4-14", "u 14-18"]
    elsewhere = case.edited(5, "allocate u sram 12")
    assert intervals(timed(elsewhere))[:3] == ["x 0-4", "f 4-14", "u 4-8"]


def test_what_is_overwritten_is_written_back_first() -> None:
    """b takes the place of a, which goes to DRAM until 18: g waits for that."""
    apart = graph("x:input:4 a:activation:4 b:activation:4 y:output:4", f="x -> a", g="a -> b", h="a b -> y")
    first, second, last = apart.operators
    whole = replace(apart, operators=(first, replace(second, in_place=(InPlace("a", "b"),)), last))
    spills = Case(
        Problem(whole, sram(12)),
        """
        allocate x sram 0
        copy x dram sram
        allocate a sram 4
        compute f
        free x sram
        copy a sram dram
        allocate b sram 4
        compute g
        free a sram
        allocate a sram 0
        copy a dram sram
        allocate y sram 8
        compute h
        copy y sram dram
        """,
    )
    assert intervals(timed(spills)) == ["x 0-4", "f 4-14", "a 14-18", "g 18-28", "a 18-22", "h 28-38", "y 38-42"]


def test_a_tensor_in_two_scratchpads_is_read_where_it_was_written() -> None:
    assert intervals(timed(TWO_SCRATCHPADS)) == ["x 0-4", "f 4-14", "g 14-24", "y 24-29"]


def test_the_slower_end_of_a_transfer_says_how_fast() -> None:
    memory = CHAIN.problem.memories[0]
    level = MemoryLevel(memory, is_scratchpad=True, ports=(Port(Direction.READ, 2), Port(Direction.WRITE, 16)))
    narrow = replace(chip(CHAIN), levels=(level,))
    assert intervals(timed(CHAIN, narrow)) == ["x 0-4", "f 4-14", "g 14-24", "y 24-44"]


def test_energy_is_counted_part_by_part() -> None:
    memory = SPILLED.problem.memories[0]
    level = MemoryLevel(memory, is_scratchpad=True, access=Access(64, 1.0, 3.0, shortest_access_bits=16))
    energy = timed(SPILLED, replace(chip(SPILLED), levels=(level,))).energy
    assert energy.mac_pj == 2.0 * 4 * 30
    # Loads of x and a take 8 bytes, 2 accesses of 32 bits. Write-backs of a and y take the same.
    assert (energy.dram_read_pj, energy.dram_write_pj) == (2 * 8.0, 2 * 16.0)
    # Half an access each: reads of x, x, a, b and the write-backs of a, y; writes of a, b, y and the loads of x, a.
    assert (energy.scratchpad_read_pj, energy.scratchpad_write_pj) == (6 * 0.5, 5 * 0.5 * 3.0)
    assert energy.total_pj == 240 + 16 + 32 + 3 + 7.5


def test_what_is_not_known_is_not_zero() -> None:
    energy = timed(CHAIN).energy
    assert (energy.scratchpad_read_pj, energy.scratchpad_write_pj, energy.total_pj) == (None, None, None)
    assert energy.dram_read_pj == 8.0


def test_a_dram_without_ports_cannot_be_timed() -> None:
    with pytest.raises(AcceleratorError, match="its DRAM has no port to read"):
        timed(CHAIN, replace(chip(CHAIN), dram=None))
    with pytest.raises(AcceleratorError, match="its DRAM has no port to write"):
        timed(CHAIN, chip(CHAIN, (Port(Direction.READ, 8),)))


def test_the_scratchpad_of_a_plan_must_be_one_of_the_accelerators() -> None:
    assert timed(CHAIN, chip(Case(Problem(CHAIN.problem.graph, (Memory("other", 5),)), ""))).total_cycles == 29
    with pytest.raises(AcceleratorError, match="has no scratchpad 'sram', which the plan uses"):
        timed(CHAIN, chip(TWO_SCRATCHPADS))


# Properties of every timeline


@st.composite
def timed_plans(draw: st.DrawFn) -> tuple[Problem, Plan, Accelerator, Mapping[str, int]]:
    network: Graph = draw(graphs())
    need = greatest_need(Problem(network, sram(10**6))).need_bytes
    problem = Problem(network, sram(need + draw(st.integers(0, 6))), order=Order.GIVEN)
    plan = plan_problem(problem).answer
    if plan is None:
        problem = replace(problem, memories=sram(10**6))
        plan = plan_problem(problem).answer
    assert plan is not None
    numbers = st.integers(1, 24)
    directions = st.sampled_from((("read_write",), ("read", "write"), ("read", "read_write")))
    ports = tuple(Port(Direction(each), draw(numbers)) for each in draw(directions))
    accelerator = chip(Case(problem, ""), ports, draw(st.integers(1, 3)), draw(st.integers(0, 5)))
    return problem, plan, accelerator, {operator.name: draw(st.integers(0, 12)) for operator in network.operators}


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(timed_plans())
def test_nothing_is_faster_than_its_busiest_part_nor_slower_than_all_in_turn(
    case: tuple[Problem, Plan, Accelerator, Mapping[str, int]],
) -> None:
    *_, cycles = case
    timeline = clock(*case)
    assert timeline.compute_cycles == sum(cycles.values())
    assert timeline.total_cycles == timeline.compute_cycles + timeline.stalled_cycles
    transfers = [activity for activity in timeline.activities if activity.queue is not None]
    assert timeline.transfer_cycles == sum(activity.cycles for activity in transfers)
    queues = [[activity for activity in transfers if activity.queue == queue] for queue in range(timeline.dma.queues)]
    busiest = max(timeline.compute_cycles, *(sum(activity.cycles for activity in queue) for queue in queues))
    assert busiest <= timeline.total_cycles <= timeline.compute_cycles + timeline.transfer_cycles
    for lane in (*queues, [activity for activity in timeline.activities if activity.queue is None]):
        assert all(first.stop <= second.start for first, second in pairwise(lane))
    assert 0 <= timeline.dma_utilisation <= 1


@settings(max_examples=80, deadline=None)
@given(timed_plans())
def test_no_two_tensors_use_a_byte_at_once_and_none_is_read_before_it_is_written(
    case: tuple[Problem, Plan, Accelerator, Mapping[str, int]],
) -> None:
    """A residency is in use from its first activity to its last."""
    problem, plan, *_ = case
    at = {activity.instruction: activity for activity in clock(*case).activities}
    uses: list[tuple[int, int, list[tuple[int, int]]]] = []
    open_uses: dict[str, int] = {}
    for index, instruction in enumerate(plan.instructions):
        if isinstance(instruction, Allocate):
            open_uses[instruction.tensor] = len(uses)
            stop = instruction.offset_bytes + problem.graph.tensor[instruction.tensor].size_bytes
            uses.append((instruction.offset_bytes, stop, []))
        elif isinstance(instruction, Free):
            del open_uses[instruction.tensor]
        else:
            names = (
                [instruction.tensor]
                if isinstance(instruction, Copy)
                else [tensor.name for tensor in problem.operands(problem.graph.operator[instruction.operator])]
            )
            for name in names:
                uses[open_uses[name]][2].append((at[index].start, at[index].stop))
    for start, stop, times in uses:
        assert all(times[0][1] <= begin for begin, _ in times[1:])
        for other_start, other_stop, other_times in uses:
            if times is not other_times and times and other_times and start < other_stop and other_start < stop:
                first, second = sorted(
                    (
                        (times[0][0], max(end for _, end in times)),
                        (other_times[0][0], max(end for _, end in other_times)),
                    )
                )
                assert first[1] <= second[0]


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(timed_plans(), st.integers(0, 1), st.integers(1, 16))
def test_more_bandwidth_shorter_set_ups_and_faster_operators_are_never_slower(
    case: tuple[Problem, Plan, Accelerator, Mapping[str, int]], which: int, more: int
) -> None:
    problem, plan, accelerator, cycles = case
    assert accelerator.dram is not None
    assert accelerator.dma is not None
    ports = tuple(
        replace(port, bits_per_cycle=port.bits_per_cycle + (more if index == which else 0))
        for index, port in enumerate(accelerator.dram.ports)
    )
    before = clock(*case).total_cycles
    assert (
        clock(problem, plan, replace(accelerator, dram=replace(accelerator.dram, ports=ports)), cycles).total_cycles
        <= before
    )
    quick = replace(accelerator, dma=replace(accelerator.dma, setup_cycles=accelerator.dma.setup_cycles // 2))
    assert clock(problem, plan, quick, cycles).total_cycles <= before
    faster = {name: taken // 2 for name, taken in cycles.items()}
    assert clock(problem, plan, accelerator, faster).total_cycles <= before


@settings(max_examples=40, deadline=None)
@given(timed_plans())
def test_the_energy_of_dram_is_that_of_its_traffic(case: tuple[Problem, Plan, Accelerator, Mapping[str, int]]) -> None:
    problem, plan, accelerator, _ = case
    whole_bytes = replace(accelerator, dram=replace(accelerator.dram, access=Access(8, 1.0, 1.0)))  # type: ignore[type-var]
    energy = clock(problem, plan, whole_bytes, case[3]).energy
    copies = [instruction for instruction in plan.instructions if isinstance(instruction, Copy)]
    size = {tensor.name: tensor.size_bytes for tensor in problem.graph.tensors}
    assert energy.dram_read_pj == sum(size[copy.tensor] for copy in copies if copy.source == DRAM)
    assert energy.dram_write_pj == sum(size[copy.tensor] for copy in copies if copy.target == DRAM)
