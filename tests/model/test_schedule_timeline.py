"""The timeline of a schedule's program, compared with a plain one made from the text, and causes that never delay."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction, Plan
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import DRAM, Access, Direction, Dma, Dram, Memory, MemoryLevel, Port
from onchip.errors import AcceleratorError
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.compute_cost import ComputeCost
from onchip.model.timeline.activity import LatencyParts, Wait
from onchip.model.timeline.schedule_timeline import FreedPlaces, ScheduleTimeline, time_schedule
from oracles.schedule_timeline import OperatorFacts, OracleTimeline
from support.schedule_programs import ProgramCase, random_program
from support.series import series


def timed(case: ProgramCase) -> ScheduleTimeline:
    return time_schedule(case.graph, case.accelerator, case.program, case.costs)


@pytest.mark.parametrize("hundred", series(range(20), 6))
def test_every_instruction_runs_when_the_text_says(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        case = random_program(seed)
        facts = {
            name: OperatorFacts(one.cycles, one.dram_read_bits, one.dram_written_bits, one.workspace_bytes)
            for name, one in case.costs.items()
        }
        oracle = OracleTimeline(case.graph, case.accelerator, facts)
        latency = oracle.run(case.program.instructions)
        found = timed(case)
        expected = [(one.number, one.start, one.stop, one.queue) for one in oracle.done]
        assert [(one.instruction, one.start, one.stop, one.queue) for one in found.activities] == expected, seed
        assert found.latency_cycles == latency == found.parts.total


def test_the_random_programs_have_all_that_a_timeline_can_wait_for() -> None:
    """Otherwise the comparison above proves nothing."""
    waits = {
        (one.queue is None, one.waited_for)
        for seed in range(200)
        for one in timed(random_program(seed)).activities
        if one.idle_cycles
    }
    assert waits == set(product((True, False), (Wait.DATA, Wait.PLACE, Wait.DRAM)))


def starts(timeline: ScheduleTimeline) -> list[tuple[int, int]]:
    return [(one.start, one.stop) for one in timeline.activities]


def never_later(one: ScheduleTimeline, other: ScheduleTimeline) -> bool:
    pairs = zip(starts(one), starts(other), strict=True)
    return all(a <= c and b <= d for (a, b), (c, d) in pairs) and one.latency_cycles <= other.latency_cycles


def faster(ports: tuple[Port, ...], factor: int) -> tuple[Port, ...]:
    return tuple(replace(port, bits_per_cycle=port.bits_per_cycle * factor + factor // 2) for port in ports)


@pytest.mark.parametrize("seed", series(range(300), 100))
def test_faster_memories_and_less_work_never_delay_anything(seed: int) -> None:
    case, random = random_program(seed), Random(seed)
    machine, slow = case.accelerator, timed(case)
    assert machine.dram is not None
    dram = replace(machine, dram=replace(machine.dram, ports=faster(machine.dram.ports, random.choice((1, 2, 7)))))
    levels = tuple(replace(one, ports=faster(one.ports, random.choice((1, 3)))) for one in machine.levels)
    setup = replace(machine, dma=Dma(machine.dma.queues, 0) if machine.dma else None)
    for quicker in (dram, replace(machine, levels=levels), setup):
        assert never_later(timed(replace(case, accelerator=quicker)), slow)
    costs = {name: replace(one, cycles=random.randint(0, one.cycles)) for name, one in case.costs.items()}
    assert never_later(timed(replace(case, costs=costs)), slow)
    streamed = {
        name: replace(one, dram_read_bits=random.randint(0, one.dram_read_bits)) for name, one in case.costs.items()
    }
    assert never_later(timed(replace(case, costs=streamed)), slow)


def with_queues(case: ProgramCase, queues: int) -> ScheduleTimeline:
    dma = replace(case.accelerator.dma or Dma(), queues=queues)
    return timed(replace(case, accelerator=replace(case.accelerator, dma=dma)))


@pytest.mark.parametrize("seed", series(range(300), 100))
def test_a_multiple_of_the_queues_never_delays_anything(seed: int) -> None:
    case = random_program(seed)
    for queues, factor in ((1, 2), (1, 3), (2, 2), (3, 2)):
        assert never_later(with_queues(case, queues * factor), with_queues(case, queues))


def test_three_queues_may_be_slower_than_two() -> None:
    """A copy may join the queue of a long copy, for which it did not wait with two queues."""
    assert any(
        with_queues(random_program(seed), 3).latency_cycles > with_queues(random_program(seed), 2).latency_cycles
        for seed in range(2000)
    )


CHIP = Accelerator(
    "chip",
    (Memory("sram", 100),),
    (
        MemoryLevel(
            Memory("sram", 100), is_scratchpad=True, access=Access(8, 1, 1), ports=(Port(Direction.READ_WRITE, 8),)
        ),
    ),
    None,
    ComputeArray(free=1, mac_energy_pj=0.0),
    Dram(Access(8, 10, 10), (Port(Direction.READ_WRITE, 8),)),
    Dma(1, 0),
)
TWO = Graph(
    "two",
    (
        Tensor("x", 10, Role.INPUT),
        Tensor("w", 30, Role.PARAMETER),
        Tensor("y", 10, Role.ACTIVATION),
        Tensor("z", 10, Role.OUTPUT),
    ),
    (Operator("first", "Relu", ("x",), ("y",)), Operator("second", "Conv", ("y",), ("z",), ("w",))),
)
RESIDENT = {name: ComputeCost(0, 50, 0, 0, {}) for name in ("first", "second")}


def of_two(*instructions: Instruction, costs: dict[str, ComputeCost] = RESIDENT) -> ScheduleTimeline:
    return time_schedule(TWO, CHIP, Plan((CHIP.scratchpads[0],), instructions), costs)


def test_a_prefetch_stands_earlier_and_runs_beside_the_computation() -> None:
    before = (Allocate("x", "sram", 0), Copy("x", DRAM, "sram"), Allocate("y", "sram", 10))
    load = (Allocate("w", "sram", 20), Copy("w", DRAM, "sram"))
    after = (Allocate("z", "sram", 50), Compute("second"), Copy("z", "sram", DRAM))
    prefetched = of_two(*before, *load, Compute("first"), *after)
    assert [(one.subject, one.start, one.stop) for one in prefetched.activities] == [
        ("x", 0, 10),
        ("w", 10, 40),
        ("first", 10, 60),
        ("second", 60, 110),
        ("z", 110, 120),
    ]
    assert starts(of_two(*before, Compute("first"), *load, *after))[1:3] == [(10, 60), (10, 40)]


def test_a_copy_waits_for_a_compute_whose_place_it_takes() -> None:
    """The copy has no other reason to wait than its place."""
    timeline = of_two(
        Allocate("x", "sram", 0),
        Copy("x", DRAM, "sram"),
        Allocate("y", "sram", 70),
        Compute("first"),
        Free("x", "sram"),
        Allocate("w", "sram", 5),
        Copy("w", DRAM, "sram"),
        Allocate("z", "sram", 35),
        Compute("second"),
        Copy("z", "sram", DRAM),
    )
    assert starts(timeline)[:3] == [(0, 10), (10, 60), (60, 90)]
    assert timeline.parts == LatencyParts(100, preload=10, waiting_for_room=30, waiting_for_stores=10)


def test_a_place_that_nobody_wrote_hides_nobody_who_used_its_bytes() -> None:
    timeline = of_two(
        Allocate("x", "sram", 60),
        Copy("x", DRAM, "sram"),
        Allocate("y", "sram", 70),
        Compute("first"),
        Free("x", "sram"),
        Allocate("w", "sram", 0),
        Copy("w", DRAM, "sram"),
        Allocate("z", "sram", 80),
        Compute("second"),
        Free("w", "sram"),
        Allocate("x", "sram", 5),
        Free("x", "sram"),
        Allocate("w", "sram", 20),
        Copy("w", DRAM, "sram"),
        Copy("z", "sram", DRAM),
    )
    assert starts(timeline)[3:5] == [(60, 110), (110, 140)]


def test_a_compute_that_streams_has_dram_from_its_beginning_and_may_let_it_go_late() -> None:
    streaming = RESIDENT | {"first": ComputeCost(0, 5, 80, 80, {}), "second": ComputeCost(0, 5, 240, 80, {})}
    timeline = of_two(Compute("first"), Compute("second"), costs=streaming)
    assert starts(timeline) == [(0, 5), (20, 25)]
    assert timeline.latency_cycles == 60
    assert timeline.parts == LatencyParts(10, waiting_for_dram=15 + 35)


def test_a_port_of_no_use_is_refused() -> None:
    assert CHIP.dram is not None
    only_writing = replace(CHIP, dram=replace(CHIP.dram, ports=(Port(Direction.WRITE, 8),)))
    program = Plan((CHIP.scratchpads[0],), (Allocate("x", "sram", 0), Copy("x", DRAM, "sram")))
    with pytest.raises(AcceleratorError, match="no port can read"):
        time_schedule(TWO, only_writing, program, RESIDENT)


@pytest.mark.parametrize("seed", series(range(200), 66))
def test_places_are_free_when_their_bytes_were_last_in_use(seed: int) -> None:
    """The check runs byte by byte."""
    random, places, bytes_free_at = Random(seed), FreedPlaces(), [0] * 40
    for cycle in range(1, 60):
        start = random.randrange(40)
        stop = random.randint(start + 1, 40)
        assert places.take(start, stop)[0] == max(bytes_free_at[start:stop])
        bytes_free_at[start:stop] = [cycle] * (stop - start)
        places.give_back(start, stop, (cycle, cycle))
