"""The timeline of plans, also with links, and the time of a transfer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.problem import Objective, Order, Problem, Rate
from onchip.answer.program import Allocate, Copy, Free, Plan
from onchip.api.plan import plan_problem
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import DRAM, Access, Direction, Dma, Dram, Link, Memory, MemoryLevel, Port
from onchip.errors import AcceleratorError
from onchip.ir.graph import Graph
from onchip.ir.operator import InPlace
from onchip.ir.tensor import Role, Tensor
from onchip.model.capacity.bounds import greatest_need
from onchip.model.program.recomputation import transfers_of
from onchip.model.timeline.plan_timeline import Links, accesses
from onchip.verify.verifier import verify
from support.programs import CHAIN, HELD, MOVED, SPILLED, TWO_OUTPUTS, TWO_SCRATCHPADS, Case, graph, linked, sram
from support.several import scattered_plans
from support.strategies import graphs
from support.timelines import LOAD_BESIDE_WRITE, TWO_LOADS, chip, clock, intervals, timed

# Timelines computed by hand, and properties of every timeline


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


# Timelines over several scratchpads and their links, by hand, and properties of every timeline


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


# Costs of transfers, by hand and compared with the timeline and the simulator's energy


TWO_WAYS = (Port(Direction.READ, 32), Port(Direction.WRITE, 16))
CHIP = Accelerator(
    "chip",
    (Memory("near", 64), Memory("far", 64)),
    (
        MemoryLevel(Memory("near", 64), is_scratchpad=True, access=Access(64, 1.0, 2.0), ports=TWO_WAYS),
        MemoryLevel(Memory("register", 1)),
        MemoryLevel(Memory("far", 64), is_scratchpad=True, access=Access(32, 0.0004, 3.0, shortest_access_bits=8)),
    ),
    dram=Dram(Access(64, 700, 750), (Port(Direction.READ_WRITE, 24),)),
    dma=Dma(setup_cycles=5),
    links=(Link("near", "far", 8), Link("far", "near")),
)


@pytest.mark.parametrize("objective", [Objective.TRAFFIC, Objective.PEAK])
def test_where_bytes_count_there_are_links_and_no_rates(objective: Objective) -> None:
    bare = replace(CHIP, levels=(), dram=None, dma=None)
    for accelerator in (CHIP, bare):
        transfers = transfers_of(accelerator, objective)
        assert transfers.links == (("near", "far"), ("far", "near"))
        assert transfers.rates == {}


def test_the_slowest_part_of_a_way_says_how_many_cycles() -> None:
    """near sends 32 bits and takes 16, DRAM 24, its link out 8; far keeps up with all."""
    assert transfers_of(CHIP, Objective.DMA_CYCLES).rates == {
        (DRAM, "near"): Rate(5, ((16, 1),)),
        (DRAM, "far"): Rate(5, ((24, 1),)),
        ("near", DRAM): Rate(5, ((24, 1),)),
        ("far", DRAM): Rate(5, ((24, 1),)),
        ("near", "far"): Rate(5, ((8, 1),)),
        ("far", "near"): Rate(5, ((16, 1),)),
    }


def test_without_a_dma_there_is_no_set_up() -> None:
    rates = transfers_of(replace(CHIP, dma=None), Objective.DMA_CYCLES).rates
    assert {rate.setup for rate in rates.values()} == {0}


def test_energy_is_that_of_the_shortest_accesses_at_both_ends() -> None:
    """The shortest access of far is a quarter of one: 0.0001 pJ to read, no whole femtojoule, and 0.75 pJ to write."""
    assert transfers_of(CHIP, Objective.DMA_ENERGY).rates == {
        (DRAM, "near"): Rate(0, ((64, 700_000), (64, 2000))),
        (DRAM, "far"): Rate(0, ((64, 700_000), (8, 750))),
        ("near", DRAM): Rate(0, ((64, 1000), (64, 750_000))),
        ("far", DRAM): Rate(0, ((8, 0), (64, 750_000))),
        ("near", "far"): Rate(0, ((64, 1000), (8, 750))),
        ("far", "near"): Rate(0, ((8, 0), (64, 2000))),
    }


@settings(max_examples=100, deadline=None)
@given(st.sampled_from((1, 2, 8)), st.integers(1, 64), st.floats(0, 1e4), st.floats(0, 1e4), st.integers(1, 10**6))
def test_energy_is_the_simulators_to_half_a_femtojoule_an_access(
    share: int, shortest: int, read_pj: float, write_pj: float, size_bytes: int
) -> None:
    access = Access(shortest * share, read_pj, write_pj, shortest)
    level = MemoryLevel(Memory("near", 64), is_scratchpad=True, access=access)
    chip = Accelerator("chip", (level.memory,), (level,), dram=Dram(Access(8, 0, 0)))
    rates = transfers_of(chip, Objective.DMA_ENERGY).rates
    rounding = 0.5 * -(-size_bytes * 8 // shortest) + 1
    for ends, energy_pj in (((DRAM, "near"), write_pj), (("near", DRAM), read_pj)):
        exact = 1000 * energy_pj * accesses(access, size_bytes)
        assert rates[ends].cost(size_bytes) == pytest.approx(exact, rel=1e-9, abs=rounding)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**6))
def test_cycles_are_those_of_the_timeline(size_bytes: int) -> None:
    x = Tensor("x", size_bytes, Role.INPUT)
    transfers = transfers_of(CHIP, Objective.DMA_CYCLES)
    problem = Problem(Graph("one", (x,), ()), CHIP.scratchpads, Objective.DMA_CYCLES, transfers=transfers)
    links = Links(problem, CHIP)
    for source, target in transfers.rates:
        cycles = links.dma.setup_cycles + links.cycles(size_bytes, source, target)
        assert problem.transfer_cost(x, source, target) == cycles


def without_ports(**levels: tuple[Port, ...]) -> tuple[MemoryLevel, ...]:
    return tuple(replace(level, ports=levels.get(level.memory.name, ())) for level in CHIP.levels)


READ_ONLY = (Port(Direction.READ, 8),)


@pytest.mark.parametrize(
    ("accelerator", "message"),
    [
        (replace(CHIP, dram=None), "accelerator 'chip': its DRAM has no port to read, so nothing can be timed on it"),
        (replace(CHIP, dram=Dram(ports=READ_ONLY)), "its DRAM has no port to write"),
        (replace(CHIP, levels=without_ports(far=READ_ONLY)), "no port leads from 'dram' to 'far'"),
        (replace(CHIP, levels=without_ports()), "link from 'far' to 'near': nothing says how many bits per cycle"),
    ],
)
def test_an_accelerator_that_does_not_say_how_fast_is_refused(accelerator: Accelerator, message: str) -> None:
    with pytest.raises(AcceleratorError) as raised:
        transfers_of(accelerator, Objective.DMA_CYCLES)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("accelerator", "message"),
    [
        (replace(CHIP, dram=None), "accelerator 'chip' does not say what its DRAM's accesses cost"),
        (replace(CHIP, dram=Dram()), "does not say what its DRAM's accesses cost"),
        (
            replace(CHIP, levels=(*CHIP.levels[:2], replace(CHIP.levels[2], access=None))),
            "accelerator 'chip' does not say what accesses to memory 'far' cost",
        ),
    ],
)
def test_an_accelerator_that_does_not_say_what_an_access_costs_is_refused(
    accelerator: Accelerator, message: str
) -> None:
    with pytest.raises(AcceleratorError) as raised:
        transfers_of(accelerator, Objective.DMA_ENERGY)
    assert message in str(raised.value)


def test_where_no_link_leads_nothing_moves() -> None:
    with pytest.raises(AcceleratorError, match="no link leads from 'near' to 'far'"):
        replace(CHIP, links=()).bits_per_cycle("near", "far")
